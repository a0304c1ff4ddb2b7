/* SPDX-License-Identifier: Apache-2.0
 *
 * holdfast_worker.c -- worker threads: from a claimed run to its outcome.
 *
 * The committer's thread claims runs for this process and hands them over in
 * pool_started(); a worker takes one, calls its handler, and reports.  Each run
 * sits in a SLOT, and the way of a slot is
 *
 *   free -- pool_started() --> ready -- a worker takes it --> busy
 *     ^                                                        |
 *     +------------ its report was answered ------------------+
 *
 * Slots are made when the pool is, with all that a report needs, so that no run
 * can be claimed and then lost for want of memory.  There are two per thread:
 * the engine counts a run as ended when its report is committed, and claims the
 * next one in the same transaction, before the worker has heard the answer; so
 * besides one slot held by each thread there may be as many ready.
 *
 * A report that the store cannot take now (the database is away, the disk is
 * full) is repeated until it can: the outcome of work is not thrown away. */
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/text.h"
#include "engine/holdfast_handle.h"
#include "engine/holdfast_run.h"

enum { THREADS_MAX = 1000 };

struct pool {
    struct hf *hf;
    pthread_mutex_t lock; /* guards the lists, the counts and the slots' progress */
    pthread_cond_t work;  /* something is ready, or the pool is closing */
    pthread_cond_t calm;  /* a slot became free, or a report may be repeated */
    struct slot *slots;
    size_t slot_count;
    struct slot *free;
    struct slot *ready, **ready_tail; /* oldest first */
    size_t busy;                      /* slots that are not free */
    bool closing;                     /* workers end when nothing is ready */
    pthread_t *threads;
    size_t thread_count;
    sem_t stop; /* posted by hf_stop() */
    pthread_t boss;
    bool has_boss;
};

static int64_t mono_us(void)
{
    return clock_mono_us(&clock_system);
}

/* ---- from the engine ---- */

static const struct hf_handler *handler_of(const struct hf *hf, struct slice kind)
{
    for (size_t i = 0; i < hf->handler_count; i++)
        if (slice_equal(slice_of(hf->handlers[i].kind), kind))
            return &hf->handlers[i];
    return NULL;
}

/* Copies what the handler will see.  Without memory the slot goes its way all
 * the same, and the worker reports the failure. */
static void fill_slot(struct slot *slot, struct hf *hf, const struct started *started)
{
    const struct job *job = &started->job;
    struct queue_entry *queue = store_queue_by_id(hf->engine->store, job->queue_id);
    struct arena *arena = &slot->arena;
    struct slice payload = job->payload.p ? job->payload : SLICE("null");

    slot_reset(slot);
    slot->handler = handler_of(hf, job->kind);
    slot->owner_id = started->owner_id;
    slot->allowed_us = started->deadline_at - started->started_at;
    /* The deadline is a time of the store's clock; a worker counts on its own. */
    slot->deadline_us = mono_us() + started->deadline_at - engine_now(hf->engine);
    slot->run = (struct hf_run){
        .hf = hf,
        .job_id = job->id,
        .root_id = job->root_id,
        .kind = arena_dup(arena, job->kind).p,
        .queue = arena_dup(arena, slice_of(queue ? queue->queue.name : "")).p,
        .payload = arena_dup(arena, payload).p,
        .payload_bytes = payload.n,
        .metadata = arena_dup(arena, job->metadata).p,
        .unique_key = arena_dup(arena, job->unique_key).p,
        .external_id = arena_dup(arena, job->external_id).p,
        .attempt = job->attempt,
        .retries_left = job->retries_left,
        .started_at_us = started->started_at,
        .deadline_at_us = started->deadline_at,
    };
}

void pool_started(void *arg, const struct started *runs, size_t count)
{
    struct hf *hf = arg;
    struct pool *pool = atomic_load(&hf->pool);

    assert(pool); /* no capacity without it, and no runs without capacity */
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&pool->lock);
        struct slot *slot = pool->free;
        if (slot) {
            pool->free = slot->next;
            pool->busy++;
        }
        pthread_mutex_unlock(&pool->lock);
        assert(slot); /* two per thread, see above */
        fill_slot(slot, hf, &runs[i]);
        pthread_mutex_lock(&pool->lock);
        slot->next = NULL;
        slot->state = SLOT_READY;
        *pool->ready_tail = slot;
        pool->ready_tail = &slot->next;
        pthread_cond_signal(&pool->work);
        pthread_mutex_unlock(&pool->lock);
    }
}

static enum hf_stop_reason reason_of(int type)
{
    switch (type) {
    case ERROR_CANCELLED:
        return HF_STOP_CANCELLED;
    case ERROR_TIMEOUT:
        return HF_STOP_TIMEOUT;
    case ERROR_INTERRUPTED:
        return HF_STOP_SHUTDOWN;
    default:
        return HF_STOP_LOST;
    }
}

void pool_stop_run(void *arg, int64_t job_id, int type)
{
    struct hf *hf = arg;
    struct pool *pool = atomic_load(&hf->pool);
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->slot_count; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->state != SLOT_FREE && slot->run.job_id == job_id)
            atomic_store(&slot->stop, reason_of(type));
    }
    pthread_mutex_unlock(&pool->lock);
}

/* ---- a worker ---- */

static struct slot *take_slot(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->ready && !pool->closing)
        pthread_cond_wait(&pool->work, &pool->lock);
    struct slot *slot = pool->ready;
    if (slot) {
        pool->ready = slot->next;
        if (!pool->ready)
            pool->ready_tail = &pool->ready;
        slot->state = SLOT_BUSY;
    }
    pthread_mutex_unlock(&pool->lock);
    return slot;
}

static void give_back(struct pool *pool, struct slot *slot)
{
    pthread_mutex_lock(&pool->lock);
    assert(pool->busy > 0 && slot->state == SLOT_BUSY);
    slot->state = SLOT_FREE;
    slot->next = pool->free;
    pool->free = slot;
    pool->busy--;
    pthread_cond_broadcast(&pool->calm);
    pthread_mutex_unlock(&pool->lock);
}

/* True if the store may take the same report later. */
static bool worth_repeating(int code)
{
    return code == -HF_UNAVAILABLE || code == -HF_UNKNOWN || code == -HF_BUSY ||
           code == -HF_FULL || code == -HF_NOMEM;
}

static void deliver(struct pool *pool, struct slot *slot)
{
    struct hf *hf = pool->hf;
    int64_t job_id = slot->run.job_id, pause_us = 100 * US_PER_MS;
    int r;

    slot_settle_progress(slot);
    for (;;) {
        slot_fill_report(slot);
        r = committer_apply_report(hf->committer, slot->report);
        if (!worth_repeating(r))
            break;
        log_event(hf->log, LEVEL_WARN, "report_delayed", log_int("job", job_id),
                  log_text("why", status_of(r)->name));
        pthread_mutex_lock(&pool->lock);
        bool give_up = pool->closing;
        if (!give_up)
            cond_sleep(&pool->calm, &pool->lock, mono_us() + pause_us);
        pthread_mutex_unlock(&pool->lock);
        if (give_up)
            break; /* the run stays open, and the next start resolves it */
        if (pause_us < 2 * US_PER_S)
            pause_us *= 2;
    }
    if (r < 0)
        log_event(hf->log, LEVEL_WARN, "report_refused", log_int("job", job_id),
                  log_text("why", slot->report->error.text));
    give_back(pool, slot);
    watch_wake(hf, job_id);
}

static void *worker_main(void *arg)
{
    struct pool *pool = arg;
    struct slot *slot;

    while ((slot = take_slot(pool))) {
        slot_execute(slot);
        deliver(pool, slot);
    }
    return NULL;
}

/* ---- making and ending the pool ---- */

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
    for (size_t i = 0; i < pool->slot_count; i++)
        slot_release(&pool->slots[i]);
    free(pool->slots);
    free(pool->threads);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->calm);
    pthread_mutex_destroy(&pool->lock);
    sem_destroy(&pool->stop);
    free(pool);
}

static int make_slots(struct pool *pool, size_t count)
{
    pool->slots = calloc(count, sizeof(*pool->slots));
    if (!pool->slots)
        return -HF_NOMEM;
    pool->slot_count = count;
    for (size_t i = 0; i < count; i++) {
        int r = slot_init(&pool->slots[i], pool->hf->committer);
        if (r < 0)
            return r;
        pool->slots[i].next = pool->free;
        pool->free = &pool->slots[i];
    }
    return 0;
}

static int new_pool(struct hf *hf, size_t threads, struct pool **ret)
{
    struct pool *pool = new (struct pool);
    if (!pool)
        return -HF_NOMEM;
    pool->hf = hf;
    pool->ready_tail = &pool->ready;
    pthread_mutex_init(&pool->lock, NULL);
    cond_init(&pool->work);
    cond_init(&pool->calm);
    sem_init(&pool->stop, 0, 0);
    pool->threads = calloc(threads, sizeof(*pool->threads));
    int r = pool->threads ? make_slots(pool, 2 * threads) : -HF_NOMEM;
    if (r < 0) {
        release_pool(pool);
        return r;
    }
    *ret = pool;
    return 0;
}

static void end_threads(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->calm);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pool->thread_count = 0;
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
    for (size_t i = 0; i < pool->slot_count; i++) {
        struct slot *slot = &pool->slots[i];
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
