/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.c -- queues, pause, resume, top. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"

/* ---- queues ---- */

static void add_counts(struct table *table, struct slice queue)
{
    struct slice counts = member_raw(queue, "counts");
    struct slice none = SLICE("{}"), c = counts.p ? counts : none;

    table_int(table, member_int(c, "scheduled"));
    table_int(table, member_int(c, "queued"));
    table_int(table, member_int(c, "running") + member_int(c, "cancelling"));
    table_int(table, member_int(c, "completed"));
    table_int(table, member_int(c, "failed"));
    table_int(table, member_int(c, "cancelled"));
}

static bool is_paused(struct slice queue)
{
    return member_true(queue, "paused");
}

/* Why nothing of it is started. */
static const char *held_by(struct cli *cli, struct slice queue)
{
    struct slice reservation = member_raw(queue, "reservation");
    const char *reason = member(cli, queue, "pausedReason");

    if (is_paused(queue))
        return reason ? reason : "yes";
    return reservation.p ? member(cli, reservation, "holder") : NULL;
}

static int print_queues(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "QUEUE",     "SCHEDULED", "QUEUED",
                                          "RUNNING",   "COMPLETED", "FAILED",
                                          "CANCELLED", "PAUSED",    NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice queue;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &queue)) {
        table_text(&table, member(cli, queue, "name"));
        add_counts(&table, queue);
        table_text(&table, held_by(cli, queue));
    }
    return table_print(&table);
}

static int list_queues(struct cli *cli)
{
    struct ask ask = ask_for("GET", "queues");
    return cli_ask_and_print(cli, &ask, print_queues);
}

/* ---- pause and resume ---- */

static const struct cli_option pause_options[] = {
    { "reason", "TEXT", "shown to whoever wonders", 0 },
    { 0 },
};

static int print_paused(struct cli *cli, struct slice queue)
{
    printf(is_paused(queue) ? "%s is paused\n" : "%s goes on\n",
           member(cli, queue, "name"));
    return 0;
}

static int pause_queue(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    const char *reason = cli_option(cli, "reason");

    buf_init(&body, 64 << 10);
    int r = cli_name(cli, "queue", cli->args[0]);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "queues/%s/pause", cli->args[0]);
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    if (reason)
        json_put_text(&w, "reason", reason);
    json_end_object(&w);
    r = buf_end(&body, &ask.body);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_paused);
}

static int resume_queue(struct cli *cli)
{
    int r = cli_name(cli, "queue", cli->args[0]);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "queues/%s/resume", cli->args[0]);
    return cli_ask_and_print(cli, &ask, print_paused);
}

/* ---- top ---- */

static const struct cli_option top_options[] = {
    { "interval-ms", "N", "between two looks; 2000", 0 },
    { "count", "N", "how many looks; on a terminal, until you stop it", 'n' },
    { 0 },
};

/* Redrawn in place on a terminal; otherwise one table after another. */
static int print_top(struct cli *cli, struct slice answer)
{
    if (isatty(STDOUT_FILENO))
        printf("\033[H\033[2J");
    int r = print_queues(cli, answer);
    fflush(stdout);
    return r;
}

static int top(struct cli *cli)
{
    struct ask ask = ask_for("GET", "queues");
    int64_t interval_ms = 2000, count = isatty(STDOUT_FILENO) ? INT64_MAX : 1;

    int r = cli_number(cli, "interval-ms", 100, INT_MAX, &interval_ms);
    if (r == 0)
        r = cli_number(cli, "count", 1, INT64_MAX, &count);
    for (int64_t i = 0; r == 0 && i < count; i++) {
        if (i > 0)
            poll(NULL, 0, (int)interval_ms);
        r = cli_ask_and_print(cli, &ask, print_top);
        arena_reset(&cli->arena);
    }
    return r;
}

/* clang-format off */
const struct subcommand queue_commands[] = {
    { "queues", "", "list the queues with their counts", 0, 0,
      .place = ANYWHERE, .role = HF_READER, .run = list_queues },
    { "pause", "QUEUE", "start nothing more of a queue", 1, 1,
      .place = ANYWHERE, .role = HF_PRODUCER, .options = pause_options, .run = pause_queue },
    { "resume", "QUEUE", "let a paused queue go on", 1, 1,
      .place = ANYWHERE, .role = HF_PRODUCER, .run = resume_queue },
    { "top", "", "watch the queues", 0, 0,
      .place = ANYWHERE, .role = HF_READER, .options = top_options, .run = top },
    { 0 },
};
/* clang-format on */
