/* SPDX-License-Identifier: Apache-2.0
 *
 * A database of its own for each test.
 *
 * SQLite: a file in the test's folder.  PostgreSQL: whole databases and not
 * schemas, because advisory locks and notifications are shared by everybody in
 * a database, and test programs run side by side.  Making one takes longer
 * than emptying one, so a program keeps those it made for its next test, and
 * drops them at its end. */
#include <libpq-fe.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner.h"
#include "test.h"

/* Chosen before the first fork, so that all tests of a program share it and
 * no two programs do. */
static char name_prefix[64];
static int next_database; /* of this test */

__attribute__((constructor)) static void choose_prefix(void)
{
    unsigned int random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = 0;
    snprintf(name_prefix, sizeof(name_prefix), "hf_test_%d_%08x", (int)getpid(), random);
}

const char *test_server_url(void)
{
    const char *url = getenv("HF_TEST_DB");
    return url && strncmp(url, "postgres", 8) == 0 ? url : NULL;
}

bool test_on_postgres(void)
{
    return test_server_url() != NULL;
}

/* The url with another database: what is between the host and the `?`. */
static const char *url_of(const char *database)
{
    const char *url = test_server_url();
    const char *colon = strstr(url, "://");
    const char *host = colon ? colon + 3 : url + strlen(url);
    size_t host_bytes = strcspn(host, "/?");
    const char *query = strchr(host, '?');
    return test_text("%.*s/%s%s", (int)(host - url + (ptrdiff_t)host_bytes), url,
                     database, query ? query : "");
}

static bool run_sql(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static void must_run_sql(PGconn *conn, const char *sql)
{
    if (!run_sql(conn, sql))
        fail("%s: %s", sql, PQerrorMessage(conn));
}

static PGconn *must_connect(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        fail("cannot reach the test server: %s", PQerrorMessage(conn));
    must_run_sql(conn, "SET client_min_messages = warning");
    return conn;
}

/* The connections of an earlier test were cut, but their backends may not have
 * noticed yet. */
static void empty_database(const char *url)
{
    PGconn *conn = must_connect(url);
    must_run_sql(conn, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                       " WHERE datname = current_database() AND pid <> pg_backend_pid()");
    must_run_sql(conn,
                 "DO $$ DECLARE s text; BEGIN"
                 " FOR s IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'"
                 "  AND nspname <> 'information_schema' LOOP"
                 "  EXECUTE format('DROP SCHEMA %I CASCADE', s);"
                 " END LOOP; CREATE SCHEMA public; END $$");
    PQfinish(conn);
}

const char *test_postgres_url(void)
{
    if (!test_server_url())
        test_skip("needs a PostgreSQL server: run it with scripts/with-postgres");

    int number = next_database++;
    const char *name = test_text("%s_%d", name_prefix, number);
    const char *url = url_of(name);
    if (number < atomic_load(&test_shared->databases)) {
        empty_database(url);
        return url;
    }
    PGconn *conn = must_connect(test_server_url());
    must_run_sql(conn, test_text("CREATE DATABASE %s TEMPLATE template0", name));
    PQfinish(conn);
    atomic_store(&test_shared->databases, number + 1);
    return url;
}

const char *test_sqlite_url(void)
{
    static int number;
    const char *dir = test_path(test_text("db%d", number++));
    if (mkdir(dir, 0700) != 0)
        fail("%s: %m", dir);
    return test_text("%s/holdfast.db", dir);
}

const char *test_db_url(void)
{
    return test_on_postgres() ? test_postgres_url() : test_sqlite_url();
}

void test_db_drop_all(void)
{
    int count = atomic_load(&test_shared->databases);
    PGconn *conn = count > 0 ? PQconnectdb(test_server_url()) : NULL;

    for (int i = 0; i < count; i++) {
        char sql[200];
        snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s_%d WITH (FORCE)",
                 name_prefix, i);
        if (!run_sql(conn, sql))
            printf("# %s: %s", sql, PQerrorMessage(conn));
    }
    PQfinish(conn);
}

static void server_control(const char *verb)
{
    const char *control = getenv("HF_TEST_PGCTL");
    if (!control)
        test_skip("needs a server of its own: run it with scripts/with-postgres");
    const char *command = test_text("%s %s >&2", control, verb);
    int status = system(command); /* NOLINT(cert-env33-c): our own script's words */
    if (status != 0)
        fail("%s: status %d", command, status);
}

void test_postgres_crash(void)
{
    server_control("stop -m immediate");
}

void test_postgres_start(void)
{
    server_control("start");
}
