/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.h -- a store with something for every command and every duty to do.
 *
 * It is made once, on a disk in memory, and copied for each attempt.  In the second
 * copy, `crashed`, the process that had it was killed with work under way. */
#pragma once

#include "crash_vfs.h"
#include "fires.h"
#include "hooks.h"

enum { LARGE_BYTES = 20 << 10 };

struct fixture {
    int64_t waiting[6], keyed, scheduled, expiring, scheduled_retry;
    int64_t running[4], cancelling, overdue; /* of the session "s1" */
    int64_t failed, retried, completed;
    int64_t hold, next_hold;
    int64_t here[2];                /* of the node that was killed */
    int64_t local[3];               /* for a node to take */
    int64_t timed;                  /* a schedule; it fires 15 s after the beginning */
    int64_t often;                  /* another; it has fired, and is over */
    int64_t endpoint, endpoint_run; /* that was under way on that node, the last try */
    int64_t doomed, doomed_job;     /* a project with something of everything */
    int64_t token, orphan;
    int64_t webhook, deliveries[3]; /* one has arrived, one was taken by that node */
    int64_t gone, gone_delivery;    /* a webhook whose receiver is gone */
    int64_t dropped;                /* a webhook, whose deliveries are still there */
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
    w->kinds[1] = "http";
    w->kind_count = 2;
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

/* Made by cancelling jobs, which tells one of them. */
static inline void fixture_webhooks(struct world *w)
{
    struct delivery *list = NULL;
    const struct new_job job = fault_job("told");
    struct delivered gone = { 0 };
    fx.gone = webhook(w, "[\"job.cancelled\"]");
    for (int i = 0; i < 2; i++)
        check_ok(cancel(w, enqueue(w, job)));
    check_int(deliveries_of(w, fx.gone, &list), 2);
    check_int(take_and_forget(w, 1), 1);
    gone = went_wrong(list[0].id);
    gone.gone = true;
    report(w, gone);
    fx.gone_delivery = list[1].id;
    fx.dropped = webhook(w, "[\"job.cancelled\"]");
    check_ok(cancel(w, enqueue(w, job)));
    check_ok(drop_webhook(w, fx.dropped));
    fx.webhook = webhook(w, "[\"job.cancelled\"]");
    for (size_t i = 0; i < array_len(fx.deliveries); i++)
        check_ok(cancel(w, enqueue(w, job)));
    check_int(deliveries_of(w, fx.webhook, &list), 3);
    for (size_t i = 0; i < array_len(fx.deliveries); i++)
        fx.deliveries[i] = list[i].id;
    check_int(take_and_forget(w, 2), 2);
    report(w, went_well(fx.deliveries[0]));
    struct new_job doomed = fault_job("q");
    doomed.project = SLICE("doomed");
    webhook_of_project(w, "[\"job.enqueued\"]", "doomed");
    fx.doomed_job = enqueue(w, doomed);
    check_ok(act(w, with_key(make_enqueue(doomed), "its-key", "body")));
}

static inline int64_t fixture_token(struct world *w, const char *name,
                                    const char *project)
{
    struct command *c = command_new(OP_TOKEN);
    c->token.name = slice_of(name);
    c->token.project = slice_of(project);
    c->token.role = 1;
    check_ok(sha256(c->token.name, c->token.hash));
    check_ok(world_apply(w, c));
    int64_t id = c->token.out.id;
    command_free(c);
    return id;
}

/* One that is paused, and one that is full. */
static inline void fixture_projects(struct world *w)
{
    static const char *const names[] = { "resting", "doomed" };
    for (int i = 0; i < 2; i++) {
        check_ok(act(w, make_project(names[i])));
        struct schedule_edit edit = new_schedule("its", NULL, US_PER_S);
        edit.project = slice_of(names[i]);
        edit.set |= EDIT_END;
        edit.with.end_at = w->wall + 2 * US_PER_S;
        schedule(w, edit);
    }
    struct command *c = make_project("resting");
    c->project.act = PROJECT_PAUSE;
    check_ok(act(w, c));
    check_ok(store_project(w->engine->store, SLICE("doomed"), &fx.doomed));
    fx.token = fixture_token(w, "free", NULL);
    fixture_token(w, "bound", "doomed");
    struct schedule_edit edit = new_endpoint("its-own", "{\"url\":\"http://a/3\"}");
    edit.project = SLICE("doomed");
    schedule(w, edit);
    check_ok(act(w, with_key(make_enqueue(fault_job("q")), "old-key", "body")));
}

/* Running without a run, as another version might leave it. */
static inline void fixture_orphan(struct world *w)
{
    char sql[300];
    fx.orphan = enqueue(w, fault_job("q"));
    snprintf(sql, sizeof(sql),
             "UPDATE jobs SET state = 3 WHERE id = %lld; "
             "UPDATE counters SET queued = queued - 1, running = running + 1 "
             "WHERE queue_id = (SELECT queue_id FROM jobs WHERE id = %lld)",
             (long long)fx.orphan, (long long)fx.orphan);
    run_sql(w, sql);
}

/* Its runs are tried once. */
static inline void fixture_endpoint(struct world *w)
{
    struct schedule_edit edit = new_endpoint("ping", "{\"url\":\"http://a/1\"}");
    edit.set |= EDIT_MAX_RETRIES | EDIT_EVERY | EDIT_MAX_EXECUTION;
    edit.with.max_retries = 0;
    edit.with.every_us = 3600 * US_PER_S;
    edit.with.max_execution_us = 600 * US_PER_S;
    fx.endpoint = schedule(w, edit);
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
    struct command *c = queue_command("q");
    c->queue.stale_after_us = 30 * US_PER_S;
    check_ok(act(&w, c));
    fixture_jobs(&w);
    fx.hold = fixture_hold(&w, "anna");
    fx.next_hold = fixture_hold(&w, "ben");
    struct schedule_edit edit = new_schedule("timed", "15 0 9 15 1 *", 0);
    edit.set |= EDIT_ZONE | EDIT_QUEUE;
    edit.with.time_zone = SLICE("Europe/Berlin");
    edit.with.queue = SLICE("timed");
    fx.timed = schedule(&w, edit);
    check_int(schedule_of(&w, fx.timed).next_at, w.wall + 15 * US_PER_S);
    edit = new_schedule("often", NULL, US_PER_S);
    edit.set |= EDIT_END;
    edit.with.end_at = w.wall + 2 * US_PER_S;
    fx.often = schedule(&w, edit);
    fixture_projects(&w);
    fixture_endpoint(&w);
    world_pass(&w, 3 * US_PER_S); /* they fire */
    struct new_job job = fault_job("here");
    job.kind = SLICE("local");
    for (size_t i = 0; i < array_len(fx.here); i++)
        fx.here[i] = enqueue(&w, job);
    bool made = false;
    fx.endpoint_run = trigger(&w, fx.endpoint, &made);
    engine_set_capacity(w.engine, array_len(fx.here) + 1);
    world_settle(&w);
    check_int(w.engine->run_count, array_len(fx.here) + 1);
    job.queue = SLICE("there");
    for (size_t i = 0; i < array_len(fx.local); i++)
        fx.local[i] = enqueue(&w, job);
    fixture_webhooks(&w); /* no tick after that: it would tidy up */
    fixture_orphan(&w);

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
