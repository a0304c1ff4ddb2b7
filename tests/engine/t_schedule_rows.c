/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules, fires and endpoints as rows: what was written is what is read, on both
 * databases, and pages go on where they ended. */
#include "store/schedules.h"
#include "world.h"

static struct schedule nightly(int64_t id, const char *name)
{
    return (struct schedule){ .id = id,
                              .project_id = 1,
                              .created_at = 5,
                              .changed_at = 5,
                              .name = slice_of(name),
                              .cron = SLICE("0 3 * * *"),
                              .time_zone = SLICE("Europe/Berlin"),
                              .anchor_at = 5,
                              .start_at = 6,
                              .end_at = 7,
                              .jitter_us = 8,
                              .overlap = OVERLAP_QUEUE,
                              .misfire = MISFIRE_ALL,
                              .paused = PAUSED_ITSELF,
                              .paused_until = 9,
                              .paused_reason = SLICE("holidays"),
                              .passed_until = 10,
                              .cursor_at = 11,
                              .next_at = 12,
                              .fire_count = 13,
                              .last_fire_at = 14,
                              .last_job_id = 15,
                              .problem = SLICE("its zone is gone"),
                              .kind = SLICE("report"),
                              .queue = SLICE("night"),
                              .payload = SLICE("{\"a\":1}"),
                              .metadata = SLICE("{\"b\":\"2\"}"),
                              .unique_key = SLICE("u"),
                              .retry_delays = SLICE("1,2"),
                              .max_execution_us = 16000,
                              .expire_us = 17,
                              .priority = 8,
                              .max_retries = 2,
                              .on_crash = ON_CRASH_FAIL };
}

static void check_same(const struct schedule *a, const struct schedule *b)
{
    const int64_t pairs[][2] = {
        { a->id, b->id },
        { a->project_id, b->project_id },
        { a->created_at, b->created_at },
        { a->changed_at, b->changed_at },
        { a->every_us, b->every_us },
        { a->anchor_at, b->anchor_at },
        { a->start_at, b->start_at },
        { a->end_at, b->end_at },
        { a->jitter_us, b->jitter_us },
        { a->overlap, b->overlap },
        { a->misfire, b->misfire },
        { a->paused, b->paused },
        { a->paused_until, b->paused_until },
        { a->passed_until, b->passed_until },
        { a->cursor_at, b->cursor_at },
        { a->next_at, b->next_at },
        { a->fire_count, b->fire_count },
        { a->fires_pruned, b->fires_pruned },
        { a->last_fire_at, b->last_fire_at },
        { a->last_job_id, b->last_job_id },
        { a->max_execution_us, b->max_execution_us },
        { a->expire_us, b->expire_us },
        { a->priority, b->priority },
        { a->max_retries, b->max_retries },
        { a->on_crash, b->on_crash },
    };
    const struct slice texts[][2] = {
        { a->name, b->name },
        { a->cron, b->cron },
        { a->time_zone, b->time_zone },
        { a->paused_reason, b->paused_reason },
        { a->problem, b->problem },
        { a->kind, b->kind },
        { a->queue, b->queue },
        { a->payload, b->payload },
        { a->metadata, b->metadata },
        { a->unique_key, b->unique_key },
        { a->retry_delays, b->retry_delays },
    };
    for (size_t i = 0; i < array_len(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            fail("number %zu: %lld and %lld", i, (long long)pairs[i][0],
                 (long long)pairs[i][1]);
    for (size_t i = 0; i < array_len(texts); i++)
        if (!slice_equal(texts[i][0], texts[i][1]) || !texts[i][0].p != !texts[i][1].p)
            fail("text %zu: \"%.*s\" and \"%.*s\"", i, (int)texts[i][0].n, texts[i][0].p,
                 (int)texts[i][1].n, texts[i][1].p);
}

static void insert(struct world *w, struct schedule s)
{
    s.changed_at = s.created_at;
    check_ok(store_begin(w->engine->store, w->wall));
    check_ok(store_schedule_insert(w->engine->store, &s));
    check_ok(store_commit(w->engine->store));
}

static struct schedule see(struct world *w, int64_t id)
{
    struct schedule s = { 0 };
    check_ok(store_schedule_get(w->engine->store, id, &w->arena, &s));
    return s;
}

TEST(a_schedule_is_read_as_it_was_written)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct schedule in = nightly(900, "a");
    insert(&w, in);
    struct schedule out = see(&w, 900);
    check_same(&in, &out);
    check_ok(store_schedule_by_name(w.engine->store, 1, SLICE("a"), &w.arena, &out));
    check_same(&in, &out);
    check_err(store_schedule_by_name(w.engine->store, 2, SLICE("a"), &w.arena, &out),
              -HF_NOT_FOUND);
    check_err(store_schedule_get(w.engine->store, 901, &w.arena, &out), -HF_NOT_FOUND);
    check_err(store_endpoint_get(w.engine->store, 900, &w.arena, &(struct endpoint){ 0 }),
              -HF_NOT_FOUND);
    world_close(&w);
}

TEST(what_is_not_said_of_a_schedule_stays_unsaid)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct schedule in = { .id = 900,
                           .project_id = 1,
                           .created_at = 5,
                           .changed_at = 5,
                           .name = SLICE("bare"),
                           .time_zone = SLICE("UTC"),
                           .every_us = 1,
                           .anchor_at = 5,
                           .cursor_at = 5,
                           .kind = SLICE("k"),
                           .max_execution_us = -1,
                           .expire_us = -1,
                           .max_retries = -1,
                           .on_crash = -1 };
    insert(&w, in);
    struct schedule out = see(&w, 900);
    check_same(&in, &out);
    world_close(&w);
}

TEST(settings_and_standing_are_changed_apart)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    insert(&w, nightly(900, "a"));
    struct schedule locked, in = nightly(900, "b");
    in.cursor_at = 99;
    check_ok(store_begin(w.engine->store, w.wall));
    check_ok(store_schedule_lock(w.engine->store, 900, &locked));
    check_ok(store_schedule_update(w.engine->store, &in));
    check_ok(store_commit(w.engine->store));
    struct schedule out = see(&w, 900);
    check_int(out.cursor_at, 11);
    check_slice(out.name, "b");
    in.name = SLICE("c");
    check_ok(store_begin(w.engine->store, w.wall));
    store_schedule_advance(w.engine->store, &in);
    check_ok(store_commit(w.engine->store));
    out = see(&w, 900);
    check_int(out.cursor_at, 99);
    check_slice(out.name, "b");
    check_ok(store_begin(w.engine->store, w.wall));
    check_ok(store_schedule_delete(w.engine->store, 900));
    check_ok(store_commit(w.engine->store));
    check_err(store_schedule_get(w.engine->store, 900, &w.arena, &out), -HF_NOT_FOUND);
    world_close(&w);
}

TEST(schedules_and_fires_come_in_pages)
{
    struct world w;
    struct schedule *list = NULL;
    struct fire *fires = NULL;
    size_t count = 0;
    world_init(&w);
    world_open(&w);
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%d", i);
        insert(&w, nightly(900 + i, name));
    }
    check_ok(store_schedules(w.engine->store,
                             &(struct schedule_filter){ .after = 901, .limit = 2 },
                             &w.arena, &list, &count));
    check_int(count, 2);
    check_int(list[0].id, 902);
    check_int(list[1].id, 903);
    check_ok(store_schedules(w.engine->store,
                             &(struct schedule_filter){ .endpoints = true, .limit = 9 },
                             &w.arena, &list, &count));
    check_int(count, 0);
    check_ok(store_schedules(w.engine->store,
                             &(struct schedule_filter){ .project_id = 7, .limit = 9 },
                             &w.arena, &list, &count));
    check_int(count, 0);

    check_ok(store_begin(w.engine->store, w.wall));
    for (int64_t i = 1; i <= 5; i++)
        store_fire_insert(w.engine->store, &(struct fire){ .schedule_id = 900,
                                                           .fire_at = i * 10,
                                                           .last_at = i * 10 + 5,
                                                           .count = i,
                                                           .outcome = FIRE_MISSED,
                                                           .reason = FIRE_LATE });
    check_ok(store_commit(w.engine->store));
    check_ok(store_fires(w.engine->store, 900, 0, 2, &w.arena, &fires, &count));
    check_int(count, 2);
    check_int(fires[0].fire_at, 50);
    check_ok(store_fires(w.engine->store, 900, 40, 9, &w.arena, &fires, &count));
    check_int(count, 3);
    check_int(fires[0].fire_at, 30);
    check_int(fires[0].last_at, 35);
    check_int(fires[0].count, 3);
    check_int(fires[0].outcome, FIRE_MISSED);
    check_int(fires[0].reason, FIRE_LATE);
    check_int(fires[0].at, w.wall);
    world_close(&w);
}

TEST(a_schedules_live_jobs_and_all_its_jobs_are_found)
{
    struct world w;
    int64_t ids[] = { 900, 901, 902 }, live[3];
    struct job_row *rows = NULL;
    size_t count = 0;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("k");
    job.schedule_id = 901;
    int64_t first = enqueue(&w, job), second = enqueue(&w, job);
    job.schedule_id = 902;
    int64_t over = enqueue(&w, job);
    check_ok(cancel(&w, over));
    check_ok(store_begin(w.engine->store, w.wall));
    check_ok(store_schedules_live(w.engine->store, ids, 3, live));
    store_rollback(w.engine->store);
    check_int(live[0], 0);
    check_int(live[1], second);
    check_int(live[2], 0);
    check_ok(store_schedule_jobs(w.engine->store, 901, 0, 10, &w.arena, &rows, &count));
    check_int(count, 2);
    check_int(rows[0].job.id, second);
    check_ok(
        store_schedule_jobs(w.engine->store, 901, second, 10, &w.arena, &rows, &count));
    check_int(count, 1);
    check_int(rows[0].job.id, first);
    world_close(&w);
}
