/* SPDX-License-Identifier: Apache-2.0
 *
 * health.c -- is it alive, may it be sent work, what is it. */
#include <stdio.h>

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

/* Why it is not ready, for a load balancer and for whoever looks after it.  Nobody needs
 * a token to ask, so what the store itself said is for the log alone. */
static const char *readiness(const struct api *api, const struct node_status *status,
                             char reason[200])
{
    const char *why = NULL, *then = "", *word = "ready";
    if (api->stopping) {
        word = "stopping";
        why = "The server is shutting down; it starts nothing more.";
    } else if (status->broken) {
        word = "broken";
        why = "The store is not trusted any more; the server must be restarted.";
    } else if (status->away) {
        word = "unavailable";
        why = status_of(status->away)->title;
        then = ". Changes are refused until the store takes them again, which is tried "
               "all the time.";
    } else if (!status->ready) {
        word = "recovering";
        why = "What was left running is being resolved; workers start after that.";
    }
    snprintf(reason, 200, "%s%s", why ? why : "", then);
    return word;
}

static void readyz(struct call *call)
{
    struct node_status status;
    struct buf buf;
    char reason[200];

    node_status(call->api->node, &status);
    const char *word = readiness(call->api, &status, reason);
    bool ready = reason[0] == '\0';
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_bool(&w, "ready", ready);
    json_put_text(&w, "status", word);
    json_put_text(&w, "reason", ready ? NULL : reason);
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
