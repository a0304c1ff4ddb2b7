/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules fire: each fire time has one outcome, and the cursor passes over none. */
#include "base/limits.h"
#include "engine/schedule/fire.h"
#include "fires.h"

#define MINUTE (60 * US_PER_S)

TEST(each_fire_time_makes_a_job_when_it_comes)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("minutely", "* * * * *", 0));
    check_int(schedule_of(&w, id).next_at, w.wall / MINUTE * MINUTE + MINUTE);
    for (int i = 1; i <= 5; i++) {
        world_pass(&w, MINUTE);
        struct schedule s = schedule_of(&w, id);
        check_int(s.fire_count, i);
        check_int(s.last_fire_at, w.wall / MINUTE * MINUTE);
        struct job job = look(&w, s.last_job_id).job;
        check_int(job.schedule_id, id);
        check_int(job.run_at, s.last_fire_at);
        check_slice(job.kind, "k");
        check_int(do_the_work(&w), 1);
    }
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 5);
    for (size_t i = 0; i < fires.count; i++)
        check_fire(&fires.list[i], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(an_interval_counts_from_its_start)
{
    struct world w;
    world_begin(&w);
    int64_t made_at = w.wall;
    int64_t plain = schedule(&w, new_schedule("plain", NULL, 90 * US_PER_S));
    struct schedule_edit edit = new_schedule("later", NULL, 90 * US_PER_S);
    edit.set |= EDIT_START;
    edit.with.start_at = made_at + 25 * US_PER_S;
    int64_t later = schedule(&w, edit);
    check_int(schedule_of(&w, plain).next_at, made_at + 90 * US_PER_S);
    check_int(schedule_of(&w, later).next_at, made_at + 25 * US_PER_S);
    for (int i = 0; i < 10; i++) {
        world_pass(&w, MINUTE);
        do_the_work(&w);
    }
    check_int(schedule_of(&w, plain).fire_count, 6);
    check_int(schedule_of(&w, later).fire_count, 7);
    check_account(&w, plain);
    check_account(&w, later);
    world_end(&w);
}

TEST(a_schedule_ends_when_its_time_is_over)
{
    struct world w;
    world_begin(&w);
    struct schedule_edit edit = new_schedule("short", NULL, 10 * US_PER_S);
    edit.set |= EDIT_END;
    edit.with.end_at = w.wall + 30 * US_PER_S;
    int64_t id = schedule(&w, edit);
    for (int i = 0; i < 6; i++) {
        world_pass(&w, 10 * US_PER_S);
        do_the_work(&w);
    }
    struct schedule s = schedule_of(&w, id);
    check_int(s.fire_count, 3); /* the last one at its very end */
    check_int(s.next_at, 0);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_schedule_without_a_rhythm_is_only_triggered)
{
    struct world w;
    bool made = false;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("by-hand", NULL, 0));
    world_pass(&w, 5 * MINUTE);
    check_int(schedule_of(&w, id).fire_count, 0);
    int64_t job = trigger(&w, id, &made);
    check(made);
    check_int(look(&w, job).job.schedule_id, id);
    check_int(schedule_of(&w, id).last_job_id, job);
    check_int(fires_of(&w, id).count, 0); /* it was no fire time */
    check_int(told(&w, "schedule.triggered", NULL), 1);
    world_end(&w);
}

/* ---- overlap ---- */

TEST(while_its_job_is_live_a_fire_time_is_skipped)
{
    struct world w;
    struct slice data;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    world_pass(&w, 10 * US_PER_S);
    int64_t job = claim_one(&w, "s"), retry = 0;
    world_pass(&w, 20 * US_PER_S);
    check_ok(fail_run(&w, "s", job, ERROR_OTHER, &retry)); /* to be retried in a minute */
    check_int(look(&w, retry).job.schedule_id, id);
    world_pass(&w, 20 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 5);
    check_fire(&fires.list[0], FIRE_RAN, FIRE_REASON_NONE, 1);
    for (size_t i = 1; i < fires.count; i++)
        check_fire(&fires.list[i], FIRE_SKIPPED, FIRE_OVERLAP, 1);
    /* It is told when it begins. */
    check_int(told(&w, "schedule.skipped", &data), 1);
    check(has_text(data, "\"reason\":\"overlap\""));
    world_pass(&w, 41 * US_PER_S);
    check_int(claim_one(&w, "s"), retry);
    check_ok(complete(&w, "s", retry));
    world_pass(&w, 9 * US_PER_S);
    check_int(schedule_of(&w, id).last_fire_at, w.wall);
    world_pass(&w, 10 * US_PER_S);
    check_int(told(&w, "schedule.skipped", NULL), 2);
    check_account(&w, id);
    world_end(&w);
}

TEST(jobs_queue_up_where_overlap_says_so)
{
    struct world w;
    world_begin(&w);
    struct schedule_edit edit = new_schedule("q", NULL, 10 * US_PER_S);
    edit.set |= EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    int64_t id = schedule(&w, edit);
    world_pass(&w, 60 * US_PER_S);
    check_int(do_the_work(&w), 6);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_source_that_is_busy_is_a_reason_to_skip)
{
    struct world w;
    world_begin(&w);
    struct new_job other = job_of_kind("other");
    other.unique_key = SLICE("source");
    int64_t holder = enqueue(&w, other);
    struct schedule_edit edit = new_schedule("keyed", NULL, 10 * US_PER_S);
    edit.set |= EDIT_UNIQUE_KEY | EDIT_OVERLAP;
    edit.with.unique_key = SLICE("source");
    edit.with.overlap = OVERLAP_QUEUE;
    int64_t id = schedule(&w, edit);
    world_pass(&w, 20 * US_PER_S);
    check_ok(cancel(&w, holder));
    world_pass(&w, 20 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 4);
    check_fire(&fires.list[0], FIRE_SKIPPED, FIRE_SOURCE_BUSY, 1);
    check_fire(&fires.list[1], FIRE_SKIPPED, FIRE_SOURCE_BUSY, 1);
    check_fire(&fires.list[2], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_fire(&fires.list[3], FIRE_SKIPPED, FIRE_SOURCE_BUSY, 1); /* its own */
    check_account(&w, id);
    world_end(&w);
}

/* ---- jitter, expiry ---- */

TEST(jitter_is_within_its_bound_and_the_same_again)
{
    struct world w;
    world_begin(&w);
    struct schedule_edit edit = new_schedule("spread", NULL, 10 * US_PER_S);
    edit.set |= EDIT_JITTER | EDIT_OVERLAP;
    edit.with.jitter_us = 7 * US_PER_S;
    edit.with.overlap = OVERLAP_QUEUE;
    int64_t id = schedule(&w, edit), distinct = 0, before = -1;
    world_pass(&w, 200 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 20);
    for (size_t i = 0; i < fires.count; i++) {
        struct job job = look(&w, fires.list[i].job_id).job;
        int64_t jitter = job.run_at - fires.list[i].fire_at;
        check(jitter >= 0 && jitter < 7 * US_PER_S);
        check(job.position >= job.run_at);
        distinct += jitter != before;
        before = jitter;
    }
    check(distinct > 15);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_job_that_nobody_starts_in_time_is_cancelled)
{
    struct world w;
    world_begin(&w);
    struct schedule_edit edit = new_schedule("brief", NULL, 60 * US_PER_S);
    edit.set |= EDIT_EXPIRE;
    edit.with.expire_us = 20 * US_PER_S;
    int64_t id = schedule(&w, edit);
    world_pass(&w, 61 * US_PER_S);
    int64_t job = schedule_of(&w, id).last_job_id;
    check_int(state_of(&w, job), JOB_QUEUED);
    world_pass(&w, 20 * US_PER_S);
    check_int(state_of(&w, job), JOB_CANCELLED);
    world_end(&w);
}

/* ---- triggers ---- */

TEST(a_trigger_respects_overlap_and_names_the_job_that_is_there)
{
    struct world w;
    bool made = false;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 3600 * US_PER_S));
    int64_t first = trigger(&w, id, &made);
    check(made);
    check_int(trigger(&w, id, &made), first);
    check(!made);
    check_int(do_the_work(&w), 1);
    pause_schedule(&w, id, 1, 0);
    check(trigger(&w, id, &made) != first); /* a pause is of its times */
    check(made);
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    schedule(&w, edit);
    (void)trigger(&w, id, &made);
    check(made);
    world_end(&w);
}

TEST(two_triggers_in_one_pile_make_one_job)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 3600 * US_PER_S));
    for (int i = 0; i < 2; i++)
        pile_add(&pile, command_new(OP_TRIGGER))->trigger.id = id;
    pile_apply(&w, &pile);
    check_int(do_the_work(&w), 1);
    pile_free(&pile);
    world_end(&w);
}

/* ---- one that cannot ---- */

TEST(one_that_the_store_refuses_does_not_keep_the_others_from_firing)
{
    struct world w;
    struct slice data;
    char sql[200];
    world_begin(&w);
    int64_t bad = schedule(&w, new_schedule("bad", NULL, 40 * US_PER_S));
    int64_t good = schedule(&w, new_schedule("good", NULL, 40 * US_PER_S));
    /* Its next fire time has an outcome already. */
    snprintf(sql, sizeof(sql),
             "INSERT INTO fires (schedule_id, fire_at, last_at, count, outcome, at) "
             "VALUES (%lld, %lld, %lld, 1, 4, 1)",
             (long long)bad, (long long)(w.wall + 40 * US_PER_S),
             (long long)(w.wall + 40 * US_PER_S));
    run_sql(&w, sql);
    world_pass(&w, 41 * US_PER_S);
    check_int(schedule_of(&w, good).fire_count, 1);
    check_int(schedule_of(&w, bad).fire_count, 0);
    check(has_text(schedule_of(&w, bad).problem, "refused"));
    check_int(told(&w, "schedule.stalled", &data), 1);
    check(has_text(data, "\"bad\""));
    check_int(do_the_work(&w), 1);
    run_sql(&w, "DELETE FROM fires WHERE outcome = 4");
    world_pass(&w, 60 * US_PER_S);
    check(!schedule_of(&w, bad).problem.p);
    check_account(&w, bad);
    check_account(&w, good);
    world_end(&w);
}

/* From now on the store refuses jobs of the kind "bad". */
static void refuse_bad(struct world *w)
{
    if (db_engine(w->engine->store->db) == DB_SQLITE)
        run_sql(w, "CREATE TRIGGER test_bad BEFORE INSERT ON jobs WHEN NEW.kind = 'bad' "
                   "BEGIN SELECT RAISE(ABORT, 'a bad one'); END");
    else
        run_sql(w, "ALTER TABLE jobs ADD CONSTRAINT test_bad CHECK (kind <> 'bad')");
}

static int64_t bad_schedule(struct world *w, const char *name)
{
    struct schedule_edit edit = new_schedule(name, NULL, 20 * US_PER_S);
    edit.with.kind = SLICE("bad");
    return schedule(w, edit);
}

TEST(one_that_the_store_refuses_can_be_mended_or_deleted)
{
    struct world w;
    world_begin(&w);
    refuse_bad(&w);
    int64_t mended = bad_schedule(&w, "mended"), dropped = bad_schedule(&w, "dropped");
    world_pass(&w, 200 * US_PER_S);
    check_int(told(&w, "schedule.stalled", NULL), 2); /* each once */
    check(has_text(schedule_of(&w, mended).problem, "refused"));
    check_int(schedule_of(&w, mended).fire_count, 0);
    struct schedule_edit edit = edit_of(mended);
    edit.set = EDIT_KIND;
    edit.with.kind = SLICE("k");
    schedule(&w, edit);
    check(!schedule_of(&w, mended).problem.p);
    struct fires fires = fires_of(&w, mended);
    check_int(fires.count, 1);
    check_fire(&fires.list[0], FIRE_MISSED, FIRE_LATE, 10);
    check_ok(drop_schedule(&w, dropped));
    world_pass(&w, 20 * US_PER_S);
    check_int(do_the_work(&w), 1);
    check_account(&w, mended);
    world_end(&w);
}

/* ---- many ---- */

/* Of so many schedules with payloads of so many bytes, as many as the first bite takes. */
static int64_t first_bite(int count, size_t bytes)
{
    struct world w;
    char name[20], *payload = malloc(bytes);
    check(payload);
    memset(payload, '1', bytes);
    world_begin(&w);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        struct schedule_edit edit = new_schedule(name, NULL, 100 * US_PER_S);
        edit.set |= EDIT_PAYLOAD;
        edit.with.payload = (struct slice){ payload, bytes };
        schedule(&w, edit);
    }
    free(payload);
    w.wall += 101 * US_PER_S;
    w.mono += 101 * US_PER_S;
    int64_t first = fire_step(w.engine), all = first;
    while (all < count)
        all += fire_step(w.engine);
    check_int(count_of(&w, "default", COUNT_QUEUED), count);
    world_end(&w);
    return first;
}

/* Each may have a megabyte: they must not all be in memory at once. */
TEST(of_schedules_with_large_payloads_a_bite_takes_fewer)
{
    enum { COUNT = 60, LARGE = 200 << 10 };
    check_int(first_bite(COUNT, 1), COUNT);
    check(first_bite(COUNT, LARGE) < COUNT);
}

TEST(ten_thousand_in_the_same_second_fire_in_bounded_bites)
{
    enum { MANY = 10000 };
    struct world w;
    const int many = test_many(MANY);
    world_begin(&w);
    int64_t until = w.wall + 100 * US_PER_S;
    struct command *list = NULL;
    for (int i = 0; i < many; i++) {
        struct command *c = command_new(OP_SCHEDULE);
        char name[16];
        snprintf(name, sizeof(name), "s%d", i);
        c->schedule.edit = new_schedule(name, NULL, 3600 * US_PER_S);
        c->schedule.edit.set |= EDIT_START | EDIT_QUEUE;
        c->schedule.edit.with.name = arena_dup(&c->arena, slice_of(name));
        c->schedule.edit.with.start_at = until;
        c->schedule.edit.with.queue = slice_of(i % 2 ? "odd" : "even");
        c->mail.next = list ? &list->mail : NULL;
        list = c;
    }
    engine_apply(w.engine, list);
    for (struct command *next; list; list = next) {
        next = (struct command *)list->mail.next;
        check_ok(list->result);
        command_free(list);
    }
    w.wall = until;
    w.mono += 100 * US_PER_S;
    int steps = 0, most = 0;
    for (uint64_t made = 0; engine_tick(w.engine) <= w.wall; steps++) {
        uint64_t now = w.engine->totals.work.enqueued;
        if ((int)(now - made) > most)
            most = (int)(now - made);
        made = now;
    }
    check_int(w.engine->totals.work.enqueued, many);
    check(most <= 1000);
    world_end(&w);
}
