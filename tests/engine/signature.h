/* SPDX-License-Identifier: Apache-2.0
 *
 * signature.h -- the whole store as one text, to see that something changed nothing. */
#pragma once

#include "world_check.h"

/* What a recovery must leave alone when there is nothing to recover: everything
 * but its own report, the owners, and the events about these two.  The lines
 * can be compared on one database, not over two. */
/* clang-format off */
#define LINE(columns, from) \
    "SELECT CAST({sqlite:json_array}{postgres:json_build_array}(" columns ") AS TEXT) FROM " from
static const struct db_sql signature_sql[] = {
    { "job", "",
      LINE("id, root_id, retry_of, position, run_at, created_at, finished_at, expires_at, "
           "cancel_at, max_execution_us, project_id, queue_id, recovery_id, schedule_id, "
           "state, class, lane, priority, attempt, max_retries, retries_left, on_crash, "
           "crash_count, retry_state, retry_reason, kind, unique_key, retry_delays, "
           "payload, metadata, cancel_reason", "jobs ORDER BY id") },
    { "run", "",
      LINE("job_id, owner_id, started_at, deadline_at, attention_at, finished_at, "
           "executor, outcome, error_type, percent, missed_beats, claim_id, error_class, "
           "error_message, error_details, result, progress", "runs ORDER BY job_id") },
    { "payload", "", LINE("root_id, payload", "payloads ORDER BY root_id") },
    { "queue", "",
      LINE("id, name, paused, paused_reason, slots, concurrency", "queues ORDER BY id") },
    { "counters", "",
      LINE("queue_id, sum(accepted), sum(scheduled), sum(queued), sum(running), "
           "sum(cancelling), sum(completed), sum(failed), sum(cancelled), sum(pruned)",
           "counters GROUP BY queue_id ORDER BY queue_id") },
    { "reservation", "",
      LINE("id, queue_id, owner_id, state, holder, granted_at, expires_at, ended_at, reason",
           "reservations ORDER BY id") },
    { "schedule", "",
      LINE("id, name, changed_at, cron, time_zone, every_us, paused, passed_until, cursor_at, "
           "next_at, fire_count, fires_pruned, last_fire_at, last_job_id, problem",
           "schedules ORDER BY id") },
    { "fire", "",
      LINE("schedule_id, fire_at, last_at, count, outcome, reason, job_id, at",
           "fires ORDER BY schedule_id, fire_at") },
    { "webhook", "",
      LINE("id, url, events, state, state_reason, failures_in_row", "webhooks ORDER BY id") },
    { "delivery", "",
      LINE("id, webhook_id, type, job_id, body, state, tries, next_at, taken_by, finished_at",
           "deliveries ORDER BY id") },
    { "event", "",
      LINE("id, at, type, queue_id, job_id, recovery_id, data",
           "events WHERE type NOT IN ('recovery.completed', 'owner.died') ORDER BY id") },
};
/* clang-format on */

/* In the world's arena. */
static inline const char *signature(struct world *w)
{
    struct error error = { 0 };
    struct db *db = NULL;
    struct buf text;
    struct slice whole = { 0 };
    if (db_open(&(struct db_options){ .url = w->url,
                                      .sql = signature_sql,
                                      .sql_count = array_len(signature_sql),
                                      .read_only = true,
                                      .busy_ms = 5000,
                                      .schema = "holdfast" },
                &error, &db) < 0)
        fail("%s", error.text);
    buf_init(&text, (size_t)64 << 20);
    for (int i = 0; i < (int)array_len(signature_sql); i++) {
        struct db_rows rows;
        int r = db_query(db, i, NULL, 1, &rows);
        while (r >= 0 && (r = db_next(&rows)) > 0) {
            buf_printf(&text, "%s ", signature_sql[i].name);
            buf_add(&text, db_get_text(&rows, 0));
            buf_byte(&text, '\n');
        }
        if (r < 0)
            fail("%s: %s", signature_sql[i].name, db_error(db));
        db_done(&rows);
    }
    db_close(db);
    check_ok(buf_end(&text, &whole));
    whole = arena_dup(&w->arena, whole);
    buf_release(&text);
    check(whole.p != NULL);
    return whole.p;
}

/* Says where two signatures part. */
static inline void check_same(const char *got, const char *want)
{
    size_t line = 0, i = 0;
    for (; got[i] && got[i] == want[i]; i++)
        if (got[i] == '\n')
            line = i + 1;
    if (got[i] != want[i])
        fail("the store changed: \"%.*s\" was \"%.*s\"", (int)strcspn(got + line, "\n"),
             got + line, (int)strcspn(want + line, "\n"), want + line);
}
