/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint_json.h -- endpoints as JSON: read from a request, and shown.
 *
 * An endpoint has the fields of a schedule (schedule_json.h), but for kind and payload,
 * and those of its request.  A header is a text, or
 *
 *   "Authorization": {"value": "Bearer ...", "secret": true}
 *
 * whose value is never shown again: what is shown is {"secret": true}, and giving that
 * back keeps the value that is there.
 *
 * Threads: reading is the loop's; what takes a store is a reader's. */
#pragma once

#include "api/schedule_json.h"
#include "engine/settings.h"

enum endpoint_field {
    ENDPOINT_URL = SCHEDULE_SHARED,
    ENDPOINT_METHOD,
    ENDPOINT_HEADERS,
    ENDPOINT_BODY,
    ENDPOINT_TIMEOUT,
    ENDPOINT_EXPECTED,
    ENDPOINT_FIELDS
};

/* As clients call them; those of a schedule first. */
void endpoint_field_names(const char *names[ENDPOINT_FIELDS]);

/* Reads them into an edit, as schedule_read() does. */
must_check int endpoint_read(const struct slice values[ENDPOINT_FIELDS],
                             struct arena *arena, struct error *error,
                             struct schedule_edit *edit);

/* A whole endpoint, with how it fares. */
must_check int endpoint_put(struct store *store, struct arena *arena,
                            struct json_writer *w, const struct schedule *schedule,
                            const struct settings *settings);

/* One of its jobs, with its run and the response. */
void endpoint_put_run(struct json_writer *w, const struct job_row *row);
