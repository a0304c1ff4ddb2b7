/* SPDX-License-Identifier: Apache-2.0
 *
 * recovery_judge.h -- what a running job's rows mean, without changing them.
 *
 * A recovery acts upon these answers, a dry run shows them: so both say the
 * same. */
#pragma once

#include "engine/recovery/recovery.h"

/* An owner, asked for once per chunk. */
struct judged {
    int64_t id;
    bool known, gone;
    bool self; /* this very process, under the name it has or had */
    struct owner owner;
};

/* Those asked so far; `list` has room for as many as may be asked. */
struct bench {
    struct judged *list;
    size_t count;
    bool we_die; /* a dry run: the process that asks counts as gone */
};

/* The owner with that id, or NULL when the store failed.  `self` is never gone.
 * Leases are the reaper's to judge; here only what is certain. */
const struct judged *judge(struct store *store, const struct host *host, int64_t self,
                           struct arena *arena, struct bench *bench, int64_t owner_id);

/* `owner` is NULL where there is no run. */
enum verdict verdict_of(const struct job_row *row, const struct judged *owner);

/* Until when a command of a dead node may still run, by the store's clock: its
 * supervisor ends it before the node's lease does, unless that is adopted.  0: it is
 * over.  `state_dir` is ours: whoever has the same one knows what became of it. */
int64_t command_until(const struct run *run, const struct judged *owner,
                      const struct host *host, const char *state_dir, int64_t now);

/* How long it had been running when its owner stopped; -1 if nobody knows. */
int64_t ran_for(const struct job_row *row, const struct judged *owner, int64_t now);

/* Does this death count towards poison?  Only if what died is what ran the job:
 * the worker's process, or the node for a handler inside it; never a reboot. */
bool death_counts(const struct run *run, const struct judged *owner,
                  const struct host *host);

/* While a retry is pending its job is over, and its source is free: has another
 * job taken it? */
must_check int source_taken(struct store *store, const struct job *job, bool *ret);

/* True if this failure says nothing about the rows that were being changed: try
 * again later.  Otherwise one of them cannot be resolved. */
bool store_is_to_blame(const struct engine *engine, int code);
