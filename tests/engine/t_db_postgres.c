/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * The database floor on PostgreSQL: connections that break, at every moment at
 * which it matters, and what the url says.
 *
 * A connection is broken in two ways.  A second connection ends the first's
 * backend, which says so; or a relay between the two, seeing a certain word, cuts
 * the line before or after passing it on, and nobody says anything. */
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relay.h"
#include "things.h"

static const char *new_things(void)
{
    const char *url = test_postgres_url();
    struct db *db = open_more(url, false);

    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    db_close(db);
    return url;
}

/* Ends every other session of this database, and waits until they are gone. */
static void end_others(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result =
        PQexec(conn, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                     " WHERE datname = current_database() AND pid <> pg_backend_pid()");

    check_int(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    PQfinish(conn);
}

/* The value of a setting as the statements of `db` see it. */
static void check_setting(struct db *db, const char *name, const char *value)
{
    char script[256];

    snprintf(script, sizeof(script),
             "DO $$ BEGIN IF current_setting('%s') <> '%s' THEN"
             " RAISE '%s is %%', current_setting('%s'); END IF; END $$",
             name, value, name, name);
    if (db_script(db, script) < 0)
        fail("%s", db_error(db));
}

TEST(a_killed_backend_is_unavailable_until_reconnected)
{
    const char *url = new_things();
    cleanup(close_db) struct db *db = open_more(url, false);
    struct db_rows rows;

    check_int(add(db, 1, 1), 1); /* prepared from now on */
    end_others(url);
    check_err(db_query(db, COUNT, NULL, 1, &rows), -HF_UNAVAILABLE);
    db_done(&rows);
    check_err(db_query(db, COUNT, NULL, 1, &rows), -HF_UNAVAILABLE);
    db_done(&rows);
    check_err(db_begin(db), -HF_UNAVAILABLE);
    check_err(db_script(db, "SELECT 1"), -HF_UNAVAILABLE);
    check_ok(db_reconnect(db));
    check_int(add(db, 2, 1), 1);
    check_int(one_int(db, COUNT), 2);
}

TEST(a_backend_killed_in_a_transaction_has_not_committed)
{
    const char *url = new_things();
    cleanup(close_db) struct db *db = open_more(url, false);

    check_ok(db_begin(db)); /* nothing was sent yet when the backend dies */
    check_ok(post_one(db, 1, "posted"));
    end_others(url);
    check_err(db_commit(db), -HF_UNAVAILABLE);
    check_ok(db_reconnect(db));

    check_ok(db_begin(db));
    check_int(add(db, 1, 1), 1);
    end_others(url);
    check_err(db_commit(db), -HF_UNAVAILABLE);
    check_ok(db_reconnect(db));

    check_ok(db_begin(db));
    check_int(add(db, 1, 1), 1);
    end_others(url);
    check_err(add(db, 2, 1), -HF_UNAVAILABLE);
    check_err(post_one(db, 3, "late"), -HF_UNAVAILABLE);
    check_err(db_commit(db), -HF_UNAVAILABLE);
    check_ok(db_reconnect(db));
    check_int(one_int(db, COUNT), 0);
}

TEST(a_backend_that_dies_before_its_commit_has_not_committed)
{
    cleanup(close_db) struct db *db = open_more(new_things(), false);

    check_ok(db_begin(db));
    check_ok(post_one(db, 1, "posted"));
    check_ok(db_post(db, DIE, NULL, 1));
    check_err(db_commit(db), -HF_UNAVAILABLE); /* the COMMIT was sent, too */
    check_ok(db_reconnect(db));
    check_int(one_int(db, COUNT), 0);
}

TEST(rollback_and_close_bear_a_lost_connection)
{
    const char *url = new_things();
    struct db *db = open_more(url, false);

    check_ok(db_begin(db));
    check_ok(db_savepoint(db));
    check_int(add(db, 1, 1), 1);
    end_others(url);
    check_err(db_savepoint_undo(db), -HF_UNAVAILABLE);
    db_rollback(db);
    check_err(db_begin(db), -HF_UNAVAILABLE);
    db_close(db);
}

TEST(a_commit_whose_answer_was_lost_is_unknown)
{
    const char *url = new_things();

    for (int passed = 0; passed <= 1; passed++) {
        struct relay *relay = relay_start(url, RELAY_COMMIT);
        struct db *db = open_more(relay->url, false);
        relay_aim(relay, passed ? RELAY_NOT_TOLD : RELAY_NOT_SENT, 1, 0);
        check_ok(db_begin(db));
        check_ok(post_one(db, 1, "posted"));
        check_err(db_commit(db), -HF_UNKNOWN);
        check_err(db_begin(db), -HF_UNAVAILABLE);
        check_ok(db_reconnect(db)); /* to find out; the relay still serves */
        check_int(one_int(db, COUNT), passed);
        db_close(db);
        relay_end(relay);
    }
}

TEST(a_question_whose_answer_was_lost_has_changed_nothing)
{
    struct relay *relay = relay_start(new_things(), SLICE("count(*)"));
    struct db *db = open_more(relay->url, false);
    struct db_rows rows;

    relay_aim(relay, RELAY_NOT_TOLD, 1, 0);
    check_err(db_query(db, COUNT, NULL, 1, &rows), -HF_UNAVAILABLE);
    db_done(&rows);
    db_close(db);
    relay_end(relay);
}

TEST(a_backend_that_dies_in_its_commit_is_unknown)
{
    const char *url = new_things();
    cleanup(close_db) struct db *db = open_more(url, false);

    check_ok(db_script(
        db, "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';"
            "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON things"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"));
    check_ok(db_begin(db));
    check_ok(post_one(db, 1, "posted"));
    check_err(db_commit(db), -HF_UNKNOWN);
    check_err(add(db, 1, 1), -HF_UNAVAILABLE);
    check_ok(db_reconnect(db));
    /* Outside a transaction a statement is its own commit. */
    check_err(add(db, 1, 1), -HF_UNKNOWN);
    check_ok(db_reconnect(db));
    check_int(one_int(db, COUNT), 0);
}

TEST(much_that_is_posted_does_not_block)
{
    const char *url = new_things();
    cleanup(close_db) struct db *db = open_more(url, false);
    size_t n = 1 << 20;
    char *body = calloc(1, n);

    check_ok(db_begin(db));
    for (int i = 0; i < 40; i++) {
        const struct db_value values[] = { db_int(i), db_text(SLICE("x")),
                                           db_blob((struct slice){ body, n }) };
        check_ok(db_post(db, ADD, values, 1));
        const struct db_value key = db_int(i); /* and much that comes back */
        check_ok(db_post(db, GET, &key, 1));
    }
    check_ok(db_commit(db));
    check_int(one_int(db, COUNT), 40);
    free(body);
}

TEST(what_the_url_says_survives)
{
    char url[1024];
    const char *base = test_postgres_url();

    snprintf(url, sizeof(url),
             "%s&application_name=mine&options=-c%%20search_path%%3Delsewhere"
             "%%20-c%%20synchronous_commit%%3Doff",
             base);
    for (int twin = 0; twin <= 1; twin++) {
        struct db *db = open_more(url, twin);
        check_setting(db, "search_path", "elsewhere");
        check_setting(db, "application_name", "mine");
        check_setting(db, "synchronous_commit", "on"); /* a promise, not a taste */
        check_setting(db, "enable_seqscan", twin ? "on" : "off");
        check_setting(db, "default_transaction_read_only", twin ? "on" : "off");
        check_setting(db, "jit", "off");
        db_close(db);
    }
    struct db *db = open_more(base, false);
    check_setting(db, "application_name", "holdfast");
    check_setting(db, "idle_in_transaction_session_timeout", "5s");
    db_close(db);
}

TEST(our_schema_is_used_unless_the_url_names_another)
{
    char url[1024];
    const char *base = test_postgres_url();
    struct error error = { 0 };
    struct db *db = NULL;

    snprintf(url, sizeof(url), "%s&options=-c%%20search_path%%3Delsewhere", base);
    const struct db_options ours = { .url = base, .schema = "holdfast" };
    const struct db_options theirs = { .url = url, .schema = "holdfast" };
    check_ok(db_open(&ours, &error, &db));
    check_setting(db, "search_path", "holdfast");
    check_ok(db_reconnect(db));
    check_setting(db, "search_path", "holdfast");
    db_close(db);
    check_ok(db_open(&theirs, &error, &db));
    check_setting(db, "search_path", "elsewhere");
    db_close(db);
}

TEST(a_server_that_is_not_there_is_named_without_the_password)
{
    static const char *const urls[] = { "postgres://u:secret@/x?host=/nowhere",
                                        "postgres://u:secret@127.0.0.1:1/x" };
    static const char *const words[] = { "/nowhere", "127.0.0.1" };

    for (size_t i = 0; i < array_len(urls); i++) {
        const struct db_options options = { .url = urls[i] };
        struct error error = { 0 };
        struct db *db = NULL;
        check_err(db_open(&options, &error, &db), -HF_UNAVAILABLE);
        check(strstr(error.text, words[i]));
        check(!strstr(error.text, "secret"));
    }
    const struct db_options options = { .url = "postgres://x?no_such_word=1" };
    struct error error = { 0 };
    struct db *db = NULL;
    check_err(db_open(&options, &error, &db), -HF_INVALID);
}

TEST(nothing_is_printed_whatever_the_server_remarks)
{
    const char *url = test_postgres_url();
    const char *path = test_path("stderr");
    int before = dup(STDERR_FILENO);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;

    check(before >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    struct db *db = open_more(url, false);
    check_ok(db_script(db, "DO $$ BEGIN RAISE WARNING 'well'; END $$"));
    end_others(url);
    check_err(db_begin(db) < 0 ? 0 : db_commit(db), -HF_UNAVAILABLE);
    check_ok(db_reconnect(db)); /* which keeps its silence */
    check_ok(db_script(db, "DO $$ BEGIN RAISE WARNING 'well'; END $$"));
    db_close(db);
    check(dup2(before, STDERR_FILENO) == STDERR_FILENO);
    check_int(fstat(fd, &st), 0);
    check_int(st.st_size, 0);
    close(fd);
    close(before);
}

TEST(a_locked_row_is_skipped_on_postgres)
{
    const char *url = test_postgres_url();
    cleanup(close_db) struct db *one = open_more(url, false);
    cleanup(close_db) struct db *two = open_more(url, false);
    const struct db_value n = db_int(1);
    struct db_rows rows;

    check_ok(db_script(one, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    check_int(add(one, 1, 2), 2);
    for (int i = 0; i < 2; i++) {
        struct db *db = i == 0 ? one : two;
        check_ok(db_begin(db));
        check_ok(db_query(db, CLAIM, &n, 1, &rows));
        check_int(db_next(&rows), 1);
        check_int(db_get_int(&rows, 0), i + 1);
        db_done(&rows);
    }
    db_rollback(one);
    db_rollback(two);
}

/* A process that was stopped in the middle of a transaction: its locks are let go. */
TEST(who_is_idle_in_a_transaction_holds_up_nobody_for_long)
{
    const char *url = new_things();
    char hasty[1024];
    snprintf(hasty, sizeof(hasty),
             "%s&options=-c%%20idle_in_transaction_session_timeout%%3D100ms", url);
    cleanup(close_db) struct db *stopped = open_more(hasty, false);
    cleanup(close_db) struct db *other = open_more(url, false);

    check_setting(stopped, "idle_in_transaction_session_timeout", "100ms");
    check_int(add(other, 1, 1), 1);
    check_ok(db_begin(stopped));
    check_ok(db_script(stopped, "UPDATE things SET name = 'mine'"));
    check_ok(db_begin(other));
    check_ok(db_script(other, "UPDATE things SET name = 'theirs'")); /* waits for it */
    check_ok(db_commit(other));
    /* Whether the COMMIT was still sent is a matter of moments. */
    int r = db_commit(stopped);
    check(r == -HF_UNAVAILABLE || r == -HF_UNKNOWN);
    check_ok(db_reconnect(stopped));
    check_int(one_int(stopped, COUNT), 1);
}
