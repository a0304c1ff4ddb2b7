/* SPDX-License-Identifier: Apache-2.0
 *
 * things.h -- a table of things, and what the tests of src/db do with it. */
#pragma once

#include "db/db.h"
#include "test.h"

enum {
    ADD,
    ADD_ONE,
    GET,
    LIST,
    ECHO,
    SWAPPED,
    RENAME,
    RENAME_BACK,
    DELETE,
    LOOK_UP,
    COUNT,
    SUM,
    CLAIM,
    BROKEN,
    DIE,
    SMALL,
    SQL_COUNT
};

__attribute__((unused)) static const struct db_sql sql[SQL_COUNT] = {
    [ADD] = { "add", "id:int,name:text,body:blob",
              "INSERT INTO things (id, name, body) {values}" },
    [ADD_ONE] = { "add_one", "id:int,name:text",
                  "INSERT INTO things (id, name) VALUES ({id}, {name}) RETURNING id" },
    [GET] = { "get", "id:int", "SELECT id, name, body FROM things WHERE id = {id}" },
    [LIST] = { "list", "", "SELECT id, name FROM things ORDER BY id" },
    [ECHO] = { "echo", "i:int,t:text,b:blob", "SELECT {i}, {t}, {b}" },
    [SWAPPED] = { "swapped", "a:int,b:int", "SELECT {b}, {a}" },
    [RENAME] = { "rename", "id:int,name:text",
                 "UPDATE things SET name = {name} {from} WHERE things.id = {id}" },
    [RENAME_BACK] = { "rename_back", "id:int,name:text",
                      "UPDATE things SET name = {name} {from} WHERE things.id = {id}"
                      " RETURNING things.id, things.name" },
    [DELETE] = { "delete", "id:int",
                 "DELETE FROM things {using} WHERE things.id = {id}" },
    [LOOK_UP] = { "look_up", "id:int",
                  "SELECT things.id FROM things {join} WHERE things.id = {id}" },
    [COUNT] = { "count", "", "SELECT count(*) FROM things" },
    [SUM] = { "sum", "", "SELECT CAST(sum(id) AS BIGINT) FROM things" },
    [CLAIM] = { "claim", "n:int", "SELECT id FROM things ORDER BY id LIMIT {n} {lock}" },
    [BROKEN] = { "broken", "", "SELECT nonsense FROM nowhere" },
    [DIE] = { "die", "",
              "SELECT {sqlite:1}{postgres:pg_terminate_backend(pg_backend_pid())}" },
    [SMALL] = { "small", "",
                "SELECT CAST(-5 AS SMALLINT), CAST(-70000 AS INTEGER), 1 = 1" },
};

static inline struct db *open_more(const char *url, bool read_only)
{
    const struct db_options options = { .url = url,
                                        .sql = sql,
                                        .sql_count = SQL_COUNT,
                                        .create = true,
                                        .read_only = read_only,
                                        .busy_ms = 5000 };
    struct error error = { 0 };
    struct db *db = NULL;

    int r = db_open(&options, &error, &db);
    if (r < 0)
        fail("%s: %s", url, error.text);
    return db;
}

/* A new database with a table of things. */
static inline struct db *open_new(void)
{
    struct db *db = open_more(test_db_url(), false);

    check_ok(db_begin(db));
    check_ok(db_script(db,
                       "-- it's a script; with {braces} in a comment\n"
                       "CREATE TABLE things (id {id}, name TEXT NOT NULL, body {blob});"
                       "{sqlite:CREATE TABLE extra (x INTEGER)};"
                       "{postgres:CREATE TABLE extra (x BIGINT)};"));
    check_ok(db_commit(db));
    return db;
}

static inline void close_db(struct db **db)
{
    db_close(*db);
}

static inline void done_rows(struct db_rows *rows)
{
    db_done(rows);
}

static inline int64_t one_int(struct db *db, int statement)
{
    struct db_rows rows;

    check_ok(db_query(db, statement, NULL, 1, &rows));
    check_int(db_next(&rows), 1);
    int64_t n = db_get_int(&rows, 0);
    check_int(db_next(&rows), 0);
    db_done(&rows);
    return n;
}

/* Adds things [first, first + count), named "thing". */
static inline int64_t add(struct db *db, int64_t first, size_t count)
{
    struct db_value *values = calloc(count * 3 + 1, sizeof(*values));

    for (size_t i = 0; i < count; i++) {
        values[i * 3] = db_int(first + (int64_t)i);
        values[i * 3 + 1] = db_text(SLICE("thing"));
        values[i * 3 + 2] = db_null();
    }
    int64_t r = db_run(db, ADD, values, count);
    free(values);
    return r;
}

static inline int post_one(struct db *db, int64_t id, const char *name)
{
    const struct db_value values[] = { db_int(id), db_text(slice_of(name)), db_null() };

    return db_post(db, ADD, values, 1);
}
