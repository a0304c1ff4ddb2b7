/* SPDX-License-Identifier: Apache-2.0
 *
 * db_postgres.h -- what the three parts of the PostgreSQL driver share.
 *
 * db_postgres_link.c makes the connection and names errors, db_postgres_pipe.c
 * sends and settles, db_postgres.c has the verbs.  Nobody else knows of libpq.
 *
 * THE PIPE.  Statements are sent without waiting (libpq's pipeline mode) and
 * are pending until pg_settle() sends a sync point and reads all answers up to
 * it.  After an error the server skips everything up to the sync point, so the
 * first error is the one that counts, and what came behind it did not happen. */
#pragma once

#include <libpq-fe.h>

#include "db_driver.h"
#include "pg_array.h"

/* Answers that may be outstanding, and bytes before they are pushed out. */
enum { PG_PENDING_MAX = 256, PG_PUSH_BYTES = 64 << 10 };

enum pg_prepared { PG_NOT_PREPARED, PG_PREPARE_SENT, PG_PREPARED };

struct pg {
    struct db db;
    PGconn *conn;
    char schema[64];         /* used where the url names no search_path; "": none */
    bool lost;               /* nothing more can be sent before pg_connect() */
    unsigned char *prepared; /* enum pg_prepared, by index of db.sql */
    struct {
        const char *name; /* of the statement, for the sentence */
        int prepares;     /* the index that this prepares; -1: it executes */
    } pending[PG_PENDING_MAX];
    size_t pending_count;
    size_t unpushed_bytes;
    struct pg_params params;
    /* What the last pg_settle() saw before its first error: how many were
     * answered, and whether the error was the server's own word. */
    size_t answered;
    bool told;
};

/* Makes a struct whose connection is not there yet, silent from the first byte
 * on.  The sentence in `error` has no password in it. */
must_check int pg_link_new(const struct db_options *options, struct error *error,
                           struct pg **ret);
void pg_link_free(struct pg *pg);

/* Connects, also again, and sets the session up.  Waits as long as the url's
 * connect_timeout says. */
must_check int pg_connect(struct pg *pg);

/* Our code for the server's failed answer; its words are kept for db_error(). */
int pg_fail(struct pg *pg, const char *what, const PGresult *result);

/* Notes that the connection is gone, and returns -HF_UNAVAILABLE. */
int pg_lose(struct pg *pg, const char *what);

/* Sends a statement without parameters: BEGIN and the like. */
must_check int pg_send(struct pg *pg, const char *text);

/* Sends a statement of the table, preparing it first if need be. */
must_check int pg_send_sql(struct pg *pg, int sql, const struct db_value *values,
                           size_t row_count);

/* Waits until everything pending is answered.  Returns the first error.  On
 * success, and if `ret_last` is not NULL, the last answer is the caller's. */
must_check int pg_settle(struct pg *pg, PGresult **ret_last);
