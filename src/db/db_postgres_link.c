/* SPDX-License-Identifier: Apache-2.0
 *
 * db_postgres_link.c -- the connection to PostgreSQL, and its errors' names.
 *
 * The user's url is obeyed.  What it leaves open gets defaults that notice a
 * dead network within seconds, and what Holdfast depends on is SET after
 * connecting, so that options and search_path of the url survive. */
#include "db_postgres.h"

#include <stdio.h>

/* MATERIALIZED and plan_cache_mode came with 12. */
enum { SERVER_VERSION_MIN = 120000, KEYWORDS_MAX = 80 };

/* For what the url does not mention.  `env` is what libpq would look at. */
static const struct {
    const char *keyword, *value, *env;
} defaults[] = {
    { "connect_timeout", "5", "PGCONNECT_TIMEOUT" },
    { "keepalives_idle", "10", NULL },
    { "keepalives_interval", "5", NULL },
    { "keepalives_count", "3", NULL },
    { "tcp_user_timeout", "15000", NULL },
    { "fallback_application_name", "holdfast", NULL },
};

/* Durability is promised to every client, so it is not for the session's
 * defaults to switch off; a stronger setting is left alone. */
static const char settings_all[] = "SET client_encoding = 'UTF8';"
                                   "SET standard_conforming_strings = on;"
                                   "SELECT set_config('synchronous_commit', 'on', false)"
                                   " WHERE current_setting('synchronous_commit') = 'off';"
                                   "SET jit = off;";

/* Statements are short and their plans are known: by index, row by row.  A plan
 * that waits for ANALYZE to become good is a bad one on a new table, and a new
 * plan for each execution costs more than the execution.
 *
 * A process that is stopped in the middle of a transaction (a signal, a suspended machine)
 * must not keep the rows and gates it has locked from the others: what is idle in one for
 * so long is rolled back by the server, and applied again by whoever wakes up. */
static const char settings_writer[] =
    "SELECT set_config('idle_in_transaction_session_timeout', '5s', false)"
    " WHERE current_setting('idle_in_transaction_session_timeout') = '0';"
    "SET plan_cache_mode = force_generic_plan;"
    "SET enable_seqscan = off;"
    "SET enable_hashjoin = off;"
    "SET enable_mergejoin = off;";

static const char settings_reader[] = "SET default_transaction_read_only = on;";

static void say_nothing(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

/* Errors by SQLSTATE; the first that fits, a shorter one being a family. */
static const struct {
    const char *state;
    int code;
} states[] = {
    { "08", -HF_UNAVAILABLE },    /* connection */
    { "23", -HF_CONFLICT },       /* constraints */
    { "25006", -HF_READONLY },    /* a standby, or the reading twin */
    { "40001", -HF_BUSY },        /* serialization */
    { "40P01", -HF_BUSY },        /* deadlock */
    { "42501", -HF_READONLY },    /* no privilege */
    { "53100", -HF_FULL },        /* disk */
    { "53200", -HF_NOMEM },       /* the server's */
    { "53300", -HF_UNAVAILABLE }, /* too many connections */
    { "55P03", -HF_BUSY },        /* lock not available */
    { "57014", -HF_BUSY },        /* the server's statement_timeout */
    { "57P", -HF_UNAVAILABLE },   /* shutdown, crash, starting up */
    { "58030", -HF_IO },          { "XX001", -HF_CORRUPT }, { "XX002", -HF_CORRUPT },
};

static int code_of(const char *state)
{
    for (size_t i = 0; i < array_len(states); i++)
        if (strncmp(state, states[i].state, strlen(states[i].state)) == 0)
            return states[i].code;
    return -HF_INTERNAL;
}

int pg_lose(struct pg *pg, const char *what)
{
    pg->lost = true;
    const char *words = PQerrorMessage(pg->conn);
    return db_fail(&pg->db, -HF_UNAVAILABLE, what,
                   words[0] ? words : "the connection is gone");
}

int pg_fail(struct pg *pg, const char *what, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    char words[400];

    /* libpq's own failures have no SQLSTATE: no memory, or no connection. */
    if (!state || !message)
        return pg_lose(pg, what);
    snprintf(words, sizeof(words), "%s (%s)", message, state);
    int code = code_of(state);
    if (PQstatus(pg->conn) == CONNECTION_BAD) {
        pg->lost = true;
        code = -HF_UNAVAILABLE;
    }
    return db_fail(&pg->db, code, what, words);
}

/* The url's words and, behind them, our defaults for what it leaves out. */
static PGconn *start(const PQconninfoOption *options)
{
    const char *keywords[KEYWORDS_MAX + 1], *values[KEYWORDS_MAX + 1];
    int count = 0;
    bool given[array_len(defaults)] = { 0 };

    for (const PQconninfoOption *o = options; o->keyword; o++) {
        if (!o->val)
            continue;
        for (size_t i = 0; i < array_len(defaults); i++)
            given[i] |= strcmp(o->keyword, defaults[i].keyword) == 0;
        assert(count < KEYWORDS_MAX);
        keywords[count] = o->keyword;
        values[count++] = o->val;
    }
    for (size_t i = 0; i < array_len(defaults); i++) {
        if (given[i] || (defaults[i].env && getenv(defaults[i].env)))
            continue;
        assert(count < KEYWORDS_MAX);
        keywords[count] = defaults[i].keyword;
        values[count++] = defaults[i].value;
    }
    keywords[count] = values[count] = NULL;
    return PQconnectStartParams(keywords, values, 0);
}

/* libpq prints what the server remarks while connecting, unless told not to
 * before; and it waits and tries each host only in PQreset().  So the first
 * attempt is begun and dropped, and pg_connect() makes the one that counts. */
static int make_conn(struct pg *pg, const char *url, struct error *error)
{
    char *words = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &words);

    if (!options) {
        int r = error_set(error, -HF_INVALID, NULL, "the database url is not valid: %s",
                          words ? words : "no memory");
        PQfreemem(words);
        return r;
    }
    pg->conn = start(options);
    PQconninfoFree(options);
    if (!pg->conn)
        return error_set(error, -HF_NOMEM, NULL, "no memory to connect");
    PQsetNoticeProcessor(pg->conn, say_nothing, NULL);
    return 0;
}

void pg_link_free(struct pg *pg)
{
    PQfinish(pg->conn);
    pg_params_release(&pg->params);
    free(pg->prepared);
    db_release(&pg->db);
    free(pg);
}

int pg_link_new(const struct db_options *options, struct error *error, struct pg **ret)
{
    struct pg *pg = new (struct pg);
    if (!pg)
        return error_set(error, -HF_NOMEM, NULL, "no memory to connect");

    int r = db_init(&pg->db, &db_postgres_driver, options);
    if (options->schema)
        snprintf(pg->schema, sizeof(pg->schema), "%s", options->schema);
    pg->prepared = calloc(options->sql_count + 1, sizeof(*pg->prepared));
    if (r < 0 || !pg->prepared)
        r = error_set(error, -HF_NOMEM, NULL, "no memory to connect");
    else
        r = make_conn(pg, options->url, error);
    if (r < 0) {
        pg_link_free(pg);
        return r;
    }
    *ret = pg;
    return 0;
}

static int set_up_session(struct pg *pg)
{
    char script[1400], path[300] = "";

    if (pg->schema[0])
        snprintf(path, sizeof(path),
                 "SELECT set_config('search_path', '%s', false) WHERE "
                 "current_setting('search_path') IN ('\"$user\", public', 'public');",
                 pg->schema);
    snprintf(script, sizeof(script), "%s%s%s", path, settings_all,
             pg->db.read_only ? settings_reader : settings_writer);
    PGresult *result = PQexec(pg->conn, script);
    ExecStatusType status = PQresultStatus(result);
    int r = status == PGRES_COMMAND_OK ? 0 : pg_fail(pg, "connect", result);
    PQclear(result);
    return r;
}

/* Texts are sent and compared as UTF-8.  SQL_ASCII keeps bytes as they are. */
static bool encoding_serves(PGconn *conn)
{
    const char *encoding = PQparameterStatus(conn, "server_encoding");

    return encoding &&
           (strcmp(encoding, "UTF8") == 0 || strcmp(encoding, "SQL_ASCII") == 0);
}

int pg_connect(struct pg *pg)
{
    pg->lost = true; /* until all of this went well */
    pg->pending_count = 0;
    pg->unpushed_bytes = 0;
    memset(pg->prepared, PG_NOT_PREPARED, pg->db.sql_count);

    PQreset(pg->conn);
    if (PQstatus(pg->conn) != CONNECTION_OK)
        return pg_lose(pg, "connect");
    if (PQserverVersion(pg->conn) < SERVER_VERSION_MIN)
        return db_fail(&pg->db, -HF_UNAVAILABLE, "connect",
                       "the server is older than PostgreSQL 12");
    if (!encoding_serves(pg->conn))
        return db_fail(&pg->db, -HF_UNAVAILABLE, "connect",
                       "the database's encoding must be UTF8");
    int r = set_up_session(pg);
    if (r < 0)
        return r;
    if (PQsetnonblocking(pg->conn, 1) != 0 || !PQenterPipelineMode(pg->conn))
        return pg_lose(pg, "connect");
    pg->lost = false;
    return 0;
}
