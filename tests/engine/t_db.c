/* SPDX-License-Identifier: Apache-2.0
 *
 * The database floor: values and sets, the same on both engines. */
#include "things.h"

/* Sends the values through the database and back. */
static void check_echo(struct db *db, int64_t i, struct slice text, struct slice bytes)
{
    const struct db_value values[] = { db_int(i), db_text(text), db_blob(bytes) };
    cleanup(done_rows) struct db_rows rows;

    check_ok(db_query(db, ECHO, values, 1, &rows));
    check_int(db_next(&rows), 1);
    check_int(db_get_int(&rows, 0), i);
    check(!db_is_null(&rows, 0));
    check_int(db_is_null(&rows, 1), !text.p);
    check_int(db_is_null(&rows, 2), !bytes.p);
    struct slice t = db_get_text(&rows, 1), b = db_get_text(&rows, 2);
    check(!t.p == !text.p && slice_equal(t, text));
    check(!b.p == !bytes.p && slice_equal(b, bytes));
    check_int(db_next(&rows), 0);
}

TEST(values_come_back_as_they_went)
{
    cleanup(close_db) struct db *db = open_new();
    struct slice absent = { NULL, 0 };

    check_echo(db, 0, SLICE("text"), SLICE("bytes"));
    check_echo(db, INT64_MIN, SLICE(""), SLICE(""));
    check_echo(db, INT64_MAX, absent, absent);
    check_echo(db, -1, SLICE("Grüße, 世界 \xf0\x9f\x94\x92 'quoted' \\ {x} $1 ?1"),
               SLICE("\0\x01\xff\xfe\0"));
    check_echo(db, INT64_C(1) << 32, SLICE("1"), absent);
}

TEST(a_mebibyte_comes_back_as_it_went)
{
    cleanup(close_db) struct db *db = open_new();
    size_t n = 1 << 20;
    char *bytes = malloc(n), *text = malloc(n);

    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)(i * 7 + i / 256);
        text[i] = (char)('a' + i % 26);
    }
    check_echo(db, 1, (struct slice){ text, n }, (struct slice){ bytes, n });
    /* And through a set, which is encoded in another way. */
    const struct db_value row[] = { db_int(1), db_text((struct slice){ text, n }),
                                    db_blob((struct slice){ bytes, n }) };
    check_int(db_run(db, ADD, row, 1), 1);
    struct db_rows rows;
    check_ok(db_query(db, GET, row, 1, &rows));
    check_int(db_next(&rows), 1);
    check(slice_equal(db_get_text(&rows, 1), row[1].s));
    check(slice_equal(db_get_text(&rows, 2), row[2].s));
    db_done(&rows);
    free(bytes);
    free(text);
}

TEST(null_is_zero_as_an_integer_and_absent_as_a_text)
{
    cleanup(close_db) struct db *db = open_new();
    const struct db_value values[] = { db_int_or_null(0, 0), db_null(), db_null() };
    cleanup(done_rows) struct db_rows rows;

    check_ok(db_query(db, ECHO, values, 1, &rows));
    check_int(db_next(&rows), 1);
    check(db_is_null(&rows, 0));
    check_int(db_get_int(&rows, 0), 0);
    check(!db_get_text(&rows, 1).p);
}

TEST(integers_of_any_width_keep_their_sign)
{
    cleanup(close_db) struct db *db = open_new();
    cleanup(done_rows) struct db_rows rows;

    check_ok(db_query(db, SMALL, NULL, 1, &rows));
    check_int(db_next(&rows), 1);
    check_int(db_get_int(&rows, 0), -5);
    check_int(db_get_int(&rows, 1), -70000);
    check_int(db_get_int(&rows, 2), 1);
}

TEST(parameters_are_numbered_as_declared_and_not_as_they_appear)
{
    cleanup(close_db) struct db *db = open_new();
    const struct db_value values[] = { db_int(1), db_int(2) };
    cleanup(done_rows) struct db_rows rows;

    check_ok(db_query(db, SWAPPED, values, 1, &rows));
    check_int(db_next(&rows), 1);
    check_int(db_get_int(&rows, 0), 2);
    check_int(db_get_int(&rows, 1), 1);
}

TEST(a_set_keeps_null_and_empty_apart)
{
    cleanup(close_db) struct db *db = open_new();
    const struct db_value values[] = {
        db_int(1), db_text(SLICE("")),     db_null(),          /* */
        db_int(2), db_text(SLICE("two")),  db_blob(SLICE("")), /* */
        db_int(3), db_text(SLICE("drei")), db_blob(SLICE("\0x")),
    };
    static const char *const names[] = { "", "two", "drei" };
    struct db_rows rows;

    check_ok(db_begin(db));
    check_int(db_run(db, ADD, values, 3), 3);
    check_ok(db_commit(db));
    for (int64_t i = 0; i < 3; i++) {
        const struct db_value key = db_int(i + 1);
        check_ok(db_query(db, GET, &key, 1, &rows));
        check_int(db_next(&rows), 1);
        check_slice(db_get_text(&rows, 1), names[i]);
        check(!db_is_null(&rows, 1));
        check_int(db_is_null(&rows, 2), i == 0);
        check_int(db_get_text(&rows, 2).n, i == 2 ? 2 : 0);
        db_done(&rows);
    }
}

TEST(sets_of_none_one_and_a_thousand_rows)
{
    cleanup(close_db) struct db *db = open_new();
    static struct db_value renames[1001 * 2], keys[1001];

    check_ok(db_begin(db));
    check_int(add(db, 1, 0), 0);
    check_int(add(db, 1, 1), 1);
    check_int(add(db, 2, 1000), 1000);
    check_int(one_int(db, COUNT), 1001);
    check_int(one_int(db, SUM), 1001 * 1002 / 2);

    for (int64_t i = 0; i < 1001; i++) {
        renames[i * 2] = db_int(i * 2 + 1); /* every second is not there */
        renames[i * 2 + 1] = db_text(SLICE("renamed"));
        keys[i] = db_int(i * 3);
    }
    check_int(db_run(db, RENAME, renames, 0), 0);
    check_int(db_run(db, RENAME, renames, 1), 1);
    check_int(db_run(db, RENAME, renames, 1001), 501);
    check_int(db_run(db, DELETE, keys, 1001), 333);
    check_int(one_int(db, COUNT), 668);
    check_ok(db_commit(db));
}

TEST(a_set_returns_the_rows_it_changed)
{
    cleanup(close_db) struct db *db = open_new();
    static struct db_value values[1000 * 2];
    static bool seen[1001];
    struct db_rows rows;
    int r = 0, count = 0;

    check_ok(db_begin(db));
    check_int(add(db, 1, 500), 500);
    for (int i = 0; i < 1000; i++) {
        values[i * 2] = db_int(i + 1);
        values[i * 2 + 1] = db_text(i % 2 ? SLICE("odd") : SLICE("even"));
    }
    check_ok(db_query(db, RENAME_BACK, values, 1000, &rows));
    while ((r = db_next(&rows)) > 0) {
        int64_t id = db_get_int(&rows, 0);
        check(id >= 1 && id <= 500 && !seen[id]);
        seen[id] = true;
        check_slice(db_get_text(&rows, 1), id % 2 ? "even" : "odd");
        count++;
    }
    check_ok(r);
    db_done(&rows);
    check_int(count, 500);

    check_ok(db_query(db, RENAME_BACK, values, 0, &rows));
    check_int(db_next(&rows), 0);
    db_done(&rows);
    check_ok(db_commit(db));
}

TEST(a_set_can_be_looked_up)
{
    cleanup(close_db) struct db *db = open_new();
    const struct db_value keys[] = { db_int(7), db_int(2), db_int(99) };
    struct db_rows rows;
    int64_t sum = 0;

    check_ok(db_begin(db));
    check_int(add(db, 1, 10), 10);
    check_ok(db_commit(db));
    check_ok(db_query(db, LOOK_UP, keys, 3, &rows));
    while (db_next(&rows) > 0)
        sum += db_get_int(&rows, 0);
    db_done(&rows);
    check_int(sum, 9);
}

TEST(reading_may_end_early_but_everything_is_written)
{
    cleanup(close_db) struct db *db = open_new();
    struct db_value values[10 * 2];
    struct db_rows rows;
    int renamed = 0;

    check_ok(db_begin(db));
    check_int(add(db, 1, 10), 10);
    for (int i = 0; i < 10; i++) {
        values[i * 2] = db_int(i + 1);
        values[i * 2 + 1] = db_text(SLICE("new"));
    }
    check_ok(db_query(db, RENAME_BACK, values, 10, &rows));
    check_int(db_next(&rows), 1);
    db_done(&rows);
    db_done(&rows); /* twice does no harm */
    check_ok(db_commit(db));

    check_ok(db_query(db, LIST, NULL, 1, &rows));
    while (db_next(&rows) > 0)
        renamed += slice_equal(db_get_text(&rows, 1), SLICE("new"));
    db_done(&rows);
    check_int(renamed, 10);
}

TEST(a_constraint_is_a_conflict_with_the_engines_words)
{
    cleanup(close_db) struct db *db = open_new();
    const struct db_value unnamed[] = { db_int(2), db_null(), db_null() };

    check_int(add(db, 1, 1), 1);
    check_err(add(db, 1, 1), -HF_CONFLICT);
    check(strstr(db_error(db), "add: "));
    check(strstr(db_error(db), test_on_postgres() ? "things_pkey" : "things.id"));
    check_err(db_run(db, ADD, unnamed, 1), -HF_CONFLICT);
    check_int(one_int(db, COUNT), 1);
}

TEST(a_wrong_statement_is_a_defect)
{
    cleanup(close_db) struct db *db = open_new();
    struct db_rows rows;

    check_err(db_query(db, BROKEN, NULL, 1, &rows), -HF_INTERNAL);
    check(strstr(db_error(db), "broken: "));
    db_done(&rows);
    check_err(db_script(db, "CREATE NONSENSE"), -HF_INTERNAL);
    check_int(one_int(db, COUNT), 0);
}
