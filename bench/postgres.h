/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres.h -- the throwaway server of a benchmark, and the bare loop on it.
 *
 * The bare loop is set-based: our own schema, indexes and row contents, one
 * statement and one round trip per commit, arrays in binary form, and the
 * settings of our driver's session; no counters, no signature of the pile, no
 * gates. */
#pragma once

#include <dirent.h>
#include <libpq-fe.h>

#include "bench.h"
#include "db/pg_array.h"
#include "store/store.h"

/* ---- the server ---- */

/* NULL, and a word about it, without one. */
static inline const char *bench_server(void)
{
    const char *url = getenv("HF_TEST_DB");
    if (url && strncmp(url, "postgres", 8) == 0)
        return url;
    printf("PostgreSQL: none here; make bench brings one\n");
    return NULL;
}

static inline PGconn *bench_connect(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        bench_die(url, PQerrorMessage(conn));
    return conn;
}

static inline void bench_sql(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bench_die(sql, PQerrorMessage(conn));
    PQclear(result);
}

static inline int64_t bench_sql_number(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        bench_die(sql, PQerrorMessage(conn));
    int64_t n = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return n;
}

/* The url of a new database: what is between the host and the `?`. */
static inline const char *bench_database(void)
{
    static char urls[64][1000];
    static int next;
    const char *url = getenv("HF_TEST_DB");
    if (!url)
        bench_die("HF_TEST_DB", "names no server; scripts/bench gives one");
    const char *colon = strstr(url, "://");
    const char *host = colon ? colon + 3 : url;
    const char *query = strchr(host, '?');
    char sql[100], *made = urls[next % 64];
    snprintf(sql, sizeof(sql), "CREATE DATABASE hf_bench_%d TEMPLATE template0", next);
    snprintf(made, sizeof(urls[0]), "%.*s/hf_bench_%d%s",
             (int)(host - url) + (int)strcspn(host, "/?"), url, next, query ? query : "");
    next++;
    PGconn *conn = bench_connect(url);
    bench_sql(conn, sql);
    PQfinish(conn);
    return made;
}

static inline void bench_drop_database(const char *url)
{
    const char *name = strstr(url, "hf_bench_");
    char sql[100];
    snprintf(sql, sizeof(sql), "DROP DATABASE %.*s WITH (FORCE)", (int)strcspn(name, "?"),
             name);
    PGconn *conn = bench_connect(getenv("HF_TEST_DB"));
    bench_sql(conn, sql);
    PQfinish(conn);
}

/* Seconds of processor time out of /proc/PID/stat, for the process itself or with
 * the children it has buried; `parent` is set. */
static inline double bench_cpu_of(int pid, bool with_children, int *parent)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* behind the name, which may have spaces */
    int64_t field[18] = { 0 };           /* state is 3, ppid 4, utime 14 */
    if (!at)
        return 0;
    char *next = (char *)(uintptr_t)(at + 3);
    for (int i = 4; i < 18; i++)
        field[i] = strtoll(next, &next, 10);
    *parent = (int)field[4];
    int64_t ticks = field[14] + field[15] + (with_children ? field[16] + field[17] : 0);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* What the server has used so far: the postmaster, its children, and those that
 * have ended.  0 if it cannot be seen. */
static inline double bench_server_cpu(void)
{
    const char *data = getenv("HF_TEST_PGDATA");
    char path[4096];
    int postmaster = 0, parent = 0;
    snprintf(path, sizeof(path), "%s/postmaster.pid", data ? data : "");
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fgets(path, sizeof(path), f))
        postmaster = (int)strtol(path, NULL, 10);
    fclose(f);
    double total = bench_cpu_of(postmaster, true, &parent);
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        int pid = (int)strtol(entry->d_name, NULL, 10);
        double used = pid > 0 ? bench_cpu_of(pid, false, &parent) : 0;
        if (pid > 0 && parent == postmaster)
            total += used;
    }
    if (proc)
        closedir(proc);
    return total;
}

/* ---- the bare loop ---- */

enum { BARE_PG_INSERT, BARE_PG_CLAIM, BARE_PG_FINISH, BARE_PG_STATEMENTS };

static const struct db_sql bare_pg_sql[BARE_PG_STATEMENTS] = {
    { "insert", "id:int,now:int,queue:int,payload:text",
      "INSERT INTO jobs (id, root_id, position, run_at, created_at, max_execution_us, "
      "project_id, queue_id, state, class, lane, priority, attempt, max_retries, "
      "retries_left, kind, retry_delays, payload) SELECT {id}, {id}, {now}, {now}, {now}, "
      "1800000000, 1, {queue}, 2, 0, 0, 5, 1, 3, 3, 'bench', '60,300,900', {payload} {from}" },
    { "claim", "queue:int,limit:int,now:int",
      "WITH picked AS MATERIALIZED (SELECT id FROM jobs WHERE state = 2 AND queue_id = {queue} "
      "AND class = 0 AND lane = 0 ORDER BY priority DESC, position, id LIMIT {limit} "
      "FOR UPDATE SKIP LOCKED), taken AS (UPDATE jobs SET state = 3 FROM picked "
      "WHERE jobs.id = picked.id RETURNING jobs.id, jobs.payload), made AS (INSERT INTO runs "
      "(job_id, owner_id, started_at, deadline_at, attention_at, executor) "
      "SELECT id, 5, {now}, {now}, {now}, 1 FROM taken) SELECT id, payload FROM taken" },
    { "finish", "id:int,now:int",
      "WITH done AS (UPDATE jobs SET state = 5, finished_at = {now} {from} "
      "WHERE jobs.id = {id}) UPDATE runs SET finished_at = {now}, outcome = 5 {from} "
      "WHERE runs.job_id = {id} AND runs.owner_id = 5" },
};

struct bare_pg {
    PGconn *conn;
    struct db_statement statements[BARE_PG_STATEMENTS];
    struct pg_params params;
    struct db_value *values;
    int64_t next_id, queue_id, *ids;
    uint64_t statements_run;
};

/* A connection with the settings of our driver's. */
static inline PGconn *bare_pg_session(const char *url)
{
    PGconn *conn = bench_connect(url);
    bench_sql(conn,
              "SET search_path = holdfast; SET synchronous_commit = on; SET jit = off;"
              "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
              "SET enable_hashjoin = off; SET enable_mergejoin = off");
    return conn;
}

static inline void bare_pg_schema(const char *url)
{
    struct store *store = NULL;
    struct error error = { 0 };
    if (store_open(&(struct store_options){ .url = url, .role = STORE_SCHEDULER }, &error,
                   &store) < 0)
        bench_die(url, error.text);
    store_close(store);
}

static inline void bare_pg_prepare(PGconn *conn, const struct db_sql *sql,
                                   struct db_statement *ret)
{
    struct pg_params params = { 0 };
    if (db_statement_init(DB_POSTGRES, sql, ret) < 0)
        bench_die(sql->name, "no memory");
    pg_params_types(&params, ret);
    PGresult *result =
        PQprepare(conn, sql->name, ret->text, ret->param_count, params.types);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_die(sql->name, PQerrorMessage(conn));
    PQclear(result);
}

static inline void bare_pg_open(struct bare_pg *b, const char *url, int group_max)
{
    *b = (struct bare_pg){ .next_id = INT64_C(1000000000), .queue_id = 77 };
    bare_pg_schema(url);
    b->conn = bare_pg_session(url);
    b->values = calloc((size_t)group_max * 4, sizeof(*b->values));
    b->ids = calloc((size_t)group_max, sizeof(*b->ids));
    for (int i = 0; i < BARE_PG_STATEMENTS; i++)
        bare_pg_prepare(b->conn, &bare_pg_sql[i], &b->statements[i]);
}

static inline void bare_pg_close(struct bare_pg *b)
{
    for (int i = 0; i < BARE_PG_STATEMENTS; i++)
        db_statement_release(&b->statements[i]);
    pg_params_release(&b->params);
    free(b->values);
    free(b->ids);
    PQfinish(b->conn);
}

/* One statement of a table, prepared under its name; the answer is the caller's. */
static inline PGresult *bare_pg_execute(PGconn *conn, const struct db_sql *sql,
                                        const struct db_statement *statement,
                                        struct pg_params *params,
                                        const struct db_value *values, int rows)
{
    if (pg_params_encode(params, statement, values, (size_t)rows) < 0)
        bench_die(sql->name, "cannot be encoded");
    PGresult *result =
        PQexecPrepared(conn, sql->name, statement->param_count, params->values,
                       params->lengths, params->formats, 1);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bench_die(sql->name, PQerrorMessage(conn));
    return result;
}

static inline PGresult *bare_pg_run(struct bare_pg *b, int which, int rows)
{
    b->statements_run++;
    return bare_pg_execute(b->conn, &bare_pg_sql[which], &b->statements[which],
                           &b->params, b->values, rows);
}

static inline void bare_pg_enqueue(struct bare_pg *b, int group, const char *payload,
                                   int64_t now)
{
    for (int i = 0; i < group; i++) {
        struct db_value row[] = { db_int(b->next_id++), db_int(now), db_int(b->queue_id),
                                  db_text(slice_of(payload)) };
        memcpy(b->values + i * 4, row, sizeof(row));
    }
    PQclear(bare_pg_run(b, BARE_PG_INSERT, group));
}

static inline int bare_pg_claim(struct bare_pg *b, int group, int64_t now)
{
    struct db_value row[] = { db_int(b->queue_id), db_int(group), db_int(now) };
    memcpy(b->values, row, sizeof(row));
    PGresult *result = bare_pg_run(b, BARE_PG_CLAIM, 1);
    int n = PQntuples(result);
    for (int i = 0; i < n; i++)
        b->ids[i] = pg_decode_int(PQgetvalue(result, i, 0), PQgetlength(result, i, 0));
    PQclear(result);
    return n;
}

static inline void bare_pg_finish(struct bare_pg *b, int count, int64_t now)
{
    for (int i = 0; i < count; i++) {
        struct db_value row[] = { db_int(b->ids[i]), db_int(now) };
        memcpy(b->values + i * 2, row, sizeof(row));
    }
    PQclear(bare_pg_run(b, BARE_PG_FINISH, count));
}

/* Lifecycles per second in groups of `group`. */
static inline double bare_pg_lifecycles(struct bare_pg *b, int group, int total,
                                        const char *payload)
{
    int done = 0;
    int64_t now = INT64_C(1800000000000000);
    double start = bench_now();
    while (done < total) {
        bare_pg_enqueue(b, group, payload, now);
        int n = bare_pg_claim(b, group, now + 1);
        bare_pg_finish(b, n, now + 2);
        done += n;
        now += 3;
    }
    return done / (bench_now() - start);
}
