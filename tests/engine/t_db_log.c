/* SPDX-License-Identifier: Apache-2.0 */
/* test: lite */
/* The database floor: how a commit gets into SQLite's log. */
#include <sqlite3.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "things.h"

/* ---- a disk that counts what is written to the log ---- */

static struct {
    sqlite3_vfs vfs;
    const sqlite3_io_methods *real;
    sqlite3_io_methods methods;
    int writes, longest;
    int fail_in; /* 1: the next write fails; 0: none does */
} disk;

static int log_write(sqlite3_file *file, const void *p, int n, sqlite3_int64 at)
{
    if (disk.fail_in > 0 && --disk.fail_in == 0)
        return SQLITE_FULL;
    disk.writes++;
    disk.longest = n > disk.longest ? n : disk.longest;
    return disk.real->xWrite(file, p, n, at);
}

static int disk_open(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *file,
                     int flags, int *out_flags)
{
    sqlite3_vfs *real = vfs->pAppData;
    int rc = real->xOpen(real, path, file, flags, out_flags);

    if (rc == SQLITE_OK && flags & SQLITE_OPEN_WAL) {
        disk.real = file->pMethods;
        disk.methods = *file->pMethods;
        disk.methods.xWrite = log_write;
        file->pMethods = &disk.methods;
    }
    return rc;
}

static struct db *open_counted(const char *path)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    struct error error = { 0 };
    struct db *db = NULL;

    disk.vfs = *real;
    disk.vfs.zName = "counted";
    disk.vfs.pAppData = real;
    disk.vfs.xOpen = disk_open;
    check_int(sqlite3_vfs_register(&disk.vfs, 0), SQLITE_OK);
    const struct db_options options = {
        .url = path, .sql = sql, .sql_count = SQL_COUNT, .create = true, .vfs = "counted"
    };
    check_ok(db_open(&options, &error, &db));
    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    disk.writes = disk.longest = 0;
    return db;
}

static void add_and_commit(struct db *db, int64_t first, size_t count)
{
    check_ok(db_begin(db));
    check_int(add(db, first, count), count);
    check_ok(db_commit(db));
}

static void check_whole(const char *path, int64_t count)
{
    struct db *db = open_more(path, false);
    sqlite3 *handle = NULL;
    sqlite3_stmt *stmt = NULL;

    check_int(one_int(db, COUNT), count);
    db_close(db);
    check_int(sqlite3_open(path, &handle), SQLITE_OK);
    check_int(sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1, &stmt, NULL),
              SQLITE_OK);
    check_int(sqlite3_step(stmt), SQLITE_ROW);
    check_str((const char *)sqlite3_column_text(stmt, 0), "ok");
    sqlite3_finalize(stmt);
    check_int(sqlite3_close(handle), SQLITE_OK);
}

TEST(a_commit_of_several_pages_is_one_write)
{
    const char *path = test_sqlite_url();
    struct db *db = open_counted(path);

    check_ok(db_begin(db));
    check_int(add(db, 1, 1000), 1000);
    check_int(disk.writes, 0);
    check_ok(db_commit(db));
    check_int(disk.writes, 1);
    check(disk.longest > 4 * 4096);
    db_close(db);
    check_whole(path, 1000);
}

TEST(a_long_commit_is_written_in_parts_that_the_real_disk_takes)
{
    const char *path = test_sqlite_url();
    struct db *db = open_counted(path);

    add_and_commit(db, 1, 100000);
    check(disk.writes > 4);
    check(disk.longest < 128 << 10); /* more is too much for SQLite's own VFS */
    db_close(db);
    check_whole(path, 100000);
}

TEST(what_could_not_be_written_is_not_written_later)
{
    const char *path = test_sqlite_url();
    struct db *db = open_counted(path), *other = NULL;

    for (int nth = 1; nth <= 2; nth++) { /* of a commit in two parts */
        check_ok(db_begin(db));
        check_int(add(db, 1, 10000), 10000);
        disk.fail_in = nth;
        check_err(db_commit(db), -HF_FULL);
        check_int(disk.fail_in, 0);
        int writes = disk.writes;
        other = open_more(path, false);
        add_and_commit(other, 1000000 + nth * 1000, 1000);
        check_int(disk.writes, writes);
        db_close(other);
        check_int(one_int(db, COUNT), nth * 1000);
    }
    db_close(db);
    check_whole(path, 2000);
}

/* Pages that spill are written while the transaction holds the lock: were they kept
 * until there is more to write, they would go over what others have committed. */
TEST(what_spilled_before_a_rollback_does_no_harm)
{
    const char *path = test_sqlite_url();
    struct db *db = open_counted(path), *other = open_more(path, false);

    add_and_commit(db, 1000000, 1);
    check_ok(db_script(db, "PRAGMA cache_size = 10; PRAGMA cache_spill = 10"));
    check_ok(db_begin(db));
    check_int(add(db, 1, 5000), 5000);
    check(disk.writes > 10); /* some did */
    db_rollback(db);
    add_and_commit(other, 1, 3000);
    check_int(one_int(db, COUNT), 3001);
    add_and_commit(db, 10000, 3000);
    check_int(one_int(other, COUNT), 6001);
    db_close(other);
    db_close(db);
    check_whole(path, 6001);
}

/* Where a torn write may damage what lies beside it, SQLite fills the last sector up with
 * copies of the last page, syncs in the middle of one, and writes the rest behind that. */
TEST(what_a_commit_writes_behind_its_sync_is_in_the_log_too)
{
    const char *path = test_sqlite_url();
    char careful[512];
    snprintf(careful, sizeof(careful), "file:%s?psow=0", path);
    struct db *db = open_more(careful, false), *other = open_more(careful, false);

    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    for (int i = 0; i < 20; i++) {
        add_and_commit(i % 2 ? db : other, 1 + i * 1000, 1000);
        check_int(one_int(i % 2 ? other : db, COUNT), (i + 1) * 1000);
    }
    db_close(other);
    db_close(db);
    check_whole(path, 20000);
}

TEST(a_disk_that_is_full_behind_the_last_frame_leaves_open_what_is_committed)
{
    char careful[512];
    snprintf(careful, sizeof(careful), "file:%s?psow=0", test_sqlite_url());
    struct db *db = open_counted(careful);

    check_ok(db_begin(db));
    check_int(add(db, 1, 10), 10);
    disk.fail_in = 5; /* the second write of a copy */
    check_err(db_commit(db), -HF_UNKNOWN);
    check_int(disk.fail_in, 0);
    db_close(db);
}

/* Else it would become the default one if the program takes its own away. */
TEST(the_program_around_us_does_not_see_our_vfs)
{
    sqlite3_vfs *first = sqlite3_vfs_find(NULL), *next = first->pNext;
    struct db *db = open_more(test_sqlite_url(), false);

    check(sqlite3_vfs_find(NULL) == first && first->pNext == next);
    db_close(db);
    check(sqlite3_vfs_find(NULL) == first && first->pNext == next);
}

/* SQLite up to 3.50.1 leaves frames without checksums in the log if pages have spilled
 * into it, were written again, and are then undone with a savepoint.  Everybody sees what
 * is committed behind them, until a crash. */
static void commit_and_die(const char *path)
{
    struct db *db = open_more(path, false);
    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    check_ok(db_begin(db));
    check_ok(db_savepoint(db));
    check_ok(db_script(
        db,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000) "
        "INSERT INTO things SELECT i, 'large', zeroblob(4000) FROM n; "
        "UPDATE things SET name = 'again' WHERE id % 2 = 0"));
    check_ok(db_savepoint_undo(db));
    check_int(add(db, 1, 1000), 1000);
    check_ok(db_commit(db));
    add_and_commit(db, 10000, 1000);
    check_int(one_int(db, COUNT), 2000);
    _exit(0);
}

TEST(what_is_committed_after_a_large_savepoint_was_undone_survives_a_crash)
{
    const char *path = test_sqlite_url();
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        commit_and_die(path);
    check(waitpid(child, &status, 0) == child && status == 0);
    check_whole(path, 2000);
}
