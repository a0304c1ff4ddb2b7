/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor.h -- the small process a command runs under.
 *
 * Why it exists: somebody has to wait for a command, read what it prints and
 * stop it at its deadline also while no scheduler is there.  It is the program
 * itself, executed again with a hidden first argument; it has a session of its
 * own, so that what ends the scheduler does not end it.
 *
 * Its life:
 *   1. reads its order from descriptor 3; standard input is the payload;
 *   2. forks the command, which waits at a gate;
 *   3. claims the start record (command_record.h) with both identities;
 *      if it is void or gone: opens no gate, and ends;
 *   4. opens the gate: directory, user, limits, environment, exec;
 *   5. captures the output, keeps progress and the last line, watches the
 *      deadline and the lease, listens to signals;
 *   6. when the command has ended: ends what it left in its process group,
 *      flushes the output, writes the exit record, ends.
 *
 * It listens to SIGUSR1 (cancel) and to SIGTERM, SIGINT, SIGHUP (interrupt).
 * To stop: SIGTERM to the command's whole process group, SIGKILL after the grace
 * period.  A process that left the group (a daemon with a session of its own) is
 * not the command's any more.  If the supervisor itself is killed, the kernel
 * kills the command, and whoever finds the record dead the rest of the group.
 *
 * It holds a bounded amount of memory whatever the command prints, has one
 * thread, and prints nothing. */
#pragma once

#include <signal.h>

#include "base/base.h"

/* Where a supervisor finds its order. */
enum { SUPERVISOR_ORDER_FD = 3 };

/* The whole life, for main(): `record` is the path of the record.  The exit code
 * of the process: 0, whatever became of the command. */
int supervisor_main(const char *record);

/* The signals it listens to: blocked when it is started, so that none is too
 * early. */
void supervisor_signals(sigset_t *ret);
