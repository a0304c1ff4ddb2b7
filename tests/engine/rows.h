/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h -- all rows of a store on SQLite as one number, to see whether anything
 * changed; read through a connection of its own, past the engine. */
#pragma once

#include <sqlite3.h>

#include "base/hash.h"
#include "test.h"

static const char *const rows_queries[] = {
    "SELECT * FROM jobs",
    "SELECT * FROM runs",
    "SELECT * FROM payloads",
    "SELECT * FROM queues",
    "SELECT * FROM projects",
    "SELECT * FROM reservations",
    "SELECT * FROM idempotency",
    "SELECT * FROM counters",
    "SELECT * FROM schedules",
    "SELECT * FROM fires",
    "SELECT * FROM endpoints",
    "SELECT * FROM webhooks",
    "SELECT * FROM deliveries",
    "SELECT * FROM tokens",
    "SELECT * FROM outputs",
    "SELECT * FROM events WHERE type NOT IN ('recovery.completed', 'owner.died')",
    /* what every start changes */
    "SELECT * FROM events",
    "SELECT * FROM owners",
    "SELECT * FROM node_kinds",
    "SELECT * FROM recoveries",
    "SELECT * FROM meta",
    "SELECT * FROM ids",
};
enum { ROWS_OF_WORK = 16, ROWS_OF_ALL = array_len(rows_queries) };

static inline sqlite3 *look_inside(const char *url, const char *vfs)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    check_int(sqlite3_open_v2(url, &db, flags, vfs), SQLITE_OK);
    return db;
}

static inline uint64_t rows_hash_one(uint64_t hash, sqlite3_stmt *stmt)
{
    int columns = sqlite3_column_count(stmt);
    for (int i = 0; i < columns; i++) {
        int type = sqlite3_column_type(stmt, i);
        if (type == SQLITE_INTEGER) {
            hash = hash64_int(hash, (uint64_t)sqlite3_column_int64(stmt, i));
        } else {
            const char *p = sqlite3_column_blob(stmt, i);
            size_t n = (size_t)sqlite3_column_bytes(stmt, i);
            hash = hash64(hash + (uint64_t)type, (struct slice){ p ? p : "", n });
        }
    }
    return hash;
}

static inline uint64_t rows_hash_query(sqlite3 *db, uint64_t hash, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        hash = rows_hash_one(hash, stmt);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    /* A table that is not there yet is a state of its own. */
    return hash64_int(hash, rc == SQLITE_DONE ? 1 : (uint64_t)rc);
}

/* Of the work only, or of all tables. */
static inline uint64_t rows_of(sqlite3 *db, int tables)
{
    uint64_t hash = 1;
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (int i = 0; i < tables; i++)
        hash = rows_hash_query(db, hash, rows_queries[i]);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    return hash;
}

static inline uint64_t rows_on(const char *url, const char *vfs, int tables)
{
    sqlite3 *db = look_inside(url, vfs);
    uint64_t hash = rows_of(db, tables);
    sqlite3_close(db);
    return hash;
}
