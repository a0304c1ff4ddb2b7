/* SPDX-License-Identifier: Apache-2.0
 *
 * used.h -- which commands, and which statements that write, a suite has used: for those
 * that promise to use all of them.
 *
 * Commands are in an enum; duties are in no list, but whatever the engine does ends in a
 * statement of sql.def.  So a duty that nobody drives has a statement that nobody has
 * used, and is named by it.
 *
 * Needs wrap=db_run,db_post,db_next. */
#pragma once

#include <stdio.h>

#include "engine/command.h"
#include "store/store.h"
#include "test.h"

static struct used {
    bool ops[OPS];              /* applied, with success */
    bool statements[SQL_COUNT]; /* posted, or they have changed or found a row */
} used;

static const struct {
    const char *name, *text;
} used_statements[SQL_COUNT] = {
#define SQL(name, params, text) [SQL_##name] = { #name, text },
#include "store/sql.def"
#undef SQL
};

int64_t __real_db_run(struct db *db, int sql, const struct db_value *values, size_t rows);
int64_t __wrap_db_run(struct db *db, int sql, const struct db_value *values, size_t rows);
int __real_db_post(struct db *db, int sql, const struct db_value *values, size_t rows);
int __wrap_db_post(struct db *db, int sql, const struct db_value *values, size_t rows);
int __real_db_next(struct db_rows *rows);
int __wrap_db_next(struct db_rows *rows);

int64_t __wrap_db_run(struct db *db, int sql, const struct db_value *values, size_t rows)
{
    int64_t n = __real_db_run(db, sql, values, rows);
    used.statements[sql] |= n > 0;
    return n;
}
int __wrap_db_post(struct db *db, int sql, const struct db_value *values, size_t rows)
{
    int r = __real_db_post(db, sql, values, rows);
    used.statements[sql] |= r == 0 && rows > 0;
    return r;
}
int __wrap_db_next(struct db_rows *rows)
{
    int r = __real_db_next(rows);
    used.statements[rows->sql] |= r > 0;
    return r;
}

static inline void use_op(const struct command *c)
{
    used.ops[c->op] |= c->result == 0;
}

/* Whether a statement changes rows on SQLite. */
static inline bool statement_writes(const char *text)
{
    static const char *const verbs[] = { "INSERT INTO ", "UPDATE ", "DELETE FROM " };
    int depth = 0; /* inside the text of the other engine */
    for (const char *p = text; *p; p++) {
        if (depth > 0)
            depth += (*p == '{') - (*p == '}');
        else if (strncmp(p, "{postgres:", 10) == 0)
            depth = 1;
        for (size_t i = 0; i < array_len(verbs) && depth == 0; i++)
            if (strncmp(p, verbs[i], strlen(verbs[i])) == 0)
                return true;
    }
    return false;
}

/* Statements that nothing but PostgreSQL needs. */
static inline bool statement_excused(int sql)
{
    return sql == SQL_OWNER_PILE || sql == SQL_COUNTER_FOLD;
}

/* Names whatever was not used. */
static inline void check_all_used(void)
{
    size_t missing = 0, writers = 0;
    for (int op = 0; op < OPS; op++)
        if (!used.ops[op]) {
            printf("the command %s is not used\n", op_name((enum op)op));
            missing++;
        }
    for (int sql = 0; sql < SQL_COUNT; sql++) {
        if (!statement_writes(used_statements[sql].text) || statement_excused(sql))
            continue;
        writers++;
        if (!used.statements[sql]) {
            printf("the statement %s is not used\n", used_statements[sql].name);
            missing++;
        }
    }
    test_note("%d commands and %zu statements that write", OPS, writers);
    if (missing > 0)
        fail("%zu commands and statements are not used", missing);
}
