/* SPDX-License-Identifier: Apache-2.0
 *
 * Random lives of schedules: made, changed, paused, triggered and dropped between
 * crashes, outages and clocks that are set; held against a model that knows which words
 * counted when, and when it was paused, and steps. */
#include "crash_vfs.h"
#include "fires.h"

enum { SCHEDULES = 6, CHANGES = 400 };

/* From `since` on, until the next one. */
struct words {
    int64_t since;
    bool paused;
    struct schedule_when when;
};

struct model {
    int64_t id; /* 0: there is none */
    int overlap, misfire;
    int64_t every_us; /* or a cron */
    int64_t paused_until;
    struct words list[CHANGES];
    size_t count;
};

struct life {
    struct world w;
    struct rng rng;
    struct model models[SCHEDULES];
    struct tz *tz;
    int64_t rows[FIRE_MISSED + 1]; /* by outcome: the lives must have all of them */
};

static int64_t below(struct life *l, int64_t n)
{
    return (int64_t)rng_below(&l->rng, (uint64_t)n);
}

/* ---- what the model knows ---- */

/* The words that count from now on, as the store has them. */
static void note_words(struct life *l, struct model *m, int64_t since)
{
    struct schedule s = schedule_of(&l->w, m->id);
    struct words *last = m->count ? &m->list[m->count - 1] : NULL;
    check(m->count < CHANGES);
    if (last && last->since > since)
        since = last->since;
    m->list[m->count] = (struct words){ .since = since, .paused = s.paused != 0 };
    check_ok(schedule_when(&s, l->tz, NULL, &m->list[m->count].when));
    m->count++;
    m->paused_until = s.paused_until;
}

/* A pause with an end may have ended; the words before and after are the same. */
static void note_wake(struct life *l, struct model *m)
{
    if (m->id == 0 || m->paused_until == 0 || l->w.wall < m->paused_until)
        return;
    if (schedule_of(&l->w, m->id).paused)
        return; /* the clock is behind, or nobody has looked yet */
    int64_t until = m->paused_until;
    note_words(l, m, until - 1);
}

static struct words *words_at(struct model *m, int64_t at)
{
    size_t i = m->count;
    while (i > 1 && m->list[i - 1].since >= at)
        i--;
    return &m->list[i - 1];
}

/* The first fire time after `at` by the words that count then; 0: none. */
static int64_t next_of(struct model *m, int64_t at)
{
    for (size_t i = 0; i < m->count; i++) {
        int64_t end = i + 1 < m->count ? m->list[i + 1].since : INT64_MAX;
        if (end <= at)
            continue;
        int64_t from = at > m->list[i].since ? at : m->list[i].since;
        int64_t next = schedule_next(&m->list[i].when, from);
        if (next && next <= end)
            return next;
    }
    return 0;
}

static void check_row(struct life *l, struct model *m, const struct fire *f)
{
    int64_t grace = l->w.settings.misfire_grace_us;
    bool paused = words_at(m, f->fire_at)->paused;
    check_int(f->outcome == FIRE_SKIPPED && f->reason == FIRE_PAUSED, paused);
    if (f->outcome == FIRE_RAN) {
        check_int(f->reason, f->at - f->fire_at > grace ? FIRE_LATE : FIRE_REASON_NONE);
        check_int(look(&l->w, f->job_id).job.schedule_id, m->id);
    }
    if (f->outcome == FIRE_COALESCED || f->outcome == FIRE_MISSED)
        check(f->at - f->last_at > grace);
    l->rows[f->outcome]++;
}

/* Each fire time in one row, by the words that counted when it passed. */
static void check_model(struct life *l, struct model *m)
{
    char text[2][TIME_TEXT_BYTES];
    struct schedule s = schedule_of(&l->w, m->id);
    struct fires fires = fires_of(&l->w, m->id);
    int64_t at = m->list[0].since, sum = 0;
    for (size_t i = 0; i < fires.count; i++) {
        const struct fire *f = &fires.list[i];
        for (int64_t n = 0; n < f->count; n++) {
            at = next_of(m, at);
            if (n == 0 && at != f->fire_at)
                fail("the next fire time is %s, the next row's %s",
                     time_text(at, text[0]), time_text(f->fire_at, text[1]));
        }
        check_int(at, f->last_at);
        sum += f->count;
        check_row(l, m, f);
    }
    check_int(s.fire_count, sum);
    int64_t next = next_of(m, at);
    if (!s.paused && next && next <= s.cursor_at)
        fail("%s has no outcome", time_text(next, text[0]));
}

/* ---- what happens ---- */

static void set_rhythm(struct life *l, struct schedule_edit *edit)
{
    static const char *const crons[] = { "* * * * *", "*/10 * * * * *", "0 * * * *",
                                         "15,45 */2 * * *", "30 2 * * *" };
    edit->set |= EDIT_CRON | EDIT_EVERY | EDIT_ZONE;
    edit->with.time_zone = SLICE("Europe/Berlin");
    if (below(l, 2))
        edit->with.cron = slice_of(crons[below(l, array_len(crons))]);
    else
        edit->with.every_us = (1 + below(l, 120)) * US_PER_S;
}

static void make(struct life *l, struct model *m)
{
    static int number;
    char name[16];
    snprintf(name, sizeof(name), "n%d", number++);
    struct schedule_edit edit = new_schedule(name, NULL, 0);
    set_rhythm(l, &edit);
    edit.set |= EDIT_OVERLAP | EDIT_MISFIRE;
    edit.with.overlap = (int)below(l, 2);
    edit.with.misfire = (int)below(l, edit.with.overlap == OVERLAP_QUEUE ? 3 : 2);
    *m = (struct model){ .id = schedule(&l->w, edit) };
    note_words(l, m, schedule_of(&l->w, m->id).cursor_at);
}

static void change_rhythm(struct life *l, struct model *m)
{
    struct schedule_edit edit = edit_of(m->id);
    set_rhythm(l, &edit);
    schedule(&l->w, edit);
    note_words(l, m, schedule_of(&l->w, m->id).cursor_at);
}

static void pause_or_resume(struct life *l, struct model *m)
{
    bool paused = schedule_of(&l->w, m->id).paused;
    int64_t until = !paused && below(l, 2)
                        ? engine_now(l->w.engine) + below(l, 900) * US_PER_S + 1
                        : 0;
    pause_schedule(&l->w, m->id, !paused, until);
    /* What is due when a pause begins is dealt with; what passed in it, when it ends.
     * Where the clock was set back, the cursor is ahead of it. */
    note_words(l, m, schedule_of(&l->w, m->id).cursor_at);
}

static void act_on(struct life *l, struct model *m)
{
    bool made = false;
    note_wake(l, m);
    switch (m->id ? below(l, 8) : 0) {
    case 0:
        if (m->id == 0)
            make(l, m);
        break;
    case 1:
    case 2:
        change_rhythm(l, m);
        break;
    case 3:
    case 4:
        pause_or_resume(l, m);
        break;
    case 5:
        (void)trigger(&l->w, m->id, &made);
        break;
    case 6:
        if (below(l, 4) == 0) {
            check_model(l, m);
            check_ok(drop_schedule(&l->w, m->id));
            *m = (struct model){ 0 };
        }
        break;
    default:
        break;
    }
}

static void live_on(struct life *l, int64_t us)
{
    int64_t until = l->w.wall + us;
    while (l->w.wall < until) {
        int64_t next = l->w.engine->next_fire;
        int64_t step = (next > l->w.wall && next < until ? next : until) - l->w.wall;
        l->w.wall += step;
        l->w.mono += step;
        world_settle(&l->w);
    }
}

static void something_happens(struct life *l)
{
    switch (below(l, 10)) {
    case 0:
        away(&l->w, below(l, 40) * US_PER_S);
        break;
    case 1:
        away(&l->w, below(l, 5 * 3600) * US_PER_S);
        break;
    case 2: /* asleep */
        l->w.wall += below(l, 7200) * US_PER_S;
        world_settle(&l->w);
        break;
    case 3: /* the clock is set back a little */
        l->w.wall -= below(l, 30) * US_PER_S;
        world_settle(&l->w);
        break;
    case 4:
        do_the_work(&l->w);
        break;
    default:
        live_on(l, below(l, 150) * US_PER_S);
        break;
    }
}

static void live(uint64_t seed, int steps, int64_t *rows)
{
    static struct life l;
    l = (struct life){ 0 };
    rng_seed(&l.rng, seed);
    world_init(&l.w);
    struct crash_disk *disk = NULL;
    if (!test_on_postgres()) { /* in memory: it is the rules that are tried */
        disk = crash_disk_new("random", false, NULL);
        l.w.vfs = "random";
    }
    l.w.settings.poll_interval_us = 30 * US_PER_S;
    check_ok(tz_load(NULL, SLICE("Europe/Berlin"), NULL, &l.tz));
    world_open(&l.w);
    for (int i = 0; i < steps; i++) {
        something_happens(&l);
        for (int k = 0; k < SCHEDULES; k++)
            note_wake(&l, &l.models[k]);
        act_on(&l, &l.models[below(&l, SCHEDULES)]);
    }
    for (int k = 0; k < SCHEDULES; k++)
        if (l.models[k].id)
            check_model(&l, &l.models[k]);
    for (int i = FIRE_RAN; i <= FIRE_MISSED; i++)
        rows[i] += l.rows[i];
    tz_free(l.tz);
    world_end(&l.w);
    if (disk)
        crash_disk_free(disk);
}

TEST(random_lives_of_schedules_are_as_the_model_says)
{
    int64_t rows[FIRE_MISSED + 1] = { 0 };
    uint64_t last = (uint64_t)test_many(test_on_postgres() ? 1 : 12);
    for (uint64_t seed = 1; seed <= last; seed++)
        live(seed, test_on_postgres() ? 80 : 120, rows);
    for (int i = FIRE_RAN; i <= FIRE_MISSED; i++)
        if (rows[i] == 0)
            fail("none was %s", fire_outcome_name(i));
    test_note("%lld ran, %lld skipped, %lld coalesced, %lld missed",
              (long long)rows[FIRE_RAN], (long long)rows[FIRE_SKIPPED],
              (long long)rows[FIRE_COALESCED], (long long)rows[FIRE_MISSED]);
}
