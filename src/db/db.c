/* SPDX-License-Identifier: Apache-2.0
 *
 * db.c -- the rules that hold on every engine, then on to the driver.
 *
 * Transactions:
 *
 *   idle ──begin──► open ──any failure──► failed
 *     ▲              │ ▲                    │
 *     └─commit───────┘ └─savepoint_undo─────┤
 *     └─rollback, commit (as an error)──────┘
 *
 * A failed transaction refuses everything but its end, with the error that
 * broke it.  PostgreSQL does that by itself; on SQLite it is done here, so
 * that half a pile is never committed by a caller that overlooked an error. */
#include "db.h"

#include <stdio.h>

#include "db_driver.h"

enum db_engine db_engine_of(const char *url)
{
    static const char *const prefixes[] = { "postgres://", "postgresql://" };

    for (size_t i = 0; i < array_len(prefixes); i++)
        if (strncmp(url, prefixes[i], strlen(prefixes[i])) == 0)
            return DB_POSTGRES;
    return DB_SQLITE;
}

int db_init(struct db *db, const struct db_driver *driver,
            const struct db_options *options)
{
    db->driver = driver;
    db->sql = options->sql;
    db->sql_count = options->sql_count;
    db->read_only = options->read_only;
    db->statements = calloc(options->sql_count + 1, sizeof(*db->statements));
    return db->statements ? 0 : -HF_NOMEM;
}

void db_release(struct db *db)
{
    for (size_t i = 0; db->statements && i < db->sql_count; i++)
        db_statement_release(&db->statements[i]);
    free(db->statements);
    db->statements = NULL;
}

int db_fail(struct db *db, int code, const char *what, const char *words)
{
    assert(code < 0);
    snprintf(db->error, sizeof(db->error), "%s: %s", what, words);
    size_t n = strlen(db->error);
    while (n > 0 && db->error[n - 1] == '\n') /* as libpq likes to end */
        db->error[--n] = '\0';
    return code;
}

/* Every verb's failure passes here. */
static int broken(struct db *db, int code)
{
    assert(code < 0);
    if (db->in_transaction && !db->failed)
        db->failed = code;
    return code;
}

static void end_transaction(struct db *db)
{
    db->in_transaction = false;
    db->has_savepoint = false;
    db->failed = 0;
}

int db_open(const struct db_options *options, struct error *error, struct db **ret)
{
    assert(options->url);
    assert(options->sql || options->sql_count == 0);

    const struct db_driver *driver = db_engine_of(options->url) == DB_POSTGRES
                                         ? &db_postgres_driver
                                         : &db_sqlite_driver;
    return driver->open(options, error, ret);
}

int db_borrow_sqlite(void *handle, const struct db_sql *sql, size_t sql_count,
                     struct db **ret)
{
    assert(handle && sql);
    return sqlite_borrow(handle, sql, sql_count, ret);
}

void db_close(struct db *db)
{
    if (!db)
        return;
    assert(!db->rows);
    if (!db->borrowed)
        db_rollback(db);
    db->driver->close(db);
}

int db_reconnect(struct db *db)
{
    assert(!db->rows);
    db_rollback(db);
    return db->driver->reconnect(db);
}

enum db_engine db_engine(const struct db *db)
{
    return db->driver->engine;
}

const char *db_error(const struct db *db)
{
    return db->error;
}

void db_get_counts(const struct db *db, struct db_counts *ret)
{
    *ret = db->counts;
}

int db_begin(struct db *db)
{
    assert((db->borrowed || !db->in_transaction) && !db->rows);
    if (db->borrowed)
        return db_fail(db, -HF_INVALID, "begin", "the transaction is the application's");

    int r = db->driver->begin(db);
    if (r < 0)
        return r;
    db->in_transaction = true;
    return 0;
}

int db_commit(struct db *db)
{
    assert(db->in_transaction && !db->rows);
    if (db->borrowed)
        return db_fail(db, -HF_INVALID, "commit", "the transaction is the application's");

    int r = db->failed;
    if (r < 0) {
        db->driver->rollback(db);
    } else {
        r = db->driver->commit(db);
        db->counts.commits += r == 0;
    }
    end_transaction(db);
    return r;
}

void db_rollback(struct db *db)
{
    assert(!db->rows);
    if (!db->in_transaction || db->borrowed)
        return;
    db->driver->rollback(db);
    end_transaction(db);
}

int db_savepoint(struct db *db)
{
    assert(db->in_transaction && !db->has_savepoint && !db->rows);
    if (db->failed)
        return db->failed;

    int r = db->driver->mark(db, DB_MARK_SET);
    if (r < 0)
        return broken(db, r);
    db->has_savepoint = true;
    return 0;
}

int db_savepoint_keep(struct db *db)
{
    assert(db->has_savepoint && !db->rows);
    if (db->failed)
        return db->failed;

    int r = db->driver->mark(db, DB_MARK_KEEP);
    if (r < 0)
        return broken(db, r); /* it can still be undone */
    db->has_savepoint = false;
    return 0;
}

int db_savepoint_undo(struct db *db)
{
    assert(db->has_savepoint && !db->rows);

    int r = db->driver->mark(db, DB_MARK_UNDO);
    db->has_savepoint = false;
    if (r < 0)
        return broken(db, r);
    db->failed = 0;
    return 0;
}

/* What all statements have in common before the driver gets them.  The types
 * are held against the declaration here, because SQLite would take anything
 * and PostgreSQL would read the bytes of a text as a number. */
static int prepare(struct db *db, int sql, const struct db_value *values,
                   size_t row_count)
{
    assert(sql >= 0 && (size_t)sql < db->sql_count);
    assert(!db->rows);
    if (db->failed)
        return db->failed;

    struct db_statement *s = &db->statements[sql];
    if (!s->text) {
        int r = db_statement_init(db->driver->engine, &db->sql[sql], s);
        if (r < 0)
            return db_fail(db, r, db->sql[sql].name, "no memory");
    }
    assert(s->is_set || row_count == 1);
    assert(values || s->param_count == 0 || row_count == 0);

    const struct db_value *v = values;
    for (size_t row = 0; row < row_count; row++)
        for (int i = 0; i < s->param_count; i++, v++)
            assert(v->type == DB_NULL || v->type == s->types[i]);
    return 0;
}

int db_query(struct db *db, int sql, const struct db_value *values, size_t row_count,
             struct db_rows *rows)
{
    *rows = (struct db_rows){ .db = db, .sql = sql };

    int r = prepare(db, sql, values, row_count);
    if (r < 0)
        return broken(db, r);
    rows->values = values;
    rows->row_count = row_count;
    if (row_count > 0 && (r = db->driver->query(rows)) < 0) {
        rows->row_count = 0;
        return broken(db, r);
    }
    db->rows = rows;
    return 0;
}

int db_next(struct db_rows *rows)
{
    if (rows->row_count == 0)
        return 0;
    assert(rows->db->rows == rows);

    int r = rows->db->driver->next(rows);
    return r < 0 ? broken(rows->db, r) : r;
}

bool db_is_null(struct db_rows *rows, int column)
{
    return rows->db->driver->is_null(rows, column);
}

int64_t db_get_int(struct db_rows *rows, int column)
{
    return rows->db->driver->get_int(rows, column);
}

struct slice db_get_text(struct db_rows *rows, int column)
{
    return rows->db->driver->get_text(rows, column);
}

void db_done(struct db_rows *rows)
{
    if (rows->db->rows != rows)
        return;
    if (rows->row_count > 0) {
        int r = rows->db->driver->done(rows);
        if (r < 0)
            broken(rows->db, r);
    }
    rows->db->rows = NULL;
    rows->row_count = 0;
}

int64_t db_run(struct db *db, int sql, const struct db_value *values, size_t row_count)
{
    int64_t r = prepare(db, sql, values, row_count);

    if (r == 0 && row_count > 0)
        r = db->driver->run(db, sql, values, row_count);
    return r < 0 ? broken(db, (int)r) : r;
}

int db_post(struct db *db, int sql, const struct db_value *values, size_t row_count)
{
    assert(db->in_transaction);

    int r = prepare(db, sql, values, row_count);
    if (r == 0 && row_count > 0)
        r = db->driver->post(db, sql, values, row_count);
    return r < 0 ? broken(db, r) : 0;
}

int db_script(struct db *db, const char *script)
{
    assert(!db->rows);
    if (db->failed)
        return db->failed;

    char *text = NULL;
    int r = db_script_expand(db->driver->engine, script, &text);
    if (r < 0)
        return broken(db, db_fail(db, r, "(script)", "no memory"));
    r = db->driver->script(db, text);
    free(text);
    return r < 0 ? broken(db, r) : 0;
}
