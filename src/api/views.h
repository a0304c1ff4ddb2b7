/* SPDX-License-Identifier: Apache-2.0
 *
 * views.h -- what things look like as JSON.
 *
 * One writer per thing, used wherever it is shown.  Names are camelCase, times
 * RFC 3339, ids strings; what is not there is null.
 *
 * Threads: those that take a store run in a reader's thread. */
#pragma once

#include "base/json_write.h"
#include "store/store.h"

/* What stands in other rows than the job's own. */
struct job_links {
    const char *queue, *project;
    int64_t retried_by, next_retry_at, last_retry_at;
    struct slice owner; /* its name */
};

/* The members of a job, inside an object that the caller has begun. */
void view_job_members(struct json_writer *w, const struct job_row *row,
                      const struct job_links *links, int64_t now);

/* A whole job, with its links looked up; the payload too if it is apart. */
must_check int view_job(struct store *store, struct arena *arena, struct json_writer *w,
                        struct job_row *row, int64_t now);

/* `queue` and `project` are names, or NULL. */
void view_event(struct json_writer *w, const struct event *event, const char *queue,
                const char *project);
/* The same with the names looked up. */
void view_stored_event(struct store *store, struct json_writer *w,
                       const struct event *event);

/* Seconds as the API has them, from a policy's text (retry.h). */
void view_retry_policy(struct json_writer *w, const char *key, const char *policy);

void view_reservation(struct store *store, struct json_writer *w,
                      const struct reservation *reservation);
