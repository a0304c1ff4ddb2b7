/* SPDX-License-Identifier: Apache-2.0
 *
 * The node as a webhook sender sees it: an outbox in memory that gives out what is due
 * and is told how it went, a turn of the loop later; and a receiver (http_peer.h) that
 * writes down whose deliveries it got, in which order. */
#pragma once

#include "exec/webhook_sender.h"
#include "http_peer.h"

enum { OUTBOX_MAX = 4096, OUTBOX_COMMANDS = 16 };

struct outbox_row {
    struct sending sending;
    char url[300];
    enum { DUE, TAKEN, DONE } state;
    int given, heard, reports, unsent;
    struct delivered told; /* the last; error and response are NUL-terminated copies */
    char error[600], response[9000];
};

struct outbox {
    struct clock clock; /* first; the machine's, ahead by ... */
    int64_t ahead_us;   /* ... this much, both of its times */
    struct event_base *base;
    struct peer peer;
    struct address_policy *policy;
    struct webhook_sender *sender;
    struct event *turn;
    struct outbox_row *rows;
    size_t count;
    size_t ahead;      /* of a webhook, given out at once; 0: any number */
    bool closed;       /* takes no commands */
    int64_t commit_us; /* what a pile takes */
    bool lose;         /* the next take is applied, and its answer lost */
    int fail;          /* so many commands fail, with ... */
    int fail_with;     /* ... this */
    int failed;
    int takes, reports; /* commands so far */
    size_t asked_most, taken_now, taken_most, taken_bytes;
    struct command *commands[OUTBOX_COMMANDS];
    size_t command_count;
    int64_t order[OUTBOX_MAX]; /* webhook-ids as the receiver got them */
    size_t order_count;
};

static inline int64_t outbox_wall(const struct clock *clock)
{
    return clock_wall_us(&clock_system) + ((const struct outbox *)clock)->ahead_us;
}

static inline int64_t outbox_mono(const struct clock *clock)
{
    return clock_mono_us(&clock_system) + ((const struct outbox *)clock)->ahead_us;
}

/* ---- the receiver ---- */

static inline void outbox_heard(void *arg, const char *request)
{
    struct outbox *box = arg;
    const char *id = strstr(request, "\r\nwebhook-id: ");

    check(id && box->order_count < OUTBOX_MAX);
    int64_t n = atol(id + 14);
    check(n >= 1 && (size_t)n <= box->count);
    box->rows[n - 1].heard++;
    box->order[box->order_count++] = n;
}

/* ---- the node ---- */

static inline size_t outbox_taken(const struct outbox *box, int64_t webhook_id)
{
    size_t n = 0;

    for (size_t i = 0; i < box->count; i++)
        n += box->rows[i].state == TAKEN && box->rows[i].sending.webhook_id == webhook_id;
    return n;
}

static inline void outbox_give(struct outbox *box, struct command *command)
{
    size_t n = 0, bytes = 0;

    box->takes++;
    for (size_t i = 0; command->deliveries.anew && i < box->count; i++) {
        box->taken_now -= box->rows[i].state == TAKEN;
        if (box->rows[i].state == TAKEN)
            box->rows[i].state = DUE;
    }
    if (command->deliveries.count > box->asked_most)
        box->asked_most = command->deliveries.count;
    command->deliveries.out =
        arena_array(&command->arena, struct sending, command->deliveries.count);
    check(command->deliveries.out != NULL);
    for (size_t i = 0; i < box->count; i++) {
        struct outbox_row *row = &box->rows[i];
        if (row->state != DUE)
            continue;
        if (n == command->deliveries.count || bytes >= command->deliveries.bytes ||
            (box->ahead && outbox_taken(box, row->sending.webhook_id) >= box->ahead)) {
            command->deliveries.out_more = true;
            continue;
        }
        row->state = TAKEN;
        row->given++;
        bytes += row->sending.body.n;
        box->taken_now++;
        box->taken_bytes += row->sending.body.n;
        command->deliveries.out[n++] = row->sending;
    }
    if (box->taken_now > box->taken_most)
        box->taken_most = box->taken_now;
    command->deliveries.out_count = n;
}

static inline void outbox_hear(struct outbox *box, const struct delivered *d)
{
    struct outbox_row *row = &box->rows[d->id - 1];

    check_int(row->state, TAKEN);
    box->taken_now--;
    box->taken_bytes -= row->sending.body.n;
    row->state = d->unsent ? DUE : DONE;
    row->unsent += d->unsent;
    row->reports += !d->unsent;
    row->told = *d;
    snprintf(row->error, sizeof(row->error), "%.*s", (int)d->error.n,
             d->error.p ? d->error.p : "");
    snprintf(row->response, sizeof(row->response), "%.*s", (int)d->response.n,
             d->response.p ? d->response.p : "");
}

static inline void outbox_answer(struct outbox *box, struct command *command)
{
    if (box->lose && command->op == OP_DELIVERIES) {
        outbox_give(box, command);
        box->lose = false;
        command->result = -HF_UNKNOWN;
    } else if (box->fail > 0) {
        box->fail--;
        box->failed++;
        command->result = box->fail_with;
    } else if (command->op == OP_DELIVERIES) {
        outbox_give(box, command);
    } else {
        box->reports++;
        check(command->op == OP_DELIVERED && command->delivered.count > 0);
        for (size_t i = 0; i < command->delivered.count; i++)
            outbox_hear(box, &command->delivered.list[i]);
    }
    command->done(command, command->done_arg);
}

/* All that has come so far is one pile. */
static inline void outbox_turn(evutil_socket_t fd, short what, void *arg)
{
    struct outbox *box = arg;
    struct command *pile[OUTBOX_COMMANDS];
    size_t n = box->command_count;

    (void)fd, (void)what;
    memcpy(pile, box->commands, sizeof(pile));
    box->command_count = 0;
    for (size_t i = 0; i < n; i++)
        outbox_answer(box, pile[i]);
}

static inline int outbox_submit(void *arg, struct command *command)
{
    struct outbox *box = arg;

    if (box->closed)
        return -HF_CLOSED;
    check(box->command_count < OUTBOX_COMMANDS);
    box->commands[box->command_count++] = command;
    if (box->command_count == 1)
        check_int(evtimer_add(box->turn, &(struct timeval){ .tv_usec = box->commit_us }),
                  0);
    return 0;
}

/* ---- a test ---- */

static inline void outbox_begin(struct outbox *box, const char *deny_networks,
                                int64_t grace_ms)
{
    struct error error = { 0 };

    *box = (struct outbox){ .clock = { .wall_us = outbox_wall, .mono_us = outbox_mono } };
    box->base = event_base_new();
    box->rows = calloc(OUTBOX_MAX, sizeof(*box->rows));
    check(box->base && box->rows);
    peer_begin(&box->peer, box->base, false);
    box->peer.heard = outbox_heard;
    box->peer.heard_arg = box;
    box->turn = evtimer_new(box->base, outbox_turn, box);
    check_ok(address_policy_new(slice_of(deny_networks), &error, &box->policy));
    check_ok(webhook_sender_new(&(struct webhook_sender_options){ .loop = box->base,
                                                                  .policy = box->policy,
                                                                  .clock = &box->clock,
                                                                  .submit = outbox_submit,
                                                                  .arg = box,
                                                                  .grace_ms = grace_ms },
                                &error, &box->sender));
}

static inline void outbox_end(struct outbox *box)
{
    box->closed = true;
    for (size_t i = 0; i < box->command_count; i++) {
        box->commands[i]->result = -HF_CLOSED;
        box->commands[i]->done(box->commands[i], box->commands[i]->done_arg);
    }
    webhook_sender_free(box->sender);
    address_policy_free(box->policy);
    peer_end(&box->peer);
    event_free(box->turn);
    event_base_free(box->base);
    free(box->rows);
}

/* One more delivery of this webhook, to this path; a path with :// is a whole url.
 * Ids count from 1. */
static inline struct outbox_row *outbox_add(struct outbox *box, int64_t webhook_id,
                                            int64_t in_flight, const char *path)
{
    struct outbox_row *row = &box->rows[box->count];

    check(box->count < OUTBOX_MAX);
    if (strstr(path, "://"))
        snprintf(row->url, sizeof(row->url), "%s", path);
    else
        snprintf(row->url, sizeof(row->url), "http://127.0.0.1:%d%s", box->peer.port,
                 path);
    row->sending = (struct sending){ .id = (int64_t)++box->count,
                                     .webhook_id = webhook_id,
                                     .in_flight = in_flight,
                                     .timeout_us = 60 * US_PER_S,
                                     .url = slice_of(row->url),
                                     .body = SLICE("{\"type\":\"job.failed\"}"),
                                     .secret = SLICE("0123456789abcdef01234567") };
    return row;
}

static inline void outbox_loop(struct outbox *box)
{
    check_int(event_base_loop(box->base, EVLOOP_ONCE), 0);
}

static inline size_t outbox_done(const struct outbox *box)
{
    size_t n = 0;

    for (size_t i = 0; i < box->count; i++)
        n += box->rows[i].state == DONE;
    return n;
}

static inline void outbox_wait_done(struct outbox *box, size_t count)
{
    while (outbox_done(box) < count)
        outbox_loop(box);
}

/* Says that there is something due, and waits until all of it is done. */
static inline void outbox_run(struct outbox *box)
{
    webhook_sender_due(box->sender);
    outbox_wait_done(box, box->count);
    while (webhook_sender_busy(box->sender) > 0)
        outbox_loop(box);
}
