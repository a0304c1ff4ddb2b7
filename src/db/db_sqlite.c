/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sqlite.c -- SQLite, in write-ahead mode with every commit on the disk.
 *
 * A set statement is executed once per row of parameters: SQLite runs in this
 * process, so there is no round trip to save, and the loop does nothing but
 * bind and step.  Where there are many rows and no answer, DB_CHUNK_ROWS are
 * taken by each execution: to begin one, open the table and its indexes and
 * close them again costs as much as a row.  Nothing is allocated per row: values
 * are bound where they lie, and stay there until db_done().
 *
 * What a failed COMMIT means: -HF_FULL and the rest are certain, nothing was
 * committed.  An I/O error is not: the frames may be in the log although
 * fsync failed, and after a crash the log may be replayed with them or without
 * them.  That is -HF_UNKNOWN.  So is -HF_FULL where SQLite writes copies of the
 * last frame behind it (sync_is_last). */
#include "db_sqlite.h"

/* IMMEDIATE takes the write lock at once: a transaction waits for another
 * writer when it begins, and never fails half-way because of one. */
static const char *const verb_text[VERB_COUNT] = {
    [VERB_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [VERB_BEGIN_READ] = "BEGIN",
    [VERB_COMMIT] = "COMMIT",
    [VERB_ROLLBACK] = "ROLLBACK",
    [VERB_SAVEPOINT] = "SAVEPOINT s",
    [VERB_KEEP] = "RELEASE s",
    [VERB_UNDO] = "ROLLBACK TO s",
};

static int fail(struct sqlite *s, int rc, const char *what)
{
    return db_fail(&s->db, sqlite_code(rc), what, sqlite3_errmsg(s->handle));
}

static int keep_prepared(struct sqlite *s, const char *text, sqlite3_stmt **ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        sqlite3_prepare_v3(s->handle, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);

    assert(rc != SQLITE_OK || stmt); /* a statement that is only a comment */
    if (rc == SQLITE_OK)
        *ret = stmt;
    return rc;
}

static int do_verb(struct sqlite *s, enum sqlite_verb verb)
{
    int rc = SQLITE_OK;

    if (!s->verbs[verb])
        rc = keep_prepared(s, verb_text[verb], &s->verbs[verb]);
    if (rc == SQLITE_OK) {
        sqlite3_step(s->verbs[verb]);
        rc = sqlite3_reset(s->verbs[verb]);
    }
    return rc;
}

static int sqlite_begin(struct db *db)
{
    struct sqlite *s = sqlite_of(db);
    int rc = sqlite_use_wal(s);

    if (rc == SQLITE_OK)
        rc = do_verb(s, db->read_only ? VERB_BEGIN_READ : VERB_BEGIN_WRITE);
    return rc == SQLITE_OK ? 0 : fail(s, rc, "begin");
}

/* Some errors (full, I/O) end the transaction by themselves. */
static void sqlite_rollback(struct db *db)
{
    struct sqlite *s = sqlite_of(db);

    if (!sqlite3_get_autocommit(s->handle))
        (void)do_verb(s, VERB_ROLLBACK);
}

static int sqlite_commit(struct db *db)
{
    struct sqlite *s = sqlite_of(db);

    assert(!sqlite3_get_autocommit(s->handle)); /* else db->failed were set */
    sqlite_log_begin(&s->log);
    int rc = do_verb(s, VERB_COMMIT);
    assert(rc != SQLITE_OK || s->log.count == 0); /* FULL: each ends with a sync */
    sqlite_log_end(&s->log);
    if (rc == SQLITE_OK)
        return 0;
    int r = fail(s, rc, "commit");
    sqlite_rollback(db);
    bool sure = r != -HF_IO && (r != -HF_FULL || s->log.sync_is_last);
    return sure || db->read_only ? r : -HF_UNKNOWN;
}

static int sqlite_mark(struct db *db, enum db_mark mark)
{
    struct sqlite *s = sqlite_of(db);

    /* Begun for the same reason as the transaction, and gone with it. */
    if (sqlite3_get_autocommit(s->handle))
        return db->failed ? db->failed
                          : db_fail(db, -HF_INTERNAL, "savepoint", "no transaction");
    static const enum sqlite_verb verbs[] = { [DB_MARK_SET] = VERB_SAVEPOINT,
                                              [DB_MARK_KEEP] = VERB_KEEP,
                                              [DB_MARK_UNDO] = VERB_UNDO };
    int rc = do_verb(s, verbs[mark]);
    if (rc == SQLITE_OK && mark == DB_MARK_UNDO)
        rc = do_verb(s, VERB_KEEP); /* undoing leaves the savepoint set */
    return rc == SQLITE_OK ? 0 : fail(s, rc, "savepoint");
}

static int bind(sqlite3_stmt *stmt, int at, const struct db_value *v)
{
    switch (v->type) {
    case DB_NULL:
        return sqlite3_bind_null(stmt, at);
    case DB_INT:
        return sqlite3_bind_int64(stmt, at, v->i);
    case DB_TEXT:
        return sqlite3_bind_text64(stmt, at, v->s.p, v->s.n, SQLITE_STATIC, SQLITE_UTF8);
    case DB_BLOB:
        return sqlite3_bind_blob64(stmt, at, v->s.p, v->s.n, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

/* Makes the statement ready for an execution with so many values. */
static int bind_values(struct sqlite *s, sqlite3_stmt *stmt,
                       const struct db_value *values, size_t count)
{
    /* A parameter that only the other engine's text mentions is not there. */
    int used = sqlite3_bind_parameter_count(stmt);
    int rc = SQLITE_OK;
    for (int i = 0; (size_t)i < count && i < used && rc == SQLITE_OK; i++)
        rc = bind(stmt, i + 1, &values[i]);
    s->db.counts.statements++;
    return rc;
}

static int prepared(struct sqlite *s, int sql, const char *text, sqlite3_stmt **kept)
{
    int rc = *kept ? SQLITE_OK : keep_prepared(s, text, kept);

    return rc == SQLITE_OK ? 0 : fail(s, rc, s->db.sql[sql].name);
}

static int statement(struct sqlite *s, int sql, size_t row_count, sqlite3_stmt **ret)
{
    int r = prepared(s, sql, s->db.statements[sql].text, &s->prepared[sql]);

    if (r < 0)
        return r;
    *ret = s->prepared[sql];
    /* Else each row would be a transaction, and a failure leave some of them. */
    assert(s->db.in_transaction || row_count <= 1 || sqlite3_stmt_readonly(*ret));
    return 0;
}

/* The failure of a statement.  Outside a transaction it was a commit, too. */
static int fail_statement(struct sqlite *s, int rc, sqlite3_stmt *stmt, int sql)
{
    int r = fail(s, rc, s->db.sql[sql].name);

    if (r == -HF_IO && !s->db.in_transaction && !sqlite3_stmt_readonly(stmt))
        return -HF_UNKNOWN;
    return r;
}

/* Executes rows [*next, row_count) to the end, `each` at a time, whatever they
 * return; leaves a rest that is less. */
static int run_rows(struct sqlite *s, sqlite3_stmt *stmt, int sql, size_t each,
                    const struct db_value *values, size_t row_count, size_t *next,
                    int64_t *changed)
{
    size_t width = (size_t)s->db.statements[sql].param_count;
    int rc = SQLITE_OK;

    for (; *next + each <= row_count; *next += each) {
        rc = bind_values(s, stmt, values + *next * width, each * width);
        if (rc != SQLITE_OK)
            break;
        int64_t before = sqlite3_total_changes64(s->handle);
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            ;
        rc = sqlite3_reset(stmt);
        if (rc != SQLITE_OK)
            break;
        /* A SELECT leaves the figure of the statement before it. */
        if (sqlite3_total_changes64(s->handle) != before)
            *changed += sqlite3_changes64(s->handle);
    }
    return rc; /* still bound to what may be gone; nobody looks before it is bound anew */
}

/* The rows that fill whole chunks, if the statement has a text for them. */
static int run_chunks(struct sqlite *s, int sql, const struct db_value *values,
                      size_t row_count, size_t *next, int64_t *changed)
{
    const char *text = s->db.statements[sql].chunk;
    sqlite3_stmt **stmt = &s->chunks[sql];

    if (!text || row_count < DB_CHUNK_ROWS)
        return 0;
    int r = prepared(s, sql, text, stmt);
    if (r < 0)
        return r;
    int rc = run_rows(s, *stmt, sql, DB_CHUNK_ROWS, values, row_count, next, changed);
    return rc == SQLITE_OK ? 0 : fail_statement(s, rc, *stmt, sql);
}

static int64_t sqlite_run(struct db *db, int sql, const struct db_value *values,
                          size_t row_count)
{
    struct sqlite *s = sqlite_of(db);
    sqlite3_stmt *stmt = NULL;
    size_t next = 0;
    int64_t changed = 0;

    int r = statement(s, sql, row_count, &stmt);
    if (r == 0)
        r = run_chunks(s, sql, values, row_count, &next, &changed);
    if (r < 0)
        return r;
    int rc = run_rows(s, stmt, sql, 1, values, row_count, &next, &changed);
    if (rc != SQLITE_OK)
        r = fail_statement(s, rc, stmt, sql);
    return r < 0 ? r : changed;
}

static int sqlite_post(struct db *db, int sql, const struct db_value *values,
                       size_t row_count)
{
    int64_t r = sqlite_run(db, sql, values, row_count);

    return r < 0 ? (int)r : 0;
}

static int sqlite_query(struct db_rows *rows)
{
    sqlite3_stmt *stmt = NULL;
    int r = statement(sqlite_of(rows->db), rows->sql, rows->row_count, &stmt);

    rows->state = stmt;
    rows->at = 0; /* 1: in the middle of an execution */
    return r;
}

static int sqlite_next(struct db_rows *rows)
{
    struct sqlite *s = sqlite_of(rows->db);
    sqlite3_stmt *stmt = rows->state;
    size_t width = (size_t)s->db.statements[rows->sql].param_count;

    for (;;) {
        int rc = SQLITE_OK;
        if (!rows->at) {
            if (rows->row_next == rows->row_count)
                return 0;
            rc = bind_values(s, stmt, rows->values + rows->row_next * width, width);
            rows->row_next++;
            rows->at = 1;
        }
        if (rc == SQLITE_OK)
            rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW)
            return 1;
        rows->at = 0;
        if (rc != SQLITE_DONE) {
            rows->row_next = rows->row_count; /* no more of this */
            return fail_statement(s, rc, stmt, rows->sql);
        }
        rc = sqlite3_reset(stmt);
        if (rc != SQLITE_OK)
            return fail_statement(s, rc, stmt, rows->sql);
    }
}

/* Reading may end early, the writing may not: PostgreSQL has done it all by
 * now, so the rest of the set is done here. */
static int sqlite_done(struct db_rows *rows)
{
    struct sqlite *s = sqlite_of(rows->db);
    sqlite3_stmt *stmt = rows->state;
    int64_t changed = 0;
    int r = 0;

    sqlite3_reset(stmt);
    if (rows->row_next < rows->row_count && !sqlite3_stmt_readonly(stmt)) {
        int rc = run_rows(s, stmt, rows->sql, 1, rows->values, rows->row_count,
                          &rows->row_next, &changed);
        if (rc != SQLITE_OK)
            r = fail_statement(s, rc, stmt, rows->sql);
    }
    sqlite3_clear_bindings(stmt);
    return r;
}

static bool sqlite_is_null(struct db_rows *rows, int column)
{
    return sqlite3_column_type(rows->state, column) == SQLITE_NULL;
}

/* Nothing is converted, because PostgreSQL would not either. */
static int64_t sqlite_get_int(struct db_rows *rows, int column)
{
    int type = sqlite3_column_type(rows->state, column);

    assert(type == SQLITE_INTEGER || type == SQLITE_NULL);
    return type == SQLITE_NULL ? 0 : sqlite3_column_int64(rows->state, column);
}

static struct slice sqlite_get_text(struct db_rows *rows, int column)
{
    int type = sqlite3_column_type(rows->state, column);

    assert(type == SQLITE_TEXT || type == SQLITE_BLOB || type == SQLITE_NULL);
    if (type == SQLITE_NULL)
        return (struct slice){ NULL, 0 };
    /* Also for text: it spares the copy that would add a terminator. */
    const char *p = sqlite3_column_blob(rows->state, column);
    if (!p)
        return SLICE("");
    return (struct slice){ p, (size_t)sqlite3_column_bytes(rows->state, column) };
}

static int sqlite_script(struct db *db, const char *text)
{
    struct sqlite *s = sqlite_of(db);
    int rc = db->in_transaction ? SQLITE_OK : sqlite_use_wal(s);

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->handle, text, NULL, NULL, NULL);
    db->counts.statements++;
    return rc == SQLITE_OK ? 0 : fail(s, rc, "script");
}

static int sqlite_reconnect(struct db *db)
{
    (void)db;
    return 0;
}

const struct db_driver db_sqlite_driver = {
    .engine = DB_SQLITE,
    .open = sqlite_open,
    .close = sqlite_close,
    .reconnect = sqlite_reconnect,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .mark = sqlite_mark,
    .query = sqlite_query,
    .next = sqlite_next,
    .is_null = sqlite_is_null,
    .get_int = sqlite_get_int,
    .get_text = sqlite_get_text,
    .done = sqlite_done,
    .run = sqlite_run,
    .post = sqlite_post,
    .script = sqlite_script,
};
