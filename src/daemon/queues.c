/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.c -- a command per section. */
#include "daemon/queues.h"

static void applied(struct command *command, void *arg)
{
    if (command->result < 0)
        log_event(arg, LEVEL_ERROR, "queue_setting_refused",
                  log_slice("queue", command->queue.name),
                  log_text("why", command->error.text));
    command_free(command);
}

static int64_t value_of(int64_t setting)
{
    return setting == KNOB_UNSET ? INT64_MIN : setting;
}

static struct command *command_for(const struct queue_config *q)
{
    struct command *c = command_new(OP_QUEUE);
    if (!c)
        return NULL;
    c->queue.name = arena_dup(&c->arena, slice_of(q->name));
    if (q->retry_delays[0])
        c->queue.retry_delays = arena_dup(&c->arena, slice_of(q->retry_delays));
    c->queue.pause = -1;
    c->queue.slots = value_of(q->slots);
    c->queue.concurrency = value_of(q->concurrency);
    c->queue.stale_after_us = value_of(q->stale_after_us);
    c->queue.max_retries = value_of(q->max_retries);
    c->queue.max_execution_us = value_of(q->max_execution_us);
    c->queue.on_crash = value_of(q->on_crash);
    c->queue.fix = true;
    return c;
}

void queues_apply(struct node *node, const struct config *config, struct log *log)
{
    for (size_t i = 0; i < config->queue_count; i++) {
        struct command *c = command_for(&config->queues[i]);
        if (!c)
            continue;
        c->done = applied;
        c->done_arg = log;
        if (node_report(node, c) < 0)
            command_free(c);
    }
}
