/* SPDX-License-Identifier: Apache-2.0
 *
 * What people do to jobs and queues through the library, and how they look. */
#include <pthread.h>

#include "handle.h"

static int done(struct hf_run *run, void *arg)
{
    (void)run;
    (void)arg;
    return 0;
}

TEST(a_waiting_job_is_cancelled_at_once)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    struct hf_error error;
    int state = 0;

    check_ok(hf_cancel(hf, id, "changed my mind", &error, &state));
    check_int(state, HF_CANCELLED);
    struct hf_job *job = must_wait(hf, id, true);
    check_int(job->state, HF_CANCELLED);
    check_int(job->failure, HF_FAILURE_CANCELLED);
    check_str(job->failure_message, "changed my mind");
    hf_job_free(job);
    check_err(hf_cancel(hf, 987654, NULL, &error, &state), -HF_NOT_FOUND);
    check(strstr(error.text, "987654") != NULL);
    check_ok(hf_close(hf));
}

TEST(a_waiting_job_is_changed_and_another_is_not)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    int64_t id =
        must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .delay_ms = 100000 });
    struct hf_error error;
    int state = 0;

    check_ok(hf_change(
        hf, id, &(struct hf_change){ .priority = 2, .queue = "other", .run_at_us = 1 },
        &error, &state));
    check_int(state, HF_QUEUED);
    struct hf_job *job = must_get(hf, id);
    check_int(job->priority, 2);
    check_str(job->queue, "other");
    check_int(job->run_at_us, 1);
    check(job->position_us > job->created_at_us); /* no way to jump the queue */
    hf_job_free(job);
    check_err(hf_change(hf, id, &(struct hf_change){ .priority = 10 }, &error, &state),
              -HF_INVALID);
    check_str(error.field, "priority");
    check_err(hf_change(hf, id, &(struct hf_change){ .queue = "a b" }, &error, &state),
              -HF_INVALID);
    check_err(hf_change(hf, id, NULL, &error, &state), -HF_INVALID);
    check_ok(hf_cancel(hf, id, NULL, NULL, NULL));
    check_err(hf_change(hf, id, &(struct hf_change){ .priority = 1 }, &error, &state),
              -HF_CONFLICT);
    check_ok(hf_close(hf));
}

TEST(a_retry_by_hand_is_made_once_however_often_it_is_asked_for)
{
    struct hf *hf = open_scheduler(test_db_url(), "k", done, NULL);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .max_retries = 2 });
    int64_t first = 0, second = 0;
    struct hf_error error;

    check_ok(hf_cancel(hf, id, NULL, NULL, NULL));
    check_ok(hf_retry(hf, id, &error, &first));
    check_ok(hf_retry(hf, id, &error, &second));
    check(first != id);
    check_int(second, first);
    struct hf_job *job = must_get(hf, first);
    check_int(job->retry_of, id);
    check_int(job->attempt, 2);
    check_int(job->retries_left, 2);
    hf_job_free(job);
    check_ok(hf_start(hf, 1));
    job = must_wait(hf, id, true);
    check_int(job->id, first);
    check_int(job->state, HF_COMPLETED);
    hf_job_free(job);
    check_err(hf_retry(hf, 4242, &error, &first), -HF_NOT_FOUND);
    check_ok(hf_close(hf));
}

/* ---- queues ---- */

static struct hf_queue *queue_named(struct hf_queues *queues, const char *name)
{
    for (size_t i = 0; i < queues->count; i++)
        if (strcmp(queues->items[i]->name, name) == 0)
            return queues->items[i];
    fail("there is no queue %s", name);
}

TEST(nothing_of_a_paused_queue_is_started)
{
    struct hf *hf = open_scheduler(test_db_url(), "k", done, NULL);
    struct hf_queues *queues = NULL;
    struct hf_error error;

    check_ok(hf_pause(hf, "slow", "the disk is full", &error));
    check_ok(hf_start(hf, 2));
    int64_t held = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .queue = "slow" });
    int64_t free = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    hf_job_free(must_wait(hf, free, false));
    check_int(state_of(hf, held), HF_QUEUED);
    check_ok(hf_list_queues(hf, &error, &queues));
    check_int(queues->count, 2);
    check_str(queues->items[0]->name, "default"); /* by name */
    struct hf_queue *slow = queue_named(queues, "slow");
    check(slow->paused && slow->paused_at_us > 0);
    check_str(slow->paused_reason, "the disk is full");
    check_int(slow->jobs[HF_QUEUED], 1);
    check_int(queue_named(queues, "default")->jobs[HF_COMPLETED], 1);
    hf_queues_free(queues);
    check_ok(hf_resume(hf, "slow", &error));
    struct hf_job *job = must_wait(hf, held, false);
    check_int(job->state, HF_COMPLETED);
    hf_job_free(job);
    check_err(hf_pause(hf, "a b", NULL, &error), -HF_INVALID);
    check_ok(hf_close(hf));
}

TEST(a_queues_settings_apply_to_its_jobs)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_queue_settings settings;
    struct hf_queues *queues = NULL;
    struct hf_error error;

    hf_queue_settings_init(&settings);
    settings.max_retries = 9;
    settings.max_execution_ms = 5000;
    settings.retry_delays = "7";
    settings.on_crash = HF_CRASH_FAIL;
    settings.concurrency = 2;
    check_ok(hf_set_queue(hf, "q", &settings, &error));
    struct hf_job *job =
        must_get(hf, must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .queue = "q" }));
    check_int(job->max_retries, 9);
    check_int(job->max_execution_ms, 5000);
    check_str(job->retry_delays, "7");
    check_int(job->on_crash, HF_CRASH_FAIL);
    hf_job_free(job);
    check_ok(hf_list_queues(hf, &error, &queues));
    check_int(queues->items[0]->concurrency, 2);
    check_int(queues->items[0]->slots, -1);
    check_int(queues->items[0]->on_crash, HF_CRASH_FAIL);
    check_int(queues->items[0]->max_execution_ms, 5000);
    hf_queues_free(queues);

    hf_queue_settings_init(&settings);
    settings.on_crash = HF_CRASH_DEFAULT;
    settings.retry_delays = "";
    settings.max_retries = -1;
    check_ok(hf_set_queue(hf, "q", &settings, &error));
    job =
        must_get(hf, must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .queue = "q" }));
    check_int(job->max_retries, 3);
    check_int(job->max_execution_ms, 5000); /* unchanged */
    check_int(job->on_crash, HF_CRASH_RETRY);
    hf_job_free(job);
    settings.max_retries = 101;
    check_err(hf_set_queue(hf, "q", &settings, &error), -HF_INVALID);
    check_str(error.field, "maxRetries");
    settings.max_retries = -1;
    settings.max_execution_ms = 0;
    check_err(hf_set_queue(hf, "q", &settings, &error), -HF_INVALID);
    settings.max_execution_ms = HF_UNCHANGED;
    settings.on_crash = 9;
    check_err(hf_set_queue(hf, "q", &settings, &error), -HF_INVALID);
    settings.on_crash = HF_UNCHANGED;
    settings.retry_delays = "soon";
    check_err(hf_set_queue(hf, "q", &settings, &error), -HF_INVALID);
    check_ok(hf_close(hf));
}

TEST(projects_are_made_before_they_are_used)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_new_job job = { .kind = "k", .project = "shop", .unique_key = "1" };
    struct hf_error error;

    check_err(hf_enqueue(hf, &job, &error, NULL), -HF_NOT_FOUND);
    check_str(error.field, "project");
    check_ok(hf_create_project(hf, "shop", &error));
    check_err(hf_create_project(hf, "shop", &error), -HF_CONFLICT);
    check_err(hf_create_project(hf, "", &error), -HF_INVALID);
    struct hf_job *made = must_get(hf, must_enqueue(hf, &job));
    check_str(made->project, "shop");
    job.project = NULL; /* another project's keys are others */
    check(must_enqueue(hf, &job) != made->id);
    hf_job_free(made);
    check_ok(hf_close(hf));
}

/* ---- reservations ---- */

static void *let_go(void *arg)
{
    struct hold *held = arg;
    nap();
    sem_post(&held->go);
    return NULL;
}

TEST(a_reserved_queue_is_drained_and_then_stands_still)
{
    struct hold held;
    hold_init(&held);
    struct hf *hf = open_scheduler(test_db_url(), "k", hold_on, &held);
    struct hf_reservation mine, other;
    struct hf_error error;
    pthread_t thread;

    check_ok(hf_start(hf, 2));
    int64_t first = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .queue = "gpu" });
    must_pass(&held.running);
    check_err(hf_reserve(hf, "gpu", "me", 0, 50, &error, &mine), -HF_TIMEOUT);
    pthread_create(&thread, NULL, let_go, &held);
    check_ok(hf_reserve(hf, "gpu", "me", 60000, 30000, &error, &mine));
    check_int(mine.state, 3);
    check_int(state_of(hf, first), HF_COMPLETED); /* granted after it has drained */
    pthread_join(thread, NULL);
    int64_t second =
        must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .queue = "gpu" });
    check_err(hf_reserve(hf, "gpu", "you", 0, 50, &error, &other), -HF_TIMEOUT);
    check_int(state_of(hf, second), HF_QUEUED);
    check_err(hf_renew(hf, mine.id, "you", 0, &error, &other), -HF_CONFLICT);
    check_ok(hf_renew(hf, mine.id, "me", 120000, &error, &other));
    check(other.expires_at_us > mine.expires_at_us);
    check_ok(hf_release(hf, mine.id, "me", &error, &mine));
    check_int(mine.state, 4);
    check_err(hf_release(hf, mine.id, "me", &error, NULL), -HF_CONFLICT);
    check_err(hf_release(hf, 999999, NULL, &error, NULL), -HF_NOT_FOUND);
    must_pass(&held.running);
    sem_post(&held.go);
    hf_job_free(must_wait(hf, second, false));
    check_err(hf_reserve(hf, "gpu", NULL, 0, 0, &error, &mine), -HF_INVALID);
    check_err(hf_reserve(hf, "gpu", "me", 600001, 0, &error, &mine), -HF_INVALID);
    check_err(hf_reserve(hf, "gpu", "me", 0, -1, &error, &mine), -HF_INVALID);
    check_ok(hf_close(hf));
}

/* ---- looking ---- */

TEST(jobs_are_listed_in_pages_newest_first)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_filter filter = { .limit = 4 };
    struct hf_jobs *jobs = NULL;
    struct hf_error error;
    int64_t ids[10];

    for (int i = 0; i < 10; i++)
        ids[i] = must_enqueue(hf, &(struct hf_new_job){ .kind = i % 2 ? "odd" : "even",
                                                        .queue = i < 3 ? "a" : "b" });
    check_ok(hf_cancel(hf, ids[4], NULL, NULL, NULL));
    int seen = 0;
    do {
        check_ok(hf_list_jobs(hf, &filter, &error, &jobs));
        for (size_t i = 0; i < jobs->count; i++)
            check_int(jobs->items[i]->id, ids[9 - seen++]);
        filter.before = jobs->next;
        hf_jobs_free(jobs);
    } while (filter.before != 0);
    check_int(seen, 10);

    const struct {
        struct hf_filter filter;
        size_t count;
    } cases[] = {
        { { .queue = "a" }, 3 },          { { .queue = "b", .kind = "odd" }, 4 },
        { { .state = HF_CANCELLED }, 1 }, { { .state = HF_QUEUED }, 9 },
        { { .state = HF_RUNNING }, 0 },   { { .queue = "unheard-of" }, 0 },
        { { .kind = "unheard-of" }, 0 },  { { 0 }, 10 },
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        check_ok(hf_list_jobs(hf, &cases[i].filter, &error, &jobs));
        check_int(jobs->count, cases[i].count);
        hf_jobs_free(jobs);
    }
    check_ok(hf_list_jobs(hf, NULL, &error, &jobs));
    check_int(jobs->count, 10);
    hf_jobs_free(jobs);
    check_err(hf_list_jobs(hf, &(struct hf_filter){ .limit = 1001 }, &error, &jobs),
              -HF_INVALID);
    check_err(hf_list_jobs(hf, &(struct hf_filter){ .state = 8 }, &error, &jobs),
              -HF_INVALID);
    check_err(hf_list_jobs(hf, &(struct hf_filter){ .kind = "?" }, &error, &jobs),
              -HF_INVALID);
    check_ok(hf_close(hf));
}

static int fail_once(struct hf_run *run, void *arg)
{
    (void)arg;
    return run->attempt == 1 ? hf_fail(run, HF_FAILURE_OTHER, NULL, "no", NULL) : 0;
}

TEST(a_jobs_events_tell_its_story)
{
    struct hf *hf = open_scheduler(test_db_url(), "k", fail_once, NULL);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    struct hf_events *events = NULL;
    struct hf_error error;

    check_ok(hf_start(hf, 1));
    hf_job_free(must_wait(hf, id, true));
    check_ok(hf_list_events(hf, id, 0, 100, &error, &events));
    check(events->count >= 1);
    for (size_t i = 0; i < events->count; i++) {
        check_int(events->items[i]->job_id, id);
        check(events->items[i]->type && events->items[i]->data);
        check(events->items[i]->at_us > 0);
        if (i > 0)
            check(events->items[i]->id > events->items[i - 1]->id);
    }
    int64_t last = events->items[events->count - 1]->id;
    hf_events_free(events);
    check_ok(hf_list_events(hf, id, last, 100, &error, &events));
    check_int(events->count, 0);
    hf_events_free(events);
    check_ok(hf_list_events(hf, 0, 0, 1000, &error, &events));
    check(events->count >= 1);
    hf_events_free(events);
    check_err(hf_list_events(hf, id, 0, 0, &error, &events), -HF_INVALID);
    check_ok(hf_close(hf));
}

TEST(a_job_is_explained_in_plain_words)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .delay_ms = 60000 });
    struct hf_explanation *why = NULL;
    struct hf_error error;

    check_ok(hf_explain(hf, id, &error, &why));
    check_int(why->job_id, id);
    check_int(why->state, HF_SCHEDULED);
    check(why->count >= 1 && why->reasons[0]->until_us > 0);
    check_str(why->reasons[0]->code, "due_later");
    check_str(why->reasons[0]->text, why->summary);
    hf_explanation_free(why);
    hf_explanation_free(NULL);
    check_err(hf_explain(hf, id + 1000, &error, &why), -HF_NOT_FOUND);
    check(strstr(error.text, "There is no job"));
    check_err(hf_explain(hf, id, &error, NULL), -HF_INVALID);
    check_err(hf_explain(NULL, id, &error, &why), -HF_INVALID);
    check_ok(hf_close(hf));
}

TEST(a_large_payload_is_kept_byte_for_byte_and_left_out_of_lists)
{
    enum { BYTES = 100000 };
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_jobs *jobs = NULL;
    struct hf_error error;
    static char text[BYTES + 1];

    memset(text, 'x', BYTES);
    text[0] = text[BYTES - 1] = '"';
    text[BYTES] = '\0';
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .payload = text });
    struct hf_job *job = must_get(hf, id);
    check_str(job->payload, text);
    hf_job_free(job);
    check_ok(hf_list_jobs(hf, NULL, &error, &jobs));
    check(!jobs->items[0]->payload);
    hf_jobs_free(jobs);
    check_ok(hf_close(hf));
}

TEST(waiting_for_a_job_that_does_not_end_ends_by_itself)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    struct hf_job *job = NULL;
    struct hf_error error;

    int64_t start = test_monotonic_us();
    check_err(hf_wait(hf, id, 100, false, &error, &job), -HF_TIMEOUT);
    check(test_monotonic_us() - start >= 100 * US_PER_MS);
    check(error.text[0] && !job);
    check_err(hf_wait(hf, id, 0, false, &error, &job), -HF_TIMEOUT);
    check_err(hf_wait(hf, 31337, 1000, false, &error, &job), -HF_NOT_FOUND);
    check_err(hf_wait(hf, id, -2, false, &error, &job), -HF_INVALID);
    check_ok(hf_cancel(hf, id, NULL, NULL, NULL));
    check_ok(hf_wait(hf, id, 1000, true, &error, NULL)); /* the end is all I ask for */
    check_ok(hf_close(hf));
}
