/* test: apart bare */
/* SPDX-License-Identifier: Apache-2.0
 *
 * The start race: the supervisor is put to sleep before each of its system calls
 * in turn, and a recovery settles the run meanwhile.  Then it wakes up.  Either
 * the command had been started and is alive, or it never runs. */
/* test: wrap=openat64,linkat,flock,write,fork,pipe2,poll */
#include <poll.h>
#include <stdarg.h>
#include <sys/file.h>

#include "base/rng.h"
#include "commands.h"

/* In a supervisor: the number of its next call. */
static int call;

static void count_call(void)
{
    const char *file = getenv("HF_STOP_FILE"), *at = getenv("HF_STOP_AT");

    if (!supervisor_pid || getpid() != supervisor_pid || !file || !at ||
        call++ != atoi(at))
        return;
    unsetenv("HF_STOP_FILE"); /* once */
    FILE *out = fopen(file, "we");
    if (!out || fprintf(out, "%d\n", (int)getpid()) < 0 || fclose(out) != 0)
        _exit(99);
    raise(SIGSTOP);
}

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __real_linkat(int from, const char *name, int to, const char *other, int flags);
int __wrap_linkat(int from, const char *name, int to, const char *other, int flags);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

/* In the test: what happens just before a start record is read. */
static void (*before_read)(void);

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
    va_list args;

    if (before_read && strcmp(path, "start") == 0 && !(flags & O_CREAT)) {
        void (*happens)(void) = before_read;
        before_read = NULL;
        happens();
    }
    va_start(args, flags);
    /* The analyser does not see through va_start() here.  NOLINTNEXTLINE */
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    count_call();
    return __real_openat64(dir, path, flags, mode);
}

int __wrap_linkat(int from, const char *name, int to, const char *other, int flags)
{
    count_call();
    return __real_linkat(from, name, to, other, flags);
}

int __wrap_flock(int fd, int operation)
{
    count_call();
    return __real_flock(fd, operation);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    count_call();
    return __real_write(fd, bytes, n);
}

pid_t __wrap_fork(void)
{
    count_call();
    return __real_fork();
}

int __wrap_pipe2(int fds[2], int flags)
{
    count_call();
    return __real_pipe2(fds, flags);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    count_call();
    return __real_poll(fds, n, ms);
}

/* ---- the recovery ---- */

static enum command_state settled[JOBS_MAX];

static int on_found(void *arg, const struct exec_command_found *found)
{
    if (found->job_id == *(int64_t *)arg)
        settled[found->job_id] = found->state;
    return 0;
}

static void recover(int64_t id)
{
    settled[id] = COMMAND_NONE;
    check_ok(exec_command_scan(test_dir(), false, on_found, &id, NULL));
}

/* A command that leaves a mark each time it is executed. */
static void start_marking(int64_t id)
{
    char text[1000];

    snprintf(text, sizeof(text), "echo >>%s.%d; exit 5", test_path("ran"), (int)id);
    start_script(id, text);
}

static int64_t marks(int64_t id)
{
    char path[1000];
    struct stat info;

    snprintf(path, sizeof(path), "%s.%d", test_path("ran"), (int)id);
    return stat(path, &info) == 0 ? info.st_size : 0;
}

/* Exactly one side has won. */
static void check_winner(int64_t id)
{
    const struct command_outcome *o = wait_end(id);

    check(settled[id] != COMMAND_PREPARED && settled[id] != COMMAND_NONE);
    if (settled[id] == COMMAND_DEAD) {
        check_int(marks(id), 0);
        check(o->end == COMMAND_LOST || o->end == COMMAND_NOT_STARTED);
    } else {
        check_int(marks(id), 1);
        check_int(o->exit_code, 5);
    }
}

/* ---- the tests ---- */

static bool is_stopped_or_over(void *arg)
{
    int64_t pid = *(int64_t *)arg;
    struct host_stat stat;

    return host_read_stat(pid, &stat) < 0 || stat.state == 'T' || stat.state == 'Z';
}

struct pass {
    int64_t id;
    char file[1000];
};

static bool has_stopped_or_ended(void *arg)
{
    const struct pass *pass = arg;

    return file_has_content((char *)pass->file) || told[pass->id].ended;
}

/* Starts a job whose supervisor sleeps before its call number `at`.  Its pid; 0 if
 * it has fewer calls than that. */
static int64_t start_stopping(int64_t id, int at)
{
    struct pass pass = { .id = id };
    char text[32];

    snprintf(pass.file, sizeof(pass.file), "%s.%d", test_path("stopped"), (int)id);
    snprintf(text, sizeof(text), "%d", at);
    check_int(setenv("HF_STOP_AT", text, 1), 0);
    check_int(setenv("HF_STOP_FILE", pass.file, 1), 0);
    start_marking(id);
    check_int(unsetenv("HF_STOP_FILE"), 0);
    wait_for(has_stopped_or_ended, &pass, "the supervisor slept or had ended");
    if (access(pass.file, F_OK) < 0)
        return 0;
    snprintf(text, sizeof(text), "stopped.%d", (int)id);
    int64_t pid = wait_number(text);
    wait_for(is_stopped_or_over, &pid, "the supervisor slept");
    return pid;
}

/* How many calls there are before the supervisor only waits for its command. */
enum { POINTS_LEAST = 10, POINTS_MOST = 200 };

static void try_every_point(bool delete)
{
    int dead = 0, alive = 0;

    open_commands();
    for (int at = 0; at < POINTS_MOST; at++) {
        int64_t id = at + 1, pid = start_stopping(id, at);
        if (!pid)
            break;
        recover(id);
        if (delete &&settled[id] == COMMAND_DEAD)
            check_ok(exec_command_forget(test_dir(), id, NULL));
        check_int(kill((pid_t)pid, SIGCONT), 0);
        check_winner(id);
        dead += settled[id] == COMMAND_DEAD;
        alive += settled[id] != COMMAND_DEAD;
        /* Once started it stays so: the points come in order. */
        check(settled[id] != COMMAND_DEAD || alive == 0);
    }
    test_note("%d points before the start record, %d behind it", dead, alive);
    check(dead >= POINTS_LEAST && alive > 0);
    close_commands();
}

TEST(at_every_point_exactly_one_of_supervisor_and_recovery_wins)
{
    try_every_point(false);
}

TEST(
    at_every_point_a_supervisor_that_wakes_up_after_its_record_was_deleted_starts_nothing)
{
    try_every_point(true);
}

TEST(a_recovery_at_any_moment_wins_or_loses_as_a_whole)
{
    enum { ROUNDS = 250 };
    struct rng rng;
    int dead = 0;

    rng_seed(&rng, 17);
    open_commands();
    for (int64_t id = 1; id <= ROUNDS; id++) {
        start_marking(id);
        nanosleep(&(struct timespec){ .tv_nsec = (long)rng_below(&rng, 30000000) }, NULL);
        recover(id);
        check_winner(id);
        dead += settled[id] == COMMAND_DEAD;
        check_ok(exec_command_forget(test_dir(), id, NULL));
    }
    test_note("of %d, %d were voided and %d had started", ROUNDS, dead, ROUNDS - dead);
    close_commands();
}

TEST(at_every_point_a_supervisor_that_is_killed_leaves_no_command_behind)
{
    int points = 0;

    open_commands();
    for (int at = 0; at < POINTS_MOST; at++) {
        int64_t id = at + 1, pid = start_stopping(id, at);
        if (!pid)
            break;
        check_int(kill((pid_t)pid, SIGKILL), 0);
        const struct command_outcome *o = wait_end(id);
        check(o->end == COMMAND_LOST || o->end == COMMAND_NOT_STARTED ||
              o->end == COMMAND_EXITED);
        if (o->end != COMMAND_EXITED) {
            int64_t before = marks(id);
            recover(id);
            check_int(settled[id], COMMAND_DEAD);
            check_int(marks(id), before);
        }
        points++;
    }
    check(points > POINTS_LEAST);
    close_commands();
}

static void end_meanwhile(void)
{
    struct command_start record;

    check_int(state_of(1, &record), COMMAND_ALIVE);
    close(open(test_path("go"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    check(test_wait(is_gone, &record.supervisor.pid, 60000));
}

TEST(a_command_that_ends_while_its_record_is_read_is_not_taken_for_dead)
{
    struct command_start record;
    char text[1000];

    open_commands();
    snprintf(text, sizeof(text),
             "echo >%s; while [ ! -e %s ]; do sleep 0.02; done; exit 5", test_path("up"),
             test_path("go"));
    start_script(1, text);
    wait_file("up");
    before_read = end_meanwhile;
    check_int(state_of(1, &record), COMMAND_ENDED);
    check(before_read == NULL);
    check_int(wait_end(1)->exit_code, 5);
    close_commands();
}
