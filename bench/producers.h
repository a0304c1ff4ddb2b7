/* SPDX-License-Identifier: Apache-2.0
 *
 * producers.h -- threads that enqueue through holdfast.h, each waiting until its
 * job is on disk before it makes the next. */
#pragma once

#include <pthread.h>

#include "bench.h"
#include "embed/handle.h"

enum { PRODUCERS_MAX = 256 };

/* A scheduler that is ready. */
static inline struct hf *scheduler_on(const char *path)
{
    struct hf_options options;
    struct hf_error error;
    struct hf *hf = NULL;
    hf_options_init(&options);
    options.db = path;
    if (hf_open(&options, &error, &hf) < 0)
        bench_die(path, error.text);
    if (hf_wait_ready(hf, -1) < 0)
        bench_die(path, "is not ready");
    return hf;
}

struct producer {
    struct hf *hf;
    int count;
};

static inline void *produce(void *arg)
{
    struct producer *p = arg;
    struct hf_new_job job = { .kind = "bench", .payload = bench_payload };
    struct hf_error error;
    for (int i = 0; i < p->count; i++)
        if (hf_enqueue(p->hf, &job, &error, NULL) < 0)
            bench_die("enqueue", error.text);
    return NULL;
}

/* Has `total` jobs made, the same number by each thread; returns how many. */
static inline int produce_all(struct hf *hf, int threads, int total)
{
    pthread_t ids[PRODUCERS_MAX];
    struct producer p = { .hf = hf, .count = total / threads };
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, produce, &p) != 0)
            bench_die("pthread_create", "failed");
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return p.count * threads;
}

/* What the engine has done, asked of its own thread. */
struct tally {
    uint64_t completions, commits;
    double cpu; /* of that thread */
};

static inline void tally_up(struct engine *engine, void *arg)
{
    struct tally *t = arg;
    struct db_counts counts;
    db_get_counts(engine->store->db, &counts);
    *t = (struct tally){ engine->totals.work.completions, counts.commits,
                         bench_cpu(CLOCK_THREAD_CPUTIME_ID) };
}

static inline struct tally tally_of(struct hf *hf)
{
    struct tally t = { 0 };
    if (committer_call(hf->committer, tally_up, &t) < 0)
        bench_die("committer", "does not answer");
    return t;
}
