/* SPDX-License-Identifier: Apache-2.0
 *
 * recovery_dry_run.c -- what a recovery would do, by looking only.
 *
 * The same phases, the same judge and the same retry policy as the real one;
 * executors are not asked, so commands that would be adopted count as crashed. */
#include <stdio.h>

#include "base/limits.h"
#include "engine/recovery/recovery_judge.h"

struct dry_run {
    struct store *store;
    const struct settings *settings;
    const struct host *host;
    int64_t now;
    void (*on_item)(void *arg, const struct recovery_item *item);
    void *arg;
    struct arena arena; /* of a chunk */
    struct bench bench;
    struct recovery_counts counts;
};

static bool would_retry(const struct dry_run *d, const struct job_row *row,
                        const struct judged *owner, enum verdict verdict)
{
    struct retry_context how = { .error_type = ERROR_CRASH,
                                 .recovery_fails =
                                     d->settings->recovery_action == RECOVERY_FAIL,
                                 .crash_limit = d->settings->crash_limit };
    bool cancelling = row->job.state == JOB_CANCELLING;
    if (verdict == VERDICT_OUTCOME && (row->run.outcome != JOB_FAILED || cancelling))
        return false;
    if (verdict == VERDICT_OUTCOME || verdict == VERDICT_PENDING) {
        how.error_type = row->run.error.type ? row->run.error.type : ERROR_OTHER;
    } else {
        how.was_cancelling = cancelling;
        how.crash_counts = death_counts(&row->run, owner, d->host);
    }
    return retry_decide(&row->job, &how).retry;
}

static void count(struct recovery_counts *counts, const struct job_row *row,
                  enum verdict verdict, bool retry)
{
    counts->left += verdict == VERDICT_LEFT;
    counts->outcomes += verdict == VERDICT_OUTCOME;
    counts->pending_resolved += verdict == VERDICT_PENDING;
    if (verdict == VERDICT_CRASHED || verdict == VERDICT_NO_RUN) {
        counts->running_failed += row->job.state == JOB_RUNNING;
        counts->cancelling_failed += row->job.state == JOB_CANCELLING;
    }
    counts->retries_created += verdict != VERDICT_LEFT && retry;
}

static int look_at(struct dry_run *d, int64_t id, bool pending)
{
    struct job_row row;
    const struct judged *owner = NULL;
    bool taken = false;
    int r = store_job_get(d->store, id, &d->arena, &row);
    if (r < 0)
        return r == -HF_NOT_FOUND ? 0 : r; /* it ended meanwhile */
    if (row.run.job_id && !pending) {
        owner = judge(d->store, d->host, 0, &d->arena, &d->bench, row.run.owner_id);
        if (!owner)
            return -HF_UNAVAILABLE;
    }
    struct recovery_item item = { .job_id = id,
                                  .queue_id = row.job.queue_id,
                                  .previous_state = row.job.state,
                                  .verdict =
                                      pending ? VERDICT_PENDING : verdict_of(&row, owner),
                                  .ran_us = ran_for(&row, owner, d->now) };
    snprintf(item.kind, sizeof(item.kind), "%.*s", (int)row.job.kind.n, row.job.kind.p);
    if (pending)
        r = source_taken(d->store, &row.job, &taken);
    count(&d->counts, &row, item.verdict,
          !taken && would_retry(d, &row, owner, item.verdict));
    if (d->on_item)
        d->on_item(d->arg, &item);
    return r;
}

static int look_at_holds(struct dry_run *d)
{
    struct reservation *list = NULL;
    size_t held = 0;
    arena_reset(&d->arena);
    int r = store_reservations(d->store, 0, &d->arena, &list, &held);
    d->bench.count = 0;
    d->bench.list = arena_array(&d->arena, struct judged, held + 1);
    if (r == 0 && !d->bench.list)
        r = -HF_NOMEM;
    for (size_t i = 0; i < held && r == 0; i++) {
        if (list[i].owner_id == 0)
            continue;
        const struct judged *owner =
            judge(d->store, d->host, 0, &d->arena, &d->bench, list[i].owner_id);
        if (!owner)
            return -HF_UNAVAILABLE;
        d->counts.reservations_expired += owner->gone;
    }
    return r;
}

static int look_at_jobs(struct dry_run *d, bool pending)
{
    int64_t queue = 0, id = 0;
    int r = 0;
    for (bool more = true; more && r == 0;) {
        struct id_list list = { 0 };
        arena_reset(&d->arena);
        r = pending ? store_pending_retries(d->store, id, RECOVERY_CHUNK_JOBS, &d->arena,
                                            &list)
                    : store_busy_jobs(d->store, queue, id, RECOVERY_CHUNK_JOBS, &d->arena,
                                      &list);
        d->bench.count = 0;
        d->bench.list = arena_array(&d->arena, struct judged, RECOVERY_CHUNK_JOBS);
        if (r == 0 && !d->bench.list)
            r = -HF_NOMEM;
        for (size_t i = 0; i < list.count && r == 0; i++)
            r = look_at(d, list.ids[i], pending);
        more = list.count == RECOVERY_CHUNK_JOBS;
        if (more) {
            id = list.ids[list.count - 1];
            queue = pending ? 0 : list.extra[list.count - 1];
        }
    }
    return r;
}

int recovery_dry_run(struct store *store, const struct settings *settings,
                     const struct host *host, int64_t now,
                     void (*on_item)(void *arg, const struct recovery_item *item),
                     void *arg, struct recovery_counts *ret)
{
    struct dry_run d = { .store = store,
                         .settings = settings,
                         .host = host,
                         .now = now,
                         .on_item = on_item,
                         .arg = arg,
                         .bench = { .we_die = true } };
    arena_init(&d.arena, 64 << 10, (size_t)256 << 20);
    int r = look_at_holds(&d);
    if (r == 0)
        r = look_at_jobs(&d, false);
    if (r == 0)
        r = look_at_jobs(&d, true);
    arena_release(&d.arena);
    if (r == 0)
        *ret = d.counts;
    return r;
}
