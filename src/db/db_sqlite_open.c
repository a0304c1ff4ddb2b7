/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sqlite_open.c -- opens a file, sets SQLite up, and says what is wrong.
 *
 * Whoever starts Holdfast with a wrong path reads the sentences made here, so
 * they name the file and the reason. */
#include "db_sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

int sqlite_code(int rc)
{
    switch (rc) { /* extended codes that do not mean what their family means */
    case SQLITE_IOERR_NOMEM:
        return -HF_NOMEM;
    case SQLITE_READONLY_DBMOVED:
        return -HF_IO;
    }
    switch (rc & 0xff) {
    case SQLITE_CONSTRAINT:
        return -HF_CONFLICT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return -HF_BUSY;
    case SQLITE_FULL:
        return -HF_FULL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_NOLFS:
        return -HF_IO;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return -HF_READONLY;
    case SQLITE_CORRUPT:
        return -HF_CORRUPT;
    case SQLITE_NOTADB:
        return -HF_FOREIGN;
    case SQLITE_NOMEM:
        return -HF_NOMEM;
    default:
        return -HF_INTERNAL;
    }
}

static void folder_of(const char *path, char *out, size_t bytes)
{
    const char *slash = strrchr(path, '/');

    snprintf(out, bytes, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
             slash ? path : ".");
}

/* The sentence for a file that cannot be opened: the engine says only that. */
static int explain_open(const struct db_options *options, sqlite3 *handle,
                        struct error *error)
{
    int reason = sqlite3_system_errno(handle);
    char directory[4096];
    struct stat st;

    if (strstr(options->url, "://"))
        return error_set(error, -HF_INVALID, NULL,
                         "%s names no database Holdfast knows; it must be a file's path "
                         "or postgres://...",
                         options->url);
    folder_of(options->url, directory, sizeof(directory));
    if (stat(directory, &st) < 0)
        return error_set(error, errno == EACCES ? -HF_READONLY : -HF_NOT_FOUND, NULL,
                         "cannot open %s: directory %s: %s", options->url, directory,
                         strerror(errno));
    if (stat(options->url, &st) < 0 && errno == ENOENT) {
        if (!options->create || options->read_only)
            return error_set(error, -HF_NOT_FOUND, NULL, "there is no database %s",
                             options->url);
        /* SQLite's errno is that of a second try, which does not create. */
        if (eaccess(directory, W_OK | X_OK) < 0)
            reason = errno;
    }
    if (stat(options->url, &st) == 0 && S_ISDIR(st.st_mode))
        return error_set(error, -HF_FOREIGN, NULL, "%s is a directory, not a database",
                         options->url);
    bool forbidden = reason == EACCES || reason == EPERM || reason == EROFS;
    return error_set(error, forbidden ? -HF_READONLY : -HF_IO, NULL, "cannot open %s: %s",
                     options->url, reason ? strerror(reason) : sqlite3_errmsg(handle));
}

/* The sentence for a file that was opened and then could not be used. */
static int explain_use(const char *path, sqlite3 *handle, int rc, struct error *error)
{
    int code = sqlite_code(rc);

    if (code == -HF_FOREIGN)
        return error_set(error, code, NULL, "%s is not a SQLite database", path);
    if (code == -HF_BUSY)
        return error_set(error, code, NULL, "%s is locked by another process", path);
    if (code == -HF_CORRUPT)
        return error_set(error, code, NULL, "%s is damaged: %s", path,
                         sqlite3_errmsg(handle));
    if (code == -HF_READONLY)
        return error_set(error, code, NULL,
                         "cannot use %s: its folder must be writable even to read it, "
                         "for the log beside it",
                         path);
    return error_set(error, code, NULL, "cannot use %s: %s", path,
                     sqlite3_errmsg(handle));
}

/* Reads the first column of the first row of a PRAGMA. */
static int pragma(sqlite3 *handle, const char *text, int64_t *ret_int, char ret_text[16])
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(handle, text, -1, &stmt, NULL);

    if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (ret_int)
            *ret_int = sqlite3_column_int64(stmt, 0);
        const unsigned char *word = sqlite3_column_text(stmt, 0);
        if (ret_text)
            snprintf(ret_text, 16, "%s", word ? (const char *)word : "");
        rc = SQLITE_DONE;
    }
    int end = sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? end : rc;
}

int sqlite_use_wal(struct sqlite *s)
{
    char mode[16] = "";

    if (s->wal || s->db.read_only)
        return SQLITE_OK;
    int rc = pragma(s->handle, "PRAGMA journal_mode=WAL", NULL, mode);
    if (rc != SQLITE_OK)
        return rc;
    if (strcmp(mode, "wal") != 0)
        return SQLITE_CANTOPEN; /* a file system without shared memory */
    s->wal = true;
    return SQLITE_OK;
}

/* The first look into the file itself; a new one gets its log. */
static int look_into(struct sqlite *s, const char *settings, bool read_only)
{
    int64_t pages = 0;
    char mode[16] = "";

    int rc = sqlite3_exec(s->handle, settings, NULL, NULL, NULL);
    if (rc == SQLITE_OK && read_only)
        rc = sqlite3_exec(s->handle, "PRAGMA query_only = ON; PRAGMA temp_store = FILE",
                          NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = pragma(s->handle, "PRAGMA page_count", &pages, NULL);
    if (rc == SQLITE_OK)
        rc = pragma(s->handle, "PRAGMA journal_mode", NULL, mode);
    s->wal = strcmp(mode, "wal") == 0;
    if (rc == SQLITE_OK && pages == 0)
        rc = sqlite_use_wal(s);
    return rc;
}

static int configure(struct sqlite *s, const struct db_options *options)
{
    /* secure_delete: Debian's build zeroes what is deleted, at the price of
     * writing it again.  The cache holds the live part of the indexes; the log
     * is folded back every 16 MiB and cut to 64 after a burst.  No mmap: an
     * I/O error would be a SIGBUS in somebody's process.  Whole tables are sorted
     * by readers only: in files, once they are larger than the cache.  No spilling:
     * SQLite up to 3.50.1 loses, in a crash, what is committed after a savepoint was
     * undone whose pages had spilled; a transaction is as large as its commands, and
     * those are in memory anyway. */
    static const char settings[] = "PRAGMA page_size = 4096;"
                                   "PRAGMA synchronous = FULL;"
                                   "PRAGMA foreign_keys = OFF;"
                                   "PRAGMA temp_store = MEMORY;"
                                   "PRAGMA cache_size = -16384;"
                                   "PRAGMA cache_spill = OFF;"
                                   "PRAGMA secure_delete = OFF;"
                                   "PRAGMA mmap_size = 0;"
                                   "PRAGMA wal_autocheckpoint = 4096;"
                                   "PRAGMA journal_size_limit = 67108864;";

    sqlite3_extended_result_codes(s->handle, 1);
    sqlite3_busy_timeout(s->handle, options->busy_ms);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_LOOKASIDE, NULL, 1200, 128);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);

    /* Several who come for a new file at once: where waiting for a lock could be for
     * ever, SQLite does not wait, so we do. */
    int64_t patience = options->busy_ms > 1000 ? options->busy_ms : 1000;
    int64_t until = clock_mono_us(&clock_system) + patience * US_PER_MS;
    int rc = look_into(s, settings, options->read_only);
    while ((rc & 0xff) == SQLITE_BUSY && clock_mono_us(&clock_system) < until) {
        usleep(10 * 1000);
        rc = look_into(s, settings, options->read_only);
    }
    return rc;
}

void db_own_process(void)
{
    /* Too late if some other part has begun to use it: then it is only slower. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

void sqlite_close(struct db *db)
{
    struct sqlite *s = sqlite_of(db);

    for (int i = 0; i < VERB_COUNT; i++)
        sqlite3_finalize(s->verbs[i]);
    for (size_t i = 0; s->prepared && i < db->sql_count; i++) {
        sqlite3_finalize(s->prepared[i]);
        sqlite3_finalize(s->chunks[i]);
    }
    free(s->prepared);
    int rc = db->borrowed ? SQLITE_OK : sqlite3_close(s->handle);
    assert(rc == SQLITE_OK); /* else a statement was not finalized */
    (void)rc;
    sqlite_log_release(&s->log);
    db_release(db);
    free(s);
}

/* The reading twin is opened for writing as well, because readers of the log
 * take part in its shared memory; query_only refuses its writes.  If the file
 * is not writable, SQLite itself falls back to reading only. */
static int open_file(struct sqlite *s, const struct db_options *options,
                     struct error *error)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (options->create && !options->read_only)
        flags |= SQLITE_OPEN_CREATE;

    int rc =
        options->read_only
            ? sqlite3_open_v2(options->url, &s->handle, flags, options->vfs)
            : sqlite_log_open(&s->log, options->url, flags, options->vfs, &s->handle);
    if (rc == SQLITE_NOMEM)
        return error_set(error, -HF_NOMEM, NULL, "no memory to open %s", options->url);
    if (rc != SQLITE_OK)
        return explain_open(options, s->handle, error);
    if (!options->read_only && sqlite3_db_readonly(s->handle, "main") == 1)
        return error_set(error, -HF_READONLY, NULL, "%s cannot be written to",
                         options->url);

    rc = configure(s, options);
    return rc == SQLITE_OK ? 0 : explain_use(options->url, s->handle, rc, error);
}

/* Room for all statements, in both forms; none is prepared yet. */
static bool have_statements(struct sqlite *s)
{
    size_t count = s->db.sql_count;
    s->prepared = calloc(2 * count + 1, sizeof(sqlite3_stmt *));
    s->chunks = s->prepared + count;
    return s->prepared != NULL;
}

int sqlite_open(const struct db_options *options, struct error *error, struct db **ret)
{
    struct sqlite *s = new (struct sqlite);
    if (!s)
        return error_set(error, -HF_NOMEM, NULL, "no memory to open %s", options->url);

    int r = db_init(&s->db, &db_sqlite_driver, options);
    if (r < 0 || !have_statements(s))
        r = error_set(error, -HF_NOMEM, NULL, "no memory to open %s", options->url);
    else
        r = open_file(s, options, error);
    if (r < 0) {
        sqlite_close(&s->db);
        return r;
    }
    *ret = &s->db;
    return 0;
}

/* The application's settings are its own; only how errors are told is ours to
 * ask: sqlite_code() understands both kinds of codes. */
int sqlite_borrow(void *handle, const struct db_sql *sql, size_t sql_count,
                  struct db **ret)
{
    if (sqlite3_get_autocommit(handle))
        return -HF_INVALID; /* no transaction: a set would commit row by row */
    struct sqlite *s = new (struct sqlite);
    if (!s)
        return -HF_NOMEM;
    s->handle = handle;
    s->wal = true; /* not ours to change; the store asks */
    int r = db_init(&s->db, &db_sqlite_driver,
                    &(struct db_options){ .sql = sql, .sql_count = sql_count });
    s->db.borrowed = s->db.in_transaction = true;
    if (r < 0 || !have_statements(s)) {
        sqlite_close(&s->db);
        return -HF_NOMEM;
    }
    *ret = &s->db;
    return 0;
}
