/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.h -- the first and the last 64 KiB of a stream, in a file.
 *
 * Why it exists: a command may print without end, and its output must be
 * readable while it runs, by another process, and after both are gone.
 *
 * The file has a header (how much was printed), the first bytes, and a ring for
 * the last.  The ring is twice what is kept: the writer changes bytes first and
 * the header afterwards, and the other half is its room to do so while somebody
 * reads.  A reader that was overtaken reads again.
 *
 * Threads: one process writes; any may read. */
#pragma once

#include "base/arena.h"
#include "base/base.h"
#include "command_outcome.h"

/* The most to write at once. */
enum { CAPTURE_CHUNK_BYTES = 32 << 10 };

struct capture {
    int fd;
    int64_t total; /* bytes that came, kept or not */
    bool lost;     /* some could not be written */
};

/* Makes the file `name` in the folder `dir`.  0 or the error of the system. */
must_check int capture_create(int dir, const char *name, struct capture *ret);

/* Takes the next bytes.  Cannot fail: what a disk does not take is lost, and the
 * file says so if it still can. */
void capture_write(struct capture *capture, struct slice bytes);

/* Waits until it is on disk; closes it. */
void capture_finish(struct capture *capture);

/* What is there, in the arena.  A file that is not there, or is none of ours, is
 * an empty output.  -HF_NOMEM, -HF_SYSTEM. */
must_check int capture_read(int dir, const char *name, struct arena *arena,
                            struct command_output *ret);
