/* SPDX-License-Identifier: Apache-2.0
 *
 * db.h -- a database in ten verbs, the same on SQLite and PostgreSQL.
 *
 * Why it exists: every rule of Holdfast is kept by one set of statements that
 * must mean the same on both engines.  This floor knows SQL, connections and
 * errors; it knows nothing of jobs.
 *
 * STATEMENTS are written once, in a table of `struct db_sql`, in the dialect
 * both engines share, with named parameters and a few words in braces:
 *
 *   {name}    a parameter.  Declared in `params` as "name:type,..." with type
 *             `int` (64 bits), `text` or `blob`.
 *   {from}    turns the statement into a SET statement: it runs for many
 *             rows of parameters at once.
 *             SQLite: nothing; the statement is executed once per row.  If there
 *             are many and no answer is asked for, some at a time:
 *             FROM (VALUES (?1, ...), ...) AS v, and {name} becomes v.columnN.
 *             PostgreSQL: FROM unnest($1::bigint[], ...) AS v(name, ...), and
 *             {name} becomes v.name: one execution for the whole set.
 *             So `UPDATE t SET x = {x} {from} WHERE t.id = {id}` is a plain
 *             update on one and a set-based one on the other.
 *   {using}   the same with USING in place of FROM: DELETE FROM t {using} ...
 *   {join}    the same behind a FROM that is there already:
 *             SELECT t.id FROM t {join} WHERE t.id = {id}
 *   {values}  like {from}, after INSERT INTO t (...): VALUES (?1, ?2, ...) or
 *             SELECT v.a, v.b, ... FROM unnest(...) AS v(...).  All parameters,
 *             in the order declared.
 *             The rows of a set may not see each other: two rows that update
 *             the same one are applied once.  Keys must differ.
 *   {lock}    FOR UPDATE SKIP LOCKED, or nothing.
 *   {forupdate} FOR UPDATE, or nothing.
 *   {sqlite:...} {postgres:...}  text for one engine only; words in braces
 *             may be inside.
 *   {one:...} {many:...}  in a set statement: text for an execution per row, and
 *             for one execution with the set as a table.
 *
 * What is between single quotes or behind -- is left alone.
 *
 * A statement is prepared on first use and kept.  A refusal is a row that does
 * not come back, never an error; errors are for broken machines and for
 * constraints, which stop what the code should have stopped before.
 *
 * RESULTS of a set statement come in no particular order: return the key.
 *
 * ERRORS: every verb returns 0 or
 *   -HF_CONFLICT     a constraint refused (unique, primary key, check)
 *   -HF_BUSY         locked by another, deadlock, serialization: try again
 *   -HF_UNAVAILABLE  the connection is gone and nothing was committed
 *   -HF_UNKNOWN      done or not done, nobody told us: only from db_commit, and
 *                    from a statement that writes outside a transaction
 *   -HF_TOO_LARGE    a set of more than 256 MiB
 *   -HF_FULL -HF_IO -HF_READONLY -HF_CORRUPT -HF_NOMEM -HF_FOREIGN
 *   -HF_INTERNAL     the statement itself is wrong: a defect
 * and db_error() has the engine's own words.
 *
 * A transaction in which anything failed stays failed: every verb returns that
 * first error until db_rollback(), db_commit() (which rolls back and returns
 * it) or, if the failure came after the savepoint, db_savepoint_undo().
 *
 * Threads: a `struct db` belongs to one thread at a time. */
#pragma once

#include "base/base.h"
#include "base/status.h"

struct db;

enum db_engine { DB_SQLITE, DB_POSTGRES };

struct db_sql {
    const char *name;   /* for errors and counts */
    const char *params; /* "id:int,kind:text", "" for none */
    const char *text;
};

/* One parameter or one field.  Build with the makers below. */
struct db_value {
    enum { DB_NULL, DB_INT, DB_TEXT, DB_BLOB } type;
    int64_t i;
    struct slice s; /* borrowed */
};

static inline struct db_value db_int(int64_t i)
{
    return (struct db_value){ .type = DB_INT, .i = i };
}
static inline struct db_value db_text(struct slice s) /* absent slice: NULL */
{
    return (struct db_value){ .type = s.p ? DB_TEXT : DB_NULL, .s = s };
}
static inline struct db_value db_blob(struct slice s)
{
    return (struct db_value){ .type = s.p ? DB_BLOB : DB_NULL, .s = s };
}
static inline struct db_value db_null(void)
{
    return (struct db_value){ .type = DB_NULL };
}
/* `none` stands for NULL: ids and times use 0 for "not there". */
static inline struct db_value db_int_or_null(int64_t i, int64_t none)
{
    return i == none ? db_null() : db_int(i);
}

/* How to open.  `url` is a file path, or postgres:// or postgresql:// with
 * libpq's own syntax behind it. */
struct db_options {
    const char *url;
    const struct db_sql *sql; /* the statements, by index; static */
    size_t sql_count;
    bool read_only;     /* the twin for lists and pages: refuses writes */
    bool create;        /* SQLite: make the file if it is not there */
    int busy_ms;        /* SQLite: how long to wait for another writer */
    const char *vfs;    /* SQLite: name of a VFS, or NULL; tests inject faults */
    const char *schema; /* PostgreSQL: the schema to use where the url names no
                           search_path of its own; NULL: leave it */
};

/* Which engine a url names. */
enum db_engine db_engine_of(const char *url);

/* For a program that has SQLite to itself, before anything is opened: it keeps no
 * statistics of its memory, for which it would take a lock at each allocation.  Not for a
 * library: whether they are kept is its host's business. */
void db_own_process(void);

/* 1. Opens.  On failure the sentence in `error` names the path or host.  A
 * file that is not SQLite is -HF_FOREIGN; one that cannot be opened says why. */
must_check int db_open(const struct db_options *options, struct error *error,
                       struct db **ret);

/* Wraps an open sqlite3 handle of the application, whose own transaction is
 * under way: statements run inside it; begin, commit and rollback are refused
 * with -HF_INVALID, as is a handle without one; db_close() finalizes our statements and leaves the handle
 * open.  `handle` is a sqlite3 *. */
must_check int db_borrow_sqlite(void *handle, const struct db_sql *sql, size_t sql_count,
                                struct db **ret);

/* 2. Closes; NULL is fine.  An open transaction is rolled back. */
void db_close(struct db *db);

/* PostgreSQL: makes the connection anew after -HF_UNAVAILABLE or -HF_UNKNOWN;
 * -HF_UNAVAILABLE while the server is still away.  SQLite: 0. */
must_check int db_reconnect(struct db *db);

enum db_engine db_engine(const struct db *db);

/* The engine's words for the last failure.  Valid until the next call. */
const char *db_error(const struct db *db);

/* 3. 4. 5. A transaction.  On SQLite a writing one is BEGIN IMMEDIATE, so that
 * it fails at the start or not at all; a read-only db begins a snapshot, which
 * is taken by its first statement.  A transaction is over after db_commit(),
 * also when it failed. */
must_check int db_begin(struct db *db);
must_check int db_commit(struct db *db);
void db_rollback(struct db *db); /* also when none is open, or it is broken */

/* 6. A savepoint, of which there is at most one: set, then keep or undo.  Keep
 * waits for everything posted since, so that its failure can still be undone.
 * Undo fails if what was posted before the savepoint did. */
must_check int db_savepoint(struct db *db);
must_check int db_savepoint_keep(struct db *db);
must_check int db_savepoint_undo(struct db *db);

/* 7. Runs a statement and reads its rows:
 *
 *   struct db_rows rows;
 *   int r = db_query(db, SQL_X, values, 1, &rows);
 *   while (r == 0 && (r = db_next(&rows)) > 0) { ... db_get_int(&rows, 0) ... r = 0; }
 *   db_done(&rows);
 *
 * or, shorter, with db_each(): see store code.  `values` holds `row_count`
 * rows of as many values as the statement has parameters, row by row; for a
 * statement without {from} or {values}, row_count is 1 (also with no
 * parameters, then values may be NULL).  row_count 0 is allowed for set
 * statements and yields no rows.  The values and what they point to must stay
 * until db_done().  No other statement may be run while rows are open.
 *
 * A set of more than one row that writes is run inside a transaction only. */
struct db_rows {
    struct db *db;
    int sql;
    const struct db_value *values;
    size_t row_count, row_next;
    void *state; /* the driver's */
    int64_t at;  /* the driver's */
};
must_check int db_query(struct db *db, int sql, const struct db_value *values,
                        size_t row_count, struct db_rows *rows);
/* 1: there is a row; 0: no more; negative: failed. */
must_check int db_next(struct db_rows *rows);
bool db_is_null(struct db_rows *rows, int column);
/* Nothing is converted: an integer is read as one (NULL is 0), text and bytes as
 * a slice (NULL is absent) that is valid until db_next().  PostgreSQL's sum()
 * is no integer: CAST(sum(x) AS BIGINT). */
int64_t db_get_int(struct db_rows *rows, int column);
struct slice db_get_text(struct db_rows *rows, int column);
/* Ends the reading, early or not; what the statement writes is written all the
 * same.  Also after a failed db_query. */
void db_done(struct db_rows *rows);

/* 8. Runs a statement whose rows do not matter.  Returns the number of rows
 * changed, or negative. */
must_check int64_t db_run(struct db *db, int sql, const struct db_value *values,
                          size_t row_count);

/* 9. Like db_run, but need not wait for the answer: PostgreSQL may send it
 * along with the next statement (pipeline).  A failure shows at the next verb
 * or at db_commit at the latest.  Only inside a transaction. */
must_check int db_post(struct db *db, int sql, const struct db_value *values,
                       size_t row_count);

/* 10. Runs a script of several statements separated by ';' (migrations).  The
 * engines' own text in braces applies, and there are words for types: {int} is
 * a 64-bit integer, {small} one of 16 bits where that saves space, {id} an
 * integer primary key, {serial} one that counts by itself, {blob} bytes. */
must_check int db_script(struct db *db, const char *script);

/* Executions, waits for the server and commits so far, for the budget of writes. */
struct db_counts {
    uint64_t statements, round_trips, commits;
};
void db_get_counts(const struct db *db, struct db_counts *ret);

/* Copies the SQLite database at `url`, which may be in use, into a new file `to`: one
 * snapshot, whole and on disk when it has its name.  `told` (may be NULL) is called
 * with the pages so far.  -HF_CONFLICT if `to` is there; -HF_INVALID for PostgreSQL,
 * which has its own means.  The sentence is in `error`. */
must_check int db_backup(const char *url, const char *to,
                         void (*told)(void *arg, int64_t done, int64_t total), void *arg,
                         struct error *error, int64_t *ret_bytes);
