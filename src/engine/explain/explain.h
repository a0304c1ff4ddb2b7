/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.h -- in plain words: why a job is in its state, and what has to happen for
 * it to go on.
 *
 * The same for the CLI, the API and the dashboard.  It only looks: at the rows, at
 * the settings, and at what a running node knows of itself.
 *
 * The SUMMARY is one sentence.  The REASONS say more, the most important first, each
 * with a code for programs, and the moment it may be over by itself:
 *
 *   waiting     due_later, due_now, retry_of, expires, paused, reserved, concurrency,
 *               slots, no_scheduler, no_executor, no_worker, recovering, throttled,
 *               recovered_lane, behind, next
 *   running     owner, deadline, overdue, stale, progress, owner_dead, owner_silent,
 *               no_run, cancel
 *   over        completed, error, retried, exhausted, permanent, poison, crash_policy,
 *               operator, superseded, cancelled, pending, owner_died, same_source
 *   any         schedule */
#pragma once

#include "engine/settings.h"
#include "store/store.h"

/* What is known besides the rows. */
struct explain_context {
    int64_t now;
    const struct settings *settings;
    /* Of the node that is asked; 0 and false where none is. */
    int64_t node_started_at, throttled_until;
    bool recovering;
};

struct reason {
    const char *code;
    struct slice text;
    int64_t until; /* 0: not by itself, or nobody knows when */
};

enum { REASONS_MAX = 12 };

struct explanation {
    struct job_row row;
    struct slice summary;
    struct reason reasons[REASONS_MAX];
    size_t count;
};

/* All of it in the arena.  -HF_NOT_FOUND. */
must_check int explain_job(struct store *store, int64_t job_id,
                           const struct explain_context *context, struct arena *arena,
                           struct explanation *ret);
