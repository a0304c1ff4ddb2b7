/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot statements on a store that has grown: a million jobs waiting, history
 * behind them, and nobody has run ANALYZE.  None of them may wade through what
 * it does not want, whatever stands in front of it.
 *
 * A plan is judged by what it touched: rows of every node, buffers of the whole
 * on PostgreSQL, steps of the virtual machine on SQLite. */
/* test: once libs=sqlite3,libpq */
#include <sqlite3.h>
#include <stdio.h>

#include "base/buf.h"
#include "db/db_sql.h"
#include "million.h"
#include "world.h"

static const struct db_sql statements[SQL_COUNT] = {
#define SQL(name, params, text) [SQL_##name] = { #name, params, text },
#include "store/sql.def"
#undef SQL
};

enum { WORDS_MAX = 64, WORD_BYTES = 32 };
struct words {
    char word[WORDS_MAX][WORD_BYTES];
    int count;
};

static void split(const char *text, struct words *words)
{
    words->count = 0;
    while (*text) {
        size_t n = strcspn(text, " ");
        check(n < WORD_BYTES && words->count < WORDS_MAX);
        memcpy(words->word[words->count], text, n);
        words->word[words->count++][n] = '\0';
        text += n + strspn(text + n, " ");
    }
}

/* The word in row `row` of the set; NULL for NULL. */
static const char *in_row(const char *word, int row, char number[WORD_BYTES])
{
    if (strcmp(word, "-") == 0)
        return NULL;
    if (word[0] != '+')
        return word;
    snprintf(number, WORD_BYTES, "%lld", strtoll(word + 1, NULL, 10) + row);
    return number;
}

static struct store *open_store(const char *url)
{
    struct error error = { 0 };
    struct store *store = NULL;
    int r = store_open(&(struct store_options){ .url = url }, &error, &store);
    if (r < 0)
        fail("%s", error.text);
    check_ok(db_script(store->db,
                       "{postgres:ALTER TABLE jobs SET (autovacuum_enabled = off);"
                       "ALTER TABLE runs SET (autovacuum_enabled = off);"
                       "ALTER TABLE owners SET (autovacuum_enabled = off);"
                       "ALTER TABLE schedules SET (autovacuum_enabled = off);"
                       "ALTER TABLE endpoints SET (autovacuum_enabled = off);"
                       "SET synchronous_commit = off}"));
    return store;
}

/* ---- PostgreSQL ---- */

static const char *const type_names[] = {
    [DB_INT] = "bigint", [DB_TEXT] = "text", [DB_BLOB] = "bytea"
};

/* One argument of EXECUTE: a literal, of an array for a set. */
static void add_argument(struct buf *out, const struct db_statement *s,
                         const struct probe *probe, const char *word)
{
    char number[WORD_BYTES];
    if (!s->is_set) {
        const char *value = in_row(word, 0, number);
        if (value)
            buf_printf(out, "'%s'", value);
        else
            buf_text(out, "NULL");
        return;
    }
    buf_text(out, "'{");
    for (int row = 0; row < probe->rows; row++) {
        const char *value = in_row(word, row, number);
        buf_printf(out, "%s%s", row ? "," : "", value ? value : "NULL");
    }
    buf_text(out, "}'");
}

/* PREPARE and EXPLAIN as scripts: so the plan is the one that the driver's own
 * session settings make of a prepared statement. */
static void explain_text(const struct probe *probe, int number, struct buf *prepare,
                         struct buf *explain)
{
    struct db_statement s;
    struct words words;
    check_ok(db_statement_init(DB_POSTGRES, &statements[probe->sql], &s));
    split(probe->values, &words);
    check_int(words.count, s.param_count);
    buf_printf(prepare, "PREPARE p%d%s", number, s.param_count ? " (" : "");
    buf_printf(
        explain,
        "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE p%d%s",
        number, s.param_count ? "(" : "");
    for (int i = 0; i < s.param_count; i++) {
        buf_printf(prepare, "%s%s%s", i ? ", " : "", type_names[s.types[i]],
                   s.is_set ? "[]" : "");
        buf_text(explain, i ? ", " : "");
        add_argument(explain, &s, probe, words.word[i]);
    }
    buf_printf(prepare, "%s AS %s;", s.param_count ? ")" : "", s.text);
    buf_text(explain, s.param_count ? ")" : "");
    db_statement_release(&s);
}

/* What a plan of PostgreSQL says, added up. */
struct plan {
    struct buf text;
    int64_t most_rows; /* that any node gave or threw away */
    int64_t compared;  /* and not taken by a join */
    int64_t buffers, yields;
};

static int64_t number_after(const char *line, const char *words)
{
    const char *at = strstr(line, words);
    return at ? strtoll(at + strlen(words), NULL, 10) : 0;
}

static void read_line(struct plan *plan, const char *line, int64_t *loops)
{
    int64_t rows = number_after(line, "actual rows=");
    if (strstr(line, "actual rows=")) {
        *loops = number_after(line, "loops=");
        rows *= *loops;
    } else {
        rows = number_after(line, "Rows Removed by Filter: ") +
               number_after(line, "Rows Removed by Index Recheck: ");
        rows *= *loops;
    }
    plan->compared += number_after(line, "Rows Removed by Join Filter: ") * *loops;
    if (rows > plan->most_rows)
        plan->most_rows = rows;
    if (strstr(line, "Buffers: ") && plan->buffers == 0) /* the first is the whole's */
        plan->buffers = number_after(line, "shared hit=") + number_after(line, " read=");
    buf_printf(&plan->text, "    %s\n", line);
}

static void read_plan(struct db *db, int sql, struct plan *plan)
{
    struct db_rows rows;
    char line[1000];
    int64_t loops = 1;
    int r = db_query(db, sql, NULL, 1, &rows);
    if (r < 0)
        fail("%s", db_error(db));
    for (int n = 0; (r = db_next(&rows)) > 0; n++) {
        struct slice text = db_get_text(&rows, 0);
        snprintf(line, sizeof(line), "%.*s", (int)text.n, text.p);
        if (n == 0)
            plan->yields = number_after(line, "actual rows=");
        read_line(plan, line, &loops);
    }
    check_ok(r);
    db_done(&rows);
}

/* Each row touched may cost some pages in each index, and there are eight. */
enum { PAGES_PER_ROW = 60, PAGES_ALWAYS = 60 };

static bool judge_plan(const struct probe *probe, const struct plan *plan)
{
    const char *text = plan->text.p;
    const char *wrong = NULL;
    if (strstr(text, "Seq Scan on jobs") || strstr(text, "Seq Scan on runs"))
        wrong = "it reads a whole table";
    else if (probe->index && !strstr(text, probe->index))
        wrong = "it does not use its index";
    else if (plan->most_rows > 3 * probe->touches)
        wrong = "it touches rows it does not want";
    else if (plan->compared > probe->rows * probe->rows) /* a set with itself, at worst */
        wrong = "it compares with rows it does not want";
    else if (plan->buffers > PAGES_ALWAYS + PAGES_PER_ROW * probe->touches)
        wrong = "it reads too many pages";
    else if (probe->yields >= 0 && plan->yields != probe->yields)
        wrong = "it does not give what it should";
    if (wrong)
        printf("# %s(%s): %s (rows %lld, pages %lld)\n%s", statements[probe->sql].name,
               probe->values, wrong, (long long)plan->most_rows, (long long)plan->buffers,
               text);
    return !wrong;
}

/* Statements of the test's own, behind those of the probes. */
enum { STATISTICS = array_len(probes), REPLAN, PLAN_SQLS };

struct session {
    struct db_sql sql[PLAN_SQLS];
    struct buf prepare, explains[array_len(probes)];
    struct db *db;
};

static void open_session(struct session *session, const char *url)
{
    struct slice text;
    buf_init(&session->prepare, 1 << 20);
    for (size_t i = 0; i < array_len(probes); i++) {
        buf_init(&session->explains[i], 1 << 20);
        explain_text(&probes[i], (int)i, &session->prepare, &session->explains[i]);
        check_ok(buf_end(&session->explains[i], &text));
        session->sql[i] = (struct db_sql){ "explain", "", text.p };
    }
    check_ok(buf_end(&session->prepare, &text));
    session->sql[REPLAN] = statements[SQL_REPLAN];
    session->sql[STATISTICS] = (struct db_sql){
        "statistics", "",
        "SELECT (SELECT count(*) FROM pg_stats WHERE tablename IN ('jobs', 'runs')) + "
        "(SELECT count(*) FROM pg_class WHERE relname IN ('jobs', 'runs') AND reltuples >= 0)"
    };
    struct error error = { 0 };
    check_ok(db_open(&(struct db_options){ .url = url,
                                           .sql = session->sql,
                                           .sql_count = PLAN_SQLS,
                                           .schema = "holdfast" },
                     &error, &session->db));
    if (db_script(session->db, session->prepare.p) < 0)
        fail("%s", db_error(session->db));
}

static void close_session(struct session *session)
{
    for (size_t i = 0; i < array_len(probes); i++)
        buf_release(&session->explains[i]);
    buf_release(&session->prepare);
    db_close(session->db);
}

/* How many of the plans are bad; `empty`: makes the plans, and judges none. */
static int judge_plans(struct session *session, bool empty)
{
    int bad = 0;
    for (size_t i = 0; i < array_len(probes); i++) {
        struct plan plan = { 0 };
        struct slice text;
        buf_init(&plan.text, 1 << 20);
        check_ok(db_begin(session->db));
        read_plan(session->db, (int)i, &plan);
        db_rollback(session->db);
        check_ok(buf_end(&plan.text, &text));
        bad += !empty && !judge_plan(&probes[i], &plan);
        buf_release(&plan.text);
    }
    return bad;
}

static void check_no_statistics(struct session *session)
{
    struct db_rows rows;
    check_ok(db_query(session->db, STATISTICS, NULL, 1, &rows));
    check_int(db_next(&rows), 1);
    check_int(db_get_int(&rows, 0), 0); /* or this would prove nothing */
    db_done(&rows);
}

/* A plan is made at the first execution and kept.  So one session makes its plans
 * when there is nothing, one when there is much, and one when there is much and
 * the server has looked at it. */
static int judge_times(const char *url, bool empty_is_known, int waiting)
{
    struct session early, late, informed;
    struct store *store = open_store(url);

    if (empty_is_known)
        check_ok(db_script(store->db, "ANALYZE"));
    open_session(&early, url);
    check_int(judge_plans(&early, true), 0);
    fill_store(store, waiting);
    open_session(&late, url);
    if (!empty_is_known)
        check_no_statistics(&late);
    else /* what an engine does now and then */
        check_int(db_run(early.db, REPLAN, NULL, 1), 0);
    int bad = judge_plans(&late, false);
    bad += judge_plans(&early, false);
    close_session(&early);
    close_session(&late);
    check_ok(db_script(store->db, "ANALYZE"));
    open_session(&informed, url);
    bad += judge_plans(&informed, false);
    close_session(&informed);
    store_close(store);
    return bad;
}

TEST(no_hot_statement_wades_through_a_million_jobs_on_postgres)
{
    check_int(judge_times(test_postgres_url(), false, 1000000), 0);
}

TEST(nor_when_the_server_remembers_an_empty_store)
{
    check_int(judge_times(test_postgres_url(), true, 200000), 0);
}

/* An engine that was there when the store was known to be empty. */
TEST(an_engine_does_not_keep_its_plans_for_ever)
{
    struct world w;
    world_init(&w);
    w.url = test_postgres_url();
    world_open(&w);
    run_sql(&w, "ANALYZE");
    check_err(complete(&w, "s", 1), -HF_NOT_FOUND); /* plans are made here */
    int64_t id = enqueue_kind(&w, "mail");
    check_int(claim_one(&w, "s"), id);
    check_ok(store_begin(w.engine->store, 1));
    insert_series(w.engine->store, &series[4], 100000);
    check_ok(store_commit(w.engine->store));
    world_pass(&w, 15 * US_PER_S); /* a beat */

    struct completion completion = { .job_id = id,
                                     .owner_id = look(&w, id).run.owner_id };
    check_ok(store_begin(w.engine->store, w.wall));
    check_ok(store_complete(w.engine->store, &completion, 1));
    check(completion.done);
    check_ok(store_flush(w.engine->store));
    int r =
        db_script(w.engine->store->db,
                  "DO $$ DECLARE n bigint := (SELECT sum(idx_tup_fetch) FROM "
                  "pg_stat_xact_user_tables WHERE relname IN ('jobs', 'runs')); BEGIN "
                  "IF n > 100 THEN RAISE '% rows were fetched', n; END IF; END $$");
    if (r < 0)
        fail("%s", db_error(w.engine->store->db));
    store_rollback(w.engine->store);
    world_close(&w);
}

/* ---- SQLite ---- */

static void bind(sqlite3_stmt *stmt, const struct db_statement *s,
                 const struct words *words, int row)
{
    for (int i = 0; i < s->param_count; i++) {
        char number[WORD_BYTES];
        const char *value = in_row(words->word[i], row, number);
        int rc = !value ? sqlite3_bind_null(stmt, i + 1)
                 : s->types[i] == DB_INT
                     ? sqlite3_bind_int64(stmt, i + 1, strtoll(value, NULL, 10))
                     : sqlite3_bind_text(stmt, i + 1, value, -1, SQLITE_TRANSIENT);
        check_int(rc, SQLITE_OK);
    }
}

static bool plan_uses(sqlite3 *handle, const char *text, const char *index,
                      struct buf *plan, bool *ret_scans)
{
    sqlite3_stmt *stmt = NULL;
    char explain[8192];
    bool uses = !index;
    *ret_scans = false;
    snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", text);
    check_int(sqlite3_prepare_v2(handle, explain, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(stmt, 3);
        uses = uses || strstr(detail, index);
        if ((strstr(detail, "SCAN jobs") || strstr(detail, "SCAN runs")) &&
            !strstr(detail, "USING INDEX") && !strstr(detail, "USING COVERING INDEX"))
            *ret_scans = true;
        buf_printf(plan, "    %s\n", detail);
    }
    sqlite3_finalize(stmt);
    return uses;
}

/* A step is some tens of instructions per row and index. */
enum { STEPS_PER_ROW = 400, STEPS_ALWAYS = 400 };

static bool judge_steps(sqlite3 *handle, const struct probe *probe)
{
    struct db_statement s;
    struct words words;
    sqlite3_stmt *stmt = NULL;
    int64_t yields = 0;
    bool scans = false;
    const char *wrong = NULL;
    struct buf plan;
    struct slice text;
    check_ok(db_statement_init(DB_SQLITE, &statements[probe->sql], &s));
    split(probe->values, &words);
    check_int(words.count, s.param_count);
    buf_init(&plan, 1 << 20);
    if (!plan_uses(handle, s.text, probe->index, &plan, &scans))
        wrong = "it does not use its index";
    check_int(sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    check_int(sqlite3_prepare_v2(handle, s.text, -1, &stmt, NULL), SQLITE_OK);
    for (int row = 0; row < probe->rows; row++) {
        int rc;
        bind(stmt, &s, &words, row);
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            yields++;
        if (rc != SQLITE_DONE)
            fail("%s: %s", statements[probe->sql].name, sqlite3_errmsg(handle));
        sqlite3_reset(stmt);
    }
    int steps = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 0);
    sqlite3_finalize(stmt);
    check_int(sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    if (scans)
        wrong = "it reads a whole table";
    else if (steps > STEPS_ALWAYS + STEPS_PER_ROW * probe->touches)
        wrong = "it takes too many steps";
    else if (probe->yields >= 0 && yields != probe->yields)
        wrong = "it does not give what it should";
    check_ok(buf_end(&plan, &text));
    if (wrong)
        printf("# %s(%s): %s (%d steps)\n%s", statements[probe->sql].name, probe->values,
               wrong, steps, text.p);
    buf_release(&plan);
    db_statement_release(&s);
    return !wrong;
}

TEST(no_hot_statement_wades_through_a_million_jobs_on_sqlite)
{
    const char *path = test_sqlite_url();
    sqlite3 *handle = NULL;
    int bad = 0;
    struct store *store = open_store(path);
    fill_store(store, 1000000);
    store_close(store);
    check_int(sqlite3_open(path, &handle), SQLITE_OK);
    for (size_t i = 0; i < array_len(probes); i++)
        bad += !judge_steps(handle, &probes[i]);
    sqlite3_close(handle);
    check_int(bad, 0);
}
