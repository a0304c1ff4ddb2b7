/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.h -- from the runs a node was given to their outcomes.
 *
 * Why it exists: the node says "this run is yours", "stop that one"; the
 * executors of HTTP requests and of commands say how each ended.  Between them
 * stands this: it chooses the executor by the job's kind, reports every outcome
 * exactly once, and forgets a command's record only when its outcome is on disk.
 *
 * START.  runner_scan() comes before the node starts: it settles the records that
 * an earlier scheduler left.  Then the node asks runner_adopts() for each run of
 * a dead owner: yes, if its command lives on, or has ended and left its outcome.
 *
 * A report that cannot be written (the database is away) is tried again until it
 * is: a run that has ended must not be lost.
 *
 * Threads: the loop's, but for runner_adopts(). */
#pragma once

#include "base/clock.h"
#include "base/log.h"
#include "exec/command_setup.h"
#include "net/http_client.h"
#include "node/node.h"

struct runner;

struct runner_command {
    const char *kind;
    struct command_setup setup;
};

struct runner_options {
    struct event_base *loop;
    const char *state_dir;               /* exists */
    const struct address_policy *policy; /* borrowed */
    const struct clock *clock;
    struct log *log;    /* may be NULL */
    int64_t lease_ms;   /* on PostgreSQL; 0: there is none */
    int64_t open_files; /* the soft limit that commands get; 0: the scheduler's own */
};

must_check int runner_new(const struct runner_options *options, struct error *error,
                          struct runner **ret);
void runner_free(struct runner *runner);

/* What is run for which kind, from now on; borrowed until it is set anew. */
void runner_set_commands(struct runner *runner, const struct runner_command *commands,
                         size_t count);

/* Settles what an earlier scheduler left.  Before the node is started. */
must_check int runner_scan(struct runner *runner, struct error *error);

/* Where to report; before the node is started. */
void runner_attach(struct runner *runner, struct node *node);

/* Recovery is through: records that nobody will ask for are deleted. */
void runner_recovered(struct runner *runner);

/* The node's calls, see node.h. */
void runner_started(struct runner *runner, const struct started *run);
void runner_stop_run(struct runner *runner, int64_t job_id, int type);
bool runner_adopts(struct runner *runner, const struct job_row *row);
/* The node's lease was renewed, PostgreSQL: node_status.lease_mono. */
void runner_renewed(struct runner *runner, int64_t lease_mono);

/* How many runs are under way, or have ended and are not on disk yet; and how many
 * commands are under way. */
size_t runner_busy(const struct runner *runner);
size_t runner_commands(const struct runner *runner);

/* The end of a graceful stop: HTTP requests are aborted as interrupted, commands
 * too if `stop_commands`.  What is told to start from now on is not: the node hands
 * it over when it is closed. */
void runner_hand_over(struct runner *runner, bool stop_commands);

/* The last before node_close(): commands that still run, or whose outcome could not
 * be reported, are left to the next start, which finds their records.  Handing them
 * over would run them a second time beside the first. */
void runner_leave(struct runner *runner);

/* A command's output so far, as the JSON that is kept with its run when it ends.  Any
 * thread.  -HF_NOT_FOUND: there is no such command. */
must_check int runner_output(void *runner, int64_t job_id, struct arena *arena,
                             struct error *error, struct slice *ret);
