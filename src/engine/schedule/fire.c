/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/schedule/fire.h"

#include <stdarg.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/schedule/zones.h"

enum {
    BITE_JOBS = 100, /* of one schedule in one go */
    EVENT_BYTES = 4096
};
#define LOOK_AGAIN_US (60 * US_PER_S) /* at what cannot fire now */

struct firing {
    struct tx *tx;
    struct schedule *s;
    struct schedule_when when;
    int64_t live_job;
    bool give_up; /* nothing of it is made any more: what is due is missed */
};

/* ---- telling ---- */

void tell_schedule(struct tx *tx, const struct schedule *s, int64_t job_id,
                   const char *type, const char *format, ...)
{
    struct buf data;
    struct slice text = { 0 };
    va_list args;
    buf_init(&data, EVENT_BYTES);
    buf_printf(&data, "{\"scheduleId\":\"%lld\",\"name\":%s", (long long)s->id,
               quoted(tx, s->name));
    va_start(args, format);
    buf_vprintf(&data, format, args);
    va_end(args);
    buf_byte(&data, '}');
    if (store_fail(tx->store, buf_end(&data, &text)) == 0)
        tell_event(tx, &(struct event){ .type = slice_of(type),
                                        .project_id = s->project_id,
                                        .job_id = job_id,
                                        .data = arena_dup(&tx->store->arena, text) });
    buf_release(&data);
}

static void tell_range(struct firing *f, const char *type, int64_t count, int64_t first,
                       int64_t last, const char *word, const char *value)
{
    char from[TIME_TEXT_BYTES], to[TIME_TEXT_BYTES];
    tell_schedule(f->tx, f->s, 0, type,
                  ",\"count\":%lld,\"first\":\"%s\",\"last\":\"%s\",\"%s\":\"%s\"",
                  (long long)count, time_text(first, from), time_text(last, to), word,
                  value);
}

/* ---- outcomes ---- */

/* Each fire time goes through here once. */
static void record(struct firing *f, struct fire fire)
{
    struct engine_work *work = &f->tx->engine->totals.work;
    assert(fire.fire_at > f->s->cursor_at);
    fire.schedule_id = f->s->id;
    store_fire_insert(f->tx->store, &fire);
    f->s->fire_count += fire.count;
    f->s->cursor_at = fire.last_at;
    work->fires[fire.outcome] += (uint64_t)fire.count;
    if (fire.outcome == FIRE_RAN) {
        f->s->last_fire_at = fire.fire_at;
        f->s->last_job_id = fire.job_id;
        f->live_job = fire.job_id;
        histogram_add_time(&work->fire_lateness, f->tx->now - fire.fire_at);
    }
}

/* A range of them that makes no job. */
static void record_range(struct firing *f, int outcome, int reason, int64_t first,
                         int64_t last, int64_t count)
{
    record(f, (struct fire){ .fire_at = first,
                             .last_at = last,
                             .count = count,
                             .outcome = outcome,
                             .reason = reason });
}

/* The job is still at work when its time comes again.  It is told when that begins, not
 * for each fire time after it. */
static void record_overlap(struct firing *f, int64_t first, int64_t last, int64_t count)
{
    bool begins =
        f->s->last_fire_at && schedule_next(&f->when, f->s->last_fire_at) == first;
    if (begins)
        tell_range(f, "schedule.skipped", count, first, last, "reason", "overlap");
    record_range(f, FIRE_SKIPPED, FIRE_OVERLAP, first, last, count);
}

/* The same for a schedule and a time, on whichever node. */
static int64_t jitter_of(const struct schedule *s, int64_t fire_at)
{
    if (s->jitter_us == 0)
        return 0;
    uint64_t spread = hash64_int(hash64_int(0, (uint64_t)s->id), (uint64_t)fire_at);
    return (int64_t)(spread % (uint64_t)s->jitter_us);
}

/* -HF_CONFLICT: it is being deleted. */
static int enter(struct tx *tx, int64_t project_id)
{
    struct project project;
    if (project_id == PROJECT_DEFAULT)
        return 0;
    int r = store_project_enter(
        tx->store, slice_of(store_project_name(tx->store, project_id)), &project);
    if (r == -HF_NOT_FOUND || (r == 0 && project.deleting != DELETING_NOT))
        return -HF_CONFLICT;
    return r;
}

int fire_job(struct tx *tx, const struct schedule *s, int64_t fire_at, struct job *ret)
{
    struct error error = { 0 };
    struct new_job job;
    *ret = (struct job){ 0 };
    int r = enter(tx, s->project_id);
    if (r < 0)
        return r == -HF_CONFLICT ? 0 : r;
    schedule_job(s, &job);
    job.run_at = fire_at ? fire_at + jitter_of(s, fire_at) : 0;
    /* A job that comes late has its full time to be started all the same. */
    if (s->expire_us > 0)
        job.expires_at = (job.run_at > tx->now ? job.run_at : tx->now) + s->expire_us;
    return make_job(tx, s->project_id, &job, &error, ret);
}

/* One fire time, for itself.  Why it made no job, or FIRE_REASON_NONE. */
static int fire_one(struct firing *f, int64_t at, int reason)
{
    struct job job;
    if (f->s->overlap == OVERLAP_SKIP && f->live_job) {
        record_overlap(f, at, at, 1);
        return FIRE_OVERLAP;
    }
    int r = fire_job(f->tx, f->s, at, &job);
    if (r < 0) {
        store_fail(f->tx->store, r);
        return FIRE_PAUSED;
    }
    if (r == 0) {
        int why = job.id ? FIRE_SOURCE_BUSY : FIRE_PAUSED;
        record_range(f, FIRE_SKIPPED, why, at, at, 1);
        return why;
    }
    record(f, (struct fire){ .fire_at = at,
                             .last_at = at,
                             .count = 1,
                             .outcome = FIRE_RAN,
                             .reason = reason,
                             .job_id = job.id });
    return FIRE_REASON_NONE;
}

/* Each of (cursor, until] for itself; false if there are more than a bite. */
static bool fire_each(struct firing *f, int64_t until, int reason)
{
    int64_t at = schedule_next(&f->when, f->s->cursor_at);
    for (int n = 0; at && at <= until && f->tx->store->failed == 0; n++) {
        if (n == BITE_JOBS)
            return false;
        (void)fire_one(f, at, reason);
        at = schedule_next(&f->when, at);
    }
    return true;
}

static void move_cursor(struct firing *f, int64_t to)
{
    if (to > f->s->cursor_at)
        f->s->cursor_at = to;
}

/* ---- what passed while nobody was there ---- */

static void run_last_only(struct firing *f, int64_t until, int64_t first, int64_t last,
                          int64_t count, bool another_is_on_time)
{
    if (another_is_on_time) {
        record_range(f, FIRE_COALESCED, FIRE_LATE, first, last, count);
        return;
    }
    if (count > 1)
        record_range(f, FIRE_COALESCED, FIRE_LATE, first,
                     schedule_back(&f->when, f->s->cursor_at, until, 2), count - 1);
    (void)fire_one(f, last, FIRE_LATE);
}

static void run_the_last_ones(struct firing *f, int64_t until, int64_t first,
                              int64_t count)
{
    int64_t over = count - LIMIT_MISFIRES;
    if (over > 0)
        record_range(f, FIRE_MISSED, FIRE_TOO_MANY, first,
                     schedule_back(&f->when, f->s->cursor_at, until, LIMIT_MISFIRES + 1),
                     over);
    static_assert((int)LIMIT_MISFIRES <= (int)BITE_JOBS, "they are told of once");
    (void)fire_each(f, until, FIRE_LATE);
}

static void fire_late(struct firing *f, int64_t until)
{
    int64_t first, last, now = f->tx->now;
    int64_t count = schedule_count(&f->when, f->s->cursor_at, until, &first, &last);
    if (count > 0) {
        int64_t next = schedule_next(&f->when, until);
        int policy = f->give_up ? MISFIRE_SKIP : f->s->misfire;
        tell_range(f, "schedule.missed", count, first, last, "policy",
                   misfire_name(policy));
        if (policy == MISFIRE_SKIP)
            record_range(f, FIRE_MISSED, FIRE_LATE, first, last, count);
        else if (policy == MISFIRE_ALL)
            run_the_last_ones(f, until, first, count);
        else
            run_last_only(f, until, first, last, count, next && next <= now);
    }
    move_cursor(f, until);
}

/* ---- what is on time ---- */

static void fire_on_time(struct firing *f)
{
    int64_t first, last, now = f->tx->now;
    if (f->s->overlap == OVERLAP_QUEUE) {
        if (fire_each(f, now, FIRE_REASON_NONE))
            move_cursor(f, now);
        return;
    }
    /* One job at most; the others are one row. */
    int64_t count = schedule_count(&f->when, f->s->cursor_at, now, &first, &last);
    int why = FIRE_OVERLAP;
    if (count > 0 && !f->live_job) {
        why = fire_one(f, first, FIRE_REASON_NONE);
        count--;
        first = schedule_next(&f->when, first);
    }
    if (count > 0 && f->live_job)
        record_overlap(f, first, last, count);
    else if (count > 0)
        record_range(f, FIRE_SKIPPED, why, first, last, count);
    move_cursor(f, now);
}

/* ---- pauses and zones ---- */

/* pausedUntil has come: what is due at that very moment fires. */
static void wake(struct firing *f)
{
    struct schedule *s = f->s;
    if (!(s->paused & PAUSED_ITSELF) || !s->paused_until || s->paused_until > f->tx->now)
        return;
    if (s->passed_until < s->paused_until - 1)
        s->passed_until = s->paused_until - 1;
    s->paused &= ~PAUSED_ITSELF;
    s->paused_until = 0;
    s->paused_reason = (struct slice){ 0 };
    tell_schedule(f->tx, s, 0, "schedule.resumed", ",\"reason\":\"pausedUntil\"");
}

static void pass_over(struct firing *f)
{
    int64_t first, last, until = f->s->passed_until;
    if (until > f->tx->now)
        until = f->tx->now;
    int64_t count =
        until ? schedule_count(&f->when, f->s->cursor_at, until, &first, &last) : 0;
    if (count > 0)
        record_range(f, FIRE_SKIPPED, FIRE_PAUSED, first, last, count);
    if (until)
        move_cursor(f, until);
    f->s->passed_until = 0;
}

static void stall(struct firing *f, const char *problem)
{
    struct tx *tx = f->tx;
    if (!slice_equal(f->s->problem, slice_of(problem)))
        tell_schedule(tx, f->s, 0, "schedule.stalled", ",\"problem\":%s",
                      quoted(tx, slice_of(problem)));
    f->s->problem = arena_dup(&tx->store->arena, slice_of(problem));
    f->s->next_at = tx->now + LOOK_AGAIN_US;
}

/* 1: it can be known when it fires; 0: it cannot, and stands still. */
static int know_when(struct firing *f)
{
    struct error error = { 0 };
    const struct tz *tz = NULL;
    int r = f->s->cron.p ? zones_get(&f->tx->engine->zones, f->s->time_zone, f->tx->now,
                                     &error, &tz)
                         : 0;
    if (r == 0)
        r = schedule_when(f->s, tz, &error, &f->when);
    if (r == -HF_NOMEM)
        return store_fail(f->tx->store, r);
    if (r < 0) {
        stall(f, error.text);
        return 0;
    }
    f->s->problem = (struct slice){ 0 };
    return 1;
}

static int deal_with(struct firing *f)
{
    struct schedule *s = f->s;
    const struct tx *tx = f->tx;
    wake(f);
    if (s->paused) {
        s->next_at = s->paused & PAUSED_ITSELF ? s->paused_until : 0;
        return tx->store->failed;
    }
    if (know_when(f) <= 0)
        return tx->store->failed;
    pass_over(f);
    int64_t grace = tx->engine->settings.misfire_grace_us + 1;
    fire_late(f, tx->now - (f->give_up ? 0 : grace));
    fire_on_time(f);
    s->next_at = schedule_next(&f->when, s->cursor_at);
    return tx->store->failed;
}

int fire_due(struct tx *tx, struct schedule *s, int64_t live_job)
{
    return deal_with(&(struct firing){ .tx = tx, .s = s, .live_job = live_job });
}

bool fire_refused(const struct schedule *s)
{
    static const struct slice words = SLICE(FIRE_REFUSED);
    return s->problem.n >= words.n && memcmp(s->problem.p, words.p, words.n) == 0;
}

int fire_all_due(struct tx *tx, struct schedule *s)
{
    int64_t live = 0;
    int r = store_schedules_live(tx->store, &s->id, 1, &live);
    while (r == 0) {
        r = deal_with(&(struct firing){
            .tx = tx, .s = s, .live_job = live, .give_up = fire_refused(s) });
        if (s->next_at == 0 || s->next_at > tx->now)
            break;
    }
    return r;
}

int fire_pass(struct tx *tx, struct schedule *s)
{
    struct firing f = { .tx = tx, .s = s };
    if (!s->paused && !s->problem.p)
        return tx->store->failed;
    s->passed_until = tx->now;
    if (know_when(&f) > 0 && s->paused)
        pass_over(&f);
    else
        move_cursor(&f, tx->now);
    s->passed_until = 0;
    return tx->store->failed;
}
