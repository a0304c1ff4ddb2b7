/* SPDX-License-Identifier: Apache-2.0 */
#include "crash_disk.h"

#include "base/hash.h"

void *grow(void *memory, size_t bytes)
{
    void *grown = sqlite3_realloc64(memory, bytes);
    if (!grown)
        abort();
    return grown;
}

void *take(size_t bytes)
{
    return memset(grow(NULL, bytes), 0, bytes);
}

/* ---- contents ---- */

static void page_release(struct page *page)
{
    if (page && --page->refs == 0)
        sqlite3_free(page);
}

static void content_release(struct content *c)
{
    for (size_t i = 0; i < c->count; i++)
        page_release(c->pages[i]);
    sqlite3_free(c->pages);
    *c = (struct content){ 0 };
}

static void content_reserve(struct content *c, size_t count)
{
    if (count > c->capacity) {
        size_t capacity = count < 16 ? 16 : 2 * count;
        c->pages = grow(c->pages, capacity * sizeof(struct page *));
        c->capacity = capacity;
    }
    while (c->count < count)
        c->pages[c->count++] = NULL;
}

static void content_copy(struct content *to, const struct content *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (from->pages[i])
            from->pages[i]->refs++;
    for (size_t i = 0; i < to->count; i++)
        page_release(to->pages[i]);
    to->count = 0;
    content_reserve(to, from->count);
    if (from->count > 0)
        memcpy(to->pages, from->pages, from->count * sizeof(*to->pages));
    to->size = from->size;
}

/* The page, for writing: nobody else's, and there. */
static struct page *content_page(struct content *c, size_t i)
{
    content_reserve(c, i + 1);
    struct page *old = c->pages[i];
    if (old && old->refs == 1)
        return old;
    struct page *page = grow(NULL, sizeof(*page));
    page->refs = 1;
    if (old)
        memcpy(page->bytes, old->bytes, PAGE_BYTES);
    else
        memset(page->bytes, 0, PAGE_BYTES);
    page_release(old);
    c->pages[i] = page;
    return page;
}

/* Bytes, or zeros where there are none. */
static void content_put(struct content *c, int64_t offset, const unsigned char *bytes,
                        size_t n)
{
    for (size_t done = 0; done < n;) {
        size_t at = (size_t)offset + done, inside = at % PAGE_BYTES;
        size_t part = PAGE_BYTES - inside < n - done ? PAGE_BYTES - inside : n - done;
        struct page *page = content_page(c, at / PAGE_BYTES);
        if (bytes)
            memcpy(page->bytes + inside, bytes + done, part);
        else
            memset(page->bytes + inside, 0, part);
        done += part;
    }
    if (offset + (int64_t)n > c->size)
        c->size = offset + (int64_t)n;
}

/* What is behind the end is gone, and reads as zeros should the file grow. */
static void content_resize(struct content *c, int64_t size)
{
    size_t pages = ((size_t)size + PAGE_BYTES - 1) / PAGE_BYTES;
    while (c->count > pages)
        page_release(c->pages[--c->count]);
    size_t inside = (size_t)size % PAGE_BYTES;
    if (size < c->size && inside != 0 && pages <= c->count && c->pages[pages - 1])
        memset(content_page(c, pages - 1)->bytes + inside, 0, PAGE_BYTES - inside);
    content_reserve(c, pages);
    c->size = size;
}

void content_read(const struct content *c, int64_t offset, void *to, size_t n)
{
    unsigned char *out = to;
    for (size_t done = 0; done < n;) {
        size_t at = (size_t)offset + done, inside = at % PAGE_BYTES;
        size_t part = PAGE_BYTES - inside < n - done ? PAGE_BYTES - inside : n - done;
        size_t i = at / PAGE_BYTES;
        if (i < c->count && c->pages[i])
            memcpy(out + done, c->pages[i]->bytes + inside, part);
        else
            memset(out + done, 0, part);
        done += part;
    }
}

static bool content_same(const struct content *a, const struct content *b)
{
    unsigned char x[PAGE_BYTES], y[PAGE_BYTES];
    if (a->size != b->size)
        return false;
    for (int64_t at = 0; at < a->size; at += PAGE_BYTES) {
        size_t n = a->size - at < PAGE_BYTES ? (size_t)(a->size - at) : PAGE_BYTES;
        content_read(a, at, x, n);
        content_read(b, at, y, n);
        if (memcmp(x, y, n) != 0)
            return false;
    }
    return true;
}

/* ---- lists ---- */

static void list_add(struct change_list *list, const struct change *change)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->list = grow(list->list, list->capacity * sizeof(struct change *));
    }
    list->list[list->count++] = change;
}

static void list_release(struct change_list *list)
{
    sqlite3_free(list->list);
    *list = (struct change_list){ 0 };
}

static void directory_add(struct directory *d, int file)
{
    assert(d->count < (int)array_len(d->files));
    d->files[d->count++] = file;
}

static void directory_remove(struct directory *d, int file)
{
    for (int i = 0; i < d->count; i++)
        if (d->files[i] == file)
            d->files[i] = d->files[--d->count];
}

/* ---- files ---- */

static struct file *file_new(struct crash_disk *disk, const char *name)
{
    struct file *file = take(sizeof(struct file));
    file->id = disk->file_count;
    size_t n = strlen(name) + 1;
    file->name = memcpy(take(n), name, n);
    if (disk->file_count == disk->file_capacity) {
        disk->file_capacity = disk->file_capacity ? 2 * disk->file_capacity : 8;
        disk->files =
            grow(disk->files, (size_t)disk->file_capacity * sizeof(struct file *));
    }
    disk->files[disk->file_count++] = file;
    return file;
}

static void file_free(struct file *file)
{
    assert(file->handles == 0 && file->shm_users == 0);
    content_release(&file->now);
    content_release(&file->synced);
    list_release(&file->pending);
    sqlite3_free(file->name);
    sqlite3_free(file);
}

static void clear(struct crash_disk *disk)
{
    for (int i = 0; i < disk->file_count; i++)
        file_free(disk->files[i]);
    disk->file_count = 0;
    disk->now = disk->synced = (struct directory){ 0 };
    disk->pending.count = 0;
}

struct file *disk_find(const struct crash_disk *disk, const char *name)
{
    for (int i = 0; i < disk->now.count; i++)
        if (strcmp(disk->files[disk->now.files[i]]->name, name) == 0)
            return disk->files[disk->now.files[i]];
    return NULL;
}

/* ---- cuts ---- */

/* How many of `count` changes this sector (or size, or directory) has seen.  Each
 * seed has a temper, so that losing nearly nothing and nearly everything both
 * come up, and a single torn write. */
static size_t seen(uint64_t seed, uint64_t what, size_t count)
{
    uint64_t h = hash64_int(seed, what), temper = hash64_int(seed, UINT64_MAX) % 4;
    if (temper == 0)
        return h % 8 == 0 ? (h >> 8) % (count + 1) : count;
    if (temper == 1)
        return h % 8 == 0 ? (h >> 8) % (count + 1) : 0;
    if (temper == 2)
        return (h >> 8) % (count + 1);
    return count > 0 && h % 2 ? count - 1 : count;
}

static uint64_t sector_key(const struct file *file, uint64_t sector)
{
    return (uint64_t)file->id << 40 | sector;
}

/* Applies change `index` to those sectors in [from, to) that have seen it. */
static void mix_range(struct content *mixed, const struct file *file, uint64_t seed,
                      size_t index, const unsigned char *bytes, int64_t from, int64_t to)
{
    for (int64_t at = from; at < to;) {
        int64_t end = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        if (end > to)
            end = to;
        if (index < seen(seed, sector_key(file, (uint64_t)(at / SECTOR_BYTES)),
                         file->pending.count))
            content_put(mixed, at, bytes ? bytes + (at - from) : NULL,
                        (size_t)(end - at));
        at = end;
    }
}

static void mix(struct content *mixed, const struct file *file, uint64_t seed)
{
    const struct change_list *pending = &file->pending;
    size_t sized = seen(seed, sector_key(file, UINT64_C(1) << 39), pending->count);
    int64_t size = file->synced.size, final_size = size;
    content_copy(mixed, &file->synced);
    for (size_t i = 0; i < pending->count; i++) {
        const struct change *c = pending->list[i];
        int64_t end = c->offset + (int64_t)c->n;
        if (c->type == CHANGE_WRITE) {
            mix_range(mixed, file, seed, i, c->data, c->offset, end);
            size = end > size ? end : size;
        } else {
            mix_range(mixed, file, seed, i, NULL, c->offset, mixed->size);
            size = c->offset;
        }
        if (i < sized)
            final_size = size;
    }
    content_resize(mixed, final_size);
}

static void cut_content(struct content *to, const struct file *file, enum crash_loss loss,
                        uint64_t seed)
{
    if (loss == CRASH_MIX)
        mix(to, file, seed);
    else
        content_copy(to, loss == CRASH_KEEP ? &file->now : &file->synced);
}

static struct directory cut_directory(const struct crash_disk *disk, enum crash_loss loss,
                                      uint64_t seed)
{
    struct directory d = disk->synced;
    if (loss == CRASH_KEEP)
        return disk->now;
    size_t count =
        loss == CRASH_MIX ? seen(seed, UINT64_MAX - 1, disk->pending.count) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct change *c = disk->pending.list[i];
        if (c->type == CHANGE_CREATE)
            directory_add(&d, c->file);
        else
            directory_remove(&d, c->file);
    }
    return d;
}

/* The same in place: what the cut leaves is safe from then on. */
static void restart(struct crash_disk *disk, enum crash_loss loss, uint64_t seed)
{
    if (loss == CRASH_KEEP)
        return; /* not synced by that */
    disk->now = disk->synced = cut_directory(disk, loss, seed);
    disk->pending.count = 0;
    for (int i = 0; i < disk->file_count; i++) {
        struct file *file = disk->files[i];
        struct content left = { 0 };
        assert(file->handles == 0);
        cut_content(&left, file, loss, seed);
        content_copy(&file->now, &left);
        content_copy(&file->synced, &left);
        content_release(&left);
        file->pending.count = 0;
    }
}

void crash_disk_cut(const struct crash_disk *disk, enum crash_loss loss, uint64_t seed,
                    struct crash_disk *to)
{
    struct directory d = cut_directory(disk, loss, seed);
    assert(disk->tracks || loss == CRASH_KEEP);
    assert(to->changes.count == 0); /* they would make no sense any more */
    clear(to);
    to->stop_after = SIZE_MAX;
    for (int i = 0; i < d.count; i++) {
        const struct file *file = disk->files[d.files[i]];
        struct file *copy = file_new(to, file->name);
        directory_add(&to->now, copy->id);
        cut_content(&copy->now, file, loss, seed);
        if (to->tracks)
            content_copy(&copy->synced, &copy->now);
    }
    to->synced = to->now;
}

bool crash_disk_same(const struct crash_disk *a, const struct crash_disk *b)
{
    if (a->now.count != b->now.count)
        return false;
    for (int i = 0; i < a->now.count; i++) {
        const struct file *file = a->files[a->now.files[i]];
        const struct file *other = disk_find(b, file->name);
        if (!other || !content_same(&file->now, &other->now))
            return false;
    }
    return true;
}

/* ---- changes ---- */

/* A file's change that stays unsafe until its next sync. */
static void await_sync(struct crash_disk *disk, struct file *file, const struct change *c)
{
    if (disk->tracks)
        list_add(&file->pending, c);
}

/* What was written is safe.  A log has thousands of pages, and few are new. */
static void sync_content(struct file *file)
{
    struct content *now = &file->now, *synced = &file->synced;
    for (size_t k = 0; k < file->pending.count; k++) {
        const struct change *c = file->pending.list[k];
        if (c->type != CHANGE_WRITE) {
            content_copy(synced, now);
            return;
        }
        size_t end = ((size_t)c->offset + c->n + PAGE_BYTES - 1) / PAGE_BYTES;
        content_reserve(synced, end);
        for (size_t i = (size_t)c->offset / PAGE_BYTES; i < end; i++) {
            if (now->pages[i])
                now->pages[i]->refs++;
            page_release(synced->pages[i]);
            synced->pages[i] = now->pages[i];
        }
    }
    synced->size = now->size;
}

static void sync_directory(struct crash_disk *disk)
{
    disk->synced = disk->now;
    disk->pending.count = 0;
}

static void apply(struct crash_disk *disk, const struct change *c)
{
    struct file *file = c->type < CHANGE_RESTART && c->type != CHANGE_CREATE
                            ? disk->files[c->file]
                            : NULL;
    switch (c->type) {
    case CHANGE_CREATE:
        file = file_new(disk, (const char *)c->data);
        assert(!disk->record || file->id == c->file);
        directory_add(&disk->now, file->id);
        break;
    case CHANGE_DELETE:
        directory_remove(&disk->now, c->file);
        break;
    case CHANGE_WRITE:
        content_put(&file->now, c->offset, c->data, c->n);
        await_sync(disk, file, c);
        break;
    case CHANGE_TRUNCATE:
        content_resize(&file->now, c->offset);
        await_sync(disk, file, c);
        break;
    case CHANGE_SYNC:
        if (disk->tracks)
            sync_content(file);
        file->pending.count = 0;
        break;
    case CHANGE_RESTART:
        restart(disk, c->loss, c->seed);
        break;
    }
    if (disk->tracks && (c->type == CHANGE_CREATE || c->type == CHANGE_DELETE))
        list_add(&disk->pending, c);
    if (c->directory)
        sync_directory(disk);
    disk->made++;
    disk->version += c->type != CHANGE_SYNC;
    disk->synced_version +=
        c->type == CHANGE_SYNC || c->type == CHANGE_RESTART || c->directory;
}

/* Makes a change that has come from SQLite, and keeps it if this disk records. */
static void make(struct crash_disk *disk, const struct change *how, const void *data)
{
    size_t bytes = how->type == CHANGE_WRITE || how->type == CHANGE_CREATE ? how->n : 0;
    struct change *c = grow(NULL, sizeof(*c) + bytes);
    *c = *how;
    if (bytes > 0)
        memcpy(c->data, data, bytes);
    c->at = disk->clock ? *disk->clock : 0;
    apply(disk, c);
    if (disk->record)
        list_add(&disk->changes, c);
    else
        sqlite3_free(c);
}

struct file *disk_create(struct crash_disk *disk, const char *name)
{
    make(disk,
         &(struct change){
             .type = CHANGE_CREATE, .file = disk->file_count, .n = strlen(name) + 1 },
         name);
    return disk_find(disk, name);
}

void disk_delete(struct crash_disk *disk, struct file *file, bool directory)
{
    make(disk,
         &(struct change){
             .type = CHANGE_DELETE, .file = file->id, .directory = directory },
         NULL);
}

void disk_write(struct crash_disk *disk, struct file *file, int64_t offset,
                const void *bytes, size_t n)
{
    make(disk,
         &(struct change){
             .type = CHANGE_WRITE, .file = file->id, .offset = offset, .n = n },
         bytes);
}

void disk_truncate(struct crash_disk *disk, struct file *file, int64_t size)
{
    make(disk,
         &(struct change){ .type = CHANGE_TRUNCATE, .file = file->id, .offset = size },
         NULL);
}

void disk_sync(struct crash_disk *disk, struct file *file, bool directory)
{
    make(
        disk,
        &(struct change){ .type = CHANGE_SYNC, .file = file->id, .directory = directory },
        NULL);
}

/* ---- the disk ---- */

struct crash_disk *crash_disk_new(const char *name, bool record, const int64_t *clock)
{
    struct crash_disk *disk = take(sizeof(struct crash_disk));
    disk->name = name;
    disk->record = disk->tracks = record;
    disk->clock = clock;
    disk->stop_after = SIZE_MAX;
    vfs_register(disk);
    return disk;
}

static void free_changes(struct crash_disk *disk)
{
    for (size_t i = 0; i < disk->changes.count; i++)
        sqlite3_free((void *)disk->changes.list[i]);
    disk->changes.count = 0;
}

bool crash_disk_is_safe(const struct crash_disk *disk)
{
    bool pending = disk->pending.count > 0;
    for (int i = 0; i < disk->file_count; i++)
        pending = pending || disk->files[i]->pending.count > 0;
    return !pending;
}

void crash_disk_forget(struct crash_disk *disk)
{
    if (crash_disk_is_safe(disk))
        free_changes(disk);
}

void crash_disk_free(struct crash_disk *disk)
{
    if (!disk)
        return;
    sqlite3_vfs_unregister(&disk->vfs);
    clear(disk);
    free_changes(disk);
    list_release(&disk->changes);
    list_release(&disk->pending);
    sqlite3_free(disk->files);
    sqlite3_free(disk);
}

void crash_disk_stop_after(struct crash_disk *disk, size_t n)
{
    disk->stop_after = n;
}

bool crash_disk_stopped(const struct crash_disk *disk)
{
    return disk->made >= disk->stop_after;
}

void crash_disk_restart(struct crash_disk *disk, enum crash_loss loss, uint64_t seed)
{
    disk->stop_after = SIZE_MAX;
    make(disk, &(struct change){ .type = CHANGE_RESTART, .loss = loss, .seed = seed },
         NULL);
}

size_t crash_disk_changes(const struct crash_disk *disk)
{
    return disk->made;
}

static const struct change *change_at(const struct crash_disk *disk, size_t n)
{
    assert(n >= 1 && n <= disk->changes.count);
    return disk->changes.list[n - 1];
}

int64_t crash_disk_time(const struct crash_disk *disk, size_t n)
{
    return change_at(disk, n)->at;
}

bool crash_disk_is_sync(const struct crash_disk *disk, size_t n)
{
    enum change_type type = change_at(disk, n)->type;
    return type == CHANGE_SYNC || type == CHANGE_RESTART;
}

void crash_disk_replay(struct crash_disk *disk, const struct crash_disk *recorded,
                       size_t n)
{
    assert(!disk->record && disk->made == n - 1);
    disk->tracks = true;
    apply(disk, change_at(recorded, n));
}

uint64_t crash_disk_version(const struct crash_disk *disk, enum crash_loss loss)
{
    return loss == CRASH_LOSE ? disk->synced_version : disk->version;
}
