/* SPDX-License-Identifier: Apache-2.0
 *
 * reservations.c -- a queue held for one caller: asked for, listed, renewed, released. */
#include "api/holds.h"
#include "api/views.h"
#include "base/limits.h"

/* ---- asked for ---- */

static int read_holder(struct slice value, struct arena *arena, struct error *error,
                       struct slice *ret)
{
    if (!value.p)
        return error_set(error, -HF_INVALID, "holder",
                         "holder is missing; it says who holds the queue.");
    int r = json_get_text(value, "holder", LIMIT_TEXT_BYTES, arena, error, ret);
    if (r == 0 && ret->n == 0)
        r = error_set(error, -HF_INVALID, "holder",
                      "holder is empty; it says who holds the queue.");
    return r;
}

static void reserve(struct call *call)
{
    static const char *const names[] = { "holder", "ttlMs", "waitMs" };
    struct slice v[3], queue, holder = { 0 };
    struct error error = { 0 };
    int64_t ttl_ms = DEFAULT_RESERVATION_MS, wait_ms = DEFAULT_WAIT_MS;
    if (!call_name(call, 0, "queue", &queue) || !call_fields(call, names, 3, v))
        return;
    int r = read_holder(v[0], call->arena, &error, &holder);
    if (r == 0 && v[1].p)
        r = json_get_int(v[1], "ttlMs", 1, LIMIT_RESERVATION_MS, &error, &ttl_ms);
    if (r == 0 && v[2].p)
        r = json_get_int(v[2], "waitMs", 0, LIMIT_WAIT_MS, &error, &wait_ms);
    struct hold *hold = arena_new(call->arena, struct hold);
    if (r == 0 && !hold)
        r = error_set(&error, -HF_NOMEM, NULL, "There is no memory left; try again.");
    if (r < 0) {
        call_refuse(call, &error);
        return;
    }
    *hold = (struct hold){ .granted = call_made };
    hold_begin(call, hold, queue, holder, ttl_ms, wait_ms, false);
}

/* ---- listed ---- */

static int show_reservations(struct store *store, struct show *show,
                             struct json_writer *w)
{
    const struct slice *name = show->arg;
    struct queue_entry *queue = NULL;
    struct reservation *list = NULL;
    size_t count = 0;
    int r = store_queue(store, *name, false, &queue);
    if (r == -HF_NOT_FOUND)
        return error_set(&show->look.error, r, NULL, "There is no queue %.*s.",
                         (int)name->n, name->p);
    if (r == 0)
        r = store_reservations(store, queue->queue.id, &show->arena, &list, &count);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        view_reservation(store, w, &list[i]);
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static void get_reservations(struct call *call)
{
    struct slice queue;
    if (call_query_known(call, NULL, 0) && call_name(call, 0, "queue", &queue))
        call_show(call, READER_QUICK, 0, &call->params[0], show_reservations);
}

/* ---- ended, and made longer ---- */

static void released(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->release.reservation_id, NULL,
              show_reservation);
}

/* With its holder named it must be the holder's; without, an operator takes it away. */
static void release(struct call *call)
{
    static const char *const known[] = { "holder" };
    struct slice queue;
    int64_t id = 0;
    if (!call_name(call, 0, "queue", &queue) || !call_id(call, 1, &id) ||
        !call_query_known(call, known, 1))
        return;
    struct command *command = call_command(call, OP_RELEASE);
    if (!command)
        return;
    command->release.reservation_id = id;
    command->release.queue = queue;
    command->release.holder = call_query(call, "holder");
    call_submit(call, command, released);
}

static void renewed(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->renew.reservation_id, NULL, show_reservation);
}

static void renew(struct call *call)
{
    static const char *const names[] = { "holder", "ttlMs" };
    struct slice v[2], queue;
    struct error error = { 0 };
    int64_t id = 0, ttl_ms = 0;
    if (!call_name(call, 0, "queue", &queue) || !call_id(call, 1, &id) ||
        !call_fields(call, names, 2, v))
        return;
    struct command *command = call_command(call, OP_RENEW);
    if (!command)
        return;
    int r = read_holder(v[0], &command->arena, &error, &command->renew.holder);
    if (r == 0 && v[1].p)
        r = json_get_int(v[1], "ttlMs", 1, LIMIT_RESERVATION_MS, &error, &ttl_ms);
    command->renew.reservation_id = id;
    command->renew.queue = queue;
    command->renew.ttl_us = ttl_ms * US_PER_MS;
    call_submit_read(call, command, r, &error, renewed);
}

#define OF_QUEUE "queues/{queue}/reservations"
const struct route reservation_routes[] = {
    { HTTP_POST, OF_QUEUE, ROLE_OPERATOR, reserve, BODY_SMALL, true },
    { HTTP_GET, OF_QUEUE, ROLE_VIEWER, get_reservations, BODY_NONE, true },
    { HTTP_DELETE, OF_QUEUE "/{id}", ROLE_OPERATOR, release, BODY_NONE, true },
    { HTTP_POST, OF_QUEUE "/{id}/renew", ROLE_OPERATOR, renew, BODY_SMALL, true },
    { 0 },
};
