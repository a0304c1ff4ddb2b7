/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h -- what this process uses: memory, processor time, descriptors.
 *
 * Read from /proc each time, a few system calls: for metrics, not for a hot path.
 * What cannot be read is 0.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"

struct process_figures {
    int64_t resident_bytes, virtual_bytes;
    int64_t cpu_us; /* user and system, all threads */
    int64_t threads;
    int64_t open_fds, max_fds;
    int64_t started_at; /* wall microseconds */
};

void process_figures(struct process_figures *ret);
