/* SPDX-License-Identifier: Apache-2.0
 *
 * command_setup.h -- what a command is to be run as.
 *
 * `struct command_setup` is a [command KIND] section of the configuration,
 * read; `struct command_order` is one run of it.  An order is what a scheduler
 * hands to a supervisor: it travels as text through a file without a name, so
 * that neither the environment nor the payload is ever written to a disk.
 *
 * The command does not inherit the scheduler's environment, which may hold
 * tokens and passwords: it gets PATH, LANG, LC_ALL, TZ, TMPDIR, HOME, USER and
 * LOGNAME of it (the last three of `user`, if one is set), then what the setup
 * says, then what the order says.  A later NAME replaces an earlier one.
 *
 * Threads: no state; any thread. */
#pragma once

#include <sys/resource.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/status.h"

enum command_limit {
    COMMAND_LIMIT_CPU_SECONDS,
    COMMAND_LIMIT_MEMORY_BYTES, /* of its address space */
    COMMAND_LIMIT_FILES,        /* open at once */
    COMMAND_LIMIT_PROCESSES,    /* of its user */
    COMMAND_LIMIT_CORE_BYTES,   /* of a core dump */
    COMMAND_LIMITS
};

/* Name ("cpu_seconds") and the kernel's number of each. */
struct command_limit_row {
    const char *name;
    int resource;
};
extern const struct command_limit_row command_limits[COMMAND_LIMITS];

struct command_setup {
    const char *const *argv;        /* NULL-ended; argv[0] is searched in PATH */
    const char *const *env;         /* NULL-ended "NAME=VALUE"; NULL: none */
    const char *directory;          /* NULL: the scheduler's own */
    const char *user;               /* a name; NULL: the scheduler's own */
    int umask;                      /* -1: the scheduler's own */
    int64_t limits[COMMAND_LIMITS]; /* -1: the scheduler's own */
    int64_t grace_ms;               /* between SIGTERM and SIGKILL */
};

enum { DEFAULT_COMMAND_GRACE_MS = 10 * 1000 };

/* Everything as the scheduler has it; argv is still to be filled in. */
void command_setup_init(struct command_setup *ret);

struct command_order {
    int64_t job_id; /* > 0 */
    const struct command_setup *setup;
    const char *const *env; /* of this run, as above; NULL: none */
    int64_t deadline_ms;    /* from now on; > 0 */
    /* The soft limit of open files where the setup names none, since the scheduler
     * has raised its own, and a program that uses select() dies of that; 0: the
     * scheduler's own. */
    int64_t open_files;
    /* 0 and 0, or the node's lease: how long it is, and until when it lasts by
     * command_boot_us().  The supervisor starts to end the command a sixth of
     * the lease before, and has killed it a thirtieth before, unless
     * exec_commands_renew() moves the end. */
    int64_t lease_ms;
    int64_t lease_until_us;
};

/* Microseconds since the machine's boot, suspends included: the time of leases
 * and deadlines, which no setting of the clock moves. */
int64_t command_boot_us(void);

/* The command's whole environment, in the arena, NULL-ended: see above.
 * `inherited` is the scheduler's; `home` and `name` are those of the user to run
 * it as, NULL for the scheduler's own.  NULL if there is no memory. */
char **command_environment(const struct command_order *order, char *const *inherited,
                           const char *name, const char *home, struct arena *arena);

/* The order as text (fields "name=value", each ended by NUL: argv and paths may
 * be any bytes), and back; what is read lies in the arena.  Reading gives
 * -HF_INVALID for what command_order_write() cannot have written. */
void command_order_write(const struct command_order *order, struct buf *buf);
must_check int command_order_read(struct slice text, struct arena *arena,
                                  struct error *error, struct command_order *ret);

/* The most bytes of one, a bound for readers: argv and as much environment. */
enum { LIMIT_COMMAND_ORDER_BYTES = 256 << 10 };
