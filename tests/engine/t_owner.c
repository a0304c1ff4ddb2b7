/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners: one lease for all runs, who is judged dead and when, what becomes of
 * the dead one's runs, and who comes back. */
#include "base/limits.h"
#include "crash.h"

/* Judging has begun: one lease has passed since the start. */
static void open_and_wait(struct world *w)
{
    world_open(w);
    world_pass(w, w->settings.lease_us + US_PER_S);
}

static int progress(struct world *w, const char *session, int64_t id)
{
    struct command *c = command_new(OP_PROGRESS);
    c->progress.job_id = id;
    c->progress.session = slice_of(session);
    c->progress.percent = 50;
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

/* ---- leases ---- */

TEST(a_beat_renews_one_lease_for_all_runs)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    enqueue_many(&w, job_of_kind("crawl"), 50);
    claim_many(&w, "s1", NULL, 50);
    check_int(session_row(&w, "s1").lease_until, w.wall + w.settings.lease_us);
    world_pass(&w, 10 * US_PER_S);
    const char *before = signature(&w);
    beat(&w, "s1");
    check_int(session_row(&w, "s1").lease_until, w.wall + w.settings.lease_us);
    check_int(session_row(&w, "s1").seen_at, w.wall);
    check_same(signature(&w), before); /* no run, no job, no event was written */
    pass_beating(&w, 300 * US_PER_S, "s1");
    check_int(count_in(&w, JOB_RUNNING), 50);
    check_int(events_named(&w, "owner.died", NULL), 0);
    world_close(&w);
}

TEST(an_owner_whose_lease_ran_out_is_dead_and_its_runs_crash_within_one_poll)
{
    struct world w;
    struct event died = { 0 };
    world_init(&w);
    open_and_wait(&w);
    int64_t ids[2] = { enqueue_kind(&w, "crawl"), enqueue_kind(&w, "crawl") };
    claim_many(&w, "s1", NULL, 2);
    int64_t owner = session_row(&w, "s1").id;
    world_pass(&w, 10 * US_PER_S);
    beat(&w, "s1"); /* the last one */
    world_pass(&w, w.settings.lease_us - US_PER_S);
    check_int(count_in(&w, JOB_RUNNING), 2);
    check_int(events_named(&w, "owner.died", NULL), 0);
    world_pass(&w, US_PER_S);
    check_int(events_named(&w, "owner.died", &died), 1);
    check_int(died.owner_id, owner);
    check_int(owner_row(&w, owner).state, OWNER_DEAD);
    check_int(owner_row(&w, owner).ended_at, w.wall);
    for (int i = 0; i < 2; i++) {
        struct job_row row = look(&w, ids[i]), next = look(&w, retry_of(&w, ids[i]));
        check_int(row.job.state, JOB_FAILED);
        check_int(row.run.error.type, ERROR_CRASH);
        check_slice(
            row.run.error.message,
            "Job interrupted: its worker s1 stopped responding (crash recovery); it "
            "had been running for 10 seconds when it was last heard of.");
        check(strstr(row.run.error.details.p, "\"cleanupReason\":\"owner_died\"") !=
              NULL);
        check(strstr(row.run.error.details.p, "\"previousOwner\":\"s1\"") != NULL);
        check_int(next.job.run_at, w.wall + 60 * US_PER_S);
        check_int(next.job.lane, LANE_RECOVERED);
        check_int(next.job.recovery_id, last_report(&w, RECOVERY_TAKEOVER).id);
    }
    check_int(w.engine->totals.work.reaped_owners, 1);
    check_settled(&w);
    world_close(&w);
}

TEST(the_death_of_one_owner_does_not_touch_another)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t theirs = enqueue_kind(&w, "crawl"), ours = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), theirs);
    check_int(claim_one(&w, "s2"), ours);
    pass_beating(&w, 3 * w.settings.lease_us, "s2");
    check_int(state_of(&w, theirs), JOB_FAILED);
    check_int(state_of(&w, ours), JOB_RUNNING);
    check_ok(complete(&w, "s2", ours));
    world_close(&w);
}

TEST(owners_that_die_together_are_taken_over_in_the_same_second)
{
    enum { SESSIONS = 20 };
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    enqueue_many(&w, job_of_kind("crawl"), SESSIONS);
    for (int i = 0; i < SESSIONS; i++) {
        char session[20];
        snprintf(session, sizeof(session), "session-%d", i);
        claim_many(&w, session, NULL, 1);
    }
    world_pass(&w, w.settings.lease_us);
    check_int(events_named(&w, "owner.died", NULL), SESSIONS);
    check_int(count_in(&w, JOB_RUNNING), 0);
    check_int(count_in(&w, JOB_FAILED), SESSIONS);
    world_close(&w);
}

TEST(a_worker_without_runs_dies_quietly)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    beat(&w, "s1");
    size_t reports = recovery_count(&w);
    world_pass(&w, w.settings.lease_us);
    check_int(session_row(&w, "s1").state, OWNER_DEAD);
    check_int(recovery_count(&w), reports);
    world_close(&w);
}

/* ---- nobody is judged too early ---- */

TEST(nobody_is_judged_before_one_lease_after_the_start)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t dead = enqueue_kind(&w, "crawl"), live = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), dead);
    check_int(claim_one(&w, "s2"), live);
    world_crash(&w);
    w.wall += 600 * US_PER_S; /* the server was away; nobody could beat */
    w.mono += 600 * US_PER_S;
    world_open(&w);
    world_pass(&w, w.settings.lease_us - US_PER_S);
    check_int(count_in(&w, JOB_RUNNING), 2);
    beat(&w, "s2");
    world_pass(&w, 2 * US_PER_S);
    check_int(state_of(&w, dead), JOB_FAILED);
    check_int(state_of(&w, live), JOB_RUNNING);
    check_ok(complete(&w, "s2", live));
    world_close(&w);
}

/* Two sessions have a run each; then the clocks move by these amounts, and s2
 * goes on beating. */
static void check_grace(int64_t wall_us, int64_t mono_us)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t dead = enqueue_kind(&w, "crawl"), live = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), dead);
    check_int(claim_one(&w, "s2"), live);
    world_pass(&w, 5 * US_PER_S);
    w.wall += wall_us;
    w.mono += mono_us;
    world_settle(&w); /* both leases are over by the clock */
    check_int(w.engine->totals.jumps, 1);
    check_int(count_in(&w, JOB_RUNNING), 2);
    world_pass(&w, w.settings.lease_us - US_PER_S);
    check_int(count_in(&w, JOB_RUNNING), 2);
    check_int(events_named(&w, "owner.died", NULL), 0);
    beat(&w, "s2");
    world_pass(&w, 2 * US_PER_S);
    check_int(state_of(&w, dead), JOB_FAILED);
    check_int(state_of(&w, live), JOB_RUNNING);
    world_close(&w);
}

TEST(after_a_suspend_everybody_gets_a_full_lease)
{
    check_grace(600 * US_PER_S, 0);
}

TEST(after_a_jump_of_the_clock_everybody_gets_a_full_lease)
{
    check_grace(45 * US_PER_S, US_PER_S);
}

TEST(after_the_process_was_stopped_everybody_gets_a_full_lease)
{
    check_grace(100 * US_PER_S, 100 * US_PER_S);
}

TEST(a_small_step_of_the_clock_changes_nothing)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    w.wall += 9 * US_PER_S; /* less than a third of a lease */
    world_settle(&w);
    check_int(w.engine->totals.jumps, 0);
    world_pass(&w, w.settings.lease_us - 9 * US_PER_S);
    check_int(state_of(&w, id), JOB_FAILED);
    world_close(&w);
}

/* Nothing wakes the engine but its own duties, each a moment late. */
static void sleep_as_planned(struct world *w, int64_t us)
{
    for (int64_t until = w->wall + us; w->wall < until;) {
        int64_t due = engine_tick(w->engine);
        int64_t step = (due > w->wall ? due - w->wall : 0) + US_PER_MS;
        w->wall += step;
        w->mono += step;
    }
}

TEST(the_shortest_lease_runs_out_on_an_idle_server_too)
{
    struct world w;
    world_init(&w);
    w.settings.lease_us = LEAST_LEASE_MS * US_PER_MS;
    open_and_wait(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    uint64_t before = w.engine->totals.jumps;
    sleep_as_planned(&w, 4 * w.settings.lease_us);
    check_int(w.engine->totals.jumps, before);
    check_int(state_of(&w, id), JOB_FAILED);
    world_close(&w);
}

TEST(after_the_clock_was_set_back_life_goes_on)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t dead = enqueue_kind(&w, "crawl"), live = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), dead);
    check_int(claim_one(&w, "s2"), live);
    struct new_job job = job_of_kind("crawl");
    job.delay_us = 60 * US_PER_S;
    int64_t later = enqueue(&w, job), before = engine_now(w.engine);
    w.wall -= 3600 * US_PER_S;
    for (int64_t passed = 0; passed < 300; passed += 5) {
        w.wall += 5 * US_PER_S;
        w.mono += 5 * US_PER_S;
        for (int i = 0; i < 20; i++)
            engine_tick(w.engine);
        beat(&w, "s2");
    }
    check(engine_now(w.engine) > before); /* never back */
    check(engine_now(w.engine) <
          before + 200 * US_PER_S);            /* but slower, to be caught up */
    check_int(state_of(&w, dead), JOB_FAILED); /* no ghost for an hour */
    check_int(state_of(&w, live), JOB_RUNNING);
    check_int(state_of(&w, later), JOB_QUEUED);
    w.wall += 2 * 3600 * US_PER_S; /* the wall has overtaken us */
    check_int(engine_now(w.engine), w.wall);
    world_close(&w);
}

/* ---- coming back ---- */

TEST(a_session_that_comes_back_is_a_new_owner)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    int64_t before = session_row(&w, "s1").id;
    world_pass(&w, w.settings.lease_us + US_PER_S);
    check_int(state_of(&w, id), JOB_FAILED);
    check_ok(
        beat_naming(&w, "s1", &id, 1, NULL, NULL)); /* a late beat names the old run */
    int64_t after = session_row(&w, "s1").id;
    check(after != before);
    check_int(owner_row(&w, before).state, OWNER_DEAD);
    check_int(owner_row(&w, after).state, OWNER_ALIVE);
    check_int(state_of(&w, id), JOB_FAILED); /* and does not bring it back */
    check_int(look(&w, id).run.owner_id, before);
    int64_t next = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), next);
    check_int(look(&w, next).run.owner_id, after);
    check_ok(complete(&w, "s1", next));
    world_close(&w);
}

TEST(a_session_that_comes_back_by_claiming_is_a_new_owner_too)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    beat(&w, "s1");
    int64_t before = session_row(&w, "s1").id, id = enqueue_kind(&w, "crawl");
    world_pass(&w, w.settings.lease_us + US_PER_S);
    check_int(claim_one(&w, "s1"), id);
    check(look(&w, id).run.owner_id != before);
    world_close(&w);
}

TEST(late_results_of_the_dead_are_refused_and_kept_as_events)
{
    struct world w;
    struct slice data = { 0 };
    world_init(&w);
    open_and_wait(&w);
    int64_t ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = enqueue_kind(&w, "crawl");
    claim_many(&w, "s1", NULL, 3);
    world_pass(&w, w.settings.lease_us + US_PER_S);
    int64_t retry = retry_of(&w, ids[0]);
    check_err(complete(&w, "s1", ids[0]), -HF_LATE);
    check_err(fail_run(&w, "s1", ids[1], ERROR_NETWORK, NULL), -HF_LATE);
    check_err(progress(&w, "s1", ids[2]), -HF_LATE);
    beat(&w, "s1"); /* also after it came back */
    check_err(complete(&w, "s1", ids[0]), -HF_LATE);
    for (int i = 0; i < 3; i++) {
        check_int(state_of(&w, ids[i]), JOB_FAILED);
        check_int(look(&w, ids[i]).run.error.type, ERROR_CRASH);
    }
    check_int(retry_of(&w, ids[0]), retry);
    check_int(events_of(&w, ids[0], "run.late_result", &data), 2);
    check(strstr(data.p, "ok") != NULL); /* what it brought */
    check_int(events_of(&w, ids[1], "run.late_result", NULL), 1);
    check_int(events_of(&w, ids[2], "run.late_result", NULL), 0);
    check_clean(&w);
    world_close(&w);
}

TEST(a_worker_whose_server_restarted_keeps_its_runs)
{
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    int64_t owner = session_row(&w, "s1").id;
    for (int i = 0; i < 3; i++) {
        restart(&w);
        check_int(reported(&w, "left"), 1);
        beat(&w, "s1");
        check_int(session_row(&w, "s1").id, owner);
        check_int(state_of(&w, id), JOB_RUNNING);
    }
    check_ok(complete(&w, "s1", id));
    world_close(&w);
}

/* ---- takeovers ---- */

TEST(a_takeover_that_a_crash_cut_short_is_finished_by_the_next_start)
{
    enum { RUNS = 700 };
    struct world w;
    world_init(&w);
    open_and_wait(&w);
    enqueue_many(&w, job_of_kind("crawl"), RUNS);
    claim_many(&w, "s1", NULL, RUNS);
    world_pass(&w, w.settings.lease_us - US_PER_S);
    w.wall += US_PER_S;
    w.mono += US_PER_S;
    for (int i = 0; i < 10 && count_in(&w, JOB_FAILED) == 0; i++)
        engine_tick(w.engine); /* judged, and the first chunk */
    size_t failed = count_in(&w, JOB_FAILED);
    check(failed > 0 && failed < RUNS);
    world_crash(&w);
    world_open(&w);
    check_int(count_in(&w, JOB_FAILED), RUNS);
    check_int(reported(&w, "runningFailed"), RUNS - (int64_t)failed);
    check_settled(&w);
    world_close(&w);
}

/* ---- nodes ---- */

TEST(a_node_that_stopped_in_order_is_stopped_and_one_that_crashed_is_dead)
{
    struct world w;
    struct event died = { 0 };
    world_init(&w);
    world_open(&w);
    int64_t first = w.engine->owner_id;
    check_slice(owner_row(&w, first).name, "node");
    check_slice(owner_row(&w, first).host, "host-a");
    /* On SQLite it holds the file and needs no lease. */
    check_int(owner_row(&w, first).lease_until,
              test_on_postgres() ? w.wall + w.settings.lease_us : 0);
    engine_close(w.engine);
    world_open(&w);
    int64_t second = w.engine->owner_id;
    check_int(owner_row(&w, first).state, OWNER_STOPPED);
    check_int(events_named(&w, "owner.died", NULL), 0);
    restart(&w);
    check_int(owner_row(&w, second).state, OWNER_DEAD);
    check_int(owner_row(&w, second).ended_at, w.wall);
    check_int(events_named(&w, "owner.died", &died), 1);
    check_int(died.owner_id, second);
    check_int(owner_row(&w, w.engine->owner_id).state, OWNER_ALIVE);
    world_close(&w);
}

TEST(a_name_that_comes_back_is_a_new_owner)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t before = w.engine->owner_id, id = enqueue_kind(&w, "crawl");
    w.capacity = 0;
    restart(&w);
    check(w.engine->owner_id != before);
    check_slice(owner_row(&w, w.engine->owner_id).name, "node");
    struct command *c = command_new(OP_COMPLETE); /* the old process, still alive? */
    c->complete.job_id = id;
    c->complete.owner_id = before;
    check_err(world_apply(&w, c), -HF_LATE);
    command_free(c);
    check_int(state_of(&w, id), JOB_FAILED);
    world_close(&w);
}

static int64_t owner_count(struct world *w)
{
    struct owner *owners = NULL;
    size_t live = 0;
    check_ok(store_owners(w->engine->store, false, &w->arena, &owners, &live));
    return (int64_t)live;
}

TEST(what_the_dead_have_counted_is_kept_and_their_rows_go_in_time)
{
    struct world w;
    struct owner gone;
    int64_t first = 0;
    world_init(&w);
    for (int i = 0; i < 5; i++) {
        world_open(&w);
        first = first ? first : w.engine->owner_id;
        enqueue_many(&w, job_of_kind("crawl"), 3);
        claim_many(&w, "s1", NULL, 1);
        if (i % 2)
            engine_close(w.engine);
        else
            world_crash(&w);
    }
    world_open(&w);
    const char *before = signature(&w);
    world_pass(&w, 20 * US_PER_S);
    check_same(signature(&w), before);
    world_pass(&w, 60 * US_PER_S); /* the workers are dead, too */
    w.wall += 31 * US_PER_DAY;
    w.mono += 31 * US_PER_DAY;
    world_pass(&w, 61 * US_PER_S);
    check_int(store_owner_get(w.engine->store, first, &w.arena, &gone), -HF_NOT_FOUND);
    check_int(owner_count(&w), 1); /* us */
    check_int(owner_row(&w, w.engine->owner_id).state, OWNER_ALIVE);
    check_clean(&w); /* every job is still counted */
    world_close(&w);
}
