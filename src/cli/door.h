/* SPDX-License-Identifier: Apache-2.0
 *
 * door.h -- whoever answers: the server, or the store itself.
 *
 * Why it exists: a person asks the same things of a running server and of a store
 * that nobody serves.  So a subcommand asks as a client of the HTTP API does
 * (method, path, parameters, JSON), and prints from the JSON of the answer; which
 * of the two doors it went through, it does not know.
 *
 *   door_to_server()  sends it, over TCP or a Unix socket (door_server.c)
 *   door_to_store()   answers the routes it knows through holdfast.h, in the words
 *                     of the API (door_store.c); a route or parameter that only a
 *                     server has is refused with a sentence that says so
 *
 * Threads: a door belongs to one. */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

enum { ASK_PARAMS = 16, ASK_PATH_BYTES = 300 };

struct ask {
    const char *method;
    char path[ASK_PATH_BYTES]; /* below /api/v1; its parts need no escapes */
    struct ask_param {
        const char *name, *value; /* as they are, without escapes */
    } params[ASK_PARAMS];
    size_t param_count;
    struct slice body;           /* JSON; absent: none */
    const char *idempotency_key; /* NULL: none */
    int64_t wait_ms;             /* how long the other side was asked to wait */
};

/* An event as it comes, JSON; anything but 0 ends the stream with that code.  Between
 * events it is called with an absent slice, now and then. */
typedef int door_event(void *arg, struct slice event);

struct door {
    const struct door_kind *kind;
};

struct door_kind {
    /* `answer` is empty, and filled with JSON that has been checked, or stays empty
     * if there is nothing to tell.  Otherwise a negative code with its sentence. */
    int (*ask)(struct door *door, const struct ask *ask, struct error *error,
               struct buf *answer);
    /* Events, oldest first, without end. */
    int (*follow)(struct door *door, const struct ask *ask, struct error *error,
                  door_event *event, void *arg);
    void (*close)(struct door *door);
};

/* `url` is http://HOST:PORT, https://... or unix:PATH; `token` may be NULL. */
must_check int door_to_server(const char *url, const char *token, struct error *error,
                              struct door **ret);

/* On a store that is open, and stays the caller's. */
must_check int door_to_store(struct hf *hf, struct error *error, struct door **ret);

/* NULL is fine. */
void door_close(struct door *door);

/* Adds a parameter, if there is a value. */
void ask_param(struct ask *ask, const char *name, const char *value);
