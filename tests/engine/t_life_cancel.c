/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job, changed by people: cancel in every state, change of what
 * waits, and what happens to reports that come too late. */
#include "acts.h"

static int64_t start_one(struct world *w)
{
    int64_t id = enqueue_kind(w, "crawl");
    check_ok(act(w, make_claim_of("s1", id)));
    return id;
}

/* ---- cancel ---- */

static void check_cancelled(struct world *w, int64_t id, const char *reason,
                            bool was_running)
{
    struct job_row row = look(w, id);
    struct slice data = { 0 };
    check_int(row.job.state, JOB_CANCELLED);
    check_int(row.job.finished_at, w->wall);
    check_slice(row.job.cancel_reason, reason);
    check_int(row.job.retry_state, RETRY_NONE);
    check_int(row.run.job_id != 0, was_running);
    if (was_running) {
        check_int(row.run.outcome, JOB_CANCELLED);
        check_int(row.run.error.type, ERROR_CANCELLED);
        check_slice(row.run.error.message, reason);
    }
    check_int(events_of(w, id, "job.cancelled", &data), 1);
    check_has(data, reason);
    check_has(data, was_running ? "\"wasRunning\":true" : "\"wasRunning\":false");
    check_int(retry_of(w, id), 0);
}

TEST(a_waiting_job_is_cancelled_at_once_with_its_reason)
{
    struct world w;
    world_begin(&w);
    struct new_job later = job_of_kind("crawl");
    later.delay_us = US_PER_S;
    int64_t queued = enqueue_kind(&w, "crawl"), scheduled = enqueue(&w, later);
    check_ok(act(&w, make_cancel(queued, "a \"mistake\"")));
    check_ok(act(&w, make_cancel(scheduled, NULL)));
    check_int(state_of(&w, queued), JOB_CANCELLED);
    check_slice(look(&w, queued).job.cancel_reason, "a \"mistake\"");
    check_int(look(&w, queued).job.cancel_at, w.wall);
    check_cancelled(&w, scheduled, "Cancelled by request.", false);
    check_int(claim_one(&w, "s1"), 0);
    world_pass(&w, 2 * US_PER_S);
    check_int(claim_one(&w, "s1"), 0);
    check_ok(act(&w, make_cancel(scheduled, "again"))); /* it is what was wanted */
    check_slice(look(&w, scheduled).job.cancel_reason, "Cancelled by request.");
    check_int(events_of(&w, scheduled, "job.cancelled", NULL), 1);
    world_end(&w);
}

TEST(a_running_job_is_cancelling_until_its_owner_has_heard)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w);
    struct command *c = make_cancel(id, "enough");
    check_ok(world_apply(&w, c));
    check_int(c->cancel.out_state, JOB_CANCELLING);
    command_free(c);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_CANCELLING);
    check_int(row.job.cancel_at, w.wall);
    check_slice(row.job.cancel_reason, "enough");
    check_int(row.run.finished_at, 0);
    check_int(events_of(&w, id, "job.cancelling", NULL), 1);
    world_pass(&w, US_PER_S);
    check_ok(act(&w, make_cancel(id, "really"))); /* the first one's reason stays */
    check_slice(look(&w, id).job.cancel_reason, "enough");
    check_int(look(&w, id).job.cancel_at, w.wall - US_PER_S);
    check_int(events_of(&w, id, "job.cancelling", NULL), 1);
    check_ok(fail_run(&w, "s1", id, ERROR_CANCELLED, NULL));
    check_cancelled(&w, id, "enough", true);
    world_end(&w);
}

TEST(while_cancelling_a_completion_stands)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w);
    check_ok(act(&w, make_cancel(id, "enough")));
    check_ok(complete(&w, "s1", id));
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_COMPLETED);
    check_int(row.run.outcome, JOB_COMPLETED);
    check_int(row.run.error.type, ERROR_NONE);
    check_slice(row.run.result, "{\"ok\":true}");
    check_int(events_of(&w, id, "job.cancelled", NULL), 0);
    world_end(&w);
}

TEST(while_cancelling_a_failure_timeout_or_interruption_becomes_cancelled)
{
    static const int types[] = { ERROR_NETWORK,   ERROR_RATE_LIMIT,  ERROR_PARSE,
                                 ERROR_TIMEOUT,   ERROR_INTERRUPTED, ERROR_CANCELLED,
                                 ERROR_PERMANENT, ERROR_OTHER };
    struct world w;
    world_begin(&w);
    for (size_t i = 0; i < array_len(types); i++) {
        int64_t id = start_one(&w);
        check_ok(act(&w, make_cancel(id, "enough")));
        struct command *c = make_fail("s1", id, types[i], "SomeClass");
        check_ok(world_apply(&w, c));
        check_int(c->fail.out_state, JOB_CANCELLED);
        check_int(c->fail.out_retry_id, 0);
        command_free(c);
        check_cancelled(&w, id, "enough", true);
    }
    /* The deadline passes by itself; the worker beats, so it lives. */
    struct new_job brief = job_of_kind("crawl");
    brief.max_execution_us = 5 * US_PER_S;
    int64_t id = enqueue(&w, brief);
    world_pass(&w, 29 * US_PER_S); /* nobody is judged in the first lease */
    check_ok(act(&w, make_claim_of("s2", id)));
    check_ok(act(&w, make_cancel(id, "enough")));
    world_pass(&w, 5 * US_PER_S);
    check_cancelled(&w, id, "enough", true);
    world_end(&w);
}

TEST(while_cancelling_a_crash_is_a_failure_that_is_final)
{
    struct world w;
    world_begin(&w);
    int64_t reported = start_one(&w), died = start_one(&w);
    check_ok(act(&w, make_cancel(reported, "enough")));
    check_ok(act(&w, make_cancel(died, "enough")));
    check_ok(fail_run(&w, "s1", reported, ERROR_CRASH, NULL));
    world_pass(&w, 62 * US_PER_S); /* no beat: s1 is dead */
    for (int i = 0; i < 2; i++) {
        struct job_row row = look(&w, i ? died : reported);
        check_int(row.job.state, JOB_FAILED);
        check_int(row.job.retry_state, RETRY_FINAL);
        check_int(row.job.retry_reason, REASON_CANCELLED);
        check_int(row.run.outcome, JOB_FAILED);
        check_int(row.run.error.type, ERROR_CRASH);
        check_int(retry_of(&w, row.job.id), 0);
    }
    check_has(look(&w, died).run.error.message, "crash recovery");
    world_end(&w);
}

TEST(cancelling_what_has_ended_is_refused_with_what_it_is)
{
    struct world w;
    char sentence[200];
    world_begin(&w);
    int64_t completed = start_one(&w), failed = start_one(&w);
    check_ok(complete(&w, "s1", completed));
    check_ok(fail_run(&w, "s1", failed, ERROR_PERMANENT, NULL));
    check_err(cancel(&w, completed), -HF_CONFLICT);
    snprintf(sentence, sizeof(sentence),
             "Job %lld is completed; only a job that waits or runs can be cancelled.",
             (long long)completed);
    check_str(w.error.text, sentence);
    check_err(cancel(&w, failed), -HF_CONFLICT);
    check_sentence(&w, "is failed; only a job that waits or runs can be cancelled.");
    check_err(cancel(&w, 424242), -HF_NOT_FOUND);
    check_str(w.error.text, "There is no job 424242.");
    world_end(&w);
}

TEST(cancelling_a_failed_job_with_a_live_retry_names_the_retry)
{
    struct world w;
    char name[40];
    int64_t second = 0, third = 0;
    world_begin(&w);
    int64_t first = start_one(&w);
    check_ok(fail_run(&w, "s1", first, ERROR_INTERRUPTED, &second));
    snprintf(name, sizeof(name), "as job %lld, which is queued;", (long long)second);
    check_err(cancel(&w, first), -HF_CONFLICT);
    check_sentence(&w, name);
    check_ok(act(&w, make_claim_of("s1", second)));
    check_ok(fail_run(&w, "s1", second, ERROR_NETWORK, &third));
    snprintf(name, sizeof(name), "as job %lld, which is scheduled;", (long long)third);
    check_err(cancel(&w, first), -HF_CONFLICT); /* the one that lives, not the next */
    check_sentence(&w, name);
    check_ok(cancel(&w, third));
    check_err(cancel(&w, first), -HF_CONFLICT);
    check_sentence(&w, "only a job that waits or runs can be cancelled.");
    world_end(&w);
}

TEST(the_retry_is_named_also_within_the_pile_that_makes_it)
{
    struct world w;
    struct test_pile pile = { 0 };
    char name[40];
    world_begin(&w);
    int64_t id = start_one(&w);
    struct command *failed = pile_add(&pile, make_fail("s1", id, ERROR_NETWORK, "X"));
    struct command *refused = pile_add(&pile, make_cancel(id, "enough"));
    pile_apply(&w, &pile);
    check_ok(failed->result);
    check_err(refused->result, -HF_CONFLICT);
    snprintf(name, sizeof(name), "as job %lld,", (long long)failed->fail.out_retry_id);
    check_has(slice_of(refused->error.text), name);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_run_of_this_node_is_told_to_stop_once)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "work";
    w.kind_count = 1;
    w.capacity = 1;
    world_open(&w);
    int64_t id = enqueue_kind(&w, "work");
    check_ok(cancel(&w, id));
    check_ok(cancel(&w, id));
    check_int(w.stop_count, 1);
    check_int(w.stops[0].job_id, id);
    check_int(w.stops[0].type, ERROR_CANCELLED);
    world_end(&w);
}

/* ---- change ---- */

TEST(a_change_of_time_moves_a_job_between_queued_and_scheduled_and_not_in_line)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "crawl"), position = look(&w, id).job.position;
    world_pass(&w, US_PER_S);
    int64_t other = enqueue_kind(&w, "crawl");
    struct command *c = make_change(id, w.wall + 10 * US_PER_S, 0, NULL);
    check_ok(world_apply(&w, c));
    check_int(c->change.out_state, JOB_SCHEDULED);
    command_free(c);
    check_int(state_of(&w, id), JOB_SCHEDULED);
    check_int(look(&w, id).job.run_at, w.wall + 10 * US_PER_S);
    check_int(look(&w, id).job.position, position);
    check_int(count_of(&w, "default", COUNT_SCHEDULED), 1);

    check_ok(change(&w, id, w.wall, 0, NULL)); /* now */
    check_int(state_of(&w, id), JOB_QUEUED);
    check_ok(change(&w, id, w.wall + 5 * US_PER_S, 0, NULL));
    world_pass(&w, 5 * US_PER_S);
    check_int(state_of(&w, id), JOB_QUEUED); /* due by itself */
    check_int(look(&w, id).job.position, position);
    check_int(events_of(&w, id, "job.changed", NULL), 3);
    check_int(claim_one(&w, "s1"), id); /* still before the other */
    check_int(claim_one(&w, "s1"), other);
    world_end(&w);
}

TEST(a_change_of_priority_and_queue_holds_from_then_on)
{
    struct world w;
    world_begin(&w);
    int64_t first = enqueue_kind(&w, "crawl"), second = enqueue_kind(&w, "crawl");
    check_ok(change(&w, second, 0, 9, NULL));
    check_int(look(&w, second).job.priority, 9);
    check_int(claim_one(&w, "s1"), second);
    check_ok(change(&w, first, 0, 0, "fast"));
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 1);
    check_int(count_of(&w, "default", COUNT_QUEUED), 0);
    check_int(count_of(&w, "fast", COUNT_ACCEPTED), 1);
    check_int(count_of(&w, "fast", COUNT_QUEUED), 1);
    check_int(try_claim(&w, "s1", "default", 1, NULL), 0);
    int64_t id = 0;
    check_ok(change(&w, first, w.wall + US_PER_S, 2, "slow")); /* all three at once */
    check_int(count_of(&w, "slow", COUNT_SCHEDULED), 1);
    check_int(count_of(&w, "fast", COUNT_ACCEPTED), 0);
    world_pass(&w, US_PER_S);
    check_int(try_claim(&w, "s1", "slow", 1, &id), 1);
    check_int(id, first);
    check_int(look(&w, first).job.priority, 2);
    world_end(&w);
}

TEST(only_a_job_that_waits_can_be_changed)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w);
    static const char *const words[] = { "is running;", "is cancelling;",
                                         "is cancelled;" };
    for (size_t i = 0; i < array_len(words); i++) {
        check_err(change(&w, id, w.wall, 9, "other"), -HF_CONFLICT);
        check_sentence(&w, words[i]);
        check_sentence(&w, "only a job that waits can be changed.");
        check_int(look(&w, id).job.priority, 5);
        check_ok(i == 0   ? cancel(&w, id)
                 : i == 1 ? fail_run(&w, "s1", id, ERROR_OTHER, NULL)
                          : 0);
    }
    check_err(change(&w, 424242, 0, 9, NULL), -HF_NOT_FOUND);
    world_end(&w);
}

/* ---- too late ---- */

static void check_late(struct world *w, int64_t id, struct command *c,
                       const char *content)
{
    struct job_row was = look(w, id);
    struct slice data = { 0 };
    int before = events_of(w, id, "run.late_result", NULL);
    check_err(world_apply(w, c), -HF_LATE);
    command_free(c);
    check_int(events_of(w, id, "run.late_result", &data), before + 1);
    check_has(data, content);
    struct job_row is = look(w, id);
    check_int(is.job.state, was.job.state);
    check_int(is.job.finished_at, was.job.finished_at);
    check_int(is.job.retry_state, was.job.retry_state);
    check_int(is.run.finished_at, was.run.finished_at);
    check_int(is.run.outcome, was.run.outcome);
    check_int(is.run.error.type, was.run.error.type);
    check(slice_equal(is.run.result, was.run.result));
    check_int(retry_of(w, id) != 0, was.job.retry_state == RETRY_RETRIED);
}

TEST(a_late_report_is_refused_changes_nothing_and_is_kept_with_its_content)
{
    struct world w;
    world_begin(&w);
    int64_t completed = start_one(&w), failed = start_one(&w), cancelled = start_one(&w);
    check_ok(complete(&w, "s1", completed));
    check_ok(fail_run(&w, "s1", failed, ERROR_NETWORK, NULL));
    check_ok(cancel(&w, cancelled));
    check_ok(fail_run(&w, "s1", cancelled, ERROR_OTHER, NULL));
    const int64_t ids[] = { completed, failed, cancelled };
    for (size_t i = 0; i < array_len(ids); i++) {
        check_late(&w, ids[i], make_complete("s1", ids[i], "{\"rows\": 17}"),
                   "\"result\":{\"rows\": 17}");
        check_sentence(&w,
                       "This report comes too late and changes nothing; it is kept as "
                       "an event.");
        check_late(&w, ids[i], make_fail("s1", ids[i], ERROR_PARSE, "Late.Error"),
                   "\"errorType\":\"parse_error\",\"errorClass\":\"Late.Error\","
                   "\"message\":\"it broke\"");
    }
    check_int(w.engine->totals.work.late_results, 6);
    world_end(&w);
}

TEST(a_late_result_is_kept_whole_up_to_the_largest)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w);
    check_ok(complete(&w, "s1", id));
    char *text = arena_alloc(&w.arena, LIMIT_RESULT_BYTES + 1);
    check(text);
    memset(text, '7', LIMIT_RESULT_BYTES);
    check_late(&w, id, make_complete("s1", id, text), text);
    memset(text, '\x01', LIMIT_RESULT_BYTES); /* no JSON, and long when it is quoted */
    check_late(&w, id, make_complete("s1", id, text), "\"result\":\"\\u0001\\u0001");
    check_late(&w, id, make_complete("s1", id, NULL), "\"report\":\"complete\"");
    world_end(&w);
}

TEST(a_report_by_another_owner_is_refused_and_the_run_goes_on)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w);
    check_int(try_claim(&w, "s2", NULL, 1, NULL), 0); /* s2 is somebody, s3 is not */
    const char *const others[] = { "s2", "s3" };
    for (size_t i = 0; i < array_len(others); i++) {
        check_late(&w, id, make_complete(others[i], id, "\"mine\""),
                   "\"result\":\"mine\"");
        check_sentence(&w, "belongs to another owner");
        check_late(&w, id, make_fail(others[i], id, ERROR_OTHER, "Mine"), "Mine");
        check_sentence(&w, "belongs to another owner");
    }
    struct command *c = make_complete(NULL, id, "\"node\"");
    c->complete.owner_id = w.engine->owner_id;
    check_late(&w, id, c, "node");
    check_int(state_of(&w, id), JOB_RUNNING);
    check_ok(complete(&w, "s1", id));
    check_err(complete(&w, "s1", 424242), -HF_NOT_FOUND);
    check_sentence(&w, "There is no run 424242.");
    world_end(&w);
}

TEST(a_worker_that_was_judged_dead_reports_in_vain)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w);
    world_pass(&w, 62 * US_PER_S);
    check_int(state_of(&w, id), JOB_FAILED);
    int64_t retry = retry_of(&w, id);
    check(retry != 0);
    check_late(&w, id, make_complete("s1", id, "\"I was only slow\""), "I was only slow");
    check_int(retry_of(&w, id), retry);
    world_end(&w);
}

/* ---- events ---- */

TEST(the_ordinary_three_are_written_only_where_they_are_asked_for)
{
    for (int every = 0; every < 2; every++) {
        struct world w;
        world_init(&w);
        w.settings.event_level = every ? EVENTS_EVERY : EVENTS_NOTABLE;
        world_open(&w);
        int64_t id = start_one(&w), failed = start_one(&w);
        check_ok(complete(&w, "s1", id));
        check_ok(fail_run(&w, "s1", failed, ERROR_OTHER, NULL));
        check_int(events_of(&w, id, "job.enqueued", NULL), every);
        check_int(events_of(&w, id, "job.run.started", NULL), every);
        check_int(events_of(&w, id, "job.run.completed", NULL), every);
        check_int(events_of(&w, failed, "job.run.failed", NULL), 1);
        world_end(&w);
    }
}

TEST(an_event_is_written_with_what_it_tells_or_not_at_all)
{
    struct world w;
    world_begin(&w);
    int64_t waiting = enqueue_kind(&w, "crawl"), running = start_one(&w);
    run_sql(&w, "CREATE UNIQUE INDEX test_events ON events (type)");
    check_ok(cancel(&w, waiting)); /* the first of its type */
    int64_t second = enqueue_kind(&w, "crawl");
    check_err(cancel(&w, second), -HF_CONFLICT);
    check_int(state_of(&w, second), JOB_QUEUED);
    check_ok(fail_run(&w, "s1", running, ERROR_OTHER, NULL));
    running = start_one(&w);
    check_err(fail_run(&w, "s1", running, ERROR_OTHER, NULL), -HF_CONFLICT);
    check_int(state_of(&w, running), JOB_RUNNING);
    check_int(look(&w, running).run.finished_at, 0);
    check_int(retry_of(&w, running), 0);
    world_end(&w);
}
