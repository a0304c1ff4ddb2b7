/* SPDX-License-Identifier: Apache-2.0
 *
 * event_types.c -- GET /event-types: what can be subscribed to, with an example each. */
#include "engine/event_types.h"

#include "api/call.h"

static void put_type(struct json_writer *w, const struct event_type *type)
{
    json_begin_object(w);
    json_put_text(w, "type", type->name);
    json_put_text(w, "about", type->about);
    json_put_text(w, "meaning", type->meaning);
    json_put_bool(w, "webhooksOnly", type->webhooks_only);
    json_put_bool(w, "subscribable", !type->private);
    json_put_raw(w, "example", slice_of(type->example));
    json_end_object(w);
}

static void get_types(struct call *call)
{
    struct buf buf;
    size_t count = 0;
    const struct event_type *types = event_types(&count);
    if (!call_query_known(call, NULL, 0))
        return;
    buf_init(&buf, 1 << 20);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_key(&w, "items");
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        put_type(&w, &types[i]);
    json_end_array(&w);
    json_put_null(&w, "nextCursor");
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 200, &buf);
}

const struct route event_type_routes[] = {
    { HTTP_GET, "event-types", ROLE_VIEWER, get_types, BODY_NONE, false },
    { 0 },
};
