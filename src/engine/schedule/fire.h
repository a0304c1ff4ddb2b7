/* SPDX-License-Identifier: Apache-2.0
 *
 * fire.h -- makes the jobs whose time has come, and accounts for every fire time.
 *
 * The rules are in schedule.h.  Whoever comes here has locked the schedule's row, so two
 * nodes, or a node and a command, take turns; outcomes, jobs and the cursor are posted
 * into the one transaction.
 *
 * A duty's transaction takes a bounded bite, the longest due first.  If it fails for a
 * reason of its own, each is tried behind a savepoint, and the one to blame is set aside
 * for a minute: it must not keep the others from firing.  Whoever changes or drops one
 * that was set aside may be mending it: what is due of it is missed then, since a job
 * that the store refuses would make it refuse the change too.
 *
 * Threads: the engine's. */
#pragma once

#include "engine/engine.h"
#include "store/schedules.h"

/* Deals with what is due of one schedule up to now.  `live_job` is its newest live job,
 * 0: none, and counts only where jobs may not overlap.  `schedule` says where it stands
 * then; the caller posts that.  More may be left than fits one bite: next_at is not after
 * now then.  0, or the store's failure. */
must_check int fire_due(struct tx *tx, struct schedule *schedule, int64_t live_job);

/* How the problem of one begins that was set aside, and whether it was. */
#define FIRE_REFUSED "The store refused its job"
bool fire_refused(const struct schedule *schedule);

/* All of what is due, for a command that changes the schedule next. */
must_check int fire_all_due(struct tx *tx, struct schedule *schedule);

/* What has passed up to now while it was paused gets its outcome already; nothing if it
 * is not.  Of a zone that is gone nobody can tell what passed in it: the cursor moves
 * on. */
must_check int fire_pass(struct tx *tx, struct schedule *schedule);

/* Makes the schedule's job with this time to run; `fire_at` 0: now.  1 and *ret is it; 0
 * and *ret is the live job that has its unique key, or has id 0 where the project takes
 * nothing new; negative. */
must_check int fire_job(struct tx *tx, const struct schedule *schedule, int64_t fire_at,
                        struct job *ret);

/* An event about a schedule; `format` is what its data has besides the id and the name,
 * beginning with a comma, or "". */
void tell_schedule(struct tx *tx, const struct schedule *schedule, int64_t job_id,
                   const char *type, const char *format, ...) printf_like(5, 6);

/* One bite of all that is due.  How many schedules it has looked at, or negative. */
int64_t fire_step(struct engine *engine);
