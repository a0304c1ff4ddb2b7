/* SPDX-License-Identifier: Apache-2.0
 *
 * api.h -- the HTTP API as a whole: given to an HTTP server, it answers.
 *
 * It is there from the first moment: while the node still recovers, everything
 * is answered but for /readyz, which says how far it is.
 *
 * Threads: the loop's. */
#pragma once

#include "base/clock.h"
#include "base/log.h"
#include "net/http_server.h"
#include "node/node.h"

struct api;
struct event_base;

/* The output so far of a command that runs here, as JSON in the arena; -HF_NOT_FOUND
 * if there is none.  Called in a reader's thread. */
typedef int api_output(void *arg, int64_t job_id, struct arena *arena,
                       struct error *error, struct slice *ret);

struct api_options {
    struct event_base *loop;
    struct node *node;
    const struct clock *clock;
    struct log *log;           /* may be NULL */
    const char *admin_token;   /* "" or NULL: none */
    bool open;                 /* no token is asked for (loopback, or insecure) */
    const char *allowed_hosts; /* besides loopback names and our own addresses; borrowed,
                                  and may change between two requests */
    int64_t max_body_bytes, max_batch_body_bytes, max_payload_bytes;
    api_output *output; /* NULL: there are no commands */
    void *output_arg;
    /* The operator's command line for the first steps, shown at "/". */
    const char *version;
};

must_check int api_new(const struct api_options *options, struct error *error,
                       struct api **ret);
/* After the server that it was given to, and after the node: calls end with them. */
void api_free(struct api *api);

/* What the API looks like (OpenAPI 3.1), as /openapi.json has it. */
struct slice api_description(void);

/* What the server is to be made with. */
struct http_program api_program(struct api *api);
/* Told once the server listens: metrics ask it, and its addresses are good Hosts. */
void api_listening(struct api *api, struct http_server *server);

/* The limits of a body, from the next request on. */
void api_set_limits(struct api *api, int64_t max_body_bytes,
                    int64_t max_batch_body_bytes);

/* What the node tells; see node_calls. */
void api_told(struct api *api, const struct event *event, const char *queue,
              const char *project);
void api_ready(struct api *api, const char *const *queues, size_t count);

/* The server is about to stop: claims that wait are answered with nothing, streams
 * are ended.  Remote workers are not told to stop: they finish what they have, and
 * report it to the next server. */
void api_stopping(struct api *api);
