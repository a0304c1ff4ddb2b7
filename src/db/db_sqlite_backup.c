/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sqlite_backup.c -- a copy of a database that is in use.
 *
 * The pages are those of one snapshot: a reader's transaction is open all the while,
 * so writers go on, and nothing has to be begun again because of them.  The copy is
 * made under another name and given its own when it is whole and on disk: a file that
 * is there is a good one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db_sqlite.h"

enum { STEP_PAGES = 1024, BUSY_MS = 10000 };

struct copying {
    const char *from, *to;
    char part[4096];
    sqlite3 *source, *copy;
    void (*told)(void *arg, int64_t done, int64_t total);
    void *arg;
    struct error *error;
};

static int fail(struct copying *c, int code, const char *why)
{
    return error_set(c->error, code, NULL, "%s could not be copied to %s: %s.", c->from,
                     c->to, why);
}

static int fail_errno(struct copying *c)
{
    return fail(c, status_of_errno(errno), strerror(errno));
}

/* As readable as the original, and nobody's before. */
static int make_part(struct copying *c)
{
    struct stat st;

    if (stat(c->from, &st) < 0)
        return fail_errno(c);
    if (access(c->to, F_OK) == 0)
        return error_set(c->error, -HF_CONFLICT, NULL,
                         "%s is there already; name a new file.", c->to);
    int n = snprintf(c->part, sizeof(c->part), "%s.XXXXXX", c->to);
    if (n < 0 || (size_t)n >= sizeof(c->part))
        return error_set(c->error, -HF_TOO_LARGE, NULL, "%.100s... is too long a name.",
                         c->to);
    int fd = mkostemp(c->part, O_CLOEXEC);
    if (fd < 0) {
        c->part[0] = '\0';
        return fail_errno(c);
    }
    int bad = fchmod(fd, st.st_mode & 0666);
    close(fd);
    return bad ? fail_errno(c) : 0;
}

static int open_both(struct copying *c)
{
    int rc = sqlite3_open_v2(c->from, &c->source,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(c->source, BUSY_MS);
    /* The snapshot is taken by the first look. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(c->source,
                          "PRAGMA query_only = ON; BEGIN; SELECT count(*) FROM "
                          "sqlite_schema",
                          NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return fail(c, sqlite_code(rc), sqlite3_errmsg(c->source));
    rc = sqlite3_open_v2(c->part, &c->copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                         NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(c->copy, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail(c, sqlite_code(rc), sqlite3_errmsg(c->copy));
}

static int copy_pages(struct copying *c)
{
    sqlite3_backup *backup = sqlite3_backup_init(c->copy, "main", c->source, "main");
    int rc = SQLITE_OK;

    if (!backup)
        return fail(c, sqlite_code(sqlite3_errcode(c->copy)), sqlite3_errmsg(c->copy));
    while (rc == SQLITE_OK) {
        rc = sqlite3_backup_step(backup, STEP_PAGES);
        int64_t total = sqlite3_backup_pagecount(backup);
        if (c->told)
            c->told(c->arg, total - sqlite3_backup_remaining(backup), total);
    }
    int end = sqlite3_backup_finish(backup);
    if (rc == SQLITE_DONE)
        rc = end;
    return rc == SQLITE_OK ? 0 : fail(c, sqlite_code(rc), sqlite3_errstr(rc));
}

static int sync_path(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    int bad = fd < 0 || fsync(fd) < 0 ? -1 : 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return bad;
}

/* The name last, and never in the place of another file. */
static int give_name(struct copying *c, int64_t *ret_bytes)
{
    char folder[4096];
    const char *slash = strrchr(c->to, '/');
    struct stat st;

    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - c->to) + 1 : 1,
             slash ? c->to : ".");
    if (sync_path(c->part, 0) < 0 || stat(c->part, &st) < 0)
        return fail_errno(c);
    if (renameat2(AT_FDCWD, c->part, AT_FDCWD, c->to, RENAME_NOREPLACE) < 0)
        return fail_errno(c);
    c->part[0] = '\0';
    if (sync_path(folder, O_DIRECTORY) < 0)
        return fail_errno(c);
    *ret_bytes = st.st_size;
    return 0;
}

int db_backup(const char *url, const char *to,
              void (*told)(void *arg, int64_t done, int64_t total), void *arg,
              struct error *error, int64_t *ret_bytes)
{
    struct copying c = {
        .from = url, .to = to, .told = told, .arg = arg, .error = error
    };

    if (db_engine_of(url) != DB_SQLITE)
        return error_set(error, -HF_INVALID, NULL,
                         "A backup by Holdfast is of a SQLite file. PostgreSQL makes its "
                         "own: pg_dump --format=custom --file=%s 'postgres://...'",
                         to);
    int r = make_part(&c);
    if (r == 0)
        r = open_both(&c);
    if (r == 0)
        r = copy_pages(&c);
    sqlite3_close(c.copy);
    sqlite3_close(c.source);
    if (r == 0)
        r = give_name(&c, ret_bytes);
    if (c.part[0])
        unlink(c.part);
    return r;
}
