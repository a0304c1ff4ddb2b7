/* SPDX-License-Identifier: Apache-2.0
 *
 * reserve.c -- a queue for yourself: held while a command runs, or until you release
 * it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli.h"

static const struct cli_option reserve_options[] = {
    { "holder", "TEXT", "who holds it, for others to read; you at this machine", 0 },
    { "ttl-ms", "N", "how long without renewal, up to 600000; 300000", 0 },
    { "wait-ms", "N", "how long to wait for it; 30000", 0 },
    { "release", "ID", "give back a reservation that is held", 0 },
    { "renew", "ID", "hold it for --ttl-ms from now on", 0 },
    { 0 },
};

struct hold {
    struct cli *cli;
    const char *queue, *holder;
    int64_t id, ttl_ms, wait_ms;
};

static int print_reservation(struct cli *cli, struct slice answer)
{
    print_field("reservation", member(cli, answer, "id"));
    print_field("queue", member(cli, answer, "queue"));
    print_field("state", member(cli, answer, "state"));
    print_field("holder", member(cli, answer, "holder"));
    print_field("expires", member(cli, answer, "expiresAt"));
    return 0;
}

static void write_body(const struct hold *hold, struct buf *body, bool waits)
{
    struct json_writer w = json_writer(body);
    json_begin_object(&w);
    json_put_text(&w, "holder", hold->holder);
    json_put_int(&w, "ttlMs", hold->ttl_ms);
    if (waits)
        json_put_int(&w, "waitMs", hold->wait_ms);
    json_end_object(&w);
}

/* Takes, renews or gives back; `quiet` prints nothing. */
static int ask_hold(struct hold *hold, struct ask ask, bool with_body, bool quiet)
{
    cleanup(buf_release) struct buf body, answer;
    struct slice text = { 0 };
    bool takes = hold->id == 0;
    int r = 0;

    buf_init(&answer, CLI_ANSWER_BYTES);
    buf_init(&body, 64 << 10);
    if (with_body) {
        write_body(hold, &body, takes);
        r = buf_end(&body, &ask.body);
    }
    if (takes)
        ask.wait_ms = hold->wait_ms;
    if (r == 0)
        r = cli_ask(hold->cli, &ask, &answer, &text);
    if (r < 0)
        return r;
    if (takes)
        hold->id = member_int(text, "id");
    if (!quiet && text.n > 0 && hold->cli->json)
        print_json(text);
    else if (!quiet && text.n > 0)
        return print_reservation(hold->cli, text);
    return 0;
}

static int take(struct hold *hold, bool quiet)
{
    return ask_hold(hold, ask_for("POST", "queues/%s/reservations", hold->queue), true,
                    quiet);
}

static int renew(struct hold *hold, bool quiet)
{
    return ask_hold(hold,
                    ask_for("POST", "queues/%s/reservations/%lld/renew", hold->queue,
                            (long long)hold->id),
                    true, quiet);
}

static int release(struct hold *hold, bool quiet)
{
    struct ask ask = ask_for("DELETE", "queues/%s/reservations/%lld", hold->queue,
                             (long long)hold->id);
    ask_param(&ask, "holder", hold->holder); /* NULL: as an operator, who may */
    return ask_hold(hold, ask, false, quiet);
}

/* ---- with a command ---- */

static pid_t start(char **argv, const sigset_t *mask)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    fprintf(stderr, "holdfast: %s cannot be run: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Renews in time, and passes signals on, until the command has ended.  One that has
 * lost its hold is told to stop: it would not be alone any more. */
static int watch(struct hold *hold, pid_t pid, int ended, int signals)
{
    int lost = 0;

    for (;;) {
        struct pollfd fds[] = { { .fd = ended, .events = POLLIN },
                                { .fd = signals, .events = POLLIN } };
        int n = poll(fds, 2, lost ? -1 : (int)(hold->ttl_ms / 3));
        struct signalfd_siginfo info;
        if (n > 0 && fds[0].revents)
            return lost;
        if (n > 0 && read(signals, &info, sizeof(info)) == sizeof(info) &&
            info.ssi_signo != SIGINT) /* the terminal sends that to both */
            kill(pid, (int)info.ssi_signo);
        if (n == 0 && !lost && (lost = renew(hold, true)) < 0)
            kill(pid, SIGTERM);
    }
}

static int run_command(struct hold *hold, char **argv)
{
    sigset_t handled, before;
    int status = 0, lost = 0;

    sigemptyset(&handled);
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGTERM);
    sigaddset(&handled, SIGHUP);
    sigprocmask(SIG_BLOCK, &handled, &before);
    int signals = signalfd(-1, &handled, SFD_CLOEXEC);
    pid_t pid = signals < 0 ? -1 : start(argv, &before);
    int ended = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid < 0)
        lost = cli_fail(hold->cli, -HF_SYSTEM, "%s cannot be started: %s.", argv[0],
                        strerror(errno));
    else if (ended >= 0)
        lost = watch(hold, pid, ended, signals);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (ended >= 0)
        close(ended);
    if (signals >= 0)
        close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (lost < 0)
        return lost;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int hold_and_run(struct hold *hold, char **argv)
{
    int r = take(hold, true);
    if (r < 0)
        return r;
    int outcome = run_command(hold, argv);
    struct error why = hold->cli->error;
    hold->cli->error = (struct error){ 0 };
    r = release(hold, true);
    if (outcome < 0) {
        hold->cli->error = why;
        return outcome;
    }
    return r < 0 ? r : outcome;
}

static const char *default_holder(struct cli *cli)
{
    char host[65] = "", text[200];
    const char *user = getenv("USER");

    gethostname(host, sizeof(host) - 1);
    snprintf(text, sizeof(text), "%.100s@%s", user && user[0] ? user : "holdfast", host);
    return arena_dup(&cli->arena, slice_of(text)).p;
}

static int reserve(struct cli *cli)
{
    const char *released = cli_option(cli, "release"),
               *renewed = cli_option(cli, "renew");
    struct hold hold = { .cli = cli,
                         .queue = cli->args[0],
                         .holder = cli_option(cli, "holder"),
                         .ttl_ms = DEFAULT_RESERVATION_MS,
                         .wait_ms = DEFAULT_WAIT_MS };

    int r = cli_name(cli, "queue", hold.queue);
    if (r == 0)
        r = cli_number(cli, "ttl-ms", 1, LIMIT_RESERVATION_MS, &hold.ttl_ms);
    if (r == 0)
        r = cli_number(cli, "wait-ms", 1, LIMIT_WAIT_MS, &hold.wait_ms);
    if (r == 0 && (released || renewed))
        r = cli_id(cli, "reservation", released ? released : renewed, &hold.id);
    if (r == 0 && (released || renewed) && (cli->arg_count > 1 || (released && renewed)))
        r = cli_refuse(cli, "--release and --renew are for a reservation that is held; "
                            "give one of them, and no command.");
    if (r < 0)
        return r;
    if (released)
        return release(&hold, false);
    if (!hold.holder)
        hold.holder = default_holder(cli);
    if (renewed)
        return renew(&hold, false);
    return cli->arg_count > 1 ? hold_and_run(&hold, cli->args + 1) : take(&hold, false);
}

/* clang-format off */
const struct subcommand reserve_commands[] = {
    { "reserve", "QUEUE [-- COMMAND [ARGUMENT...]]", "hold a queue, while a command runs or until it is released",
      1, INT_MAX, .place = ANYWHERE, .role = HF_PRODUCER, .options = reserve_options,
      .run = reserve },
    { 0 },
};
/* clang-format on */
