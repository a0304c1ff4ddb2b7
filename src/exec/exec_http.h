/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_http.h -- executes jobs of kind http on the event loop.
 *
 * Each run that is started ends exactly once, by the callback, with an outcome that
 * is to be reported to the engine (OP_COMPLETE, OP_FAIL).  Thousands may be under
 * way; what one server does has no effect on the others (http_client.h).
 *
 * Threads: belongs to the thread of the client's loop. */
#pragma once

#include "base/clock.h"
#include "exec/http_job.h"

struct exec_http;

/* `outcome` lives until the callback returns.  It may be called before
 * exec_http_start() returns, when a run cannot even begin. */
typedef void exec_http_ended(void *arg, int64_t job_id,
                             const struct http_job_outcome *outcome);

struct exec_http_options {
    struct http_client *client; /* borrowed */
    const struct clock *clock;  /* NULL: the machine's */
    exec_http_ended *ended;
    void *arg;
};

must_check int exec_http_new(const struct exec_http_options *options,
                             struct exec_http **ret);

/* After http_client_free(), which ends the runs that are still under way, as
 * interrupted. */
void exec_http_free(struct exec_http *exec);

/* How many runs are under way. */
size_t exec_http_count(const struct exec_http *exec);

/* Begins a run; copies what it needs.  Its request ends with the run's deadline, or
 * after the payload's timeoutMs if that is sooner. */
void exec_http_start(struct exec_http *exec, const struct started *run);

/* Aborts a run's transfer; it will end as `type` (ERROR_CANCELLED, _TIMEOUT,
 * _INTERRUPTED, ...) with `reason`, unless it ends otherwise first.  False if it is
 * not under way. */
bool exec_http_stop(struct exec_http *exec, int64_t job_id, int type, const char *reason);
