/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.c -- queues, pause, resume. */
#include <stdio.h>

#include "cli.h"

static void put_queue(struct json_writer *w, const struct hf_queue *queue)
{
    json_begin_object(w);
    json_put_text(w, "name", queue->name);
    json_put_bool(w, "paused", queue->paused);
    json_put_text(w, "pausedReason", queue->paused_reason);
    json_put_time(w, "pausedAt", queue->paused_at_us);
    for (int state = HF_SCHEDULED; state <= HF_CANCELLED; state++)
        json_put_int(w, hf_state_name(state), queue->jobs[state]);
    json_put_int(w, "accepted", queue->accepted);
    json_put_int(w, "pruned", queue->pruned);
    json_put_int(w, "concurrency", queue->concurrency);
    json_end_object(w);
}

static int print_queues_json(const struct hf_queues *queues)
{
    struct buf buf;
    buf_init(&buf, (size_t)64 << 20);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_key(&w, "items");
    json_begin_array(&w);
    for (size_t i = 0; i < queues->count; i++)
        put_queue(&w, queues->items[i]);
    json_end_array(&w);
    json_end_object(&w);
    json_finish(&w);
    return print_json(&buf);
}

static int print_queues(const struct hf_queues *queues)
{
    static const char *const titles[] = { "QUEUE",     "SCHEDULED", "QUEUED",
                                          "RUNNING",   "COMPLETED", "FAILED",
                                          "CANCELLED", "PAUSED",    NULL };
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < queues->count; i++) {
        const struct hf_queue *q = queues->items[i];
        table_text(&table, q->name);
        table_int(&table, q->jobs[HF_SCHEDULED]);
        table_int(&table, q->jobs[HF_QUEUED]);
        table_int(&table, q->jobs[HF_RUNNING] + q->jobs[HF_CANCELLING]);
        table_int(&table, q->jobs[HF_COMPLETED]);
        table_int(&table, q->jobs[HF_FAILED]);
        table_int(&table, q->jobs[HF_CANCELLED]);
        table_text(&table, !q->paused         ? NULL
                           : q->paused_reason ? q->paused_reason
                                              : "yes");
    }
    return table_print(&table);
}

static int list_queues(struct cli *cli)
{
    struct hf_queues *queues = NULL;
    int r = hf_list_queues(cli->hf, &cli->error, &queues);
    if (r < 0)
        return r;
    r = cli->json ? print_queues_json(queues) : print_queues(queues);
    hf_queues_free(queues);
    return r;
}

static const struct cli_option pause_options[] = {
    { "reason", "TEXT", "shown to whoever wonders" },
    { 0 },
};

static int pause_queue(struct cli *cli)
{
    int r = hf_pause(cli->hf, cli->args[0], cli_option(cli, "reason"), &cli->error);
    if (r == 0)
        printf(cli->json ? "{\"name\":\"%s\",\"paused\":true}\n" : "%s is paused\n",
               cli->args[0]);
    return r;
}

static int resume_queue(struct cli *cli)
{
    int r = hf_resume(cli->hf, cli->args[0], &cli->error);
    if (r == 0)
        printf(cli->json ? "{\"name\":\"%s\",\"paused\":false}\n" : "%s goes on\n",
               cli->args[0]);
    return r;
}

/* clang-format off */
const struct subcommand queue_commands[] = {
    { "queues", "", "list the queues with their counts", 0, 0,
      .role = HF_READER, .run = list_queues },
    { "pause", "QUEUE", "start nothing more of a queue", 1, 1,
      .role = HF_PRODUCER, .options = pause_options, .run = pause_queue },
    { "resume", "QUEUE", "let a paused queue go on", 1, 1,
      .role = HF_PRODUCER, .run = resume_queue },
    { 0 },
};
/* clang-format on */
