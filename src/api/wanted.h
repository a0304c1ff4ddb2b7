/* SPDX-License-Identifier: Apache-2.0
 *
 * wanted.h -- which jobs a client means: the filter of lists and of acts on many.
 *
 *   state       one of the states, or several: failed,cancelled
 *   final       true: only jobs whose retries are over (the dead-letter view);
 *               false: only others
 *   queue, kind, project, uniqueKey
 *   schedule    the id of the schedule that made it, or made what it retries
 *   metadata.NAME   has this value
 *   q           is in the kind, the unique key, the payload or the error's message;
 *               capitals do not matter, those of ASCII
 *   createdAfter, createdBefore   times, themselves not included
 *
 * In a query they are parameters; in a body, fields of the same names, where `state`
 * may be a list and `metadata` an object as well.
 *
 * Threads: wanted_resolve() is for a reader's, the others for the loop's. */
#pragma once

#include "api/call.h"

struct wanted {
    struct job_filter filter;
    struct slice queue, project; /* names, resolved in a reader's thread */
    size_t given;                /* how many filters there are */
};

/* The names, for call_query_known(). */
#define WANTED_NAMES                                                                     \
    "state", "final", "queue", "kind", "project", "schedule", "uniqueKey", "metadata.*", \
        "q", "createdAfter", "createdBefore"

/* From the query, from which parameters with other names are left alone; bound to the
 * token's project.  False: refused. */
must_check bool wanted_from_query(struct call *call, struct wanted *ret);
/* From the body, where values[i] becomes the raw value of the field more[i], which is
 * no filter. */
must_check bool wanted_from_body(struct call *call, const char *const *more,
                                 size_t more_count, struct slice *values,
                                 struct wanted *ret);

/* Names to ids.  *ret_none: nothing can match.  A project that is not there is
 * -HF_NOT_FOUND with its sentence. */
must_check int wanted_resolve(struct store *store, const struct wanted *wanted,
                              struct error *error, struct job_filter *ret,
                              bool *ret_none);
