/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor.c -- waits for one command, in a loop over its pipes, a clock and
 * signals.
 *
 *   running ──deadline, lease, signal──► stopping ──grace over──► killed
 *      │                                    │                       │
 *      └───────── the command ends ─────────┴───────────────────────┤
 *   ending: what it left in its group is stopped in the same way    │
 *      └── the group is empty ──► the exit record ◄─────────────────┘
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "capture.h"
#include "command_record.h"
#include "command_setup.h"
#include "stdout_lines.h"
#include "supervisor_child.h"

enum {
    PROGRESS_MS = 100, /* at most ten times a second */
    LOOK_AGAIN_MS = 20,
    GIVE_UP_MS = 2000,    /* for a group that SIGKILL does not empty */
    EXIT_TRIES = 60,      /* a second each, while the disk is full */
    DRAIN_BYTES = 2 << 20 /* a pipe holds at most 1 MiB */
};

static const int64_t never = INT64_MAX;

struct supervisor {
    int record;
    struct arena arena;
    struct command_order order;
    struct child child;
    struct command_start start;
    int signals, timer;
    struct capture out, err;
    struct stdout_lines lines;
    struct command_outcome outcome;
    bool ended;            /* the command; its status is in the outcome */
    int64_t deadline_us;   /* all by command_boot_us() */
    int64_t lease_stop_us; /* when to begin, unless it was renewed */
    int64_t lease_kill_us; /* when it must be over */
    int64_t kill_us;       /* when what is left is killed; never: not stopping */
    int64_t progress_us;   /* when the next report may be written */
    int64_t reports;       /* written so far */
};

void supervisor_signals(sigset_t *ret)
{
    sigemptyset(ret);
    sigaddset(ret, SIGCHLD);
    sigaddset(ret, SIGUSR1);
    sigaddset(ret, SIGTERM);
    sigaddset(ret, SIGINT);
    sigaddset(ret, SIGHUP);
}

/* ---- stopping ---- */

static bool group_exists(const struct supervisor *s)
{
    return kill(-s->child.pid, 0) == 0 || errno == EPERM;
}

/* SIGTERM to all of the group, and the end of its grace. */
static void ask_to_end(struct supervisor *s, int64_t grace_us)
{
    kill(-s->child.pid, SIGTERM);
    kill(-s->child.pid, SIGCONT); /* who is stopped would not hear it */
    s->kill_us = command_boot_us() + grace_us;
}

static void stop(struct supervisor *s, enum command_cause cause)
{
    if (s->ended || s->outcome.cause != COMMAND_CAUSE_NONE)
        return;
    s->outcome.cause = cause;
    ask_to_end(s, s->order.setup->grace_ms * US_PER_MS);
}

/* ---- the lease ---- */

static void set_lease(struct supervisor *s, int64_t until_us)
{
    int64_t lease_us = s->order.lease_ms * US_PER_MS;

    s->lease_stop_us = until_us - lease_us / 6;
    s->lease_kill_us = until_us - lease_us / 30;
}

/* Looks whether a scheduler has renewed it. */
static void check_lease(struct supervisor *s)
{
    struct arena arena;
    struct slice text;

    arena_init(&arena, 256, 4096);
    if (command_record_get(s->record, "lease", 32, &arena, &text) == 0)
        set_lease(s, strtoll(text.p, NULL, 10));
    arena_release(&arena);
}

/* ---- time ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void arm_timer(struct supervisor *s)
{
    int64_t at_us = s->kill_us;

    /* Past the kill, only looking again tells that the group is empty. */
    if (at_us != never && at_us <= command_boot_us())
        at_us = command_boot_us() + LOOK_AGAIN_MS * US_PER_MS;
    if (s->outcome.cause == COMMAND_CAUSE_NONE && !s->ended)
        at_us = earlier(at_us, s->deadline_us);
    at_us = earlier(at_us, s->lease_stop_us);
    if (s->reports != s->lines.reports)
        at_us = earlier(at_us, s->progress_us);
    if (at_us < 1)
        at_us = 1;
    struct itimerspec when = { 0 };
    if (at_us != never) {
        when.it_value.tv_sec = at_us / US_PER_S;
        when.it_value.tv_nsec = at_us % US_PER_S * 1000;
    }
    timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void write_progress(struct supervisor *s, int64_t now_us)
{
    struct buf buf;
    struct slice text;

    if (s->reports == s->lines.reports || now_us < s->progress_us)
        return;
    buf_init(&buf, LIMIT_PROGRESS_BYTES + 16);
    buf_printf(&buf, "%d ", s->lines.percent);
    buf_add(&buf, (struct slice){ s->lines.text, s->lines.text_bytes });
    /* Nothing is lost with one that a full disk does not take. */
    if (buf_end(&buf, &text) == 0)
        (void)!command_record_put(s->record, "progress", text, false);
    buf_release(&buf);
    s->reports = s->lines.reports;
    s->progress_us = now_us + PROGRESS_MS * US_PER_MS;
}

static void check_times(struct supervisor *s)
{
    int64_t now_us = command_boot_us();

    write_progress(s, now_us);
    if (now_us >= s->lease_stop_us) {
        check_lease(s);
        if (now_us >= s->lease_stop_us) {
            stop(s, COMMAND_CAUSE_LEASE);
            /* It may be ending for another reason, with more time than there is. */
            s->kill_us = earlier(s->kill_us, s->lease_kill_us);
            s->lease_stop_us = never;
        }
    }
    if (now_us >= s->deadline_us)
        stop(s, COMMAND_CAUSE_DEADLINE);
    if (now_us >= s->kill_us)
        kill(-s->child.pid, SIGKILL);
}

/* ---- what happens ---- */

static void take_output(struct supervisor *s, int *fd, struct capture *capture,
                        size_t most)
{
    char chunk[CAPTURE_CHUNK_BYTES];
    size_t taken = 0;

    while (*fd >= 0 && taken < most) {
        ssize_t n = read(*fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(*fd);
            *fd = -1;
            return;
        }
        struct slice bytes = { chunk, (size_t)n };
        capture_write(capture, bytes);
        if (capture == &s->out)
            stdout_lines_add(&s->lines, bytes);
        taken += (size_t)n;
    }
}

static void note_end(struct supervisor *s, int status)
{
    struct command_outcome *o = &s->outcome;

    s->ended = true;
    o->end = WIFSIGNALED(status) ? COMMAND_SIGNALLED : COMMAND_EXITED;
    o->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    o->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    o->ended_us = clock_wall_us(&clock_system);
    o->duration_us = command_boot_us() - s->start.started_boot_us;
    /* Whom it left behind gets the same chance. */
    if (group_exists(s) && s->kill_us == never)
        ask_to_end(s, s->order.setup->grace_ms * US_PER_MS);
}

/* Buries the command, and its orphans, who are given to us. */
static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == s->child.pid)
            note_end(s, status);
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(s);
        else
            stop(s, info.ssi_signo == SIGUSR1 ? COMMAND_CAUSE_CANCEL
                                              : COMMAND_CAUSE_INTERRUPT);
    }
}

static bool is_over(const struct supervisor *s)
{
    if (!s->ended)
        return false;
    return !group_exists(s) || (s->kill_us != never &&
                                command_boot_us() >= s->kill_us + GIVE_UP_MS * US_PER_MS);
}

static void run(struct supervisor *s)
{
    while (!is_over(s)) {
        arm_timer(s);
        struct pollfd fds[] = {
            { .fd = s->signals, .events = POLLIN },
            { .fd = s->timer, .events = POLLIN },
            { .fd = s->child.out, .events = POLLIN },
            { .fd = s->child.err, .events = POLLIN },
        };
        if (poll(fds, array_len(fds), -1) < 0 && errno != EINTR)
            break;
        uint64_t times;
        (void)!read(s->timer, &times, sizeof(times));
        take_output(s, &s->child.out, &s->out, CAPTURE_CHUNK_BYTES);
        take_output(s, &s->child.err, &s->err, CAPTURE_CHUNK_BYTES);
        take_signals(s);
        check_times(s);
    }
    take_output(s, &s->child.out, &s->out, DRAIN_BYTES);
    take_output(s, &s->child.err, &s->err, DRAIN_BYTES);
}

/* ---- the end ---- */

/* The exit record; tried again while the disk is full, since it is the only
 * witness. */
static int write_exit(struct supervisor *s)
{
    struct buf buf;
    struct slice text;

    buf_init(&buf, LIMIT_RESULT_BYTES + (64 << 10));
    command_outcome_write(&s->outcome, &buf);
    int r = buf_end(&buf, &text);
    for (int i = 0; r == 0 && i < EXIT_TRIES; i++) {
        r = command_record_put(s->record, "exit", text, true);
        if (r != -HF_FULL)
            break;
        r = 0;
        nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
    }
    buf_release(&buf);
    return r;
}

static int write_not_started(struct supervisor *s, const struct error *error)
{
    char text[sizeof(error->text) + 64];

    snprintf(text, sizeof(text), "The command was not started: %s.",
             error->text[0] ? error->text : status_of(error->code)->title);
    s->outcome.end = COMMAND_NOT_STARTED;
    s->outcome.exit_code = 0;
    s->outcome.error = slice_of(text);
    return write_exit(s);
}

static int conclude(struct supervisor *s)
{
    struct error error = { 0 };

    s->outcome.result = stdout_lines_end(&s->lines, &s->outcome.result_too_large);
    s->outcome.progress.percent = s->lines.percent;
    s->outcome.progress.text = (struct slice){ s->lines.text, s->lines.text_bytes };
    capture_finish(&s->out);
    capture_finish(&s->err);
    if (child_fault(&s->child, &s->order, &error))
        return write_not_started(s, &error);
    return write_exit(s);
}

/* ---- the beginning ---- */

static int read_order(struct supervisor *s, struct error *error)
{
    struct stat info;
    int r = -HF_SYSTEM;

    char *text = fstat(SUPERVISOR_ORDER_FD, &info) == 0 &&
                         info.st_size <= LIMIT_COMMAND_ORDER_BYTES
                     ? arena_alloc(&s->arena, (size_t)info.st_size)
                     : NULL;
    if (text && pread(SUPERVISOR_ORDER_FD, text, (size_t)info.st_size, 0) == info.st_size)
        r = command_order_read((struct slice){ text, (size_t)info.st_size }, &s->arena,
                               error, &s->order);
    close(SUPERVISOR_ORDER_FD);
    return r;
}

static int open_files(struct supervisor *s, struct error *error)
{
    sigset_t mask;

    supervisor_signals(&mask);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->signals < 0 || s->timer < 0)
        return error_set(error, -HF_SYSTEM, NULL, "no descriptors: %m");
    int r = capture_create(s->record, "stdout", &s->out);
    if (r == 0)
        r = capture_create(s->record, "stderr", &s->err);
    return r < 0 ? error_set(error, r, NULL, "its output cannot be kept: %m") : 0;
}

/* Steps 2 to 4 of supervisor.h. */
static int begin(struct supervisor *s, struct error *error)
{
    struct host_stat stat;
    int ticket;

    int r = open_files(s, error);
    if (r == 0)
        r = host_identify(&s->start.supervisor, error);
    if (r == 0)
        r = child_fork(&s->order, &s->arena, error, &s->child);
    if (r < 0)
        return r;
    if (host_read_stat(s->child.pid, &stat) < 0)
        return error_set(error, -HF_SYSTEM, NULL, "/proc does not show it: %m");
    s->start.pid = s->child.pid;
    s->start.start_ticks = stat.start_ticks;
    s->start.started_us = clock_wall_us(&clock_system);
    s->start.started_boot_us = command_boot_us();
    s->start.lease_ms = s->order.lease_ms;
    r = command_record_claim(s->record, &s->start, error, &ticket);
    if (r < 0)
        return r;
    /* The ticket stays open and locked until this process ends. */
    s->outcome.started_us = s->start.started_us;
    child_release(&s->child);
    return 0;
}

static int supervise(struct supervisor *s)
{
    struct error error = { 0 };
    int r = read_order(s, &error);

    if (r == 0) {
        s->deadline_us = command_boot_us() + s->order.deadline_ms * US_PER_MS;
        if (s->order.lease_ms > 0)
            set_lease(s, s->order.lease_until_us);
        r = begin(s, &error);
    }
    if (r == -HF_CONFLICT)
        return r; /* somebody else has decided what became of it */
    if (r < 0)
        return write_not_started(s, &error);
    run(s);
    return conclude(s);
}

int supervisor_main(const char *record)
{
    struct supervisor s = { .record = -1 };

    close_range(SUPERVISOR_ORDER_FD + 1, ~0U, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN); /* the gate of a child that was killed */
    arena_init(&s.arena, 16 << 10, 4 * LIMIT_COMMAND_ORDER_BYTES);
    stdout_lines_init(&s.lines);
    s.outcome.progress.percent = -1;
    s.deadline_us = s.lease_stop_us = s.lease_kill_us = s.kill_us = never;
    int fd = open(record, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 1;
    s.record = fd;
    int r = supervise(&s);
    close(fd);
    stdout_lines_release(&s.lines);
    arena_release(&s.arena);
    return r < 0;
}
