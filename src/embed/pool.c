/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c -- the worker threads as a whole: starting, stopping, ending.
 *
 * Nothing is claimed before there is a thread to execute it, and no thread ends
 * before what was claimed has been answered for:
 *
 *   threads, then capacity    hf_start(), hf_run()
 *   capacity 0                hf_stop(), and at the latest hf_close()
 *   the grace                 handlers return by themselves
 *   told, and handed over     those that have not
 *   threads joined            a thread cannot be killed
 *   reports answered          the last of them had nobody to wait for them */
#include "embed/pool.h"

#include <signal.h>

enum { THREADS_MAX = 1000 };

static int64_t mono_us(void)
{
    return clock_mono_us(&clock_system);
}

struct slot *pool_new_slot(struct pool *pool)
{
    struct slot *slot = new (struct slot);
    if (slot && slot_init(slot, pool->hf->committer) < 0) {
        slot_release(slot);
        free(slot);
        slot = NULL;
    }
    if (!slot)
        return NULL;
    pthread_mutex_lock(&pool->lock);
    slot->sibling = pool->slots;
    pool->slots = slot;
    slot->next = pool->free;
    pool->free = slot;
    pthread_mutex_unlock(&pool->lock);
    return slot;
}

static void set_capacity(struct engine *engine, void *arg)
{
    engine_set_capacity(engine, *(const size_t *)arg);
}

/* Sends it through the committer, which owns the engine. */
static int tell_capacity(struct hf *hf, size_t capacity)
{
    return committer_call(hf->committer, set_capacity, &capacity);
}

static void release_pool(struct pool *pool)
{
    while (pool->slots) {
        struct slot *slot = pool->slots;
        pool->slots = slot->sibling;
        slot_release(slot);
        free(slot);
    }
    free(pool->threads);
    pthread_cond_destroy(&pool->calm);
    pthread_mutex_destroy(&pool->lock);
    sem_destroy(&pool->stop);
    free(pool);
}

static int new_pool(struct hf *hf, size_t threads, struct pool **ret)
{
    struct pool *pool = new (struct pool);
    if (!pool)
        return -HF_NOMEM;
    pool->hf = hf;
    pool->ready_tail = &pool->ready;
    pthread_mutex_init(&pool->lock, NULL);
    cond_init(&pool->calm);
    sem_init(&pool->stop, 0, 0);
    pool->threads = calloc(threads, sizeof(*pool->threads));
    bool ok = pool->threads != NULL;
    for (size_t i = 0; i < 2 * threads && ok; i++)
        ok = pool_new_slot(pool) != NULL;
    if (!ok) {
        release_pool(pool);
        return -HF_NOMEM;
    }
    *ret = pool;
    return 0;
}

struct sleeper *pool_next_sleeper(struct pool *pool)
{
    struct sleeper *sleeper = pool->asleep;
    if (sleeper) {
        pool->asleep = sleeper->next;
        pool->waking++;
    }
    return sleeper;
}

void pool_wake(struct sleeper *sleeper)
{
    if (sleeper)
        sem_post(&sleeper->bell);
}

static void end_threads(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    for (struct sleeper *s; (s = pool_next_sleeper(pool));)
        pool_wake(s);
    pthread_cond_broadcast(&pool->calm);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pool->thread_count = 0;
    /* The last reports are with the committer, which answers into our slots. */
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->calm, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_stop(struct pool *pool)
{
    while (sem_wait(&pool->stop) != 0)
        continue; /* a signal of the embedding program */
}

/* hf_stop() may be called in a signal handler, where it can post a semaphore and
 * no more; this thread does the rest, if nobody waits in hf_run(). */
static void *boss_main(void *arg)
{
    struct pool *pool = arg;
    wait_for_stop(pool);
    (void)!tell_capacity(pool->hf, 0);
    return NULL;
}

/* Signals belong to the threads of the embedding program. */
static int start_threads(struct pool *pool, size_t threads, bool boss)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = 0;
    for (size_t i = 0; i < threads && r == 0; i++) {
        r = pthread_create(&pool->threads[i], NULL, worker_main, pool);
        pool->thread_count += r == 0;
    }
    if (r == 0 && boss) {
        r = pthread_create(&pool->boss, NULL, boss_main, pool);
        pool->has_boss = r == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r == 0 ? 0 : -HF_SYSTEM;
}

static int check_start(struct hf *hf, int threads)
{
    if (!hf || threads < 1 || threads > THREADS_MAX)
        return -HF_INVALID;
    if (hf->role != HF_SCHEDULER || hf->handler_count == 0)
        return -HF_CONFLICT;
    if (committer_is_self(hf->committer))
        return -HF_INVALID;
    return atomic_load(&hf->stopping) ? -HF_CLOSED : 0;
}

static void end_pool(struct pool *pool)
{
    sem_post(&pool->stop);
    if (pool->has_boss)
        pthread_join(pool->boss, NULL);
    end_threads(pool);
    atomic_store(&pool->hf->pool, NULL);
    release_pool(pool);
}

/* Threads first, then the capacity that gives them something to do. */
static int start_pool(struct hf *hf, int threads, bool boss)
{
    struct pool *pool = NULL;

    int r = check_start(hf, threads);
    if (r < 0)
        return r;
    if (atomic_exchange(&hf->started, true))
        return -HF_CONFLICT;
    r = new_pool(hf, (size_t)threads, &pool);
    if (r == 0)
        r = start_threads(pool, (size_t)threads, boss);
    if (r == 0) {
        atomic_store(&hf->pool, pool);
        r = tell_capacity(hf, (size_t)threads);
        /* hf_stop() may have come before there was a pool to tell. */
        if (atomic_load(&hf->stopping))
            sem_post(&pool->stop);
    }
    if (r < 0) {
        if (pool)
            end_pool(pool);
        atomic_store(&hf->started, false);
    }
    return r;
}

int hf_start(struct hf *hf, int threads)
{
    return start_pool(hf, threads, true);
}

void hf_stop(struct hf *hf)
{
    if (!hf)
        return;
    atomic_store(&hf->stopping, true);
    struct pool *pool = atomic_load(&hf->pool);
    if (pool)
        sem_post(&pool->stop);
}

bool hf_stopping(const struct hf_run *run)
{
    return run && run->hf && atomic_load(&run->hf->stopping);
}

bool pool_drain(struct hf *hf, int64_t grace_us)
{
    struct pool *pool = atomic_load(&hf->pool);
    int64_t until = mono_us() + grace_us;

    (void)!tell_capacity(hf, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0 && mono_us() < until)
        cond_sleep(&pool->calm, &pool->lock, until);
    bool calm = pool->busy == 0;
    pthread_mutex_unlock(&pool->lock);
    return calm;
}

int hf_run(struct hf *hf, int threads)
{
    if (hf && pool_is_worker(hf))
        return -HF_INVALID;
    int r = start_pool(hf, threads, false);
    if (r < 0)
        return r;
    wait_for_stop(atomic_load(&hf->pool));
    return pool_drain(hf, hf->settings.shutdown_grace_us) ? 0 : -HF_TIMEOUT;
}

bool pool_is_worker(struct hf *hf)
{
    struct pool *pool = atomic_load(&hf->pool);
    for (size_t i = 0; pool && i < pool->thread_count; i++)
        if (pthread_equal(pthread_self(), pool->threads[i]))
            return true;
    return false;
}

/* The handlers that have not returned: told to stop, and their jobs handed over
 * while we still hold the store, so that no other process begins the retry
 * before this one is done with it (on SQLite, where one process executes). */
static void hand_over(struct pool *pool)
{
    /* No slot is made any more: the capacity is 0. */
    for (struct slot *slot = pool->slots; slot; slot = slot->sibling) {
        pthread_mutex_lock(&pool->lock);
        bool busy = slot->state != SLOT_FREE;
        int64_t job_id = slot->run.job_id, owner_id = slot->owner_id;
        if (busy)
            atomic_store(&slot->stop, HF_STOP_SHUTDOWN);
        pthread_mutex_unlock(&pool->lock);
        struct command *c = busy ? command_new(OP_FAIL) : NULL;
        if (!c)
            continue;
        c->fail.job_id = job_id;
        c->fail.owner_id = owner_id;
        c->fail.error = (struct job_error){
            .type = ERROR_INTERRUPTED,
            .message = SLICE("The process that executed this job was shut down; its "
                             "handler did not return within the grace period.")
        };
        (void)!committer_apply_report(pool->hf->committer, c);
        command_free(c);
    }
}

void pool_free(struct hf *hf)
{
    struct pool *pool = atomic_load(&hf->pool);
    if (!pool)
        return;
    if (!pool_drain(hf, hf->settings.shutdown_grace_us))
        hand_over(pool);
    end_pool(pool);
}
