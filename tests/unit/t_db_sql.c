/* SPDX-License-Identifier: Apache-2.0
 *
 * Statement texts as each engine gets them, and the mistakes that stop the
 * program. */
#include "db/db_sql.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static void check_texts(const char *params, const char *text, const char *sqlite,
                        const char *postgres)
{
    const struct db_sql sql = { "under_test", params, text };
    const char *want[] = { [DB_SQLITE] = sqlite, [DB_POSTGRES] = postgres };

    for (int engine = DB_SQLITE; engine <= DB_POSTGRES; engine++) {
        struct db_statement statement = { 0 };
        check_ok(db_statement_init((enum db_engine)engine, &sql, &statement));
        check_str(statement.text, want[engine]);
        db_statement_release(&statement);
        check(!statement.text);
    }
}

TEST(a_parameter_has_the_number_of_its_declaration)
{
    check_texts("a:int,b:text", "SELECT {b}, {a}, {b}", "SELECT ?2, ?1, ?2",
                "SELECT $2, $1, $2");
}

TEST(a_statement_without_braces_is_left_as_it_is)
{
    check_texts("", "SELECT 1", "SELECT 1", "SELECT 1");
}

TEST(from_makes_an_update_of_a_set)
{
    check_texts("id:int,x:text,y:blob",
                "UPDATE t SET x = {x}, y = {y} {from} WHERE t.id = {id}",
                "UPDATE t SET x = ?2, y = ?3  WHERE t.id = ?1",
                "UPDATE t SET x = v.\"x\", y = v.\"y\" "
                "FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS v(\"id\", \"x\", "
                "\"y\") WHERE t.id = v.\"id\"");
}

TEST(a_set_may_have_one_column)
{
    check_texts(
        "id:int", "DELETE FROM t {using} WHERE t.id = {id}",
        "DELETE FROM t  WHERE t.id = ?1",
        "DELETE FROM t USING unnest($1::bigint[]) AS v(\"id\") WHERE t.id = v.\"id\"");
}

TEST(join_reads_a_set_beside_a_table)
{
    check_texts("id:int", "SELECT t.x FROM t {join} WHERE t.id = {id}",
                "SELECT t.x FROM t  WHERE t.id = ?1",
                "SELECT t.x FROM t CROSS JOIN unnest($1::bigint[]) AS v(\"id\") "
                "WHERE t.id = v.\"id\"");
}

TEST(values_has_all_parameters_in_the_order_declared)
{
    check_texts(
        "id:int,x:text", "INSERT INTO t (id, x) {values} ON CONFLICT DO NOTHING",
        "INSERT INTO t (id, x) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        "INSERT INTO t (id, x) SELECT v.\"id\", v.\"x\" FROM unnest($1::bigint[], "
        "$2::text[]) AS v(\"id\", \"x\") ON CONFLICT DO NOTHING");
}

/* The text of a chunk with its rows of parameters cut out, and how many there were. */
static int cut_rows(const char *params, const char *text, char ret[500])
{
    const struct db_sql sql = { "under_test", params, text };
    struct db_statement statement = { 0 };
    int rows = 0;

    check_ok(db_statement_init(DB_SQLITE, &sql, &statement));
    ret[0] = '\0';
    if (statement.chunk) {
        const char *values = strstr(statement.chunk, "VALUES "), *p = values;
        check(values != NULL);
        for (rows = 1; (p = strstr(p, "), (")); rows++, p += 4)
            continue;
        p = strrchr(statement.chunk, '?');
        p = strchr(p, ')') + 1;
        snprintf(ret, 500, "%.*s...%s", (int)(values - statement.chunk), statement.chunk,
                 p);
    }
    db_statement_release(&statement);
    check(!statement.chunk);
    return rows;
}

TEST(a_chunk_is_a_set_as_a_table_on_sqlite_too)
{
    char text[500];

    check_int(
        cut_rows("id:int,x:text", "UPDATE t SET x = {x} {from} WHERE t.id = {id}", text),
        DB_CHUNK_ROWS);
    check_str(text, "UPDATE t SET x = v.column2 FROM (...) AS v WHERE t.id = v.column1");
    check_int(cut_rows("a:int,b:int",
                       "INSERT INTO t (a, b) {values} ON CONFLICT DO NOTHING", text),
              DB_CHUNK_ROWS);
    check_str(text, "INSERT INTO t (a, b) ... ON CONFLICT DO NOTHING");
    check_int(cut_rows("a:int",
                       "INSERT INTO t (a) {one:VALUES (}{many:SELECT }{a}{one:)} {from}",
                       text),
              DB_CHUNK_ROWS);
    check_str(text, "INSERT INTO t (a) SELECT v.column1 FROM (...) AS v");
    /* What SQLite has no table for is executed row by row. */
    check_int(cut_rows("id:int", "DELETE FROM t {using} WHERE t.id = {id}", text), 0);
    check_int(cut_rows("id:int", "SELECT {sqlite:{id}}{postgres:f({id}) {from}}", text),
              0);
}

TEST(locks_are_for_postgres_only)
{
    check_texts("", "SELECT 1 {lock}|{forupdate}", "SELECT 1 |",
                "SELECT 1 FOR UPDATE SKIP LOCKED|FOR UPDATE");
}

TEST(text_for_one_engine_may_hold_parameters)
{
    check_texts("n:int", "SELECT {sqlite:max(0, {n})}{postgres:greatest(0, {n})}",
                "SELECT max(0, ?1)", "SELECT greatest(0, $1)");
}

TEST(quotes_and_comments_are_left_alone)
{
    check_texts("a:int", "SELECT '{}', 'it''s {a}', {a} -- {b} isn't }\n, {a}",
                "SELECT '{}', 'it''s {a}', ?1 -- {b} isn't }\n, ?1",
                "SELECT '{}', 'it''s {a}', $1 -- {b} isn't }\n, $1");
    check_texts("", "SELECT {sqlite:'}'}{postgres:'{'}", "SELECT '}'", "SELECT '{'");
}

TEST(the_statement_knows_its_parameters)
{
    const struct db_sql sql = { "x", "a:int,b:text,c:blob", "SELECT {a}, {b}, {c}" };
    const struct db_sql set = { "y", "a:int", "SELECT {a} {from}" };
    struct db_statement s = { 0 };

    check_ok(db_statement_init(DB_POSTGRES, &sql, &s));
    check_int(s.param_count, 3);
    check_int(s.types[0], DB_INT);
    check_int(s.types[1], DB_TEXT);
    check_int(s.types[2], DB_BLOB);
    check(!s.is_set);
    db_statement_release(&s);

    check_ok(db_statement_init(DB_SQLITE, &set, &s));
    check(s.is_set);
    db_statement_release(&s);
}

TEST(a_script_knows_the_types)
{
    static const char script[] = "CREATE TABLE t (id {id}, n {int}, s {small}, b {blob});"
                                 "CREATE TABLE u (id {serial});"
                                 "{sqlite:PRAGMA x};{postgres:ANALYZE}";
    char *sqlite = NULL, *postgres = NULL;

    check_ok(db_script_expand(DB_SQLITE, script, &sqlite));
    check_str(sqlite,
              "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s INTEGER, b BLOB);"
              "CREATE TABLE u (id INTEGER PRIMARY KEY AUTOINCREMENT);PRAGMA x;");
    free(sqlite);
    check_ok(db_script_expand(DB_POSTGRES, script, &postgres));
    check_str(postgres,
              "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s SMALLINT, b BYTEA);"
              "CREATE TABLE u (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY "
              "KEY);;ANALYZE");
    free(postgres);
}

/* Expands in a child, which must be stopped by abort(). */
static void check_stops(const char *params, const char *text)
{
    const struct db_sql sql = { "wrong", params, text };
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct db_statement statement;
        close(STDERR_FILENO);
        _exit(db_statement_init(DB_POSTGRES, &sql, &statement) == 0 ? 0 : 1);
    }
    check(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail("\"%s\" was accepted", text);
}

TEST(a_malformed_statement_stops_the_program)
{
    check_stops("a:int", "SELECT {b}");
    check_stops("a:int", "SELECT {a");
    check_stops("a:int", "SELECT a}");
    check_stops("a:int", "SELECT {int}"); /* a word of scripts */
    check_stops("a:number", "SELECT {a}");
    check_stops("a", "SELECT {a}");
    check_stops("a:int,a:int", "SELECT {a}");
    check_stops("from:int", "SELECT {from}");
    check_stops(":int", "SELECT 1");
    check_stops("", "SELECT 1 {from}");
}
