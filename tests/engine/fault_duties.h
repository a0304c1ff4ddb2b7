/* SPDX-License-Identifier: Apache-2.0
 *
 * fault_duties.h -- what time makes due in the fixture of faults.h: how each duty is
 * brought about, and what is true when it was done. */
#pragma once

#include "faults.h"

/* Time passes; what is due is tried once more at each step.  Nothing is expected of
 * it: the store may fail at any moment. */
static inline void fault_pass(struct world *w, int seconds)
{
    for (int left = seconds; left >= 0; left -= 8) {
        int64_t step = (left < 8 ? left : 8) * US_PER_S;
        w->wall += step;
        w->mono += step;
        for (int i = 0; i < 100; i++)
            if (engine_tick(w->engine) > w->wall && !w->engine->recovery)
                break;
    }
}

static inline int fault_state(struct world *w, int64_t id)
{
    struct job_row row = { 0 };
    int r = store_job_get(w->engine->store, id, &w->arena, &row);
    return r < 0 ? r : row.job.state;
}

static inline bool fault_crashed(struct world *w, int64_t id)
{
    return fault_state(w, id) == JOB_FAILED &&
           look(w, id).run.error.type == ERROR_CRASH && retry_of(w, id) != 0;
}

struct fault_duty {
    const char *name;
    void (*before)(struct world *w); /* settings, before it is opened; or NULL */
    void (*drive)(struct world *w);
    bool (*done)(struct world *w);
    bool crashed; /* on the store whose process was killed */
    bool cold;    /* the faults begin before the first tick */
};

static inline void drive_due(struct world *w)
{
    fault_pass(w, 12);
}
static inline bool due_done(struct world *w)
{
    return fault_state(w, fx.scheduled) == JOB_QUEUED &&
           fault_state(w, fx.expiring) == JOB_CANCELLED;
}

static inline bool fires_done(struct world *w)
{
    struct schedule s = schedule_of(w, fx.timed);
    return s.fire_count == 1 && fires_of(w, fx.timed).count == 1 &&
           fault_state(w, s.last_job_id) == JOB_QUEUED;
}

static inline void drive_holds(struct world *w)
{
    fault_pass(w, 20);
}
static inline bool holds_done(struct world *w)
{
    struct reservation first, next;
    check_ok(store_reservation_get(w->engine->store, fx.hold, &w->arena, &first));
    check_ok(store_reservation_get(w->engine->store, fx.next_hold, &w->arena, &next));
    return first.state == RESERVATION_EXPIRED && next.state == RESERVATION_ACTIVE;
}

/* The session s1 is never heard of again. */
static inline void drive_reaper(struct world *w)
{
    fault_pass(w, 40);
}
static inline bool reaper_done(struct world *w)
{
    for (size_t i = 0; i < array_len(fx.running); i++)
        if (!fault_crashed(w, fx.running[i]))
            return false;
    return fault_state(w, fx.cancelling) == JOB_FAILED;
}

/* It beats, and one of its runs is over its deadline. */
static inline void drive_deadline(struct world *w)
{
    int64_t runs[] = { fx.running[0], fx.running[1], fx.running[2],
                       fx.running[3], fx.cancelling, fx.overdue };
    for (int i = 0; i < 5; i++) {
        struct command *c = command_new(OP_BEAT);
        if (c) {
            c->beat.session = SLICE("s1");
            c->beat.runs = runs;
            c->beat.run_count = array_len(runs);
            (void)world_apply(w, c);
        }
        command_free(c);
        fault_pass(w, 7);
    }
}
static inline bool deadline_done(struct world *w)
{
    return fault_state(w, fx.overdue) == JOB_FAILED &&
           look(w, fx.overdue).run.error.type == ERROR_TIMEOUT &&
           look(w, fx.running[0]).run.attention_at != 0;
}

/* Its node died under its last try, and its target may still be at work. */
static inline bool endpoint_waits(struct world *w)
{
    struct endpoint e = { 0 };
    check_ok(store_endpoint_get(w->engine->store, fx.endpoint, &w->arena, &e));
    return fault_state(w, fx.endpoint_run) == JOB_FAILED && e.run_count == 1 &&
           e.failures_in_row == 1 &&
           (schedule_of(w, fx.endpoint).paused & PAUSED_ITSELF) != 0;
}

static inline void drive_recovery(struct world *w)
{
    fault_pass(w, 0);
}
static inline bool recovery_done(struct world *w)
{
    return fault_crashed(w, fx.here[0]) && fault_crashed(w, fx.here[1]) &&
           fault_crashed(w, fx.orphan) && w->engine->ready && endpoint_waits(w) &&
           delivery_row(w, fx.deliveries[1]).taken_by == 0;
}

static inline void before_sweep(struct world *w)
{
    w->settings.recovery_on_startup = false;
    w->settings.zombie_threshold_us = 15 * US_PER_S;
    w->settings.cleanup_interval_us = 10 * US_PER_S;
}
static inline void drive_sweep(struct world *w)
{
    fault_pass(w, 24);
}
static inline bool sweep_done(struct world *w)
{
    return fault_crashed(w, fx.here[0]) && fault_crashed(w, fx.here[1]);
}

static inline void before_retention(struct world *w)
{
    w->settings.retention_completed_us = w->settings.retention_failed_us = US_PER_DAY;
    w->wall += 40 * US_PER_DAY; /* owners are remembered for longest */
}
static inline bool retention_done(struct world *w)
{
    return fault_state(w, fx.completed) == -HF_NOT_FOUND &&
           fault_state(w, fx.failed) == -HF_NOT_FOUND &&
           fires_of(w, fx.often).count == 0 && deliveries_of(w, fx.gone, NULL) == 0;
}

/* What a webhook that is gone, or disabled, has left. */
static inline bool unsent_done(struct world *w)
{
    return deliveries_of(w, fx.dropped, NULL) == 0 &&
           delivery_row(w, fx.gone_delivery).state == DELIVERY_FAILED;
}

static inline void drive_project(struct world *w)
{
    struct command *c = command_new(OP_PROJECT);
    if (c) {
        c->project.name = SLICE("doomed");
        c->project.act = PROJECT_DELETE;
        c->project.cascade = true;
        (void)world_apply(w, c);
    }
    command_free(c);
    fault_pass(w, 2);
}
static inline bool project_done(struct world *w)
{
    bool there = false;
    check_ok(store_projects_reload(w->engine->store));
    for (size_t i = 0; i < w->engine->store->project_count; i++)
        there = there || w->engine->store->projects[i].id == fx.doomed;
    return !there && fault_state(w, fx.doomed_job) == -HF_NOT_FOUND;
}

/* This node takes work, and beats. */
static inline void drive_node(struct world *w)
{
    if (w->capacity == 0)
        engine_set_capacity(w->engine, w->capacity = 3);
    fault_pass(w, 12);
}
/* Where it was opened again meanwhile, what it had begun has crashed. */
static inline bool node_done(struct world *w)
{
    for (size_t i = 0; i < array_len(fx.local); i++)
        if (fault_state(w, fx.local[i]) != JOB_RUNNING && !fault_crashed(w, fx.local[i]))
            return false;
    return true;
}

static inline void before_reclass(struct world *w)
{
    w->kinds[2] = "work";
    w->kind_count = 3;
}
/* The same by a reload. */
static inline void drive_reload(struct world *w)
{
    w->kinds[2] = "work";
    w->kind_count = 3;
    (void)!engine_set_kinds(w->engine, w->kinds, w->kind_count, NULL, 0);
    fault_pass(w, 0);
}
static inline bool reclass_done(struct world *w)
{
    return !w->engine->reclass.under_way &&
           look(w, fx.waiting[0]).job.class == CLASS_NODE &&
           look(w, fx.scheduled_retry).job.class == CLASS_NODE;
}

/* An endpoint runs on this node, and is answered. */
static inline void drive_endpoint(struct world *w)
{
    struct command *c = command_new(OP_TRIGGER);
    engine_set_capacity(w->engine, w->capacity = 10);
    if (c) {
        c->trigger.id = fx.endpoint;
        (void)world_apply(w, c);
    }
    command_free(c);
    fault_pass(w, 8); /* a start after a crash is a gentle one */
    for (size_t i = 0; i < w->engine->run_count; i++) {
        struct command *answer = command_new(OP_COMPLETE);
        if (answer && w->engine->runs[i].endpoint_id != 0) {
            answer->complete.job_id = w->engine->runs[i].job_id;
            answer->complete.owner_id = w->engine->owner_id;
            answer->complete.result = SLICE("{\"status\":200}");
            answer->complete.output = SLICE("printed");
            (void)world_apply(w, answer);
        }
        command_free(answer);
    }
}
static inline bool endpoint_done(struct world *w)
{
    struct endpoint e = { 0 };
    check_ok(store_endpoint_get(w->engine->store, fx.endpoint, &w->arena, &e));
    return e.run_count > 1 && e.failures_in_row == 0 && e.last_status == 200;
}

static inline bool adopt_all(void *world, const struct job_row *row)
{
    (void)world;
    (void)row;
    return true;
}
static inline void before_adoption(struct world *w)
{
    w->adopt = adopt_all;
    w->host.pid += 1000; /* another process than the one that was killed */
}
static inline bool adoption_done(struct world *w)
{
    for (size_t i = 0; i < array_len(fx.here); i++)
        if (!local_run_find(w->engine, fx.here[i]) ||
            look(w, fx.here[i]).run.owner_id != w->engine->owner_id)
            return false;
    return w->engine->ready;
}

static const struct fault_duty fault_duties[] = {
    { "what is due, what expires", NULL, drive_due, due_done, false, false },
    { "schedules", NULL, drive_due, fires_done, false, false },
    { "holds", NULL, drive_holds, holds_done, false, false },
    { "an owner's death", NULL, drive_reaper, reaper_done, false, false },
    { "a deadline", NULL, drive_deadline, deadline_done, false, false },
    { "recovery", NULL, drive_recovery, recovery_done, true, true },
    { "adoption", before_adoption, drive_recovery, adoption_done, true, true },
    { "what is not sent", NULL, drive_due, unsent_done, true, true },
    { "a project that goes", NULL, drive_project, project_done, false, false },
    { "an endpoint's run", NULL, drive_endpoint, endpoint_done, false, false },
    { "the sweep", before_sweep, drive_sweep, sweep_done, true, false },
    { "retention", before_retention, drive_due, retention_done, false, true },
    { "the node's own work", NULL, drive_node, node_done, false, false },
    { "other kinds", before_reclass, drive_recovery, reclass_done, false, true },
    { "a reload", NULL, drive_reload, reclass_done, false, false },
};
