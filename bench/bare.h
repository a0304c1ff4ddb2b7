/* SPDX-License-Identifier: Apache-2.0
 *
 * bare.h -- the loop that everything on SQLite is compared with.
 *
 * Our own schema, indexes and row contents, the leanest statements we know for
 * them, and nothing else: no commands, no events, no counters, no threads.
 * SQLite in WAL with synchronous=FULL; three commits per lifecycle (enqueue,
 * claim with its run, finish), each for a group of jobs. */
#pragma once

#include "bench.h"
#include "store/store.h"

struct bare {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *insert, *claim, *look, *mark, *run, *job_done,
        *run_done;
    int64_t next_id, queue_id;
    int64_t *ids;
};

static inline sqlite3_stmt *bare_prepare(sqlite3 *db, const char *text)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) !=
        SQLITE_OK)
        bench_die(text, sqlite3_errmsg(db));
    return stmt;
}

static inline void bare_exec(sqlite3 *db, const char *script)
{
    if (sqlite3_exec(db, script, NULL, NULL, NULL) != SQLITE_OK)
        bench_die(script, sqlite3_errmsg(db));
}

static inline void bare_step(sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE)
        bench_die(sqlite3_sql(stmt), sqlite3_errmsg(sqlite3_db_handle(stmt)));
    sqlite3_reset(stmt);
}

/* A store with our schema, as a plain handle with our settings. */
static inline sqlite3 *bare_store(const char *path)
{
    struct store *store = NULL;
    struct error error = { 0 };
    sqlite3 *db = NULL;
    if (store_open(&(struct store_options){ .url = path, .role = STORE_SCHEDULER },
                   &error, &store) < 0)
        bench_die(path, error.text);
    store_close(store); /* the schema is there */
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        bench_die(path, "cannot be opened");
    bare_exec(
        db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
            "PRAGMA secure_delete=OFF; PRAGMA cache_size=-16384;"
            "PRAGMA wal_autocheckpoint=4096;");
    sqlite3_db_config(db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1200, 128);
    return db;
}

#define BARE_READY                                                                       \
    "FROM jobs WHERE state = 2 AND queue_id = ?1 AND class = 0 AND lane = 0 "            \
    "ORDER BY priority DESC, position, id LIMIT ?2"

static inline void bare_open(struct bare *b, const char *path, int group_max)
{
    *b = (struct bare){ .next_id = INT64_C(1000000000), .queue_id = 77 };
    b->ids = calloc((size_t)group_max, sizeof(*b->ids));
    sqlite3 *db = b->db = bare_store(path);
    b->begin = bare_prepare(db, "BEGIN IMMEDIATE");
    b->commit = bare_prepare(db, "COMMIT");
    b->insert = bare_prepare(
        db,
        "INSERT INTO jobs (id, root_id, position, run_at, created_at, max_execution_us, "
        "project_id, queue_id, state, class, lane, priority, attempt, max_retries, "
        "retries_left, kind, retry_delays, payload) VALUES (?1, ?1, ?2, ?2, ?2, "
        "1800000000, 1, ?3, 2, 0, 0, 5, 1, 3, 3, 'bench', '60,300,900', ?4)");
    /* One statement for many; for a few, two are cheaper than the tables that
     * SQLite makes for one (see bare_claim). */
    b->claim =
        bare_prepare(db, "UPDATE jobs SET state = 3 WHERE id IN (SELECT id " BARE_READY
                         ") RETURNING id, payload");
    b->look = bare_prepare(db, "SELECT id, payload " BARE_READY);
    b->mark = bare_prepare(db, "UPDATE jobs SET state = 3 WHERE id = ?1");
    b->run =
        bare_prepare(db, "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, "
                         "attention_at, executor) VALUES (?1, 5, ?2, ?2, ?2, 1)");
    b->job_done =
        bare_prepare(db, "UPDATE jobs SET state = 5, finished_at = ?2 WHERE id = ?1");
    b->run_done = bare_prepare(
        db,
        "UPDATE runs SET finished_at = ?2, outcome = 5 WHERE job_id = ?1 AND owner_id = 5");
}

static inline void bare_close(struct bare *b)
{
    sqlite3_stmt *all[] = { b->begin, b->commit, b->insert,   b->claim,   b->look,
                            b->mark,  b->run,    b->job_done, b->run_done };
    for (size_t i = 0; i < array_len(all); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(b->db);
    free(b->ids);
}

static inline void bare_enqueue(struct bare *b, int group, const char *payload,
                                int64_t now)
{
    bare_step(b->begin);
    for (int i = 0; i < group; i++) {
        sqlite3_bind_int64(b->insert, 1, b->next_id++);
        sqlite3_bind_int64(b->insert, 2, now);
        sqlite3_bind_int64(b->insert, 3, b->queue_id);
        sqlite3_bind_text(b->insert, 4, payload, -1, SQLITE_STATIC);
        bare_step(b->insert);
    }
    bare_step(b->commit);
}

static inline int bare_claim(struct bare *b, int group, int64_t now)
{
    sqlite3_stmt *take = group < 10 ? b->look : b->claim;
    int n = 0;
    bare_step(b->begin);
    sqlite3_bind_int64(take, 1, b->queue_id);
    sqlite3_bind_int64(take, 2, group);
    while (sqlite3_step(take) == SQLITE_ROW) {
        b->ids[n++] = sqlite3_column_int64(take, 0);
        (void)sqlite3_column_blob(take, 1);
    }
    sqlite3_reset(take);
    for (int i = 0; i < n; i++) {
        if (take == b->look) {
            sqlite3_bind_int64(b->mark, 1, b->ids[i]);
            bare_step(b->mark);
        }
        sqlite3_bind_int64(b->run, 1, b->ids[i]);
        sqlite3_bind_int64(b->run, 2, now);
        bare_step(b->run);
    }
    bare_step(b->commit);
    return n;
}

static inline void bare_finish(struct bare *b, int count, int64_t now)
{
    bare_step(b->begin);
    for (int i = 0; i < count; i++) {
        sqlite3_bind_int64(b->job_done, 1, b->ids[i]);
        sqlite3_bind_int64(b->job_done, 2, now);
        bare_step(b->job_done);
        sqlite3_bind_int64(b->run_done, 1, b->ids[i]);
        sqlite3_bind_int64(b->run_done, 2, now);
        bare_step(b->run_done);
    }
    bare_step(b->commit);
}

/* Lifecycles per second in groups of `group`, on an open store. */
static inline double bare_run(struct bare *b, int group, int total, const char *payload)
{
    int done = 0;
    int64_t now = INT64_C(1800000000000000);
    double start = bench_now();
    while (done < total) {
        bare_enqueue(b, group, payload, now);
        int n = bare_claim(b, group, now + 1);
        bare_finish(b, n, now + 2);
        done += n;
        now += 3;
    }
    return done / (bench_now() - start);
}

/* The same on a store of its own; `ret_cpu` (or NULL) gets the processor time. */
static inline double bare_lifecycles(int group, int total, double *ret_cpu)
{
    struct bare b;
    const char *path = bench_file();
    bare_open(&b, path, group);
    double cpu = bench_cpu(CLOCK_THREAD_CPUTIME_ID);
    double rate = bare_run(&b, group, total, bench_payload);
    if (ret_cpu)
        *ret_cpu = bench_cpu(CLOCK_THREAD_CPUTIME_ID) - cpu;
    bare_close(&b);
    bench_drop_file(path);
    return rate;
}
