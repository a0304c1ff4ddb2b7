/* SPDX-License-Identifier: Apache-2.0
 *
 * log_stderr.h -- the server's log: a line per event on standard error.
 *
 * Threads: any; a line is written with one call. */
#pragma once

#include <stdatomic.h>

#include "base/log.h"

struct log_stderr {
    struct log log; /* first */
    atomic_bool json;
};

void log_stderr_init(struct log_stderr *log, enum level least, bool json);
/* May be called while others write. */
void log_stderr_set(struct log_stderr *log, enum level least, bool json);
