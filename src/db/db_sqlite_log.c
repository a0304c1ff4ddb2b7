/* SPDX-License-Identifier: Apache-2.0
 *
 * db_sqlite_log.c -- a VFS that has nothing of its own but the gathering of writes.
 *
 * Only the log's file is ours; every other file is opened by the real VFS in the room
 * that SQLite has given us, so no call on it passes through here. */
#include "db_sqlite_log.h"

#include <stdio.h>

/* Thirty-one pages; more go out in parts.  SQLite's own VFS for Unix takes less than
 * 128 KiB at a time: of a longer write it would write the rest of the division. */
enum { GATHER_BYTES = 127 << 10 };

struct log_file {
    sqlite3_file base; /* first */
    struct sqlite_log *log;
    _Alignas(sqlite3_int64) unsigned char real[]; /* as SQLite aligns files */
};

static struct sqlite_log *log_of(sqlite3_vfs *vfs)
{
    return (struct sqlite_log *)vfs;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return (sqlite3_file *)((struct log_file *)file)->real;
}

/* ---- the log's file ---- */

/* Whatever comes of it: a commit that failed is not written later. */
static int write_out(sqlite3_file *file)
{
    struct sqlite_log *log = ((struct log_file *)file)->log;
    sqlite3_file *real = real_of(file);
    size_t count = log->count;

    log->count = 0;
    return count == 0 ? SQLITE_OK
                      : real->pMethods->xWrite(real, log->bytes, (int)count, log->offset);
}

static int log_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 offset)
{
    struct sqlite_log *log = ((struct log_file *)file)->log;
    sqlite3_file *real = real_of(file);
    size_t size = (size_t)n;

    bool goes_on =
        offset == log->offset + (int64_t)log->count && size <= GATHER_BYTES - log->count;
    int rc = goes_on ? SQLITE_OK : write_out(file);
    if (rc != SQLITE_OK)
        return rc;
    if (!log->gathers || size > GATHER_BYTES)
        return real->pMethods->xWrite(real, bytes, n, offset);
    if (log->count == 0)
        log->offset = offset;
    memcpy(log->bytes + log->count, bytes, size);
    log->count += size;
    return SQLITE_OK;
}

static int log_read(sqlite3_file *file, void *to, int n, sqlite3_int64 offset)
{
    sqlite3_file *real = real_of(file);
    int rc = write_out(file);
    return rc != SQLITE_OK ? rc : real->pMethods->xRead(real, to, n, offset);
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = real_of(file);
    int rc = write_out(file);
    return rc != SQLITE_OK ? rc : real->pMethods->xTruncate(real, size);
}

static int log_sync(sqlite3_file *file, int flags)
{
    sqlite3_file *real = real_of(file);
    int rc = write_out(file);
    return rc != SQLITE_OK ? rc : real->pMethods->xSync(real, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    sqlite3_file *real = real_of(file);
    int rc = write_out(file);
    return rc != SQLITE_OK ? rc : real->pMethods->xFileSize(real, ret);
}

static int log_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    assert(((struct log_file *)file)->log->count == 0); /* not within a COMMIT */
    return real->pMethods->xClose(real);
}

/* The log has no locks: they are the database file's. */
static int log_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int log_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int log_check_lock(sqlite3_file *file, int *ret)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret);
}

static int log_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int log_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int log_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1, /* shared memory and mapping are the database file's */
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_check_lock,
    .xFileControl = log_control,
    .xSectorSize = log_sector_size,
    .xDeviceCharacteristics = log_characteristics,
};

/* ---- the VFS ---- */

/* Where a torn write may damage what lies beside it, SQLite fills up the log's last
 * sector with copies of a page, and syncs in the middle of one. */
static bool is_powersafe(sqlite3_file *file)
{
    int traits = file->pMethods->xDeviceCharacteristics(file);
    return (traits & SQLITE_IOCAP_POWERSAFE_OVERWRITE) != 0;
}

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file,
                    int flags, int *ret_flags)
{
    struct sqlite_log *log = log_of(vfs);
    struct log_file *f = (struct log_file *)file;

    if (!(flags & SQLITE_OPEN_WAL)) {
        int r = log->real->xOpen(log->real, name, file, flags, ret_flags);
        if (r == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB)
            log->sync_is_last = is_powersafe(file);
        return r;
    }
    f->base.pMethods = real_of(file)->pMethods = NULL; /* not to be closed if not open */
    f->log = log;
    int rc = log->real->xOpen(log->real, name, real_of(file), flags, ret_flags);
    if (real_of(file)->pMethods)
        f->base.pMethods = &methods;
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    return log_of(vfs)->real->xDelete(log_of(vfs)->real, name, sync);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    return log_of(vfs)->real->xAccess(log_of(vfs)->real, name, flags, ret);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int n, char *to)
{
    return log_of(vfs)->real->xFullPathname(log_of(vfs)->real, name, n, to);
}

static int vfs_randomness(sqlite3_vfs *vfs, int n, char *to)
{
    return log_of(vfs)->real->xRandomness(log_of(vfs)->real, n, to);
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    return log_of(vfs)->real->xSleep(log_of(vfs)->real, us);
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
    return log_of(vfs)->real->xCurrentTime(log_of(vfs)->real, ret);
}

static int vfs_last_error(sqlite3_vfs *vfs, int n, char *to)
{
    return log_of(vfs)->real->xGetLastError(log_of(vfs)->real, n, to);
}

int sqlite_log_open(struct sqlite_log *log, const char *url, int flags, const char *vfs,
                    sqlite3 **ret)
{
    /* Before that, there is no VFS to be found. */
    sqlite3_vfs *real = sqlite3_initialize() == SQLITE_OK ? sqlite3_vfs_find(vfs) : NULL;
    if (!real)
        return sqlite3_open_v2(url, ret, flags, vfs); /* it says what is wrong */
    *log = (struct sqlite_log){
        .real = real,
        .vfs = { .iVersion = 1,
                 .szOsFile = (int)offsetof(struct log_file, real) + real->szOsFile,
                 .mxPathname = real->mxPathname,
                 .xOpen = vfs_open,
                 .xDelete = vfs_delete,
                 .xAccess = vfs_access,
                 .xFullPathname = vfs_full_path,
                 .xRandomness = vfs_randomness,
                 .xSleep = vfs_sleep,
                 .xCurrentTime = vfs_time,
                 .xGetLastError = vfs_last_error }
    };
    snprintf(log->name, sizeof(log->name), "holdfast-%p", (void *)log);
    log->vfs.zName = log->name;
    int rc = sqlite3_vfs_register(&log->vfs, 0);
    if (rc == SQLITE_OK)
        rc = sqlite3_open_v2(url, ret, flags, log->name);
    sqlite3_vfs_unregister(&log->vfs);
    return rc;
}

void sqlite_log_release(struct sqlite_log *log)
{
    free(log->bytes);
    *log = (struct sqlite_log){ 0 };
}

void sqlite_log_begin(struct sqlite_log *log)
{
    if (!log->bytes && log->sync_is_last)
        log->bytes = malloc(GATHER_BYTES);
    log->gathers = log->bytes != NULL;
}

void sqlite_log_end(struct sqlite_log *log)
{
    log->gathers = false;
    log->count = 0;
}
