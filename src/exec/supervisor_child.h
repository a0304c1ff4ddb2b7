/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor_child.h -- from a fork to the command's first instruction.
 *
 * The child waits at a gate until its supervisor has the right to start it, and
 * then becomes what the order says.  It holds nothing of the supervisor's but
 * its end of four pipes, and dies with it.
 *
 * Threads: for a process that has only one. */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/status.h"
#include "command_setup.h"

struct child {
    pid_t pid;
    int gate;     /* to open it, write a byte; closed without one, nothing starts */
    int fault;    /* what kept it from becoming the command; see child_fault() */
    int out, err; /* what it prints; not blocking */
};

/* Looks up the user, forks; the child waits at the gate.  0, or an error with a
 * sentence. */
must_check int child_fork(const struct command_order *order, struct arena *arena,
                          struct error *error, struct child *ret);

/* Lets it go on. */
void child_release(struct child *child);

/* Asked when it has ended: true, and the sentence, if it never became the
 * command. */
bool child_fault(const struct child *child, const struct command_order *order,
                 struct error *error);
