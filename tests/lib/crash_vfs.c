/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_vfs.c -- the crashing disk as SQLite sees it.
 *
 * It behaves as SQLite's own VFS for Unix does on a journaling file system: the
 * same sector size and promises (a write does not damage its neighbours), the same
 * syncs of the directory. */
#include "crash_disk.h"

#include <stdio.h>

enum { SHM_REGIONS_MAX = 64, STEP_BYTES = PAGE_BYTES };

struct handle {
    sqlite3_file base; /* first: SQLite hands it back */
    struct crash_disk *disk;
    struct file *file;
    int level;             /* of its lock */
    bool new_in_directory; /* the first sync is one of the directory, too */
    bool delete_on_close;
    bool has_shm;
    unsigned shm_shared, shm_exclusive; /* locks held, by bit */
};

static struct handle *handle_of(sqlite3_file *file)
{
    return (struct handle *)file;
}

static struct crash_disk *disk_of(sqlite3_vfs *vfs)
{
    return (struct crash_disk *)vfs;
}

/* The code with which this call fails, or SQLITE_OK. */
static int trouble(struct crash_disk *disk, enum crash_call call)
{
    if (crash_disk_stopped(disk))
        return SQLITE_IOERR;
    if (disk->fail_in == 0 || call != disk->fail_call)
        return SQLITE_OK;
    if (disk->fail_in > 1) {
        disk->fail_in--;
        return SQLITE_OK;
    }
    disk->failures++;
    disk->fail_in = disk->fail_lasting ? 1 : 0;
    return disk->fail_code;
}

void crash_disk_fail(struct crash_disk *disk, enum crash_call call, size_t nth, int code,
                     bool lasting)
{
    disk->fail_call = call;
    disk->fail_in = nth;
    disk->fail_code = code;
    disk->fail_lasting = lasting;
    disk->failures = 0;
}

size_t crash_disk_failures(const struct crash_disk *disk)
{
    return disk->failures;
}

/* ---- reading and writing ---- */

static int do_read(sqlite3_file *f, void *to, int n, sqlite3_int64 offset)
{
    struct handle *h = handle_of(f);
    int rc = trouble(h->disk, CRASH_READ);
    if (rc != SQLITE_OK)
        return rc;
    int64_t there = h->file->now.size - offset;
    if (there >= n) {
        content_read(&h->file->now, offset, to, (size_t)n);
        return SQLITE_OK;
    }
    memset(to, 0, (size_t)n);
    if (there > 0)
        content_read(&h->file->now, offset, to, (size_t)there);
    return SQLITE_IOERR_SHORT_READ;
}

/* A long write is many changes: whoever is killed in the middle of one leaves its
 * beginning behind.  False if the world stopped before its end. */
static bool write_in_steps(struct handle *h, sqlite3_int64 offset,
                           const unsigned char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n && !crash_disk_stopped(h->disk)) {
        size_t at = (size_t)offset + done, step = STEP_BYTES - at % STEP_BYTES;
        size_t part = step < n - done ? step : n - done;
        disk_write(h->disk, h->file, (int64_t)at, bytes + done, part);
        done += part;
    }
    return done == n;
}

static int do_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset)
{
    struct handle *h = handle_of(f);
    int rc = trouble(h->disk, CRASH_WRITE);
    size_t written = rc == SQLITE_OK ? (size_t)n : (size_t)n / 2;
    if (!write_in_steps(h, offset, bytes, written))
        return SQLITE_IOERR;
    return rc;
}

static int do_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct handle *h = handle_of(f);
    int rc = trouble(h->disk, CRASH_WRITE);
    if (rc == SQLITE_OK)
        disk_truncate(h->disk, h->file, size);
    return rc;
}

static int do_sync(sqlite3_file *f, int flags)
{
    struct handle *h = handle_of(f);
    int rc = trouble(h->disk, CRASH_SYNC);
    (void)flags;
    if (rc != SQLITE_OK)
        return rc;
    disk_sync(h->disk, h->file, h->new_in_directory);
    h->new_in_directory = false;
    return SQLITE_OK;
}

static int do_file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    struct handle *h = handle_of(f);
    if (crash_disk_stopped(h->disk))
        return SQLITE_IOERR;
    *ret = h->file->now.size;
    return SQLITE_OK;
}

/* ---- locks of the file ---- */

static int do_lock(sqlite3_file *f, int level)
{
    struct handle *h = handle_of(f);
    struct file *file = h->file;
    if (crash_disk_stopped(h->disk))
        return SQLITE_IOERR;
    if (level <= h->level)
        return SQLITE_OK;
    if (h->level == SQLITE_LOCK_NONE) {
        if (file->exclusive || file->waiting)
            return SQLITE_BUSY;
        file->shared++;
        h->level = SQLITE_LOCK_SHARED;
    }
    if (level == SQLITE_LOCK_SHARED)
        return SQLITE_OK;
    if (file->reserved && file->reserved != h)
        return SQLITE_BUSY;
    file->reserved = h;
    h->level = SQLITE_LOCK_RESERVED;
    if (level == SQLITE_LOCK_RESERVED)
        return SQLITE_OK;
    file->waiting = h;
    h->level = SQLITE_LOCK_PENDING;
    if (file->shared > 1)
        return SQLITE_BUSY;
    file->exclusive = h;
    h->level = SQLITE_LOCK_EXCLUSIVE;
    return SQLITE_OK;
}

static int do_unlock(sqlite3_file *f, int level)
{
    struct handle *h = handle_of(f);
    struct file *file = h->file;
    if (level >= h->level)
        return SQLITE_OK;
    if (file->reserved == h)
        file->reserved = NULL;
    if (file->waiting == h)
        file->waiting = NULL;
    if (file->exclusive == h)
        file->exclusive = NULL;
    if (level == SQLITE_LOCK_NONE)
        file->shared--;
    h->level = level;
    return SQLITE_OK;
}

static int do_check_reserved(sqlite3_file *f, int *ret)
{
    *ret = handle_of(f)->file->reserved != NULL;
    return SQLITE_OK;
}

/* ---- shared memory ---- */

static int do_shm_map(sqlite3_file *f, int region, int bytes, int extend,
                      void volatile **ret)
{
    struct handle *h = handle_of(f);
    struct file *file = h->file;
    *ret = NULL;
    if (crash_disk_stopped(h->disk))
        return SQLITE_IOERR;
    assert(region < SHM_REGIONS_MAX);
    if (!h->has_shm) {
        h->has_shm = true;
        file->shm_users++;
    }
    if (!file->shm)
        file->shm = take(SHM_REGIONS_MAX * sizeof(void *));
    while (file->shm_regions <= region && extend)
        file->shm[file->shm_regions++] = take((size_t)bytes);
    if (region < file->shm_regions)
        *ret = file->shm[region];
    return SQLITE_OK;
}

static bool shm_free_for(const struct handle *h, int i, bool exclusive)
{
    const struct file *file = h->file;
    int others = file->shm_shared[i] - (h->shm_shared >> i & 1 ? 1 : 0);
    if (file->shm_exclusive[i] && file->shm_exclusive[i] != h)
        return false;
    return !exclusive || others == 0;
}

static void shm_take(struct handle *h, int i, bool exclusive)
{
    unsigned bit = 1U << i;
    if (exclusive) {
        h->file->shm_exclusive[i] = h;
        h->shm_exclusive |= bit;
    } else if (!(h->shm_shared & bit)) {
        h->file->shm_shared[i]++;
        h->shm_shared |= bit;
    }
}

static void shm_give(struct handle *h, int i)
{
    unsigned bit = 1U << i;
    if (h->shm_exclusive & bit)
        h->file->shm_exclusive[i] = NULL;
    if (h->shm_shared & bit)
        h->file->shm_shared[i]--;
    h->shm_exclusive &= ~bit;
    h->shm_shared &= ~bit;
}

static int do_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    struct handle *h = handle_of(f);
    bool exclusive = flags & SQLITE_SHM_EXCLUSIVE;
    if (flags & SQLITE_SHM_UNLOCK) {
        for (int i = offset; i < offset + n; i++)
            shm_give(h, i);
        return SQLITE_OK;
    }
    if (crash_disk_stopped(h->disk))
        return SQLITE_IOERR;
    for (int i = offset; i < offset + n; i++)
        if (!shm_free_for(h, i, exclusive))
            return SQLITE_BUSY;
    for (int i = offset; i < offset + n; i++)
        shm_take(h, i, exclusive);
    return SQLITE_OK;
}

static void do_shm_barrier(sqlite3_file *f)
{
    (void)f;
}

/* The last one takes it away; whoever comes next makes it anew from the log. */
static int do_shm_unmap(sqlite3_file *f, int delete)
{
    struct handle *h = handle_of(f);
    struct file *file = h->file;
    (void)delete;
    if (!h->has_shm)
        return SQLITE_OK;
    for (int i = 0; i < SHM_LOCKS; i++)
        shm_give(h, i);
    h->has_shm = false;
    if (--file->shm_users > 0)
        return SQLITE_OK;
    for (int i = 0; i < file->shm_regions; i++)
        sqlite3_free(file->shm[i]);
    sqlite3_free(file->shm);
    file->shm = NULL;
    file->shm_regions = 0;
    return SQLITE_OK;
}

/* ---- the rest of a file ---- */

static int do_close(sqlite3_file *f)
{
    struct handle *h = handle_of(f);
    do_shm_unmap(f, 0);
    do_unlock(f, SQLITE_LOCK_NONE);
    h->file->handles--;
    if (h->delete_on_close && !crash_disk_stopped(h->disk))
        disk_delete(h->disk, h->file, false);
    return SQLITE_OK;
}

static int do_control(sqlite3_file *f, int op, void *arg)
{
    (void)f, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int do_sector_size(sqlite3_file *f)
{
    (void)f;
    return PAGE_BYTES;
}

static int do_characteristics(sqlite3_file *f)
{
    (void)f;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = do_close,
    .xRead = do_read,
    .xWrite = do_write,
    .xTruncate = do_truncate,
    .xSync = do_sync,
    .xFileSize = do_file_size,
    .xLock = do_lock,
    .xUnlock = do_unlock,
    .xCheckReservedLock = do_check_reserved,
    .xFileControl = do_control,
    .xSectorSize = do_sector_size,
    .xDeviceCharacteristics = do_characteristics,
    .xShmMap = do_shm_map,
    .xShmLock = do_shm_lock,
    .xShmBarrier = do_shm_barrier,
    .xShmUnmap = do_shm_unmap,
};

/* ---- the disk ---- */

static int do_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags,
                   int *ret_flags)
{
    struct crash_disk *disk = disk_of(vfs);
    struct handle *h = handle_of(f);
    char scratch[32];
    *h = (struct handle){ 0 };
    if (crash_disk_stopped(disk))
        return SQLITE_IOERR;
    if (!name) {
        snprintf(scratch, sizeof(scratch), "scratch-%d", disk->file_count);
        name = scratch;
    }
    struct file *file = disk_find(disk, name);
    bool create = !file;
    if (create && !(flags & SQLITE_OPEN_CREATE))
        return SQLITE_CANTOPEN;
    if (create)
        file = disk_create(disk, name);
    int journals = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
    *h = (struct handle){ .base.pMethods = &methods,
                          .disk = disk,
                          .file = file,
                          .new_in_directory = create && flags & journals,
                          .delete_on_close = flags & SQLITE_OPEN_DELETEONCLOSE };
    file->handles++;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int do_delete(sqlite3_vfs *vfs, const char *name, int directory)
{
    struct crash_disk *disk = disk_of(vfs);
    struct file *file = disk_find(disk, name);
    if (crash_disk_stopped(disk))
        return SQLITE_IOERR;
    if (!file)
        return SQLITE_IOERR_DELETE_NOENT;
    disk_delete(disk, file, directory);
    return SQLITE_OK;
}

static int do_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    struct crash_disk *disk = disk_of(vfs);
    struct file *file = disk_find(disk, name);
    if (crash_disk_stopped(disk))
        return SQLITE_IOERR;
    /* An empty file does not exist for SQLite, as on Unix. */
    *ret = flags == SQLITE_ACCESS_EXISTS ? file && file->now.size > 0 : file != NULL;
    return SQLITE_OK;
}

static int do_full_path(sqlite3_vfs *vfs, const char *name, int n, char *to)
{
    (void)vfs;
    snprintf(to, (size_t)n, "%s", name);
    return SQLITE_OK;
}

static int do_randomness(sqlite3_vfs *vfs, int n, char *to)
{
    (void)vfs;
    memset(to, 7, (size_t)n);
    return n;
}

static int do_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us; /* nobody else is there to wait for */
}

static int do_time(sqlite3_vfs *vfs, double *ret)
{
    (void)vfs;
    *ret = 2460000.5;
    return SQLITE_OK;
}

static int do_last_error(sqlite3_vfs *vfs, int n, char *to)
{
    (void)vfs, (void)n, (void)to;
    return 0;
}

void vfs_register(struct crash_disk *disk)
{
    disk->vfs = (sqlite3_vfs){ .iVersion = 1,
                               .szOsFile = sizeof(struct handle),
                               .mxPathname = 1024,
                               .zName = disk->name,
                               .xOpen = do_open,
                               .xDelete = do_delete,
                               .xAccess = do_access,
                               .xFullPathname = do_full_path,
                               .xRandomness = do_randomness,
                               .xSleep = do_sleep,
                               .xCurrentTime = do_time,
                               .xGetLastError = do_last_error };
    assert(!sqlite3_vfs_find(disk->name));
    if (sqlite3_vfs_register(&disk->vfs, 0) != SQLITE_OK)
        abort();
}
