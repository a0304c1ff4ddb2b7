/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk that loses power, itself held to what it promises: a test that
 * crashes on it proves nothing if it forgets too little. */
#include <sqlite3.h>
#include <stdio.h>

#include "crash_vfs.h"
#include "test.h"

static sqlite3 *open_on(const char *vfs)
{
    sqlite3 *handle = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    check_int(sqlite3_open_v2("/x.db", &handle, flags, vfs), SQLITE_OK);
    return handle;
}

static int run(sqlite3 *handle, const char *sql)
{
    return sqlite3_exec(handle, sql, NULL, NULL, NULL);
}

/* How many rows a new connection sees; -1: not even the table. */
static int rows_on(const char *vfs)
{
    sqlite3 *handle = open_on(vfs);
    sqlite3_stmt *stmt = NULL;
    int rows = -1;
    if (sqlite3_prepare_v2(handle, "SELECT count(*) FROM t", -1, &stmt, NULL) ==
            SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        rows = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(handle);
    return rows;
}

static const char SETUP[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                            "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)";
static const char ROW[] = "INSERT INTO t (b) VALUES (hex(randomblob(3000)))";

/* Commits `count` rows with or without syncs, and stops there. */
static struct crash_disk *disk_with(int count, const char *pragma)
{
    struct crash_disk *disk = crash_disk_new("live", true, NULL);
    sqlite3 *handle = open_on("live");
    check_int(run(handle, SETUP), SQLITE_OK);
    check_int(run(handle, pragma), SQLITE_OK);
    for (int i = 0; i < count; i++)
        check_int(run(handle, ROW), SQLITE_OK);
    crash_disk_stop_after(disk, 0);
    sqlite3_close(handle);
    return disk;
}

TEST(what_was_synced_survives_every_cut)
{
    struct crash_disk *disk = disk_with(20, "PRAGMA synchronous = FULL");
    struct crash_disk *after = crash_disk_new("after", false, NULL);
    for (uint64_t seed = 0; seed < 40; seed++)
        for (int loss = CRASH_KEEP; loss <= CRASH_MIX; loss++) {
            crash_disk_cut(disk, (enum crash_loss)loss, seed, after);
            check_int(rows_on("after"), 20);
        }
    crash_disk_free(after);
    crash_disk_free(disk);
}

TEST(what_was_not_synced_may_be_there_or_lost)
{
    struct crash_disk *disk = disk_with(20, "PRAGMA synchronous = OFF");
    struct crash_disk *after = crash_disk_new("after", false, NULL);
    bool seen[21] = { false };
    int different = 0;
    crash_disk_cut(disk, CRASH_KEEP, 0, after);
    check_int(rows_on("after"), 20);
    crash_disk_cut(disk, CRASH_LOSE, 0, after);
    check_int(rows_on("after"), 0);
    for (uint64_t seed = 0; seed < 400; seed++) {
        crash_disk_cut(disk, CRASH_MIX, seed, after);
        int rows = rows_on("after");
        check(rows >= 0 && rows <= 20);
        different += !seen[rows];
        seen[rows] = true;
    }
    check(different > 5); /* the log is cut at many places */
    crash_disk_free(after);
    crash_disk_free(disk);
}

TEST(a_stopped_world_alters_nothing_and_answers_nothing)
{
    struct crash_disk *disk = crash_disk_new("live", true, NULL);
    struct crash_disk *before = crash_disk_new("before", false, NULL);
    struct crash_disk *after = crash_disk_new("after", false, NULL);
    sqlite3 *handle = open_on("live");
    check_int(run(handle, SETUP), SQLITE_OK);
    check_int(run(handle, ROW), SQLITE_OK);
    size_t changes = crash_disk_changes(disk);
    crash_disk_cut(disk, CRASH_KEEP, 0, before);
    crash_disk_stop_after(disk, changes);
    check(crash_disk_stopped(disk));
    check(run(handle, ROW) != SQLITE_OK);
    check(run(handle, "SELECT count(*) FROM t") != SQLITE_OK);
    check_int(sqlite3_close(handle), SQLITE_OK);
    check_int(crash_disk_changes(disk), changes);
    crash_disk_cut(disk, CRASH_KEEP, 0, after);
    check(crash_disk_same(before, after));

    crash_disk_restart(disk, CRASH_LOSE, 0);
    check_int(rows_on("live"), 1);
    crash_disk_free(after);
    crash_disk_free(before);
    crash_disk_free(disk);
}

TEST(a_replayed_disk_is_the_recorded_one_at_every_point)
{
    struct crash_disk *disk = disk_with(10, "PRAGMA wal_autocheckpoint = 5");
    struct crash_disk *again = crash_disk_new("again", false, NULL);
    struct crash_disk *a = crash_disk_new("a", false, NULL);
    struct crash_disk *b = crash_disk_new("b", false, NULL);
    int last = -1;
    for (size_t n = 1; n <= crash_disk_changes(disk); n++) {
        crash_disk_replay(again, disk, n);
        crash_disk_cut(again, CRASH_LOSE, 0, a);
        int rows = rows_on("a");
        check(rows >= last); /* nothing that was there goes away */
        last = rows;
    }
    check_int(last, 10);
    for (int loss = CRASH_KEEP; loss <= CRASH_MIX; loss++) {
        crash_disk_cut(disk, (enum crash_loss)loss, 3, a);
        crash_disk_cut(again, (enum crash_loss)loss, 3, b);
        check(crash_disk_same(a, b));
    }
    crash_disk_free(b);
    crash_disk_free(a);
    crash_disk_free(again);
    crash_disk_free(disk);
}

TEST(calls_fail_as_they_are_told_to_and_then_no_more)
{
    struct crash_disk *disk = crash_disk_new("live", true, NULL);
    sqlite3 *handle = open_on("live");
    check_int(run(handle, SETUP), SQLITE_OK);
    sqlite3_extended_result_codes(handle, 1);
    crash_disk_fail(disk, CRASH_SYNC, 1, SQLITE_IOERR_FSYNC, false);
    check_int(run(handle, ROW), SQLITE_IOERR_FSYNC);
    check_int(crash_disk_failures(disk), 1);
    crash_disk_fail(disk, CRASH_WRITE, 2, SQLITE_FULL, true);
    check_int(run(handle, ROW), SQLITE_FULL);
    check_int(run(handle, ROW), SQLITE_FULL);
    check(crash_disk_failures(disk) >= 2);
    crash_disk_fail(disk, CRASH_WRITE, 0, 0, false);
    check_int(run(handle, ROW), SQLITE_OK);
    sqlite3_close(handle);
    check(rows_on("live") >= 1);
    crash_disk_free(disk);
}
