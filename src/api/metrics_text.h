/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_text.h -- Prometheus' text format (0.0.4), written.
 *
 *   metrics_family(m, "holdfast_jobs", METRIC_GAUGE, "Jobs by queue and state.");
 *   metrics_int(m, 7, LABELS("queue", "mail", "state", "queued"));
 *
 * gives
 *
 *   # HELP holdfast_jobs Jobs by queue and state.
 *   # TYPE holdfast_jobs gauge
 *   holdfast_jobs{queue="mail",state="queued"} 7
 *
 * A family is written once, with all its series behind it; that no two of them have
 * the same labels is the caller's part. */
#pragma once

#include "base/buf.h"
#include "base/histogram.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metrics {
    struct buf *out;
    const char *name; /* of the family under way */
};

void metrics_family(struct metrics *m, const char *name, enum metric_type type,
                    const char *help);

/* Labels come in pairs, name and value, up to a NULL; NULL alone: none. */
#define LABELS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* One series of the family. */
void metrics_int(struct metrics *m, int64_t value, const char *const *labels);
/* The same in seconds. */
void metrics_seconds(struct metrics *m, int64_t value_us, const char *const *labels);
/* A histogram of times, in seconds, or of sizes: its buckets, sum and count. */
void metrics_histogram(struct metrics *m, const struct histogram *histogram,
                       const int64_t *bounds, const char *const *labels);
