/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c -- tail: what happens, a line an event. */
#include <stdio.h>
#include <time.h>

#include "cli.h"

/* Without --follow, this much silence is the end of what there is. */
enum { SILENCE_MS = 1000 };

static const struct cli_option tail_options[] = {
    { "follow", NULL, "go on with what happens next, until you stop it", 'f' },
    { "after", "ID", "only events after this one; 0 is all that is kept", 0 },
    { "job", "ID", "only of this job", 0 },
    { "queue", "NAME", "only of this queue", 0 },
    { "type", "WORD", "only of this type: job.failed, job.*", 0 },
    { 0 },
};

struct tail {
    struct cli *cli;
    bool follow;
    int64_t last_ms; /* when something came */
};

enum { ENOUGH = 1 };

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void print_event(struct cli *cli, struct slice event)
{
    const char *job = member(cli, event, "jobId"), *data = member(cli, event, "data");
    char line[128];

    snprintf(line, sizeof(line), "%-26s %-24s %s%s", member(cli, event, "at"),
             member(cli, event, "type"), job ? "job " : "", job ? job : "");
    /* Its text is anyone's. */
    print_field(line, data ? data : "");
}

static int on_event(void *arg, struct slice event)
{
    struct tail *tail = arg;

    if (!event.p)
        return !tail->follow && now_ms() - tail->last_ms > SILENCE_MS ? ENOUGH : 0;
    tail->last_ms = now_ms();
    if (!member_raw(event, "type").p) {
        fprintf(stderr,
                "holdfast: events are missing here that are not kept any more, or "
                "came too fast.\n");
        return 0;
    }
    if (tail->cli->json)
        print_json(event);
    else
        print_event(tail->cli, event);
    arena_reset(&tail->cli->arena);
    return fflush(stdout) == 0 ? 0 : ENOUGH; /* whoever read it is gone */
}

static int tail_events(struct cli *cli)
{
    struct tail tail = { .cli = cli,
                         .follow = cli_option(cli, "follow") != NULL,
                         .last_ms = now_ms() };
    struct ask ask = ask_for("GET", "events");
    const char *after = cli_option(cli, "after"), *job = cli_option(cli, "job");
    int64_t id = 0;

    int r = cli_number(cli, "after", 0, INT64_MAX, &id);
    if (r == 0 && job)
        r = cli_id(cli, "job", job, &id);
    if (r < 0)
        return r;
    /* Who does not follow wants to see what has been. */
    ask_param(&ask, "after", after ? after : tail.follow ? NULL : "0");
    ask_param(&ask, "jobId", job);
    ask_param(&ask, "queue", cli_option(cli, "queue"));
    ask_param(&ask, "type", cli_option(cli, "type"));
    r = cli_follow(cli, &ask, on_event, &tail);
    return r == ENOUGH ? 0 : r;
}

/* clang-format off */
const struct subcommand event_commands[] = {
    { "tail", "", "print what happened, and with -f what happens", 0, 0,
      .place = ANYWHERE, .role = HF_READER, .options = tail_options, .run = tail_events },
    { 0 },
};
/* clang-format on */
