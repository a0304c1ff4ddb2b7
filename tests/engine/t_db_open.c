/* SPDX-License-Identifier: Apache-2.0
 *
 * The database floor: opening, the reading twin, other processes, bad disks. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "things.h"

/* Opens what cannot be opened; the sentence must have these words. */
static void check_refused(const struct db_options *options, int code, const char *words)
{
    struct error error = { 0 };
    struct db *db = NULL;

    check_err(db_open(options, &error, &db), code);
    check_int(error.code, code);
    check(!db);
    if (!strstr(error.text, words))
        fail("\"%s\" has no \"%s\" in it", error.text, words);
    if (db_engine_of(options->url) == DB_SQLITE && !strstr(error.text, options->url))
        fail("\"%s\" does not name the file", error.text);
}

static void write_file(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    check_int(write(fd, text, n), n);
    close(fd);
}

static const char *new_thing_file(void)
{
    const char *path = test_sqlite_url();
    struct db *db = open_more(path, false);

    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    db_close(db);
    return path;
}

TEST(a_url_names_its_engine)
{
    check_int(db_engine_of("/var/lib/holdfast/holdfast.db"), DB_SQLITE);
    check_int(db_engine_of("holdfast.db"), DB_SQLITE);
    check_int(db_engine_of("postgres.db"), DB_SQLITE);
    check_int(db_engine_of("postgres://localhost/holdfast"), DB_POSTGRES);
    check_int(db_engine_of("postgresql:///holdfast"), DB_POSTGRES);

    struct db *db = open_more(test_db_url(), false);
    check_int(db_engine(db), test_on_postgres() ? DB_POSTGRES : DB_SQLITE);
    check_ok(db_reconnect(db));
    db_close(db);
}

TEST(sqlite_counts_its_memory_unless_the_program_has_it_to_itself)
{
    struct db *db = open_more(test_sqlite_url(), false);

    check(sqlite3_memory_used() > 0); /* the host may want to know */
    db_close(db);
    check_int(sqlite3_shutdown(), SQLITE_OK); /* as if nothing had been opened */
    db_own_process();
    db = open_more(test_sqlite_url(), false);
    check_int(sqlite3_memory_used(), 0);
    db_close(db);
}

TEST(a_file_that_is_no_database_is_foreign)
{
    const char *path = test_path("letter.txt");
    char text[8192];

    memset(text, 'x', sizeof(text));
    write_file(path, text, sizeof(text));
    const struct db_options options = { .url = path, .create = true };
    check_refused(&options, -HF_FOREIGN, "is not a SQLite database");

    const struct db_options folder = { .url = test_dir(), .create = true };
    check_refused(&folder, -HF_FOREIGN, "is a directory");
}

TEST(a_missing_directory_is_named)
{
    const struct db_options options = { .url = test_path("not/there/x.db"),
                                        .create = true };

    check_refused(&options, -HF_NOT_FOUND, "not/there: No such file or directory");
}

TEST(an_address_that_is_none_of_ours_is_refused)
{
    const struct db_options options = { .url = "mysql://host/jobs", .create = true };

    check_refused(&options, -HF_INVALID, "a file's path or postgres://");
}

TEST(a_folder_that_cannot_be_written_is_said_to_be_the_reason)
{
    const char *path = new_thing_file();
    const struct db_options new = { .url = test_path("closed/new.db"), .create = true };
    const struct db_options old = { .url = test_path("closed/old.db"),
                                    .read_only = true };
    bool root = geteuid() == 0;

    check_int(chmod(test_dir(), 0755), 0);
    check_int(mkdir(test_path("closed"), 0755), 0);
    check_int(rename(path, old.url), 0);
    check_int(chmod(test_path("closed"), 0555), 0);
    if (root) /* who may write everything */
        check_int(seteuid(65534), 0);
    check_refused(&new, -HF_READONLY, "new.db: Permission denied");
    check_refused(&old, -HF_READONLY, "its folder must be writable");
    if (root)
        check_int(seteuid(0), 0);
    check_int(chmod(test_path("closed"), 0755), 0);
}

TEST(a_missing_file_is_made_only_if_asked)
{
    const char *path = test_path("new.db");
    const struct db_options options = { .url = path };
    const struct db_options twin = { .url = path, .create = true, .read_only = true };

    check_refused(&options, -HF_NOT_FOUND, "there is no database");
    check_refused(&twin, -HF_NOT_FOUND, "there is no database");
    check(access(path, F_OK) != 0);
    db_close(open_more(path, false));
    check(access(path, F_OK) == 0);
}

TEST(a_file_that_cannot_be_written_is_refused_but_can_be_read)
{
    const char *path = new_thing_file();
    const struct db_options options = { .url = path };
    bool root = geteuid() == 0;

    check_int(chmod(path, 0444), 0);
    check_int(chmod(test_dir(), 0755), 0);
    char *folder = strdup(path);
    *strrchr(folder, '/') = '\0';
    check_int(chmod(folder, 0777), 0); /* the log is written even to read */
    free(folder);
    if (root) /* who may write everything */
        check_int(seteuid(65534), 0);
    check_refused(&options, -HF_READONLY, "cannot be written");
    struct db *twin = open_more(path, true);
    check_int(one_int(twin, COUNT), 0);
    db_close(twin);
    if (root)
        check_int(seteuid(0), 0);
}

TEST(a_database_of_another_is_not_changed_by_opening_it)
{
    const char *path = test_path("other.db");
    sqlite3 *other = NULL;
    char header[100];

    check_int(sqlite3_open(path, &other), SQLITE_OK);
    check_int(sqlite3_exec(other, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);

    struct db *db = open_more(path, false);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check_int(read(fd, header, sizeof(header)), sizeof(header));
    check_int(header[18], 1); /* 2 would be write-ahead mode */
    check_ok(db_begin(db));
    db_rollback(db);
    check_int(pread(fd, header, sizeof(header), 0), sizeof(header));
    check_int(header[18], 2);
    close(fd);
    db_close(db);
}

TEST(a_damaged_file_is_corrupt)
{
    const char *path = new_thing_file();
    struct db *db = open_more(path, false);
    struct db_rows rows;
    char rubbish[4096];

    check_ok(db_begin(db));
    check_int(add(db, 1, 1000), 1000);
    check_ok(db_commit(db));
    db_close(db);

    memset(rubbish, 0xa5, sizeof(rubbish));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (off_t at = 4096; at < lseek(fd, 0, SEEK_END); at += 4096)
        check_int(pwrite(fd, rubbish, sizeof(rubbish), at), sizeof(rubbish));
    close(fd);

    db = open_more(path, false);
    int r = db_query(db, LIST, NULL, 1, &rows);
    while (r == 0 && (r = db_next(&rows)) > 0)
        r = 0;
    check_err(r, -HF_CORRUPT);
    db_done(&rows);
    db_close(db);
}

TEST(a_writer_waits_for_another_only_so_long)
{
    const char *path = new_thing_file();
    const struct db_options options = {
        .url = path, .sql = sql, .sql_count = SQL_COUNT, .busy_ms = 50
    };
    struct error error = { 0 };
    struct db *one = open_more(path, false), *two = NULL;

    check_ok(db_open(&options, &error, &two));
    check_ok(db_begin(one));
    int64_t start = test_monotonic_us();
    check_err(db_begin(two), -HF_BUSY);
    check(test_monotonic_us() - start >= 40 * US_PER_MS);
    check_ok(db_commit(one));
    check_ok(db_begin(two));
    check_ok(db_commit(two));
    db_close(one);
    db_close(two);
}

TEST(the_reading_twin_refuses_writes_and_sees_a_snapshot)
{
    const char *url = test_db_url();
    cleanup(close_db) struct db *db = open_more(url, false);

    check_ok(db_script(db, "CREATE TABLE things (id {id}, name TEXT, body {blob})"));
    cleanup(close_db) struct db *twin = open_more(url, true);

    check_ok(db_begin(twin));
    check_int(one_int(twin, COUNT), 0);
    check_ok(db_begin(db)); /* a reader stops no writer, nor a writer a reader */
    check_int(add(db, 1, 5), 5);
    check_int(one_int(twin, COUNT), 0);
    check_ok(db_commit(db));
    check_int(one_int(twin, COUNT), 0);
    check_ok(db_commit(twin));
    check_int(one_int(twin, COUNT), 5);

    check_err(add(twin, 9, 1), -HF_READONLY);
    check_err(db_script(twin, "DROP TABLE things"), -HF_READONLY);
    check_ok(db_begin(twin));
    check_err(add(twin, 9, 1), -HF_READONLY);
    db_rollback(twin);
    check_int(one_int(twin, COUNT), 5);
}

/* A disk that fails: the system's VFS, with two of its methods replaced. */
static struct {
    int write_code, sync_code; /* what to return; 0: do it */
    sqlite3_vfs vfs;
    const sqlite3_io_methods *real;
    sqlite3_io_methods methods[2]; /* of the database and, without locks, its log */
} disk;

static int disk_write(sqlite3_file *file, const void *p, int n, sqlite3_int64 at)
{
    return disk.write_code ? disk.write_code : disk.real->xWrite(file, p, n, at);
}

static int disk_sync(sqlite3_file *file, int flags)
{
    return disk.sync_code ? disk.sync_code : disk.real->xSync(file, flags);
}

static int disk_open(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *file,
                     int flags, int *out_flags)
{
    sqlite3_vfs *real = vfs->pAppData;
    int rc = real->xOpen(real, path, file, flags, out_flags);

    if (rc == SQLITE_OK) {
        sqlite3_io_methods *methods = &disk.methods[(flags & SQLITE_OPEN_WAL) != 0];
        disk.real = file->pMethods;
        *methods = *file->pMethods;
        methods->xWrite = disk_write;
        methods->xSync = disk_sync;
        file->pMethods = methods;
    }
    return rc;
}

static struct db *open_on_bad_disk(const char *path)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    struct error error = { 0 };
    struct db *db = NULL;

    disk.vfs = *real;
    disk.vfs.zName = "bad-disk";
    disk.vfs.pAppData = real;
    disk.vfs.xOpen = disk_open;
    check_int(sqlite3_vfs_register(&disk.vfs, 0), SQLITE_OK);
    const struct db_options options = {
        .url = path, .sql = sql, .sql_count = SQL_COUNT, .vfs = "bad-disk"
    };
    check_ok(db_open(&options, &error, &db));
    return db;
}

TEST(a_commit_that_could_not_be_synced_is_unknown)
{
    struct db *db = open_on_bad_disk(new_thing_file());

    check_ok(db_begin(db));
    check_int(add(db, 1, 1), 1);
    disk.sync_code = SQLITE_IOERR_FSYNC;
    check_err(db_commit(db), -HF_UNKNOWN);
    check_err(add(db, 2, 1), -HF_UNKNOWN); /* a commit of its own */
    disk.sync_code = 0;
    check_ok(db_begin(db)); /* the transaction is over */
    check_ok(db_commit(db));
    db_close(db);
}

TEST(a_commit_on_a_full_disk_is_not_done)
{
    struct db *db = open_on_bad_disk(new_thing_file());

    check_ok(db_begin(db));
    check_int(add(db, 1, 1), 1);
    disk.write_code = SQLITE_FULL;
    check_err(db_commit(db), -HF_FULL);
    disk.write_code = 0;
    check_int(one_int(db, COUNT), 0);
    check_int(add(db, 1, 1), 1);
    db_close(db);
}

TEST(a_full_database_ends_the_transaction)
{
    struct db *db = open_more(new_thing_file(), false);
    int64_t r = 0;

    check_ok(db_script(db, "PRAGMA max_page_count = 20"));
    check_ok(db_begin(db));
    for (int64_t i = 0; i < 100 && r >= 0; i++)
        r = add(db, i * 1000, 1000);
    check_err(r, -HF_FULL);
    check_err(db_commit(db), -HF_FULL);
    check_int(one_int(db, COUNT), 0);
    db_close(db);
}

TEST(a_borrowed_transaction_stays_the_applications)
{
    const char *path = new_thing_file();
    sqlite3 *handle = NULL;
    struct db *db = NULL;

    check_int(sqlite3_open(path, &handle), SQLITE_OK);
    check_int(sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    check_ok(db_borrow_sqlite(handle, sql, SQL_COUNT, &db));
    check_err(db_begin(db), -HF_INVALID);
    check_int(add(db, 1, 3), 3);
    check_err(db_commit(db), -HF_INVALID);
    db_rollback(db); /* is refused as well, without a word */
    check_int(one_int(db, COUNT), 3);
    db_close(db);
    check_int(sqlite3_get_autocommit(handle), 0); /* still under way */
    check_int(sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    check_int(sqlite3_close(handle), SQLITE_OK); /* nothing of ours is left in it */

    db = open_more(path, false);
    check_int(one_int(db, COUNT), 3);
    db_close(db);
}
