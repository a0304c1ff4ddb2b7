/* SPDX-License-Identifier: Apache-2.0
 *
 * recovery.c -- recovering by hand, looking ahead, and the reports. */
#include "engine/recovery/recovery.h"
#include "base/limits.h"
#include "embed/handle.h"

/* ---- by hand ---- */

static void begin_recovery(struct engine *engine, void *arg)
{
    *(int *)arg = recovery_begin(engine, RECOVERY_MANUAL, 0);
}

static void look_at_recovery(struct engine *engine, void *arg)
{
    *(bool *)arg = engine->recovery != NULL;
}

/* Waits until none is under way: one that began before, then our own. */
static int wait_for_recovery(struct hf *hf)
{
    struct watcher watcher;
    struct patience p = patience(-1);
    bool under_way = true;
    int r = 0;

    watch_add(hf, &watcher, 0);
    do
        r = committer_call(hf->committer, look_at_recovery, &under_way);
    while (r == 0 && under_way && wait_a_little(hf, &watcher, &p));
    watch_remove(hf, &watcher);
    return r;
}

int hf_recover(struct hf *hf, struct hf_error *error)
{
    struct error why = { 0 };

    if (!hf)
        return give(error, NULL, -HF_INVALID);
    int r = hf->committer ? refuse_in_callback(hf, &why) : 0;
    if (r == 0 && hf->role != HF_SCHEDULER)
        r = error_set(&why, -HF_CONFLICT, NULL,
                      "Only a scheduler recovers; open the store as one.");
    int begun = -HF_BUSY;
    while (r == 0 && begun == -HF_BUSY) {
        r = wait_for_recovery(hf);
        if (r == 0)
            r = committer_call(hf->committer, begin_recovery, &begun);
    }
    if (r == 0)
        r = begun;
    if (r == 0)
        r = wait_for_recovery(hf);
    return give(error, &why, r);
}

/* ---- looking ahead ---- */

struct dry_look {
    const struct settings *settings;
    const struct host *host;
    void (*item)(void *arg, const struct hf_recovery_item *item);
    void *arg;
    struct store *store;
    struct recovery_counts counts;
};

static void dry_item(void *arg, const struct recovery_item *item)
{
    struct dry_look *look = arg;
    struct queue_entry *queue = store_queue_by_id(look->store, item->queue_id);

    look->item(look->arg,
               &(struct hf_recovery_item){
                   .job_id = item->job_id,
                   .queue = queue ? queue->queue.name : "",
                   .kind = item->kind,
                   .state = item->previous_state,
                   .verdict = verdict_name(item->verdict),
                   .ran_ms = item->ran_us < 0 ? -1 : item->ran_us / US_PER_MS });
}

static int dry_run(struct store *store, void *arg)
{
    struct dry_look *look = arg;
    look->store = store;
    return recovery_dry_run(store, look->settings, look->host,
                            clock_wall_us(&clock_system), look->item ? dry_item : NULL,
                            look, &look->counts);
}

int hf_recover_dry_run(struct hf *hf,
                       void (*item)(void *arg, const struct hf_recovery_item *item),
                       void *arg, struct hf_error *error, int64_t *ret)
{
    struct error why = { 0 };
    struct host host;
    struct dry_look look = { .host = &host, .item = item, .arg = arg };

    if (!hf)
        return give(error, NULL, -HF_INVALID);
    look.settings = &hf->settings;
    int r = host_identify(&host, &why);
    if (r == 0)
        r = reader_look(hf, dry_run, &look, &why);
    if (r < 0)
        return give(error, &why, r);
    if (ret)
        *ret = look.counts.running_failed + look.counts.cancelling_failed +
               look.counts.outcomes + look.counts.pending_resolved;
    return 0;
}

/* ---- reports ---- */

struct recoveries_view {
    struct hf_recoveries recoveries; /* first */
    struct arena arena;
    size_t limit;
};

static const char *type_name(int type)
{
    static const char *const names[] = { [RECOVERY_START] = "start",
                                         [RECOVERY_TAKEOVER] = "takeover",
                                         [RECOVERY_SWEEP] = "sweep",
                                         [RECOVERY_MANUAL] = "manual" };
    return type > 0 && type < (int)array_len(names) ? names[type] : "unknown";
}

static int look_recoveries(struct store *store, void *arg)
{
    struct recoveries_view *view = arg;
    struct arena *arena = &view->arena;
    struct recovery_row *rows = NULL;
    size_t count = 0;

    arena_reset(arena);
    int r = store_recoveries(store, 0, view->limit, arena, &rows, &count);
    if (r < 0)
        return r;
    struct hf_recovery *views = arena_array(arena, struct hf_recovery, count);
    struct hf_recovery **items = arena_array(arena, struct hf_recovery *, count);
    for (size_t i = 0; i < count && items; i++) {
        views[i] = (struct hf_recovery){ .id = rows[i].id,
                                         .owner_id = rows[i].owner_id,
                                         .type = type_name(rows[i].type),
                                         .started_at_us = rows[i].started_at,
                                         .finished_at_us = rows[i].finished_at,
                                         .report = rows[i].report.p };
        items[i] = &views[i];
    }
    view->recoveries = (struct hf_recoveries){ .count = count, .items = items };
    return arena_end(arena);
}

int hf_list_recoveries(struct hf *hf, size_t limit, struct hf_error *error,
                       struct hf_recoveries **ret)
{
    struct error why = { 0 };

    if (!hf || !ret || limit < 1 || limit > LIMIT_PAGE_ITEMS) {
        error_set(
            &why, -HF_INVALID, "limit",
            "limit is %zu; it must be between 1 and %d, and there must be a handle.",
            limit, LIMIT_PAGE_ITEMS);
        return give(error, &why, -HF_INVALID);
    }
    struct recoveries_view *view = new (struct recoveries_view);
    if (!view)
        return give(error, NULL, -HF_NOMEM);
    view->limit = limit;
    arena_init(&view->arena, 16 << 10, (size_t)64 << 20);
    int r = reader_look(hf, look_recoveries, view, &why);
    if (r < 0) {
        hf_recoveries_free(&view->recoveries);
        return give(error, &why, r);
    }
    *ret = &view->recoveries;
    return 0;
}

void hf_recoveries_free(struct hf_recoveries *recoveries)
{
    struct recoveries_view *view = (struct recoveries_view *)recoveries;
    if (!view)
        return;
    arena_release(&view->arena);
    free(view);
}
