/* SPDX-License-Identifier: Apache-2.0
 *
 * command_record.h -- what is on disk about one run of a command.
 *
 * A record is a folder, STATE_DIR/runs/JOB_ID, made by the scheduler before it
 * starts the supervisor:
 *
 *   ticket      empty at first; the supervisor signs it with its identity
 *   start       THE START RECORD, created exclusively: by the supervisor, as a
 *               second name of its signed ticket, before it executes anything;
 *               or by recovery, empty, which VOIDS the run
 *   stdout      what it printed (capture.h), readable at any time
 *   stderr
 *   progress    the last it told, replaced whole
 *   lease       until when a scheduler has renewed it, replaced whole
 *   exit        THE EXIT RECORD, the outcome: flushed, then renamed to this
 *
 * Rules, each with a test:
 *   R1  Nothing is executed before the start record exists and is ours.
 *   R2  link() makes it with its content, so nobody reads half of one.  An empty
 *       one is void; so is one that cannot be read, since only a machine that
 *       lost power leaves such a thing.
 *   R3  Deletion takes the ticket first.  Without it a supervisor that was asleep
 *       all the while cannot make a start record any more.
 *   R4  An exit record is on disk before its supervisor ends.
 *   R5  The supervisor keeps its ticket locked (flock) while it lives.  It is
 *       dead if its pid is gone or was given to another process; from within
 *       another pid namespace, if the lock is free.
 *
 * Reading order: exit, start, and exit again when the supervisor is gone, since
 * it may have written it in between.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base/arena.h"
#include "base/base.h"
#include "base/host.h"
#include "base/status.h"
#include "command_outcome.h"

enum command_state {
    COMMAND_NONE,     /* no record */
    COMMAND_PREPARED, /* no start record yet: a supervisor may be on its way */
    COMMAND_ALIVE,    /* the supervisor lives, and with it the run */
    COMMAND_ENDED,    /* with an outcome */
    COMMAND_DEAD,     /* void, or the supervisor died without an exit record */
};

/* What a start record says. */
struct command_start {
    struct host supervisor;  /* name is empty */
    int64_t pid;             /* of the command, which leads its process group */
    int64_t start_ticks;     /* of that process */
    int64_t started_us;      /* wall clock */
    int64_t started_boot_us; /* command_boot_us() */
    int64_t lease_ms;        /* as ordered; 0: none */
};

/* Opens the folder of records, making it if `make`.  A descriptor, or an error
 * with a sentence. */
must_check int command_records_open(const char *state_dir, bool make,
                                    struct error *error);

/* The ids of all records, ascending, in the arena. */
must_check int command_records_list(int records, struct arena *arena, struct error *error,
                                    int64_t **ret, size_t *ret_count);

/* Makes the folder of a run with its ticket.  -HF_CONFLICT if it is there. */
must_check int command_record_make(int records, int64_t job_id, struct error *error);

/* Opens it: a descriptor, or -HF_NOT_FOUND, or -HF_SYSTEM. */
must_check int command_record_open(int records, int64_t job_id, struct error *error);

/* Deletes it, whatever it holds (R3).  0 if there is none. */
must_check int command_record_delete(int records, int64_t job_id, struct error *error);

/* The supervisor's claim: signs the ticket, then makes it the start record.
 * 0 and the descriptor of the ticket, which is locked and must stay open (R5);
 * -HF_CONFLICT if the run was voided or its record is gone: execute nothing. */
must_check int command_record_claim(int record, const struct command_start *start,
                                    struct error *error, int *ret_ticket);

/* Recovery's claim.  0: it is void, nothing will ever start; -HF_CONFLICT: there
 * is a start record already. */
must_check int command_record_void(int record, struct error *error);

/* What the record says.  `start` is filled for ALIVE and DEAD (zero if void);
 * `outcome`, without its output, for ENDED and DEAD.  `self` is who asks. */
must_check int command_record_read(int record, const struct host *self,
                                   struct arena *arena, struct error *error,
                                   enum command_state *ret_state,
                                   struct command_start *ret_start,
                                   struct command_outcome *ret_outcome);

/* Kills what is left of the process group of a DEAD one.  A group that merely
 * has the same number is left alone. */
void command_record_bury(const struct command_start *start, const struct host *self);

/* The same as command_record_read(), for good: one that has not started yet never
 * will (DEAD), and what is left of a DEAD one is buried. */
must_check int command_record_settle(int record, const struct host *self,
                                     struct arena *arena, struct error *error,
                                     enum command_state *ret_state,
                                     struct command_start *ret_start,
                                     struct command_outcome *ret_outcome);

/* Replaces a file of the record whole; on disk when it returns if `flush`. */
must_check int command_record_put(int record, const char *name, struct slice bytes,
                                  bool flush);

/* A file of the record, at most `bytes_max`, in the arena.  -HF_NOT_FOUND,
 * -HF_TOO_LARGE, -HF_NOMEM, -HF_SYSTEM. */
must_check int command_record_get(int record, const char *name, size_t bytes_max,
                                  struct arena *arena, struct slice *ret);
