/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.c -- jobs that wait and run; explain_over.c has those that are over. */
#include "engine/explain/explain.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "engine/explain/explain_private.h"
#include "store/schedules.h"

/* ---- words ---- */

static struct slice sentence(struct arena *arena, const char *format, va_list args)
    printf_like(2, 0);

static struct slice sentence(struct arena *arena, const char *format, va_list args)
{
    char text[1000];
    int n = vsnprintf(text, sizeof(text), format, args);
    struct slice all = { text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1 };
    all.n = utf8_fit(all, all.n);
    return arena_dup(arena, all);
}

void explain_add(struct explaining *x, const char *code, int64_t until,
                 const char *format, ...)
{
    va_list args;
    assert(x->out->count < REASONS_MAX);
    va_start(args, format);
    x->out->reasons[x->out->count++] = (struct reason){
        .code = code, .text = sentence(x->arena, format, args), .until = until
    };
    va_end(args);
}

void explain_summary(struct explaining *x, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    x->out->summary = sentence(x->arena, format, args);
    va_end(args);
}

const char *explain_stop(struct slice words)
{
    char last = words.n > 0 ? words.p[words.n - 1] : '.';
    return last == '.' || last == '!' || last == '?' ? "" : ".";
}

/* ---- waiting ---- */

static void explain_hold(struct explaining *x, const struct queue *queue)
{
    char at[TIME_TEXT_BYTES];
    if (!queue->paused)
        return;
    explain_add(x, "paused", 0,
                "The queue %s is paused since %s%s%s%s It goes on when somebody resumes "
                "the queue.",
                queue->name, time_text(queue->paused_at, at),
                queue->paused_reason[0] ? ": " : ".", queue->paused_reason,
                explain_stop(slice_of(queue->paused_reason)));
}

static int explain_reservation(struct explaining *x, const struct queue *queue)
{
    struct reservation *list = NULL;
    size_t count = 0;
    char until[TIME_TEXT_BYTES];

    int r = store_reservations(x->store, queue->id, x->arena, &list, &count);
    if (r < 0 || count == 0)
        return r;
    const struct reservation *v = &list[0]; /* the holder stands first */
    int shown = (int)utf8_fit(v->holder, 100);
    if (v->state == RESERVATION_ACTIVE)
        explain_add(x, "reserved", v->expires_at,
                    "The queue %s is reserved by %.*s until %s at the latest; nothing of "
                    "it starts before the reservation ends.",
                    queue->name, shown, v->holder.p, time_text(v->expires_at, until));
    else
        explain_add(x, "reserved", v->wait_until,
                    "%.*s waits to have the queue %s for itself until %s at the latest; "
                    "nothing of it starts meanwhile.",
                    shown, v->holder.p, queue->name, time_text(v->wait_until, until));
    return 0;
}

/* Limits that are reached: over all nodes, and of this kind of server. */
static int explain_limits(struct explaining *x, const struct queue *queue)
{
    struct queue_counts *counts = NULL;
    size_t count = 0;
    int64_t busy = 0;
    int64_t slots = queue->slots >= 0 ? queue->slots : x->context->settings->slots;

    int r = store_counts(x->store, x->arena, &counts, &count);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (counts[i].queue_id == queue->id)
            busy = counts[i].count[COUNT_RUNNING] + counts[i].count[COUNT_CANCELLING];
    if (r < 0)
        return r;
    if (queue->concurrency > 0 && busy >= queue->concurrency)
        explain_add(x, "concurrency", 0,
                    "%lld jobs of the queue %s are running, which is its limit. It goes "
                    "on when one of them ends.",
                    (long long)busy, queue->name);
    else if (x->out->row.job.class == CLASS_NODE && x->who.nodes > 0 &&
             busy >= slots * x->who.nodes)
        explain_add(
            x, "slots", 0,
            "All %lld workers that the queue %s has are busy. It goes on when one "
            "of them is free.",
            (long long)(slots * x->who.nodes), queue->name);
    return 0;
}

static void explain_executors(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    int shown = (int)job->kind.n;

    if (x->who.nodes == 0)
        explain_add(x, "no_scheduler", 0,
                    "No scheduler is running on this store; nothing goes on before one "
                    "is started.");
    if (job->class == CLASS_NODE && x->who.nodes > 0 && x->who.nodes_of_kind == 0)
        explain_add(
            x, "no_executor", 0,
            "No node that is alive executes jobs of the kind %.*s; start one that "
            "has a command or a handler for it.",
            shown, job->kind.p);
    if (job->class == CLASS_REMOTE && x->who.workers == 0)
        explain_add(x, "no_worker", 0,
                    "Nobody executes the kind %.*s: no node has a command for it, and no "
                    "remote worker is connected that could claim it.",
                    shown, job->kind.p);
}

static void explain_start(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    const struct explain_context *c = x->context;
    char until[TIME_TEXT_BYTES];

    if (c->recovering)
        explain_add(x, "recovering", 0,
                    "The server resolves what a crash has left; its workers start "
                    "afterwards.");
    if (c->throttled_until > c->now && job->class == CLASS_NODE &&
        job->position < c->node_started_at)
        explain_add(x, "throttled", c->throttled_until,
                    "The server starts gently after a crash: jobs that were there before "
                    "are taken a few at a time until %s.",
                    time_text(c->throttled_until, until));
    if (job->lane == LANE_RECOVERED)
        explain_add(x, "recovered_lane", 0,
                    "It was made by recovery %lld; such retries get at most half of the "
                    "workers of their queue.",
                    (long long)job->recovery_id);
}

enum { BEFORE_MOST = 1000 };

static int explain_place(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    size_t before = 0;
    int r = store_ready_before(x->store, job, BEFORE_MOST, &before);
    if (r < 0)
        return r;
    if (before > 0)
        explain_add(x, "behind", 0,
                    "%s%zu %s in the same queue stand before it, by priority and age.",
                    before == BEFORE_MOST ? "At least " : "", before,
                    before == 1 ? "job" : "jobs");
    else if (x->out->count == 0)
        explain_add(
            x, "next", 0, "%s",
            job->class == CLASS_NODE
                ? "Nothing holds it back: it is the next to start."
                : "Nothing holds it back: it is the next that a worker who claims "
                  "from its queue gets.");
    return 0;
}

static void explain_common(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    char at[TIME_TEXT_BYTES];

    if (job->retry_of)
        explain_add(x, "retry_of", 0, "It is attempt %d, the retry of job %lld.",
                    job->attempt, (long long)job->retry_of);
    if (job->expires_at)
        explain_add(x, "expires", job->expires_at,
                    "It is cancelled if it has not started by %s.",
                    time_text(job->expires_at, at));
}

static int explain_queued(struct explaining *x)
{
    struct queue_entry *entry = store_queue_by_id(x->store, x->out->row.job.queue_id);
    if (!entry)
        return -HF_NOT_FOUND;
    explain_hold(x, &entry->queue);
    int r = explain_reservation(x, &entry->queue);
    explain_executors(x);
    if (r == 0)
        r = explain_limits(x, &entry->queue);
    explain_start(x);
    if (r == 0)
        r = explain_place(x);
    if (r < 0)
        return r;
    explain_summary(x, "It waits in the queue %s. %.*s", entry->queue.name,
                    (int)x->out->reasons[0].text.n, x->out->reasons[0].text.p);
    explain_common(x);
    return 0;
}

static void explain_scheduled(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    int64_t left = job->run_at - x->context->now;
    char at[TIME_TEXT_BYTES], in[DURATION_TEXT_BYTES];

    if (left > 0)
        explain_add(x, "due_later", job->run_at, "It waits for its time, %s, in %s.",
                    time_text(job->run_at, at), duration_text(left, in));
    else
        explain_add(x, "due_now", 0,
                    "Its time has come, %s; the scheduler queues it "
                    "next.",
                    time_text(job->run_at, at));
    explain_summary(x, "%.*s", (int)x->out->reasons[0].text.n, x->out->reasons[0].text.p);
    if (x->who.nodes == 0)
        explain_executors(x);
    explain_common(x);
}

/* ---- running ---- */

static void explain_owner(struct explaining *x, const struct owner *owner)
{
    const struct run *run = &x->out->row.run;
    int64_t now = x->context->now;
    char at[TIME_TEXT_BYTES], ran[DURATION_TEXT_BYTES];
    int shown = (int)utf8_fit(owner->name, 200);

    explain_add(x, "owner", 0, "%.*s executes it since %s, for %s now.", shown,
                owner->name.p, time_text(run->started_at, at),
                duration_text(now - run->started_at, ran));
    if (owner->state != OWNER_ALIVE)
        explain_add(x, "owner_dead", 0,
                    "Its owner %.*s is gone since %s; a scheduler resolves the job: it "
                    "fails as crashed and is retried by its policy, or goes on if its "
                    "command still runs.",
                    shown, owner->name.p, time_text(owner->ended_at, at));
    else if (owner->lease_until && owner->lease_until < now)
        explain_add(
            x, "owner_silent", 0,
            "Its owner %.*s was last heard of at %s, and its lease is over; it is "
            "about to be declared dead.",
            shown, owner->name.p, time_text(owner->seen_at, at));
}

static void explain_run(struct explaining *x)
{
    const struct run *run = &x->out->row.run;
    int64_t now = x->context->now;
    char at[TIME_TEXT_BYTES];
    const struct queue_entry *queue =
        store_queue_by_id(x->store, x->out->row.job.queue_id);
    int64_t stale = queue && queue->queue.stale_after_us >= 0
                        ? queue->queue.stale_after_us
                        : x->context->settings->stale_after_us;

    if (run->deadline_at > now)
        explain_add(x, "deadline", run->deadline_at,
                    "It must end by %s; otherwise it is stopped and fails as timed out.",
                    time_text(run->deadline_at, at));
    else
        explain_add(x, "overdue", 0,
                    "Its time to execute was over at %s; it is being stopped, and fails "
                    "as timed out when it ends.",
                    time_text(run->deadline_at, at));
    if (stale > 0 && now - run->started_at > stale)
        explain_add(x, "stale", 0,
                    "It runs for longer than is usual in its queue; nothing is done "
                    "about it while its owner lives.");
    if (run->percent > 0 || run->progress.p)
        explain_add(x, "progress", 0, "Its own last word: %d %%%s%.*s.", run->percent,
                    run->progress.p ? ", " : "", (int)utf8_fit(run->progress, 200),
                    run->progress.p ? run->progress.p : "");
}

static int explain_busy(struct explaining *x)
{
    const struct job_row *row = &x->out->row;
    struct owner owner = { .name = SLICE("somebody"), .state = OWNER_ALIVE };
    char at[TIME_TEXT_BYTES];

    if (row->job.state == JOB_CANCELLING)
        explain_add(x, "cancel", 0,
                    "It was asked to stop at %s: %.*s%s Its owner ends it; what does not "
                    "stop by itself is ended after a grace period.",
                    time_text(row->job.cancel_at, at),
                    (int)utf8_fit(row->job.cancel_reason, 300), row->job.cancel_reason.p,
                    explain_stop(row->job.cancel_reason));
    if (row->run.job_id == 0) {
        explain_add(x, "no_run", 0,
                    "It is marked as running, but no run of it was written: its node "
                    "crashed in between. The next recovery resolves it.");
    } else {
        int r = store_owner_get(x->store, row->run.owner_id, x->arena, &owner);
        if (r < 0 && r != -HF_NOT_FOUND)
            return r;
        explain_owner(x, &owner);
        explain_run(x);
    }
    explain_summary(x, "It %s%.*s",
                    row->job.state == JOB_CANCELLING ? "is being cancelled. " : "runs. ",
                    (int)x->out->reasons[0].text.n, x->out->reasons[0].text.p);
    if (row->job.retry_of)
        explain_common(x);
    return 0;
}

/* ---- all ---- */

/* Where it comes from, last. */
static int explain_schedule(struct explaining *x)
{
    int64_t id = x->out->row.job.schedule_id;
    struct schedule schedule = { 0 };
    if (id == 0 || x->out->count == REASONS_MAX)
        return 0;
    int r = store_schedule_get(x->store, id, x->arena, &schedule);
    if (r == 0)
        explain_add(x, "schedule", 0, "It was made by the schedule %.*s (%lld).",
                    (int)schedule.name.n, schedule.name.p, (long long)id);
    else if (r == -HF_NOT_FOUND)
        explain_add(x, "schedule", 0,
                    "It was made by schedule %lld, which was deleted since.",
                    (long long)id);
    return r == -HF_NOT_FOUND ? 0 : r;
}

int explain_job(struct store *store, int64_t job_id,
                const struct explain_context *context, struct arena *arena,
                struct explanation *ret)
{
    struct explaining x = {
        .store = store, .arena = arena, .context = context, .out = ret
    };

    memset(ret, 0, sizeof(*ret));
    int r = store_job_get(store, job_id, arena, &ret->row);
    if (r == 0)
        r = store_executors(store, ret->row.job.kind, &x.who);
    if (r < 0)
        return r;
    int state = ret->row.job.state;
    if (state == JOB_SCHEDULED)
        explain_scheduled(&x);
    else if (state == JOB_QUEUED)
        r = explain_queued(&x);
    else if (job_state_busy(state))
        r = explain_busy(&x);
    else
        r = explain_over(&x);
    if (r == 0)
        r = explain_schedule(&x);
    return r < 0 ? r : arena_end(arena);
}
