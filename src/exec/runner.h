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
    const char *state_dir;                 /* exists */
    const struct runner_command *commands; /* borrowed, as long as the runner lives */
    size_t command_count;
    const struct address_policy *policy; /* borrowed */
    const struct clock *clock;
    struct log *log;  /* may be NULL */
    int64_t lease_ms; /* on PostgreSQL; 0: there is none */
};

must_check int runner_new(const struct runner_options *options, struct error *error,
                          struct runner **ret);
void runner_free(struct runner *runner);

/* Settles what an earlier scheduler left.  Before the node is started. */
must_check int runner_scan(struct runner *runner, struct error *error);

/* Where to report; before the node is started. */
void runner_attach(struct runner *runner, struct node *node);

/* The node's calls, see node.h. */
void runner_started(struct runner *runner, const struct started *run);
void runner_stop_run(struct runner *runner, int64_t job_id, int type);
bool runner_adopts(struct runner *runner, const struct job_row *row);
/* The node's lease was renewed, PostgreSQL; `until` is wall time. */
void runner_renewed(struct runner *runner, int64_t until);

/* How many runs are under way, or have ended and are not on disk yet. */
size_t runner_busy(const struct runner *runner);
size_t runner_commands(const struct runner *runner);

/* The end of a graceful stop: HTTP requests are aborted as interrupted, commands
 * too unless `leave`: then they go on, for the next start to adopt. */
void runner_hand_over(struct runner *runner, bool leave);

/* A command's output so far, as the JSON that is kept with its run when it ends.  Any
 * thread.  -HF_NOT_FOUND: there is no such command. */
must_check int runner_output(void *runner, int64_t job_id, struct arena *arena,
                             struct error *error, struct slice *ret);
