/* SPDX-License-Identifier: Apache-2.0
 *
 * recovery.h -- every job that was under way when its owner died is resolved.
 *
 * One mechanism, four occasions:
 *   START     after the store is opened: all running jobs whose owner is gone
 *   TAKEOVER  while running: those of one owner that has just been judged dead
 *   SWEEP     now and then, as a backstop: those without a live owner that are
 *             older than a threshold
 *   MANUAL    an operator asks
 *
 * What a running job's rows say decides:
 *   no run                   crash before the run was written: a failed run is
 *                            written, the job fails
 *   its run is not finished  crash during execution: both fail, type crash
 *   its run is finished      crash after completion: the job takes its run's
 *                            outcome, and nothing is retried that completed
 *   its owner lives          left alone
 *   an executor has it       adopted: it goes on under this node
 * Then failed jobs whose retry is pending get their retry or their reason.
 * Queued and scheduled jobs are never touched.
 *
 * It works in CHUNKS, one transaction each, that select by the state they
 * remove: running it again, or crashing in it, gives the same result (I7), and
 * an enqueue waits for one chunk at most (I9): chunks shrink where they take long, and
 * grow again.  A row that cannot be resolved
 * is reported and passed over. */
#pragma once

#include "engine/engine.h"

enum recovery_type {
    RECOVERY_START = 1,
    RECOVERY_TAKEOVER,
    RECOVERY_SWEEP,
    RECOVERY_MANUAL
};

/* "start", ...; NULL for a number out of range. */
const char *recovery_type_name(int type);

enum verdict {
    VERDICT_LEFT = 0, /* its owner lives */
    VERDICT_ADOPTED,
    VERDICT_NO_RUN,
    VERDICT_CRASHED,
    VERDICT_OUTCOME, /* took its run's outcome */
    VERDICT_PENDING, /* a failed job got its retry or its reason */
    VERDICTS
};
const char *verdict_name(enum verdict verdict);

struct recovery_counts {
    int64_t running_failed, cancelling_failed, adopted, outcomes, left;
    int64_t retries_created, pending_resolved, reservations_expired, unresolved;
};

/* What happened to one job; also a line of the dry run. */
struct recovery_item {
    int64_t job_id, queue_id, ran_us, retry_id; /* ran_us -1: unknown */
    enum verdict verdict;
    int previous_state;
    char kind[101];
};

/* Jobs touched, by queue and by kind, for the report. */
struct recovery_tally {
    char name[101];
    int64_t count;
};

struct recovery {
    enum recovery_type type;
    int64_t id; /* 0 until there is something to report */
    int64_t started_at;
    int64_t dead_owner;    /* TAKEOVER */
    int64_t older_than_us; /* SWEEP */
    int64_t wait_until;    /* commands of dead nodes may run as long; 0: none does */
    enum { PHASE_HOLDS, PHASE_BUSY, PHASE_PENDING, PHASE_REPORT, PHASE_DONE } phase;
    bool only_adopt; /* recovery_on_startup = false */
    int64_t after_queue, after_id;
    size_t chunk; /* how many fit into the time that others may wait */
    size_t limit; /* of the next one: that, or 1 while a bad row is being looked for */
    size_t single_left;
    struct recovery_counts counts;
    struct recovery_tally queues[64], kinds[64];
    size_t queue_tallies, kind_tallies;
    struct recovery_item *items; /* of the chunk under way */
    size_t item_count;
    int64_t logged;
    struct recovery_counts before; /* the chunk, to take back what rolled back */
};

/* Starts one; the engine has at most one under way.  -HF_BUSY if it has. */
must_check int recovery_begin(struct engine *engine, enum recovery_type type,
                              int64_t dead_owner);

/* One chunk.  1: there is more; 0: it is through (and freed); negative: the
 * store failed, try again later. */
int recovery_step(struct engine *engine);

void recovery_free(struct recovery *recovery);

/* What a recovery at a restart of this process (`host`) would do now, and nothing
 * is changed: `on_item` is called for each job.  Reads through `store`, which may
 * be a reader. */
must_check int recovery_dry_run(struct store *store, const struct settings *settings,
                                const struct host *host, int64_t now,
                                void (*on_item)(void *arg,
                                                const struct recovery_item *item),
                                void *arg, struct recovery_counts *ret);

/* True if this owner is dead beyond doubt: its process is gone on this very
 * machine, or its lease has run out by `now` (0: leases are not judged). */
bool owner_is_gone(const struct owner *owner, const struct host *host,
                   enum db_engine db_engine, int64_t now);
