/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.h -- what the tests of recovery and of owners share: what the log said; a
 * node's own runs; beats of remote workers. */
#pragma once

#include <stdarg.h>

#include "heard.h"
#include "signature.h"

/* ---- recoveries ---- */

static inline void recover_by_hand(struct world *w)
{
    check_ok(recovery_begin(w->engine, RECOVERY_MANUAL, 0));
    int r = 1;
    while (r > 0)
        r = recovery_step(w->engine);
    check_ok(r);
}

static inline void restart(struct world *w)
{
    world_crash(w);
    world_open(w);
}

/* A second recovery, and one by hand, change nothing.  The node takes no work
 * meanwhile. */
static inline void check_settled(struct world *w)
{
    size_t capacity = w->capacity;
    w->capacity = 0;
    engine_set_capacity(w->engine, 0);
    const char *before = signature(w);
    restart(w);
    check_same(signature(w), before);
    recover_by_hand(w);
    check_same(signature(w), before);
    check_clean(w);
    w->capacity = capacity;
}

/* The newest report of a type; of any if that is 0. */
static inline struct recovery_row last_report(struct world *w, int type)
{
    struct recovery_row *rows = NULL;
    size_t count = 0, i = 0;
    check_ok(store_recoveries(w->engine->store, 0, 100, &w->arena, &rows, &count));
    while (i < count && type != 0 && rows[i].type != type)
        i++;
    check(i < count);
    return rows[i];
}

/* A number in the last report of a type; -1 if it is not there. */
static inline int64_t reported_by(struct world *w, int type, const char *name)
{
    char key[110];
    snprintf(key, sizeof(key), "\"%s\":", name);
    struct slice report = last_report(w, type).report;
    const char *found = report.p ? strstr(report.p, key) : NULL;
    return found ? strtoll(found + strlen(key), NULL, 10) : -1;
}

/* In the report of the last start. */
static inline int64_t reported(struct world *w, const char *name)
{
    return reported_by(w, RECOVERY_START, name);
}

static inline size_t recovery_count(struct world *w)
{
    struct recovery_row *rows = NULL;
    size_t count = 0;
    check_ok(store_recoveries(w->engine->store, 0, 1000, &w->arena, &rows, &count));
    return count;
}

/* ---- looking ---- */

/* How many events of a type a job has; *ret is the last one's data. */
static inline int events_of(struct world *w, int64_t id, const char *type,
                            struct slice *ret)
{
    struct event *events = NULL;
    size_t count = 0;
    int n = 0;
    check_ok(store_events(w->engine->store, EVENTS_OF_JOB, id, 0, 1000, &w->arena,
                          &events, &count));
    for (size_t i = 0; i < count; i++)
        if (slice_equal(events[i].type, slice_of(type))) {
            n++;
            if (ret)
                *ret = events[i].data;
        }
    return n;
}

/* All events of a type, whatever they are about. */
static inline int events_named(struct world *w, const char *type, struct event *ret)
{
    struct event *events = NULL;
    size_t count = 0;
    int n = 0;
    int64_t after = 0;
    do {
        check_ok(store_events(w->engine->store, EVENTS_ALL, 0, after, 1000, &w->arena,
                              &events, &count));
        for (size_t i = 0; i < count; i++) {
            after = events[i].id;
            if (!slice_equal(events[i].type, slice_of(type)))
                continue;
            n++;
            if (ret)
                *ret = events[i];
        }
    } while (count == 1000);
    return n;
}

static inline struct owner owner_row(struct world *w, int64_t id)
{
    struct owner owner = { 0 };
    check_ok(store_owner_get(w->engine->store, id, &w->arena, &owner));
    return owner;
}

static inline struct owner session_row(struct world *w, const char *session)
{
    struct owner owner = { 0 };
    check_ok(
        store_owner_by_session(w->engine->store, slice_of(session), &w->arena, &owner));
    return owner;
}

/* Ids of jobs in a state, oldest first. */
static inline size_t jobs_in(struct world *w, int state, int64_t *ids, size_t max)
{
    struct job_filter filter = { .states = state ? 1u << state : 0, .limit = 500 };
    struct job_row *rows = NULL;
    size_t count = 0, n = 0;
    do {
        check_ok(store_jobs_list(w->engine->store, &filter, &w->arena, &rows, &count));
        for (size_t i = 0; i < count; i++) {
            if (ids && n < max)
                ids[n] = rows[i].job.id;
            n++;
            filter.before = rows[i].job.id;
        }
    } while (count == filter.limit);
    for (size_t i = 0; ids && n <= max && i < n / 2; i++) {
        int64_t other = ids[i];
        ids[i] = ids[n - 1 - i];
        ids[n - 1 - i] = other;
    }
    return n;
}

static inline size_t count_in(struct world *w, int state)
{
    return jobs_in(w, state, NULL, 0);
}

static inline void run_sqlf(struct world *w, const char *format, ...) printf_like(2, 3);
static inline void run_sqlf(struct world *w, const char *format, ...)
{
    char script[2000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(script, sizeof(script), format, args);
    va_end(args);
    check(n > 0 && (size_t)n < sizeof(script));
    run_sql(w, script);
}

/* ---- this node's own runs ---- */

/* The node executes this kind, up to `capacity` at once; not open yet. */
static inline void world_init_node(struct world *w, const char *kind, size_t capacity)
{
    world_init(w);
    w->kinds[0] = kind;
    w->kind_count = 1;
    w->capacity = capacity;
}

static inline int complete_here(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_COMPLETE);
    c->complete.job_id = id;
    c->complete.owner_id = w->engine->owner_id;
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

static inline int fail_here(struct world *w, int64_t id, int type)
{
    struct command *c = command_new(OP_FAIL);
    c->fail.job_id = id;
    c->fail.owner_id = w->engine->owner_id;
    c->fail.error = (struct job_error){ .type = type, .message = SLICE("it broke") };
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

/* ---- remote workers ---- */

/* A beat that names these runs (NULL: does not say); *ret_cancel is how many it
 * is asked to stop, the first of them in *ret_first. */
static inline int beat_naming(struct world *w, const char *session, const int64_t *runs,
                              size_t count, size_t *ret_cancel, int64_t *ret_first)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = slice_of(session);
    c->beat.runs = runs;
    c->beat.run_count = count;
    int r = world_apply(w, c);
    if (ret_cancel)
        *ret_cancel = c->beat.out_cancel_count;
    if (ret_first)
        *ret_first = c->beat.out_cancel_count ? c->beat.out_cancel[0] : 0;
    command_free(c);
    return r;
}

static inline void beat(struct world *w, const char *session)
{
    check_ok(beat_naming(w, session, NULL, 0, NULL, NULL));
}

/* Time passes while these sessions go on beating, three times in a lease. */
static inline void pass_beating(struct world *w, int64_t us, const char *session)
{
    int64_t step = w->settings.lease_us / 3;
    while (us > 0) {
        int64_t now = us < step ? us : step;
        world_pass(w, now);
        beat(w, session);
        us -= now;
    }
}

/* ---- many at once ---- */

/* Enqueues `count` jobs like `job` in one command; their ids. */
static inline int64_t *enqueue_many(struct world *w, struct new_job job, size_t count)
{
    struct command *c = command_new(OP_ENQUEUE);
    struct new_job *jobs = arena_array(&w->arena, struct new_job, count);
    struct enqueued *out = arena_array(&w->arena, struct enqueued, count);
    int64_t *ids = arena_array(&w->arena, int64_t, count);
    check(jobs && out && ids);
    for (size_t i = 0; i < count; i++)
        jobs[i] = job;
    c->enqueue.jobs = jobs;
    c->enqueue.count = count;
    c->enqueue.out = out;
    if (world_apply(w, c) < 0)
        fail("enqueue: %s", w->error.text);
    for (size_t i = 0; i < count; i++)
        ids[i] = out[i].id;
    command_free(c);
    return ids;
}

/* A remote session takes `count` jobs of a queue (NULL: of any). */
static inline void claim_many(struct world *w, const char *session, const char *queue,
                              size_t count)
{
    while (count > 0) {
        size_t n = count < 1000 ? count : 1000;
        check_int(try_claim(w, session, queue, n, NULL), n);
        count -= n;
    }
}
