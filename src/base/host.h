/* SPDX-License-Identifier: Apache-2.0
 *
 * host.h -- which process this is, and whether another one is still alive.
 *
 * Why it exists: a run belongs to an owner, and recovery may take it away only
 * with proof that the owner is dead.  A pid is no proof, since pids come back;
 * a pid together with the time its process started names one process of one
 * boot, as seen from one pid namespace.  All four are kept with an owner.
 *
 * The answers lean to one side: host_process_alive() says "dead" only when
 * that is certain.  A machine that hides processes makes recovery wait for a
 * lease to end; it never makes it kill live work.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"
#include "status.h"

enum { HOST_NAME_BYTES = 65, HOST_BOOT_BYTES = 37 };

struct host {
    char name[HOST_NAME_BYTES];    /* for people; two machines may share one */
    char boot_id[HOST_BOOT_BYTES]; /* the kernel's, new at each boot */
    int64_t pid;
    int64_t start_ticks; /* of this process, in clock ticks after the boot */
    int64_t pid_ns;      /* inode of the pid namespace */
};

/* Who we are.  After a fork the child asks again.  0 or -HF_SYSTEM: without
 * /proc there is no proof of anything, and no start. */
must_check int host_identify(struct host *ret, struct error *error);

/* True if what `a` and `b` say about processes can be compared: same boot,
 * same pid namespace. */
bool host_same_place(const struct host *a, const struct host *b);

/* True unless it is certain that the process `pid` that started at
 * `start_ticks` is gone.  Only for a process of the same place as ours.  A
 * zombie is gone: it executes nothing, holds no lock, and only waits for its
 * parent. */
bool host_process_alive(int64_t pid, int64_t start_ticks);

/* One line of /proc/PID/stat, as far as we read it. */
struct host_stat {
    int64_t pid;
    char state;      /* 'R', 'S', 'Z', ... */
    int64_t group;   /* its process group and */
    int64_t session; /* its session, each named by the pid of its first leader */
    int64_t threads;
    int64_t start_ticks;
};

/* Reads such a line; -HF_INVALID if it is none.  The process's name in it may
 * hold anything, spaces, parentheses and newlines too. */
must_check int host_parse_stat(struct slice line, struct host_stat *ret);

/* That line of a process of our place: 0, or -HF_NOT_FOUND if there is none or it
 * cannot be read. */
must_check int host_read_stat(int64_t pid, struct host_stat *ret);
