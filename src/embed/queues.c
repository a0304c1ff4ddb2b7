/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.c -- the queues with their settings and counts.
 *
 * Counts are kept as jobs change state and only added up here, so that this
 * costs the same with ten jobs and with ten million. */
#include "embed/handle.h"

struct queues_view {
    struct hf_queues queues; /* first */
    struct arena arena;
};

static int64_t setting_ms(int64_t us)
{
    return us < 0 ? -1 : us / US_PER_MS;
}

static void view_queue(const struct queue *q, const struct queue_counts *counts,
                       struct arena *arena, struct hf_queue *view)
{
    struct slice reason = slice_of(q->paused_reason);
    struct slice delays = slice_of(q->retry_delays);

    *view = (struct hf_queue){
        .id = q->id,
        .name = arena_dup(arena, slice_of(q->name)).p,
        .paused = q->paused,
        .paused_reason = reason.n ? arena_dup(arena, reason).p : NULL,
        .paused_at_us = q->paused_at,
        .slots = q->slots,
        .concurrency = q->concurrency,
        .stale_after_ms = setting_ms(q->stale_after_us),
        .max_retries = q->max_retries,
        .max_execution_ms = setting_ms(q->max_execution_us),
        .on_crash = q->on_crash + 1,
        .retry_delays = delays.n ? arena_dup(arena, delays).p : NULL,
    };
    if (!counts)
        return;
    view->accepted = counts->count[COUNT_ACCEPTED];
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        view->jobs[state] = counts->count[COUNT_ACCEPTED + state];
    view->pruned = counts->count[COUNT_PRUNED];
}

static int by_name(const void *a, const void *b)
{
    const struct hf_queue *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int look_queues(struct store *store, void *arg)
{
    struct queues_view *view = arg;
    struct arena *arena = &view->arena;
    struct queue_counts *counts = NULL;
    size_t counted = 0, n = 0;

    arena_reset(arena);
    int r = store_queues_reload(store);
    if (r == 0)
        r = store_counts(store, arena, &counts, &counted);
    if (r < 0)
        return r;
    struct hf_queue *views = arena_array(arena, struct hf_queue, store->queue_count);
    struct hf_queue **items = arena_array(arena, struct hf_queue *, store->queue_count);
    for (size_t i = 0; i < store->queue_count && items; i++) {
        const struct queue *q = &store->queues[i]->queue;
        const struct queue_counts *count = NULL;
        for (size_t c = 0; c < counted && !count; c++)
            if (counts[c].queue_id == q->id)
                count = &counts[c];
        view_queue(q, count, arena, &views[n]);
        items[n] = &views[n];
        n++;
    }
    r = arena_end(arena);
    if (r < 0)
        return r;
    qsort(items, n, sizeof(*items), by_name);
    view->queues = (struct hf_queues){ .count = n, .items = items };
    return 0;
}

int hf_list_queues(struct hf *hf, struct hf_error *error, struct hf_queues **ret)
{
    struct error why = { 0 };

    if (!hf || !ret)
        return give(error, NULL, -HF_INVALID);
    struct queues_view *view = new (struct queues_view);
    if (!view)
        return give(error, NULL, -HF_NOMEM);
    arena_init(&view->arena, 16 << 10, (size_t)64 << 20);
    int r = reader_look(hf, look_queues, view, &why);
    if (r < 0) {
        hf_queues_free(&view->queues);
        return give(error, &why, r);
    }
    *ret = &view->queues;
    return 0;
}

void hf_queues_free(struct hf_queues *queues)
{
    struct queues_view *view = (struct queues_view *)queues;
    if (!view)
        return;
    arena_release(&view->arena);
    free(view);
}
