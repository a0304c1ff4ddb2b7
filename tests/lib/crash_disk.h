/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_disk.h -- what the two halves of the crashing disk share.
 *
 * crash_disk.c keeps files, changes and what has been synced, and cuts;
 * crash_vfs.c shows it to SQLite.  Tests include crash_vfs.h. */
#pragma once

#include <sqlite3.h>

#include "base/base.h"
#include "crash_vfs.h"

enum { PAGE_BYTES = 4096, SECTOR_BYTES = 512, SHM_LOCKS = SQLITE_SHM_NLOCK };

/* Pages are shared between copies and copied when one is written to, so that a
 * cut costs as much as its table of pages. */
struct page {
    unsigned refs;
    unsigned char bytes[PAGE_BYTES];
};

struct content {
    struct page **pages; /* NULL: zeros */
    size_t count, capacity;
    int64_t size;
};

enum change_type {
    CHANGE_CREATE,
    CHANGE_DELETE,
    CHANGE_WRITE,
    CHANGE_TRUNCATE,
    CHANGE_SYNC,
    CHANGE_RESTART
};

struct change {
    enum change_type type;
    int file;
    bool directory; /* SYNC, DELETE: the directory is synced with it */
    enum crash_loss loss;
    uint64_t seed;
    int64_t at, offset; /* TRUNCATE: the new size */
    size_t n;
    unsigned char data[]; /* WRITE: bytes; CREATE: the name, terminated */
};

struct change_list {
    const struct change **list;
    size_t count, capacity;
};

/* A file for as long as somebody may come back to it: its name may be another's
 * by then. */
struct file {
    int id;
    char *name;
    struct content now, synced;
    struct change_list pending; /* since the last sync */
    int handles;
    /* locks of SQLite, by handle */
    int shared;
    const void *reserved, *waiting, *exclusive;
    /* shared memory */
    void **shm;
    int shm_regions, shm_users;
    int shm_shared[SHM_LOCKS];
    const void *shm_exclusive[SHM_LOCKS];
};

struct directory {
    int files[8];
    int count;
};

struct crash_disk {
    sqlite3_vfs vfs; /* first: SQLite hands it back */
    const char *name;
    const int64_t *clock;
    bool record;
    bool tracks; /* knows what is synced: recording, or replaying */
    struct change_list changes;
    size_t made; /* changes so far, recorded or not */
    uint64_t version, synced_version;
    struct file **files;
    int file_count, file_capacity;
    struct directory now, synced;
    struct change_list pending; /* of the directory */
    size_t stop_after;
    enum crash_call fail_call;
    size_t fail_in, failures; /* fail_in 1: the next; 0: none */
    int fail_code;
    bool fail_lasting;
};

/* crash_disk.c */
/* Memory is SQLite's, so that a test can let ours run out; there is no test without. */
void *grow(void *memory, size_t bytes);
void *take(size_t bytes); /* zeroed */
void content_read(const struct content *c, int64_t offset, void *to, size_t n);
struct file *disk_find(const struct crash_disk *disk, const char *name); /* NULL: none */
/* Each makes a change, and records it. */
struct file *disk_create(struct crash_disk *disk, const char *name);
void disk_delete(struct crash_disk *disk, struct file *file, bool directory);
void disk_write(struct crash_disk *disk, struct file *file, int64_t offset,
                const void *bytes, size_t n);
void disk_truncate(struct crash_disk *disk, struct file *file, int64_t size);
void disk_sync(struct crash_disk *disk, struct file *file, bool directory);

/* crash_vfs.c: the VFS's functions are filled in and it is registered. */
void vfs_register(struct crash_disk *disk);
