/* SPDX-License-Identifier: Apache-2.0
 *
 * lockfile.c -- flock() on a file beside the database. */
#include "lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct lockfile {
    int fd;     /* -1 until it is open */
    char *path; /* resolved */
};

/* How often someone may replace the file under our hands before we give up. */
enum { TRIES = 10, HOLDER_BYTES = 128 };

static void free_text(char **text)
{
    free(*text);
}

/* `database` without symbolic links; of one that does not exist yet, its
 * folder without them.  NULL with errno. */
static char *resolve(const char *database)
{
    char *path = realpath(database, NULL);
    struct stat st;

    if (path || errno != ENOENT)
        return path;
    /* SQLite would create what a dangling link points to, and from then on the
     * database would have another path, and another lock. */
    if (lstat(database, &st) == 0) {
        errno = ELOOP;
        return NULL;
    }
    const char *slash = strrchr(database, '/');
    const char *name = slash ? slash + 1 : database;
    cleanup(free_text) char *folder =
        slash ? strndup(database, (size_t)(slash - database) + 1) : strdup(".");
    cleanup(free_text) char *real = folder ? realpath(folder, NULL) : NULL;
    if (!real)
        return NULL;
    return asprintf(&path, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0 ? NULL
                                                                                  : path;
}

/* Says who holds it, from what they wrote. */
static int say_locked(const struct lockfile *lock, const char *database,
                      struct error *error)
{
    char text[HOLDER_BYTES + 1] = "";
    ssize_t n = pread(lock->fd, text, HOLDER_BYTES, 0);

    assert(n <= HOLDER_BYTES);
    text[strcspn(text, "\r\n")] = '\0';
    if (n <= 0 || text[0] == '\0')
        snprintf(text, sizeof(text), "a process that has not signed yet");
    return error_set(error, -HF_LOCKED, NULL,
                     "another scheduler has %s open: %s (it holds %s); stop that one, or "
                     "give this one a database of its own",
                     database, text, lock->path);
}

/* Signs the file.  A full disk is no reason to refuse: the lock is held, and
 * the text is for a sentence only. */
static void sign(const struct lockfile *lock, const struct host *self)
{
    char text[HOLDER_BYTES];
    int n = snprintf(text, sizeof(text), "process %" PRId64 " on %s\n", self->pid,
                     self->name);

    assert(n > 0 && (size_t)n < sizeof(text));
    if (ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, text, (size_t)n, 0) != n)
        (void)!ftruncate(lock->fd, 0);
}

/* Opens and locks.  1: it is ours; 0: another has it; -1 with errno. */
static int open_and_lock(struct lockfile *lock)
{
    assert(lock->fd < 0);
    lock->fd =
        open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
    if (lock->fd < 0)
        return -1;
    while (flock(lock->fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
    return 1;
}

static int take(struct lockfile *lock, const char *database, const struct host *self,
                struct error *error)
{
    for (int try = 0; try < TRIES; try++) {
        int got = open_and_lock(lock);
        if (got < 0)
            return error_set(error, status_of_errno(errno), NULL, "cannot lock %s: %m",
                             lock->path);
        if (got == 0)
            return say_locked(lock, database, error);
        if (lockfile_intact(lock)) {
            sign(lock, self);
            return 0;
        }
        /* Replaced between our open and our lock: what we hold is nobody's. */
        close(lock->fd);
        lock->fd = -1;
    }
    return error_set(error, -HF_SYSTEM, NULL, "%s is replaced again and again",
                     lock->path);
}

int lockfile_take(const char *database, const struct host *self, struct error *error,
                  struct lockfile **ret)
{
    assert(database && self && ret);

    cleanup(free_text) char *real = resolve(database);
    if (!real)
        return error_set(error, status_of_errno(errno), NULL, "cannot lock %s: %s%m",
                         database,
                         errno == ELOOP ? "it is a symbolic link to nothing: " : "");
    struct lockfile *lock = new (struct lockfile);
    if (!lock)
        return error_set(error, -HF_NOMEM, NULL, "no memory to lock %s", database);
    lock->fd = -1;
    int r = asprintf(&lock->path, "%s-lock", real);
    if (r < 0) {
        lock->path = NULL;
        r = error_set(error, -HF_NOMEM, NULL, "no memory to lock %s", database);
    } else {
        r = take(lock, database, self, error);
    }
    if (r < 0) {
        lockfile_free(lock);
        return r;
    }
    *ret = lock;
    return 0;
}

void lockfile_free(struct lockfile *lock)
{
    if (!lock)
        return;
    if (lock->fd >= 0)
        close(lock->fd); /* which is what releases it */
    free(lock->path);
    free(lock);
}

bool lockfile_intact(const struct lockfile *lock)
{
    struct stat ours, there;

    assert(lock->fd >= 0 && lock->path);
    return fstat(lock->fd, &ours) == 0 && lstat(lock->path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

const char *lockfile_path(const struct lockfile *lock)
{
    assert(lock->path);
    return lock->path;
}
