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

/* One that says nothing but: this is all that the file says. */
static struct command *command_named(const char *name)
{
    struct command *c = command_new(OP_QUEUE);
    if (!c)
        return NULL;
    c->queue.name = arena_dup(&c->arena, slice_of(name));
    c->queue.pause = -1;
    c->queue.slots = c->queue.concurrency = c->queue.stale_after_us =
        c->queue.max_retries = c->queue.max_execution_us = c->queue.on_crash = INT64_MIN;
    c->queue.fix = true;
    return c;
}

/* What the commands of a queue may run at once; INT64_MIN if none of them says. */
static int64_t slots_of_commands(const struct config *config, const char *queue)
{
    int64_t sum = INT64_MIN;
    for (size_t i = 0; i < config->command_count; i++) {
        const struct command_config *c = &config->commands[i];
        if (c->concurrency != KNOB_UNSET && strcmp(c->queue, queue) == 0)
            sum = sum == INT64_MIN ? c->concurrency : sum + c->concurrency;
    }
    return sum;
}

static struct command *command_for(const struct config *config,
                                   const struct queue_config *q)
{
    struct command *c = command_named(q->name);
    if (!c)
        return NULL;
    if (q->retry_delays[0])
        c->queue.retry_delays = arena_dup(&c->arena, slice_of(q->retry_delays));
    c->queue.slots =
        q->slots == KNOB_UNSET ? slots_of_commands(config, q->name) : q->slots;
    c->queue.concurrency = value_of(q->concurrency);
    c->queue.stale_after_us = value_of(q->stale_after_us);
    c->queue.max_retries = value_of(q->max_retries);
    c->queue.max_execution_us = value_of(q->max_execution_us);
    c->queue.on_crash = value_of(q->on_crash);
    return c;
}

static void send(struct node *node, struct command *command, struct log *log)
{
    if (!command)
        return;
    command->done = applied;
    command->done_arg = log;
    if (node_report(node, command) < 0)
        command_free(command);
}

/* ---- queues without a section ---- */

struct fixed {
    struct look look; /* first */
    const struct config *config;
    struct log *log;
    struct arena arena;
    const char **names;
    size_t count;
};

static int find_fixed(struct store *store, struct look *look)
{
    struct fixed *f = (struct fixed *)look;
    int r = store_queues_reload(store);
    if (r < 0)
        return r;
    arena_reset(&f->arena);
    f->count = 0;
    f->names = arena_array(&f->arena, const char *, store->queue_count + 1);
    for (size_t i = 0; f->names && i < store->queue_count; i++) {
        const struct queue *q = &store->queues[i]->queue;
        if (q->fixed[0])
            f->names[f->count++] = arena_dup(&f->arena, slice_of(q->name)).p;
    }
    return arena_end(&f->arena);
}

static bool is_queue_section(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->queue_count; i++)
        if (strcmp(config->queues[i].name, name) == 0)
            return true;
    return false;
}

/* Its own, or that of a command which gives it its slots. */
static bool has_section(const struct config *config, const char *name)
{
    return is_queue_section(config, name) || slots_of_commands(config, name) != INT64_MIN;
}

static void release_fixed(struct look *look)
{
    struct fixed *f = (struct fixed *)look;
    for (size_t i = 0; look->result == 0 && i < f->count; i++)
        if (!has_section(f->config, f->names[i])) {
            log_event(f->log, LEVEL_INFO, "queue_released",
                      log_text("queue", f->names[i]),
                      log_text("why", "no section of the configuration names it"));
            send(look->node, command_named(f->names[i]), f->log);
        }
    arena_release(&f->arena);
    free(f);
}

/* For a queue that only commands name. */
static void send_slots(struct node *node, const struct config *config,
                       const struct command_config *command, struct log *log)
{
    if (command->concurrency == KNOB_UNSET || is_queue_section(config, command->queue))
        return;
    struct command *c = command_named(command->queue);
    if (c)
        c->queue.slots = slots_of_commands(config, command->queue);
    send(node, c, log);
}

void queues_apply(struct node *node, const struct config *config, struct log *log)
{
    for (size_t i = 0; i < config->queue_count; i++)
        send(node, command_for(config, &config->queues[i]), log);
    for (size_t i = 0; i < config->command_count; i++)
        send_slots(node, config, &config->commands[i], log);
    struct fixed *f = new (struct fixed);
    if (!f)
        return; /* they stay fixed until the next start */
    f->look = (struct look){ .ask = find_fixed, .done = release_fixed };
    f->config = config;
    f->log = log;
    arena_init(&f->arena, 4096, (size_t)64 << 20);
    if (node_look(node, READER_QUICK, &f->look) < 0) {
        arena_release(&f->arena);
        free(f);
    }
}
