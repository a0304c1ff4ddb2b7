/* SPDX-License-Identifier: Apache-2.0
 *
 * million.h -- a store that has grown, and what is asked of it. */
#pragma once

#include <stdio.h>

#include "store/store.h"
#include "test.h"

/* ---- what is in the store ----
 *
 * Queue 1, class 1 (nodes), kind "crawl":
 *   1,000,000 queued, positions 1 to 1,000,000, ids from 1,000,001
 *         100 queued and fresh, positions from 2,000,001
 *         100 in the recovered lane, positions from 3,000,001
 * Queue 1, class 0 (remote workers), kind "mail": 100 queued, behind all these
 *     200,000 finished with their runs; 10,000 failed, of which 50 are pending
 *      20,000 running, with open runs: of owner 7, 500 of the dead owner 9,
 *             and 100 of owner 8, the last ones
 *       1,000 scheduled one after another, 19,000 for one moment
 *       1,000 with a key, of which one is live
 * Queue 2 has a limit; 20 of the running ones are its.
 * 50,000 owners that stopped long ago.
 * Webhook 1: 100,000 deliveries that are due, of which owner 7 is sending the first 16,
 * and 100,000 that were delivered; webhook 2: none.
 * 20,000 schedules, ids from 11,000,001, due one after another, all of them endpoints;
 *        5,000 of the finished jobs are of the first. */

/* Jobs numbered n: how many, and their columns. */
static const char job_columns[] =
    "id, root_id, position, run_at, created_at, queue_id, state, class, lane, priority, "
    "kind, unique_key, retry_state, retry_reason, max_execution_us, project_id, "
    "max_retries, retries_left, retry_delays, payload";
static const char same_columns[] = "1000000, 1, 3, 3, '60', 'null'";

static const struct series {
    int count;
    const char *columns;
} series[] = {
    { 1000000, "1000000 + n, n, n, n, n, 1, 2, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 100, "3000000 + n, n, 2000000 + n, n, n, 1, 2, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 100, "3100000 + n, n, 3000000 + n, n, n, 1, 2, 1, 1, 5, 'crawl', NULL, 0, 0" },
    { 100, "3200000 + n, n, 4000000 + n, n, n, 1, 2, 0, 0, 5, 'mail', NULL, 0, 0" },
    { 200000, "4000000 + n, n, n, n, n, 1, 5, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 9950, "5000000 + n, n, n, n, n, 1, 6, 1, 0, 5, 'crawl', NULL, 3, 1" },
    { 50, "5009950 + n, n, n, n, n, 1, 6, 1, 0, 5, 'crawl', NULL, 1, 0" },
    { 20, "6000000 + n, n, n, n, n, 2, 3, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 19980, "6000020 + n, n, n, n, n, 1, 3, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 1000, "7000000 + n, n, n, n, n, 1, 1, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 19000, "7001000 + n, n, n, 5000, n, 1, 1, 1, 0, 5, 'crawl', NULL, 0, 0" },
    { 999, "8000000 + n, n, n, n, n, 1, 5, 1, 0, 1, 'crawl', 'key', 0, 0" },
    { 1, "8000999 + n, n, n, n, n, 1, 2, 1, 0, 1, 'crawl', 'key', 0, 0" },
};

static const char others[] =
    "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, attention_at, "
    "finished_at, executor, outcome, claim_id) SELECT id, 7, 1, 2, 3, 4, 1, 5, 'claim' "
    "FROM jobs WHERE id BETWEEN 4000001 AND 4200000;"
    "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, attention_at, executor, "
    "claim_id) SELECT id, CASE WHEN id > 6019900 THEN 8 WHEN id > 6019400 THEN 9 ELSE 7 "
    "END, 1, 2, id, 1, 'claim' FROM jobs WHERE id BETWEEN 6000001 AND 6020000;"
    "INSERT INTO queues (id, name, created_at, concurrency) VALUES (1, 'big', 1, 0), "
    "(2, 'limited', 1, 30);"
    "INSERT INTO node_kinds (kind, owner_id) VALUES ('crawl', 7), ('sing', 8);"
    "INSERT INTO owners (id, type, state, name, started_at, seen_at, ended_at) "
    "VALUES (7, 1, 1, 'seven', 1, 1, NULL), (8, 1, 1, 'eight', 1, 1, NULL), "
    "(9, 1, 3, 'nine', 1, 1, 5);"
    "INSERT INTO owners (id, type, state, name, started_at, seen_at, ended_at) "
    "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 50000) "
    "SELECT 9000000 + n, 2, 2, 'stopped', 1, 1, n FROM g;"
    "INSERT INTO deliveries (id, webhook_id, type, body, state, created_at, next_at, "
    "taken_by, finished_at) "
    "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 200000) "
    "SELECT 9100000 + n, 1, 'job.failed', '{}', CASE WHEN n > 100000 THEN 2 ELSE 1 END, "
    "n, CASE WHEN n > 100000 THEN NULL WHEN n <= 16 THEN 900000 ELSE n END, CASE WHEN n "
    "<= 16 THEN 7 END, CASE WHEN n > 100000 THEN n END FROM g;"
    "INSERT INTO events (at, type, job_id) "
    "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 100000) "
    "SELECT n, 'job.failed', CASE WHEN n % 1000 > 0 THEN n END FROM g;"
    "INSERT INTO schedules (id, project_id, name, created_at, changed_at, time_zone, "
    "every_us, anchor_at, cursor_at, next_at, kind) "
    "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 20000) "
    "SELECT 11000000 + n, 1, 's' || n, 1, 1, 'UTC', 1000000, 1, 1, n, 'http' FROM g;"
    "INSERT INTO endpoints (id, request) SELECT id, '{}' FROM schedules;"
    "UPDATE jobs SET schedule_id = 11000001 WHERE id BETWEEN 4000001 AND 4005000;"
    "INSERT INTO reservations (id, queue_id, state, holder, created_at, wait_until, "
    "ttl_us) VALUES (1, 1, 4, 'somebody', 1, 1, 1), (2, 1, 1, 'else', 1, 1, 1);";

/* Inserts a series of jobs, `count` of them. */
static inline void insert_series(struct store *store, const struct series *jobs,
                                 int count)
{
    char script[1000];
    snprintf(script, sizeof(script),
             "INSERT INTO jobs (%s) WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL "
             "SELECT n + 1 FROM g WHERE n < %d) SELECT %s, %s FROM g",
             job_columns, count, jobs->columns, same_columns);
    if (db_script(store->db, script) < 0)
        fail("%s", db_error(store->db));
}

/* Fills an empty store, with so many of the first series. */
static inline void fill_store(struct store *store, int waiting)
{
    int64_t start = test_monotonic_us();
    check_ok(store_begin(store, 1));
    for (size_t i = 0; i < array_len(series); i++)
        insert_series(store, &series[i], i == 0 ? waiting : series[i].count);
    if (db_script(store->db, others) < 0)
        fail("%s", db_error(store->db));
    check_ok(store_commit(store));
    test_note("filled in %lld ms", (long long)((test_monotonic_us() - start) / 1000));
}

/* ---- what is asked ---- */

/* Values are words: a number; +N, which grows by one from row to row of a set;
 * - for NULL; anything else is a text. */
struct probe {
    enum sql sql;
    const char *values;
    int rows;          /* of parameters */
    int yields;        /* rows that come back, or -1: not looked at */
    int touches;       /* rows it has a reason to touch */
    const char *index; /* that must be used */
};

static const struct probe probes[] = {
    /* Claims: any, the fresh behind a million old ones and the old before them,
     * only our kinds, the recovered lane, the other class, one job. */
    { SQL_CLAIM, "1 1 0 10", 1, 10, 10, "jobs_ready" },
    { SQL_CLAIM, "1 1 0 100", 1, 100, 100, "jobs_ready" },
    { SQL_CLAIM, "1 0 0 10", 1, 10, 10, "jobs_ready" },
    { SQL_CLAIM, "1 1 1 10", 1, 10, 10, "jobs_ready" },
    { SQL_CLAIM, "2 1 0 10", 1, 0, 10, "jobs_ready" },
    { SQL_CLAIM_SLICE, "1 1 0 10 0 5 2000000 9223372036854775807", 1, 10, 10,
      "jobs_ready" },
    { SQL_CLAIM_SLICE, "1 1 0 10 0 5 -9223372036854775808 2000000", 1, 10, 10,
      "jobs_ready" },
    { SQL_CLAIM_SLICE, "1 1 0 10 7 5 2000000 9223372036854775807", 1, 10, 10,
      "jobs_ready" },
    { SQL_CLAIM_SLICE, "1 1 0 10 0 9 -9223372036854775808 2000000", 1, 0, 10,
      "jobs_ready" },
    { SQL_CLAIM_KINDS, "1 1 0 10 7", 1, 10, 10, "jobs_ready" },
    { SQL_CLAIM_KINDS, "1 1 1 10 7", 1, 10, 10, "jobs_ready" },
    { SQL_CLAIM_ONE, "1100000", 1, 1, 1, NULL },
    { SQL_LANE_PROBE, "1 1 1", 1, 1, 1, "jobs_ready" },
    { SQL_LANE_PROBE, "1 0 1", 1, 1, 1, "jobs_ready" },
    /* Gates: an unlimited queue does not count, a limited one counts its own. */
    { SQL_GATE_SHARED, "+1", 2, -1, 2, NULL },
    { SQL_GATE_EXCLUSIVE, "+1", 2, -1, 2, NULL },
    { SQL_GATE_READ, "1", 1, 1, 5, NULL },
    { SQL_GATE_READ, "+1", 2, 2, 30, "jobs_running" },
    { SQL_QUEUE_BUSY, "1", 1, 1, 2, "jobs_running" },
    /* Schedules and endpoints. */
    { SQL_SCHEDULE_DUE, "10000 50", 1, 50, 50, "schedules_due" },
    { SQL_SCHEDULE_NEXT, "", 1, 1, 1, "schedules_due" },
    { SQL_SCHEDULE_LIVE, "+11000001", 100, 100, 100, "jobs_live_of_schedule" },
    { SQL_SCHEDULE_JOBS, "11000001 9999999 50", 1, 50, 100, "jobs_of_schedule" },
    { SQL_ENDPOINT_RECENT, "11000001 100", 1, 100, 200, "jobs_of_schedule" },
    { SQL_ENDPOINT_REQUESTS, "+11000001", 100, 100, 100, NULL },
    { SQL_ENDPOINT_LOAD, "+11000001", 100, 100, 100, NULL },
    { SQL_ENDPOINT_FARES, "+11000001 1 1 1 1 1 1 1 error", 100, -1, 100, NULL },
    { SQL_PROJECT_ENTER, "default", 1, 1, 1, NULL },
    { SQL_PROJECT_MARKED, "", 1, 0, 1, NULL },
    { SQL_PROJECT_SCAN, "4000000 500", 1, 500, 500, NULL },
    /* Finishing. */
    { SQL_COMPLETABLE, "+6001000 7", 100, 100, 100, NULL },
    { SQL_COMPLETABLE, "+6001000 8", 100, 0, 100, NULL },
    { SQL_JOB_COMPLETE, "+6001000 3 9", 100, -1, 100, NULL },
    { SQL_RUN_COMPLETE, "+6001000 7 9 result", 100, -1, 100, NULL },
    { SQL_RUN_FINISH, "+6001000 9 6 1 class message details", 100, -1, 100, NULL },
    { SQL_JOB_UPDATE, "+6001000 3 6 1 5 1 0 9 - - 3 1 -", 100, -1, 100, NULL },
    { SQL_RUN_PROGRESS, "+6001000 50 half", 100, -1, 100, NULL },
    { SQL_RUN_INSERT, "+1000001 7 1 2 3 1 -", 100, -1, 100, NULL },
    /* Enqueueing and loading. */
    { SQL_JOB_INSERT,
      "+100 100 - 1 1 1 - 1000 1 1 - - 2 0 0 5 1 3 3 0 0 crawl - 60 null - - -", 100, -1,
      100, NULL },
    { SQL_JOB_INSERT,
      "100 100 - 1 1 1 - 1000 1 1 - - 2 0 0 5 1 3 3 0 0 mail other 60 null - - -", 1, -1,
      3, NULL },
    { SQL_JOB_LOAD, "+6001000", 100, 100, 200, NULL },
    { SQL_JOB_LOAD, "+1100000", 100, 100, 200, NULL },
    { SQL_JOB_GET, "4000500", 1, 1, 2, NULL },
    { SQL_JOB_BY_KEY, "1 key", 1, 1, 2, "jobs_one_live_per_key" },
    { SQL_JOB_BY_KEY, "1 nobody", 1, 0, 2, "jobs_one_live_per_key" },
    { SQL_KEY_TAKEN, "1 key", 1, 1, 1, "jobs_one_live_per_key" },
    { SQL_JOB_RETRY_OF, "4000500", 1, 0, 2, "jobs_one_retry" },
    /* What time makes due. */
    { SQL_JOB_PROMOTE, "500 50", 1, 50, 50, "jobs_scheduled" },
    { SQL_JOB_PROMOTE, "0 50", 1, 0, 50, "jobs_scheduled" },
    { SQL_JOB_NEXT_DUE, "", 1, 1, 1, "jobs_scheduled" },
    { SQL_JOB_EXPIRED, "9 50", 1, 0, 1, "jobs_expiring" },
    { SQL_JOB_NEXT_EXPIRY, "", 1, 0, 1, "jobs_expiring" },
    { SQL_RUN_NEEDING_ATTENTION, "7 6000100 50", 1, 50, 50, "runs_open" },
    { SQL_RUN_NEEDING_ATTENTION, "7 9 50", 1, 0, 50, "runs_open" },
    { SQL_RUN_NEXT_ATTENTION, "7", 1, 1, 1, "runs_open" },
    /* Owners: what a beat, a repeated claim and a takeover look at. */
    { SQL_RUN_OPEN_OF_OWNER, "8 0 500", 1, 100, 100, "runs_open" },
    { SQL_RUN_OPEN_OF_OWNER, "5 0 500", 1, 0, 1, "runs_open" },
    { SQL_RUN_OPEN_OF_OWNER, "9 6019600 50", 1, 50, 500, "runs_open" },
    { SQL_RUN_OF_CLAIM, "8 claim", 1, 100, 100, "runs_open" },
    { SQL_OWNER_UNRESOLVED, "0 0", 1, 1, 10, "runs_open" },
    { SQL_OWNER_UNRESOLVED, "5 0", 1, 0, 10, "runs_open" },
    { SQL_OWNER_LIVE, "", 1, 2, 2, "owners_live" },
    /* Recovery. */
    { SQL_BUSY_CHUNK, "0 0 50", 1, 50, 50, "jobs_running" },
    { SQL_BUSY_CHUNK, "1 6019980 50", 1, 40, 50, "jobs_running" },
    { SQL_PENDING_CHUNK, "0 50", 1, 50, 50, "jobs_failed" },
    { SQL_PENDING_CHUNK, "6000000 50", 1, 0, 50, "jobs_failed" },
    { SQL_RECLASS_READY, "1 1 0 5 100000 1100000 50", 1, 50, 50, "jobs_ready" },
    { SQL_RECLASS_SCHEDULED, "500 7000500 50", 1, 50, 50, "jobs_scheduled" },
    { SQL_RECLASS_SCHEDULED, "5000 7015000 50", 1, 50, 50, "jobs_scheduled" },
    { SQL_RECLASS_SET, "+1100000 0", 50, -1, 50, NULL },
    /* Lists: the newest, a step that finds nothing, what is live, what has failed. */
    { SQL_JOB_LIST, "9999999 8000751 0 254 15 0 0 - - 0 9999999 - 50", 1, 50, 250, NULL },
    { SQL_JOB_LIST, "4200001 4195001 0 254 15 0 0 nobody - 0 9999999 - 50", 1, 0, 5000,
      NULL },
    { SQL_JOB_LIST, "4200001 4195001 0 254 15 0 0 - - 0 9999999 nothing 50", 1, 0, 10000,
      NULL },
    { SQL_JOB_LIST_SCHEDULED, "9999999 0 0 2 15 0 0 - - 0 9999999 - 50", 1, 50, 20000,
      "jobs_scheduled" },
    { SQL_JOB_LIST_BUSY, "9999999 0 0 8 15 2 0 - - 0 9999999 - 50", 1, 20, 20000,
      "jobs_running" },
    { SQL_JOB_LIST_FAILED, "9999999 0 3 64 8 0 0 - - 0 9999999 - 50", 1, 50, 100,
      "jobs_failed" },
    { SQL_JOB_LIST_FAILED, "5005001 5000001 3 64 8 0 0 mail - 0 9999999 - 50", 1, 0, 5000,
      "jobs_failed" },
    { SQL_JOB_LIST_OF_SCHEDULE, "9999999 0 5 254 15 0 0 - - 0 9999999 - 50", 1, 0, 1,
      "jobs_of_schedule" },
    { SQL_JOB_FLOOR, "9999999 4999", 1, 1, 5000, NULL },
    { SQL_JOB_FLOOR_OF_SCHEDULE, "9999999 4999 5", 1, 0, 1, "jobs_of_schedule" },
    { SQL_JOB_FLOOR_FAILED, "9999999 4999 3", 1, 1, 5000, "jobs_failed" },
    /* Explaining. */
    { SQL_READY_HEAD, "1 1 0 500", 1, 500, 500, "jobs_ready" },
    { SQL_EXECUTORS, "crawl", 1, 1, 5, "owners_live" },
    { SQL_KEY_HOLDER, "1 key", 1, 1, 1, "jobs_one_live_per_key" },
    { SQL_PRUNE_SCAN, "4000100 50", 1, 50, 50, NULL },
    /* Sending. */
    { SQL_DELIVERY_NEXT, "+1", 2, 1, 2, "deliveries_due" },
    { SQL_DELIVERY_UNDER_WAY, "500000", 1, 1, 80, "deliveries_taken" },
    { SQL_DELIVERY_DUE, "1 500000 50", 1, 50, 50, "deliveries_due" },
    { SQL_DELIVERY_DUE, "2 500000 50", 1, 0, 50, "deliveries_due" },
    { SQL_DELIVERY_TAKE, "+9100100 7 900000", 50, -1, 50, NULL },
    { SQL_DELIVERY_LOAD, "+9100001", 16, 16, 16, NULL },
    { SQL_DELIVERY_REPORT, "+9100001 2 1 - 9 200 - []", 16, -1, 16, NULL },
    { SQL_DELIVERY_GIVE_BACK, "7 9", 1, -1, 200, "deliveries_taken" },
    { SQL_DELIVERY_AGAIN, "+9100101 9", 50, -1, 50, NULL },
    { SQL_JOB_BRIEF, "+6001000", 100, 100, 100, NULL },
    /* Looking at deliveries, and forgetting them. */
    { SQL_DELIVERY_WALK, "1 9150000 50", 1, 50, 50, "deliveries_of_webhook" },
    { SQL_DELIVERY_LIST, "1 9150000 9149950 2 - 50", 1, 50, 50, NULL },
    { SQL_DELIVERY_FLOOR, "1 9150000 50", 1, 1, 60, "deliveries_of_webhook" },
    { SQL_DELIVERY_PENDING_OF, "1 50", 1, 1, 60, NULL },
    { SQL_DELIVERY_PENDING, "50", 1, 1, 60, "deliveries_due" },
    { SQL_DELIVERY_NEXT_WEBHOOK, "0", 1, 1, 1, "deliveries_of_webhook" },
    { SQL_DELIVERY_NEXT_WEBHOOK, "1", 1, 0, 1, "deliveries_of_webhook" },
    { SQL_DELIVERY_END, "1 500000 50 9 why", 1, -1, 110, "deliveries_due" },
    { SQL_DELIVERY_DROP, "1 50", 1, -1, 110, "deliveries_of_webhook" },
    { SQL_PRUNE_DELIVERY_SCAN, "9100100 50", 1, 50, 50, NULL },
    { SQL_PRUNE_LONE_EVENTS, "500000 50", 1, -1, 110, "events_of_no_job" },
    { SQL_RESERVATION_OPEN, "", 1, 1, 1, "reservations_open" },
    { SQL_RESERVATION_OPEN_OF_QUEUE, "1", 1, 1, 1, "reservations_open" },
};
