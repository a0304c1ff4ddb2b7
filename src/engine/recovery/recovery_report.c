/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/recovery/recovery_report.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/text.h"

enum { REPORT_BYTES = 64 << 10 };

static void tally(struct recovery_tally *list, size_t *count, const char *name)
{
    enum { TALLIES = array_len(((struct recovery *)0)->kinds) };
    size_t i = 0;
    while (i < *count && strcmp(list[i].name, name) != 0)
        i++;
    if (i == *count && *count == TALLIES)
        i = TALLIES - 1; /* the last line stands for all further names */
    else if (i == *count)
        (*count)++;
    if (list[i].count++ == 0)
        snprintf(list[i].name, sizeof(list[i].name), "%s",
                 i == TALLIES - 1 ? "(others)" : name);
}

static const char *queue_name(struct engine *engine, const struct recovery_item *item)
{
    struct queue_entry *entry = store_queue_by_id(engine->store, item->queue_id);
    return entry ? entry->queue.name : "?";
}

void recovery_log_items(struct engine *engine, struct recovery *rec)
{
    for (size_t i = 0; i < rec->item_count; i++) {
        const struct recovery_item *item = &rec->items[i];
        char duration[DURATION_TEXT_BYTES];
        tally(rec->kinds, &rec->kind_tallies, item->kind);
        tally(rec->queues, &rec->queue_tallies, queue_name(engine, item));
        if (rec->logged++ >= LIMIT_RECOVERY_LOG_LINES)
            continue;
        log_event(engine->log, LEVEL_INFO, "job_recovered", log_int("job", item->job_id),
                  log_text("kind", item->kind),
                  log_text("verdict", verdict_name(item->verdict)),
                  log_text("was", job_state_name(item->previous_state)),
                  log_text("ran", duration_text(item->ran_us, duration)),
                  log_int("retry", item->retry_id), log_int("recovery", rec->id));
    }
}

void recovery_log_unresolved(struct engine *engine, int64_t recovery_id, int64_t job_id,
                             int code)
{
    log_event(engine->log, LEVEL_ERROR, "job_unresolved", log_int("job", job_id),
              log_int("recovery", recovery_id), log_text("error", status_of(code)->name),
              log_text("detail", db_error(engine->store->db)));
}

static void add_tallies(struct buf *buf, const char *name,
                        const struct recovery_tally *list, size_t count)
{
    buf_printf(buf, ",\"%s\":{", name);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_byte(buf, ',');
        buf_json(buf, slice_of(list[i].name));
        buf_printf(buf, ":%lld", (long long)list[i].count);
    }
    buf_byte(buf, '}');
}

const char *recovery_type_name(int type)
{
    static const char *const names[] = { [RECOVERY_START] = "start",
                                         [RECOVERY_TAKEOVER] = "takeover",
                                         [RECOVERY_SWEEP] = "sweep",
                                         [RECOVERY_MANUAL] = "manual" };
    return type > 0 && type < (int)array_len(names) ? names[type] : NULL;
}

static void build(struct buf *buf, const struct recovery *rec, int64_t now)
{
    const struct recovery_counts *c = &rec->counts;
    buf_printf(
        buf,
        "{\"type\":\"%s\",\"runningFailed\":%lld,\"cancellingFailed\":%lld,"
        "\"adopted\":%lld,\"outcomesTaken\":%lld,\"left\":%lld,\"retriesCreated\":%lld,"
        "\"pendingResolved\":%lld,\"reservationsExpired\":%lld,\"unresolved\":%lld,"
        "\"durationMs\":%lld",
        recovery_type_name((int)rec->type), (long long)c->running_failed,
        (long long)c->cancelling_failed, (long long)c->adopted, (long long)c->outcomes,
        (long long)c->left, (long long)c->retries_created, (long long)c->pending_resolved,
        (long long)c->reservations_expired, (long long)c->unresolved,
        (long long)((now - rec->started_at) / US_PER_MS));
    add_tallies(buf, "queues", rec->queues, rec->queue_tallies);
    add_tallies(buf, "kinds", rec->kinds, rec->kind_tallies);
    buf_byte(buf, '}');
}

struct report_work {
    struct recovery *rec;
    struct slice text;
    bool inserted;
};

static int64_t write_report(struct tx *tx, void *arg)
{
    struct report_work *work = arg;
    struct recovery *rec = work->rec;
    int64_t n = 0;
    if (rec->id == 0) {
        rec->id = store_id(tx->store);
        work->inserted = true;
        n = db_run(tx->store->db, SQL_RECOVERY_INSERT,
                   (struct db_value[]){ db_int(rec->id), db_int(rec->type),
                                        db_int(tx->engine->owner_id),
                                        db_int(rec->started_at) },
                   1);
    }
    if (n >= 0)
        n = db_run(
            tx->store->db, SQL_RECOVERY_FINISH,
            (struct db_value[]){ db_int(rec->id), db_int(tx->now), db_text(work->text) },
            1);
    if (n < 0)
        return store_fail(tx->store, (int)n);
    tell_event(tx, &(struct event){ .type = SLICE("recovery.completed"),
                                    .recovery_id = rec->id,
                                    .owner_id = tx->engine->owner_id,
                                    .data = work->text });
    return 0;
}

static void log_summary(struct engine *engine, const struct recovery *rec)
{
    const struct recovery_counts *c = &rec->counts;
    const char *event = rec->type == RECOVERY_START      ? "scheduler_startup_cleanup"
                        : rec->type == RECOVERY_TAKEOVER ? "owner_takeover"
                        : rec->type == RECOVERY_SWEEP    ? "zombie_sweep"
                                                         : "manual_recovery";
    log_event(engine->log, c->unresolved ? LEVEL_WARN : LEVEL_INFO, event,
              log_int("running_failed", c->running_failed),
              log_int("cancelling_failed", c->cancelling_failed),
              log_int("adopted", c->adopted),
              log_int("retries_created", c->retries_created),
              log_int("outcomes_taken", c->outcomes),
              log_int("pending_resolved", c->pending_resolved),
              log_int("reservations_expired", c->reservations_expired),
              log_int("unresolved", c->unresolved), log_int("recovery", rec->id),
              log_int("duration_ms", (engine_now(engine) - rec->started_at) / US_PER_MS));
}

static_assert((int)RECOVERY_MANUAL < TOTALS_RECOVERIES, "each type is counted");

static void count(struct engine_totals *totals, const struct recovery *rec, int64_t now)
{
    const struct recovery_counts *c = &rec->counts;
    uint64_t failed = (uint64_t)(c->running_failed + c->cancelling_failed);
    if (rec->type == RECOVERY_SWEEP)
        totals->swept += failed;
    totals->recoveries[rec->type]++;
    totals->recovered +=
        failed + (uint64_t)(c->adopted + c->outcomes + c->pending_resolved);
    histogram_add_time(&totals->recovery_time, now - rec->started_at);
}

int recovery_report_write(struct engine *engine, struct recovery *rec)
{
    struct report_work work = { .rec = rec };
    struct buf buf;
    int64_t r = 0;
    buf_init(&buf, REPORT_BYTES);
    build(&buf, rec, engine_now(engine));
    r = buf_end(&buf, &work.text);
    /* A sweep that found nothing is a line in the log, not a report; neither is a
     * takeover that comes again. */
    bool reports = rec->type != RECOVERY_SWEEP && rec->wait_until == 0;
    if (r == 0 && (rec->id != 0 || reports))
        r = engine_duty(engine, write_report, &work);
    buf_release(&buf);
    if (r < 0) {
        if (work.inserted)
            rec->id = 0;
        return (int)r;
    }
    count(&engine->totals, rec, engine_now(engine));
    log_summary(engine, rec);
    return 0;
}
