/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sqlite.h -- what the parts of the SQLite driver share.
 *
 * db_sqlite_open.c opens, configures and explains what went wrong with the
 * file; db_sqlite.c runs statements; db_sqlite_log.c writes commits to the log.
 * Nobody else knows of SQLite. */
#pragma once

#include <sqlite3.h>

#include "db_driver.h"
#include "db_sqlite_log.h"

enum sqlite_verb {
    VERB_BEGIN_WRITE,
    VERB_BEGIN_READ,
    VERB_COMMIT,
    VERB_ROLLBACK,
    VERB_SAVEPOINT,
    VERB_KEEP,
    VERB_UNDO,
    VERB_COUNT
};

struct sqlite {
    struct db db;
    sqlite3 *handle;
    struct sqlite_log log; /* zeroed if we only read, or the handle is borrowed */
    bool wal;
    sqlite3_stmt *verbs[VERB_COUNT]; /* prepared on first use, like these: */
    sqlite3_stmt **prepared;         /* by index of db.sql */
    sqlite3_stmt **chunks;           /* the same for many rows at a time */
};

static inline struct sqlite *sqlite_of(struct db *db)
{
    assert(db->driver == &db_sqlite_driver);
    return (struct sqlite *)db;
}

/* The driver's open and close. */
int sqlite_open(const struct db_options *options, struct error *error, struct db **ret);
void sqlite_close(struct db *db);

/* Turns write-ahead mode on.  A new file gets it when it is opened; a file
 * that has tables and another mode, which may be somebody else's, only when it
 * is first written to.  Returns SQLite's code. */
int sqlite_use_wal(struct sqlite *s);

/* Our code for SQLite's, primary or extended. */
int sqlite_code(int rc);
