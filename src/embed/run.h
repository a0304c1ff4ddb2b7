/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h -- one run in a worker's hands: its handler, progress, outcome.
 *
 * A slot holds one run after another.  Everything its reports need is made with
 * it, so that a run that was claimed can always be answered for. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "engine/committer.h"

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_BUSY, SLOT_LATE };

struct slot {
    struct hf_run run;           /* first: what the handler sees */
    struct slot *next, *sibling; /* the pool's, as the state is */
    enum slot_state state;
    struct committer *committer;
    struct arena arena;               /* the texts of `run`, and of the outcome */
    const struct hf_handler *handler; /* NULL: no such kind here */
    int64_t owner_id;
    int64_t deadline_us; /* monotonic */
    int64_t allowed_us;  /* from the start to the deadline */
    atomic_int stop;     /* enum hf_stop_reason */

    bool failed;
    struct job_error error;
    struct slice result;
    int64_t retry_after_us;
    struct command *report; /* complete or fail; used over and over */

    /* The latest progress that was told, and the one on its way: at most one
     * per run, so that a handler may tell as often as it likes. */
    struct slot_progress {
        pthread_mutex_t lock;
        pthread_cond_t settled; /* nothing is on its way */
        bool on_its_way, told;
        int percent;
        bool has_text;
        char text[LIMIT_PROGRESS_BYTES + 1];
        char sent[LIMIT_PROGRESS_BYTES + 1];
        struct command *command;
    } progress;
};

must_check int slot_init(struct slot *slot, struct committer *committer);
void slot_release(struct slot *slot); /* also one that is zero or half made */

/* Forgets the run before. */
void slot_reset(struct slot *slot);

/* Calls the handler and notes the outcome. */
void slot_execute(struct slot *slot);

/* Waits until the last progress is written or has failed. */
void slot_settle_progress(struct slot *slot);

/* Makes `report` what is to be told, also for a second time. */
void slot_fill_report(struct slot *slot);
