/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.c -- this node's own runs, and what a transaction changes about them.
 *
 * A claim takes a slot and a finish frees one.  Both happen inside a
 * transaction that may still roll back, and the claims at the end of a pile
 * must already see the slots its finishes freed.  So changes are noted: they
 * count at once, are published with the commit, and are taken back otherwise. */
#include "engine/schedule/endpoint.h"

struct local_run *local_run_find(struct engine *engine, int64_t job_id)
{
    for (size_t i = 0; i < engine->run_count; i++)
        if (engine->runs[i].job_id == job_id)
            return &engine->runs[i];
    return NULL;
}

/* Room for one more in a growing array; NULL without memory. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    size_t more = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(array, more * size);
    if (grown)
        *capacity = more;
    return grown;
}

static struct dispatch_queue *entry_of(struct engine *engine, int64_t queue_id)
{
    return dispatch_queue(&engine->dispatch, queue_id, slots_of(engine, queue_id));
}

/* Does it use up the budget for old work?  Recovered retries have a lane of
 * their own for that. */
static bool is_old(const struct engine *engine, const struct started *run)
{
    return run->job.position < engine->started_at && run->job.lane == LANE_NORMAL &&
           !run->adopted;
}

static struct slice keep(struct engine *engine, struct slice text)
{
    return arena_dup(&engine->pending_arena, text);
}

void note_started(struct engine *engine, const struct started *run)
{
    struct dispatch_queue *queue = entry_of(engine, run->job.queue_id);
    struct started *fresh = grow(engine->fresh, engine->fresh_count,
                                 &engine->fresh_capacity, sizeof(*engine->fresh));
    if (fresh)
        engine->fresh = fresh;
    /* Publishing must not fail: have the room before the commit. */
    struct local_run *runs = grow(engine->runs, engine->run_count + engine->fresh_count,
                                  &engine->run_capacity, sizeof(*engine->runs));
    if (runs)
        engine->runs = runs;
    if (!queue || !fresh || !runs) {
        store_fail(engine->store, -HF_NOMEM);
        return;
    }
    struct started copy = *run;
    copy.job.kind = keep(engine, run->job.kind);
    copy.job.payload = keep(engine, run->job.payload);
    copy.job.metadata = keep(engine, run->job.metadata);
    copy.job.unique_key = keep(engine, run->job.unique_key);
    copy.job.external_id = keep(engine, run->job.external_id);
    copy.job.retry_delays = copy.job.concurrency_key = copy.job.cancel_reason =
        (struct slice){ 0 };
    if (engine->pending_arena.failed) {
        store_fail(engine->store, -HF_NOMEM);
        return;
    }
    engine->fresh[engine->fresh_count++] = copy;
    dispatch_started(&engine->dispatch, queue, is_old(engine, run),
                     run->job.lane == LANE_RECOVERED);
}

void note_adopted(struct engine *engine, const struct job_row *row)
{
    note_started(engine, &(struct started){ .job = row->job,
                                            .started_at = row->run.started_at,
                                            .deadline_at = row->run.deadline_at,
                                            .owner_id = engine->owner_id,
                                            .adopted = true });
}

static bool add_note(struct engine *engine, int64_t job_id, int type)
{
    struct note *grown = grow(engine->notes, engine->note_count, &engine->note_capacity,
                              sizeof(*engine->notes));
    if (!grown) {
        store_fail(engine->store, -HF_NOMEM);
        return false;
    }
    engine->notes = grown;
    engine->notes[engine->note_count++] = (struct note){ job_id, type };
    return true;
}

const struct local_run *note_ended(struct engine *engine, int64_t job_id)
{
    struct local_run *run = local_run_find(engine, job_id);
    if (!run)
        return NULL;
    struct dispatch_queue *queue = entry_of(engine, run->queue_id);
    if (!queue) {
        store_fail(engine->store, -HF_NOMEM);
        return NULL;
    }
    if (!add_note(engine, job_id, NOTE_ENDED))
        return NULL; /* what is not noted could not be taken back */
    dispatch_ended(queue, run->lane == LANE_RECOVERED);
    queue->hint = true; /* a slot is free */
    run->ended = true;
    return run;
}

void note_kind(struct engine *engine, size_t place, int outcome, int64_t ran_us)
{
    struct kind_note *grown =
        grow(engine->kind_notes, engine->kind_note_count, &engine->kind_note_capacity,
             sizeof(*engine->kind_notes));
    if (!grown) {
        store_fail(engine->store, -HF_NOMEM);
        return;
    }
    engine->kind_notes = grown;
    engine->kind_notes[engine->kind_note_count++] =
        (struct kind_note){ place, outcome, ran_us };
}

void note_stop(struct engine *engine, int64_t job_id, int type)
{
    assert(type != NOTE_ENDED);
    if (local_run_find(engine, job_id))
        add_note(engine, job_id, type);
}

void note_told(struct tx *tx, const struct event *event)
{
    struct engine *engine = tx->engine;
    if (!engine->hooks.told)
        return;
    struct event *grown = grow(engine->told, engine->told_count, &engine->told_capacity,
                               sizeof(*engine->told));
    if (!grown) {
        store_fail(engine->store, -HF_NOMEM);
        return;
    }
    engine->told = grown;
    struct event copy = *event;
    copy.at = tx->now;
    copy.data = keep(engine, event->data);
    if (store_fail(engine->store, arena_end(&engine->pending_arena)) == 0)
        engine->told[engine->told_count++] = copy;
}

void note_deliveries(struct engine *engine)
{
    engine->deliveries_noted = true;
}

size_t local_busy(const struct engine *engine)
{
    size_t busy = engine->run_count + engine->fresh_count;
    for (size_t i = 0; i < engine->note_count; i++)
        busy -= engine->notes[i].type == NOTE_ENDED;
    return busy;
}

static void forget(struct engine *engine)
{
    engine->fresh_count = 0;
    engine->note_count = 0;
    engine->told_count = 0;
    engine->news_count = 0;
    engine->kind_note_count = 0;
    engine->deliveries_noted = false;
    arena_reset(&engine->pending_arena);
}

void notes_publish(struct engine *engine)
{
    engine->work_kept = engine->totals.work;
    if (engine->kind_note_count > 0)
        kind_totals_add(&engine->kind_totals, engine->kind_notes,
                        engine->kind_note_count);
    for (size_t i = 0; i < engine->note_count; i++) {
        struct note note = engine->notes[i];
        struct local_run *run = local_run_find(engine, note.job_id);
        if (!run)
            continue;
        if (note.type == NOTE_ENDED) {
            *run = engine->runs[--engine->run_count];
        } else if (!run->stop_told) {
            run->stop_told = true;
            if (engine->hooks.stop_run)
                engine->hooks.stop_run(engine->hooks.arg, note.job_id, note.type);
        }
    }
    for (size_t i = 0; i < engine->fresh_count; i++) {
        const struct started *run = &engine->fresh[i];
        assert(engine->run_count < engine->run_capacity);
        engine->runs[engine->run_count++] =
            (struct local_run){ .job_id = run->job.id,
                                .queue_id = run->job.queue_id,
                                .project_id = run->job.project_id,
                                .owner_id = run->owner_id,
                                .started_at = run->started_at,
                                .deadline_at = run->deadline_at,
                                .endpoint_id = run->endpoint_id,
                                .kind = kind_totals_place(&engine->kind_totals,
                                                          run->job.kind),
                                .lane = run->job.lane };
    }
    if (engine->fresh_count > 0 && engine->hooks.started)
        engine->hooks.started(engine->hooks.arg, engine->fresh, engine->fresh_count);
    if (engine->told_count > 0)
        engine->hooks.told(engine->hooks.arg, engine->told, engine->told_count);
    if (engine->news_count > 0)
        endpoints_told(engine);
    webhooks_tell_changes(engine);
    if (engine->deliveries_noted && engine->hooks.deliveries_due)
        engine->hooks.deliveries_due(engine->hooks.arg);
    forget(engine);
}

struct notes_mark notes_mark(const struct engine *engine)
{
    return (struct notes_mark){ engine->note_count,      engine->fresh_count,
                                engine->told_count,      engine->news_count,
                                engine->kind_note_count, engine->totals.work };
}

void notes_undo(struct engine *engine, struct notes_mark mark)
{
    assert(mark.notes <= engine->note_count && mark.fresh <= engine->fresh_count);
    for (size_t i = mark.notes; i < engine->note_count; i++) {
        struct local_run *run = local_run_find(engine, engine->notes[i].job_id);
        if (!run || engine->notes[i].type != NOTE_ENDED)
            continue;
        struct dispatch_queue *queue =
            dispatch_queue(&engine->dispatch, run->queue_id, -1);
        assert(queue); /* it was there when the end was noted */
        run->ended = false;
        queue->busy++;
        queue->busy_recovered += run->lane == LANE_RECOVERED;
    }
    for (size_t i = mark.fresh; i < engine->fresh_count; i++) {
        const struct job *job = &engine->fresh[i].job;
        struct dispatch_queue *queue =
            dispatch_queue(&engine->dispatch, job->queue_id, -1);
        assert(queue);
        dispatch_ended(queue, job->lane == LANE_RECOVERED);
        if (is_old(engine, &engine->fresh[i]) && queue->old_started > 0)
            queue->old_started--;
    }
    engine->note_count = mark.notes;
    engine->fresh_count = mark.fresh;
    engine->told_count = mark.told;
    engine->news_count = mark.news;
    engine->kind_note_count = mark.kind_notes;
    engine->totals.work = mark.work;
}

void notes_drop(struct engine *engine)
{
    notes_undo(engine, (struct notes_mark){ .work = engine->work_kept });
    forget(engine);
}
