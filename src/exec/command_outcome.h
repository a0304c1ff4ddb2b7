/* SPDX-License-Identifier: Apache-2.0
 *
 * command_outcome.h -- how a command ended.
 *
 * Two questions have separate answers: HOW it ended (`end`, with the exit code
 * or the signal) and WHY it was told to (`cause`, none if it was not).  A
 * command that is told to stop may still finish its work and exit with 0, and
 * then it is complete: command_outcome_failure() knows the rules.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/status.h"

enum command_end {
    COMMAND_EXITED = 1,  /* exit_code */
    COMMAND_SIGNALLED,   /* signal */
    COMMAND_NOT_STARTED, /* it never ran; `error` says why */
    COMMAND_LOST,        /* gone without a trace, its supervisor too; `error` */
};

/* Why it was told to stop.  The first reason stays. */
enum command_cause {
    COMMAND_CAUSE_NONE = 0,
    COMMAND_CAUSE_DEADLINE,
    COMMAND_CAUSE_CANCEL,    /* somebody cancelled the job */
    COMMAND_CAUSE_INTERRUPT, /* the scheduler, or the machine, shuts down */
    COMMAND_CAUSE_LEASE,     /* nobody renewed the node's lease */
};

/* What a command printed: the first and the last 64 KiB of `total` bytes.
 * While head.n + tail.n == total nothing is missing between them.  Bytes are
 * as the command wrote them, not necessarily UTF-8. */
struct command_output {
    int64_t total;
    struct slice head, tail;
    bool lost; /* the disk was full, or failed: what is here is not all */
};

struct command_progress {
    int percent;       /* 0 to 100; -1: it never told */
    struct slice text; /* UTF-8, up to LIMIT_PROGRESS_BYTES */
};

struct command_outcome {
    enum command_end end;
    int exit_code;
    int signal;
    enum command_cause cause;
    int64_t started_us; /* wall clock; 0: it never ran, or nobody knows */
    int64_t ended_us;   /* likewise */
    int64_t duration_us;
    struct slice result;   /* stdout's last line, if that is JSON; absent otherwise */
    bool result_too_large; /* it was longer than LIMIT_RESULT_BYTES */
    struct slice error;    /* a sentence; see `end` */
    struct command_progress progress; /* the last it told */
    struct command_output out, err;
};

/* What the run's outcome is: HF_FAILURE_NONE, it completed; _TIMEOUT, stopped at
 * its deadline, whatever it then did; _CANCELLED; _INTERRUPTED (a lease that was
 * not renewed, too); _CRASH, died by a signal or without a trace; _OTHER, another
 * exit code, or it could not be started.  Exit code 0 is complete even if it had
 * been cancelled or interrupted. */
enum hf_failure command_outcome_failure(const struct command_outcome *outcome);

/* One sentence for the run's error: "The command exited with status 3." */
void command_outcome_sentence(const struct command_outcome *outcome, struct buf *buf);

/* "SIGTERM"; "signal 99" for one without a name. */
enum { COMMAND_SIGNAL_TEXT_BYTES = 24 };
char *command_signal_text(int number, char out[COMMAND_SIGNAL_TEXT_BYTES]);

/* All but the output as text (the exit record: a line of JSON, and the result on
 * the next), and back. */
void command_outcome_write(const struct command_outcome *outcome, struct buf *buf);
must_check int command_outcome_read(struct slice text, struct arena *arena,
                                    struct error *error, struct command_outcome *ret);
