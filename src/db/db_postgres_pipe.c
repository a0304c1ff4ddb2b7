/* SPDX-License-Identifier: Apache-2.0
 *
 * db_postgres_pipe.c -- sends without waiting, then reads all answers at once.
 *
 * A server whose answers nobody reads stops reading, and a client that only
 * writes then waits for ever.  So the socket never blocks a write here: what
 * is queued is pushed out while answers are taken in. */
#include "db_postgres.h"

#include <poll.h>
#include <stdio.h>

/* Hands all that is queued to the kernel.  A failure is left for the reading
 * side to find, which may find the server's reason with it. */
static void push(struct pg *pg)
{
    pg->unpushed_bytes = 0;
    while (PQflush(pg->conn) > 0) {
        struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLIN | POLLOUT };
        if (fd.fd < 0)
            return;
        (void)poll(&fd, 1, -1); /* interrupted: look again */
        if ((fd.revents & ~POLLOUT) && !PQconsumeInput(pg->conn))
            return;
    }
}

/* Notes that an answer is to be expected; `sent` is libpq's word for it. */
static int expect(struct pg *pg, int sent, const char *name, int prepares)
{
    assert(pg->pending_count < PG_PENDING_MAX);
    if (!sent)
        return pg_lose(pg, name);
    pg->pending[pg->pending_count].name = name;
    pg->pending[pg->pending_count].prepares = prepares;
    pg->pending_count++;
    return 0;
}

/* Ready to send two more (a prepare and an execution). */
static int make_room(struct pg *pg, const char *name)
{
    if (pg->lost)
        return db_fail(&pg->db, -HF_UNAVAILABLE, name, "the connection is gone");
    if (pg->pending_count + 2 <= PG_PENDING_MAX)
        return 0;
    return pg_settle(pg, NULL);
}

int pg_send(struct pg *pg, const char *text)
{
    int r = make_room(pg, text);

    if (r < 0)
        return r;
    int sent = PQsendQueryParams(pg->conn, text, 0, NULL, NULL, NULL, NULL, 1);
    return expect(pg, sent, text, -1);
}

static int prepare(struct pg *pg, int sql, const char *prepared_name)
{
    const struct db_statement *s = &pg->db.statements[sql];

    pg_params_types(&pg->params, s);
    int sent =
        PQsendPrepare(pg->conn, prepared_name, s->text, s->param_count, pg->params.types);
    int r = expect(pg, sent, pg->db.sql[sql].name, sql);
    if (r == 0)
        pg->prepared[sql] = PG_PREPARE_SENT;
    return r;
}

int pg_send_sql(struct pg *pg, int sql, const struct db_value *values, size_t row_count)
{
    const char *name = pg->db.sql[sql].name;
    const struct db_statement *s = &pg->db.statements[sql];
    struct pg_params *p = &pg->params;
    char prepared_name[16];

    int r = make_room(pg, name);
    if (r < 0)
        return r;
    snprintf(prepared_name, sizeof(prepared_name), "h%d", sql);
    if (pg->prepared[sql] == PG_NOT_PREPARED && (r = prepare(pg, sql, prepared_name)) < 0)
        return r;
    r = pg_params_encode(p, s, values, row_count);
    if (r < 0)
        return db_fail(&pg->db, r, name, "too much for one statement");

    int sent = PQsendQueryPrepared(pg->conn, prepared_name, s->param_count, p->values,
                                   p->lengths, p->formats, 1);
    r = expect(pg, sent, name, -1);
    pg->db.counts.statements++;
    pg->unpushed_bytes += p->total;
    if (r == 0 && pg->unpushed_bytes > PG_PUSH_BYTES)
        push(pg);
    return r;
}

/* Takes one answer in; returns its error, if it is one that matters. */
static int take(struct pg *pg, size_t index, const PGresult *result)
{
    bool expected = index < pg->pending_count; /* not so for the sync's own error */

    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
        if (expected && pg->pending[index].prepares >= 0)
            pg->prepared[pg->pending[index].prepares] = PG_PREPARED;
        return 0;
    case PGRES_PIPELINE_ABORTED: /* skipped because of an error before */
        return 0;
    default:
        pg->told = PQresultErrorField(result, PG_DIAG_SQLSTATE) != NULL;
        return pg_fail(pg, expected ? pg->pending[index].name : "sync", result);
    }
}

/* Reads up to the sync point.  Each pending statement is answered by results
 * and a NULL.  Returns the first error. */
static int read_answers(struct pg *pg, PGresult **last)
{
    size_t index = 0;
    int first = 0;

    for (;;) {
        PGresult *result = PQgetResult(pg->conn);
        if (!result &&
            (PQstatus(pg->conn) == CONNECTION_BAD || index > pg->pending_count))
            return first < 0 ? first : pg_lose(pg, "answer");
        if (!result) {
            index++;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return first;
        }
        if (first == 0) {
            first = take(pg, index, result);
            pg->answered = index;
        }
        PQclear(*last);
        *last = result;
    }
}

/* A prepare that was skipped or refused has to be sent again. */
static void forget_pending(struct pg *pg)
{
    for (size_t i = 0; i < pg->pending_count; i++) {
        int prepares = pg->pending[i].prepares;
        if (prepares >= 0 && pg->prepared[prepares] == PG_PREPARE_SENT)
            pg->prepared[prepares] = PG_NOT_PREPARED;
    }
    pg->pending_count = 0;
}

int pg_settle(struct pg *pg, PGresult **ret_last)
{
    PGresult *last = NULL;

    if (pg->pending_count == 0)
        return 0;
    pg->answered = 0;
    pg->told = false;
    if (pg->lost || !PQpipelineSync(pg->conn)) {
        forget_pending(pg);
        return pg_lose(pg, "send");
    }
    push(pg);
    pg->db.counts.round_trips++;
    int r = read_answers(pg, &last);
    if (r < 0 && PQstatus(pg->conn) == CONNECTION_BAD)
        pg->lost = true;
    forget_pending(pg);
    if (r == 0 && ret_last)
        *ret_last = last;
    else
        PQclear(last);
    return r;
}
