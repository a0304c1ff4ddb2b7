/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers: what they are told, what they tell, and what becomes of it. */
#include <time.h>

#include "handle.h"

/* ---- outcomes ---- */

static int fail_in_detail(struct hf_run *run, void *arg)
{
    (void)arg;
    return hf_fail(run, HF_FAILURE_RATE_LIMIT, "TooMany", "slow down", "{\"limit\": 3}");
}

TEST(a_failure_is_kept_with_type_class_message_and_details)
{
    struct hf *hf = open_scheduler(test_db_url(), "k", fail_in_detail, NULL);
    int64_t id = must_enqueue(
        hf, &(struct hf_new_job){ .kind = "k", .max_retries = HF_NO_RETRIES });

    check_ok(hf_start(hf, 1));
    struct hf_job *job = must_wait(hf, id, true);
    check_int(job->state, HF_FAILED);
    check_int(job->failure, HF_FAILURE_RATE_LIMIT);
    check_str(job->failure_class, "TooMany");
    check_str(job->failure_message, "slow down");
    check_str(job->failure_details, "{\"limit\": 3}");
    check_int(job->retry_state, HF_RETRY_FINAL);
    check_str(job->retry_reason, "exhausted");
    hf_job_free(job);
    check_ok(hf_close(hf));
}

static int fail_badly(struct hf_run *run, void *arg)
{
    static char longest[6000];
    (void)arg;
    memset(longest, 'x', sizeof(longest) - 1);
    switch (run->payload[0]) {
    case '1': /* nothing said */
        return 42;
    case '2': /* an error of the library, handed on */
        return hf_succeed(run, "{not json");
    case '3':
        return hf_fail(run, (enum hf_failure)77, "\xff\xfe", longest, "{no json");
    default:
        hf_fail(run, HF_FAILURE_PERMANENT, NULL, NULL, NULL);
        return 0; /* a failure that was told counts */
    }
}

TEST(a_failure_that_is_badly_told_is_a_failure_all_the_same)
{
    struct hf *hf = open_scheduler(test_db_url(), "k", fail_badly, NULL);
    struct hf_job *jobs[5];
    char payload[2] = "0";

    check_ok(hf_start(hf, 2));
    for (int i = 1; i <= 4; i++) {
        payload[0] = (char)('0' + i);
        jobs[i] = must_wait(
            hf,
            must_enqueue(hf, &(struct hf_new_job){ .kind = "k",
                                                   .payload = payload,
                                                   .max_retries = HF_NO_RETRIES }),
            true);
        check_int(jobs[i]->state, HF_FAILED);
    }
    check_int(jobs[1]->failure, HF_FAILURE_OTHER);
    check_str(jobs[1]->failure_message, "The handler returned 42.");
    check(strstr(jobs[2]->failure_message, "invalid") != NULL);
    check(!jobs[2]->result);
    check_int(jobs[3]->failure, HF_FAILURE_OTHER);
    check_str(jobs[3]->failure_class, "??");
    check_int(strlen(jobs[3]->failure_message), 4096);
    check(!jobs[3]->failure_details);
    check_int(jobs[4]->failure, HF_FAILURE_PERMANENT);
    check_str(jobs[4]->retry_reason, "permanent");
    for (int i = 1; i <= 4; i++)
        hf_job_free(jobs[i]);
    check_ok(hf_close(hf));
}

static int fail_twice(struct hf_run *run, void *arg)
{
    atomic_int *calls = arg;
    atomic_fetch_add(calls, 1);
    if (run->attempt < 3)
        return hf_fail(run, HF_FAILURE_NETWORK, NULL, "not yet", NULL);
    check_int(run->retries_left, 1);
    return hf_succeed(run, NULL);
}

TEST(a_failed_job_has_a_retry_and_the_chain_is_followed_both_ways)
{
    atomic_int calls = 0;
    struct hf *hf = open_scheduler(test_db_url(), "k", fail_twice, &calls);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .payload = "7" });

    check_ok(hf_start(hf, 1));
    struct hf_job *last = must_wait(hf, id, true);
    check_int(last->state, HF_COMPLETED);
    check_int(last->attempt, 3);
    check_int(last->root_id, id);
    check_str(last->payload, "7");
    check(!last->result);
    struct hf_job *middle = must_get(hf, last->retry_of);
    struct hf_job *first = must_get(hf, middle->retry_of);
    check_int(first->id, id);
    check_int(first->state, HF_FAILED);
    check_int(first->retry_state, HF_RETRY_RETRIED);
    check_int(first->retried_by, middle->id);
    check_int(first->next_retry_at_us, middle->run_at_us);
    check_int(first->last_retry_at_us, middle->created_at_us);
    check_int(middle->retried_by, last->id);
    check_int(atomic_load(&calls), 3);
    /* Waiting for the first one itself ends with its own end. */
    struct hf_job *alone = must_wait(hf, id, false);
    check_int(alone->state, HF_FAILED);
    hf_job_free(alone);
    hf_job_free(first);
    hf_job_free(middle);
    hf_job_free(last);
    check_ok(hf_close(hf));
}

/* ---- while it runs ---- */

struct loop {
    sem_t running;
    enum hf_stop_reason why;
    bool succeed;
};

static int loop_until_told(struct hf_run *run, void *arg)
{
    struct loop *loop = arg;
    check_ok(hf_progress(run, 10, "begun"));
    check_ok(hf_progress(run, 40, NULL));
    check_ok(hf_progress(run, -1, "looping"));
    check_err(hf_progress(run, 101, NULL), -HF_INVALID);
    check_err(hf_progress(run, 1, "\xff"), -HF_INVALID);
    sem_post(&loop->running);
    while ((loop->why = hf_cancelled(run)) == HF_STOP_NONE)
        nap();
    return loop->succeed ? hf_succeed(run, "\"done\"") : 1;
}

struct progress {
    struct hf *hf;
    int64_t id;
};

static bool progress_is_seen(void *arg)
{
    struct progress *p = arg;
    struct hf_job *job = must_get(p->hf, p->id);
    bool seen = job->progress_percent == 40 && job->progress_text &&
                strcmp(job->progress_text, "looping") == 0;
    hf_job_free(job);
    return seen;
}

TEST(progress_is_seen_from_outside_and_a_cancel_from_inside)
{
    struct loop loop = { 0 };
    sem_init(&loop.running, 0, 0);
    struct hf *hf = open_scheduler(test_db_url(), "k", loop_until_told, &loop);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    int state = 0;

    check_ok(hf_start(hf, 1));
    must_pass(&loop.running);
    check(test_wait(progress_is_seen, &(struct progress){ hf, id }, PATIENCE_MS));
    check_ok(hf_cancel(hf, id, "not needed", NULL, &state));
    check_int(state, HF_CANCELLING);
    struct hf_job *job = must_wait(hf, id, true);
    check_int(loop.why, HF_STOP_CANCELLED);
    check_int(job->state, HF_CANCELLED);
    check_int(job->failure, HF_FAILURE_CANCELLED);
    check_str(job->cancel_reason, "not needed");
    check_str(job->progress_text, "looping");
    check_int(job->retried_by, 0);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

static int tell_and_return(struct hf_run *run, void *arg)
{
    (void)arg;
    for (int i = 0; i <= 100; i++)
        check_ok(hf_progress(run, i, i == 100 ? "last" : "almost"));
    return 0;
}

TEST(the_last_progress_is_written_before_the_outcome)
{
    struct hf *hf = open_scheduler(test_db_url(), "k", tell_and_return, NULL);
    check_ok(hf_start(hf, 1));
    for (int i = 0; i < 20; i++) {
        struct hf_job *job =
            must_wait(hf, must_enqueue(hf, &(struct hf_new_job){ .kind = "k" }), false);
        check_int(job->state, HF_COMPLETED);
        check_int(job->progress_percent, 100);
        check_str(job->progress_text, "last");
        hf_job_free(job);
    }
    check_ok(hf_close(hf));
}

TEST(a_handler_over_its_deadline_is_told_and_fails_as_timeout)
{
    struct loop loop = { .succeed = true };
    sem_init(&loop.running, 0, 0);
    struct hf *hf = open_scheduler(test_db_url(), "k", loop_until_told, &loop);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k",
                                                        .max_execution_ms = 50,
                                                        .max_retries = HF_NO_RETRIES });

    check_ok(hf_start(hf, 1));
    struct hf_job *job = must_wait(hf, id, true);
    check_int(loop.why, HF_STOP_TIMEOUT);
    check_int(job->state, HF_FAILED);
    check_int(job->failure, HF_FAILURE_TIMEOUT);
    check(!job->result); /* it came too late to count */
    hf_job_free(job);
    check_ok(hf_close(hf));
}

static bool is_overdue(void *arg)
{
    struct progress *p = arg;
    struct hf_job *job = must_get(p->hf, p->id);
    bool overdue = job->overdue;
    hf_job_free(job);
    return overdue;
}

TEST(a_handler_that_does_not_ask_is_shown_as_overdue)
{
    struct hold hold;
    hold_init(&hold);
    struct hf *hf = open_scheduler(test_db_url(), "k", hold_on, &hold);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k",
                                                        .max_execution_ms = 20,
                                                        .max_retries = HF_NO_RETRIES });

    check_ok(hf_start(hf, 1));
    must_pass(&hold.running);
    check(test_wait(is_overdue, &(struct progress){ hf, id }, PATIENCE_MS));
    check_int(state_of(hf, id), HF_RUNNING); /* nobody claims that it is over */
    sem_post(&hold.go);
    struct hf_job *job = must_wait(hf, id, false);
    check_int(job->failure, HF_FAILURE_TIMEOUT);
    check(!job->overdue);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

/* ---- how many at once ---- */

TEST(as_many_run_at_once_as_there_are_threads)
{
    struct hold hold;
    hold_init(&hold);
    struct hf *hf = open_scheduler(test_db_url(), "k", hold_on, &hold);
    int64_t ids[10];

    check_ok(hf_start(hf, 3));
    for (int i = 0; i < 10; i++)
        ids[i] = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    for (int i = 0; i < 3; i++)
        must_pass(&hold.running);
    struct hf_queues *queues = NULL;
    check_ok(hf_list_queues(hf, NULL, &queues));
    check_int(queues->items[0]->jobs[HF_RUNNING], 3);
    check_int(queues->items[0]->jobs[HF_QUEUED], 7);
    hf_queues_free(queues);
    check_int(atomic_load(&hold.calls), 3);
    for (int i = 0; i < 10; i++)
        sem_post(&hold.go);
    for (int i = 0; i < 10; i++) {
        struct hf_job *job = must_wait(hf, ids[i], false);
        check_int(job->state, HF_COMPLETED);
        hf_job_free(job);
    }
    check_ok(hf_close(hf));
}

/* They are claimed together; not one may wait for another's handler. */
TEST(jobs_that_come_in_one_pile_are_all_begun_at_once)
{
    enum { JOBS = 8 };
    struct hold hold;
    hold_init(&hold);
    struct hf *hf = open_scheduler(test_db_url(), "k", hold_on, &hold);
    struct hf_new_job jobs[JOBS];
    struct hf_enqueued made[JOBS];

    for (int i = 0; i < JOBS; i++)
        jobs[i] = (struct hf_new_job){ .kind = "k" };
    check_ok(hf_start(hf, JOBS));
    check_ok(hf_enqueue_batch(hf, jobs, JOBS, NULL, NULL, made));
    for (int i = 0; i < JOBS; i++)
        must_pass(&hold.running);
    for (int i = 0; i < JOBS; i++)
        sem_post(&hold.go);
    for (int i = 0; i < JOBS; i++) {
        struct hf_job *job = must_wait(hf, made[i].id, false);
        check_int(job->state, HF_COMPLETED);
        hf_job_free(job);
    }
    check_ok(hf_close(hf));
}

static int count_call(struct hf_run *run, void *arg)
{
    (void)run;
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

TEST(a_thousand_jobs_are_executed_once_each)
{
    enum { JOBS = 1000 };
    atomic_int calls = 0;
    struct hf_options options = options_for(test_db_url());
    struct hf_handler handler = { "k", count_call, &calls };
    struct hf_new_job jobs[JOBS];
    static struct hf_enqueued made[JOBS];

    options.handlers = &handler;
    options.handler_count = 1;
    options.log = NULL;
    struct hf *hf = open_with(&options);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (struct hf_new_job){ .kind = "k" };
    check_ok(hf_start(hf, 8));
    check_ok(hf_enqueue_batch(hf, jobs, JOBS, NULL, NULL, made));
    for (int i = 0; i < JOBS; i++) {
        struct hf_job *job = must_wait(hf, made[i].id, false);
        check_int(job->state, HF_COMPLETED);
        hf_job_free(job);
    }
    check_int(atomic_load(&calls), JOBS);
    check_ok(hf_close(hf));
}

static int enqueue_more(struct hf_run *run, void *arg)
{
    int64_t *next = arg;
    struct hf_enqueued made;
    if (run->payload[0] == '0')
        return 0;
    int r = hf_enqueue(run->hf, &(struct hf_new_job){ .kind = "k", .payload = "0" }, NULL,
                       &made);
    *next = made.id;
    check_err(hf_close(run->hf), -HF_INVALID); /* a handler would wait for itself */
    check_err(hf_run(run->hf, 1), -HF_INVALID);
    return r;
}

TEST(a_handler_may_enqueue_but_not_close)
{
    int64_t next = 0;
    struct hf *hf = open_scheduler(test_db_url(), "k", enqueue_more, &next);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .payload = "1" });

    check_ok(hf_start(hf, 1));
    hf_job_free(must_wait(hf, id, false));
    struct hf_job *job = must_wait(hf, next, false);
    check_int(job->state, HF_COMPLETED);
    hf_job_free(job);
    check_ok(hf_close(hf));
}
