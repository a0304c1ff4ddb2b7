/* SPDX-License-Identifier: Apache-2.0
 *
 * acts.h -- what is done to jobs, one by one or in piles, and what is left of it.
 *
 * world.h has an engine and the plain deeds; here are all commands as objects,
 * so that a test can put them into one pile in the order it wants, and the
 * views that a rule is held against: events, counts, neighbours. */
#pragma once

#include "base/hash.h"
#include "base/limits.h"
#include "world.h"
#include "world_check.h"

/* ---- commands as objects ---- */

/* A copy of all jobs; the slices they point to must stay. */
static inline struct command *make_batch(const struct new_job *jobs, size_t count)
{
    struct command *c = command_new(OP_ENQUEUE);
    c->enqueue.jobs = arena_array(&c->arena, struct new_job, count);
    c->enqueue.out = arena_array(&c->arena, struct enqueued, count);
    check(c->enqueue.jobs && c->enqueue.out);
    memcpy(c->enqueue.jobs, jobs, count * sizeof(*jobs));
    c->enqueue.count = count;
    return c;
}

static inline struct command *make_enqueue(struct new_job job)
{
    return make_batch(&job, 1);
}

/* With an idempotency key; `body` stands for the bytes of the request. */
static inline struct command *with_key(struct command *c, const char *key,
                                       const char *body)
{
    c->enqueue.idempotency_key = slice_of(key);
    check_ok(sha256(slice_of(body), c->enqueue.body_hash));
    return c;
}

static inline struct command *make_claim(const char *session, size_t count)
{
    struct command *c = command_new(OP_CLAIM);
    c->claim.session = slice_of(session);
    c->claim.count = count;
    return c;
}

/* Only this job. */
static inline struct command *make_claim_of(const char *session, int64_t id)
{
    struct command *c = make_claim(session, 1);
    c->claim.job_id = id;
    return c;
}

static inline struct command *make_complete(const char *session, int64_t id,
                                            const char *result)
{
    struct command *c = command_new(OP_COMPLETE);
    c->complete.job_id = id;
    c->complete.session = slice_of(session);
    c->complete.result = slice_of(result);
    return c;
}

static inline struct command *make_fail(const char *session, int64_t id, int type,
                                        const char *class)
{
    struct command *c = command_new(OP_FAIL);
    c->fail.job_id = id;
    c->fail.session = slice_of(session);
    c->fail.error = (struct job_error){ .type = type,
                                        .class = slice_of(class),
                                        .message = SLICE("it broke") };
    return c;
}

static inline struct command *make_progress(const char *session, int64_t id, int percent,
                                            const char *text)
{
    struct command *c = command_new(OP_PROGRESS);
    c->progress.job_id = id;
    c->progress.session = slice_of(session);
    c->progress.percent = percent;
    c->progress.text = slice_of(text);
    return c;
}

static inline struct command *make_cancel(int64_t id, const char *reason)
{
    struct command *c = command_new(OP_CANCEL);
    c->cancel.job_id = id;
    c->cancel.reason = slice_of(reason);
    return c;
}

/* 0 and NULL: unchanged. */
static inline struct command *make_change(int64_t id, int64_t run_at, int priority,
                                          const char *queue)
{
    struct command *c = command_new(OP_CHANGE);
    c->change.job_id = id;
    c->change.run_at = run_at;
    c->change.priority = priority;
    c->change.queue = slice_of(queue);
    return c;
}

static inline struct command *make_retry_by_hand(int64_t id)
{
    struct command *c = command_new(OP_RETRY);
    c->retry.job_id = id;
    return c;
}

static inline struct command *make_project(const char *name)
{
    struct command *c = command_new(OP_PROJECT);
    c->project.name = slice_of(name);
    return c;
}

/* Applies one command and frees it; its result. */
static inline int act(struct world *w, struct command *c)
{
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

static inline int change(struct world *w, int64_t id, int64_t run_at, int priority,
                         const char *queue)
{
    return act(w, make_change(id, run_at, priority, queue));
}

/* ---- piles ---- */

enum { PILE_MAX = 512 };

struct test_pile {
    struct command *list[PILE_MAX];
    size_t count;
};

static inline struct command *pile_add(struct test_pile *pile, struct command *c)
{
    check(pile->count < PILE_MAX);
    pile->list[pile->count++] = c;
    return c;
}

/* All in one transaction. */
static inline void pile_apply(struct world *w, struct test_pile *pile)
{
    check(pile->count > 0);
    for (size_t i = 0; i < pile->count; i++)
        pile->list[i]->mail.next = i + 1 < pile->count ? &pile->list[i + 1]->mail : NULL;
    engine_apply(w->engine, pile->list[0]);
}

static inline void pile_free(struct test_pile *pile)
{
    for (size_t i = 0; i < pile->count; i++)
        command_free(pile->list[i]);
    pile->count = 0;
}

/* ---- what can be seen ---- */

/* The events of a job (0: all) of a type; the data of the last in *ret. */
static inline int events_of(struct world *w, int64_t job_id, const char *type,
                            struct slice *ret)
{
    struct event *events = NULL;
    size_t count = 0;
    int n = 0;

    check_ok(store_events(w->engine->store, job_id ? EVENTS_OF_JOB : EVENTS_ALL, job_id,
                          0, 2000, &w->arena, &events, &count));
    for (size_t i = 0; i < count; i++)
        if (slice_equal(events[i].type, slice_of(type))) {
            n++;
            if (ret)
                *ret = events[i].data;
        }
    return n;
}

static inline bool has_text(struct slice text, const char *part)
{
    return text.p && memmem(text.p, text.n, part, strlen(part)) != NULL;
}

#define check_has(text, part)                                                            \
    do {                                                                                 \
        struct slice has_ = (text);                                                      \
        if (!has_text(has_, part))                                                       \
            fail("\"%s\" is not in: %.*s", part, (int)has_.n, has_.p ? has_.p : "");     \
    } while (0)

/* The sentence of the last command. */
#define check_sentence(w, part) check_has(slice_of((w)->error.text), part)

static inline struct queue *queue_named(struct world *w, const char *name)
{
    struct queue_entry *entry = NULL;
    check_ok(store_queue(w->engine->store, slice_of(name), false, &entry));
    return &entry->queue;
}

/* All counts of a queue, summed over shards; zeros if there are none. */
static inline struct queue_counts counts_of(struct world *w, int64_t queue_id)
{
    struct queue_counts *list = NULL;
    size_t count = 0;

    check_ok(store_counts(w->engine->store, &w->arena, &list, &count));
    for (size_t i = 0; i < count; i++)
        if (list[i].queue_id == queue_id)
            return list[i];
    return (struct queue_counts){ .queue_id = queue_id };
}

static inline int64_t count_of(struct world *w, const char *queue, enum counter counter)
{
    return counts_of(w, queue_named(w, queue)->id).count[counter];
}

/* The counts of every queue are those of the jobs' rows, and no row belongs to
 * a queue that is not there. */
static inline void check_books(struct world *w)
{
    struct queue_counts real[64] = { { 0 } };
    struct job_row *rows = NULL;
    size_t queues = 0, count = 0;
    struct job_filter filter = { .limit = 1000 };

    do {
        check_ok(store_jobs_list(w->engine->store, &filter, &w->arena, &rows, &count));
        for (size_t i = 0; i < count; i++) {
            size_t q = 0;
            while (q < queues && real[q].queue_id != rows[i].job.queue_id)
                q++;
            check(q < array_len(real));
            queues = q == queues ? q + 1 : queues;
            real[q].queue_id = rows[i].job.queue_id;
            real[q].count[COUNT_ACCEPTED]++;
            real[q].count[COUNT_ACCEPTED + rows[i].job.state]++;
            filter.before = rows[i].job.id;
        }
    } while (count == filter.limit);
    for (size_t q = 0; q < queues; q++) {
        struct queue_entry *entry = store_queue_by_id(w->engine->store, real[q].queue_id);
        if (!entry || !entry->queue.name[0])
            fail("jobs in queue %lld, which is not there", (long long)real[q].queue_id);
        struct queue_counts told = counts_of(w, real[q].queue_id);
        for (int c = 0; c < COUNTERS; c++)
            if (told.count[c] != real[q].count[c])
                fail("count %d of queue %s is %lld; its rows are %lld", c,
                     entry->queue.name, (long long)told.count[c],
                     (long long)real[q].count[c]);
    }
}

/* What every job must look like, whatever happened (I2, I3, I4). */
static inline void check_job(struct world *w, int64_t id)
{
    struct job_row row = look(w, id);
    const struct job *job = &row.job;
    const struct run *run = &row.run;

    if (job_state_waiting(job->state))
        check_int(run->job_id, 0);
    if (job_state_busy(job->state))
        check(run->job_id == id && run->finished_at == 0);
    if (job_state_terminal(job->state)) {
        check(job->finished_at > 0);
        check(run->job_id == 0 || run->finished_at > 0);
        if (run->job_id != 0)
            check_int(run->outcome, job->state);
    }
    if (job->state == JOB_FAILED)
        check(job->retry_state == RETRY_RETRIED || job->retry_state == RETRY_FINAL);
    check_int(job->retry_state == RETRY_RETRIED, retry_of(w, id) != 0);
}

/* A world that is open. */
static inline void world_begin(struct world *w)
{
    world_init(w);
    world_open(w);
}

/* The same with a node that executes jobs of kind "work", so many at once. */
static inline void world_begin_node(struct world *w, size_t capacity)
{
    world_init(w);
    w->kinds[0] = "work";
    w->kind_count = 1;
    w->capacity = capacity;
    w->settings.slots = (int)capacity;
    world_open(w);
}

/* The end of every test: whatever it did, the invariants hold. */
static inline void world_end(struct world *w)
{
    check_books(w);
    check_clean(w);
    world_close(w);
}

/* A second engine on the same store, of another process on another machine. */
static inline void twin_open_as(struct world *w, struct world *twin, bool producer)
{
    world_init(twin);
    twin->url = w->url;
    twin->wall = w->wall;
    twin->mono = w->mono;
    snprintf(twin->host.name, sizeof(twin->host.name), "host-b");
    snprintf(twin->host.boot_id, sizeof(twin->host.boot_id), "boot-b");
    check_ok(engine_open(&(struct engine_options){ .url = twin->url,
                                                   .node_name = "twin",
                                                   .producer = producer,
                                                   .settings = &twin->settings,
                                                   .clock = &twin->clock,
                                                   .seed = 11,
                                                   .host = &twin->host },
                         &twin->error, &twin->engine));
    if (!producer)
        world_settle(twin);
}

/* A node; on SQLite, where there is one scheduler, a producer. */
static inline void twin_open(struct world *w, struct world *twin)
{
    twin_open_as(w, twin, !test_on_postgres());
}
