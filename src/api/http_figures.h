/* SPDX-License-Identifier: Apache-2.0
 *
 * http_figures.h -- requests, counted by route and status, and how long they took.
 *
 * By route, never by path: a path is the client's to choose, and would make a series
 * of its own each time.
 *
 * Threads: the loop's. */
#pragma once

#include "api/metrics_text.h"
#include "base/status.h"

struct http_figures;
struct route;

must_check int http_figures_new(struct http_figures **ret);
void http_figures_free(struct http_figures *figures);

/* `route` NULL: there was none for this request. */
void http_figures_count(struct http_figures *figures, const struct route *route,
                        int status, int64_t took_us);
/* Only routes that were called. */
void http_figures_write(const struct http_figures *figures, struct metrics *m);
