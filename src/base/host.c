/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c -- reads /proc, and believes it only where it can be checked. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A stat line has 52 numbers and a name of at most 64 bytes. */
enum { STAT_LINE_BYTES = 2048 };

/* Reads a small file of /proc whole; the number of bytes, or -1. */
static ssize_t read_file(const char *path, char *out, size_t room)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert(room > 0);
    if (fd < 0)
        return -1;
    while (n < room) {
        ssize_t got = read(fd, out + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    assert(n <= room);
    return (ssize_t)n;
}

/* The next word of digits; false if there is none. */
static bool take_number(struct slice *rest, int64_t *ret)
{
    int64_t value = 0;
    bool negative = false, any = false;

    while (rest->n > 0 && rest->p[0] == ' ')
        rest->p++, rest->n--;
    if (rest->n > 0 && rest->p[0] == '-') {
        negative = true;
        rest->p++, rest->n--;
    }
    while (rest->n > 0 && rest->p[0] >= '0' && rest->p[0] <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, rest->p[0] - '0', &value))
            return false;
        any = true;
        rest->p++, rest->n--;
    }
    *ret = negative ? -value : value;
    return any;
}

int host_parse_stat(struct slice line, struct host_stat *ret)
{
    enum {
        FIELD_STATE = 3,
        FIELD_GROUP = 5,
        FIELD_SESSION = 6,
        FIELD_THREADS = 20,
        FIELD_START = 22
    };
    struct host_stat stat = { 0 };
    size_t name_end = line.n;

    assert(ret);
    if (!take_number(&line, &stat.pid))
        return -HF_INVALID;
    /* The name stands in parentheses and may hold some; the last one ends it. */
    name_end = line.n;
    while (name_end > 0 && line.p[name_end - 1] != ')')
        name_end--;
    if (line.n < 2 || line.p[1] != '(' || name_end < 3 || line.n - name_end < 2)
        return -HF_INVALID;
    stat.state = line.p[name_end + 1];

    struct slice rest = { line.p + name_end + 2, line.n - name_end - 2 };
    for (int field = FIELD_STATE + 1; field <= FIELD_START; field++) {
        int64_t value;
        if (!take_number(&rest, &value))
            return -HF_INVALID;
        if (field == FIELD_GROUP)
            stat.group = value;
        if (field == FIELD_SESSION)
            stat.session = value;
        if (field == FIELD_THREADS)
            stat.threads = value;
        if (field == FIELD_START)
            stat.start_ticks = value;
    }
    *ret = stat;
    return 0;
}

/* `who` is a pid, or "self". */
static int read_stat(const char *who, struct host_stat *ret)
{
    char path[64], line[STAT_LINE_BYTES];

    int length = snprintf(path, sizeof(path), "/proc/%s/stat", who);
    assert(length > 0 && (size_t)length < sizeof(path));
    ssize_t n = read_file(path, line, sizeof(line));
    if (n < 0)
        return -HF_SYSTEM;
    return host_parse_stat((struct slice){ line, (size_t)n }, ret);
}

int host_identify(struct host *ret, struct error *error)
{
    struct host host = { .pid = getpid() };
    struct host_stat self;
    struct stat ns;
    const char *boot = "/proc/sys/kernel/random/boot_id";

    assert(ret);
    if (gethostname(host.name, sizeof(host.name) - 1) < 0)
        return error_set(error, -HF_SYSTEM, NULL, "cannot read the host's name: %m");
    if (read_file(boot, host.boot_id, sizeof(host.boot_id) - 1) != HOST_BOOT_BYTES - 1)
        return error_set(error, -HF_SYSTEM, NULL, "cannot read %s: %m", boot);
    if (read_stat("self", &self) < 0)
        return error_set(error, -HF_SYSTEM, NULL, "cannot read /proc/self/stat: %m");
    if (self.pid != host.pid)
        return error_set(error, -HF_SYSTEM, NULL,
                         "/proc belongs to another pid namespace: it calls this process "
                         "%" PRId64 ", the kernel calls it %" PRId64,
                         self.pid, host.pid);
    if (stat("/proc/self/ns/pid", &ns) < 0)
        return error_set(error, -HF_SYSTEM, NULL, "cannot read /proc/self/ns/pid: %m");
    host.start_ticks = self.start_ticks;
    host.pid_ns = (int64_t)ns.st_ino;
    *ret = host;
    return 0;
}

bool host_same_place(const struct host *a, const struct host *b)
{
    assert(a && b);
    /* Two unknown boots are not the same boot. */
    return a->boot_id[0] && strcmp(a->boot_id, b->boot_id) == 0 && a->pid_ns == b->pid_ns;
}

bool host_process_alive(int64_t pid, int64_t start_ticks)
{
    struct host_stat self, stat;
    char who[24];

    if (pid <= 0 || pid > INT32_MAX)
        return false; /* the kernel has no such pid */
    if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
        return false;
    /* There is a process.  That it is another one must be read off a /proc
     * that is ours; where it is hidden or foreign, nothing is certain. */
    snprintf(who, sizeof(who), "%" PRId64, pid);
    if (read_stat("self", &self) < 0 || self.pid != getpid() || read_stat(who, &stat) < 0)
        return true;
    /* A leader that ended before its threads shows as 'Z' while they run. */
    bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
    return stat.start_ticks == start_ticks && !ended;
}

int host_read_stat(int64_t pid, struct host_stat *ret)
{
    char who[24];

    snprintf(who, sizeof(who), "%" PRId64, pid);
    return pid > 0 && read_stat(who, ret) == 0 ? 0 : -HF_NOT_FOUND;
}
