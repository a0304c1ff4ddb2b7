/* SPDX-License-Identifier: Apache-2.0
 *
 * health.c -- is it alive, may it be sent work, what is it. */
#include "api/call.h"

static void healthz(struct call *call)
{
    struct node_status status;
    node_status(call->api->node, &status);
    if (status.broken)
        call_refuse_with(call, status.broken, NULL,
                         "The store is not trusted any more; the server must be "
                         "restarted.");
    else
        call_answer(call, 200, SLICE("{\"status\":\"ok\"}"));
}

static void readyz(struct call *call)
{
    struct node_status status;
    struct buf buf;

    node_status(call->api->node, &status);
    bool ready = status.ready && !status.broken && !call->api->stopping;
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_bool(&w, "ready", ready);
    json_put_text(&w, "status",
                  call->api->stopping ? "stopping"
                  : status.broken     ? "broken"
                  : status.ready      ? "ready"
                                      : "recovering");
    json_put_bool(&w, "recovering", status.recovering);
    json_put_int(&w, "recovered", status.recovered);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, ready ? 200 : 503, &buf);
}

static void version(struct call *call)
{
    struct buf buf;
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_text(&w, "name", "holdfast");
    json_put_text(&w, "version", call->api->options.version);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 200, &buf);
}

const struct route health_routes[] = {
    { HTTP_GET, "/healthz", ROLE_NONE, healthz, BODY_NONE, false },
    { HTTP_GET, "/readyz", ROLE_NONE, readyz, BODY_NONE, false },
    { HTTP_GET, "version", ROLE_VIEWER, version, BODY_NONE, false },
    { 0 },
};
