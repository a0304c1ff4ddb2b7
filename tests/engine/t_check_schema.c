/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier looks after the constraints and indexes themselves: whichever one
 * is taken away or replaced, it says so.  And it does so on large stores, with
 * the memory of small ones. */
#include <sys/resource.h>

#include "crash.h"
#include "world_check.h"

/* ---- indexes ---- */

struct index_name {
    struct slice table, name, columns;
};

static size_t list_indexes(struct world *w, struct index_name *list, size_t max)
{
    struct store *store = w->engine->store;
    struct db_rows rows;
    size_t n = 0;
    check_ok(store_begin(store, w->wall));
    int r = db_query(store->db, SQL_CHECK_CATALOG, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        check(n < max);
        list[n++] = (struct index_name){ arena_dup(&w->arena, db_get_text(&rows, 0)),
                                         arena_dup(&w->arena, db_get_text(&rows, 1)),
                                         arena_dup(&w->arena, db_get_text(&rows, 4)) };
    }
    db_done(&rows);
    store_rollback(store);
    check(r >= 0);
    return n;
}

/* Whether something is said of this table and these columns. */
static bool names(const struct findings *found, const struct index_name *index)
{
    char part[300];
    snprintf(part, sizeof(part), "of table %s (%s) is missing", index->table.p,
             index->columns.p);
    for (size_t i = 0; i < found->count; i++)
        if (strstr(found->list[i].sentence, part))
            return true;
    return false;
}

/* All of them, as the catalog has them, so that none can be added unnoticed.  A
 * key that is part of its table cannot be dropped on SQLite. */
TEST(every_index_and_key_that_is_dropped_is_missed)
{
    struct world w;
    struct index_name list[80];
    struct findings found;
    int64_t missing = 0;
    world_init(&w);
    world_open(&w);
    size_t count = list_indexes(&w, list, array_len(list));
    check(count > 20);
    check_clean(&w);
    for (size_t i = 0; i < count; i++) {
        if (!list[i].name.p || strncmp(list[i].name.p, "sqlite_", 7) == 0)
            continue;
        const char *name = list[i].name.p;
        if (test_on_postgres())
            run_sqlf(
                &w,
                "ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s; DROP INDEX IF EXISTS %s",
                list[i].table.p, name, name);
        else
            run_sqlf(&w, "DROP INDEX %s", name);
        check_world(&w, &found);
        check_int(found.report.violations, ++missing);
        if (!names(&found, &list[i]))
            fail("nothing is said of %s", name);
    }
    check(missing >= 14);
    world_crash(&w);
}

static void check_says(struct world *w, int invariant, const char *part)
{
    struct findings found;
    check_world(w, &found);
    for (size_t i = 0; i < found.count; i++)
        if (found.list[i].invariant == invariant && strstr(found.list[i].sentence, part))
            return;
    fail("I%d and \"%s\" are not among %zu findings, the first: %s", invariant, part,
         found.count, found.count ? found.list[0].sentence : "none");
}

/* Another index under the same name keeps nothing. */
TEST(an_index_that_is_not_unique_any_more_is_missed)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    run_sql(&w,
            "DROP INDEX jobs_one_retry; "
            "CREATE INDEX jobs_one_retry ON jobs (retry_of) WHERE retry_of IS NOT NULL");
    check_says(&w, 4, "jobs_one_retry");
    world_crash(&w);
}

TEST(an_index_on_other_columns_is_missed)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    run_sql(
        &w,
        "DROP INDEX jobs_one_live_per_key; CREATE UNIQUE INDEX jobs_one_live_per_key ON "
        "jobs (project_id, unique_key, id) WHERE unique_key IS NOT NULL AND state < 5");
    check_says(&w, 5, "jobs_one_live_per_key");
    world_crash(&w);
}

TEST(an_index_over_all_rows_is_missed)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    run_sql(&w,
            "DROP INDEX reservations_one_per_queue; "
            "CREATE UNIQUE INDEX reservations_one_per_queue ON reservations (queue_id)");
    check_says(&w, 6, "reservations_one_per_queue");
    world_crash(&w);
}

/* Without it a second run could be inserted. */
TEST(the_key_of_the_runs_is_missed)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    run_sql(&w, "CREATE TABLE others AS SELECT * FROM runs; DROP TABLE runs; "
                "ALTER TABLE others RENAME TO runs");
    check_says(&w, 3, "a job could be executed twice");
    world_crash(&w);
}

/* ---- checks of columns ---- */

TEST(every_check_that_is_dropped_is_missed)
{
    static const struct {
        const char *table, *name, *text;
    } checks[] = {
#define CHECKED(invariant, name, table, text, purpose) { table, name, text },
        CHECK_CONSTRAINTS(CHECKED)
    };
    struct world w;
    struct findings found;
    world_init(&w);
    world_open(&w);
    for (size_t i = 0; i < array_len(checks); i++) {
        if (test_on_postgres())
            run_sqlf(&w, "ALTER TABLE %s DROP CONSTRAINT %s", checks[i].table,
                     checks[i].name);
        else
            run_sqlf(&w,
                     "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
                     "replace(sql, '%s', 'CHECK (1)') WHERE name = '%s'",
                     checks[i].text, checks[i].table);
        check_world(&w, &found);
        check_int(found.report.violations, (int64_t)i + 1);
        check_says(&w, found.list[found.count - 1].invariant, checks[i].text);
    }
    world_crash(&w);
}

/* The other way round: each check there is, is known.  Only PostgreSQL lists
 * them; the text of SQLite's tables is the same file's. */
TEST(no_check_of_a_column_is_unknown)
{
    static const char *const known[] = {
#define KNOWN(invariant, name, table, text, purpose) name, text,
        CHECK_CONSTRAINTS(KNOWN)
    };
    struct world w;
    struct db_rows rows;
    int wanted = (int)array_len(known) / 2, seen = 0;
    world_init(&w);
    world_open(&w);
    struct store *store = w.engine->store;
    check_ok(store_begin(store, w.wall));
    int r = db_query(store->db, SQL_CHECK_CONSTRAINTS, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct slice text = arena_dup(&w.arena, db_get_text(&rows, 1));
        if (test_on_postgres())
            seen++;
        else if (!slice_equal(db_get_text(&rows, 0),
                              SLICE("ids"))) /* SQLite's sequence */
            for (const char *p = text.p; (p = strstr(p, "CHECK (")); p++)
                seen++;
    }
    db_done(&rows);
    store_rollback(store);
    check_int(seen, wanted);
    world_close(&w);
}

/* ---- size ---- */

/* Finished jobs, every third of them retried, and waiting ones with long keys; all
 * of it in SQL. */
static void fill(struct world *w, int64_t finished, int64_t keyed)
{
    struct queue_entry *entry = NULL;
    enqueue_kind(w, "crawl");
    check_ok(store_queue(w->engine->store, SLICE("default"), false, &entry));
    long long queue = entry->queue.id;
    /* clang-format off */
#define NUMBERS "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %lld) "
    run_sqlf(w, "INSERT INTO jobs (id, root_id, retry_of, position, run_at, created_at, finished_at, "
                "max_execution_us, project_id, queue_id, state, priority, attempt, max_retries, "
                "retries_left, retry_state, kind, retry_delays, payload) " NUMBERS
                "SELECT 1000000 + i, 1000000 + i - CASE WHEN i %% 3 = 2 THEN 1 ELSE 0 END, "
                "CASE WHEN i %% 3 = 2 THEN 1000000 + i - 1 END, 5, 5, 5, 9, 60000000, 1, %lld, "
                "CASE WHEN i %% 3 = 1 THEN 6 ELSE 5 END, 5, CASE WHEN i %% 3 = 2 THEN 2 ELSE 1 END, "
                "3, CASE WHEN i %% 3 = 2 THEN 2 ELSE 3 END, CASE WHEN i %% 3 = 1 THEN 2 ELSE 0 END, "
                "'crawl', '60', '{}' FROM n", (long long)finished, queue);
    run_sqlf(w, "INSERT INTO jobs (id, root_id, position, run_at, created_at, max_execution_us, "
                "project_id, queue_id, state, priority, max_retries, retries_left, kind, "
                "retry_delays, payload, unique_key) " NUMBERS
                "SELECT 9000000 + i, 9000000 + i, 5, 5, 5, 60000000, 1, %lld, 2, 5, 3, 3, "
                "'crawl', '60', '{}', replace('--------', '-', '%060d') || i FROM n",
                (long long)keyed, queue, 0);
    run_sqlf(w, "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, attention_at, "
                "finished_at, executor, outcome) SELECT id, 1, 6, 9, 9, 9, 2, state FROM jobs "
                "WHERE state > 4");
    run_sqlf(w, "UPDATE counters SET accepted = accepted + %lld, queued = queued + %lld, "
                "completed = completed + (SELECT count(*) FROM jobs WHERE state = 5), "
                "failed = failed + (SELECT count(*) FROM jobs WHERE state = 6)",
                (long long)(finished + keyed), (long long)keyed);
    /* clang-format on */
}

/* Then memory is kept on purpose. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { INSTRUMENTED = 1 };
#else
enum { INSTRUMENTED = 0 };
#endif

static int64_t peak_kib(void)
{
    struct rusage usage;
    check_int(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The cache and one sort's worth of it; the keys alone are more. */
TEST_SLOW(a_large_store_takes_no_more_memory_than_a_small_one, 300)
{
    struct world w;
    struct findings found;
    enum { FINISHED = 60000 };
    int64_t keyed = test_on_postgres() ? 10000 : 100000; /* there the server sorts */
    world_init(&w);
    world_open(&w);
    fill(&w, FINISHED, keyed);
    int64_t before = peak_kib(), began = test_monotonic_us();
    check_clean(&w);
    int64_t took = test_monotonic_us() - began, more = peak_kib() - before;
    test_note("%lld jobs in %lld ms", (long long)(FINISHED + keyed),
              (long long)(took / 1000));
    if (more > 40 << 10 && !INSTRUMENTED)
        fail("checking %lld jobs took %lld KiB more", (long long)(FINISHED + keyed),
             (long long)more);
    check_world(&w, &found);
    check_int(found.report.jobs, FINISHED + keyed + 1);
    check_int(found.report.awaiting, 0);
    world_crash(&w);
}

/* More than one answer holds: nothing is left out and nothing told twice. */
TEST_SLOW(every_violation_of_many_is_told_once, 300)
{
    struct world w;
    struct findings found;
    enum { FINISHED = 30000 };
    world_init(&w);
    world_open(&w);
    fill(&w, FINISHED, 1);
    run_sql(&w, "UPDATE jobs SET position = 1 WHERE retry_of IS NULL; "
                "UPDATE jobs SET retries_left = 50 WHERE retry_of IS NOT NULL");
    check_world(&w, &found);
    /* each first of a chain stands too early; each retry elsewhere, with too many left */
    check_int(found.report.violations, FINISHED / 3 * 2 + 2 + FINISHED / 3 * 2);
    world_crash(&w);
}
