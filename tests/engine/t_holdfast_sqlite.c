/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * A job inside the application's own transaction: it lives and dies with it. */
/* test: libs=sqlite3 */
#include <sqlite3.h>

#include "handle.h"

static void run_sql(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail("%s: %s", sql, why);
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    check_int(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    check_int(sqlite3_step(statement), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

/* The application's connection, with a table of its own in the store. */
static sqlite3 *connect_to(const char *url)
{
    sqlite3 *db = NULL;
    check_int(sqlite3_open(url, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    run_sql(db, "PRAGMA synchronous=FULL");
    run_sql(db, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)");
    return db;
}

static const char *new_store(void)
{
    const char *url = test_sqlite_url();
    check_ok(hf_close(open_role(url, HF_PRODUCER)));
    return url;
}

static int done(struct hf_run *run, void *arg)
{
    (void)arg;
    return hf_succeed(run, run->payload);
}

TEST(a_committed_transaction_has_its_job_and_a_rolled_back_one_has_none)
{
    const char *url = new_store();
    sqlite3 *db = connect_to(url);
    struct hf_new_job job = { .kind = "k", .payload = "\"tea\"" };
    struct hf_enqueued made = { 0 };
    struct hf_error error;

    run_sql(db, "BEGIN IMMEDIATE");
    run_sql(db, "INSERT INTO orders (item) VALUES ('lost')");
    check_ok(hf_enqueue_sqlite(db, &job, &error, &made));
    check(made.id > 0);
    run_sql(db, "ROLLBACK");
    check_int(number(db, "SELECT count(*) FROM jobs"), 0);
    check_int(number(db, "SELECT count(*) FROM orders"), 0);

    run_sql(db, "BEGIN IMMEDIATE");
    run_sql(db, "INSERT INTO orders (item) VALUES ('tea')");
    check_ok(hf_enqueue_sqlite(db, &job, &error, &made));
    check_int(made.state, HF_QUEUED);
    run_sql(db, "COMMIT");
    check_int(number(db, "SELECT count(*) FROM orders"), 1);
    check_int(sqlite3_close(db), SQLITE_OK); /* nothing of ours is left in it */

    struct hf *hf = open_scheduler(url, "k", done, NULL);
    check_ok(hf_start(hf, 1));
    struct hf_job *found = must_wait(hf, made.id, false);
    check_str(found->result, "\"tea\"");
    hf_job_free(found);
    struct hf_queues *queues = NULL;
    check_ok(hf_list_queues(hf, &error, &queues));
    check_int(queues->items[0]->accepted, 1); /* the counts add up too */
    check_int(queues->items[0]->jobs[HF_COMPLETED], 1);
    hf_queues_free(queues);
    check_ok(hf_close(hf));
}

TEST(a_running_scheduler_notices_the_job)
{
    const char *url = new_store();
    struct hf *hf = open_scheduler(url, "k", done, NULL);
    sqlite3 *db = connect_to(url);
    struct hf_enqueued made[3];
    struct hf_error error;

    check_ok(hf_start(hf, 1));
    run_sql(db, "BEGIN IMMEDIATE");
    for (int i = 0; i < 3; i++)
        check_ok(hf_enqueue_sqlite(
            db, &(struct hf_new_job){ .kind = "k", .queue = i ? "new" : "default" },
            &error, &made[i]));
    run_sql(db, "COMMIT");
    for (int i = 0; i < 3; i++) {
        struct hf_job *job = must_wait(hf, made[i].id, false);
        check_int(job->state, HF_COMPLETED);
        hf_job_free(job);
    }
    sqlite3_close(db);
    check_ok(hf_close(hf));
}

TEST(a_refused_job_leaves_the_transaction_as_it_was)
{
    const char *url = new_store();
    sqlite3 *db = connect_to(url);
    struct hf_new_job job = { .kind = "k", .unique_key = "one" };
    struct hf_enqueued made, again;
    struct hf_error error;

    run_sql(db, "BEGIN IMMEDIATE");
    run_sql(db, "INSERT INTO orders (item) VALUES ('kept')");
    check_ok(hf_enqueue_sqlite(db, &job, &error, &made));
    check_ok(hf_enqueue_sqlite(db, &job, &error, &again));
    check_int(again.id, made.id);
    check(again.deduplicated);
    job.on_conflict = HF_CONFLICT_REJECT;
    check_err(hf_enqueue_sqlite(db, &job, &error, &again), -HF_DUPLICATE);
    check(error.text[0] != '\0');
    check_err(hf_enqueue_sqlite(db, &(struct hf_new_job){ .kind = "?" }, &error, &again),
              -HF_INVALID);
    check_err(hf_enqueue_sqlite(
                  db, &(struct hf_new_job){ .kind = "k", .project = "unheard-of" },
                  &error, &again),
              -HF_NOT_FOUND);
    check_ok(hf_enqueue_sqlite(db, &(struct hf_new_job){ .kind = "k" }, &error, &again));
    run_sql(db, "COMMIT");
    check_int(number(db, "SELECT count(*) FROM orders"), 1);
    check_int(number(db, "SELECT count(*) FROM jobs"), 2);
    check_int(sqlite3_close(db), SQLITE_OK);
}

/* Refused, inside a transaction, which is not disturbed by it. */
static void check_refused(sqlite3 *db, int code, const char *words)
{
    struct hf_error error;
    run_sql(db, "BEGIN IMMEDIATE");
    check_err(hf_enqueue_sqlite(db, &(struct hf_new_job){ .kind = "k" }, &error, NULL),
              code);
    if (!strstr(error.text, words))
        fail("\"%s\" says nothing of \"%s\"", error.text, words);
    run_sql(db, "COMMIT");
}

TEST(a_connection_that_could_lose_the_job_is_refused)
{
    const char *url = new_store();
    sqlite3 *db = connect_to(url), *other = NULL;
    struct hf_new_job job = { .kind = "k" };
    struct hf_error error;

    check_err(hf_enqueue_sqlite(db, &job, &error, NULL), -HF_INVALID);
    check(strstr(error.text, "BEGIN IMMEDIATE") != NULL);
    run_sql(db, "PRAGMA synchronous=NORMAL");
    check_refused(db, -HF_INVALID, "synchronous=FULL");
    run_sql(db, "PRAGMA synchronous=FULL");
    run_sql(db, "PRAGMA journal_mode=DELETE");
    check_refused(db, -HF_INVALID, "WAL");
    run_sql(db, "PRAGMA journal_mode=WAL");
    run_sql(db, "BEGIN IMMEDIATE");
    check_ok(hf_enqueue_sqlite(db, &job, &error, NULL));
    run_sql(db, "COMMIT");
    run_sql(db, "UPDATE meta SET value = '999' WHERE name = 'schema'");
    check_refused(db, -HF_VERSION, "newer");

    check_int(sqlite3_open(test_path("other.db"), &other), SQLITE_OK);
    run_sql(other,
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (x)");
    check_refused(other, -HF_FOREIGN, "not a Holdfast store");
    sqlite3_close(other);
    sqlite3_close(db);
}

TEST(a_transaction_that_cannot_write_now_is_busy)
{
    const char *url = new_store();
    sqlite3 *db = connect_to(url), *writer = connect_to(url);
    struct hf_error error;

    sqlite3_busy_timeout(db, 0);
    run_sql(writer, "BEGIN IMMEDIATE");
    run_sql(db, "BEGIN");
    check_err(hf_enqueue_sqlite(db, &(struct hf_new_job){ .kind = "k" }, &error, NULL),
              -HF_BUSY);
    check(error.text[0] != '\0');
    run_sql(writer, "ROLLBACK");
    run_sql(db, "ROLLBACK");
    check_int(number(db, "SELECT count(*) FROM jobs"), 0);
    sqlite3_close(writer);
    check_int(sqlite3_close(db), SQLITE_OK);
}

TEST(a_webhook_is_told_of_the_job_in_the_same_transaction)
{
    const char *url = new_store();
    sqlite3 *db = connect_to(url);
    struct hf_new_job job = { .kind = "k" };
    struct hf_error error;

    run_sql(db,
            "INSERT INTO webhooks (id, url, events, secret, timeout_us, created_at, "
            "changed_at) VALUES (7, 'http://x', '[\"job.enqueued\"]', 'secret', 1, 1, 1);"
            "INSERT INTO meta (name, value) VALUES ('webhooks_version', '7')");
    run_sql(db, "BEGIN IMMEDIATE");
    check_ok(hf_enqueue_sqlite(db, &job, &error, NULL));
    check_int(number(db, "SELECT count(*) FROM deliveries"), 1);
    run_sql(db, "ROLLBACK");
    check_int(number(db, "SELECT count(*) FROM deliveries"), 0);
    run_sql(db, "BEGIN IMMEDIATE");
    check_ok(hf_enqueue_sqlite(db, &job, &error, NULL));
    job.kind = "not a kind";
    check_err(hf_enqueue_sqlite(db, &job, &error, NULL), -HF_INVALID);
    run_sql(db, "COMMIT");
    check_int(number(db,
                     "SELECT count(*) FROM deliveries d JOIN jobs j ON j.id = d.job_id "
                     "WHERE d.webhook_id = 7 AND d.state = 1"),
              1);
    check_int(number(db, "SELECT count(*) FROM events WHERE type = 'job.enqueued'"), 1);
    sqlite3_close(db);
}
