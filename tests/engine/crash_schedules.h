/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_schedules.h -- the part of the script that makes jobs by itself: schedules, and
 * endpoints, whose runs are this node's. */
#pragma once

#include "crash_script.h"
#include "fires.h"

static inline int64_t edit_schedule(struct script *s, struct schedule_edit edit,
                                    int64_t fires)
{
    if (edit.id)
        touch(s, ABOUT_SCHEDULE, edit.id);
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = edit;
    int64_t id = perform(s, c)->schedule.out_id;
    promise(s, (struct promise){ .about = ABOUT_SCHEDULE,
                                 .what = "schedule made or changed",
                                 .id = id,
                                 .passing = true,
                                 .states = IN(1),
                                 .priority = edit.with.priority,
                                 .fires = fires });
    return id;
}

/* Made, fired, triggered, changed while it is due, paused, resumed, dropped. */
static inline void story_schedules(struct script *s)
{
    struct schedule_edit edit = new_schedule("often", NULL, 2 * US_PER_S);
    edit.set |= EDIT_OVERLAP | EDIT_PRIORITY | EDIT_QUEUE;
    edit.with.overlap = OVERLAP_QUEUE;
    edit.with.priority = 3;
    edit.with.queue = SLICE("timed");
    int64_t id = edit_schedule(s, edit, 0);
    pass(s, 5 * US_PER_S);
    struct command *c = command_new(OP_TRIGGER);
    c->trigger.id = id;
    perform(s, c);
    promise(s, (struct promise){
                   .what = "triggered", .id = c->trigger.out_job_id, .states = ANYHOW });
    s->w.wall += 2 * US_PER_S;
    s->w.mono += 2 * US_PER_S;
    edit = edit_of(id);
    edit.set = EDIT_PRIORITY | EDIT_EVERY;
    edit.with.priority = 4;
    edit.with.every_us = US_PER_S;
    edit_schedule(s, edit, 3);
    edit = edit_of(id);
    edit.set = EDIT_PAUSED;
    edit.with.paused = 1;
    edit_schedule(s, edit, 3);
    pass(s, 3 * US_PER_S);
    edit.with.paused = 0;
    edit_schedule(s, edit, 6);
    touch(s, ABOUT_SCHEDULE, id);
    c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = id;
    perform(s, c);
    promise(s,
            (struct promise){
                .about = ABOUT_SCHEDULE, .what = "dropped", .id = id, .states = IN(0) });
}

/* ---- endpoints ---- */

static inline void promise_endpoint(struct script *s, int64_t id, const char *what,
                                    const char *request, int64_t runs, int64_t fails)
{
    promise(s, (struct promise){ .about = ABOUT_ENDPOINT,
                                 .what = what,
                                 .id = id,
                                 .passing = true,
                                 .states = IN(1),
                                 .request = request,
                                 .runs = runs,
                                 .fails = fails });
}

/* One whose runs are tried once. */
static inline int64_t make_endpoint(struct script *s, const char *name,
                                    const char *project, int64_t every_us)
{
    static const char request[] = "{\"url\":\"http://a/1\"}";
    struct schedule_edit edit = new_endpoint(name, request);
    edit.project = slice_of(project);
    edit.set |= EDIT_QUEUE | EDIT_MAX_RETRIES | EDIT_MAX_EXECUTION;
    edit.set |= every_us ? EDIT_EVERY : 0;
    edit.with.queue = SLICE("web");
    edit.with.max_retries = 0;
    edit.with.max_execution_us = 100 * US_PER_S;
    edit.with.every_us = every_us;
    int64_t id = edit_schedule(s, edit, 0);
    promise_endpoint(s, id, "endpoint made", request, 0, 0);
    return id;
}

static inline void drop_endpoint(struct script *s, int64_t id)
{
    touch(s, ABOUT_SCHEDULE, id);
    touch(s, ABOUT_ENDPOINT, id);
    struct command *c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = id;
    c->schedule_drop.endpoint = true;
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_ENDPOINT,
                                 .what = "endpoint dropped",
                                 .id = id,
                                 .states = IN(0) });
    promise(s, (struct promise){ .about = ABOUT_SCHEDULE,
                                 .what = "dropped with its endpoint",
                                 .id = id,
                                 .states = IN(0) });
}

/* This node begins its run with the same commit: if it dies now, that is a failure. */
static inline int64_t run_endpoint(struct script *s, int64_t id, int64_t runs,
                                   int64_t fails)
{
    struct command *c = command_new(OP_TRIGGER);
    c->trigger.id = id;
    s->final = true;
    touch(s, ABOUT_ENDPOINT, id);
    perform(s, c);
    s->final = false;
    promise_endpoint(s, id, "under way", NULL, runs + 1, fails + 1);
    require(s, local_run_find(s->w.engine, c->trigger.out_job_id) != NULL);
    return c->trigger.out_job_id;
}

/* Made, run well and badly, changed, run again.  Another one has a run under way when
 * the plug is pulled: its target may be at work, so it waits. */
static inline void story_endpoints(struct script *s)
{
    int64_t id = make_endpoint(s, "ping", NULL, 0);
    int64_t job = run_endpoint(s, id, 0, 0);
    touch(s, ABOUT_ENDPOINT, id);
    finish_here(s, job, "{\"status\":200}");
    promise_endpoint(s, id, "answered", NULL, 1, 0);

    pass(s, US_PER_S);
    job = run_endpoint(s, id, 1, 0); /* so soon: told */
    struct command *c = make_fail(NULL, job, ERROR_OTHER, NULL);
    c->fail.owner_id = s->w.engine->owner_id;
    c->fail.error.details = SLICE("{\"status\":500}");
    touch(s, ABOUT_JOB, job);
    touch(s, ABOUT_ENDPOINT, id);
    perform(s, c);
    promise(s, (struct promise){ .what = "failed, and its retries are used up",
                                 .id = job,
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_OTHER,
                                 .reason = REASON_EXHAUSTED });
    promise_endpoint(s, id, "answered with 500", NULL, 2, 1);

    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_REQUEST;
    edit.request = SLICE("{\"method\":\"PUT\"}");
    touch(s, ABOUT_ENDPOINT, id);
    edit_schedule(s, edit, 0);
    promise_endpoint(s, id, "request changed",
                     "{\"url\":\"http://a/1\",\"method\":\"PUT\"}", 2, 1);
    job = run_endpoint(s, id, 2, 1);
    touch(s, ABOUT_ENDPOINT, id);
    finish_here(s, job, "{\"status\":204}");
    promise_endpoint(s, id, "answered again", NULL, 3, 0);
    drop_endpoint(s, id);

    s->held = make_endpoint(s, "held", NULL, 40 * US_PER_S);
    run_endpoint(s, s->held, 0, 0);
    promise(s, (struct promise){ .about = ABOUT_SCHEDULE,
                                 .what = "under way at its target",
                                 .id = s->held,
                                 .passing = true,
                                 .states = IN(1),
                                 .paused = PAUSED_ITSELF });
}
