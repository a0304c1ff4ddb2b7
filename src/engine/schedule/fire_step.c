/* SPDX-License-Identifier: Apache-2.0
 *
 * fire_step.c -- the duty: those that are due, bite by bite. */
#include "engine/recovery/recovery_judge.h"
#include "engine/schedule/fire.h"

enum {
    SLICE_SCHEDULES = 50, /* read at once, each with up to a payload's limit */
    STEP_SCHEDULES = 500,
    STEP_JOBS = 1000,    /* a transaction that makes more is long enough, */
    STEP_BYTES = 8 << 20 /* and one that carries more is large enough */
};
/* Somebody else has what is due. */
#define OTHERS_US (50 * US_PER_MS)
#define SET_ASIDE_US (60 * US_PER_S)

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The live jobs of those that may not overlap, all at once. */
struct live {
    int64_t *ids, *jobs;
    size_t count;
};

static int find_live(struct tx *tx, const struct schedule *list, size_t count,
                     struct live *ret)
{
    struct live live = { .ids = arena_array(&tx->store->arena, int64_t, count + 1),
                         .jobs = arena_array(&tx->store->arena, int64_t, count + 1) };
    if (!live.ids || !live.jobs)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        if (list[i].overlap == OVERLAP_SKIP)
            live.ids[live.count++] = list[i].id;
    qsort(live.ids, live.count, sizeof(*live.ids), by_value);
    *ret = live;
    return live.count ? store_schedules_live(tx->store, live.ids, live.count, live.jobs)
                      : 0;
}

static int64_t live_job(const struct live *live, int64_t id)
{
    const int64_t *at =
        live->count ? bsearch(&id, live->ids, live->count, sizeof(id), by_value) : NULL;
    return at ? live->jobs[at - live->ids] : 0;
}

struct step {
    bool alone;   /* each behind a savepoint */
    int64_t next; /* out: when to come again */
};

/* The one that fails is set aside, with the reason. */
static int set_aside(struct tx *tx, struct schedule *s, int failure)
{
    struct error error = { 0 };
    error_set(&error, failure, NULL, FIRE_REFUSED ": %s.", db_error(tx->store->db));
    int r = store_savepoint_undo(tx->store);
    if (r < 0)
        return r;
    struct slice problem = arena_dup(&tx->store->arena, slice_of(error.text));
    if (!fire_refused(s)) /* told when it begins, not at each try */
        tell_schedule(tx, s, 0, "schedule.stalled", ",\"problem\":%s",
                      quoted(tx, problem));
    s->problem = problem;
    s->next_at = tx->now + SET_ASIDE_US;
    store_schedule_advance(tx->store, s);
    return tx->store->failed;
}

static int step_alone(struct tx *tx, struct schedule *s, int64_t live)
{
    struct notes_mark mark = notes_mark(tx->engine);
    struct schedule before = *s;
    int r = store_savepoint(tx->store);
    if (r < 0)
        return r;
    r = fire_due(tx, s, live);
    if (r == 0)
        store_schedule_advance(tx->store, s);
    if (r == 0)
        r = store_savepoint_keep(tx->store);
    if (r == 0 || store_is_to_blame(tx->engine, r))
        return r;
    notes_undo(tx->engine, mark);
    return set_aside(tx, &before, r);
}

/* What a transaction has done so far. */
struct bite {
    size_t schedules, bytes;
    uint64_t jobs_most; /* of all that were ever made */
};

static bool may_make_more(const struct tx *tx, const struct bite *bite)
{
    return tx->engine->totals.work.enqueued < bite->jobs_most;
}

/* 1: there may be more; 0; negative. */
static int take_slice(struct tx *tx, bool alone, struct bite *bite)
{
    struct schedule *list = NULL;
    struct live live = { 0 };
    size_t count = 0;
    int r = store_schedules_due(tx->store, tx->now, SLICE_SCHEDULES, &list, &count);
    if (r == 0)
        r = find_live(tx, list, count, &live);
    for (size_t i = 0; i < count && r == 0 && may_make_more(tx, bite); i++) {
        struct schedule *s = &list[i];
        if (alone) {
            r = step_alone(tx, s, live_job(&live, s->id));
        } else {
            r = fire_due(tx, s, live_job(&live, s->id));
            store_schedule_advance(tx->store, s);
        }
        bite->schedules++;
        bite->bytes += s->payload.n;
    }
    return r < 0 ? r : count == SLICE_SCHEDULES;
}

static int64_t step(struct tx *tx, void *arg)
{
    struct step *step = arg;
    struct bite bite = { .jobs_most = tx->engine->totals.work.enqueued + STEP_JOBS };
    int r = take_slice(tx, step->alone, &bite);
    while (r > 0 && !step->alone && bite.schedules < STEP_SCHEDULES &&
           bite.bytes < STEP_BYTES && may_make_more(tx, &bite))
        r = take_slice(tx, false, &bite);
    if (r >= 0)
        r = store_flush(tx->store);
    if (r == 0)
        r = store_schedules_next(tx->store, &step->next);
    if (r == 0 && bite.schedules == 0 && step->next <= tx->now)
        step->next = tx->now + OTHERS_US;
    return r < 0 ? r : (int64_t)bite.schedules;
}

int64_t fire_step(struct engine *engine)
{
    struct step whole = { 0 }, alone = { .alone = true };
    int64_t r = engine_duty(engine, step, &whole);
    if (r >= 0) {
        engine->next_fire = whole.next;
        return r;
    }
    if (!store_is_to_blame(engine, (int)r))
        r = engine_duty(engine, step, &alone);
    if (r >= 0)
        engine->next_fire = alone.next;
    return r;
}
