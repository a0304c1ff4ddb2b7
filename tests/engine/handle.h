/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.h -- the public API as a test uses it: short times, loud failures. */
#pragma once

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

enum { PATIENCE_MS = 60000 }; /* for what must come; never waited for in vain */

static inline void log_to_output(void *arg, enum hf_level level, const char *line)
{
    (void)arg;
    (void)level;
    printf("# %s\n", line);
}

/* Options for a store at `url`: quick polls, retries at once. */
static inline struct hf_options options_for(const char *url)
{
    struct hf_options options;
    hf_options_init(&options);
    options.db = url;
    options.poll_interval_ms = 50;
    options.retry_delays = "0";
    options.startup_throttle = HF_THROTTLE_NEVER;
    options.log = log_to_output;
    return options;
}

static inline struct hf *open_with(const struct hf_options *options)
{
    struct hf_error error;
    struct hf *hf = NULL;
    if (hf_open(options, &error, &hf) < 0)
        fail("hf_open: %s", error.text);
    return hf;
}

/* A scheduler with one handler. */
static inline struct hf *open_scheduler(const char *url, const char *kind,
                                        int (*handle)(struct hf_run *run, void *arg),
                                        void *arg)
{
    struct hf_options options = options_for(url);
    struct hf_handler handler = { kind, handle, arg };
    options.handlers = &handler;
    options.handler_count = 1;
    return open_with(&options);
}

static inline struct hf *open_role(const char *url, enum hf_role role)
{
    struct hf_options options = options_for(url);
    options.role = role;
    return open_with(&options);
}

static inline int64_t must_enqueue(struct hf *hf, const struct hf_new_job *job)
{
    struct hf_error error;
    struct hf_enqueued made;
    if (hf_enqueue(hf, job, &error, &made) < 0)
        fail("hf_enqueue: %s", error.text);
    check(made.id > 0);
    return made.id;
}

static inline struct hf_job *must_get(struct hf *hf, int64_t id)
{
    struct hf_error error;
    struct hf_job *job = NULL;
    if (hf_get_job(hf, id, &error, &job) < 0)
        fail("hf_get_job: %s", error.text);
    return job;
}

/* The end of a job, or with `chain` of the work. */
static inline struct hf_job *must_wait(struct hf *hf, int64_t id, bool chain)
{
    struct hf_error error;
    struct hf_job *job = NULL;
    if (hf_wait(hf, id, PATIENCE_MS, chain, &error, &job) < 0)
        fail("hf_wait: %s", error.text);
    return job;
}

static inline int state_of(struct hf *hf, int64_t id)
{
    struct hf_job *job = must_get(hf, id);
    int state = job->state;
    hf_job_free(job);
    return state;
}

struct expectation {
    struct hf *hf;
    int64_t id;
    int state;
};

static inline bool has_state(void *arg)
{
    struct expectation *e = arg;
    return state_of(e->hf, e->id) == e->state;
}

static inline void wait_for_state(struct hf *hf, int64_t id, int state)
{
    struct expectation e = { hf, id, state };
    if (!test_wait(has_state, &e, PATIENCE_MS))
        fail("job %lld is %s, not %s", (long long)id, hf_state_name(state_of(hf, id)),
             hf_state_name(state));
}

static inline void must_pass(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        continue;
}

/* Between two looks of a handler that waits to be told something. */
static inline void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000 * 1000 }, NULL);
}

/* A handler that says that it runs, and waits until it may go on. */
struct hold {
    sem_t running, go;
    atomic_int calls;
};

static inline int hold_on(struct hf_run *run, void *arg)
{
    struct hold *hold = arg;
    (void)run;
    atomic_fetch_add(&hold->calls, 1);
    sem_post(&hold->running);
    must_pass(&hold->go);
    return 0;
}

static inline void hold_init(struct hold *hold)
{
    atomic_init(&hold->calls, 0);
    sem_init(&hold->running, 0, 0);
    sem_init(&hold->go, 0, 0);
}
