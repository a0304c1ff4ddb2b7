/* SPDX-License-Identifier: Apache-2.0
 *
 * fires.h -- schedules in a world, and whether each of their fire times is accounted
 * for.
 *
 * The model is one function: step through the expression from the moment the schedule
 * was made; every time must be in exactly one row, up to the cursor and not beyond. */
#pragma once

#include "acts.h"
#include "base/text.h"
#include "engine/schedule/schedule.h"
#include "store/schedules.h"

static inline struct schedule_edit edit_of(int64_t id)
{
    return (struct schedule_edit){ .id = id,
                                   .with = { .max_execution_us = -1,
                                             .expire_us = -1,
                                             .max_retries = -1,
                                             .on_crash = -1 } };
}

/* A new one of kind "k", by cron or by an interval (cron NULL). */
static inline struct schedule_edit new_schedule(const char *name, const char *cron,
                                                int64_t every_us)
{
    struct schedule_edit edit = edit_of(0);
    edit.set =
        EDIT_NAME | EDIT_KIND | (cron ? EDIT_CRON : 0) | (every_us ? EDIT_EVERY : 0);
    edit.with.name = slice_of(name);
    edit.with.kind = SLICE("k");
    edit.with.cron = slice_of(cron);
    edit.with.every_us = every_us;
    return edit;
}

static inline struct schedule_edit new_endpoint(const char *name, const char *request)
{
    struct schedule_edit edit = edit_of(0);
    edit.endpoint = true;
    edit.set = EDIT_NAME | EDIT_REQUEST;
    edit.with.name = slice_of(name);
    edit.request = slice_of(request);
    return edit;
}

static inline int try_schedule(struct world *w, struct schedule_edit edit, int64_t *ret)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = edit;
    int r = world_apply(w, c);
    if (r == 0 && ret)
        *ret = c->schedule.out_id;
    command_free(c);
    return r;
}

static inline int64_t schedule(struct world *w, struct schedule_edit edit)
{
    int64_t id = 0;
    if (try_schedule(w, edit, &id) < 0)
        fail("schedule: %s", w->error.text);
    return id;
}

/* Refused, with this field and these words. */
static inline void refused(struct world *w, struct schedule_edit edit, int code,
                           const char *field, const char *words)
{
    check_err(try_schedule(w, edit, NULL), code);
    check_str(w->error.field, field);
    if (!strstr(w->error.text, words))
        fail("\"%s\" does not say \"%s\"", w->error.text, words);
}

static inline int drop_schedule(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = id;
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

/* The job, made or found. */
static inline int64_t trigger(struct world *w, int64_t id, bool *ret_made)
{
    struct command *c = command_new(OP_TRIGGER);
    c->trigger.id = id;
    if (world_apply(w, c) < 0)
        fail("trigger: %s", w->error.text);
    int64_t job = c->trigger.out_job_id;
    *ret_made = c->trigger.out_made;
    command_free(c);
    return job;
}

static inline void pause_schedule(struct world *w, int64_t id, int paused, int64_t until)
{
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_PAUSED;
    edit.with.paused = paused;
    edit.with.paused_until = until;
    schedule(w, edit);
}

static inline struct schedule schedule_of(struct world *w, int64_t id)
{
    struct schedule s = { 0 };
    check_ok(store_schedule_get(w->engine->store, id, &w->arena, &s));
    return s;
}

struct fires {
    struct fire *list; /* oldest first */
    size_t count;
};

static inline struct fires fires_of(struct world *w, int64_t id)
{
    enum { MOST = 20000 };
    struct fires fires = { 0 };
    check_ok(
        store_fires(w->engine->store, id, 0, MOST, &w->arena, &fires.list, &fires.count));
    check(fires.count < MOST);
    for (size_t i = 0; i < fires.count / 2; i++) {
        struct fire swap = fires.list[i];
        fires.list[i] = fires.list[fires.count - 1 - i];
        fires.list[fires.count - 1 - i] = swap;
    }
    return fires;
}

static inline void check_fire(const struct fire *fire, int outcome, int reason,
                              int64_t count)
{
    if (fire->outcome != outcome || fire->reason != reason || fire->count != count)
        fail("%lld %s %s, and not %lld %s %s", (long long)fire->count,
             fire_outcome_name(fire->outcome), fire_reason_name(fire->reason),
             (long long)count, fire_outcome_name(outcome), fire_reason_name(reason));
}

/* Whom the rows must answer to: since when which words. */
static inline struct schedule_when when_of(struct world *w, const struct schedule *s,
                                           struct tz **ret_tz)
{
    struct schedule_when when;
    *ret_tz = NULL;
    if (s->cron.p)
        check_ok(tz_load(w->zone_dir, s->time_zone, NULL, ret_tz));
    check_ok(schedule_when(s, *ret_tz, NULL, &when));
    return when;
}

/* Every fire time after `since` up to the cursor is in exactly one row, each row stands
 * for what it says, and each that ran has its job. */
static inline void check_account_since(struct world *w, int64_t id, int64_t since)
{
    char text[2][TIME_TEXT_BYTES];
    struct schedule s = schedule_of(w, id);
    struct fires fires = fires_of(w, id);
    struct tz *tz;
    struct schedule_when when = when_of(w, &s, &tz);
    int64_t at = since, sum = s.fires_pruned, last = 0;
    for (size_t i = 0; i < fires.count; i++) {
        const struct fire *f = &fires.list[i];
        sum += f->count;
        if (f->fire_at <= since)
            continue;
        for (int64_t n = 0; n < f->count; n++) {
            at = schedule_next(&when, at);
            if (n == 0 && at != f->fire_at)
                fail("the next fire time is %s, the next row's %s",
                     time_text(at, text[0]), time_text(f->fire_at, text[1]));
        }
        check_int(f->last_at, at);
        if (f->outcome == FIRE_RAN) {
            check_int(look(w, f->job_id).job.schedule_id, id);
            check(f->job_id != last);
            last = f->job_id;
        }
    }
    int64_t next = schedule_next(&when, at);
    if (next && next <= s.cursor_at && !s.paused)
        fail("%s has no outcome", time_text(next, text[0]));
    check(at <= s.cursor_at);
    check_int(s.fire_count, sum);
    tz_free(tz);
}

static inline void check_account(struct world *w, int64_t id)
{
    check_account_since(w, id, schedule_of(w, id).created_at);
}

/* Takes what waits and completes it, in the name of "s". */
static inline int do_the_work(struct world *w)
{
    int n = 0;
    for (int64_t id; (id = claim_one(w, "s")) != 0; n++)
        check_ok(complete(w, "s", id));
    return n;
}

/* The engine is away for so long; nothing is written when it goes. */
static inline void away(struct world *w, int64_t us)
{
    world_crash(w);
    w->wall += us;
    w->mono += us;
    world_open(w);
}

/* Events of a type about anything, with the data of the last one. */
static inline int told(struct world *w, const char *type, struct slice *ret_data)
{
    enum { MOST = 5000 };
    struct event *events = NULL;
    size_t count = 0;
    int n = 0;
    check_ok(store_events(w->engine->store, EVENTS_ALL, 0, 0, MOST, &w->arena, &events,
                          &count));
    for (size_t i = 0; i < count; i++)
        if (slice_equal(events[i].type, slice_of(type))) {
            n++;
            if (ret_data)
                *ret_data = events[i].data;
        }
    return n;
}
