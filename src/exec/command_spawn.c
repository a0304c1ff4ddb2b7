/* SPDX-License-Identifier: Apache-2.0
 *
 * command_spawn.c -- a supervisor with its order, its payload and nothing else. */
#include "command_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "supervisor.h"

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* A file without a name that holds `bytes`; for reading, at its beginning. */
static int hidden_file(const char *name, struct slice bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;

    while (fd >= 0 && done < bytes.n) {
        ssize_t n = pwrite(fd, bytes.p + done, bytes.n - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    if (fd >= 0)
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    return fd;
}

/* A session of its own, every signal as it is by default, those it listens to
 * blocked until it does. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t all, listens;

    sigfillset(&all);
    supervisor_signals(&listens);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &listens);
    return posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

/* The supervisor's pid, or a negative errno. */
static pid_t spawn(const char *const *supervisor, const char *record, int payload,
                   int order)
{
    enum { WORDS_MAX = 8 };
    const char *argv[WORDS_MAX + 2];
    size_t n = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid;

    for (; supervisor[n]; n++) {
        assert(n < WORDS_MAX);
        argv[n] = supervisor[n];
    }
    argv[n++] = record;
    argv[n] = NULL;
    if (posix_spawnattr_init(&attributes) != 0)
        return -ENOMEM;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        posix_spawnattr_destroy(&attributes);
        return -ENOMEM;
    }
    int failed = set_attributes(&attributes);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, payload, STDIN_FILENO);
    for (int fd = STDOUT_FILENO; !failed && fd <= STDERR_FILENO; fd++)
        failed = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, order, SUPERVISOR_ORDER_FD);
    if (!failed)
        failed = posix_spawn(&pid, argv[0], &actions, &attributes, (char *const *)argv,
                             environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed ? -failed : pid;
}

/* The order as a file. */
static int order_file(const struct command_order *order, struct error *error)
{
    struct buf buf;
    struct slice text;

    buf_init(&buf, LIMIT_COMMAND_ORDER_BYTES);
    command_order_write(order, &buf);
    int r = buf_end(&buf, &text);
    if (r == -HF_TOO_LARGE)
        error_set(error, r, NULL,
                  "the command's arguments and environment have more than %d bytes",
                  LIMIT_COMMAND_ORDER_BYTES);
    if (r == 0 && (r = hidden_file("order", text)) < 0)
        r = error_set(error, status_of_errno(errno), NULL, "no descriptor: %m");
    buf_release(&buf);
    return r;
}

int command_spawn(const char *const *supervisor, const char *record,
                  const struct command_order *order, struct slice payload,
                  struct error *error, pid_t *ret)
{
    cleanup(close_fd) int text = order_file(order, error);
    if (text < 0)
        return text;
    cleanup(close_fd) int input = hidden_file("payload", payload);
    if (input < 0)
        return error_set(error, status_of_errno(errno), NULL, "no descriptor: %m");
    pid_t pid = spawn(supervisor, record, input, text);
    if (pid < 0)
        return error_set(error, status_of_errno(-pid), NULL,
                         "cannot start the supervisor %s of a command: %s", supervisor[0],
                         strerrordesc_np(-pid));
    *ret = pid;
    return 0;
}
