/* SPDX-License-Identifier: Apache-2.0
 *
 * committer.h -- the one thread that writes.
 *
 * Why it exists: the engine is a set of rules without a thread; this is the
 * thread.  It takes what has arrived in its mailbox, has it applied as one pile
 * with one commit, and turns to what time has made due:
 *
 *   wait for mail, or for the engine's next duty
 *   take a pile of it (up to a call); engine_apply(); every command is answered
 *   engine_tick()
 *
 * There is no artificial delay: a pile is what arrived during the last commit.
 * The first turn takes mail before the first duty, so a scheduler that has a
 * long recovery before it answers from the first moment (I9).
 *
 * BACK-PRESSURE.  What waits for its answer is bounded, by number and by bytes;
 * over that, a submission is -HF_BUSY.  Outcomes of runs and the committer's
 * own calls are not refused: there are only as many as there are runs, and a
 * finished job must not be lost because producers are fast.
 *
 * Threads: any thread may submit; answers come in the committer's thread. */
#pragma once

#include "engine/engine.h"

struct committer;

/* Takes over `engine`, which belongs to the committer's thread from now on, and
 * starts.  At most `limit` commands wait at once.  `turn` (may be NULL) is
 * called in the thread after each turn: it may look at the engine.
 * 0, -HF_NOMEM, -HF_SYSTEM. */
must_check int committer_new(struct engine *engine, size_t limit,
                             void (*turn)(void *arg, const struct engine *engine),
                             void *arg, struct committer **ret);

/* Refuses new commands, answers those that are there, ends the thread.  The
 * engine is the caller's again.  NULL is fine; not in the committer's thread. */
void committer_free(struct committer *committer);

/* Hands a command over; its `done` answers.  -HF_BUSY or -HF_CLOSED, and the
 * command stays the caller's. */
must_check int committer_submit(struct committer *committer, struct command *command);

/* The same for the outcome of a run and its progress: never -HF_BUSY. */
must_check int committer_report(struct committer *committer, struct command *command);

/* Submits, and returns when it is answered, with the command's result; `done`
 * is overwritten.  -HF_INVALID in the committer's own thread. */
must_check int committer_apply(struct committer *committer, struct command *command);
must_check int committer_apply_report(struct committer *committer,
                                      struct command *command);

/* Calls `fn` in the committer's thread, between two piles, and waits for it.
 * 0, -HF_CLOSED, or -HF_INVALID in the committer's own thread. */
must_check int committer_call(struct committer *committer,
                              void (*fn)(struct engine *engine, void *arg), void *arg);

/* The same without waiting: `fn` is called after all that was submitted before, and
 * owns `arg`.  -HF_NOMEM or -HF_CLOSED, and `arg` stays the caller's. */
must_check int committer_send(struct committer *committer,
                              void (*fn)(struct engine *engine, void *arg), void *arg);

/* A number that rises while the thread does something, and whenever a message has come:
 * see engine_step().  Any thread may ask. */
size_t committer_pulse(const struct committer *committer);

/* True in the committer's thread: where nothing may wait for an answer. */
bool committer_is_self(const struct committer *committer);
