/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sql.h -- turns a statement as it is written into the words of one engine.
 *
 * Why it exists: the table of statements is written once (see db.h for the
 * words in braces), and each engine spells parameters, sets of rows and locks
 * in its own way.  This is pure text: no connection is needed, and the tests
 * compare strings.
 *
 * Text between single quotes and behind `--` is copied as it is, so a default
 * of '{}' and an apostrophe in a comment do no harm.
 *
 * A statement is part of the program.  An unknown word in braces or a
 * parameter without a type is a defect, and stops the program with a sentence
 * at the first use; only memory can run out.
 *
 * Threads: no state; any thread. */
#pragma once

#include "db.h"

/* The widest table has some forty columns, and an insert names them all. */
enum { DB_PARAMS_MAX = 64 };

/* How many rows of a set SQLite takes in one execution.  Opening a table's
 * cursors costs as much as writing a row; more rows than this gain little. */
enum { DB_CHUNK_ROWS = 16 };

/* A statement as the engine takes it. */
struct db_statement {
    char *text;  /* NULL: not expanded yet */
    char *chunk; /* SQLite: for DB_CHUNK_ROWS rows, numbered on; NULL: there is none */
    bool is_set; /* takes many rows of parameters */
    int param_count;
    unsigned char types[DB_PARAMS_MAX]; /* DB_INT, DB_TEXT or DB_BLOB */
};

/* Expands `sql`.  Returns 0 or -HF_NOMEM.  Release what it makes. */
must_check int db_statement_init(enum db_engine engine, const struct db_sql *sql,
                                 struct db_statement *ret);

/* Also fine for a zeroed one. */
void db_statement_release(struct db_statement *statement);

/* Expands a script, which has no parameters but knows the words for types.
 * Returns 0 or -HF_NOMEM; the caller frees. */
must_check int db_script_expand(enum db_engine engine, const char *script, char **ret);
