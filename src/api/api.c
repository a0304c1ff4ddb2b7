/* SPDX-License-Identifier: Apache-2.0
 *
 * api.c -- from a request to its route, and from the node's news to who waits. */
#include "api/api.h"

#include <stdio.h>

#include "api/call.h"
#include "api/http_figures.h"
#include "api/streams.h"

/* ---- requests ---- */

static void on_gone(struct http_request *request)
{
    struct call *call = request->user;
    call->gone = true;
    if (call->on_gone)
        call->on_gone(call);
}

static void refuse_method(struct call *call, unsigned allowed)
{
    char list[64] = "";
    struct http_pair header = { SLICE("Allow"), { 0 } };
    static const char body[] =
        "{\"type\":\"method-not-allowed\",\"title\":\"Not with this method\","
        "\"status\":405,\"detail\":\"This path is there, but not with this method; see "
        "the Allow header.\"}";

    for (int m = 0; m <= HTTP_OPTIONS; m++)
        if (allowed & 1u << m) {
            size_t n = strlen(list);
            snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
                     http_method_name((enum http_method)m));
        }
    header.value = slice_of(list);
    http_answer(call->request, &(struct http_answer){ .status = 405,
                                                      .type = "application/problem+json",
                                                      .body = SLICE(body),
                                                      .headers = &header,
                                                      .header_count = 1 });
}

/* What can be told from the head alone is told before the body is read. */
static void on_head(void *user, struct http_request *request)
{
    struct api *api = user;
    unsigned allowed = 0;
    struct error error = { 0 };
    struct call *call = arena_new(request->arena, struct call);

    if (!call) {
        http_answer(request, &(struct http_answer){ .status = 503 });
        return;
    }
    *call = (struct call){ .api = api, .request = request, .arena = request->arena };
    request->user = call;
    request->on_gone = on_gone;
    call->route = route_find(&request->head, call->params, &allowed);
    int r = auth_check(api->auth, request, api->server, call->route, &call->who, &error);
    if (r < 0) {
        call_refuse(call, &error);
    } else if (!call->route && allowed) {
        refuse_method(call, allowed);
    } else if (!call->route) {
        int shown = (int)(request->head.path.n > 100 ? 100 : request->head.path.n);
        call_refuse_with(call, -HF_NOT_FOUND, NULL,
                         "There is nothing at %.*s; /openapi.json lists what there is.",
                         shown, request->head.path.p);
    } else {
        request->body_bytes_max = call->route->body == BODY_BATCH
                                      ? (size_t)api->options.max_batch_body_bytes
                                      : (size_t)api->options.max_body_bytes;
    }
}

static void on_request(void *user, struct http_request *request)
{
    struct call *call = request->user;
    (void)user;
    call->route->handle(call);
}

/* A request for which there was no memory has no call. */
static void on_done(void *user, const struct http_request *request,
                    const struct http_outcome *outcome)
{
    struct api *api = user;
    const struct call *call = request->user;
    http_figures_count(api->http_figures, call ? call->route : NULL, outcome->status,
                       outcome->took_us);
}

struct http_program api_program(struct api *api)
{
    return (struct http_program){
        .user = api, .on_head = on_head, .on_request = on_request, .on_done = on_done
    };
}

void api_listening(struct api *api, struct http_server *server)
{
    api->server = server;
}

void api_set_limits(struct api *api, int64_t max_body_bytes, int64_t max_batch_body_bytes)
{
    api->options.max_body_bytes = max_body_bytes;
    api->options.max_batch_body_bytes = max_batch_body_bytes;
}

/* ---- the node's news ---- */

void api_told(struct api *api, const struct event *event, const char *queue,
              const char *project)
{
    streams_told(api->streams, event, queue, project);
    if (event->job_id)
        waiters_wake(&api->waiters, event->job_id);
    if (event->queue_id && !event->job_id)
        waiters_wake(&api->waiters, event->queue_id);
}

void api_ready(struct api *api, const char *const *queues, size_t count)
{
    claims_ready(api, queues, count);
}

void api_stopping(struct api *api)
{
    api->stopping = true;
    waiters_wake_all(&api->waiters);
    claims_stopping(api);
    streams_stop(api->streams);
}

/* ---- beginning and end ---- */

int api_new(const struct api_options *options, struct error *error, struct api **ret)
{
    struct api *api = new (struct api);
    if (!api)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    api->options = *options;
    api->node = options->node;
    api->waiters.loop = options->loop;
    buf_init(&api->scratch, (size_t)4 << 20);
    int r = token_cache_new(options->loop, options->node, &api->tokens);
    if (r == 0)
        r = auth_new(options->admin_token, options->open, options->allowed_hosts,
                     api->tokens, error, &api->auth);
    if (r == 0 && (http_figures_new(&api->http_figures) < 0 ||
                   streams_new(options, &api->streams) < 0))
        r = error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    if (r < 0) {
        error_set(error, r, NULL, "The API cannot be made: %s.", status_of(r)->title);
        api_free(api);
        return r;
    }
    *ret = api;
    return 0;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    buf_release(&api->scratch);
    streams_free(api->streams);
    auth_free(api->auth);
    token_cache_free(api->tokens);
    http_figures_free(api->http_figures);
    free(api);
}
