/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_budget -- what one lifecycle writes: rows, index entries, bytes of log,
 * statements, and calls to the system, with the bare loop's beside it.
 *
 * Counted, not timed, so these figures hold on any machine; what comes later is
 * held to them (docs/PERFORMANCE.md).  SQLite: rows by sqlite3_total_changes(),
 * entries by counting the cells of every index before and after each step, bytes by
 * the log's length, which no checkpoint shortens here.  PostgreSQL: rows, entries
 * and bytes out of the write-ahead log itself.  Calls are reads, writes and flushes
 * of files, and on PostgreSQL sends and receives.
 *
 *   bench_budget */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "bare.h"
#include "db/db_sqlite.h"
#include "piles.h"
#include "postgres.h"

struct budget {
    double rows, entries, bytes, statements, calls;
};

/* ---- calls, counted on their way ---- */

static uint64_t flushes, messages;

int fdatasync(int fd)
{
    flushes++;
    return (int)syscall(SYS_fdatasync, fd);
}

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    messages++;
    return sendto(fd, bytes, count, flags, NULL, 0);
}

ssize_t recv(int fd, void *bytes, size_t count, int flags)
{
    messages++;
    return recvfrom(fd, bytes, count, flags, NULL, NULL);
}

static double calls_now(void)
{
    return (double)(bench_proc("/proc/self/io", "syscr:") + bench_write_calls()) +
           (double)(flushes + messages);
}

/* ---- SQLite ---- */

static int count_statement(unsigned type, void *count, void *p, void *x)
{
    (void)type;
    (void)p;
    (void)x;
    ++*(uint64_t *)count;
    return 0;
}

enum { INDEXES_MAX = 64 };

/* Entries of each index, in the order of their names. */
static int count_entries(const char *path, int64_t ret[INDEXES_MAX])
{
    sqlite3 *db = NULL;
    int n = 0;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        bench_die(path, "cannot be read");
    sqlite3_stmt *s = bare_prepare(
        db,
        "SELECT m.name, (SELECT sum(d.ncell) FROM dbstat d WHERE d.name = m.name) FROM "
        "sqlite_master m WHERE m.type = 'index' ORDER BY m.name");
    while (sqlite3_step(s) == SQLITE_ROW && n < INDEXES_MAX)
        ret[n++] = sqlite3_column_int64(s, 1);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static double entries_between(const char *path, int64_t before[INDEXES_MAX])
{
    int64_t after[INDEXES_MAX];
    double changed = 0;
    int n = count_entries(path, after);
    for (int i = 0; i < n; i++) {
        changed += (double)llabs(after[i] - before[i]);
        before[i] = after[i];
    }
    return changed;
}

static double log_bytes(const char *path)
{
    char name[4300];
    struct stat st = { 0 };
    snprintf(name, sizeof(name), "%s-wal", path);
    (void)!stat(name, &st);
    return (double)st.st_size;
}

/* A side of the comparison: its handle, and its three steps. */
struct side {
    struct piles piles;
    struct bare bare;
    struct bare_pg bare_pg;
    int64_t now;
};

typedef void step_fn(struct side *side, int group);

static void engine_enqueue(struct side *s, int group)
{
    piles_enqueue(&s->piles, group);
}

static void engine_claim(struct side *s, int group)
{
    piles_claim(&s->piles, group);
}

static void engine_finish(struct side *s, int group)
{
    (void)group;
    piles_complete(&s->piles);
}

static void do_bare_enqueue(struct side *s, int group)
{
    bare_enqueue(&s->bare, group, bench_payload, s->now++);
}

static void do_bare_claim(struct side *s, int group)
{
    bare_claim(&s->bare, group, s->now++);
}

static void do_bare_finish(struct side *s, int group)
{
    bare_finish(&s->bare, group, s->now++);
}

static step_fn *const engine_steps[] = { engine_enqueue, engine_claim, engine_finish };
static step_fn *const bare_steps[] = { do_bare_enqueue, do_bare_claim, do_bare_finish };

static struct budget count_sqlite(struct side *side, step_fn *const steps[3], sqlite3 *db,
                                  const char *path, int group, int groups)
{
    int64_t entries[INDEXES_MAX] = { 0 };
    uint64_t statements = 0;
    struct budget b = { 0 };
    for (int i = 0; i < 3; i++) /* pages and statements are there */
        steps[i](side, group);
    count_entries(path, entries);
    for (int i = 0; i < 3; i++) {
        steps[i](side, group);
        b.entries += entries_between(path, entries) / group;
    }
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_statement, &statements);
    b.rows = -(double)sqlite3_total_changes64(db);
    b.bytes = -log_bytes(path);
    b.calls = -calls_now();
    for (int i = 0; i < 3 * groups; i++)
        steps[i % 3](side, group);
    int total = group * groups;
    b.rows = (b.rows + (double)sqlite3_total_changes64(db)) / total;
    b.calls = (b.calls + calls_now()) / total;
    b.bytes = (b.bytes + log_bytes(path)) / total;
    b.statements = (double)statements / total;
    sqlite3_trace_v2(db, 0, NULL, NULL);
    return b;
}

static void print_budget(const char *name, int group, struct budget b)
{
    printf("%-22s groups of %3d: %5.2f rows, %5.2f index entries, %7.0f bytes of log, "
           "%6.2f statements, %6.2f calls\n",
           name, group, b.rows, b.entries, b.bytes, b.statements, b.calls);
    fflush(stdout);
}

static void compare_sqlite(int group, int groups)
{
    struct side side = { .now = INT64_C(1800000000000000) };
    const char *path = bench_file();
    bare_open(&side.bare, path, group);
    print_budget("SQLite, bare loop,", group,
                 count_sqlite(&side, bare_steps, side.bare.db, path, group, groups));
    bare_close(&side.bare);
    path = bench_file();
    piles_open(&side.piles, path, group);
    sqlite3 *db = sqlite_of(side.piles.engine->store->db)->handle;
    print_budget("SQLite, engine,", group,
                 count_sqlite(&side, engine_steps, db, path, group, groups));
    piles_close(&side.piles);
}

/* ---- PostgreSQL ---- */

/* What is in the log between two places, by kind of record. */
static double in_log(PGconn *conn, const char *from, const char *what)
{
    char sql[500];
    snprintf(sql, sizeof(sql),
             "SELECT %s FROM pg_get_wal_records_info('%s', pg_current_wal_flush_lsn())",
             what, from);
    return (double)bench_sql_number(conn, sql);
}

static void log_place(PGconn *conn, char ret[40])
{
    PGresult *result = PQexec(conn, "SELECT pg_current_wal_insert_lsn()");
    if (PQntuples(result) != 1)
        bench_die("log", PQerrorMessage(conn));
    snprintf(ret, 40, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

static void bare_pg_groups(struct side *s, int group, int groups)
{
    bare_pg_lifecycles(&s->bare_pg, group, group * groups, bench_payload);
}

static void engine_groups(struct side *s, int group, int groups)
{
    piles_lifecycles(&s->piles, group, group * groups);
}

static struct budget count_postgres(struct side *side,
                                    void (*run)(struct side *, int, int), PGconn *look,
                                    uint64_t (*statements)(struct side *), int group,
                                    int groups)
{
    char from[40];
    int total = group * groups;
    run(side, group, 2); /* prepared and planned */
    log_place(look, from);
    double calls = calls_now(), executed = (double)statements(side);
    run(side, group, groups);
    calls = calls_now() - calls;
    executed = (double)statements(side) - executed;
    struct budget b = { .calls = calls / total, .statements = executed / total };
    b.rows = in_log(look, from,
                    "count(*) FILTER (WHERE resource_manager = 'Heap' AND record_type ~ "
                    "'INSERT|UPDATE|DELETE')") /
             total;
    b.entries =
        in_log(look, from,
               "count(*) FILTER (WHERE resource_manager = 'Btree' AND record_type ~ "
               "'INSERT')") /
        total;
    b.bytes = in_log(look, from, "CAST(sum(record_length) AS BIGINT)") / total;
    return b;
}

static uint64_t bare_pg_statements(struct side *s)
{
    return s->bare_pg.statements_run;
}

static uint64_t engine_statements(struct side *s)
{
    struct db_counts counts;
    db_get_counts(s->piles.engine->store->db, &counts);
    return counts.statements + 2 * counts.commits;
}

static void compare_postgres(int group, int groups)
{
    struct side side = { 0 };
    const char *url = bench_database();
    PGconn *look = bench_connect(url);
    bench_sql(look, "CREATE EXTENSION pg_walinspect");
    bare_pg_open(&side.bare_pg, url, group);
    print_budget(
        "PostgreSQL, bare loop,", group,
        count_postgres(&side, bare_pg_groups, look, bare_pg_statements, group, groups));
    bare_pg_close(&side.bare_pg);
    PQfinish(look);
    bench_drop_database(url);
    url = bench_database();
    look = bench_connect(url);
    bench_sql(look, "CREATE EXTENSION pg_walinspect");
    piles_open(&side.piles, url, group);
    print_budget(
        "PostgreSQL, engine,", group,
        count_postgres(&side, engine_groups, look, engine_statements, group, groups));
    piles_close(&side.piles);
    PQfinish(look);
    bench_drop_database(url);
}

int main(void)
{
    bench_machine();
    printf("each lifecycle (enqueue, claim, finish):\n");
    compare_sqlite(1, 60);
    compare_sqlite(100, 15);
    if (!bench_server())
        return 0;
    compare_postgres(1, 60);
    compare_postgres(100, 15);
    return 0;
}
