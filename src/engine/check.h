/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h -- verifies the invariants on a store, and names each violation.
 *
 * Why it exists: the promise is that every job is accounted for.  Whoever doubts
 * it can ask the rows themselves, on a live or a stopped store, on their own.
 *
 * What rows can show, and is verified here (docs/INVARIANTS.md has the sentences;
 * the rules themselves are a table, store/check_rules.h):
 *
 *   I2   an open run belongs to a job that is running or cancelling; nothing is
 *        left running without a live owner for longer than any backstop waits
 *   I3   what is over has a finished run that says the same; what has run is not
 *        waiting to run again; a run has a job, and only one run is its
 *   I4   a failed job has one retry, or a reason for none; chains have no gaps,
 *        loops or forks
 *   I5   one live job per project and key
 *   I6   one draining or active reservation per queue; all of them end
 *   I8   a retry stands where its original stood, and is the same work
 *   I10  the counts equal the rows; accepted = live + terminal + pruned; nothing
 *        is left of what was removed, and nothing is missing of what is there
 *   Of schedules: no fire time has two outcomes (I3); each that is counted is on
 *        record or pruned, with its job (I10)
 *   and that the constraints and indexes that keep them exist.
 *
 * What rows cannot show: I1 (a job that was acknowledged and is not there leaves
 * no row), I7 (that a second recovery would change nothing) and I9 (how a start
 * felt).  Tests with a ledger of their own, outside the store, see to those.  Of
 * I8, the priority of a retry is not verified: a person may have changed it.
 *
 * AWAITING RECOVERY is no violation: a store whose scheduler crashed holds jobs
 * that are running for nobody, retries to be decided and reservations past their
 * end, and the next start resolves them.  They are counted.
 *
 * It reads one snapshot, by a handful of statements over whole tables: a million
 * jobs take seconds, and no more memory than a thousand. */
#pragma once

#include "base/host.h"
#include "store/store.h"

struct check_finding {
    int invariant;          /* 2 to 10; 0: the schema, where none is at stake */
    int64_t job_id;         /* 0: it is not about one job */
    int64_t queue_id;       /* 0: nor about a queue */
    int64_t reservation_id; /* 0: nor about a reservation */
    const char *sentence;   /* for a person; valid until the callback returns */
};

struct check_report {
    int64_t jobs;       /* looked at */
    int64_t violations; /* told to the callback */
    int64_t awaiting;   /* jobs and reservations that await recovery */
    bool scheduler;     /* one is alive, as far as can be seen from here */
};

/* Verifies the store as it stands.  `store` is a reader; its open transaction is
 * used, or one is begun and ended.  `now` is the caller's time; PostgreSQL's own
 * clock decides, where there is one.
 * `on_violation` (may be NULL) is called for each, in this thread; it may not use
 * the store.  0 whatever was found, or why the store could not be read. */
must_check int check_store(struct store *store, int64_t now,
                           void (*on_violation)(void *arg,
                                                const struct check_finding *finding),
                           void *arg, struct check_report *ret);

/* The same, as seen from a machine and at a moment of the caller's choice. */
must_check int check_store_from(struct store *store, const struct host *host, int64_t now,
                                void (*on_violation)(void *arg,
                                                     const struct check_finding *finding),
                                void *arg, struct check_report *ret);
