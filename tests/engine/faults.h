/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.h -- a store with something for every command and every duty to do.
 *
 * It is made once, on a disk in memory, and copied for each attempt.  In the second
 * copy, `crashed`, the process that had it was killed with work under way. */
#pragma once

#include "crash_vfs.h"
#include "fires.h"

enum { LARGE_BYTES = 20 << 10 };

struct fixture {
    int64_t waiting[6], keyed, scheduled, expiring, scheduled_retry;
    int64_t running[4], cancelling, overdue; /* of the session "s1" */
    int64_t failed, retried, completed;
    int64_t hold, next_hold;
    int64_t here[2];  /* of the node that was killed */
    int64_t local[3]; /* for a node to take */
    int64_t timed;    /* a schedule; it fires 15 s after the beginning */
    char large[LARGE_BYTES];
    struct crash_disk *sound, *crashed;
    const char *url;
};

static struct fixture fx;

static inline struct new_job fault_job(const char *queue)
{
    struct new_job job = job_of_kind("work");
    job.queue = slice_of(queue);
    job.payload = SLICE("{\"a\":1}");
    return job;
}

/* A world on a disk, at the fixture's time or later; not open yet. */
static inline void fault_world(struct world *w, const char *vfs)
{
    world_init(w);
    w->url = fx.url;
    w->vfs = vfs;
    w->kinds[0] = "local";
    w->kind_count = 1;
    w->wall += 10 * US_PER_S;
    w->mono += 10 * US_PER_S;
}

static inline void fault_claim(struct world *w, int64_t id)
{
    check_ok(act(w, make_claim_of("s1", id)));
}

static inline void fixture_jobs(struct world *w)
{
    struct new_job job = fault_job("q");
    for (size_t i = 0; i < array_len(fx.waiting); i++)
        fx.waiting[i] = enqueue(w, job);
    job.unique_key = SLICE("source");
    fx.keyed = enqueue(w, job);
    job.unique_key = (struct slice){ 0 };
    job.delay_us = 20 * US_PER_S;
    fx.scheduled = enqueue(w, job);
    job.delay_us = 0;
    job.expires_at = w->wall + 20 * US_PER_S;
    fx.expiring = enqueue(w, job);
    job.expires_at = 0;
    for (size_t i = 0; i < array_len(fx.running); i++)
        fault_claim(w, fx.running[i] = enqueue(w, job));
    fault_claim(w, fx.cancelling = enqueue(w, job));
    check_ok(cancel(w, fx.cancelling));
    job.max_execution_us = 15 * US_PER_S;
    fault_claim(w, fx.overdue = enqueue(w, job));
    job.max_execution_us = -1;
    fault_claim(w, fx.failed = enqueue(w, job));
    check_ok(fail_run(w, "s1", fx.failed, ERROR_PERMANENT, NULL));
    fault_claim(w, fx.retried = enqueue(w, job));
    check_ok(fail_run(w, "s1", fx.retried, ERROR_NETWORK, &fx.scheduled_retry));
    fault_claim(w, fx.completed = enqueue(w, job));
    check_ok(complete(w, "s1", fx.completed));
}

static inline int64_t fixture_hold(struct world *w, const char *holder)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("gpu");
    c->reserve.holder = slice_of(holder);
    c->reserve.wait_us = 300 * US_PER_S;
    c->reserve.ttl_us = 25 * US_PER_S;
    check_ok(world_apply(w, c));
    int64_t id = c->reserve.out.id;
    command_free(c);
    return id;
}

static inline void fixture_make(void)
{
    static struct world w;
    fx = (struct fixture){ .url = test_path("faults.db") };
    memset(fx.large, 'x', sizeof(fx.large) - 1);
    fx.large[0] = fx.large[sizeof(fx.large) - 2] = '"';
    struct crash_disk *disk = crash_disk_new("fixture", true, NULL);
    fx.sound = crash_disk_new("sound", false, NULL);
    fx.crashed = crash_disk_new("crashed", false, NULL);

    fault_world(&w, "fixture");
    w.wall -= 10 * US_PER_S;
    w.mono -= 10 * US_PER_S;
    world_open(&w);
    fixture_jobs(&w);
    fx.hold = fixture_hold(&w, "anna");
    fx.next_hold = fixture_hold(&w, "ben");
    struct schedule_edit edit = new_schedule("timed", "15 0 9 15 1 *", 0);
    edit.set |= EDIT_ZONE | EDIT_QUEUE;
    edit.with.time_zone = SLICE("Europe/Berlin");
    edit.with.queue = SLICE("timed");
    fx.timed = schedule(&w, edit);
    check_int(schedule_of(&w, fx.timed).next_at, w.wall + 15 * US_PER_S);
    struct new_job job = fault_job("here");
    job.kind = SLICE("local");
    for (size_t i = 0; i < array_len(fx.here); i++)
        fx.here[i] = enqueue(&w, job);
    engine_set_capacity(w.engine, array_len(fx.here));
    world_settle(&w);
    check_int(w.engine->run_count, array_len(fx.here));
    job.queue = SLICE("there");
    for (size_t i = 0; i < array_len(fx.local); i++)
        fx.local[i] = enqueue(&w, job);

    crash_disk_cut(disk, CRASH_LOSE, 0, fx.crashed); /* killed here */
    crash_disk_stop_after(disk, 0);
    world_crash(&w);
    crash_disk_restart(disk, CRASH_LOSE, 0);
    w.capacity = 0;
    world_open(&w);
    world_close(&w);
    crash_disk_cut(disk, CRASH_LOSE, 0, fx.sound);
    crash_disk_free(disk);
}

static inline void fixture_free(void)
{
    crash_disk_free(fx.sound);
    crash_disk_free(fx.crashed);
}

/* ---- commands ---- */

static inline struct command *fault_enqueue(void)
{
    return make_enqueue(fault_job("q"));
}
static inline struct command *fault_enqueue_batch(void)
{
    struct new_job jobs[20];
    for (size_t i = 0; i < array_len(jobs); i++)
        jobs[i] = fault_job(i % 2 ? "q" : "another");
    return make_batch(jobs, array_len(jobs));
}
static inline struct command *fault_enqueue_large(void)
{
    struct new_job job = fault_job("q");
    job.payload = slice_of(fx.large);
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_later(void)
{
    struct new_job job = fault_job("new-queue");
    job.delay_us = US_PER_S;
    job.expires_at = INT64_C(1900000000) * US_PER_S;
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_return(void)
{
    struct new_job job = fault_job("q");
    job.unique_key = SLICE("source");
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_replace(void)
{
    struct new_job job = fault_job("q");
    job.unique_key = SLICE("source");
    job.on_conflict = CONFLICT_REPLACE;
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_once(void)
{
    return with_key(fault_enqueue_batch(), "key", "body");
}
static inline struct command *fault_claim_many(void)
{
    struct command *c = make_claim("s1", 4);
    c->claim.claim_id = SLICE("claim");
    return c;
}
static inline struct command *fault_claim_new(void)
{
    return make_claim("s2", 1);
}
static inline struct command *fault_complete(void)
{
    return make_complete("s1", fx.running[0], "{\"ok\":true}");
}
static inline struct command *fault_complete_cancelling(void)
{
    return make_complete("s1", fx.cancelling, "{\"ok\":true}");
}
static inline struct command *fault_fail(void)
{
    return make_fail("s1", fx.running[0], ERROR_NETWORK, "Broken");
}
static inline struct command *fault_fail_final(void)
{
    return make_fail("s1", fx.running[0], ERROR_PERMANENT, "Broken");
}
static inline struct command *fault_progress(void)
{
    return make_progress("s1", fx.running[0], 50, "half");
}
static inline struct command *fault_cancel_waiting(void)
{
    return make_cancel(fx.waiting[0], "why not");
}
static inline struct command *fault_cancel_running(void)
{
    return make_cancel(fx.running[0], "why not");
}
static inline struct command *fault_change(void)
{
    return make_change(fx.waiting[0], INT64_C(1900000000) * US_PER_S, 8, "moved");
}
static inline struct command *fault_retry_failed(void)
{
    return make_retry_by_hand(fx.failed);
}
static inline struct command *fault_retry_scheduled(void)
{
    return make_retry_by_hand(fx.retried);
}
static inline struct command *fault_pause(void)
{
    struct command *c = queue_command("q");
    c->queue.pause = 1;
    c->queue.reason = SLICE("maintenance");
    return c;
}
static inline struct command *fault_settings(void)
{
    struct command *c = queue_command("fresh");
    c->queue.slots = 4;
    c->queue.concurrency = 3;
    c->queue.retry_delays = SLICE("1,2,3");
    return c;
}
static inline struct command *fault_project(void)
{
    return make_project("second");
}
static inline struct command *fault_beat(void)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = SLICE("s1");
    c->beat.runs = fx.running;
    c->beat.run_count = 2;
    return c;
}
static inline struct command *fault_beat_new(void)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = SLICE("s3");
    return c;
}
static inline struct command *fault_reserve(void)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("q");
    c->reserve.holder = SLICE("eva");
    c->reserve.wait_us = 30 * US_PER_S;
    return c;
}
static inline struct command *fault_release(void)
{
    struct command *c = command_new(OP_RELEASE);
    c->release.reservation_id = fx.hold;
    return c;
}
static inline struct command *fault_renew(void)
{
    struct command *c = command_new(OP_RENEW);
    c->renew.reservation_id = fx.hold;
    c->renew.ttl_us = 60 * US_PER_S;
    return c;
}

static inline struct command *fault_schedule(void)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = new_schedule("another", "0 0 * * *", 0);
    c->schedule.edit.set |= EDIT_ZONE;
    c->schedule.edit.with.time_zone = SLICE("America/New_York");
    return c;
}
static inline struct command *fault_reschedule(void)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = edit_of(fx.timed);
    c->schedule.edit.set = EDIT_CRON | EDIT_PRIORITY;
    c->schedule.edit.with.cron = SLICE("0 12 * * *");
    c->schedule.edit.with.priority = 2;
    return c;
}
static inline struct command *fault_unschedule(void)
{
    struct command *c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = fx.timed;
    return c;
}
static inline struct command *fault_trigger(void)
{
    struct command *c = command_new(OP_TRIGGER);
    c->trigger.id = fx.timed;
    return c;
}

struct fault_command {
    const char *name;
    struct command *(*make)(void);
};

static const struct fault_command fault_commands[] = {
    { "enqueue", fault_enqueue },
    { "enqueue a batch", fault_enqueue_batch },
    { "enqueue a large payload", fault_enqueue_large },
    { "enqueue for later", fault_enqueue_later },
    { "enqueue a key that is there", fault_enqueue_return },
    { "enqueue in another's place", fault_enqueue_replace },
    { "enqueue under an idempotency key", fault_enqueue_once },
    { "claim", fault_claim_many },
    { "claim as a new session", fault_claim_new },
    { "complete", fault_complete },
    { "complete while cancelling", fault_complete_cancelling },
    { "fail", fault_fail },
    { "fail for good", fault_fail_final },
    { "progress", fault_progress },
    { "cancel what waits", fault_cancel_waiting },
    { "cancel what runs", fault_cancel_running },
    { "change", fault_change },
    { "retry by hand", fault_retry_failed },
    { "retry at once", fault_retry_scheduled },
    { "pause", fault_pause },
    { "settings of a queue", fault_settings },
    { "project", fault_project },
    { "beat", fault_beat },
    { "beat of a new session", fault_beat_new },
    { "reserve", fault_reserve },
    { "release", fault_release },
    { "renew", fault_renew },
    { "schedule", fault_schedule },
    { "change a schedule", fault_reschedule },
    { "drop a schedule", fault_unschedule },
    { "trigger", fault_trigger },
};
