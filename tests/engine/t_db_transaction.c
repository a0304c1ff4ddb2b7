/* SPDX-License-Identifier: Apache-2.0
 *
 * The database floor: transactions, savepoints and what is posted, the same on
 * both engines. */
#include "things.h"

TEST(rollback_undoes_everything)
{
    cleanup(close_db) struct db *db = open_new();

    db_rollback(db); /* none is open: fine */
    check_ok(db_begin(db));
    check_int(add(db, 1, 3), 3);
    check_ok(post_one(db, 4, "posted"));
    db_rollback(db);
    db_rollback(db);
    check_int(one_int(db, COUNT), 0);
    check_ok(db_begin(db));
    check_ok(db_commit(db)); /* an empty one */
}

TEST(a_closed_connection_has_not_committed)
{
    const char *url = test_db_url();
    struct db *db = open_more(url, false);

    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    check_ok(db_begin(db));
    check_int(add(db, 1, 3), 3);
    db_close(db);
    db = open_more(url, false);
    check_int(one_int(db, COUNT), 0);
    db_close(db);
    db_close(NULL);
}

TEST(what_is_posted_is_committed_and_seen_before_that)
{
    cleanup(close_db) struct db *db = open_new();

    check_ok(db_begin(db));
    check_ok(db_post(db, ADD, NULL, 0));
    for (int i = 0; i < 1000; i++) /* more than one pipeline takes */
        check_ok(post_one(db, i, "posted"));
    check_int(one_int(db, COUNT), 1000);
    check_ok(post_one(db, 1000, "posted"));
    check_ok(db_commit(db));
    check_int(one_int(db, COUNT), 1001);
}

/* Posts the same thing twice; the second may fail at once or later. */
static void post_twice(struct db *db)
{
    check_ok(db_begin(db));
    check_ok(post_one(db, 1, "first"));
    int r = post_one(db, 1, "second");
    check(r == 0 || r == -HF_CONFLICT);
}

TEST(a_failed_post_shows_at_the_commit_and_nothing_is_committed)
{
    cleanup(close_db) struct db *db = open_new();

    post_twice(db);
    check_err(db_commit(db), -HF_CONFLICT);
    check(strstr(db_error(db), "add: "));
    check_int(one_int(db, COUNT), 0);
    check_ok(db_begin(db)); /* and the next transaction is a good one */
    check_int(add(db, 1, 1), 1);
    check_ok(db_commit(db));
    check_int(one_int(db, COUNT), 1);
}

TEST(a_failed_post_shows_at_the_next_verb_and_stays)
{
    cleanup(close_db) struct db *db = open_new();
    struct db_rows rows;

    post_twice(db);
    check_err(db_query(db, COUNT, NULL, 1, &rows), -HF_CONFLICT);
    db_done(&rows);
    check_err(add(db, 5, 1), -HF_CONFLICT);
    check_err(post_one(db, 6, "late"), -HF_CONFLICT);
    check_err(db_savepoint(db), -HF_CONFLICT);
    check_err(db_script(db, "CREATE TABLE more (x {int})"), -HF_CONFLICT);
    check_err(db_commit(db), -HF_CONFLICT);
    check_int(one_int(db, COUNT), 0);
}

TEST(an_undone_savepoint_keeps_what_went_before)
{
    cleanup(close_db) struct db *db = open_new();

    check_ok(db_begin(db));
    check_ok(post_one(db, 1, "before"));
    check_ok(db_savepoint(db));
    check_ok(post_one(db, 2, "undone"));
    check_ok(db_savepoint_undo(db));
    check_ok(db_savepoint(db));
    check_ok(post_one(db, 3, "kept"));
    check_ok(db_savepoint_keep(db));
    check_ok(db_savepoint(db));
    check_err(add(db, 1, 1), -HF_CONFLICT);
    check_err(db_savepoint_keep(db), -HF_CONFLICT);
    check_ok(db_savepoint_undo(db));
    check_ok(post_one(db, 4, "after"));
    check_ok(db_commit(db));
    check_int(one_int(db, COUNT), 3);
    check_int(one_int(db, SUM), 8);
}

TEST(a_post_that_failed_in_a_savepoint_is_undone_with_it)
{
    cleanup(close_db) struct db *db = open_new();

    check_ok(db_begin(db));
    check_int(add(db, 1, 1), 1);
    check_ok(db_savepoint(db));
    int r = post_one(db, 1, "again");
    check(r == 0 || r == -HF_CONFLICT);
    check_err(db_savepoint_keep(db), -HF_CONFLICT);
    check_ok(db_savepoint_undo(db));
    check_ok(db_savepoint(db));
    r = post_one(db, 1, "again");
    check(r == 0 || r == -HF_CONFLICT);
    check_ok(db_savepoint_undo(db)); /* also if nobody has heard of it yet */
    check_ok(post_one(db, 2, "fine"));
    check_ok(db_commit(db));
    check_int(one_int(db, COUNT), 2);
}

TEST(a_post_that_failed_before_a_savepoint_is_not_undone_with_it)
{
    cleanup(close_db) struct db *db = open_new();

    post_twice(db);
    int r = db_savepoint(db);
    if (r == 0) {
        check_ok(post_one(db, 2, "inside"));
        r = db_savepoint_undo(db);
    }
    check_err(r, -HF_CONFLICT);
    check_err(db_commit(db), -HF_CONFLICT);
    check_int(one_int(db, COUNT), 0);
}

TEST(work_is_counted)
{
    cleanup(close_db) struct db *db = open_new();
    struct db_counts before, after;

    db_get_counts(db, &before);
    check_ok(db_begin(db));
    check_ok(post_one(db, 1, "a"));
    check_int(one_int(db, COUNT), 1);
    check_ok(post_one(db, 2, "b"));
    check_ok(db_commit(db));
    db_get_counts(db, &after);
    check_int(after.commits - before.commits, 1);
    check_int(after.statements - before.statements, 3);
    /* The question and the commit; all else travels with them. */
    check_int(after.round_trips - before.round_trips, test_on_postgres() ? 2 : 0);
}
