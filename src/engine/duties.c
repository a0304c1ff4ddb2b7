/* SPDX-License-Identifier: Apache-2.0
 *
 * duties.c -- what time makes due, in the order of its urgency.
 *
 *   beat       renew our lease, before we judge anyone else's; while the disk takes
 *              nothing it is what is tried, and what proves that it does again
 *   recovery   one chunk, while there is one under way
 *   classes    one chunk, after the kinds of the nodes changed
 *   fire       schedules make their jobs
 *   due        scheduled jobs become queued; expired ones are cancelled
 *   poll       what other processes did: queues, holds, leases, deadlines, work
 *   sweep      the backstop; retention; old keys
 *
 * Each is a transaction of its own that takes a bounded bite, so that commands
 * wait for one bite at most. */
#include "base/limits.h"
#include "engine/recovery/recovery_judge.h"
#include "engine/schedule/endpoint.h"
#include "engine/schedule/fire.h"

enum { DUE_JOBS = 500, RESOLVED_OWNER_DAYS = 30, FOLDED_OWNERS = 10 };
#define PRUNE_INTERVAL_US (60 * US_PER_S)
#define RETRY_LATER_US (200 * US_PER_MS)
#define FAILURE_TOLD_US (60 * US_PER_S)

typedef int64_t (*duty)(struct engine *engine, int64_t now);

/* A duty that fails for a reason of its own does not keep the others from being
 * done; one that found the store away does.  Returns that, or the first failure. */
static int64_t do_each(struct engine *engine, int64_t now, const duty *duties,
                       size_t count)
{
    int64_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t r = duties[i](engine, now);
        if (r < 0 && store_is_to_blame(engine, (int)r))
            return r;
        if (failed == 0 && r < 0)
            failed = r;
    }
    return failed;
}

/* ---- clocks ---- */

/* A suspend, a jump of the clock, or a stop of this process: what we believe of
 * others' leases is old.  Renew ours, and give everyone a full lease.  A sleep that
 * was meant is no stop: beats that arrive end it. */
static void guard_clock(struct engine *engine, int64_t now)
{
    int64_t wall = clock_wall_us(engine->clock), mono = clock_mono_us(engine->clock);
    int64_t wall_step = wall - engine->tick_wall, mono_step = mono - engine->tick_mono;
    int64_t tolerance = engine->settings.lease_us / 3;
    int64_t late = mono_step - engine->tick_sleep;
    bool first = engine->tick_wall == 0;
    engine->tick_wall = wall;
    engine->tick_mono = mono;
    if (first || (llabs(wall_step - mono_step) < tolerance && late < tolerance))
        return;
    engine->totals.jumps++;
    engine->next_beat = 0;
    engine->judge_from = now + engine->settings.lease_us;
    log_event(engine->log, LEVEL_WARN, "clock_jump",
              log_int("wall_ms", wall_step / US_PER_MS),
              log_int("monotonic_ms", mono_step / US_PER_MS));
}

/* PostgreSQL's clock decides about leases.  Between two looks at it we go by our
 * monotonic clock, so that ours may be set wrong, and jump, as it likes. */
static int64_t read_clock(struct tx *tx, void *arg)
{
    struct engine *engine = tx->engine;
    int64_t theirs = 0, mono = clock_mono_us(engine->clock), believed = tx->now;
    (void)arg;
    int r = store_int(tx->store, SQL_DB_NOW, NULL, 0, &theirs);
    if (r < 0 || theirs == 0)
        return r;
    bool first = engine->database.time == 0;
    engine->database.time = theirs;
    engine->database.mono = mono;
    /* Their clock has jumped, or we were suspended: nobody could renew by it yet. */
    if (!first && llabs(theirs - believed) >= engine->settings.lease_us / 3)
        engine->judge_from = theirs + engine->settings.lease_us;
    return 0;
}

int read_database_clock(struct engine *engine)
{
    if (!engine->clock->real || db_engine(engine->store->db) != DB_POSTGRES)
        return 0;
    int64_t r = engine_look(engine, read_clock, NULL);
    return r < 0 ? (int)r : 0;
}

/* ---- beat ---- */

static int64_t beat(struct tx *tx, void *arg)
{
    struct engine *engine = tx->engine;
    bool leased = db_engine(tx->store->db) == DB_POSTGRES;
    int64_t until = leased ? tx->now + engine->settings.lease_us : 0;
    int command = 0;
    (void)arg;
    int r = store_owner_beat(tx->store, engine->owner_id, until, &command);
    if (r == 0)
        engine->lease_until = until;
    engine->totals.work.locks_extended += engine->run_count;
    /* The tables may have grown out of all proportion since. */
    return r < 0 ? r : db_post(tx->store->db, SQL_REPLAN, NULL, 1);
}

static void stop_own_runs(struct engine *engine)
{
    for (size_t i = 0; i < engine->run_count; i++)
        if (!engine->runs[i].stop_told) {
            engine->runs[i].stop_told = true;
            if (engine->hooks.stop_run)
                engine->hooks.stop_run(engine->hooks.arg, engine->runs[i].job_id,
                                       ERROR_CRASH);
        }
}

static int64_t renew(struct engine *engine, bool postgres)
{
    int64_t r = read_database_clock(engine);
    if (r < 0)
        return r;
    if (postgres && engine->owner_id == 0)
        return engine_reborn(engine); /* it has failed before */
    /* On SQLite nobody judges us; the beat is only for "when it stopped", and for a
     * disk that took nothing the last time. */
    if (engine->owner_id == 0 || (!postgres && engine->run_count == 0 && !engine->away))
        return 0;
    r = engine_duty(engine, beat, NULL);
    if (r >= 0)
        endpoints_extended(engine);
    return r == -HF_LATE ? engine_reborn(engine) : r;
}

static int64_t do_beat(struct engine *engine, int64_t now)
{
    if (engine->next_beat > now)
        return 0;
    bool postgres = db_engine(engine->store->db) == DB_POSTGRES;
    int64_t r = renew(engine, postgres);
    engine_set_away(engine, r < 0 ? (int)r : 0);
    if (r >= 0) {
        engine->next_beat = now + engine->settings.lease_us / 3;
        return 0;
    }
    /* Cannot renew: stop our runs before the lease ends, so that a partition
     * does not make two executions. */
    now = engine_now(engine); /* finding out may have taken its time */
    if (postgres && engine->lease_until != 0 &&
        now >= engine->lease_until - engine->settings.lease_us / 3)
        stop_own_runs(engine);
    engine->next_beat = now + RETRY_LATER_US;
    return r;
}

/* ---- due and expired ---- */

static int64_t promote(struct tx *tx, void *arg)
{
    int64_t *next = arg;
    int64_t n = store_promote(tx->store, DUE_JOBS);
    if (n < 0)
        return n;
    for (size_t i = 0; i < tx->store->queue_count && n > 0; i++)
        if (tx->store->queues[i]->delta[COUNT_QUEUED] > 0)
            hint_queue(tx->engine, tx->store->queues[i]->queue.id);
    int r = store_int(tx->store, SQL_JOB_NEXT_DUE, NULL, INT64_MAX, next);
    return r < 0 ? r : n;
}

int64_t expire_some(struct tx *tx)
{
    struct id_list due;
    struct job_row *rows = NULL;
    size_t count = 0;
    int r = store_expired(tx->store, tx->now, DUE_JOBS, &tx->store->arena, &due);
    if (r == 0 && due.count > 0)
        r = store_jobs_load(tx->store, due.ids, due.count, &rows, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        if (transition(rows[i].job.state, ON_EXPIRE).next == 0)
            continue;
        cancel_waiting(tx, &rows[i].job,
                       SLICE("It was not started before its expiresAt."),
                       "job.cancelled");
        r = tx->store->failed;
    }
    if (r == 0)
        r = store_flush(tx->store);
    return r < 0 ? r : due.count == DUE_JOBS;
}

static int64_t expire(struct tx *tx, void *arg)
{
    int64_t *next = arg;
    int64_t r = expire_some(tx);
    if (r >= 0)
        r = store_int(tx->store, SQL_JOB_NEXT_EXPIRY, NULL, INT64_MAX, next);
    return r;
}

static int64_t do_due(struct engine *engine, int64_t now)
{
    int64_t next = INT64_MAX;
    if (engine->next_due > now)
        return 0;
    int64_t r = engine_duty(engine, promote, &next);
    engine->next_due = r < 0 ? now + RETRY_LATER_US : next;
    return r;
}

/* While the store cannot do it, it stays due, and nothing is begun; a row that can
 * never be cancelled must not stop everybody. */
static int64_t do_expiry(struct engine *engine, int64_t now)
{
    int64_t next = INT64_MAX;
    if (engine->next_expiry > now)
        return 0;
    int64_t r = engine_duty(engine, expire, &next);
    if (r >= 0)
        engine->next_expiry = next;
    else if (!store_is_to_blame(engine, (int)r))
        engine->next_expiry = now + RETRY_LATER_US;
    return r;
}

/* Not before the recovery is through: what a crash left running is no reason to skip. */
static int64_t do_fire(struct engine *engine, int64_t now)
{
    if (!engine->ready || engine->next_fire > now)
        return 0;
    int64_t r = fire_step(engine);
    if (r < 0)
        engine->next_fire = now + RETRY_LATER_US;
    return r;
}

/* ---- poll ---- */

/* Recovered retries that are waiting: their lane is looked at from now on. */
static int refresh_lanes(struct tx *tx, int64_t queue_id)
{
    for (int class = CLASS_REMOTE; class <= CLASS_NODE; class ++) {
        int64_t waiting = 0;
        int r = store_int(tx->store, SQL_LANE_PROBE,
                          (struct db_value[]){ db_int(queue_id), db_int(class),
                                               db_int(LANE_RECOVERED) },
                          0, &waiting);
        struct dispatch_queue *queue =
            dispatch_queue(&tx->engine->dispatch, queue_id, -1);
        if (r < 0 || !queue)
            return r;
        if (class == CLASS_NODE)
            queue->lane_recovered = waiting > 0;
        else
            queue->remote_lane_recovered = waiting > 0;
    }
    return 0;
}

static int64_t look_around(struct tx *tx, void *arg)
{
    struct engine *engine = tx->engine;
    (void)arg;
    int r = store_queues_reload(tx->store);
    for (size_t i = 0; i < tx->store->queue_count && r == 0; i++) {
        int64_t id = tx->store->queues[i]->queue.id;
        hint_queue(engine, id); /* another process may have enqueued */
        r = refresh_lanes(tx, id);
    }
    if (r == 0)
        r = store_int(tx->store, SQL_JOB_NEXT_DUE, NULL, INT64_MAX, &engine->next_due);
    if (r == 0)
        r = store_int(tx->store, SQL_JOB_NEXT_EXPIRY, NULL, INT64_MAX,
                      &engine->next_expiry);
    if (r == 0)
        r = store_schedules_next(tx->store, &engine->next_fire);
    int64_t holds = 0, project = 0;
    if (r == 0)
        r = store_int(tx->store, SQL_RESERVATION_COUNT, NULL, 0, &holds);
    if (r == 0)
        engine->holds = holds > 0;
    if (r == 0)
        r = store_int(tx->store, SQL_PROJECT_MARKED, NULL, 0, &project);
    if (project != 0 && engine->next_project == INT64_MAX)
        engine->next_project = tx->now;
    return r < 0 ? r : webhooks_look(tx);
}

static int64_t advance_holds(struct tx *tx, void *arg)
{
    (void)arg;
    return reservation_tick(tx);
}

static int64_t do_look(struct engine *engine, int64_t now)
{
    (void)now;
    return engine_look(engine, look_around, NULL);
}

static int64_t do_holds(struct engine *engine, int64_t now)
{
    (void)now;
    return engine->holds ? engine_duty(engine, advance_holds, NULL) : 0;
}

static int64_t do_reap(struct engine *engine, int64_t now)
{
    (void)now;
    return reap(engine);
}

static int64_t do_poll(struct engine *engine, int64_t now)
{
    static const duty parts[] = { do_look, do_holds, do_reap };
    if (engine->next_poll > now)
        return 0;
    engine->next_poll = now + engine->settings.poll_interval_us;
    return do_each(engine, now, parts, array_len(parts));
}

/* ---- claims for this node ---- */

static int64_t claim_idle(struct tx *tx, void *arg)
{
    (void)arg;
    if (tx->engine->next_expiry <= tx->now)
        return 0; /* there is more to expire than a bite, and none may be begun */
    int r = open_gates(tx, NULL, 0);
    return r < 0 ? r : claim_for_node(tx);
}

/* The start lets go of a little more: another worker, or all of it. */
static void loosen(struct engine *engine, int64_t now)
{
    for (size_t i = 0; i < engine->dispatch.count && engine->next_dispatch <= now; i++)
        engine->dispatch.queues[i].hint = true;
    engine->next_dispatch = dispatch_next(&engine->dispatch, now);
}

static bool wants_work(const struct engine *engine, int64_t now)
{
    if (!engine->ready || local_busy(engine) >= engine->capacity)
        return false;
    for (size_t i = 0; i < engine->dispatch.count; i++) {
        const struct dispatch_queue *queue = &engine->dispatch.queues[i];
        if (queue->hint && dispatch_allowance(&engine->dispatch, queue, now).total > 0)
            return true;
    }
    return false;
}

/* ---- slow ones ---- */

static int64_t forget_keys(struct tx *tx, void *arg)
{
    (void)arg;
    int64_t n = db_run(tx->store->db, SQL_IDEMPOTENCY_PRUNE,
                       (struct db_value[]){ db_int(tx->now), db_int(DUE_JOBS) }, 1);
    if (n >= 0)
        n = db_run(
            tx->store->db, SQL_OWNER_PRUNE,
            (struct db_value[]){ db_int(tx->now - RESOLVED_OWNER_DAYS * US_PER_DAY),
                                 db_int(DUE_JOBS) },
            1);
    return n < 0 ? store_fail(tx->store, (int)n) : n;
}

/* What the dead have counted: added to our own row of the counters, so that
 * neither they nor their rows stay for ever. */
static int64_t fold_counts(struct tx *tx, void *arg)
{
    struct store *store = tx->store;
    struct queue_counts *list = NULL;
    size_t count = 0;
    (void)arg;
    int r = store_counts_take(store, &store->arena, &list, &count);
    for (size_t i = 0; i < count && r == 0; i++)
        for (int c = 0; c < COUNTERS; c++)
            if (list[i].count[c] != 0)
                store_count(store, list[i].queue_id, (enum counter)c, list[i].count[c]);
    return r < 0 ? r : (int64_t)count;
}

static int64_t do_sweep(struct engine *engine, int64_t now)
{
    if (engine->next_sweep == 0)
        engine->next_sweep = now + engine->settings.cleanup_interval_us;
    if (engine->next_sweep > now || engine->recovery)
        return 0;
    int64_t r = sweep(engine);
    engine->next_sweep =
        now + (r < 0 ? RETRY_LATER_US : engine->settings.cleanup_interval_us);
    return r;
}

static int64_t do_project(struct engine *engine, int64_t now)
{
    return engine->next_project > now ? 0 : project_step(engine);
}

static int64_t do_forget(struct engine *engine, int64_t now)
{
    (void)now;
    return engine_duty(engine, forget_keys, NULL);
}

static int64_t do_retention(struct engine *engine, int64_t now)
{
    (void)now;
    return retention_step(engine);
}

static int64_t do_webhooks(struct engine *engine, int64_t now)
{
    (void)now;
    return webhooks_step(engine);
}

static int64_t do_fires_retention(struct engine *engine, int64_t now)
{
    (void)now;
    return retention_fires_step(engine);
}

static int64_t do_fold(struct engine *engine, int64_t now)
{
    int64_t r = 1;
    (void)now;
    for (int i = 0; i < FOLDED_OWNERS && r > 0; i++)
        r = engine_duty(engine, fold_counts, NULL);
    return r;
}

static int64_t do_prune(struct engine *engine, int64_t now)
{
    static const duty parts[] = { do_forget, do_retention, do_fires_retention,
                                  do_webhooks, do_fold };
    if (engine->next_prune > now)
        return 0;
    engine->next_prune = now + PRUNE_INTERVAL_US;
    return do_each(engine, now, parts, array_len(parts));
}

static int64_t earliest(const struct engine *engine, int64_t now, bool failed)
{
    if (failed)
        return now + RETRY_LATER_US;
    if (engine->recovery || engine->reclass.under_way)
        return now;
    const int64_t times[] = { engine->next_due,
                              engine->next_expiry,
                              engine->ready ? engine->next_fire : INT64_MAX,
                              engine->next_poll,
                              engine->next_beat,
                              engine->next_sweep,
                              engine->next_prune,
                              engine->next_dispatch,
                              engine->next_project,
                              engine->next_delivery };
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < array_len(times); i++)
        if (times[i] < next)
            next = times[i];
    return next;
}

static int64_t do_claims(struct engine *engine, int64_t now)
{
    loosen(engine, now);
    return wants_work(engine, now) ? engine_duty(engine, claim_idle, NULL) : 0;
}

static int64_t do_chunk(struct engine *engine, int64_t now)
{
    (void)now;
    if (engine->kinds_changed)
        return kinds_register(engine);
    if (engine->recovery)
        return recovery_step(engine);
    return engine->reclass.under_way ? kinds_step(engine) : 0;
}

static int64_t do_duties(struct engine *engine, int64_t now)
{
    static const duty duties[] = { do_beat, do_chunk, do_fire,  do_due,     do_expiry,
                                   do_poll, do_sweep, do_prune, do_project, do_claims };
    /* Its beat is all a producer owes. */
    return do_each(engine, now, duties, engine->producer ? 1 : array_len(duties));
}

/* Duties come again a few times a second.  A failure is told when it begins, and once a
 * minute while it lasts: an outage must not fill the disk with itself. */
static void tell_failure(struct engine *engine, int64_t now, int failure)
{
    if (failure == engine->failure_told &&
        now - engine->failure_told_at < FAILURE_TOLD_US)
        return;
    log_event(engine->log, LEVEL_WARN, "duty_failed",
              log_text("error", status_of(failure)->name),
              log_text("detail", db_error(engine->store->db)));
    engine->failure_told = failure;
    engine->failure_told_at = now;
}

int64_t engine_tick(struct engine *engine)
{
    int64_t now = engine_now(engine);
    if (engine->broken)
        return now + US_PER_S;
    guard_clock(engine, now);
    int64_t r = do_duties(engine, now);
    webhooks_tell_sender(engine, now);
    if (r < 0)
        tell_failure(engine, now, (int)r);
    /* Whoever found it out: the next one needs a connection, and an owner. */
    if (r == -HF_UNAVAILABLE || engine->away == -HF_UNAVAILABLE)
        (void)!engine_reconnect(engine, 0);
    else if (r == -HF_LATE)
        (void)!engine_reborn(engine);
    bool failed = r < 0 || engine->away == -HF_UNAVAILABLE;
    int64_t next = !engine->producer ? earliest(engine, now, failed)
                   : failed          ? now + RETRY_LATER_US
                                     : engine->next_beat;
    int64_t longest = engine->settings.lease_us / 3; /* of two beats; to be sure */
    engine->tick_sleep = next <= now ? 0 : next - now < longest ? next - now : longest;
    return next;
}
