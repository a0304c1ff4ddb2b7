/* SPDX-License-Identifier: Apache-2.0
 *
 * Endpoints in the engine: the request is read at the claim, each run is protected for
 * its own time, and how an endpoint fares is settled with the commit that decides it. */
#include "endpoints.h"
#include "heard.h"
#include "two.h"

/* ---- the claim ---- */

TEST(two_endpoints_in_one_claim_are_protected_each_for_its_own_time)
{
    struct world w;
    struct test_pile pile = { 0 };
    node_begin(&w);
    struct schedule_edit edit = new_endpoint("short", "{\"url\":\"http://a/short\"}");
    edit.set |= EDIT_MAX_RETRIES;
    edit.with.max_retries = 0;
    int64_t brief = schedule(&w, edit);
    edit = new_endpoint("long", "{\"url\":\"http://a/long\"}");
    edit.set |= EDIT_MAX_EXECUTION;
    edit.with.max_execution_us = 300 * US_PER_S;
    int64_t lengthy = schedule(&w, edit);
    pile_add(&pile, command_new(OP_TRIGGER))->trigger.id = brief;
    pile_add(&pile, command_new(OP_TRIGGER))->trigger.id = lengthy;
    pile_apply(&w, &pile);
    int64_t a = pile.list[0]->trigger.out_job_id, b = pile.list[1]->trigger.out_job_id;
    pile_free(&pile);

    check_int(given_count, 2); /* one claim took both */
    check_int(given[0].job_id, a);
    check_str(given[0].payload, "{\"url\":\"http://a/short\"}");
    check_int(given[0].deadline_at, w.wall + 60 * US_PER_S);
    check_str(given[1].payload, "{\"url\":\"http://a/long\"}");
    check_int(given[1].deadline_at, w.wall + 300 * US_PER_S);
    check_int(look(&w, a).run.deadline_at, w.wall + 60 * US_PER_S);
    check_int(look(&w, b).run.deadline_at, w.wall + 300 * US_PER_S);
    /* each is stopped at its own time, and not started a second time before */
    world_pass(&w, 59 * US_PER_S);
    check_int(w.stop_count, 0);
    world_pass(&w, 2 * US_PER_S);
    check_int(w.stop_count, 1);
    check_int(w.stops[0].job_id, a);
    check_ok(end_badly(&w, a, ERROR_TIMEOUT, NULL));
    world_pass(&w, 30 * US_PER_S);
    check_int(state_of(&w, b), JOB_RUNNING);
    bool made = true;
    check_int(trigger(&w, lengthy, &made), b);
    check(!made && given_count == 2);
    world_pass(&w, 208 * US_PER_S);
    check_int(w.stop_count, 1);
    world_pass(&w, 3 * US_PER_S);
    check_int(w.stops[1].job_id, b);
    world_end(&w);
}

TEST(a_job_of_an_endpoint_carries_its_id_and_is_given_the_request_of_the_moment)
{
    struct world w;
    node_begin(&w);
    int64_t id = schedule(&w, new_endpoint("e", "{\"url\":\"http://a/1\"}"));
    engine_set_capacity(w.engine, 0);
    int64_t job = run_now(&w, id);
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_REQUEST;
    edit.request = SLICE("{\"method\":\"PUT\"}");
    schedule(&w, edit);
    engine_set_capacity(w.engine, 10);
    world_settle(&w);
    check_int(given_count, 1);
    check_int(given[0].endpoint_id, id);
    check_str(given[0].payload, "{\"url\":\"http://a/1\",\"method\":\"PUT\"}");
    char payload[64];
    snprintf(payload, sizeof(payload), "{\"endpointId\":\"%lld\"}", (long long)id);
    check_slice(look(&w, job).job.payload, payload);
    check_int(endpoint_row(&w, id).last_started_at, w.wall);
    world_end(&w);
}

TEST(a_job_whose_endpoint_was_deleted_has_no_request)
{
    struct world w;
    node_begin(&w);
    int64_t id = schedule(&w, new_endpoint("e", "{\"url\":\"http://a\"}"));
    engine_set_capacity(w.engine, 0);
    int64_t job = run_now(&w, id);
    check_ok(drop_schedule(&w, id));
    engine_set_capacity(w.engine, 10);
    world_settle(&w);
    check_int(given_count, 1);
    check_int(given[0].endpoint_id, 0);
    check(http_payload_endpoint(slice_of(given[0].payload)) == id); /* exec fails it */
    check_ok(end_badly(&w, job, ERROR_PERMANENT, NULL));
    check_int(look(&w, job).job.retry_reason, REASON_PERMANENT);
    struct endpoint e;
    check_err(store_endpoint_get(w.engine->store, id, &w.arena, &e), -HF_NOT_FOUND);
    world_end(&w);
}

/* ---- how it fares ---- */

TEST(failures_in_a_row_are_counted_until_it_recovers)
{
    struct world w;
    node_begin(&w);
    struct schedule_edit edit = new_endpoint("e", "{\"url\":\"http://a\"}");
    edit.set |= EDIT_MAX_RETRIES;
    edit.with.max_retries = 0;
    int64_t id = schedule(&w, edit);
    for (int i = 1; i <= 3; i++) {
        int64_t job = run_now(&w, id);
        world_pass(&w, 10 * US_PER_S);
        check_ok(end_badly(&w, job, ERROR_OTHER, "{\"status\":500}"));
        check_int(endpoint_row(&w, id).failures_in_row, i);
        check_int(events_of(&w, job, "endpoint.failed", NULL), i == 1);
    }
    struct endpoint e = endpoint_row(&w, id);
    check_int(e.run_count, 3);
    check_int(e.failure_count, 3);
    check_int(e.last_status, 500);
    check_slice(e.last_error, "it was answered with 500");
    check_int(e.last_error_at, w.wall);
    int64_t job = run_now(&w, id);
    check_ok(end_well(&w, job, "{\"status\":204,\"durationMs\":3}"));
    struct slice told = { 0 };
    check_int(events_of(&w, job, "endpoint.recovered", &told), 1);
    check_has(told, "\"failuresInRow\":3");
    e = endpoint_row(&w, id);
    check_int(e.failures_in_row, 0);
    check_int(e.run_count, 4);
    check_int(e.failure_count, 3);
    check_int(e.last_status, 204);
    check(e.last_error.p != NULL); /* what it was stays */
    job = run_now(&w, id);
    check_ok(end_well(&w, job, "{\"status\":200}"));
    check_int(events_of(&w, job, "endpoint.recovered", NULL), 0);
    world_end(&w);
}

TEST(what_was_cancelled_or_interrupted_is_no_failure)
{
    struct world w;
    node_begin(&w);
    int64_t id = schedule(&w, new_endpoint("e", "{\"url\":\"http://a\"}"));
    int64_t job = run_now(&w, id);
    check_ok(cancel(&w, job));
    check_ok(end_badly(&w, job, ERROR_CANCELLED, NULL));
    check_int(state_of(&w, job), JOB_CANCELLED);
    job = run_now(&w, id);
    check_ok(end_badly(&w, job, ERROR_INTERRUPTED, NULL));
    struct endpoint e = endpoint_row(&w, id);
    check_int(e.run_count, 0);
    check_int(e.failures_in_row, 0);
    check_int(e.last_finished_at, w.wall);
    check_int(events_of(&w, 0, "endpoint.failed", NULL), 0);
    world_end(&w);
}

TEST(a_start_within_5_seconds_of_the_last_one_is_told)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    w.kinds[0] = "http";
    w.kind_count = 1;
    w.capacity = 10;
    w.log = &heard.log;
    world_open(&w);
    int64_t id = schedule(&w, new_endpoint("e", "{\"url\":\"http://a\"}"));
    static const struct {
        int64_t after_us;
        int told;
    } starts[] = { { 0, 0 }, { 4999 * US_PER_MS, 1 }, { 5000 * US_PER_MS, 0 } };
    for (size_t i = 0; i < array_len(starts); i++) {
        world_pass(&w, starts[i].after_us);
        int64_t job = run_now(&w, id);
        check_int(events_of(&w, job, "endpoint.duplicate_start", NULL), starts[i].told);
        check_ok(end_well(&w, job, "{\"status\":200}"));
    }
    /* a retry that comes at once, too */
    world_pass(&w, 60 * US_PER_S);
    int64_t job = run_now(&w, id);
    check_ok(end_badly(&w, job, ERROR_INTERRUPTED, NULL));
    check_int(events_of(&w, retry_of(&w, job), "endpoint.duplicate_start", NULL), 1);
    check_int(w.engine->totals.work.duplicate_starts, 2);
    check_int(heard_lines(&w, &heard, "warn endpoint_duplicate_start endpoint=", NULL),
              2);
    check_ok(end_well(&w, retry_of(&w, job), "{\"status\":200}"));
    world_end(&w);
    buf_release(&heard.text);
}

TEST(a_pile_that_is_applied_again_counts_once)
{
    struct world w;
    struct test_pile pile = { 0 };
    node_begin(&w);
    int64_t id = schedule(&w, new_endpoint("e", "{\"url\":\"http://a\"}"));
    int64_t job = run_now(&w, id);
    uint64_t before = w.engine->totals.second_passes;
    for (int i = 0; i < 2; i++) { /* the same run twice: one by one, then */
        struct command *c = pile_add(&pile, command_new(OP_COMPLETE));
        c->complete.job_id = job;
        c->complete.owner_id = w.engine->owner_id;
        c->complete.result = SLICE("{\"status\":200}");
    }
    pile_apply(&w, &pile);
    check_int(pile.list[0]->result, 0);
    check_int(pile.list[1]->result, -HF_LATE);
    pile_free(&pile);
    check_int(w.engine->totals.second_passes, before + 1);
    check_int(endpoint_row(&w, id).run_count, 1);
    world_end(&w);
}

TEST(what_the_store_refuses_is_not_counted)
{
    struct world w;
    struct test_pile pile = { 0 };
    int64_t ids[2], jobs[2];
    node_begin(&w);
    for (int i = 0; i < 2; i++) {
        ids[i] = schedule(&w, new_endpoint(i ? "b" : "a", "{\"url\":\"http://a\"}"));
        jobs[i] = run_now(&w, ids[i]);
    }
    run_sql(&w, "CREATE UNIQUE INDEX once ON runs (error_class) "
                "WHERE error_class = 'once'");
    for (int i = 0; i < 2; i++) {
        struct command *c =
            pile_add(&pile, make_fail(NULL, jobs[i], ERROR_OTHER, "once"));
        c->fail.owner_id = w.engine->owner_id;
    }
    pile_apply(&w, &pile);
    check_int(pile.list[0]->result, 0);
    check_int(pile.list[1]->result, -HF_CONFLICT);
    pile_free(&pile);
    check_int(endpoint_row(&w, ids[0]).failures_in_row, 1);
    check_int(endpoint_row(&w, ids[1]).failures_in_row, 0);
    check_int(state_of(&w, jobs[1]), JOB_RUNNING);
    run_sql(&w, "DROP INDEX once");
    check_ok(end_well(&w, jobs[1], "{\"status\":200}"));
    check_int(endpoint_row(&w, ids[1]).run_count, 1);
    world_end(&w);
}

/* ---- crashes ---- */

TEST(when_the_node_dies_the_retry_waits_until_the_time_of_the_run_is_over)
{
    struct world w;
    node_begin(&w);
    struct schedule_edit edit = new_endpoint("e", "{\"url\":\"http://a\"}");
    edit.set |= EDIT_MAX_EXECUTION | EDIT_RETRY_DELAYS;
    edit.with.max_execution_us = 600 * US_PER_S;
    edit.with.retry_delays = SLICE("1");
    int64_t id = schedule(&w, edit);
    int64_t job = run_now(&w, id);
    int64_t deadline = look(&w, job).run.deadline_at;
    world_pass(&w, 20 * US_PER_S);
    restart(&w);
    check_int(state_of(&w, job), JOB_FAILED);
    check_int(look(&w, job).run.error.type, ERROR_CRASH);
    int64_t retry = retry_of(&w, job);
    check_int(look(&w, retry).job.run_at, deadline);
    world_pass(&w, deadline - w.wall - US_PER_S);
    check_int(given_count, 0);
    check_int(endpoint_row(&w, id).failures_in_row, 1);
    world_pass(&w, 3 * US_PER_S);
    check_int(given_count, 1);
    check_int(given[0].job_id, retry);
    check_ok(end_well(&w, retry, "{\"status\":200}"));
    /* one that has a longer delay anyway keeps it; and a plain http job is as it was */
    struct new_job plain = job_of_kind("http");
    plain.payload = SLICE("{\"url\":\"http://a\"}");
    plain.max_execution_us = 600 * US_PER_S;
    plain.retry_delays = SLICE("1");
    job = enqueue(&w, plain);
    restart(&w);
    check_int(look(&w, retry_of(&w, job)).job.run_at, w.wall + US_PER_S);
    check_clean(&w);
    world_close(&w);
}

TEST(without_a_retry_the_next_fire_waits_for_that)
{
    struct world w;
    node_begin(&w);
    struct schedule_edit edit = new_endpoint("e", "{\"url\":\"http://a\"}");
    edit.set |= EDIT_MAX_EXECUTION | EDIT_MAX_RETRIES | EDIT_EVERY;
    edit.with.max_execution_us = 600 * US_PER_S;
    edit.with.max_retries = 0;
    edit.with.every_us = 60 * US_PER_S;
    int64_t id = schedule(&w, edit);
    world_pass(&w, 61 * US_PER_S);
    check_int(given_count, 1);
    int64_t job = given[0].job_id, deadline = given[0].deadline_at;
    restart(&w);
    check_int(state_of(&w, job), JOB_FAILED);
    check_int(retry_of(&w, job), 0);
    struct schedule s = schedule_of(&w, id);
    check_int(s.paused, PAUSED_ITSELF);
    check_int(s.paused_until, deadline);
    check_has(s.paused_reason, "may still be at work");
    check_int(events_of(&w, 0, "schedule.paused", NULL), 1);
    world_pass(&w, deadline - w.wall - US_PER_S);
    check_int(given_count, 0);
    world_pass(&w, 62 * US_PER_S);
    check_int(given_count, 1); /* and it goes on by itself */
    check_int(schedule_of(&w, id).paused, 0);
    check_account(&w, id);
    /* whoever lets runs overlap wants each of them */
    edit = edit_of(id);
    edit.set = EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    schedule(&w, edit);
    restart(&w);
    check_int(schedule_of(&w, id).paused, 0);
    world_pass(&w, 61 * US_PER_S);
    check_int(given_count, 1);
    check_clean(&w);
    world_close(&w);
}

TEST(locks_are_told_when_they_are_taken_extended_released_and_expired)
{
    struct world w;
    struct heard heard;
    const char *line = NULL;
    heard_init(&heard);
    world_init(&w);
    w.kinds[0] = "http";
    w.kind_count = 1;
    w.capacity = 10;
    w.log = &heard.log;
    world_open(&w);
    int64_t id = schedule(&w, new_endpoint("e", "{\"url\":\"http://a\"}"));
    int64_t job = run_now(&w, id);
    char want[128];
    snprintf(want, sizeof(want),
             "info lock_taken endpoint=%lld job=%lld run=%lld owner=%lld", (long long)id,
             (long long)job, (long long)job, (long long)w.engine->owner_id);
    check_int(heard_lines(&w, &heard, want, &line), 1);
    check(strstr(line, "until=20"));
    world_pass(&w, 25 * US_PER_S); /* two beats and more */
    check(heard_lines(&w, &heard, "info lock_extended runs=1 owner=", NULL) >= 2);
    check_ok(end_well(&w, job, "{\"status\":200}"));
    check_int(heard_lines(&w, &heard, "info lock_released endpoint=", NULL), 1);
    job = run_now(&w, id);
    world_pass(&w, 61 * US_PER_S);
    check_ok(end_badly(&w, job, ERROR_TIMEOUT, NULL));
    check_int(heard_lines(&w, &heard, "info lock_expired endpoint=", NULL), 1);
    const struct engine_work *work = &w.engine->totals.work;
    check_int(work->claims, 2);
    check_int(work->completions + work->locks_released, 1);
    check_int(work->locks_expired, 1);
    check(work->locks_extended >= 4);
    /* the owner's death ends it too */
    world_pass(&w, 60 * US_PER_S);
    int64_t retry = retry_of(&w, job);
    check_int(state_of(&w, retry), JOB_RUNNING);
    world_crash(&w);
    world_open(&w);
    check_int(heard_lines(&w, &heard, "info lock_expired endpoint=", NULL), 2);
    check_clean(&w);
    world_close(&w);
    buf_release(&heard.text);
}

TEST(two_nodes_that_run_one_endpoint_count_together)
{
    struct two two;
    if (!test_on_postgres())
        return;
    two_init(&two);
    struct world *both[] = { &two.a, &two.b };
    for (int i = 0; i < 2; i++) {
        both[i]->kinds[0] = "http";
        both[i]->kind_count = 1;
        both[i]->capacity = i == 0 ? 1 : 10;
        two_open(both[i]);
    }
    struct schedule_edit edit = new_endpoint("e", "{\"url\":\"http://a\"}");
    edit.set |= EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    int64_t id = schedule(&two.a, edit);
    int64_t jobs[4];
    for (int i = 0; i < 4; i++)
        jobs[i] = run_now(&two.a, id);
    two_pass(&two, 2 * US_PER_S);
    int ended[2] = { 0, 0 };
    for (int i = 0; i < 4; i++) {
        check_int(state_of(&two.a, jobs[i]), JOB_RUNNING);
        int at = look(&two.a, jobs[i]).run.owner_id == two.b.engine->owner_id;
        ended[at]++;
        check_ok(i == 3 ? end_well(both[at], jobs[i], "{\"status\":200}")
                        : end_badly(both[at], jobs[i], ERROR_PERMANENT, NULL));
    }
    check(ended[0] == 1 && ended[1] == 3);
    struct endpoint e = endpoint_row(&two.a, id);
    check_int(e.run_count, 4);
    check_int(e.failure_count, 3);
    check_int(e.failures_in_row, 0);
    check_int(events_of(&two.a, 0, "endpoint.failed", NULL), 1);
    check_int(events_of(&two.a, 0, "endpoint.recovered", NULL), 1);
    check_clean(&two.a);
    world_close(&two.b);
    world_close(&two.a);
}
