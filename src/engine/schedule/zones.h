/* SPDX-License-Identifier: Apache-2.0
 *
 * zones.h -- the time zones that schedules name, each read once in a while.
 *
 * A zone is read from its file when a schedule first needs it, and again an hour later:
 * governments change their minds, and packages with the new rules are installed while we
 * run.  One that cannot be read is asked for again after a minute, however many
 * schedules are in it.
 *
 * Threads: the engine's. */
#pragma once

#include "base/status.h"
#include "base/tz.h"

struct zones {
    const char *dir; /* borrowed; NULL: the system's */
    struct zone *list;
    size_t count, capacity;
};

/* `now` in wall microseconds.  The answer is good until the next call with a later
 * `now`.  As tz_load(), which see for the failures. */
must_check int zones_get(struct zones *zones, struct slice name, int64_t now,
                         struct error *error, const struct tz **ret);

void zones_release(struct zones *zones);
