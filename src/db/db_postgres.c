/* SPDX-License-Identifier: Apache-2.0
 *
 * db_postgres.c -- PostgreSQL: the verbs.
 *
 * Only a verb whose answer is wanted waits: a question, a count, a commit, the
 * keeping of a savepoint.  All else is sent along with the next one that does,
 * so `begin, post, post, query, post, commit` costs two round trips.
 *
 * WHAT WAS COMMITTED when the connection is lost?  Answers come in order, and
 * a COMMIT is answered after it was done.  If the server itself reported an
 * error for something before the COMMIT, the COMMIT was never reached; if the
 * connection was gone before it was sent, as well: -HF_UNAVAILABLE.  In every
 * other case nobody knows: -HF_UNKNOWN.  A statement outside a transaction is
 * its own commit, which is done after its answer. */
#include "db_postgres.h"

#include <poll.h>

static struct pg *pg_of(struct db *db)
{
    assert(db->driver == &db_postgres_driver);
    return (struct pg *)db;
}

static void pg_close(struct db *db)
{
    pg_link_free(pg_of(db));
}

static int pg_open(const struct db_options *options, struct error *error, struct db **ret)
{
    struct pg *pg = NULL;
    int r = pg_link_new(options, error, &pg);

    if (r < 0)
        return r;
    r = pg_connect(pg);
    if (r < 0) {
        /* libpq's words name the host and the port. */
        error_set(error, r, NULL, "PostgreSQL: %s", db_error(&pg->db));
        pg_link_free(pg);
        return r;
    }
    *ret = &pg->db;
    return 0;
}

static int pg_reconnect(struct db *db)
{
    return pg_connect(pg_of(db));
}

static int pg_begin(struct db *db)
{
    return pg_send(pg_of(db), db->read_only
                                  ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
                                  : "BEGIN ISOLATION LEVEL READ COMMITTED");
}

static void pg_rollback(struct db *db)
{
    struct pg *pg = pg_of(db);
    char words[sizeof(db->error)];

    memcpy(words, db->error, sizeof(words));
    (void)!pg_settle(pg, NULL);
    if (!pg->lost && PQtransactionStatus(pg->conn) != PQTRANS_IDLE &&
        (pg_send(pg, "ROLLBACK") < 0 || pg_settle(pg, NULL) < 0))
        pg->lost = true; /* then the server rolls back, for want of a client */
    memcpy(db->error, words, sizeof(words));
}

/* Whether the server has closed the connection already. */
static bool hung_up(const struct pg *pg)
{
    struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLRDHUP };

    return !pg->lost && poll(&fd, 1, 0) > 0 && fd.revents != 0;
}

static int pg_commit(struct db *db)
{
    struct pg *pg = pg_of(db);
    PGresult *last = NULL;

    if (hung_up(pg))
        return pg_lose(pg, "commit");
    int r = pg_send(pg, "COMMIT");
    if (r < 0) {
        pg_rollback(db);
        return r;
    }
    size_t before_commit = pg->pending_count - 1;
    r = pg_settle(pg, &last);
    if (r == 0 && strcmp(PQcmdStatus(last), "COMMIT") != 0)
        r = db_fail(db, -HF_INTERNAL, "commit", "the transaction had failed");
    PQclear(last);
    if (r == 0)
        return 0;
    if (pg->lost)
        return pg->told && pg->answered < before_commit ? -HF_UNAVAILABLE : -HF_UNKNOWN;
    pg_rollback(db);
    return r;
}

/* Undoing what failed means first hearing that it did.  If the savepoint itself
 * was skipped, because the failure came before it, there is nothing to go back
 * to: the failure stands. */
static int undo(struct pg *pg)
{
    int failed = pg_settle(pg, NULL);
    if (failed == 0)
        failed = pg->db.failed;
    char words[sizeof(pg->db.error)];
    memcpy(words, pg->db.error, sizeof(words));

    int r = pg_send(pg, "ROLLBACK TO SAVEPOINT s");
    if (r == 0)
        r = pg_send(pg, "RELEASE SAVEPOINT s");
    if (r == 0)
        r = pg_settle(pg, NULL);
    if (r < 0 && failed < 0 && !pg->lost) {
        memcpy(pg->db.error, words, sizeof(words));
        return failed;
    }
    return r;
}

static int pg_mark(struct db *db, enum db_mark mark)
{
    struct pg *pg = pg_of(db);
    int r = 0;

    switch (mark) {
    case DB_MARK_SET:
        return pg_send(pg, "SAVEPOINT s");
    case DB_MARK_KEEP:
        r = pg_send(pg, "RELEASE SAVEPOINT s");
        return r < 0 ? r : pg_settle(pg, NULL);
    case DB_MARK_UNDO:
        return undo(pg);
    }
    return -HF_INTERNAL;
}

/* Sends, and waits for the answer. */
static int ask(struct pg *pg, int sql, const struct db_value *values, size_t row_count,
               PGresult **ret)
{
    struct db *db = &pg->db;
    int r = pg_send_sql(pg, sql, values, row_count);

    if (r < 0)
        return r;
    size_t pending = pg->pending_count;
    r = pg_settle(pg, ret);
    if (r == 0 || !pg->lost || db->in_transaction || db->read_only)
        return r;
    bool not_done = pg->told && pg->answered < pending;
    bool only_reads = strncmp(db->statements[sql].text, "SELECT", 6) == 0;
    return not_done || only_reads ? r : -HF_UNKNOWN;
}

static int64_t pg_run(struct db *db, int sql, const struct db_value *values,
                      size_t row_count)
{
    PGresult *result = NULL;
    int r = ask(pg_of(db), sql, values, row_count, &result);

    if (r < 0)
        return r;
    /* A SELECT has a figure as well, but has not changed anything. */
    bool selected = strncmp(PQcmdStatus(result), "SELECT", 6) == 0;
    int64_t changed = selected ? 0 : strtoll(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return changed;
}

static int pg_post(struct db *db, int sql, const struct db_value *values,
                   size_t row_count)
{
    return pg_send_sql(pg_of(db), sql, values, row_count);
}

static int pg_query(struct db_rows *rows)
{
    PGresult *result = NULL;
    int r = ask(pg_of(rows->db), rows->sql, rows->values, rows->row_count, &result);

    rows->state = result;
    rows->at = -1;
    return r;
}

static int pg_next(struct db_rows *rows)
{
    return ++rows->at < PQntuples(rows->state);
}

static int pg_done(struct db_rows *rows)
{
    PQclear(rows->state);
    rows->state = NULL;
    return 0;
}

static bool pg_is_null(struct db_rows *rows, int column)
{
    return PQgetisnull(rows->state, (int)rows->at, column);
}

static int64_t pg_get_int(struct db_rows *rows, int column)
{
    const PGresult *result = rows->state;
    unsigned int type = PQftype(result, column);

    assert(type == PG_INT8 || type == PG_INT4 || type == PG_INT2 || type == PG_BOOL);
    if (pg_is_null(rows, column))
        return 0;
    return pg_decode_int(PQgetvalue(result, (int)rows->at, column),
                         PQgetlength(result, (int)rows->at, column));
}

static struct slice pg_get_text(struct db_rows *rows, int column)
{
    const PGresult *result = rows->state;
    unsigned int type = PQftype(result, column);

    assert(type == PG_TEXT || type == PG_BYTEA || type == PG_VARCHAR);
    if (pg_is_null(rows, column))
        return (struct slice){ NULL, 0 };
    return (struct slice){ PQgetvalue(result, (int)rows->at, column),
                           (size_t)PQgetlength(result, (int)rows->at, column) };
}

/* Several statements at once are for libpq's simple mode, outside the pipe. */
static int pg_script(struct db *db, const char *text)
{
    struct pg *pg = pg_of(db);
    int r = pg_settle(pg, NULL);

    if (r < 0)
        return r;
    if (pg->lost || !PQexitPipelineMode(pg->conn))
        return pg_lose(pg, "script");
    PGresult *result = PQexec(pg->conn, text);
    ExecStatusType status = PQresultStatus(result);
    db->counts.statements++;
    db->counts.round_trips++;
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK &&
        status != PGRES_EMPTY_QUERY)
        r = pg_fail(pg, "script", result);
    PQclear(result);
    if (r < 0 && pg->lost && !db->in_transaction)
        return -HF_UNKNOWN;
    if (!pg->lost && !PQenterPipelineMode(pg->conn))
        return pg_lose(pg, "script");
    return r;
}

const struct db_driver db_postgres_driver = {
    .engine = DB_POSTGRES,
    .open = pg_open,
    .close = pg_close,
    .reconnect = pg_reconnect,
    .begin = pg_begin,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .mark = pg_mark,
    .query = pg_query,
    .next = pg_next,
    .is_null = pg_is_null,
    .get_int = pg_get_int,
    .get_text = pg_get_text,
    .done = pg_done,
    .run = pg_run,
    .post = pg_post,
    .script = pg_script,
};
