/* SPDX-License-Identifier: Apache-2.0
 *
 * bare.h -- the loop that everything is compared with.
 *
 * Our own schema, indexes and row contents, the leanest statements we know for
 * them, and nothing else: no commands, no events, no counters, no threads.
 * SQLite in WAL with synchronous=FULL; three commits per lifecycle (enqueue,
 * claim with its run, finish), each for a group of jobs. */
#pragma once

#include <sqlite3.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every benchmark says what it ran on: the figures mean little without. */
static inline void bench_machine(void)
{
    struct utsname u;
    uname(&u);
    printf("machine: %s %s, %ld cores, SQLite %s\n", u.sysname, u.machine,
           sysconf(_SC_NPROCESSORS_ONLN), sqlite3_libversion());
}

/* A new database file in a folder that the caller removes. */
static inline const char *bench_path(const char *folder, int number)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/bench-%d.db", folder, number);
    return path;
}

static inline _Noreturn void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

struct bare {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *insert, *claim, *run, *job_done, *run_done;
    int64_t next_id, queue_id;
    int64_t *ids;
};

static inline sqlite3_stmt *bare_prepare(struct bare *b, const char *text)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v3(b->db, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK)
        bench_die(text, sqlite3_errmsg(b->db));
    return stmt;
}

static inline void bare_step(struct bare *b, sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE)
        bench_die("bare", sqlite3_errmsg(b->db));
    sqlite3_reset(stmt);
}

static inline void bare_open(struct bare *b, const char *path, size_t group_max)
{
    struct store *store = NULL;
    struct error error = { 0 };
    if (store_open(&(struct store_options){ .url = path, .role = STORE_SCHEDULER }, &error,
                   &store) < 0)
        bench_die(path, error.text);
    store_close(store); /* the schema is there */
    *b = (struct bare){ .next_id = INT64_C(1000000000), .queue_id = 77 };
    b->ids = calloc(group_max, sizeof(*b->ids));
    if (sqlite3_open(path, &b->db) != SQLITE_OK)
        bench_die(path, "cannot be opened");
    sqlite3_exec(b->db,
                 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
                 "PRAGMA secure_delete=OFF; PRAGMA cache_size=-16384;"
                 "PRAGMA wal_autocheckpoint=4096;",
                 NULL, NULL, NULL);
    sqlite3_db_config(b->db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1200, 128);
    b->begin = bare_prepare(b, "BEGIN IMMEDIATE");
    b->commit = bare_prepare(b, "COMMIT");
    b->insert = bare_prepare(
        b, "INSERT INTO jobs (id, root_id, position, run_at, created_at, max_execution_us, "
           "project_id, queue_id, state, class, lane, priority, attempt, max_retries, "
           "retries_left, kind, retry_delays, payload) VALUES (?1, ?1, ?2, ?2, ?2, 1800000000, "
           "1, ?3, 2, 0, 0, 5, 1, 3, 3, 'bench', '60,300,900', ?4)");
    b->claim = bare_prepare(
        b, "UPDATE jobs SET state = 3 WHERE id IN (SELECT id FROM jobs WHERE state = 2 AND "
           "queue_id = ?1 AND class = 0 AND lane = 0 ORDER BY priority DESC, position, id "
           "LIMIT ?2) RETURNING id, payload");
    b->run = bare_prepare(b, "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, "
                             "attention_at, executor) VALUES (?1, 5, ?2, ?2, ?2, 1)");
    b->job_done = bare_prepare(b, "UPDATE jobs SET state = 5, finished_at = ?2 WHERE id = ?1");
    b->run_done = bare_prepare(
        b, "UPDATE runs SET finished_at = ?2, outcome = 5 WHERE job_id = ?1 AND owner_id = 5");
}

static inline void bare_close(struct bare *b)
{
    sqlite3_stmt *all[] = { b->begin, b->commit, b->insert, b->claim, b->run, b->job_done,
                            b->run_done };
    for (size_t i = 0; i < array_len(all); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(b->db);
    free(b->ids);
}

static inline void bare_enqueue(struct bare *b, int group, const char *payload, int64_t now)
{
    bare_step(b, b->begin);
    for (int i = 0; i < group; i++) {
        sqlite3_bind_int64(b->insert, 1, b->next_id++);
        sqlite3_bind_int64(b->insert, 2, now);
        sqlite3_bind_int64(b->insert, 3, b->queue_id);
        sqlite3_bind_text(b->insert, 4, payload, -1, SQLITE_STATIC);
        bare_step(b, b->insert);
    }
    bare_step(b, b->commit);
}

static inline int bare_claim(struct bare *b, int group, int64_t now)
{
    int n = 0;
    bare_step(b, b->begin);
    sqlite3_bind_int64(b->claim, 1, b->queue_id);
    sqlite3_bind_int64(b->claim, 2, group);
    while (sqlite3_step(b->claim) == SQLITE_ROW)
        b->ids[n++] = sqlite3_column_int64(b->claim, 0);
    sqlite3_reset(b->claim);
    for (int i = 0; i < n; i++) {
        sqlite3_bind_int64(b->run, 1, b->ids[i]);
        sqlite3_bind_int64(b->run, 2, now);
        bare_step(b, b->run);
    }
    bare_step(b, b->commit);
    return n;
}

static inline void bare_finish(struct bare *b, int count, int64_t now)
{
    bare_step(b, b->begin);
    for (int i = 0; i < count; i++) {
        sqlite3_bind_int64(b->job_done, 1, b->ids[i]);
        sqlite3_bind_int64(b->job_done, 2, now);
        bare_step(b, b->job_done);
        sqlite3_bind_int64(b->run_done, 1, b->ids[i]);
        sqlite3_bind_int64(b->run_done, 2, now);
        bare_step(b, b->run_done);
    }
    bare_step(b, b->commit);
}

/* Lifecycles per second in groups of `group`. */
static inline double bare_lifecycles(const char *path, int group, int total,
                                     const char *payload)
{
    struct bare b;
    bare_open(&b, path, (size_t)group);
    int done = 0;
    int64_t now = INT64_C(1800000000000000);
    double start = bench_now();
    while (done < total) {
        bare_enqueue(&b, group, payload, now);
        int n = bare_claim(&b, group, now + 1);
        bare_finish(&b, n, now + 2);
        done += n;
        now += 3;
    }
    double rate = done / (bench_now() - start);
    bare_close(&b);
    return rate;
}
