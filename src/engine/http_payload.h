/* SPDX-License-Identifier: Apache-2.0
 *
 * http_payload.h -- what a job of kind http is asked to do.
 *
 *   {"url": "https://example.com/hook", "method": "POST",
 *    "headers": {"Authorization": "Bearer ..."}, "body": {"any": "JSON"},
 *    "timeoutMs": 10000, "expectedStatuses": [200, "202-204"]}
 *
 * Only `url` is required.  A `body` that is a string is sent as it is, anything else
 * as the JSON it is written in, byte for byte; null is no body.  Without `timeoutMs`
 * the run's deadline is the limit, without `expectedStatuses` 200-299 are expected.
 *
 * It is here, and not with the executor, because a job that can never run is refused
 * when it is enqueued, with a sentence, wherever that happens.  Nothing here knows
 * how a request is sent.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base/arena.h"
#include "base/status.h"

struct http_payload_header {
    struct slice name, value;
};

struct http_status_range {
    int first, last;
};

struct http_payload {
    struct slice url, method;
    struct http_payload_header *headers; /* no name twice, whatever its case */
    size_t header_count;
    struct slice body; /* absent: none */
    bool body_is_json;
    int64_t timeout_ms; /* 0: the deadline */
    struct http_status_range *expected;
    size_t expected_count; /* at least one */
};

/* Reads a payload that is valid JSON (json_check); slices are in the arena or in
 * `payload`.  -HF_INVALID with the field to blame, as "payload.url", or -HF_NOMEM. */
must_check int http_payload_read(struct slice payload, struct arena *arena,
                                 struct error *error, struct http_payload *ret);

/* The same, only to know whether it can be read; absent is refused too. */
must_check int http_payload_check(struct slice payload, struct error *error);

/* A job of an endpoint has {"endpointId":"ID"} for its payload, and is given the
 * endpoint's request when it is claimed.  The id; 0: it is no such payload.  Only
 * schedules make such jobs: http_payload_check() refuses it. */
int64_t http_payload_endpoint(struct slice payload);

/* Whether this status is one of those that complete the job. */
bool http_payload_expects(const struct http_payload *payload, int status);
