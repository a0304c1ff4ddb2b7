/* SPDX-License-Identifier: Apache-2.0
 *
 * door_store_queues.c -- routes about queues, reservations and recoveries, over
 * holdfast.h. */
#include "base/limits.h"
#include "cli/door_store.h"
#include "cli/store_views.h"

/* ---- queues ---- */

/* All of them, or the one that was asked for. */
static int show_queues(struct request *q, bool one)
{
    struct hf_queues *queues = NULL;
    size_t found = 0;
    int r = hf_list_queues(q->hf, &q->why, &queues);
    if (r < 0)
        return r;
    if (!one) {
        json_begin_object(&q->w);
        json_key(&q->w, "items");
        json_begin_array(&q->w);
    }
    for (size_t i = 0; i < queues->count; i++)
        if (!one || strcmp(queues->items[i]->name, q->name) == 0) {
            put_queue(&q->w, queues->items[i]);
            found++;
        }
    if (!one) {
        json_end_array(&q->w);
        json_end_object(&q->w);
    }
    hf_queues_free(queues);
    return one && found == 0 ? error_set(q->error, -HF_NOT_FOUND, NULL,
                                         "There is no queue %s.", q->name)
                             : 0;
}

static int list_queues(struct request *q)
{
    return show_queues(q, false);
}

static int get_queue(struct request *q)
{
    return show_queues(q, true);
}

static int pause_queue(struct request *q)
{
    static const char *const names[] = { "reason" };
    struct slice value;
    const char *reason = NULL;
    int r = request_fields(q, names, 1, &value);
    if (r == 0)
        r = request_text(q, value, "reason", &reason);
    if (r == 0)
        r = hf_pause(q->hf, q->name, reason, &q->why);
    return r < 0 ? r : show_queues(q, true);
}

static int resume_queue(struct request *q)
{
    int r = hf_resume(q->hf, q->name, &q->why);
    return r < 0 ? r : show_queues(q, true);
}

/* ---- reservations ---- */

static int read_hold(struct request *q, const char **ret_holder, int64_t *ret_ttl_ms,
                     int64_t *ret_wait_ms)
{
    static const char *const names[] = { "holder", "ttlMs", "waitMs" };
    struct slice v[3];
    int r = request_fields(q, names, 3, v);
    if (r == 0)
        r = request_text(q, v[0], "holder", ret_holder);
    if (r == 0 && v[1].p)
        r = json_get_int(v[1], "ttlMs", 1, LIMIT_RESERVATION_MS, q->error, ret_ttl_ms);
    if (r == 0 && v[2].p)
        r = json_get_int(v[2], "waitMs", 1, LIMIT_WAIT_MS, q->error, ret_wait_ms);
    return r;
}

static int reserve(struct request *q)
{
    struct hf_reservation made;
    const char *holder = NULL;
    int64_t ttl_ms = 0, wait_ms = 0;
    int r = read_hold(q, &holder, &ttl_ms, &wait_ms);
    if (r == 0)
        r = hf_reserve(q->hf, q->name, holder, ttl_ms, wait_ms, &q->why, &made);
    if (r == 0)
        put_reservation(&q->w, q->name, holder, &made);
    return r;
}

static int renew(struct request *q)
{
    struct hf_reservation held;
    const char *holder = NULL;
    int64_t ttl_ms = 0, wait_ms = 0;
    int r = read_hold(q, &holder, &ttl_ms, &wait_ms);
    if (r == 0)
        r = hf_renew(q->hf, q->id, holder, ttl_ms, &q->why, &held);
    if (r == 0)
        put_reservation(&q->w, q->name, holder, &held);
    return r;
}

static int release(struct request *q)
{
    struct hf_reservation over;
    int r = hf_release(q->hf, q->id, request_param(q, "holder"), &q->why, &over);
    if (r == 0)
        put_reservation(&q->w, q->name, request_param(q, "holder"), &over);
    return r;
}

/* ---- recoveries ---- */

static int list_recoveries(struct request *q)
{
    static const char *const names[] = { "limit", NULL };
    struct hf_recoveries *list = NULL;
    int64_t limit = DEFAULT_PAGE_ITEMS;
    int r = request_params_known(q, names);
    if (r == 0)
        r = request_int(q, "limit", 1, LIMIT_PAGE_ITEMS, &limit);
    if (r == 0)
        r = hf_list_recoveries(q->hf, (size_t)limit, &q->why, &list);
    if (r != 0)
        return r;
    json_begin_object(&q->w);
    json_key(&q->w, "items");
    json_begin_array(&q->w);
    for (size_t i = 0; i < list->count; i++)
        put_recovery(&q->w, list->items[i]);
    json_end_array(&q->w);
    json_end_object(&q->w);
    hf_recoveries_free(list);
    return 0;
}

const struct store_route store_queue_routes[] = {
    { "GET", "queues", list_queues },
    { "GET", "queues/{name}", get_queue },
    { "POST", "queues/{name}/pause", pause_queue },
    { "POST", "queues/{name}/resume", resume_queue },
    { "POST", "queues/{name}/reservations", reserve },
    { "POST", "queues/{name}/reservations/{id}/renew", renew },
    { "DELETE", "queues/{name}/reservations/{id}", release },
    { "GET", "recoveries", list_recoveries },
    { 0 },
};
