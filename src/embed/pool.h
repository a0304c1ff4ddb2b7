/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h -- worker threads and the slots that their runs sit in.
 *
 * The way of a slot:
 *
 *   free -- pool_started() --> ready -- a worker takes it --> busy
 *     ^                                                        |
 *     +------------ its report was answered ------------------+
 *     |                                                        |
 *     +--- repeated by a worker --- late <-- not taken now ----+
 *
 * Slots are made when the pool is, with all that a report needs, so that no run
 * can be claimed and then lost for want of memory.  There are two per thread:
 * the engine counts a run as ended when its report is committed, and claims the
 * next one in the same transaction, before that report is answered; so besides
 * one slot held for each thread there may be as many ready.  (A node that
 * was taken for dead, and comes back, may claim again while its handlers are still
 * busy with what it lost: then more are made.) */
#pragma once

#include <semaphore.h>

#include "embed/handle.h"
#include "embed/run.h"

/* A worker that sleeps; on its stack.  Each has a bell of its own: whoever is woken by a
 * condition takes the lock as one that others wait for, and giving that back is a system
 * call each time, whether they do or not. */
struct sleeper {
    sem_t bell;
    struct sleeper *next; /* who fell asleep before */
};

struct pool {
    struct hf *hf;
    pthread_mutex_t lock; /* guards the lists, the counts and the slots' progress */
    pthread_cond_t calm;  /* a slot became free, or a report may be repeated */
    struct slot *slots;   /* all of them, by `sibling` */
    struct slot *free;
    struct slot *ready, **ready_tail; /* oldest first */
    struct slot *late;                /* reports to be repeated */
    size_t busy;                      /* slots that are not free */
    struct sleeper *asleep;           /* workers; the last one, who is warm, first */
    size_t waking;                    /* workers told to come, and not here yet */
    bool closing;                     /* workers end when nothing is ready */
    pthread_t *threads;
    size_t thread_count;
    sem_t stop; /* posted by hf_stop() */
    pthread_t boss;
    bool has_boss;
};

/* One more slot, free; NULL without memory. */
struct slot *pool_new_slot(struct pool *pool);

/* The worker that fell asleep last, who is on the way from now on; NULL if none sleeps.
 * With the lock held. */
struct sleeper *pool_next_sleeper(struct pool *pool);

/* Rings the bell of whom that gave; better without the lock.  NULL is fine. */
void pool_wake(struct sleeper *sleeper);

/* A worker's life: takes what is ready, until the pool closes.  worker.c */
void *worker_main(void *pool);
