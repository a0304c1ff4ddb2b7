/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c -- from a claimed run to its outcome.
 *
 * The committer's thread claims runs for this process and hands them over in
 * pool_started(); a worker takes one, calls its handler, and reports.  A report
 * that the store cannot take now (the database is away, the disk is full) is
 * repeated until it can: the outcome of work is not thrown away. */
#include "embed/pool.h"

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

static struct slot *take_free(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct slot *slot = pool->free;
    if (slot) {
        pool->free = slot->next;
        pool->busy++;
    }
    pthread_mutex_unlock(&pool->lock);
    return slot;
}

static void make_ready(struct pool *pool, struct slot *slot)
{
    pthread_mutex_lock(&pool->lock);
    slot->next = NULL;
    slot->state = SLOT_READY;
    *pool->ready_tail = slot;
    pool->ready_tail = &slot->next;
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void pool_started(void *arg, const struct started *runs, size_t count)
{
    struct hf *hf = arg;
    struct pool *pool = atomic_load(&hf->pool);

    assert(pool); /* no capacity without it, and no runs without capacity */
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = take_free(pool);
        if (!slot && pool_new_slot(pool))
            slot = take_free(pool);
        if (!slot) { /* its deadline will tell */
            log_event(hf->log, LEVEL_ERROR, "run_not_begun",
                      log_int("job", runs[i].job.id), log_text("why", "no memory"));
            continue;
        }
        fill_slot(slot, hf, &runs[i]);
        make_ready(pool, slot);
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
    for (struct slot *slot = pool->slots; slot; slot = slot->sibling)
        if (slot->state != SLOT_FREE && slot->run.job_id == job_id)
            atomic_store(&slot->stop, reason_of(type));
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

void *worker_main(void *arg)
{
    struct pool *pool = arg;
    struct slot *slot;

    while ((slot = take_slot(pool))) {
        slot_execute(slot);
        deliver(pool, slot);
    }
    return NULL;
}
