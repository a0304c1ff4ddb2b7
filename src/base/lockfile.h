/* SPDX-License-Identifier: Apache-2.0
 *
 * lockfile.h -- one scheduler per store, and a name for the one that is there.
 *
 * Why it exists: whoever holds this lock has the proof that every earlier
 * scheduler of the store is dead, and may resolve what they left running.  So
 * it must be impossible to hold it twice, and it must vanish with its holder,
 * however that one dies.  The kernel does both: it is an flock() on a file of
 * its own beside the database.  (A lock on the database itself would get in
 * the way of SQLite's, and a producer may open the store at any time.)
 *
 * The holder writes its pid and host into the file, but only for the sentence
 * that a second scheduler prints.  What is written proves nothing.
 *
 * The file belongs to the database, not to its spelling: symbolic links on the
 * way are followed first, so two paths to one database are one lock.
 *
 * If the file is unlinked while it is held, the holder keeps a lock that
 * nobody else can see, and another scheduler could make a file anew.  Nothing
 * can prevent that, so: the file is never unlinked by us, not even when it is
 * released; taking it makes sure that the file locked is the one that stands
 * at the path; and the holder can ask lockfile_intact() before it relies on
 * its proof again.
 *
 * A child made by fork() shares the lock until it execs or exits.
 *
 * Threads: any, one at a time. */
#pragma once

#include "base.h"
#include "host.h"
#include "status.h"

struct lockfile;

/* Takes the lock of the database at `database`, which need not exist yet; the
 * lock file is that path with "-lock" behind it.  Never waits.
 * 0, or with a sentence: -HF_LOCKED (which names the holder), -HF_READONLY
 * (may not write there), -HF_FULL, -HF_INVALID (a link to nothing), -HF_SYSTEM,
 * -HF_NOMEM. */
must_check int lockfile_take(const char *database, const struct host *self,
                             struct error *error, struct lockfile **ret);

/* Gives it back.  NULL is fine. */
void lockfile_free(struct lockfile *lock);

/* False if the file at the path is no longer the one we have locked: someone
 * removed or replaced it, and we may not be alone. */
bool lockfile_intact(const struct lockfile *lock);

/* Where it is, for people. */
const char *lockfile_path(const struct lockfile *lock);
