/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c -- looking: jobs, their events, queues with their counts.
 *
 * Everything is read through the reader, in one snapshot per call.  A view is
 * one object with its arena behind it: one call frees all of it. */
#include <stdio.h>

#include "base/limits.h"
#include "embed/handle.h"

/* A page of 1000 jobs with results of 1 MiB would fit a server's memory, but not
 * an embedding program's: the page is refused before. */
#define VIEW_BYTES ((size_t)256 << 20)

int reader_look(struct hf *hf, int (*look)(struct store *store, void *arg), void *arg,
                struct error *why)
{
    pthread_mutex_lock(&hf->read_lock);
    int r = store_look(hf->reader, look, arg, why);
    pthread_mutex_unlock(&hf->read_lock);
    return r;
}

static int check_look(struct hf *hf, const void *ret, struct error *why)
{
    if (hf && ret)
        return 0;
    return error_set(why, -HF_INVALID, hf ? "ret" : "hf",
                     hf ? "There is nowhere to put the answer." : "There is no handle.");
}

/* ---- jobs ---- */

static void view_run(struct hf_job *view, const struct job_row *row, int64_t now)
{
    const struct run *run = &row->run;

    view->progress_percent = 0;
    if (run->job_id == 0)
        return;
    view->started_at_us = run->started_at;
    view->deadline_at_us = run->deadline_at;
    view->overdue = run->finished_at == 0 && run->deadline_at <= now;
    view->failure = run->error.type;
    view->failure_class = run->error.class.p;
    view->failure_message = run->error.message.p;
    view->failure_details = run->error.details.p;
    view->result = run->result.p;
    view->progress_percent = run->percent;
    view->progress_text = run->progress.p;
    view->owner_id = run->owner_id;
}

/* A job that was cancelled before it ran has no run to hold the reason. */
static void view_cancel(struct hf_job *view)
{
    if (view->state != HF_CANCELLED || view->failure != HF_FAILURE_NONE)
        return;
    view->failure = HF_FAILURE_CANCELLED;
    view->failure_message = view->cancel_reason;
}

static int view_job(struct store *store, const struct job_row *row, struct arena *arena,
                    struct hf_job *view)
{
    const struct job *job = &row->job;
    struct queue_entry *queue = store_queue_by_id(store, job->queue_id);
    const char *project = store_project_name(store, job->project_id);

    *view = (struct hf_job){
        .id = job->id,
        .root_id = job->root_id,
        .project = arena_dup(arena, slice_of(project)).p,
        .queue = arena_dup(arena, slice_of(queue ? queue->queue.name : "")).p,
        .kind = job->kind.p,
        .state = job->state,
        .payload = job->payload.p,
        .metadata = job->metadata.p,
        .priority = job->priority,
        .position_us = job->position,
        .run_at_us = job->run_at,
        .expires_at_us = job->expires_at,
        .unique_key = job->unique_key.p,
        .external_id = job->external_id.p,
        .attempt = job->attempt,
        .max_retries = job->max_retries,
        .retries_left = job->retries_left,
        .retry_of = job->retry_of,
        .retry_state = job->retry_state,
        .retry_reason =
            job->retry_state == RETRY_FINAL ? retry_reason_name(job->retry_reason) : NULL,
        .retry_delays = job->retry_delays.p,
        .max_execution_ms = job->max_execution_us / US_PER_MS,
        .on_crash = job->on_crash + 1,
        .crash_count = job->crash_count,
        .created_at_us = job->created_at,
        .finished_at_us = job->finished_at,
        .recovery_id = job->recovery_id,
        .schedule_id = job->schedule_id,
        .cancel_reason = job->cancel_reason.p,
    };
    view_run(view, row, clock_wall_us(&clock_system));
    view_cancel(view);
    return store->failed;
}

/* What stands in other rows: the retry, and the owner's name. */
static int view_others(struct store *store, struct arena *arena, struct hf_job *view,
                       const struct hf_job *before)
{
    int r = 0;

    if (view->retry_state == HF_RETRY_RETRIED) {
        struct job_row retry;
        r = store_job_retry_of(store, view->id, arena, &retry);
        if (r == 0) {
            view->retried_by = retry.job.id;
            view->next_retry_at_us = retry.job.run_at;
            view->last_retry_at_us = retry.job.created_at;
        }
        if (r < 0 && r != -HF_NOT_FOUND)
            return r;
    }
    if (view->owner_id == 0)
        return 0;
    if (before && before->owner_id == view->owner_id) {
        view->owner = before->owner; /* neighbours in a list often share one */
        return 0;
    }
    struct owner owner;
    r = store_owner_get(store, view->owner_id, arena, &owner);
    if (r == 0)
        view->owner = owner.name.p;
    return r == -HF_NOT_FOUND ? 0 : r;
}

struct job_view {
    struct hf_job job; /* first */
    struct arena arena;
};

struct job_look {
    int64_t id;
    struct job_view *view;
};

static int look_job(struct store *store, void *arg)
{
    struct job_look *look = arg;
    struct arena *arena = &look->view->arena;
    struct job_row row = { 0 };

    arena_reset(arena);
    int r = store_job_get(store, look->id, arena, &row);
    if (r == 0)
        r = view_job(store, &row, arena, &look->view->job);
    if (r == 0)
        r = view_others(store, arena, &look->view->job, NULL);
    return r < 0 ? r : arena_end(arena);
}

void hf_job_free(struct hf_job *job)
{
    struct job_view *view = (struct job_view *)job;
    if (!view)
        return;
    arena_release(&view->arena);
    free(view);
}

int hf_get_job(struct hf *hf, int64_t job_id, struct hf_error *error, struct hf_job **ret)
{
    struct error why = { 0 };
    struct job_look look = { .id = job_id };

    int r = check_look(hf, ret, &why);
    if (r < 0)
        return give(error, &why, r);
    look.view = new (struct job_view);
    if (!look.view)
        return give(error, &why, -HF_NOMEM);
    arena_init(&look.view->arena, 4096, VIEW_BYTES);
    r = reader_look(hf, look_job, &look, &why);
    if (r == 0) {
        *ret = &look.view->job;
        return 0;
    }
    hf_job_free(&look.view->job);
    if (r == -HF_NOT_FOUND)
        error_set(&why, r, NULL, "There is no job %lld.", (long long)job_id);
    return give(error, &why, r);
}

/* ---- pages ---- */

struct jobs_view {
    struct hf_jobs jobs; /* first */
    struct arena arena;
};

struct jobs_look {
    const struct hf_filter *filter;
    size_t limit;
    struct jobs_view *view;
};

/* The filter in the store's words; -HF_NOT_FOUND: nothing can match. */
static int take_filter(struct store *store, const struct jobs_look *look,
                       struct job_filter *ret)
{
    const struct hf_filter *in = look->filter;

    *ret = (struct job_filter){ .before = in->before,
                                .states = in->state ? 1u << in->state : 0,
                                .kind = slice_of(in->kind),
                                .limit = look->limit };
    if (!in->queue)
        return 0;
    struct queue_entry *entry = NULL;
    int r = store_queue(store, slice_of(in->queue), false, &entry);
    if (r == 0)
        ret->queue_id = entry->queue.id;
    return r;
}

static int look_jobs(struct store *store, void *arg)
{
    struct jobs_look *look = arg;
    struct arena *arena = &look->view->arena;
    struct hf_jobs *jobs = &look->view->jobs;
    struct job_filter filter;
    struct job_row *rows = NULL;
    size_t count = 0;

    arena_reset(arena);
    *jobs = (struct hf_jobs){ 0 };
    int r = take_filter(store, look, &filter);
    if (r == -HF_NOT_FOUND)
        return 0;
    if (r == 0)
        r = store_jobs_list(store, &filter, arena, &rows, &count);
    if (r < 0)
        return r;
    assert(rows || count == 0);
    struct hf_job *views = arena_array(arena, struct hf_job, count);
    struct hf_job **items = arena_array(arena, struct hf_job *, count);
    for (size_t i = 0; i < count && views && items && r == 0; i++) {
        items[i] = &views[i];
        r = view_job(store, &rows[i], arena, &views[i]);
        if (r == 0)
            r = view_others(store, arena, &views[i], i ? &views[i - 1] : NULL);
    }
    jobs->items = items;
    jobs->count = count;
    jobs->next = count > 0 && count == look->limit ? rows[count - 1].job.id : 0;
    return r < 0 ? r : arena_end(arena);
}

static int check_filter(const struct hf_filter *filter, struct error *why)
{
    int r = 0;
    if (filter->state < 0 || filter->state > JOB_STATE_MAX)
        return error_set(why, -HF_INVALID, "state",
                         "state is %d; it must be one of enum hf_state, or 0 for any.",
                         filter->state);
    if (filter->limit > LIMIT_PAGE_ITEMS)
        return error_set(why, -HF_INVALID, "limit",
                         "limit is %zu; it must be between 1 and %d, or 0 for %d.",
                         filter->limit, LIMIT_PAGE_ITEMS, DEFAULT_PAGE_ITEMS);
    if (filter->before < 0)
        return error_set(why, -HF_INVALID, "before",
                         "before is %lld; it must be an id, or 0.",
                         (long long)filter->before);
    if (filter->queue)
        r = name_check(filter->queue, "queue", why);
    if (r == 0 && filter->kind)
        r = name_check(filter->kind, "kind", why);
    return r < 0 ? r : reserved_check(filter->reserved, array_len(filter->reserved), why);
}

int hf_list_jobs(struct hf *hf, const struct hf_filter *filter, struct hf_error *error,
                 struct hf_jobs **ret)
{
    static const struct hf_filter any;
    struct error why = { 0 };
    struct jobs_look look = { .filter = filter ? filter : &any };

    int r = check_look(hf, ret, &why);
    if (r == 0)
        r = check_filter(look.filter, &why);
    if (r < 0)
        return give(error, &why, r);
    look.limit = look.filter->limit ? look.filter->limit : DEFAULT_PAGE_ITEMS;
    look.view = new (struct jobs_view);
    if (!look.view)
        return give(error, &why, -HF_NOMEM);
    arena_init(&look.view->arena, 16 << 10, VIEW_BYTES);
    r = reader_look(hf, look_jobs, &look, &why);
    if (r < 0) {
        hf_jobs_free(&look.view->jobs);
        return give(error, &why, r);
    }
    *ret = &look.view->jobs;
    return 0;
}

void hf_jobs_free(struct hf_jobs *jobs)
{
    struct jobs_view *view = (struct jobs_view *)jobs;
    if (!view)
        return;
    arena_release(&view->arena);
    free(view);
}

/* ---- events ---- */

struct events_view {
    struct hf_events events; /* first */
    struct arena arena;
};

struct events_look {
    int64_t job_id, after;
    size_t limit;
    struct events_view *view;
};

static int look_events(struct store *store, void *arg)
{
    struct events_look *look = arg;
    struct arena *arena = &look->view->arena;
    struct event *events = NULL;
    size_t count = 0;

    arena_reset(arena);
    int r = store_events(store, look->job_id ? EVENTS_OF_JOB : EVENTS_ALL, look->job_id,
                         look->after, look->limit, arena, &events, &count);
    if (r < 0)
        return r;
    struct hf_event *views = arena_array(arena, struct hf_event, count);
    struct hf_event **items = arena_array(arena, struct hf_event *, count);
    for (size_t i = 0; i < count && items; i++) {
        const struct event *e = &events[i];
        views[i] = (struct hf_event){ .id = e->id,
                                      .at_us = e->at,
                                      .type = e->type.p,
                                      .data = e->data.p,
                                      .job_id = e->job_id,
                                      .owner_id = e->owner_id,
                                      .recovery_id = e->recovery_id };
        items[i] = &views[i];
    }
    look->view->events = (struct hf_events){ .count = count, .items = items };
    return arena_end(arena);
}

int hf_list_events(struct hf *hf, int64_t job_id, int64_t after, size_t limit,
                   struct hf_error *error, struct hf_events **ret)
{
    struct error why = { 0 };
    struct events_look look = { .job_id = job_id, .after = after, .limit = limit };

    int r = check_look(hf, ret, &why);
    if (r == 0 && (limit < 1 || limit > LIMIT_PAGE_ITEMS))
        r = error_set(&why, -HF_INVALID, "limit",
                      "limit is %zu; it must be between 1 and %d.", limit,
                      LIMIT_PAGE_ITEMS);
    if (r < 0)
        return give(error, &why, r);
    look.view = new (struct events_view);
    if (!look.view)
        return give(error, &why, -HF_NOMEM);
    arena_init(&look.view->arena, 16 << 10, VIEW_BYTES);
    r = reader_look(hf, look_events, &look, &why);
    if (r < 0) {
        hf_events_free(&look.view->events);
        return give(error, &why, r);
    }
    *ret = &look.view->events;
    return 0;
}

void hf_events_free(struct hf_events *events)
{
    struct events_view *view = (struct events_view *)events;
    if (!view)
        return;
    arena_release(&view->arena);
    free(view);
}
