/* SPDX-License-Identifier: Apache-2.0
 *
 * reaper.c -- no ghost running (I2): owners whose lease ran out, runs over their
 * deadline, runs that take suspiciously long.
 *
 * Nobody is judged too early: not before one full lease after the start or
 * after the database came back, and after a suspend or a jump of the clock our
 * own lease is renewed and one more is waited (see duties.c). */
#include "base/buf.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/recovery/recovery_judge.h"
#include "engine/recovery/recovery_report.h"
#include "store/webhooks.h"

enum { REAP_JOBS = 500 };

static struct slice about(struct tx *tx, const struct owner *owner, const char *why)
{
    struct buf data;
    struct slice text = { 0 };
    buf_init(&data, 4096);
    buf_printf(&data, "{\"name\":%s,\"reason\":%s}", quoted(tx, owner->name),
               quoted(tx, slice_of(why)));
    int r = store_fail(tx->store, buf_end(&data, &text));
    struct slice copy = r == 0 ? arena_dup(&tx->store->arena, text) : (struct slice){ 0 };
    buf_release(&data);
    return copy;
}

int mark_dead(struct tx *tx, const struct owner *owner, const char *why)
{
    bool ended = false;
    int r = store_owner_end(tx->store, owner->id, OWNER_DEAD, &ended);
    if (r == 0 && ended && owner->type == OWNER_NODE)
        r = store_deliveries_give_back(tx->store, owner->id);
    if (r < 0 || !ended)
        return r;
    tell_event(tx, &(struct event){ .type = SLICE("owner.died"),
                                    .owner_id = owner->id,
                                    .data = about(tx, owner, why) });
    log_event(tx->engine->log, LEVEL_WARN, "owner_died", log_int("owner", owner->id),
              log_slice("name", owner->name), log_text("why", why));
    tx->engine->totals.work.reaped_owners++;
    tx->engine->takeover_after = 0; /* its id may be any */
    return 0;
}

/* ---- deadlines and staleness ---- */

static void warn_stale(struct tx *tx, struct job_row *row)
{
    char duration[DURATION_TEXT_BYTES];
    duration_text(tx->now - row->run.started_at, duration);
    tell(tx, &row->job, "job.stale", "\"kind\":%s,\"runningFor\":\"%s\"",
         quoted(tx, row->job.kind), duration);
    log_event(tx->engine->log, LEVEL_WARN, "job_stale", log_int("job", row->job.id),
              log_slice("kind", row->job.kind), log_text("running_for", duration),
              log_int("owner", row->run.owner_id));
    tx->engine->totals.work.stale++;
}

static void time_out(struct tx *tx, struct job_row *row)
{
    struct ending ending = {
        .event = ON_TIMEOUT,
        .error = { .type = ERROR_TIMEOUT,
                   .message = SLICE("The run passed its deadline (maxExecutionTimeMs).") }
    };
    tx->engine->totals.work.timeouts++;
    finish_job(tx, row, &ending);
}

/* A handler cannot be stopped: it is told, shown as overdue, and fails as a
 * timeout when it returns. */
static void tell_overdue(struct tx *tx, struct job_row *row)
{
    tell(tx, &row->job, "job.overdue", "\"kind\":%s", quoted(tx, row->job.kind));
    note_stop(tx->engine, row->job.id, ERROR_TIMEOUT);
}

static void attend(struct tx *tx, struct job_row *row)
{
    struct run *run = &row->run;
    int64_t again = INT64_MAX;
    if (run->job_id == 0 || run->finished_at != 0)
        return; /* ended meanwhile */
    if (!job_state_busy(row->job.state)) {
        again = tx->now + tx->engine->settings.cleanup_interval_us; /* makes no sense */
    } else if (run->deadline_at > tx->now) {
        warn_stale(tx, row);
        again = run->deadline_at;
    } else if (run->executor == EXECUTOR_REMOTE) {
        time_out(tx, row);
        return;
    } else {
        tell_overdue(tx, row);
    }
    store_post(tx->store, SQL_RUN_ATTENTION,
               (struct db_value[]){ db_int(row->job.id), db_int(again) });
}

struct attention {
    int64_t owner_id, next;
    size_t limit;
    int64_t first; /* of the bite */
};

static int64_t next_attention(struct tx *tx, void *arg)
{
    struct attention *a = arg;
    return store_int(tx->store, SQL_RUN_NEXT_ATTENTION,
                     (struct db_value[]){ db_int(a->owner_id) }, INT64_MAX, &a->next);
}

static int64_t bite(struct tx *tx, void *arg)
{
    struct attention *a = arg;
    struct id_list due;
    struct job_row *rows = NULL;
    size_t count = 0;
    int r = store_attention(tx->store, a->owner_id, tx->now, a->limit, &tx->store->arena,
                            &due);
    a->first = r == 0 && due.count > 0 ? due.ids[0] : 0;
    if (r == 0 && due.count > 0)
        r = store_jobs_load(tx->store, due.ids, due.count, &rows, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        attend(tx, &rows[i]);
        r = tx->store->failed;
    }
    return r < 0 ? r : (int64_t)count;
}

static int64_t put_off(struct tx *tx, void *arg)
{
    struct attention *a = arg;
    store_post(tx->store, SQL_RUN_ATTENTION,
               (struct db_value[]){
                   db_int(a->first),
                   db_int(tx->now + tx->engine->settings.cleanup_interval_us) });
    return 1;
}

/* A bite failed for the sake of one row: take them one by one, and put off the
 * one that cannot be ended, so that it stops nobody. */
static int64_t pick(struct engine *engine, struct attention *a)
{
    int64_t done = 0, n = 1;
    a->limit = 1;
    for (int i = 0; i < REAP_JOBS && n > 0; i++) {
        n = engine_duty(engine, bite, a);
        if (n < 0 && a->first != 0 && !store_is_to_blame(engine, (int)n)) {
            recovery_log_unresolved(engine, 0, a->first, (int)n);
            n = engine_duty(engine, put_off, a);
        }
        done += n > 0 ? n : 0;
    }
    return n < 0 ? n : done;
}

/* What is due of an owner's runs, in one bite.  Returns how many it looked at. */
static int64_t attend_owner(struct engine *engine, int64_t owner_id, int64_t now)
{
    struct attention a = { .owner_id = owner_id, .limit = REAP_JOBS };
    int64_t r = engine_look(engine, next_attention, &a);
    if (r < 0 || a.next > now)
        return r;
    r = engine_duty(engine, bite, &a);
    return r < 0 && !store_is_to_blame(engine, (int)r) ? pick(engine, &a) : r;
}

/* ---- leases ---- */

struct judgement {
    struct owner *owners;
    size_t count;
    struct arena arena;
};

static int64_t bury(struct tx *tx, void *arg)
{
    const struct owner *owner = arg;
    struct owner now_there;
    /* Read again under its lock: if it has beaten meanwhile, it lives. */
    int r = store_owner_lock(tx->store, owner->id, &tx->store->arena, &now_there);
    if (r < 0)
        return r == -HF_NOT_FOUND ? 0 : r;
    if (now_there.lease_until != owner->lease_until)
        return 0;
    return mark_dead(tx, &now_there, "its lease ran out, or its process is gone");
}

static bool may_judge(struct engine *engine, const struct owner *owner, int64_t now)
{
    if (owner->id == engine->owner_id)
        return false;
    int64_t leases = now >= engine->judge_from ? now : 0;
    return owner_is_gone(owner, &engine->host, db_engine(engine->store->db), leases);
}

/* A takeover that somebody began and did not finish, or that is ours to begin. */
static int64_t find_unresolved(struct tx *tx, void *arg)
{
    int64_t since =
        tx->engine->settings.recovery_on_startup ? 0 : tx->engine->registered_at;
    return store_int(
        tx->store, SQL_OWNER_UNRESOLVED,
        (struct db_value[]){ db_int(since), db_int(tx->engine->takeover_after) }, 0, arg);
}

static int take_over(struct engine *engine)
{
    int64_t owner_id = 0, r = 0;
    if (engine->takeover_again != 0 && engine_now(engine) >= engine->takeover_again) {
        engine->takeover_again = 0;
        engine->takeover_after = 0;
    }
    if (!engine->recovery)
        r = engine_look(engine, find_unresolved, &owner_id);
    if (r >= 0 && owner_id != 0)
        r = recovery_begin(engine, RECOVERY_TAKEOVER, owner_id);
    return (int)r;
}

static int64_t read_live(struct tx *tx, void *arg)
{
    struct judgement *j = arg;
    return store_owners(tx->store, false, &j->arena, &j->owners, &j->count);
}

int64_t reap(struct engine *engine)
{
    struct judgement j = { 0 };
    int64_t now = engine_now(engine);
    arena_init(&j.arena, 16 << 10, (size_t)64 << 20);
    int64_t r = engine_look(engine, read_live, &j);
    for (size_t i = 0; i < j.count && r >= 0; i++) {
        struct owner *owner = &j.owners[i];
        bool ours = owner->id == engine->owner_id;
        if (may_judge(engine, owner, now)) {
            r = engine_duty(engine, bury, owner);
        } else if (ours || (owner->type == OWNER_REMOTE && now >= engine->judge_from)) {
            r = attend_owner(engine, owner->id, now);
            if (r >= REAP_JOBS)
                engine->next_poll = now; /* there may be more: after the next pile */
        }
    }
    arena_release(&j.arena);
    if (r >= 0)
        r = take_over(engine);
    return r;
}

int64_t sweep(struct engine *engine)
{
    engine->totals.sweeps++;
    engine->takeover_after = 0;
    return recovery_begin(engine, RECOVERY_SWEEP, 0);
}
