/* SPDX-License-Identifier: Apache-2.0
 *
 * holds.c -- reserve, look, wait; and the ways to give up. */
#include "api/holds.h"

#include "api/views.h"

static void look(void *arg);

static void drop(struct command *command, void *arg)
{
    (void)arg;
    command_free(command);
}

void send_and_forget(struct api *api, struct command *command)
{
    if (!command)
        return;
    command->done = drop;
    if (node_report(api->node, command) < 0)
        command_free(command);
}

/* ---- giving up ---- */

void hold_give_up(struct hold *hold)
{
    waiter_end(&hold->waiter);
    struct command *command = hold->id ? command_new(OP_RELEASE) : NULL;
    if (command)
        command->release.reservation_id = hold->id;
    send_and_forget(hold->call->api, command); /* else it expires */
    hold->id = 0;
}

static void refused(struct call *call)
{
    hold_give_up(call->state);
}

/* While the command or a look is under way, its end finds that nobody is there. */
static void gone(struct call *call)
{
    struct hold *hold = call->state;
    if (hold->waiter.link)
        call_refuse_with(call, -HF_CLOSED, NULL, "The client hung up.");
}

/* ---- looking ---- */

int show_reservation(struct store *store, struct show *show, struct json_writer *w)
{
    struct reservation v;
    int r = store_reservation_see(store, show->id, &show->arena, &v);
    if (r == -HF_NOT_FOUND)
        return error_set(&show->look.error, r, NULL, "There is no reservation %lld.",
                         (long long)show->id);
    if (r < 0)
        return r;
    view_reservation(store, w, &v);
    return 0;
}

static int show_hold(struct store *store, struct show *show, struct json_writer *w)
{
    struct hold *hold = show->arg;
    struct reservation v;
    int r = store_reservation_see(store, show->id, &show->arena, &v);
    if (r < 0)
        return r;
    view_reservation(store, w, &v);
    hold->state = v.state;
    return 0;
}

static void wait_more(struct hold *hold)
{
    struct call *call = hold->call;
    if (call->gone || call->api->stopping)
        call_refuse_with(call, -HF_CLOSED, NULL, "The server is stopping; try again.");
    else if (waiter_wait(&call->api->waiters, &hold->waiter, hold->queue_id, US_PER_S) <
             0)
        call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left; try again.");
}

static void seen(struct call *call, struct show *show)
{
    struct hold *hold = call->state;
    long long id = hold->id;
    switch (hold->state) {
    case RESERVATION_ACTIVE:
        call->on_gone = NULL;
        call->on_refused = NULL;
        if (call->gone) {
            hold_give_up(hold);
            call_answer_nothing(call);
        } else {
            hold->granted(call, show);
        }
        break;
    case RESERVATION_RELEASED:
        hold->id = 0;
        call_refuse_with(call, -HF_CONFLICT, NULL,
                         "Reservation %lld was released before it was granted.", id);
        break;
    case RESERVATION_EXPIRED:
        hold->id = 0;
        call_refuse_with(
            call, -HF_TIMEOUT, "waitMs",
            "Reservation %lld was not granted within waitMs: others hold the "
            "queue, or its jobs are still running.",
            id);
        break;
    default:
        wait_more(hold);
    }
}

static void look(void *arg)
{
    struct hold *hold = arg;
    if (hold->call->gone || hold->call->api->stopping)
        wait_more(hold);
    else
        call_show_then(hold->call, READER_QUICK, hold->id, hold, show_hold, seen);
}

/* ---- reserving ---- */

static void reserved(struct call *call, struct command *command)
{
    struct hold *hold = call->state;
    hold->id = command->reserve.out.id;
    hold->queue_id = command->reserve.out.queue_id;
    look(hold);
}

void hold_begin(struct call *call, struct hold *hold, struct slice queue,
                struct slice holder, int64_t ttl_ms, int64_t wait_ms, bool direct)
{
    struct command *command = call_command(call, OP_RESERVE);
    if (!command)
        return;
    hold->call = call;
    hold->waiter.woken = look;
    hold->waiter.arg = hold;
    call->state = hold;
    call->on_gone = gone;
    call->on_refused = refused;
    command->reserve.queue = queue;
    command->reserve.holder = holder;
    command->reserve.ttl_us = ttl_ms * US_PER_MS;
    command->reserve.wait_us = wait_ms * US_PER_MS;
    command->reserve.direct = direct;
    call_submit(call, command, reserved);
}
