/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_lives.h -- what happens in the script after its first crash.
 *
 *   2  the recovery is interrupted by crashes, at several places
 *   3  recovered work in its lane; an owner dies, a deadline passes; a producer in
 *      another process; a graceful close with work under way
 *   4  a kill, and a start that adopts one run and leaves the dead to the sweep
 *   5  other kinds; a receiver that is gone; what is old is removed, chain by chain;
 *      the last close */
#pragma once

#include <sqlite3.h>

#include "crash_story.h"

/* ---- life 2 ---- */

/* None is right behind the last write of a commit: that one would be whole and not
 * synced, in rows that no sync of the script has. */
static inline void second_life(struct script *s)
{
    static const size_t places[] = { 7, 21, 26, 11 };
    for (size_t i = 0; i < array_len(places); i++)
        die_recovering(s, places[i], i);
}

/* ---- life 3 ---- */

/* Everything this node runs is completed, for some seconds. */
static inline void work_off(struct script *s, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        int64_t here[8];
        size_t n = runs_here(s, here, array_len(here));
        for (size_t k = 0; k < n; k++) {
            struct command *c = make_complete(NULL, here[k], "{\"late\":1}");
            c->complete.owner_id = s->w.engine->owner_id;
            touch(s, ABOUT_JOB, here[k]);
            perform(s, c);
            promise_completed(s, here[k], "{\"late\":1}");
        }
        pass(s, US_PER_S);
    }
}

static inline void touch_sessions(struct script *s)
{
    for (size_t i = 0; i < s->ledger.count; i++)
        if (s->ledger.list[i].about == ABOUT_SESSION)
            touch(s, ABOUT_SESSION, s->ledger.list[i].id);
}

static inline void touch_holds(struct script *s)
{
    for (size_t i = 0; i < s->ledger.count; i++)
        if (s->ledger.list[i].about == ABOUT_HOLD)
            touch(s, ABOUT_HOLD, s->ledger.list[i].id);
}

/* One worker is never heard of again, another works too long. */
static inline void story_owners(struct script *s)
{
    int64_t ids[4];
    struct new_job job = work("slow", "{\"owners\":true}");
    put_batch(s, job, 2, ids);
    job.queue = SLICE("q");
    job.max_execution_us = 10 * US_PER_S;
    put_batch(s, job, 2, ids + 2);
    take_job(s, "dead", ids[0]);
    int64_t owner = take_job(s, "lazy", ids[1]);
    take_job(s, "lazy", ids[2]);
    take_job(s, "lazy", ids[3]);
    cancel_job(s, ids[3], JOB_CANCELLING);
    for (int i = 0; i < 4; i++)
        touch(s, ABOUT_JOB, ids[i]);
    touch_sessions(s);
    touch_holds(s);
    for (int i = 0; i < 7; i++) {
        beat_of(s, "lazy", owner, ids + 1, i < 3 ? 3 : 1);
        touch(s, ABOUT_SESSION, owner);
        work_off(s, 10);
    }
    s->acked = crash_disk_changes(s->disk);
    promise(s, (struct promise){ .what = "its owner died",
                                 .id = ids[0],
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_CRASH,
                                 .retry = -1 });
    promise(s, (struct promise){ .what = "over its deadline",
                                 .id = ids[2],
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_TIMEOUT,
                                 .retry = -1 });
    promise(s, (struct promise){ .what = "over its deadline, asked to stop",
                                 .id = ids[3],
                                 .states = IN(JOB_CANCELLED) });
    require(s, s->w.engine->totals.work.stale > 0);
    finish_job_of(s, "lazy", ids[1]); /* slow, but it lived */
    int64_t id = put_job(s, job, true);
    take_job(s, "dead", id); /* another owner by the same name */
    finish_job_of(s, "dead", id);
}

/* A second process enqueues into the same file. */
static inline void story_producer(struct script *s)
{
    struct error error = { 0 };
    spare(s, true);
    int r = engine_open(&(struct engine_options){ .url = s->w.url,
                                                  .vfs = s->w.vfs,
                                                  .producer = true,
                                                  .settings = &s->w.settings,
                                                  .clock = &s->w.clock,
                                                  .seed = 5,
                                                  .host = &s->w.host },
                        &error, &s->producer);
    spare(s, false);
    look_for_stop(s);
    if (r < 0)
        give_up(s, "producer: %s", error.text);
    s->scheduler = s->w.engine;
    s->w.engine = s->producer;
    int64_t id = put_job(s, work("elsewhere", "{\"producer\":1}"), true);
    cancel_job(s, put_job(s, work("elsewhere", "{\"producer\":2}"), true), JOB_CANCELLED);
    s->w.engine = s->scheduler;
    s->scheduler = NULL;
    engine_close(s->producer);
    s->producer = NULL;
    look_for_stop(s);
    pass(s, 2 * US_PER_S);
    take_job(s, "lazy", id);
    finish_job_of(s, "lazy", id);
}

/* Work under way is handed over: it has used up nothing. */
static inline void close_gracefully(struct script *s)
{
    int64_t here[8];
    size_t n = runs_here(s, here, array_len(here));
    for (size_t i = 0; i < n; i++)
        touch(s, ABOUT_JOB, here[i]);
    touch_sessions(s);
    engine_close(s->w.engine);
    s->w.engine = NULL;
    look_for_stop(s);
    s->acked = crash_disk_changes(s->disk);
    for (size_t i = 0; i < n; i++)
        promise(s, (struct promise){ .what = "handed over",
                                     .id = here[i],
                                     .states = IN(JOB_FAILED),
                                     .error_type = ERROR_INTERRUPTED,
                                     .retry = -1 });
}

static inline void enqueue_local(struct script *s, int count)
{
    struct new_job job = job_of_kind("local");
    job.payload = SLICE("{\"local\":true}");
    for (int i = 0; i < count; i++)
        put_job(s, job, false);
}

static inline void third_life(struct script *s)
{
    live(s);
    touch_sessions(s);
    drop_endpoint(s, s->held);
    story_projects_end(s);
    work_off(s, 35); /* recovered work, one worker after another */
    story_owners(s);
    story_producer(s);
    story_sender(s);
    enqueue_local(s, 4);
    require_int(s, s->w.engine->run_count, 3);
    close_gracefully(s);
}

/* ---- life 4 ---- */

/* It has lived on without the node. */
static inline bool adopt_one(void *world, const struct job_row *row)
{
    return row->job.id == ((struct script *)world)->adopted;
}

static inline void fourth_life(struct script *s)
{
    int64_t here[8];
    live(s);
    pass(s, 2 * US_PER_S);
    size_t n = runs_here(s, here, array_len(here));
    require(s, n > 1);
    die(s, CRASH_KEEP, 0);
    s->adopted = here[0];
    s->w.adopt = adopt_one;
    s->w.settings.recovery_on_startup = false;
    s->w.settings.zombie_threshold_us = 30 * US_PER_S;
    s->w.settings.cleanup_interval_us = 20 * US_PER_S;
    s->w.capacity = 0;
    live(s);
    require(s, local_run_find(s->w.engine, s->adopted) != NULL);
    for (size_t i = 1; i < n; i++)
        touch(s, ABOUT_JOB, here[i]);
    pass(s, 45 * US_PER_S);
    s->acked = crash_disk_changes(s->disk);
    for (size_t i = 1; i < n; i++)
        promise(
            s, (struct promise){
                   .what = "swept",
                   .id = here[i],
                   .states = IN(JOB_FAILED),
                   .error_type = ERROR_CRASH,
                   .message = "Worker crashed or timed out (no response after threshold)",
                   .retry = -1 });
    finish_here(s, s->adopted, "{\"adopted\":true}");
    close_gracefully(s);
    s->w.settings.recovery_on_startup = true;
}

/* ---- life 5 ---- */

static inline void jump(struct script *s, int64_t us)
{
    s->w.wall += us;
    s->w.mono += us;
    settle(s);
    pass(s, 62 * US_PER_S);
}

/* All that is over is old by now, and goes; what is promised of the rest is that it
 * is still there. */
static inline void story_retention(struct script *s)
{
    size_t before = s->ledger.count, pruned = 0;
    struct command *again =
        with_key(make_enqueue(work("q", "{\"key\":1}")), "once", "body");
    for (size_t i = 0; i < before; i++) {
        const struct promise *p = &s->ledger.list[i];
        if (p->about == ABOUT_JOB)
            ledger_forget(&s->ledger, p->id, crash_disk_changes(s->disk));
        touch(s, ABOUT_KEY, p->id);
    }
    s->w.wall += 2 * US_PER_DAY;
    s->w.mono += 2 * US_PER_DAY;
    int64_t once = perform(s, again)->enqueue.out[0].id; /* the key is free again */
    promise(s, (struct promise){ .about = ABOUT_KEY,
                                 .what = "key used again",
                                 .name = "once",
                                 .passing = true,
                                 .id = once });
    jump(s, 0);
    s->acked = crash_disk_changes(s->disk);
    for (size_t i = 0; i < before; i++) {
        struct promise old = s->ledger.list[i];
        struct job_row row;
        if (old.about != ABOUT_JOB || strcmp(old.what, "enqueued") != 0)
            continue;
        bool gone = store_job_get(s->w.engine->store, old.id, &s->w.arena, &row) < 0;
        pruned += gone;
        promise(s, (struct promise){ .about = gone ? ABOUT_PRUNED : ABOUT_JOB,
                                     .what = gone ? "removed" : "kept",
                                     .id = old.id,
                                     .states = ANYHOW,
                                     .payload = old.payload });
    }
    require(s, pruned > 20 && pruned < before);
    touch(s, ABOUT_KEY, once);
}

static inline void fifth_life(struct script *s)
{
    int64_t deliveries[3];
    s->w.adopt = NULL;
    s->w.kinds[2] = "remote-before";
    s->w.kind_count = 3;
    s->w.settings.event_level = EVENTS_EVERY;
    s->w.settings.retention_completed_us = s->w.settings.retention_failed_us = US_PER_DAY;
    live(s);
    int64_t id = put_job(s, work("q", "{\"every\":\"event\"}"), true);
    take_job(s, "s9", id);
    finish_job_of(s, "s9", id);
    touch_sessions(s);
    story_receiver_gone(s, deliveries);
    for (size_t i = 0; i < array_len(deliveries); i++)
        touch(s, ABOUT_DELIVERY, deliveries[i]);
    story_retention(s);
    for (size_t i = 0; i < array_len(deliveries); i++)
        promise_delivery(s, deliveries[i], "old, and removed", 0, 0);
    require_int(s, engine_set_kinds(s->w.engine, s->w.kinds, 1, NULL, 0), 0);
    jump(s, 31 * US_PER_DAY); /* owners that were resolved long ago */
    close_gracefully(s);
}

/* ---- all of it ---- */

static inline void script_init(struct script *s, struct crash_disk *disk, const char *vfs,
                               const char *url)
{
    memset(s, 0, sizeof(*s));
    world_init(&s->w);
    s->w.url = url;
    s->w.vfs = vfs;
    s->w.kinds[0] = "local";
    s->w.kinds[1] = "http";
    s->w.kind_count = 2;
    s->w.on_started = on_node_started;
    s->disk = disk;
    s->stop_at = SIZE_MAX;
    memset(s->large, 'x', sizeof(s->large) - 1);
    s->large[0] = s->large[sizeof(s->large) - 2] = '"';
}

static inline void script_release(struct script *s)
{
    pile_free(&s->doing);
    ledger_release(&s->ledger);
    arena_release(&s->w.arena);
}

/* Runs the script, to its end or until the world stops; then nothing is left of the
 * engine but what is on the disk. */
static inline void script_run(struct script *s)
{
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, 4711, NULL);
    arm(s, SIZE_MAX);
    if (setjmp(s->stopped) == 0) {
        first_life(s);
        second_life(s);
        third_life(s);
        fourth_life(s);
        fifth_life(s);
    }
    if (s->scheduler) { /* stopped while the producer had its turn */
        engine_abandon(s->scheduler);
    } else if (s->producer) {
        engine_abandon(s->producer);
        s->producer = NULL;
    }
    engine_abandon(s->w.engine);
    s->w.engine = s->scheduler = s->producer = NULL;
    pile_free(&s->doing);
}
