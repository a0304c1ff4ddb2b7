/* SPDX-License-Identifier: Apache-2.0
 *
 * fill.h -- stores with many jobs in them, made without their history.
 *
 * The rows are those that the engine would have left, but for the counts by queue
 * and state. */
#pragma once

#include "bare.h"
#include "piles.h"

#define FILL_COLUMNS                                                                     \
    "INSERT INTO jobs (id, root_id, position, run_at, created_at, finished_at, "         \
    "max_execution_us, project_id, queue_id, state, class, lane, priority, attempt, "    \
    "max_retries, retries_left, kind, retry_delays, payload) "

/* A store that knows its default queue; returns the queue's id. */
static inline int64_t fill_begin(const char *path, sqlite3 **ret)
{
    struct piles p;
    piles_open(&p, path, 1);
    piles_lifecycles(&p, 1, 1);
    piles_close(&p);
    sqlite3 *db = bare_store(path);
    sqlite3_stmt *queue =
        bare_prepare(db, "SELECT id FROM queues WHERE name = 'default'");
    if (sqlite3_step(queue) != SQLITE_ROW)
        bench_die(path, "has no queue");
    int64_t id = sqlite3_column_int64(queue, 0);
    sqlite3_finalize(queue);
    bare_exec(db, "PRAGMA synchronous=OFF; UPDATE ids SET next = 100000000");
    *ret = db;
    return id;
}

/* Jobs `from` to `to` in that state; those under way or over have runs of owner 5. */
static inline void fill_jobs(sqlite3 *db, int64_t queue_id, int64_t from, int64_t to,
                             int state)
{
    int64_t now = (int64_t)time(NULL) * US_PER_S;
    char sql[2000];
    snprintf(
        sql, sizeof(sql),
        "BEGIN; WITH RECURSIVE n(i) AS (SELECT %lld UNION ALL SELECT i + 1 FROM n WHERE "
        "i < %lld) " FILL_COLUMNS "SELECT i, i, %lld + i, %lld, %lld, %s, 1800000000, 1, "
        "%lld, %d, 0, 0, 5, 1, 3, 3, 'bench', '60,300,900', '%s' FROM n;",
        (long long)from, (long long)to - 1, (long long)now - 1000 * US_PER_S,
        (long long)now, (long long)now, state >= JOB_COMPLETED ? "1" : "NULL",
        (long long)queue_id, state, bench_payload);
    bare_exec(db, sql);
    snprintf(
        sql, sizeof(sql),
        "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, attention_at, "
        "finished_at, outcome, executor) SELECT id, 5, created_at, created_at + "
        "1800000000, created_at + 1800000000, finished_at, %s, 1 FROM jobs WHERE "
        "id >= %lld AND id < %lld AND state > 2; "
        "UPDATE jobs SET finished_at = created_at WHERE id >= %lld AND id < %lld AND "
        "finished_at = 1; COMMIT",
        state >= JOB_COMPLETED ? "5" : "NULL", (long long)from, (long long)to,
        (long long)from, (long long)to);
    bare_exec(db, sql);
}

static inline void fill_end(sqlite3 *db)
{
    bare_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(db);
}
