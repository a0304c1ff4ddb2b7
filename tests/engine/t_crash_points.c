/* SPDX-License-Identifier: Apache-2.0 */
/* test: lite wrap=db_run,db_post,db_next */
/* Every write and every sync is a place to crash (I1, I4, I7).
 *
 * A script that uses all of the engine (crash_story.h) runs once, on a disk that
 * records.  Then, for every change it made to the disk, and for each way in which
 * the power may have failed there (crash_vfs.h): the rows that are left are those
 * before or those after the transaction that was under way, and nothing in between;
 * a new engine opens the store and recovers; the verifier finds nothing; every
 * promise of the ledger (crash_ledger.h) is kept; and a second start changes
 * nothing.
 *
 * Disks that hold the same bytes are looked at once, where most is promised.  Of the
 * random losses, the rows are compared each time; what follows from them is done once
 * for the same rows and the same promises.  Knobs, in the environment:
 * HF_CRASH_MIXES, how many of them per point (4); HF_CRASH_SEED, where they begin;
 * HF_CRASH_FULL=1, to do everything each time; HF_CRASH_POINT, the only point to
 * try; HF_CRASH_EVERY, how far it is from one point to the next (1), for machines
 * on which each takes long. */
#include <stdio.h>

#include "crash_lives.h"
#include "rows.h"
#include "used.h"
#include "world_check.h"

enum { PATIENCE = 10 }; /* violations told */

struct trial {
    struct script *script;
    struct crash_disk *replay, *after;
    uint64_t *states;  /* by point: the rows as they stand when all is lost that may be */
    size_t *next_sync; /* by point */
    struct seen {
        uint64_t rows;
        size_t epoch;
    } * seen;
    size_t seen_count, seen_capacity;
    size_t points, images, recoveries, violations;
    size_t point;  /* under trial */
    uint64_t lost; /* the version of the last one of which all was lost */
    enum crash_loss loss;
    uint64_t seed;
    bool full;
};

static uint64_t knob(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void violated(struct trial *t, const char *format, ...) printf_like(2, 3);
static void violated(struct trial *t, const char *format, ...)
{
    static const char *const names[] = { "all kept", "all lost", "some lost" };
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (t->violations++ < PATIENCE)
        printf("point %zu, %s, seed %llu: %s\n  HF_CRASH_POINT=%zu replays it\n",
               t->point, names[t->loss], (unsigned long long)t->seed, text, t->point);
}

/* ---- one image ---- */

/* A world on the image, at the time of the crash. */
static void world_after(struct trial *t, struct world *w)
{
    *w = t->script->w;
    w->engine = NULL;
    w->vfs = "after";
    w->on_started = NULL;
    w->adopt = NULL;
    w->wall = t->point ? crash_disk_time(t->script->disk, t->point) : t->script->w.wall;
    w->capacity = 0;
    w->kind_count = 1;
    settings_default(&w->settings);
    snprintf(w->host.boot_id, sizeof(w->host.boot_id), "boot-after");
    arena_init(&w->arena, 64 << 10, (size_t)256 << 20);
}

static bool open_after(struct trial *t, struct world *w)
{
    if (world_try_open(w) < 0) {
        violated(t, "the store cannot be opened: %s", w->error.text);
        return false;
    }
    w->host.pid++;
    for (int i = 0; i < 10000; i++)
        if (engine_tick(w->engine) > w->wall && w->engine->ready)
            return true;
    violated(t, "the recovery does not end");
    return false;
}

static void told_violation(void *arg, const struct check_finding *finding)
{
    violated(arg, "I%d: %s", finding->invariant, finding->sentence);
}

/* Returns how many things await recovery. */
static int64_t verify(struct trial *t, struct world *w)
{
    struct error error = { 0 };
    struct check_report report = { 0 };
    struct store *reader = NULL;
    int r = store_open(
        &(struct store_options){ .url = w->url, .vfs = w->vfs, .role = STORE_READER },
        &error, &reader);
    if (r == 0)
        r = check_store_from(reader, &w->host, w->wall, told_violation, t, &report);
    if (r < 0)
        violated(t, "it cannot be verified: %s", error.text);
    store_close(reader);
    return report.awaiting;
}

/* A worker whose lease has run out is not judged until a new start has waited for
 * one: then nothing awaits recovery any more. */
static void wait_and_verify(struct trial *t, struct world *w)
{
    int64_t until = w->wall + w->settings.lease_us + 5 * US_PER_S;
    while (w->wall < until) {
        w->wall += US_PER_S;
        w->mono += US_PER_S;
        while (engine_tick(w->engine) <= w->wall)
            ;
    }
    if (verify(t, w) > 0)
        violated(t, "something awaits recovery for ever");
}

static void hold_to_promises(struct trial *t, struct world *w)
{
    const struct ledger *ledger = &t->script->ledger;
    for (size_t i = 0; i < ledger->count; i++) {
        const struct promise *p = &ledger->list[i];
        if (p->from > t->point || p->until < t->point)
            continue;
        const char *broken = promise_breaks(w, p);
        if (broken)
            violated(t, "%lld %s: acknowledged as %s", (long long)p->id, broken, p->what);
    }
}

/* Ends the life on the image as a kill would: nothing is tidied up. */
static void kill_after(struct trial *t, struct world *w)
{
    crash_disk_stop_after(t->after, 0);
    engine_abandon(w->engine);
    w->engine = NULL;
    crash_disk_restart(t->after, CRASH_KEEP, 0);
}

static void recover_and_check(struct trial *t, sqlite3 *db)
{
    struct world *w = malloc(sizeof(*w));
    check(w != NULL);
    world_after(t, w);
    t->recoveries++;
    if (open_after(t, w)) {
        bool awaiting = verify(t, w) > 0;
        hold_to_promises(t, w);
        if (awaiting)
            wait_and_verify(t, w);
        uint64_t before = rows_of(db, ROWS_OF_WORK);
        sqlite3_close(db);
        kill_after(t, w);
        if (open_after(t, w)) {
            db = look_inside(t->script->w.url, "after");
            if (rows_of(db, ROWS_OF_WORK) != before)
                violated(t, "a second recovery changes the rows");
            sqlite3_close(db);
        }
    } else {
        sqlite3_close(db);
    }
    kill_after(t, w);
    arena_release(&w->arena);
    free(w);
}

static bool seen_before(struct trial *t, uint64_t rows)
{
    struct seen now = { rows, ledger_epoch(&t->script->ledger, t->point) };
    for (size_t i = t->seen_count; i > 0 && i + 64 > t->seen_count; i--)
        if (t->seen[i - 1].rows == now.rows && t->seen[i - 1].epoch == now.epoch)
            return true;
    if (t->seen_count == t->seen_capacity) {
        t->seen_capacity = t->seen_capacity ? 2 * t->seen_capacity : 1024;
        t->seen = realloc(t->seen, t->seen_capacity * sizeof(*t->seen));
        check(t->seen != NULL);
    }
    t->seen[t->seen_count++] = now;
    return false;
}

static void try_image(struct trial *t, enum crash_loss loss, uint64_t seed)
{
    t->loss = loss;
    t->seed = seed;
    t->images++;
    crash_disk_cut(t->replay, loss, seed, t->after);
    sqlite3 *db = look_inside(t->script->w.url, "after");
    uint64_t rows = rows_of(db, ROWS_OF_ALL);
    size_t next = t->next_sync[t->point];
    if (rows != t->states[t->point] && rows != t->states[next])
        violated(t, "the rows are neither those before nor those after the transaction");
    if (seen_before(t, rows) && loss == CRASH_MIX && !t->full)
        sqlite3_close(db);
    else
        recover_and_check(t, db);
}

/* ---- all points ---- */

/* The rows after each sync, and which sync comes next. */
static void find_states(struct trial *t)
{
    const struct crash_disk *disk = t->script->disk;
    size_t n = crash_disk_changes(disk);
    t->states = calloc(n + 1, sizeof(*t->states));
    t->next_sync = calloc(n + 1, sizeof(*t->next_sync));
    check(t->states && t->next_sync);
    struct crash_disk *replay = crash_disk_new("states", false, NULL);
    for (size_t i = 0; i <= n; i++) {
        if (i > 0)
            crash_disk_replay(replay, disk, i);
        t->states[i] = i > 0 ? t->states[i - 1] : 0;
        if (i == 0 || crash_disk_is_sync(disk, i)) {
            crash_disk_cut(replay, i ? CRASH_LOSE : CRASH_KEEP, 0, t->after);
            sqlite3 *db = look_inside(t->script->w.url, "after");
            t->states[i] = rows_of(db, ROWS_OF_ALL);
            sqlite3_close(db);
        }
    }
    for (size_t i = n, sync = n; i + 1 > 0; i--) {
        t->next_sync[i] = sync;
        if (i > 0 && crash_disk_is_sync(disk, i))
            sync = i;
    }
    crash_disk_free(replay);
}

/* A sync changes nothing of what a kill leaves: that is looked at behind it, where more
 * is promised. */
static bool same_behind(const struct trial *t, size_t point)
{
    const struct ledger *ledger = &t->script->ledger;
    if (point == crash_disk_changes(t->script->disk) ||
        !crash_disk_is_sync(t->script->disk, point + 1))
        return false;
    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->list[i].until == point)
            return false;
    return true;
}

static void try_point(struct trial *t, uint64_t mixes, uint64_t seed, bool alone)
{
    bool safe = !t->full && crash_disk_is_safe(t->replay);
    t->points++;
    if (alone || t->full || !same_behind(t, t->point))
        try_image(t, CRASH_KEEP, 0);
    uint64_t version = crash_disk_version(t->replay, CRASH_LOSE);
    if (version != t->lost && !safe) /* else it is the same image as before */
        try_image(t, CRASH_LOSE, 0);
    t->lost = version;
    for (uint64_t k = 0; k < mixes && !safe; k++)
        try_image(t, CRASH_MIX, seed + t->point * mixes + k);
}

static void try_points(struct trial *t)
{
    size_t n = crash_disk_changes(t->script->disk);
    size_t only = knob("HF_CRASH_POINT", 0), every = knob("HF_CRASH_EVERY", 1);
    uint64_t mixes = knob("HF_CRASH_MIXES", 4), seed = knob("HF_CRASH_SEED", 1);
    t->lost = UINT64_MAX;
    for (size_t i = 1; i <= n; i++) {
        crash_disk_replay(t->replay, t->script->disk, i);
        if (only ? i != only : i % every != 0)
            continue;
        t->point = i;
        try_point(t, mixes, seed, only || every > 1);
    }
}

static struct script *recorded_script(const char *vfs, size_t stop_at)
{
    struct script *s = new(struct script);
    check(s != NULL);
    script_init(s, crash_disk_new(vfs, true, &s->w.wall), vfs, test_path("store.db"));
    s->stop_at = stop_at;
    script_run(s);
    return s;
}

static void script_free(struct script *s)
{
    struct crash_disk *disk = s->disk;
    script_release(s);
    free(s);
    crash_disk_free(disk);
}

TEST_SLOW(whatever_is_lost_at_every_write_and_sync_all_is_accounted_for, 600)
{
    struct trial t = { .script = recorded_script("live", SIZE_MAX),
                       .full = knob("HF_CRASH_FULL", 0) };
    t.after = crash_disk_new("after", false, NULL);
    t.replay = crash_disk_new("replay", false, NULL);
    find_states(&t);
    try_points(&t);
    test_note(
        "crash points: %zu tried, %zu disks left behind, %zu recovered, %zu promises, "
        "%zu violations",
        t.points, t.images, t.recoveries, t.script->ledger.count, t.violations);
    if (t.script->broken[0])
        printf("the script itself came to %s\n", t.script->broken);
    check(t.violations == 0 && !t.script->broken[0]);
    crash_disk_free(t.replay);
    crash_disk_free(t.after);
    script_free(t.script);
    free(t.states);
    free(t.next_sync);
    free(t.seen);
}

TEST(the_script_uses_every_command_and_all_that_is_written)
{
    struct script *s = recorded_script("live", SIZE_MAX);
    check_str(s->broken, "");
    memcpy(used.ops, s->used, sizeof(used.ops));
    check_all_used();
    script_free(s);
}

/* The first test looks at the points of one run that was never stopped.  Here the
 * world stops for good, every call fails from then on, and the engine is abandoned:
 * the disk is the same, and the engine has not minded. */
TEST_SLOW(a_world_that_stops_leaves_the_disk_that_was_looked_at, 300)
{
    enum { STOPS = 60 };
    struct script *whole = recorded_script("live", SIZE_MAX);
    struct crash_disk *replay = crash_disk_new("replay", false, NULL);
    struct crash_disk *a = crash_disk_new("a", false, NULL);
    struct crash_disk *b = crash_disk_new("b", false, NULL);
    size_t n = crash_disk_changes(whole->disk), step = n / STOPS, at = 0;
    step *= knob("HF_CRASH_EVERY", 1);
    for (size_t stop = 1 + knob("HF_CRASH_SEED", 1) % step; stop <= n; stop += step) {
        struct script *stopped = recorded_script("stopped", stop);
        check_int(crash_disk_changes(stopped->disk), stop);
        while (at < stop)
            crash_disk_replay(replay, whole->disk, ++at);
        for (int loss = CRASH_KEEP; loss <= CRASH_MIX; loss++) {
            crash_disk_cut(replay, (enum crash_loss)loss, stop, a);
            crash_disk_cut(stopped->disk, (enum crash_loss)loss, stop, b);
            check(crash_disk_same(a, b));
        }
        script_free(stopped);
    }
    crash_disk_free(b);
    crash_disk_free(a);
    crash_disk_free(replay);
    script_free(whole);
}
