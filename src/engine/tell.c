/* SPDX-License-Identifier: Apache-2.0
 *
 * tell.c -- events: what the rows themselves do not tell.
 *
 * They are written in the transaction of what they tell about, and handed to
 * whoever listens in this process when it is committed; webhooks that want them
 * have their deliveries written beside them (outbox.c).  The ordinary three
 * (enqueued, started, completed) stand in the rows already: they are handed on
 * in any case, and written only where event_level or a webhook asks for it. */
#include <stdarg.h>

#include "base/buf.h"
#include "base/text.h"
#include "engine/engine.h"

enum { EVENT_DATA_BYTES = 16 << 10 };

void tell_of_job(struct tx *tx, const struct job *job, const struct event *event)
{
    assert(event_type_find(event->type) >= 0); /* else: event_types.c */
    store_event(tx->store, event);
    note_told(tx, event);
    outbox_write(tx, event, job);
}

void tell_event(struct tx *tx, const struct event *event)
{
    tell_of_job(tx, NULL, event);
}

/* The object's inside becomes the object, in the transaction's arena. */
static struct slice data_of(struct tx *tx, const char *format, va_list args)
{
    cleanup(buf_release) struct buf data;
    struct slice text = { 0 };
    buf_init(&data, EVENT_DATA_BYTES);
    buf_byte(&data, '{');
    buf_vprintf(&data, format, args);
    buf_byte(&data, '}');
    int r = store_fail(tx->store, buf_end(&data, &text));
    return r == 0 ? arena_dup(&tx->store->arena, text) : (struct slice){ 0 };
}

static struct event event_of(struct tx *tx, const struct job *job, const char *type,
                             struct slice data)
{
    return (struct event){ .type = slice_of(type),
                           .project_id = job->project_id,
                           .queue_id = job->queue_id,
                           .job_id = job->id,
                           .recovery_id = tx->recovery_id,
                           .data = data };
}

void tell(struct tx *tx, const struct job *job, const char *type, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct slice data = data_of(tx, format, args);
    va_end(args);
    struct event event = event_of(tx, job, type, data);
    if (data.p)
        tell_of_job(tx, job, &event);
}

void tell_webhooks(struct tx *tx, const struct job *job, const char *type,
                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct slice data = data_of(tx, format, args);
    va_end(args);
    struct event event = event_of(tx, job, type, data);
    if (data.p)
        outbox_write(tx, &event, job);
}

const char *quoted(struct tx *tx, struct slice text)
{
    struct buf out;
    struct slice json = { 0 };
    if (!text.p)
        return "null";
    /* Events are for reading: a long message is in the run's row in full. */
    text.n = utf8_fit(text, 1000);
    buf_init(&out, EVENT_DATA_BYTES);
    buf_json(&out, text);
    int r = store_fail(tx->store, buf_end(&out, &json));
    struct slice copy = r == 0 ? arena_dup(&tx->store->arena, json) : (struct slice){ 0 };
    buf_release(&out);
    return copy.p ? copy.p : "null";
}

void tell_ordinary(struct tx *tx, const struct job *job, const char *type)
{
    if (tx->engine->settings.event_level == EVENTS_EVERY ||
        subscriptions_want(&tx->engine->subscriptions, type, job->project_id))
        tell(tx, job, type, "\"kind\":%s", quoted(tx, job->kind));
    else
        note_told(tx, &(struct event){ .type = slice_of(type),
                                       .project_id = job->project_id,
                                       .queue_id = job->queue_id,
                                       .job_id = job->id });
}
