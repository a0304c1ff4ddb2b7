/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h -- an engine on a clock that only the test moves.
 *
 * No threads: commands are applied where they are built, time passes by
 * world_pass(), a crash is engine_abandon() (nothing is written, as if the
 * process had been killed).  The same tests run on both databases. */
#pragma once

#include <stdio.h>

#include "engine/engine.h"
#include "engine/recovery/recovery.h"
#include "test.h"

enum { WORLD_RUNS = 4096 };

struct world {
    struct clock clock; /* first: the callbacks cast */
    int64_t wall, mono;
    const char *url;
    const char *vfs; /* SQLite's, or NULL */
    struct engine *engine;
    struct settings settings;
    struct host host;
    const char *kinds[8];
    size_t kind_count, capacity;
    enum executor executor; /* 0: handlers */
    const char *state_dir;  /* or NULL */
    const char *zone_dir;   /* or NULL: the system's */
    uint64_t seed;
    struct log *log;                                       /* or NULL */
    bool (*adopt)(void *world, const struct job_row *row); /* or NULL */
    struct error error;                                    /* of the last command */
    void (*on_started)(void *world, int64_t job_id);       /* or NULL */
    /* what the hooks were told */
    int64_t started[WORLD_RUNS];
    size_t started_count;
    struct {
        int64_t job_id;
        int type;
    } stops[WORLD_RUNS];
    size_t stop_count;
    struct arena arena;
};

static inline int64_t world_wall(const struct clock *clock)
{
    return ((const struct world *)clock)->wall;
}
static inline int64_t world_mono(const struct clock *clock)
{
    return ((const struct world *)clock)->mono;
}
static inline void world_on_started(void *arg, const struct started *runs, size_t count)
{
    struct world *w = arg;
    for (size_t i = 0; i < count && w->started_count < WORLD_RUNS; i++) {
        w->started[w->started_count++] = runs[i].job.id;
        if (w->on_started)
            w->on_started(w, runs[i].job.id);
    }
}
static inline void world_on_stop(void *arg, int64_t job_id, int type)
{
    struct world *w = arg;
    check(w->stop_count < WORLD_RUNS);
    w->stops[w->stop_count].job_id = job_id;
    w->stops[w->stop_count++].type = type;
}

/* A world that is not open yet: set settings, kinds, capacity, then open. */
static inline void world_init(struct world *w)
{
    *w = (struct world){ .clock = { world_wall, world_mono },
                         .wall = INT64_C(1800000000) * US_PER_S,
                         .mono = 1000 * US_PER_S,
                         .url = test_db_url(),
                         .seed = 7 };
    settings_default(&w->settings);
    snprintf(w->host.name, sizeof(w->host.name), "host-a");
    snprintf(w->host.boot_id, sizeof(w->host.boot_id), "boot-1");
    w->host.pid = 1000;
    w->host.start_ticks = 1;
    w->host.pid_ns = 42;
    arena_init(&w->arena, 64 << 10, (size_t)256 << 20);
}

static inline int world_try_open(struct world *w)
{
    w->error = (struct error){ 0 };
    return engine_open(&(struct engine_options){ .url = w->url,
                                                 .vfs = w->vfs,
                                                 .node_name = "node",
                                                 .settings = &w->settings,
                                                 .clock = &w->clock,
                                                 .seed = w->seed,
                                                 .log = w->log,
                                                 .host = &w->host,
                                                 .kinds = w->kinds,
                                                 .kind_count = w->kind_count,
                                                 .executor = w->executor,
                                                 .state_dir = w->state_dir,
                                                 .zone_dir = w->zone_dir,
                                                 .hooks = { .arg = w,
                                                            .started = world_on_started,
                                                            .stop_run = world_on_stop,
                                                            .adopt = w->adopt } },
                       &w->error, &w->engine);
}

/* Opens; recovery has not run yet. */
static inline void world_open_cold(struct world *w)
{
    int r = world_try_open(w);
    if (r < 0)
        fail("open: %s", w->error.text);
    w->host.pid++; /* the next one is another process */
    w->host.start_ticks++;
    if (w->capacity)
        engine_set_capacity(w->engine, w->capacity);
}

/* Ticks until nothing is due at this moment. */
static inline void world_settle(struct world *w)
{
    for (int i = 0; i < 100000; i++)
        if (engine_tick(w->engine) > w->wall && w->engine->ready)
            return;
    fail("the engine is never done");
}

static inline void world_open(struct world *w)
{
    world_open_cold(w);
    world_settle(w);
}

/* Time passes, in steps of at most a second, as it does for a live process. */
static inline void world_pass(struct world *w, int64_t us)
{
    while (us > 0) {
        int64_t step = us < US_PER_S ? us : US_PER_S;
        w->wall += step;
        w->mono += step;
        us -= step;
        world_settle(w);
    }
}

static inline void world_crash(struct world *w)
{
    engine_abandon(w->engine);
    w->engine = NULL;
}

static inline void world_close(struct world *w)
{
    engine_close(w->engine);
    w->engine = NULL;
    arena_release(&w->arena);
}

static inline int world_apply(struct world *w, struct command *c)
{
    c->mail.next = NULL;
    engine_apply(w->engine, c);
    w->error = c->error;
    return c->result;
}

/* ---- what users do ---- */

static inline struct new_job job_of_kind(const char *kind)
{
    struct new_job job;
    new_job_init(&job);
    job.kind = slice_of(kind);
    return job;
}

static inline int try_enqueue(struct world *w, struct new_job job, struct enqueued *ret)
{
    struct command *c = command_new(OP_ENQUEUE);
    struct enqueued out = { 0 };
    c->enqueue.jobs = &job;
    c->enqueue.count = 1;
    c->enqueue.out = &out;
    int r = world_apply(w, c);
    if (r == 0 && ret)
        *ret = out;
    command_free(c);
    return r;
}

static inline int64_t enqueue(struct world *w, struct new_job job)
{
    struct enqueued out = { 0 };
    int r = try_enqueue(w, job, &out);
    if (r < 0)
        fail("enqueue: %s", w->error.text);
    return out.id;
}

static inline int64_t enqueue_kind(struct world *w, const char *kind)
{
    return enqueue(w, job_of_kind(kind));
}

/* A remote worker's claim; returns how many, their ids in `ids`. */
static inline int try_claim(struct world *w, const char *session, const char *queue,
                            size_t count, int64_t *ids)
{
    struct command *c = command_new(OP_CLAIM);
    struct slice name = slice_of(queue);
    c->claim.session = slice_of(session);
    c->claim.queues = &name;
    c->claim.queue_count = queue ? 1 : 0;
    c->claim.count = count;
    int r = world_apply(w, c);
    int n = r < 0 ? r : (int)c->claim.out_count;
    for (int i = 0; i < n && ids; i++)
        ids[i] = c->claim.out[i].job.id;
    command_free(c);
    return n;
}

static inline int64_t claim_one(struct world *w, const char *session)
{
    int64_t id = 0;
    int n = try_claim(w, session, NULL, 1, &id);
    if (n < 0)
        fail("claim: %s", w->error.text);
    return n ? id : 0;
}

static inline int complete(struct world *w, const char *session, int64_t id)
{
    struct command *c = command_new(OP_COMPLETE);
    c->complete.job_id = id;
    c->complete.session = slice_of(session);
    c->complete.result = SLICE("{\"ok\":true}");
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

static inline int fail_run(struct world *w, const char *session, int64_t id, int type,
                           int64_t *ret_retry)
{
    struct command *c = command_new(OP_FAIL);
    c->fail.job_id = id;
    c->fail.session = slice_of(session);
    c->fail.error = (struct job_error){ .type = type,
                                        .class = SLICE("TestError"),
                                        .message = SLICE("it broke"),
                                        .details = SLICE("{\"a\":1}") };
    int r = world_apply(w, c);
    if (ret_retry)
        *ret_retry = c->fail.out_retry_id;
    command_free(c);
    return r;
}

static inline int cancel(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_CANCEL);
    c->cancel.job_id = id;
    c->cancel.reason = SLICE("not needed");
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

static inline int retry_by_hand(struct world *w, int64_t id, int64_t *ret)
{
    struct command *c = command_new(OP_RETRY);
    c->retry.job_id = id;
    int r = world_apply(w, c);
    if (ret)
        *ret = c->retry.out_id;
    command_free(c);
    return r;
}

static inline struct command *queue_command(const char *name)
{
    struct command *c = command_new(OP_QUEUE);
    c->queue.name = slice_of(name);
    c->queue.pause = -1;
    c->queue.slots = c->queue.concurrency = c->queue.stale_after_us =
        c->queue.max_retries = c->queue.max_execution_us = c->queue.on_crash = INT64_MIN;
    return c;
}

static inline void set_pause(struct world *w, const char *queue, bool pause)
{
    struct command *c = queue_command(queue);
    c->queue.pause = pause;
    check_ok(world_apply(w, c));
    command_free(c);
}

static inline void set_limits(struct world *w, const char *queue, int64_t slots,
                              int64_t concurrency)
{
    struct command *c = queue_command(queue);
    c->queue.slots = slots;
    c->queue.concurrency = concurrency;
    check_ok(world_apply(w, c));
    command_free(c);
}

/* ---- what can be seen ---- */

static inline struct job_row look(struct world *w, int64_t id)
{
    struct job_row row = { 0 };
    int r = store_job_get(w->engine->store, id, &w->arena, &row);
    if (r < 0)
        fail("job %lld: %s", (long long)id, status_of(r)->name);
    return row;
}

static inline int state_of(struct world *w, int64_t id)
{
    return look(w, id).job.state;
}

/* The retry of a job; 0 if it has none. */
static inline int64_t retry_of(struct world *w, int64_t id)
{
    struct job_row row;
    int r = store_job_retry_of(w->engine->store, id, &w->arena, &row);
    if (r == -HF_NOT_FOUND)
        return 0;
    check_ok(r);
    return row.job.id;
}

/* Any statement of the store that gives one number. */
static inline int64_t number(struct world *w, enum sql sql)
{
    int64_t n = 0;
    check_ok(store_int(w->engine->store, sql, NULL, -1, &n));
    return n;
}

/* SQL of the test's own, to make what the engine would never make. */
static inline void run_sql(struct world *w, const char *script)
{
    check_ok(store_begin(w->engine->store, w->wall));
    int r = db_script(w->engine->store->db, script);
    if (r < 0)
        fail("%s: %s", script, db_error(w->engine->store->db));
    check_ok(store_commit(w->engine->store));
}
