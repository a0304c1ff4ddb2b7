/* SPDX-License-Identifier: Apache-2.0
 *
 * command_record.c -- the folder of a run: who may start it, what became of it. */
#include "command_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/json_write.h"

enum {
    START_BYTES_MAX = 4096,
    EXIT_BYTES_MAX = LIMIT_RESULT_BYTES + (64 << 10),
    NAME_BYTES = 32,
    DELETE_TRIES = 100
};

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static const char *id_text(int64_t job_id, char out[NAME_BYTES])
{
    assert(job_id > 0);
    snprintf(out, NAME_BYTES, "%" PRId64, job_id);
    return out;
}

/* ---- the folder of all ---- */

int command_records_open(const char *state_dir, bool make, struct error *error)
{
    char path[LIMIT_PATH_BYTES];
    int n = snprintf(path, sizeof(path), "%s/runs", state_dir);

    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(error, -HF_INVALID, "state_dir",
                         "the path of state_dir is too long");
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(error, status_of_errno(errno), "state_dir", "cannot make %s: %m",
                         path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, errno == ENOENT ? -HF_NOT_FOUND : status_of_errno(errno),
                         "state_dir", "cannot open %s: %m", path);
    return fd;
}

/* An id, or 0 for a name that is none. */
static int64_t id_of_name(const char *name)
{
    int64_t id = 0;

    for (const char *p = name; *p; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(id, 10, &id) ||
            __builtin_add_overflow(id, *p - '0', &id))
            return 0;
    return name[0] == '0' ? 0 : id;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static DIR *walk(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *walk = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !walk)
        close(fd);
    return walk;
}

int command_records_list(int records, struct arena *arena, struct error *error,
                         int64_t **ret, size_t *ret_count)
{
    cleanup(close_dir) DIR *dir = walk(records);
    struct buf ids;
    struct dirent *entry;

    if (!dir)
        return error_set(error, -HF_SYSTEM, NULL, "cannot read the folder of runs: %m");
    buf_init(&ids, 256 << 20);
    while ((errno = 0, entry = readdir(dir)) != NULL) {
        int64_t id = id_of_name(entry->d_name);
        if (id > 0)
            buf_add(&ids, (struct slice){ (const char *)&id, sizeof(id) });
    }
    int number = errno;
    struct slice bytes;
    int r = buf_end(&ids, &bytes);
    int64_t *list = arena_alloc(arena, r < 0 ? 0 : bytes.n);
    if (r == 0 && list) {
        memcpy(list, bytes.p, bytes.n);
        qsort(list, bytes.n / sizeof(*list), sizeof(*list), compare_ids);
    }
    buf_release(&ids);
    if (number)
        return error_set(error, -HF_SYSTEM, NULL, "cannot read the folder of runs: %s",
                         strerrordesc_np(number));
    if (r < 0 || !list)
        return -HF_NOMEM;
    *ret = list;
    *ret_count = bytes.n / sizeof(*list);
    return 0;
}

/* ---- one record: made, opened, deleted ---- */

int command_record_open(int records, int64_t job_id, struct error *error)
{
    char name[NAME_BYTES];
    int fd = openat(records, id_text(job_id, name),
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0)
        return fd;
    return error_set(error, errno == ENOENT ? -HF_NOT_FOUND : -HF_SYSTEM, NULL,
                     "cannot open the record of job %s: %m", name);
}

int command_record_make(int records, int64_t job_id, struct error *error)
{
    char name[NAME_BYTES];

    if (mkdirat(records, id_text(job_id, name), 0700) < 0)
        return error_set(error, errno == EEXIST ? -HF_CONFLICT : status_of_errno(errno),
                         NULL, "cannot make the record of job %s: %m", name);
    cleanup(close_fd) int record = command_record_open(records, job_id, error);
    if (record < 0)
        return record;
    int ticket = openat(record, "ticket", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (ticket < 0) {
        int code = error_set(error, status_of_errno(errno), NULL,
                             "cannot make the record of job %s: %m", name);
        unlinkat(records, name, AT_REMOVEDIR);
        return code;
    }
    close(ticket);
    return 0;
}

static int remove_files(int record)
{
    cleanup(close_dir) DIR *dir = walk(record);
    struct dirent *entry;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(record, entry->d_name, 0) < 0 && errno != ENOENT)
            return -1;
    return 0;
}

int command_record_delete(int records, int64_t job_id, struct error *error)
{
    char name[NAME_BYTES];
    cleanup(close_fd) int record = command_record_open(records, job_id, NULL);

    if (record == -HF_NOT_FOUND)
        return 0;
    /* R3: from here on nobody can make a start record in it. */
    if (record >= 0 && (unlinkat(record, "ticket", 0) == 0 || errno == ENOENT))
        for (int i = 0; i < DELETE_TRIES; i++) {
            /* A supervisor that is about to give up may still write. */
            if (remove_files(record) < 0)
                break;
            if (unlinkat(records, id_text(job_id, name), AT_REMOVEDIR) == 0 ||
                errno == ENOENT)
                return 0;
            if (errno != ENOTEMPTY && errno != EEXIST)
                break;
        }
    return error_set(error, status_of_errno(errno), NULL,
                     "cannot delete the record of job %s: %m", id_text(job_id, name));
}

/* ---- files of a record ---- */

static bool write_all(int fd, struct slice bytes)
{
    while (bytes.n > 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes.p += n;
        bytes.n -= (size_t)n;
    }
    return true;
}

/* The name on disk of what was put, and of the folder itself. */
static bool flush_names(int record)
{
    cleanup(close_fd) int parent =
        openat(record, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fsync(record) == 0 && parent >= 0 && fsync(parent) == 0;
}

int command_record_put(int record, const char *name, struct slice bytes, bool flush)
{
    char new_name[NAME_BYTES];
    snprintf(new_name, sizeof(new_name), "%s.new", name);
    int fd = openat(record, new_name,
                    O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno == ENOENT ? -HF_NOT_FOUND : status_of_errno(errno);
    bool written = write_all(fd, bytes) && (!flush || fsync(fd) == 0);
    int number = errno;
    close(fd);
    if (!written)
        return status_of_errno(number);
    if (renameat(record, new_name, record, name) < 0)
        return errno == ENOENT ? -HF_NOT_FOUND : status_of_errno(errno);
    return !flush || flush_names(record) ? 0 : -HF_SYSTEM;
}

static int read_whole(int fd, size_t bytes_max, struct arena *arena, struct slice *ret)
{
    struct stat info;

    if (fstat(fd, &info) < 0)
        return -HF_SYSTEM;
    if (info.st_size > (off_t)bytes_max)
        return -HF_TOO_LARGE;
    char *bytes = arena_alloc(arena, (size_t)info.st_size + 1);
    if (!bytes)
        return -HF_NOMEM;
    size_t n = 0;
    while (n < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + n, (size_t)info.st_size - n);
        if (got < 0 && errno != EINTR)
            return -HF_SYSTEM;
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    *ret = (struct slice){ bytes, n };
    return 0;
}

int command_record_get(int record, const char *name, size_t bytes_max,
                       struct arena *arena, struct slice *ret)
{
    int fd = openat(record, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT ? -HF_NOT_FOUND : -HF_SYSTEM;
    int r = read_whole(fd, bytes_max, arena, ret);
    close(fd);
    return r;
}

/* ---- the start record ---- */

static void write_start(const struct command_start *start, struct buf *buf)
{
    struct json_writer w = json_writer(buf);

    json_begin_object(&w);
    json_put_int(&w, "pid", start->supervisor.pid);
    json_put_int(&w, "startTicks", start->supervisor.start_ticks);
    json_put_text(&w, "bootId", start->supervisor.boot_id);
    json_put_int(&w, "pidNs", start->supervisor.pid_ns);
    json_put_int(&w, "commandPid", start->pid);
    json_put_int(&w, "commandStartTicks", start->start_ticks);
    json_put_int(&w, "startedUs", start->started_us);
    json_put_int(&w, "startedBootUs", start->started_boot_us);
    json_put_int(&w, "leaseMs", start->lease_ms);
    json_end_object(&w);
    json_finish(&w);
}

static int parse_start(struct slice text, struct arena *arena, struct command_start *ret)
{
    struct command_start start = { 0 };
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {
        { "pid", &start.supervisor.pid },
        { "startTicks", &start.supervisor.start_ticks },
        { "pidNs", &start.supervisor.pid_ns },
        { "commandPid", &start.pid },
        { "commandStartTicks", &start.start_ticks },
        { "startedUs", &start.started_us },
        { "startedBootUs", &start.started_boot_us },
        { "leaseMs", &start.lease_ms },
    };
    struct slice boot;

    if (json_check(text, LIMIT_JSON_DEPTH, NULL) < 0 ||
        json_kind_of(text) != JSON_KIND_OBJECT)
        return -HF_INVALID;
    for (size_t i = 0; i < array_len(numbers); i++) {
        struct slice raw = json_find(text, slice_of(numbers[i].name));
        if (!raw.p ||
            json_get_int(raw, numbers[i].name, 0, INT64_MAX, NULL, numbers[i].value) < 0)
            return -HF_INVALID;
    }
    struct slice raw = json_find(text, SLICE("bootId"));
    if (!raw.p ||
        json_get_text(raw, "bootId", HOST_BOOT_BYTES - 1, arena, NULL, &boot) < 0)
        return -HF_INVALID;
    memcpy(start.supervisor.boot_id, boot.p, boot.n);
    *ret = start;
    return 0;
}

int command_record_claim(int record, const struct command_start *start,
                         struct error *error, int *ret_ticket)
{
    static const char gone[] = "the run was given up before it started";
    struct slice text;
    struct buf buf;

    /* Never created here: without it there is nothing to claim (R3). */
    int ticket = openat(record, "ticket", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (ticket < 0)
        return error_set(error, errno == ENOENT ? -HF_CONFLICT : -HF_SYSTEM, NULL, gone);
    buf_init(&buf, START_BYTES_MAX);
    write_start(start, &buf);
    int r = buf_end(&buf, &text);
    if (r == 0 && (flock(ticket, LOCK_EX) < 0 || !write_all(ticket, text)))
        r = error_set(error, status_of_errno(errno), NULL,
                      "the start record cannot be written: %m");
    if (r == 0 && linkat(record, "ticket", record, "start", 0) < 0)
        r = error_set(error,
                      errno == EEXIST || errno == ENOENT ? -HF_CONFLICT
                                                         : status_of_errno(errno),
                      NULL, gone);
    buf_release(&buf);
    if (r < 0)
        close(ticket);
    else
        *ret_ticket = ticket;
    return r;
}

int command_record_void(int record, struct error *error)
{
    int fd = openat(record, "start", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    if (fd < 0)
        return error_set(error, errno == EEXIST ? -HF_CONFLICT : status_of_errno(errno),
                         NULL, "the run cannot be voided: %m");
    close(fd);
    return 0;
}

/* ---- what it says ---- */

/* R5. */
static bool supervisor_alive(int record, const struct command_start *start,
                             const struct host *self)
{
    if (host_same_place(&start->supervisor, self))
        return host_process_alive(start->supervisor.pid, start->supervisor.start_ticks);
    if (strcmp(start->supervisor.boot_id, self->boot_id) != 0)
        return false;
    cleanup(close_fd) int fd = openat(record, "start", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static void set_lost(struct command_outcome *outcome, const char *sentence)
{
    *outcome = (struct command_outcome){ .end = COMMAND_LOST,
                                         .error = slice_of(sentence),
                                         .progress = { .percent = -1 } };
}

/* True if there is an exit record; `outcome` says what is in it. */
static bool read_exit(int record, struct arena *arena, struct command_outcome *outcome)
{
    struct slice text;

    if (command_record_get(record, "exit", EXIT_BYTES_MAX, arena, &text) < 0)
        return false;
    if (command_outcome_read(text, arena, NULL, outcome) < 0)
        set_lost(outcome, "The command has ended, but its exit record cannot be read.");
    return true;
}

int command_record_read(int record, const struct host *self, struct arena *arena,
                        struct error *error, enum command_state *ret_state,
                        struct command_start *ret_start,
                        struct command_outcome *ret_outcome)
{
    struct slice text;

    *ret_start = (struct command_start){ 0 };
    *ret_outcome = (struct command_outcome){ 0 };
    *ret_state = COMMAND_ENDED;
    if (read_exit(record, arena, ret_outcome))
        return arena_end(arena);
    int r = command_record_get(record, "start", START_BYTES_MAX, arena, &text);
    if (r == -HF_NOT_FOUND) {
        *ret_state = COMMAND_PREPARED;
        return 0;
    }
    if (r < 0 && r != -HF_TOO_LARGE)
        return error_set(error, r, NULL, "a start record cannot be read: %m");
    if (r < 0 || parse_start(text, arena, ret_start) < 0) {
        if (arena_end(arena) < 0)
            return -HF_NOMEM;
        *ret_state = COMMAND_DEAD; /* R2 */
        set_lost(ret_outcome, "The command had not been started when its scheduler "
                              "stopped.");
        return 0;
    }
    if (supervisor_alive(record, ret_start, self)) {
        *ret_state = COMMAND_ALIVE;
        return 0;
    }
    if (read_exit(record, arena, ret_outcome)) /* written in between */
        return arena_end(arena);
    *ret_state = COMMAND_DEAD;
    set_lost(ret_outcome, "The command is gone without a trace, and its supervisor too: "
                          "they were killed, or the machine was restarted.");
    ret_outcome->started_us = ret_start->started_us;
    return 0;
}

/* True if a process of the run's own group lives.  Its session has the number of
 * the supervisor: another group that was given the same number by chance has
 * another session. */
static bool group_is_ours(const struct command_start *start)
{
    cleanup(close_dir) DIR *dir = opendir("/proc");
    struct dirent *entry;
    struct host_stat stat;

    while (dir && (entry = readdir(dir)) != NULL) {
        int64_t pid = id_of_name(entry->d_name);
        if (pid > 0 && host_read_stat(pid, &stat) == 0 && stat.group == start->pid &&
            stat.session == start->supervisor.pid &&
            stat.start_ticks >= start->start_ticks)
            return true;
    }
    return false;
}

void command_record_bury(const struct command_start *start, const struct host *self)
{
    if (start->pid > 1 && host_same_place(&start->supervisor, self) &&
        group_is_ours(start))
        kill((pid_t)-start->pid, SIGKILL);
}

int command_record_settle(int record, const struct host *self, struct arena *arena,
                          struct error *error, enum command_state *ret_state,
                          struct command_start *ret_start,
                          struct command_outcome *ret_outcome)
{
    int r = command_record_read(record, self, arena, error, ret_state, ret_start,
                                ret_outcome);

    if (r == 0 && *ret_state == COMMAND_PREPARED) {
        struct error why = { 0 };
        r = command_record_void(record, &why);
        if (r < 0 && r != -HF_CONFLICT) /* the supervisor may have been first */
            return error_set(error, r, NULL, "%s", why.text);
        r = command_record_read(record, self, arena, error, ret_state, ret_start,
                                ret_outcome);
    }
    if (r == 0 && *ret_state == COMMAND_DEAD)
        command_record_bury(ret_start, self);
    return r;
}
