/* SPDX-License-Identifier: Apache-2.0
 *
 * watchdog.h -- tells systemd that the server is alive, as long as it is.
 *
 * A server is alive if its loop turns, which answers, and its committer does, which
 * writes.  The loop's timer is the proof of the one; the committer's pulse, which the
 * timer looks at and asks for, that of the other.
 *
 *   waits for a database that is away   alive: it tries again and again
 *   has nothing to do                   alive: it is asked, and turns
 *   one step that takes its time        alive for half of WATCHDOG_USEC and more: a slow
 *                                       disk, a large chunk
 *   one step that does not end          nothing is sent any more, and systemd ends us; the
 *                                       next start recovers, as after any crash
 *
 * With T = WATCHDOG_USEC we look four times in T, and believe in a committer for T/2 after
 * it was last seen to move.  So a step that takes less than T is never the end, and one
 * that hangs is ended before 2 T.
 *
 * Threads: the loop's. */
#pragma once

#include "base/log.h"
#include "node/node.h"

struct event;

struct watchdog {
    struct node *node;
    struct log *log;
    struct event *timer; /* NULL: nobody waits for us */
    size_t pulse;        /* as it was seen last, */
    int64_t moved_at;    /* and when that was new, monotonic */
    int64_t patience_us;
    bool told; /* the log, that it is stuck */
};

/* Starts, if systemd wants it.  0, -HF_NOMEM. */
must_check int watchdog_start(struct watchdog *watchdog, struct event_base *loop,
                              struct node *node, struct log *log);
/* Accepts one that was not started. */
void watchdog_stop(struct watchdog *watchdog);
