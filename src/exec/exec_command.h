/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_command.h -- runs commands, hundreds at once, on the event loop.
 *
 * A command runs under a SUPERVISOR, a small process of its own (supervisor.h)
 * that outlives the scheduler, keeps the deadline and leaves a RECORD on disk
 * (command_record.h).  What is here starts supervisors, notices what they
 * record, and takes over those that an earlier scheduler left:
 *
 *   start ──► started ──► progress ... ──► ended ──► the caller commits ──► forget
 *   scan  ──► alive: adopt ─────────────────┘
 *         ──► ended, dead: the caller commits ──► forget
 *
 * The scheduler's part is only to watch: if it is killed at any moment, the
 * next one finds each command alive, ended with its real outcome, or dead.
 *
 * ORDER AT A START.  exec_command_scan() comes before recovery judges any run:
 * it settles each record for good, so that nothing starts after it was declared
 * dead.  Only one scheduler at a time uses a state directory; who sees to that
 * is the caller.
 *
 * A RECORD IS DELETED by exec_command_forget() only, which the caller calls
 * when the outcome is committed.  Until then, a crash shows it again.
 *
 * Threads: a `struct exec_commands` belongs to the loop's thread, where the
 * callbacks are called.  Functions that take a state directory may be called
 * from any. */
#pragma once

#include "base/arena.h"
#include "base/base.h"
#include "base/status.h"
#include "command_outcome.h"
#include "command_record.h"
#include "command_setup.h"

struct event_base;
struct exec_commands;

/* Called on the loop, never from inside a function below.  Slices are good
 * until the callback returns.  A callback may start, cancel and adopt others,
 * and forget the command it is about. */
struct exec_command_calls {
    /* It is being executed.  NULL: not wanted.  Not called for adopted ones. */
    void (*started)(void *arg, int64_t job_id);
    /* It told how far it is.  May skip some when they come fast. */
    void (*progress)(void *arg, int64_t job_id, const struct command_progress *progress);
    /* It is over, once for each that was started or adopted. */
    void (*ended)(void *arg, int64_t job_id, const struct command_outcome *outcome);
    void *arg;
};

/* `state_dir` must exist; the folder "runs" is made in it.  `supervisor` is how
 * to start one, NULL-ended: the words {"/proc/self/exe", "supervise"} if it is
 * NULL.  The path of the record is added as the last.  -HF_SYSTEM, -HF_READONLY,
 * -HF_FULL or -HF_NOMEM with a sentence. */
must_check int exec_commands_new(struct event_base *base, const char *state_dir,
                                 const char *const *supervisor,
                                 const struct exec_command_calls *calls,
                                 struct error *error, struct exec_commands **ret);

/* Stops watching.  The commands go on, for the next scheduler to adopt. */
void exec_commands_free(struct exec_commands *commands);

/* Those that are being watched. */
size_t exec_commands_count(const struct exec_commands *commands);

/* Starts a command with `payload` on its standard input.  0: ended() will be
 * called, also when the program turns out not to exist.  Otherwise nothing was
 * started, nothing is left behind, and the sentence says why: -HF_CONFLICT if
 * the job has a record already, -HF_TOO_LARGE, -HF_SYSTEM, -HF_READONLY,
 * -HF_FULL, -HF_NOMEM. */
must_check int exec_command_start(struct exec_commands *commands,
                                  const struct command_order *order, struct slice payload,
                                  struct error *error);

/* Watches a command that an earlier scheduler started.  0: ended() will be
 * called, soon if it is over already or dead.  -HF_NOT_FOUND: no such record.
 * A command in another pid namespace can be watched, but not be stopped. */
must_check int exec_command_adopt(struct exec_commands *commands, int64_t job_id,
                                  struct error *error);

/* Asks a watched command to end: SIGTERM to its whole group, SIGKILL after the
 * grace period; ended() tells the rest.  `cause` is COMMAND_CAUSE_CANCEL or
 * COMMAND_CAUSE_INTERRUPT.  May be repeated.  False if it is not watched (any
 * more), or cannot be reached. */
bool exec_command_stop(struct exec_commands *commands, int64_t job_id,
                       enum command_cause cause);

/* The node's lease now lasts until `until_us` by command_boot_us(): tells the
 * supervisors of all watched commands that have one.  Call it at each beat, with
 * a time that was read before the beat was sent. */
void exec_commands_renew(struct exec_commands *commands, int64_t until_us);

/* One record, as a scan finds it. */
struct exec_command_found {
    int64_t job_id;
    enum command_state state;       /* PREPARED only if nothing may be changed */
    struct command_outcome outcome; /* of an ENDED or DEAD one; slices are borrowed */
};

/* Tells each record below `state_dir` to `each`, in the order of their ids, and
 * settles it unless `look_only`: a command that has not started yet never will
 * (DEAD), and what is left of a DEAD one is killed.  0, or the error of reading
 * the folder, or the first other than 0 that `each` returned. */
must_check int exec_command_scan(const char *state_dir, bool look_only,
                                 int (*each)(void *arg,
                                             const struct exec_command_found *found),
                                 void *arg, struct error *error);

/* The output so far, also while it runs, in the arena (up to 256 KiB).
 * -HF_NOT_FOUND, -HF_NOMEM, -HF_SYSTEM. */
must_check int exec_command_output(const char *state_dir, int64_t job_id,
                                   struct arena *arena, struct error *error,
                                   struct command_output *ret_out,
                                   struct command_output *ret_err);

/* Deletes the record, after its outcome was committed.  Fine if there is none. */
must_check int exec_command_forget(const char *state_dir, int64_t job_id,
                                   struct error *error);
