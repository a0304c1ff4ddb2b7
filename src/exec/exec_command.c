/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_command.c -- watches supervisors: a descriptor for the end of each, and
 * one inotify for what they write in their records meanwhile.
 *
 * What a supervisor does is only ever read off its record.  Its death is the
 * reason to look, never the news itself. */
#include "exec_command.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "capture.h"
#include "command_spawn.h"

enum {
    ARENA_BYTES = 16 << 10,
    ARENA_CAP_BYTES = 8 << 20, /* an exit record, read once or twice, and output */
    POLL_MS = 1000,
    RECORD_PATH_BYTES = LIMIT_PATH_BYTES + 64
};

struct watched {
    struct watched *next;
    struct exec_commands *owner;
    int64_t job_id;
    struct event *end; /* the supervisor's descriptor, or a timer without one */
    int pidfd;         /* -1: there is none to be had */
    pid_t child;       /* the supervisor, if it is ours to bury; 0 otherwise */
    int watch;         /* of inotify; -1: progress is not told */
    int64_t lease_ms;
    bool told_start;
};

struct exec_commands {
    struct event_base *base;
    char *state_dir;
    const char *const *supervisor;
    struct exec_command_calls calls;
    struct host self;
    int records; /* the folder */
    int notify;
    struct event *notified;
    struct watched *first;
    size_t count;
};

static const char *const default_supervisor[] = { "/proc/self/exe", "supervise", NULL };

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static struct watched *find(struct exec_commands *commands, int64_t job_id)
{
    struct watched *w = commands->first;

    while (w && w->job_id != job_id)
        w = w->next;
    return w;
}

static void record_path(const struct exec_commands *commands, int64_t job_id,
                        char out[RECORD_PATH_BYTES])
{
    snprintf(out, RECORD_PATH_BYTES, "%s/runs/%" PRId64, commands->state_dir, job_id);
}

static int read_output(int record, struct arena *arena, struct command_outcome *outcome)
{
    int r = capture_read(record, "stdout", arena, &outcome->out);

    return r < 0 ? r : capture_read(record, "stderr", arena, &outcome->err);
}

/* ---- the end of a watched one ---- */

static void unwatch(struct watched *w)
{
    struct exec_commands *commands = w->owner;
    struct watched **at = &commands->first;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    assert(commands->count > 0);
    commands->count--;
    if (w->watch >= 0)
        inotify_rm_watch(commands->notify, w->watch);
    if (w->end)
        event_free(w->end);
    close_fd(&w->pidfd);
    free(w);
}

static void say_lost(struct command_outcome *outcome, enum command_end end,
                     const char *sentence)
{
    *outcome = (struct command_outcome){ .end = end,
                                         .error = slice_of(sentence),
                                         .progress = { .percent = -1 } };
}

/* What became of a command whose supervisor is gone. */
static void find_out(const struct exec_commands *commands, int64_t job_id,
                     struct arena *arena, struct command_outcome *outcome,
                     bool *ret_started)
{
    enum command_state state = COMMAND_NONE;
    struct command_start start = { 0 };
    cleanup(close_fd) int record = command_record_open(commands->records, job_id, NULL);

    if (record >= 0 && command_record_read(record, &commands->self, arena, NULL, &state,
                                           &start, outcome) < 0)
        state = COMMAND_NONE;
    *ret_started = start.pid > 0;
    switch (state) {
    case COMMAND_ENDED:
        *ret_started = outcome->end != COMMAND_NOT_STARTED;
        break;
    case COMMAND_DEAD:
    case COMMAND_ALIVE: /* /proc hides that it is not */
        command_record_bury(&start, &commands->self);
        say_lost(outcome, COMMAND_LOST,
                 start.pid ? "The command's supervisor was killed, and the command "
                             "with it."
                           : "The command was given up before it had started.");
        outcome->started_us = start.started_us;
        break;
    case COMMAND_PREPARED:
        say_lost(outcome, COMMAND_NOT_STARTED,
                 "The command was not started: its supervisor ended before it could.");
        break;
    case COMMAND_NONE:
        say_lost(outcome, COMMAND_LOST,
                 "The command has ended, but its record cannot be read.");
        break;
    }
    if (record >= 0 && read_output(record, arena, outcome) < 0)
        outcome->out.lost = outcome->err.lost = true;
}

static void finish(struct watched *w)
{
    struct exec_commands *commands = w->owner;
    struct exec_command_calls calls = commands->calls;
    int64_t job_id = w->job_id;
    bool tell_start = !w->told_start, started;
    struct command_outcome outcome = { 0 };
    struct arena arena;

    arena_init(&arena, ARENA_BYTES, ARENA_CAP_BYTES);
    find_out(commands, job_id, &arena, &outcome, &started);
    unwatch(w);
    if (started && tell_start && calls.started)
        calls.started(calls.arg, job_id);
    calls.ended(calls.arg, job_id, &outcome);
    arena_release(&arena);
}

/* True if the supervisor is not there any more. */
static bool is_gone(const struct watched *w)
{
    struct exec_commands *commands = w->owner;
    enum command_state state;
    struct command_start start;
    struct command_outcome outcome;
    struct arena arena;

    if (w->child) /* ours: a zombie until it is buried */
        return waitpid(w->child, NULL, WNOHANG) != 0;
    if (w->pidfd >= 0)
        return true;
    cleanup(close_fd) int record =
        command_record_open(commands->records, w->job_id, NULL);
    arena_init(&arena, ARENA_BYTES, ARENA_CAP_BYTES);
    int r = record < 0 ? record
                       : command_record_read(record, &commands->self, &arena, NULL,
                                             &state, &start, &outcome);
    arena_release(&arena);
    return r < 0 || state != COMMAND_ALIVE;
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct watched *w = arg;

    (void)fd, (void)what;
    if (is_gone(w))
        finish(w);
}

/* ---- what it writes meanwhile ---- */

static void tell_progress(struct watched *w)
{
    struct exec_commands *commands = w->owner;
    cleanup(close_fd) int record =
        command_record_open(commands->records, w->job_id, NULL);
    struct slice text = { 0 };
    struct arena arena;

    arena_init(&arena, 1024, 64 << 10);
    if (record >= 0 && command_record_get(record, "progress", LIMIT_PROGRESS_BYTES + 16,
                                          &arena, &text) == 0) {
        char *rest;
        struct command_progress progress = { .percent = (int)strtol(text.p, &rest, 10) };
        if (*rest == ' ')
            progress.text =
                (struct slice){ rest + 1, text.n - (size_t)(rest + 1 - text.p) };
        commands->calls.progress(commands->calls.arg, w->job_id, &progress);
    }
    arena_release(&arena);
}

static void take_note(struct exec_commands *commands, const struct inotify_event *event)
{
    struct watched *w = commands->first;

    while (w && w->watch != event->wd)
        w = w->next;
    if (!w || event->len == 0)
        return;
    if (strcmp(event->name, "start") == 0 && !w->told_start) {
        w->told_start = true;
        if (commands->calls.started)
            commands->calls.started(commands->calls.arg, w->job_id);
    } else if (strcmp(event->name, "progress") == 0 && commands->calls.progress) {
        tell_progress(w);
    }
}

static void on_note(evutil_socket_t fd, short what, void *arg)
{
    _Alignas(struct inotify_event) char bytes[16 << 10];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    (void)what;
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
        take_note(arg, event);
        at += (ssize_t)(sizeof(*event) + event->len);
    }
}

/* ---- watching ---- */

/* Makes the entry before anything is started, so that nothing can fail later. */
static struct watched *watch(struct exec_commands *commands, int64_t job_id)
{
    char path[RECORD_PATH_BYTES];
    struct watched *w = new(struct watched);

    if (!w)
        return NULL;
    *w = (struct watched){ commands->first, commands, job_id, NULL, -1, 0, -1, 0, false };
    commands->first = w;
    commands->count++;
    record_path(commands, job_id, path);
    w->watch = inotify_add_watch(commands->notify, path, IN_CREATE | IN_MOVED_TO);
    return w;
}

/* Waits for the end of a supervisor; by looking, without its descriptor. */
static int await_end(struct watched *w, int pidfd)
{
    const struct timeval poll = { .tv_sec = POLL_MS / 1000 };
    short what = (short)(EV_PERSIST | (pidfd < 0 ? 0 : EV_READ));

    w->pidfd = pidfd;
    w->end = event_new(w->owner->base, pidfd, what, on_end, w);
    return w->end && event_add(w->end, pidfd < 0 ? &poll : NULL) == 0 ? 0 : -HF_NOMEM;
}

/* ---- starting ---- */

/* There is no memory to watch it with: it must not have been started. */
static void take_back(const struct watched *w)
{
    cleanup(close_fd) int record =
        command_record_open(w->owner->records, w->job_id, NULL);

    if (record >= 0)
        (void)!command_record_void(record, NULL);
    kill(w->child, SIGKILL);
    waitpid(w->child, NULL, 0);
}

int exec_command_start(struct exec_commands *commands, const struct command_order *order,
                       struct slice payload, struct error *error)
{
    char path[RECORD_PATH_BYTES];

    assert(order->job_id > 0 && order->setup && order->setup->argv[0]);
    if (payload.n > LIMIT_PAYLOAD_BYTES)
        return error_set(error, -HF_TOO_LARGE, "payload",
                         "the payload has %zu bytes; it may have up to %d", payload.n,
                         LIMIT_PAYLOAD_BYTES);
    int r = command_record_make(commands->records, order->job_id, error);
    if (r < 0)
        return r;
    struct watched *w = watch(commands, order->job_id);
    record_path(commands, order->job_id, path);
    r = w ? command_spawn(commands->supervisor, path, order, payload, error, &w->child)
          : -HF_NOMEM;
    if (r == 0) {
        w->lease_ms = order->lease_ms;
        r = await_end(w, pidfd_open(w->child, 0));
        if (r < 0)
            take_back(w);
    }
    if (r < 0) {
        if (w)
            unwatch(w);
        (void)!command_record_delete(commands->records, order->job_id, NULL);
    }
    return r;
}

/* ---- adopting ---- */

/* A descriptor of the supervisor; -1 if it is gone, or not of this place. */
static int open_supervisor(const struct exec_commands *commands,
                           const struct command_start *start)
{
    if (!host_same_place(&start->supervisor, &commands->self))
        return -1;
    int pidfd = pidfd_open((pid_t)start->supervisor.pid, 0);
    /* Asked after it was opened: until then the number may have been given to
     * another process. */
    if (pidfd >= 0 &&
        !host_process_alive(start->supervisor.pid, start->supervisor.start_ticks)) {
        close(pidfd);
        return -1;
    }
    return pidfd;
}

int exec_command_adopt(struct exec_commands *commands, int64_t job_id,
                       struct error *error)
{
    enum command_state state;
    struct command_start start;
    struct command_outcome outcome;
    struct arena arena;

    assert(!find(commands, job_id));
    cleanup(close_fd) int record = command_record_open(commands->records, job_id, error);
    if (record < 0)
        return record;
    arena_init(&arena, ARENA_BYTES, ARENA_CAP_BYTES);
    int r = command_record_settle(record, &commands->self, &arena, error, &state, &start,
                                  &outcome);
    arena_release(&arena);
    struct watched *w = r < 0 ? NULL : watch(commands, job_id);
    if (!w)
        return r < 0 ? r : -HF_NOMEM;
    w->told_start = true;
    w->lease_ms = start.lease_ms;
    r = await_end(w, state == COMMAND_ALIVE ? open_supervisor(commands, &start) : -1);
    if (r < 0)
        unwatch(w);
    else if (w->pidfd < 0)
        event_active(w->end, EV_TIMEOUT, 0); /* look at once */
    return r;
}

/* ---- the rest ---- */

bool exec_command_stop(struct exec_commands *commands, int64_t job_id,
                       enum command_cause cause)
{
    const struct watched *w = find(commands, job_id);

    assert(cause == COMMAND_CAUSE_CANCEL || cause == COMMAND_CAUSE_INTERRUPT);
    return w && w->pidfd >= 0 &&
           pidfd_send_signal(w->pidfd, cause == COMMAND_CAUSE_CANCEL ? SIGUSR1 : SIGTERM,
                             NULL, 0) == 0;
}

void exec_commands_renew(struct exec_commands *commands, int64_t until_us)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%" PRId64, until_us);
    struct slice bytes = { text, (size_t)n };

    for (const struct watched *w = commands->first; w; w = w->next) {
        if (w->lease_ms == 0)
            continue;
        cleanup(close_fd) int record =
            command_record_open(commands->records, w->job_id, NULL);
        /* If it cannot be written, the command ends with the lease it has. */
        if (record >= 0)
            (void)!command_record_put(record, "lease", bytes, false);
    }
}

size_t exec_commands_count(const struct exec_commands *commands)
{
    return commands->count;
}

int exec_commands_new(struct event_base *base, const char *state_dir,
                      const char *const *supervisor,
                      const struct exec_command_calls *calls, struct error *error,
                      struct exec_commands **ret)
{
    assert(base && calls->ended);
    struct exec_commands *commands = new(struct exec_commands);
    if (!commands)
        return -HF_NOMEM;
    commands->base = base;
    commands->supervisor = supervisor ? supervisor : default_supervisor;
    commands->calls = *calls;
    commands->notify = -1;
    int r = commands->records = command_records_open(state_dir, true, error);
    if (r >= 0)
        r = host_identify(&commands->self, error);
    if (r == 0 && faccessat(commands->records, ".", W_OK | X_OK, AT_EACCESS) < 0)
        r = error_set(error, status_of_errno(errno), "state_dir",
                      "cannot write in %s/runs: %m", state_dir);
    /* Supervisors may run somewhere else. */
    if (r == 0 && !(commands->state_dir = realpath(state_dir, NULL)))
        r = error_set(error, status_of_errno(errno), "state_dir", "cannot find %s: %m",
                      state_dir);
    if (r == 0) {
        commands->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        commands->notified = commands->notify < 0
                                 ? NULL
                                 : event_new(base, commands->notify, EV_READ | EV_PERSIST,
                                             on_note, commands);
        if (!commands->notified || event_add(commands->notified, NULL) < 0)
            r = error_set(error, -HF_SYSTEM, NULL,
                          "cannot watch the state directory: %m");
    }
    if (r < 0) {
        exec_commands_free(commands);
        return r;
    }
    *ret = commands;
    return 0;
}

void exec_commands_free(struct exec_commands *commands)
{
    if (!commands)
        return;
    while (commands->first)
        unwatch(commands->first);
    if (commands->notified)
        event_free(commands->notified);
    close_fd(&commands->notify);
    close_fd(&commands->records);
    free(commands->state_dir);
    free(commands);
}
