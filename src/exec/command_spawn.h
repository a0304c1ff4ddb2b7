/* SPDX-License-Identifier: Apache-2.0
 *
 * command_spawn.h -- starts the process that will supervise a command.
 *
 * Order and payload go along as files without a name, which live as long as
 * somebody has them open: nothing has to be cleaned up, nothing is blocked by a
 * command that does not read its input, and no secret touches a disk.
 *
 * Threads: any. */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/status.h"
#include "command_setup.h"

/* Executes `supervisor` (NULL-ended, up to 8 words) with the path `record` behind
 * its words.  0 and its pid: it is a child of ours, to be waited for.  -HF_TOO_LARGE
 * or -HF_SYSTEM, -HF_NOMEM with a sentence, and nothing was started. */
must_check int command_spawn(const char *const *supervisor, const char *record,
                             const struct command_order *order, struct slice payload,
                             struct error *error, pid_t *ret);
