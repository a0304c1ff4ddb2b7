/* SPDX-License-Identifier: Apache-2.0
 *
 * db_driver.h -- what an engine has to do, and what db.c does for it.
 *
 * db.c keeps the rules that are the same everywhere: which verb may follow
 * which, a failed transaction stays failed, values have the declared types,
 * texts are expanded once.  A driver may therefore rely on them and only talks
 * to its engine.
 *
 * Private to src/db. */
#pragma once

#include "db_sql.h"

enum db_mark { DB_MARK_SET, DB_MARK_KEEP, DB_MARK_UNDO };

/* Every function is called with the transaction's state as it was before the
 * verb.  A driver that returns a negative code has written db->error. */
struct db_driver {
    enum db_engine engine;
    int (*open)(const struct db_options *options, struct error *error, struct db **ret);
    void (*close)(struct db *db);
    int (*reconnect)(struct db *db);
    int (*begin)(struct db *db);
    int (*commit)(struct db *db);    /* on failure the transaction is over as well */
    void (*rollback)(struct db *db); /* leaves db->error alone */
    int (*mark)(struct db *db, enum db_mark mark);
    /* rows->db, sql, values and row_count are set, row_count > 0. */
    int (*query)(struct db_rows *rows);
    int (*next)(struct db_rows *rows);
    bool (*is_null)(struct db_rows *rows, int column);
    int64_t (*get_int)(struct db_rows *rows, int column);
    struct slice (*get_text)(struct db_rows *rows, int column);
    int (*done)(struct db_rows *rows); /* negative: what was left undone failed */
    int64_t (*run)(struct db *db, int sql, const struct db_value *values,
                   size_t row_count);
    int (*post)(struct db *db, int sql, const struct db_value *values, size_t row_count);
    int (*script)(struct db *db, const char *text);
};

/* db_borrow_sqlite() for the driver that can. */
int sqlite_borrow(void *handle, const struct db_sql *sql, size_t sql_count,
                  struct db **ret);

extern const struct db_driver db_sqlite_driver;
extern const struct db_driver db_postgres_driver;

/* The part of a connection that is the same for both; a driver's own struct
 * begins with it. */
struct db {
    const struct db_driver *driver;
    const struct db_sql *sql;
    size_t sql_count;
    struct db_statement *statements; /* by index; expanded on first use */
    struct db_counts counts;
    const struct db_rows *rows; /* open now; NULL: none */
    bool read_only;
    bool borrowed; /* the transaction is the application's */
    bool in_transaction;
    bool has_savepoint;
    int failed; /* the error that broke the transaction; 0: none did */
    char error[512];
};

/* Sets up and releases that part.  -HF_NOMEM. */
must_check int db_init(struct db *db, const struct db_driver *driver,
                       const struct db_options *options);
void db_release(struct db *db);

/* Keeps "what: words" for db_error() and returns `code`. */
int db_fail(struct db *db, int code, const char *what, const char *words);
