/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.h -- clients that follow what happens, by server-sent events.
 *
 * Stored events are read from the store, once for all clients: when this node has
 * committed one, and every poll interval in any case, since other nodes write too.  So
 * what a client gets is what is stored, with its id, and in the order in which it
 * became visible (event_tail.h).  The ordinary three (enqueued, started, completed) are
 * not stored, unless somebody asked for that; they are sent on as this node tells them,
 * without an id.
 *
 * A client may begin behind an id.  It is first given what is stored behind it, at its
 * own pace, and then joins the others.
 *
 * A frame is `id`, `event` (the type) and `data` (JSON).  The `id` is the one to go on
 * from: usually the event's own, on PostgreSQL an earlier one while a transaction is
 * under way that may still bring one in between.  So after going on an event may come
 * a second time, and none is missing.
 *
 * `event: reset` tells that something is missing that cannot be given any more: the
 * event to go on from is gone, or the client was too slow for its bounded buffer.
 * Whoever keeps a picture of things draws it anew; what follows is complete again.
 *
 * Threads: the loop's. */
#pragma once

#include "api/call.h"

struct streams;

enum { STREAM_TYPES = 16 };

/* What a client wants to hear of; absent and 0: anything. */
struct stream_filter {
    struct slice types[STREAM_TYPES]; /* "job.cancelled", or "job.*" */
    size_t type_count;
    struct slice queue, project;
    int64_t job_id;
};

must_check int streams_new(const struct api_options *options, struct streams **ret);
/* All of them have been told that their client is gone. */
void streams_free(struct streams *streams);

/* Answers the call with a stream.  `after` is negative: from now on.  The filter is
 * copied, what it points to must live as long as the call. */
void streams_open(struct streams *streams, struct call *call,
                  const struct stream_filter *filter, int64_t after);

/* Something happened on this node. */
void streams_told(struct streams *streams, const struct event *event, const char *queue,
                  const char *project);

/* Ends them all, and opens none any more. */
void streams_stop(struct streams *streams);
