/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.h -- a socket that others can connect to.
 *
 * A Unix socket's file outlives a server that crashed, and then stands in the
 * way of the next one: a file that is a socket where nobody answers is taken
 * away; one where somebody answers is theirs.
 *
 * Threads: belongs to the loop's. */
#pragma once

#include <sys/types.h>

#include "address.h"

struct listener {
    int fd;                 /* -1 when closed */
    struct address address; /* with the port that 0 became */
    dev_t device;           /* of a Unix socket's file, to know it again */
    ino_t inode;
};

/* Listens on `address`.  `unix_mode` is for the file of a Unix socket, which
 * nobody can connect to before it has that mode.  0, or with a sentence:
 * -HF_LOCKED (someone listens there already), -HF_INVALID (it cannot be listened
 * on), -HF_SYSTEM. */
must_check int listener_open(struct listener *listener, const struct address *address,
                             unsigned unix_mode, struct error *error);

/* Stops listening, and removes the file if it is still ours. */
void listener_close(struct listener *listener);
