/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/recovery/recovery.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/recovery/recovery_judge.h"
#include "engine/recovery/recovery_report.h"

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICTS] = { "left",    "adopted", "no_run",
                                                 "crashed", "outcome", "pending" };
    assert(verdict >= 0 && verdict < VERDICTS);
    return names[verdict];
}

/* ---- resolving one job ---- */

static struct slice printed(struct tx *tx, const char *format, ...) printf_like(2, 3);
static struct slice printed(struct tx *tx, const char *format, ...)
{
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return arena_dup(&tx->store->arena, slice_of(text));
}

static struct slice message_for(struct tx *tx, const struct recovery *rec,
                                const struct judged *owner, const char *duration)
{
    if (rec->type == RECOVERY_SWEEP)
        return SLICE("Worker crashed or timed out (no response after threshold)");
    if (owner && owner->known && owner->owner.type == OWNER_REMOTE)
        return printed(
            tx,
            "Job interrupted: its worker %.*s stopped responding (crash recovery); "
            "it had been running for %s when it was last heard of.",
            (int)utf8_fit(owner->owner.name, 100), owner->owner.name.p, duration);
    if (rec->type == RECOVERY_TAKEOVER && owner && owner->known)
        return printed(
            tx,
            "Job interrupted by the death of node %.*s (crash recovery): it had "
            "been running for %s when that node was last heard of.",
            (int)utf8_fit(owner->owner.name, 100), owner->owner.name.p, duration);
    return printed(
        tx,
        "Job interrupted by service restart (crash recovery): it had been running "
        "for %s when the previous instance stopped.",
        duration);
}

static const char *reason_of(const struct recovery *rec)
{
    static const char *const reasons[] = { [RECOVERY_START] = "startup_recovery",
                                           [RECOVERY_TAKEOVER] = "owner_died",
                                           [RECOVERY_SWEEP] = "zombie_sweep",
                                           [RECOVERY_MANUAL] = "manual_recovery" };
    return reasons[rec->type];
}

static void fail_interrupted(struct tx *tx, struct recovery *rec, struct job_row *row,
                             const struct judged *owner, struct recovery_item *item)
{
    char duration[DURATION_TEXT_BYTES], at[TIME_TEXT_BYTES];
    duration_text(item->ran_us, duration);
    struct ending ending = {
        .event = ON_CRASH,
        .verdict = verdict_name(item->verdict),
        .ran_us = item->ran_us,
        .crash_counts = death_counts(&row->run, owner, &tx->engine->host),
        .error = { .type = ERROR_CRASH,
                   .message = message_for(tx, rec, owner, duration),
                   .details = printed(
                       tx,
                       "{\"cleanupReason\":\"%s\",\"previousStatus\":\"%s\","
                       "\"cleanupTimestamp\":\"%s\",\"runningDuration\":\"%s\","
                       "\"originalErrorType\":\"worker_restart\",\"previousOwner\":%s}",
                       reason_of(rec), job_state_name(row->job.state),
                       time_text(tx->now, at), duration,
                       owner && owner->known ? quoted(tx, owner->owner.name) : "null") }
    };
    if (row->job.state == JOB_CANCELLING)
        rec->counts.cancelling_failed++;
    else
        rec->counts.running_failed++;
    finish_job(tx, row, &ending);
    item->retry_id = ending.retry_id;
    rec->counts.retries_created += ending.retry_id != 0;
}

/* The run knows how it ended; the job did not hear of it. */
static void take_outcome(struct tx *tx, struct recovery *rec, struct job_row *row,
                         struct recovery_item *item)
{
    struct job *job = &row->job;
    int old_state = job->state;
    rec->counts.outcomes++;
    if (row->run.outcome == JOB_FAILED) {
        struct ending ending = { .event = ON_FAIL,
                                 .error = row->run.error,
                                 .verdict = verdict_name(VERDICT_OUTCOME) };
        if (ending.error.type == ERROR_NONE)
            ending.error.type = ERROR_OTHER;
        finish_job(tx, row, &ending);
        item->retry_id = ending.retry_id;
        rec->counts.retries_created += ending.retry_id != 0;
        return;
    }
    job->state = row->run.outcome;
    job->finished_at = row->run.finished_at;
    store_job_update(tx->store, job, old_state);
    hint_queue(tx->engine, job->queue_id);
    tell(tx, job, "job.recovered", "\"kind\":%s,\"verdict\":\"outcome\",\"state\":\"%s\"",
         quoted(tx, job->kind), job_state_name(job->state));
}

static void adopt(struct tx *tx, struct recovery *rec, struct job_row *row)
{
    rec->counts.adopted++;
    note_adopted(tx->engine, row);
    store_post(tx->store, SQL_RUN_OWNER,
               (struct db_value[]){ db_int(row->job.id), db_int(tx->engine->owner_id) });
    tell(tx, &row->job, "job.recovered", "\"kind\":%s,\"verdict\":\"adopted\"",
         quoted(tx, row->job.kind));
}

/* The recovery gets its row, and what follows belongs to it. */
static int have_id(struct tx *tx, struct recovery *rec)
{
    if (rec->id == 0) {
        rec->id = store_id(tx->store);
        if (rec->id == 0)
            return tx->store->failed;
        int64_t n = db_run(tx->store->db, SQL_RECOVERY_INSERT,
                           (struct db_value[]){ db_int(rec->id), db_int(rec->type),
                                                db_int(tx->engine->owner_id),
                                                db_int(rec->started_at) },
                           1);
        if (n < 0)
            return store_fail(tx->store, (int)n);
    }
    tx->recovery_id = rec->id;
    return 0;
}

static bool old_enough(const struct tx *tx, const struct recovery *rec,
                       const struct job_row *row)
{
    int64_t since = row->run.job_id ? row->run.started_at : row->job.run_at;
    return since <= tx->now - rec->older_than_us;
}

static void note_item(struct recovery *rec, const struct job_row *row,
                      struct recovery_item *item)
{
    assert(rec->item_count < RECOVERY_CHUNK_JOBS);
    snprintf(item->kind, sizeof(item->kind), "%.*s", (int)row->job.kind.n,
             row->job.kind.p);
    rec->items[rec->item_count++] = *item;
}

static int resolve_row(struct tx *tx, struct recovery *rec, struct bench *bench,
                       struct job_row *row)
{
    struct engine *engine = tx->engine;
    const struct judged *owner = NULL;
    if (!job_state_busy(row->job.state))
        return 0; /* somebody was quicker */
    if (row->run.job_id != 0) {
        owner = judge(tx->store, &engine->host, engine->owner_id, &tx->store->arena,
                      bench, row->run.owner_id);
        if (!owner)
            return tx->store->failed ? tx->store->failed : -HF_NOMEM;
    }
    struct recovery_item item = { .job_id = row->job.id,
                                  .queue_id = row->job.queue_id,
                                  .previous_state = row->job.state,
                                  .verdict = verdict_of(row, owner),
                                  .ran_us = ran_for(row, owner, tx->now) };
    /* What we have told to stop ourselves, before we were reborn, is not taken up again. */
    if (item.verdict == VERDICT_CRASHED && owner && !owner->self && engine->hooks.adopt &&
        engine->hooks.adopt(engine->hooks.arg, row))
        item.verdict = VERDICT_ADOPTED;
    if (item.verdict == VERDICT_CRASHED) {
        int64_t until =
            command_until(&row->run, owner, &engine->host, engine->state_dir, tx->now);
        if (until > rec->wait_until)
            rec->wait_until = until;
        if (until > 0)
            item.verdict = VERDICT_LEFT;
    }
    if (item.verdict == VERDICT_LEFT ||
        (rec->only_adopt && item.verdict != VERDICT_ADOPTED) ||
        (rec->older_than_us > 0 && !old_enough(tx, rec, row))) {
        rec->counts.left++;
        return 0;
    }
    int r = have_id(tx, rec);
    if (r < 0)
        return r;
    if (item.verdict == VERDICT_ADOPTED)
        adopt(tx, rec, row);
    else if (item.verdict == VERDICT_OUTCOME)
        take_outcome(tx, rec, row, &item);
    else
        fail_interrupted(tx, rec, row, owner, &item);
    note_item(rec, row, &item);
    return tx->store->failed;
}

/* ---- chunks ---- */

static int64_t busy_chunk(struct tx *tx, void *arg)
{
    struct recovery *rec = arg;
    struct store *store = tx->store;
    struct id_list list;
    struct job_row *rows = NULL;
    size_t count = 0;
    int r = rec->type == RECOVERY_TAKEOVER
                ? store_open_runs(store, rec->dead_owner, rec->after_id, rec->limit,
                                  &store->arena, &list)
                : store_busy_jobs(store, rec->after_queue, rec->after_id, rec->limit,
                                  &store->arena, &list);
    if (r == 0)
        r = store_jobs_load(store, list.ids, list.count, &rows, &count);
    struct bench bench = { .list = arena_array(&store->arena, struct judged, count + 1) };
    if (r == 0 && !bench.list)
        r = store_fail(store, -HF_NOMEM);
    /* Where to go on; also past a row that cannot be resolved. */
    if (r == 0 && list.count > 0) {
        rec->after_id = list.ids[list.count - 1];
        rec->after_queue = list.extra[list.count - 1];
    }
    for (size_t i = 0; i < count && r == 0; i++)
        r = resolve_row(tx, rec, &bench, &rows[i]);
    return r < 0 ? r : (int64_t)list.count;
}

static int64_t pending_chunk(struct tx *tx, void *arg)
{
    struct recovery *rec = arg;
    struct store *store = tx->store;
    struct id_list list;
    struct job_row *rows = NULL;
    size_t count = 0;
    int r = store_pending_retries(store, rec->after_id, rec->limit, &store->arena, &list);
    if (r == 0)
        r = store_jobs_load(store, list.ids, list.count, &rows, &count);
    if (r == 0 && list.count > 0)
        rec->after_id = list.ids[list.count - 1];
    for (size_t i = 0; i < count && r == 0; i++) {
        if (rows[i].job.state != JOB_FAILED || rows[i].job.retry_state != RETRY_PENDING)
            continue;
        r = have_id(tx, rec);
        if (r < 0)
            break;
        struct recovery_item item = { .job_id = rows[i].job.id,
                                      .queue_id = rows[i].job.queue_id,
                                      .previous_state = JOB_FAILED,
                                      .verdict = VERDICT_PENDING,
                                      .ran_us = ran_for(&rows[i], NULL, tx->now) };
        struct ending ending = { .verdict = verdict_name(VERDICT_PENDING) };
        r = source_taken(store, &rows[i].job, &ending.source_taken);
        if (r < 0)
            break;
        resolve_pending(tx, &rows[i], &ending);
        item.retry_id = ending.retry_id;
        rec->counts.pending_resolved++;
        rec->counts.retries_created += ending.retry_id != 0;
        note_item(rec, &rows[i], &item);
        r = store->failed;
    }
    return r < 0 ? r : (int64_t)list.count;
}

/* Reservations that a dead node held for a direct caller; others may still be
 * in use by their holders and live on until they expire. */
static int64_t holds_chunk(struct tx *tx, void *arg)
{
    struct recovery *rec = arg;
    struct store *store = tx->store;
    struct reservation *list = NULL;
    size_t count = 0;
    struct bench bench = { 0 };
    int r = store_reservations(store, 0, &store->arena, &list, &count);
    bench.list = arena_array(&store->arena, struct judged, count + 1);
    if (r == 0 && !bench.list)
        r = store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count && r == 0; i++) {
        struct reservation *v = &list[i];
        if (v->owner_id == 0)
            continue;
        const struct judged *owner = judge(store, &tx->engine->host, tx->engine->owner_id,
                                           &store->arena, &bench, v->owner_id);
        if (!owner)
            return store->failed;
        if (!owner->gone)
            continue;
        int old_state = v->state;
        v->state = RESERVATION_EXPIRED;
        v->ended_at = tx->now;
        v->reason =
            SLICE("Its holder, a direct call, died with the node that served it.");
        r = have_id(tx, rec);
        if (r == 0)
            r = store_reservation_update(store, v, old_state);
        if (r == 0)
            r = reservation_ended(tx, v);
        rec->counts.reservations_expired++;
        hint_queue(tx->engine, v->queue_id);
        tell(tx, &(struct job){ .queue_id = v->queue_id }, "reservation.expired",
             "\"reservation\":\"%lld\",\"holder\":%s,\"reason\":\"recovery\"",
             (long long)v->id, quoted(tx, v->holder));
    }
    return r < 0 ? r : 0;
}

/* ---- the machine ---- */

int recovery_begin(struct engine *engine, enum recovery_type type, int64_t dead_owner)
{
    if (engine->recovery)
        return -HF_BUSY;
    struct recovery *rec = new(struct recovery);
    if (rec)
        rec->items = calloc(RECOVERY_CHUNK_JOBS, sizeof(*rec->items));
    if (!rec || !rec->items) {
        free(rec);
        return -HF_NOMEM;
    }
    rec->type = type;
    rec->dead_owner = dead_owner;
    rec->started_at = engine_now(engine);
    rec->limit = rec->chunk = RECOVERY_CHUNK_JOBS;
    rec->older_than_us =
        type == RECOVERY_SWEEP ? engine->settings.zombie_threshold_us : 0;
    rec->only_adopt = type == RECOVERY_START && !engine->settings.recovery_on_startup;
    rec->phase = rec->only_adopt || type == RECOVERY_SWEEP ? PHASE_BUSY : PHASE_HOLDS;
    engine->recovery = rec;
    return 0;
}

void recovery_free(struct recovery *rec)
{
    if (!rec)
        return;
    free(rec->items);
    free(rec);
}

static void next_phase(struct recovery *rec)
{
    rec->phase++;
    if (rec->phase == PHASE_PENDING &&
        (rec->only_adopt || rec->type == RECOVERY_TAKEOVER))
        rec->phase++;
    rec->after_queue = rec->after_id = 0;
    rec->limit = rec->chunk;
    rec->single_left = 0;
}

/* The chunk failed and was rolled back.  Look for the row to blame one by one;
 * if it is this one, report it and pass it over. */
static int step_failed(struct engine *engine, struct recovery *rec, int r, int64_t queue,
                       int64_t id, bool had_id)
{
    int64_t bad = rec->after_id;
    bool alone = rec->limit == 1;
    if (!had_id)
        rec->id = 0;
    rec->counts = rec->before;
    rec->item_count = 0;
    if (store_is_to_blame(engine, r)) {
        rec->after_queue = queue;
        rec->after_id = id;
        return r;
    }
    if (alone && bad != id) {
        rec->counts.unresolved++; /* the cursor stays behind it */
        recovery_log_unresolved(engine, rec->id, bad, r);
        return 1;
    }
    rec->after_queue = queue;
    rec->after_id = id;
    rec->limit = 1;
    rec->single_left = RECOVERY_CHUNK_JOBS;
    return alone ? r : 1;
}

static int finish(struct engine *engine, struct recovery *rec)
{
    int r = recovery_report_write(engine, rec);
    if (r < 0)
        return r;
    engine->recovery = NULL;
    if (rec->type == RECOVERY_START)
        engine_workers_may_start(engine, &rec->counts);
    if (rec->type == RECOVERY_TAKEOVER) {
        engine->next_poll = 0; /* others may have died with it */
        if (rec->counts.unresolved > 0 || rec->wait_until > 0)
            engine->takeover_after = rec->dead_owner;
        if (rec->wait_until > 0 &&
            (engine->takeover_again == 0 || rec->wait_until < engine->takeover_again))
            engine->takeover_again = rec->wait_until;
    }
    recovery_free(rec);
    return 0;
}

/* Whoever waits meanwhile should not notice; a disk or machine may be slow. */
static void fit_chunk(struct recovery *rec, int64_t took_us)
{
    if (rec->limit == 1)
        return;
    if (took_us > 2 * RECOVERY_CHUNK_US)
        rec->chunk /= 2;
    else if (took_us < RECOVERY_CHUNK_US / 2)
        rec->chunk *= 2;
    if (rec->chunk < LEAST_RECOVERY_CHUNK_JOBS)
        rec->chunk = LEAST_RECOVERY_CHUNK_JOBS;
    if (rec->chunk > RECOVERY_CHUNK_JOBS)
        rec->chunk = RECOVERY_CHUNK_JOBS;
}

int recovery_step(struct engine *engine)
{
    struct recovery *rec = engine->recovery;
    assert(rec && rec->phase != PHASE_DONE);
    if (rec->phase == PHASE_REPORT)
        return finish(engine, rec);

    static int64_t (*const chunks[])(struct tx *,
                                     void *) = { [PHASE_HOLDS] = holds_chunk,
                                                 [PHASE_BUSY] = busy_chunk,
                                                 [PHASE_PENDING] = pending_chunk };
    int64_t queue = rec->after_queue, id = rec->after_id;
    bool had_id = rec->id != 0;
    rec->before = rec->counts;
    rec->item_count = 0;
    int64_t began = clock_mono_us(engine->clock);
    int64_t n = engine_duty(engine, chunks[rec->phase], rec);
    if (n < 0)
        return step_failed(engine, rec, (int)n, queue, id, had_id);
    recovery_log_items(engine, rec);
    fit_chunk(rec, clock_mono_us(engine->clock) - began);
    if ((size_t)n < rec->limit)
        next_phase(rec);
    else if (rec->single_left == 0 || --rec->single_left == 0)
        rec->limit = rec->chunk;
    return 1;
}
