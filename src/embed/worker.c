/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c -- from a claimed run to its outcome.
 *
 * The committer's thread claims runs for this process and hands them over in
 * pool_started(); a worker takes one, calls its handler, and reports.  A report
 * that the store cannot take now (the database is away, the disk is full) is
 * repeated until it can: the outcome of work is not thrown away. */
#include "embed/pool.h"

/* More would only wait for the lock; fewer, and a burst of slow handlers begins
 * one by one. */
enum { WAKING_MOST = 4 };

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

/* Up to `count` free slots, as a list. */
static struct slot *take_free(struct pool *pool, size_t count)
{
    struct slot *first = NULL, **tail = &first;
    pthread_mutex_lock(&pool->lock);
    for (; count > 0 && pool->free; count--) {
        *tail = pool->free;
        tail = &pool->free->next;
        pool->free = pool->free->next;
        pool->busy++;
    }
    *tail = NULL;
    pthread_mutex_unlock(&pool->lock);
    return first;
}

/* Gives the lock back, and wakes a worker if there is something to do and nobody on the
 * way to it.  Whoever arrives wakes the next one before it begins: handlers that take
 * their time all run at once, and a pile of quick ones is done by the few who are awake,
 * without a system call for each.  In this order, because whoever is woken wants the lock
 * first of all. */
static void unlock_and_wake(struct pool *pool)
{
    bool wanted = (pool->ready || pool->late) && pool->waking < WAKING_MOST;
    struct sleeper *sleeper = wanted ? pool_next_sleeper(pool) : NULL;
    pthread_mutex_unlock(&pool->lock);
    pool_wake(sleeper);
}

/* The whole list at once. */
static void make_ready(struct pool *pool, struct slot *list)
{
    pthread_mutex_lock(&pool->lock);
    *pool->ready_tail = list;
    for (struct slot *slot = list; slot; slot = slot->next) {
        slot->state = SLOT_READY;
        pool->ready_tail = &slot->next;
    }
    unlock_and_wake(pool);
}

void pool_started(void *arg, const struct started *runs, size_t count)
{
    struct hf *hf = arg;
    struct pool *pool = atomic_load(&hf->pool);

    assert(pool); /* no capacity without it, and no runs without capacity */
    struct slot *list = take_free(pool, count), **at = &list;
    for (size_t i = 0; i < count; i++) {
        if (!*at && pool_new_slot(pool))
            *at = take_free(pool, 1);
        if (!*at) { /* its deadline will tell */
            log_event(hf->log, LEVEL_ERROR, "run_not_begun",
                      log_int("job", runs[i].job.id), log_text("why", "no memory"));
            continue;
        }
        fill_slot(*at, hf, &runs[i]);
        at = &(*at)->next;
    }
    if (list)
        make_ready(pool, list);
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

/* Sleeps until somebody says that there is something to do; the lock is held. */
static void fall_asleep(struct pool *pool)
{
    struct sleeper self = { .next = pool->asleep };

    sem_init(&self.bell, 0, 0); /* cannot fail for 0 */
    pool->asleep = &self;
    pthread_mutex_unlock(&pool->lock);
    while (sem_wait(&self.bell) != 0)
        continue; /* a signal of the embedding program */
    pthread_mutex_lock(&pool->lock);
    assert(pool->waking > 0 && pool->asleep != &self);
    pool->waking--;
    sem_destroy(&self.bell);
}

/* A run to execute, or one whose report is to be repeated; NULL at the end. */
static struct slot *take_slot(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->ready && !pool->late && !pool->closing)
        fall_asleep(pool);
    struct slot *slot = pool->late;
    if (slot) {
        pool->late = slot->next;
    } else if ((slot = pool->ready)) {
        pool->ready = slot->next;
        if (!pool->ready)
            pool->ready_tail = &pool->ready;
        slot->state = SLOT_BUSY;
    }
    unlock_and_wake(pool);
    return slot;
}

static void give_back(struct pool *pool, struct slot *slot)
{
    pthread_mutex_lock(&pool->lock);
    assert(pool->busy > 0 && slot->state >= SLOT_BUSY);
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

/* The last word about a report: written, refused, or given up. */
static void end_report(struct pool *pool, struct slot *slot, int r)
{
    struct hf *hf = pool->hf;
    int64_t job_id = slot->run.job_id;

    if (r < 0)
        log_event(hf->log, LEVEL_WARN, "report_refused", log_int("job", job_id),
                  log_text("why", slot->report->error.text));
    give_back(pool, slot);
    watch_wake(hf, job_id);
}

/* In the committer's thread, or in the worker's if the report was not taken. */
static void answer_report(struct pool *pool, struct slot *slot, int r)
{
    bool again = worth_repeating(r);
    if (again) {
        pthread_mutex_lock(&pool->lock);
        again = !pool->closing; /* else nobody might be left to do it */
        if (again) {
            slot->state = SLOT_LATE;
            slot->next = pool->late;
            pool->late = slot;
        }
        unlock_and_wake(pool);
    }
    if (!again)
        end_report(pool, slot, r);
}

static void reported(struct command *report, void *arg)
{
    struct slot *slot = arg;
    answer_report(atomic_load(&slot->run.hf->pool), slot, report->result);
}

/* Nobody waits for the answer: the worker is free for the next run. */
static void send_report(struct pool *pool, struct slot *slot)
{
    slot_settle_progress(slot);
    slot_fill_report(slot);
    slot->report->done = reported;
    slot->report->done_arg = slot;
    int r = committer_report(pool->hf->committer, slot->report);
    if (r < 0) {
        slot->report->result = r;
        answer_report(pool, slot, r);
    }
}

/* What the store could not take: here the worker waits. */
static void repeat_report(struct pool *pool, struct slot *slot)
{
    struct hf *hf = pool->hf;
    int64_t pause_us = 100 * US_PER_MS;
    int r = slot->report->result;

    while (worth_repeating(r)) {
        log_event(hf->log, LEVEL_WARN, "report_delayed", log_int("job", slot->run.job_id),
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
        slot_fill_report(slot);
        r = committer_apply_report(hf->committer, slot->report);
    }
    end_report(pool, slot, r);
}

void *worker_main(void *arg)
{
    struct pool *pool = arg;
    struct slot *slot;

    while ((slot = take_slot(pool))) {
        if (slot->state == SLOT_LATE) {
            repeat_report(pool, slot);
        } else {
            slot_execute(slot);
            send_report(pool, slot);
        }
    }
    return NULL;
}
