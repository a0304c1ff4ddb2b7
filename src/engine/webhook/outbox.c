/* SPDX-License-Identifier: Apache-2.0
 *
 * outbox.c -- an event becomes deliveries, one for each webhook that wants it.
 *
 * The body is what Standard Webhooks asks for, {"type", "timestamp", "data"}.  In its
 * data stands first what the event is about, by names where there are some: the job
 * with its queue, kind, project and attempt; or the queue, the project; the owner, the
 * recovery.  Behind that come the event's own members. */
#include "base/buf.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "store/webhooks.h"

/* Names that are ours: an event's own member of that name says the same.  The last two
 * are told with the job, where there is one. */
static bool is_ours(struct slice raw_key, bool of_job)
{
    static const char *const names[] = { "job",        "queue", "project", "ownerId",
                                         "recoveryId", "kind",  "attempt" };
    for (size_t i = 0; i < array_len(names) - (of_job ? 0 : 2); i++)
        if (json_string_is(raw_key, slice_of(names[i])))
            return true;
    return false;
}

static const char *queue_name(struct tx *tx, int64_t id)
{
    struct queue_entry *entry = id ? store_queue_by_id(tx->store, id) : NULL;
    return entry ? entry->queue.name : NULL;
}

static const char *project_name(struct tx *tx, int64_t id)
{
    return id ? store_project_name(tx->store, id) : NULL;
}

/* Completions load nothing, and some events know only the id of their job. */
static int describe(struct tx *tx, const struct event *event, const struct job *job,
                    struct job_brief *ret)
{
    struct job_brief *found = NULL;
    size_t count = 0;
    *ret = (struct job_brief){ .id = event->job_id };
    if (job && job->kind.p) {
        ret->kind = job->kind;
        ret->attempt = job->attempt;
        return 0;
    }
    int r = store_flush(tx->store);
    if (r == 0)
        r = store_job_briefs(tx->store, &event->job_id, 1, &tx->store->arena, &found,
                             &count);
    if (r == 0 && count == 1)
        *ret = *found;
    return r;
}

static void put_subject(struct tx *tx, struct json_writer *w, const struct event *event,
                        const struct job_brief *job)
{
    int64_t queue_id = event->queue_id ? event->queue_id : job->queue_id;
    const char *queue = queue_name(tx, queue_id);
    const char *project = project_name(tx, event->project_id);
    if (event->job_id) {
        json_key(w, "job");
        json_begin_object(w);
        json_put_id(w, "id", event->job_id);
        json_put_text(w, "project", project);
        json_put_text(w, "queue", queue);
        json_put_str(w, "kind", job->kind);
        json_put_int(w, "attempt", job->attempt);
        json_end_object(w);
    } else if (queue) {
        json_put_text(w, "queue", queue);
    } else if (project || event->webhook_id) {
        json_put_text(w, "project", project);
    }
    if (event->owner_id)
        json_put_id(w, "ownerId", event->owner_id);
    if (event->recovery_id)
        json_put_id(w, "recoveryId", event->recovery_id);
}

/* What is longer than a body may be is left out, and its length told: the event itself
 * has it. */
static void put_own(struct json_writer *w, struct slice data, bool of_job)
{
    struct slice key, value;
    if (!data.p || json_kind_of(data) != JSON_KIND_OBJECT)
        return;
    if (data.n > LIMIT_DELIVERY_BODY_BYTES - 4096) {
        json_put_int(w, "omittedBytes", (int64_t)data.n);
        return;
    }
    struct json_iter it = json_iter(data);
    while (json_object_next(&it, &key, &value)) {
        if (is_ours(key, of_job))
            continue;
        /* Keys of our own events need no decoding. */
        json_key_slice(w, (struct slice){ key.p + 1, key.n - 2 });
        json_raw(w, value);
    }
}

static struct slice write_body(struct tx *tx, const struct event *event,
                               const struct job_brief *job)
{
    cleanup(buf_release) struct buf buf;
    struct slice text = { 0 };
    buf_init(&buf, LIMIT_DELIVERY_BODY_BYTES);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_str(&w, "type", event->type);
    json_put_time(&w, "timestamp", tx->now);
    json_key(&w, "data");
    json_begin_object(&w);
    put_subject(tx, &w, event, job);
    put_own(&w, event->data, event->job_id != 0);
    json_end_object(&w);
    json_end_object(&w);
    json_finish(&w);
    int r = store_fail(tx->store, buf_end(&buf, &text));
    return r == 0 ? arena_dup(&tx->store->arena, text) : (struct slice){ 0 };
}

static int64_t post(struct tx *tx, int64_t webhook_id, bool active,
                    const struct event *event, struct slice body)
{
    int64_t id = store_id(tx->store);
    if (id == 0)
        return 0;
    store_delivery_insert(tx->store, &(struct delivery){ .id = id,
                                                         .webhook_id = webhook_id,
                                                         .type = event->type,
                                                         .job_id = event->job_id,
                                                         .body = body });
    tx->engine->totals.work.deliveries++;
    if (active)
        note_deliveries(tx->engine);
    return id;
}

static struct slice body_of(struct tx *tx, const struct event *event,
                            const struct job *job)
{
    struct job_brief brief = { 0 };
    if (event->job_id && describe(tx, event, job, &brief) < 0)
        return (struct slice){ 0 };
    return write_body(tx, event, &brief);
}

void outbox_write(struct tx *tx, const struct event *event, const struct job *job)
{
    const struct subscriptions *s = &tx->engine->subscriptions;
    struct slice body = { 0 };
    if (s->count == 0)
        return;
    int place = event_type_find(event->type);
    if (!event_set_has(&s->wanted, place))
        return;
    for (size_t i = 0; i < s->count; i++) {
        const struct subscription *one = &s->list[i];
        if (!event_set_has(&one->wants, place) || one->id == event->webhook_id ||
            !subscription_hears(one, event->project_id))
            continue;
        if (!body.p)
            body = body_of(tx, event, job);
        if (!body.p) /* the store has failed, and says so */
            return;
        (void)post(tx, one->id, one->active, event, body);
    }
}

int64_t outbox_write_to(struct tx *tx, const struct event *event, bool active)
{
    struct slice body = body_of(tx, event, NULL);
    return body.p ? post(tx, event->webhook_id, active, event, body) : 0;
}
