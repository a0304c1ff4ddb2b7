/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sqlite_log.h -- writes a commit to SQLite's log in one go.
 *
 * Why it exists: SQLite hands each page of a commit to the file system by two writes,
 * its header and the page.  A commit of a few jobs has some seven pages, and fourteen
 * calls cost more than what they write: on a usual file system four times as much as
 * one call with the same bytes.
 *
 * A writing connection gets a VFS of its own between SQLite and the real one.  While a
 * COMMIT is under way, what is written to the log is gathered, and goes out as one
 * write before the sync that every commit ends with, or before anything that could
 * notice.  The real VFS sees the same bytes at the same places in the same order.
 *
 * Outside of a COMMIT nothing is kept back.  A page that spills in the middle of a
 * transaction that is then rolled back would else be written after the lock is gone,
 * over what another process has committed there.
 *
 * Threads: that of the connection. */
#pragma once

#include <sqlite3.h>

#include "base/base.h"

struct sqlite_log {
    sqlite3_vfs vfs; /* first: SQLite hands it back */
    sqlite3_vfs *real;
    char name[48];
    bool sync_is_last; /* a COMMIT writes nothing behind its sync */
    bool gathers;      /* and is under way */
    char *bytes; /* what is not written yet; NULL: not needed so far, or no memory */
    size_t count;
    int64_t offset; /* where it belongs */
};

/* sqlite3_open_v2() with a VFS of our own above the one of that name (NULL: the default
 * one).  It is registered only meanwhile: the program around us never sees it, and it
 * cannot become the default when another is unregistered.  `log` must not move. */
must_check int sqlite_log_open(struct sqlite_log *log, const char *url, int flags,
                               const char *vfs, sqlite3 **ret);

/* When the connection is closed.  A zeroed one is fine. */
void sqlite_log_release(struct sqlite_log *log);

/* Around the COMMIT.  What a COMMIT that failed has left is thrown away: SQLite has
 * not told anybody that it is there. */
void sqlite_log_begin(struct sqlite_log *log);
void sqlite_log_end(struct sqlite_log *log);
