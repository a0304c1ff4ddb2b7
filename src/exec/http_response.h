/* SPDX-License-Identifier: Apache-2.0
 *
 * http_response.h -- a response as it is kept with the run; http_job.h shows it.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base/arena.h"
#include "net/http_client.h"

/* The response as a JSON object of at most `bytes_max` bytes (at least 1 KiB), in the
 * arena: less of the body is kept, and at last none of the headers, until it fits.
 * Absent if there is no memory. */
struct slice http_response_json(const struct fetch_answer *answer, size_t bytes_max,
                                struct arena *arena);
