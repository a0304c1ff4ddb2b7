/* SPDX-License-Identifier: Apache-2.0
 *
 * The library as an embedding program sees it: enqueue, execute, outcome. */
#include <pthread.h>

#include "handle.h"

static int echo(struct hf_run *run, void *arg)
{
    (void)arg;
    return hf_succeed(run, run->payload);
}

TEST(an_enqueued_job_is_executed_and_its_result_is_kept)
{
    struct hf *hf = open_scheduler(test_db_url(), "echo", echo, NULL);
    int64_t id = must_enqueue(
        hf, &(struct hf_new_job){ .kind = "echo", .payload = "{\"a\": [1, 2.50]}" });

    check_int(state_of(hf, id), HF_QUEUED);
    check_ok(hf_start(hf, 2));
    struct hf_job *job = must_wait(hf, id, false);
    check_int(job->state, HF_COMPLETED);
    check_str(job->result, "{\"a\": [1, 2.50]}"); /* byte for byte */
    check_str(job->payload, "{\"a\": [1, 2.50]}");
    check_int(job->attempt, 1);
    check(job->started_at_us >= job->created_at_us);
    check(job->finished_at_us >= job->started_at_us);
    check(job->owner_id > 0 && job->owner);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

TEST(a_job_shows_what_it_was_given)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    int64_t id =
        must_enqueue(hf, &(struct hf_new_job){ .kind = "k",
                                               .queue = "q",
                                               .payload = "[]",
                                               .metadata = "{\"customer\": \"7\"}",
                                               .unique_key = "source 1",
                                               .external_id = "mine",
                                               .priority = 9,
                                               .delay_ms = 3600 * 1000,
                                               .max_retries = 7,
                                               .retry_delays = "1,2",
                                               .max_execution_ms = 1234,
                                               .on_crash = HF_CRASH_FAIL });
    struct hf_job *job = must_get(hf, id);

    check_int(job->id, id);
    check_int(job->root_id, id);
    check_str(job->project, "default");
    check_str(job->queue, "q");
    check_str(job->kind, "k");
    check_int(job->state, HF_SCHEDULED);
    check_str(job->payload, "[]");
    check_str(job->metadata, "{\"customer\": \"7\"}");
    check_str(job->unique_key, "source 1");
    check_str(job->external_id, "mine");
    check_int(job->priority, 9);
    check_int(job->run_at_us - job->created_at_us, INT64_C(3600000000));
    check_int(job->max_retries, 7);
    check_int(job->retries_left, 7);
    check_str(job->retry_delays, "1,2");
    check_int(job->max_execution_ms, 1234);
    check_int(job->on_crash, HF_CRASH_FAIL);
    check_int(job->retry_state, HF_RETRY_NONE);
    check(!job->result && !job->failure_message && !job->owner && !job->retry_reason);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

TEST(no_retries_is_not_the_default_number_of_retries)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_job *none =
        must_get(hf, must_enqueue(hf, &(struct hf_new_job){
                                          .kind = "k", .max_retries = HF_NO_RETRIES }));
    struct hf_job *usual =
        must_get(hf, must_enqueue(hf, &(struct hf_new_job){ .kind = "k" }));

    check_int(none->max_retries, 0);
    check_int(usual->max_retries, 3);
    check_str(usual->payload, "null");
    hf_job_free(none);
    hf_job_free(usual);
    check_ok(hf_close(hf));
}

/* ---- many at once ---- */

static int64_t accepted(struct hf *hf)
{
    struct hf_queues *queues = NULL;
    int64_t sum = 0;
    check_ok(hf_list_queues(hf, NULL, &queues));
    for (size_t i = 0; i < queues->count; i++)
        sum += queues->items[i]->accepted;
    hf_queues_free(queues);
    return sum;
}

TEST(a_batch_is_written_whole_or_not_at_all)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_new_job jobs[] = { { .kind = "a" }, { .kind = "b" }, { .kind = "c" } };
    struct hf_enqueued made[3];
    struct hf_error error;

    check_ok(hf_enqueue_batch(hf, jobs, 3, NULL, &error, made));
    check(made[0].id != made[1].id && made[1].id != made[2].id);
    check_int(accepted(hf), 3);

    jobs[2].kind = "not a name"; /* seen before anything is written */
    check_err(hf_enqueue_batch(hf, jobs, 3, NULL, &error, made), -HF_INVALID);
    check_str(error.field, "kind");
    check_int(accepted(hf), 3);

    jobs[2].kind = "c"; /* seen by the store, after two have been written */
    jobs[0].unique_key = jobs[2].unique_key = "one";
    jobs[2].on_conflict = HF_CONFLICT_REJECT;
    check_err(hf_enqueue_batch(hf, jobs, 3, NULL, &error, made), -HF_DUPLICATE);
    check_int(accepted(hf), 3);
    check_err(hf_enqueue_batch(hf, jobs, 0, NULL, &error, made), -HF_INVALID);
    check_err(hf_enqueue_batch(hf, jobs, 10001, NULL, &error, made), -HF_TOO_LARGE);
    check_ok(hf_close(hf));
}

TEST(an_idempotency_key_makes_asking_twice_the_same_as_once)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_new_job jobs[] = { { .kind = "a", .payload = "1" }, { .kind = "b" } };
    struct hf_enqueued first[2], second[2];
    struct hf_error error;

    check_ok(hf_enqueue_batch(hf, jobs, 2, "order 1", &error, first));
    check_ok(hf_enqueue_batch(hf, jobs, 2, "order 1", &error, second));
    check_int(second[0].id, first[0].id);
    check_int(second[1].id, first[1].id);
    check(second[0].deduplicated && !first[0].deduplicated);
    check_int(accepted(hf), 2);
    jobs[0].payload = "2";
    check_err(hf_enqueue_batch(hf, jobs, 2, "order 1", &error, second), -HF_MISMATCH);
    check_ok(hf_enqueue_batch(hf, jobs, 2, "order 2", &error, second));
    check_int(accepted(hf), 4);
    check_ok(hf_close(hf));
}

TEST(one_live_job_per_key_is_returned_rejected_or_replaced)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_new_job job = { .kind = "a", .unique_key = "source" };
    struct hf_enqueued made;
    struct hf_error error;
    int64_t first = must_enqueue(hf, &job);

    check_ok(hf_enqueue(hf, &job, &error, &made));
    check_int(made.id, first);
    check(made.deduplicated);
    job.on_conflict = HF_CONFLICT_REJECT;
    check_err(hf_enqueue(hf, &job, &error, &made), -HF_DUPLICATE);
    check_int(error.code, -HF_DUPLICATE);
    job.on_conflict = HF_CONFLICT_REPLACE;
    check_ok(hf_enqueue(hf, &job, &error, &made));
    check(made.id != first && !made.deduplicated);
    check_int(state_of(hf, first), HF_CANCELLED);
    check_ok(hf_close(hf));
}

/* ---- without waiting ---- */

struct answers {
    sem_t came;
    atomic_int ok, failed;
    int64_t last_id;
    int last_code;
};

static void count_answer(void *arg, const struct hf_error *error,
                         const struct hf_enqueued *jobs, size_t count)
{
    struct answers *a = arg;
    if (error) {
        check(!jobs && error->text[0]);
        a->last_code = error->code;
        atomic_fetch_add(&a->failed, 1);
    } else {
        check(count > 0);
        a->last_id = jobs[count - 1].id;
        atomic_fetch_add(&a->ok, 1);
    }
    sem_post(&a->came);
}

TEST(an_asynchronous_enqueue_is_answered_after_its_commit)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct answers a = { 0 };
    struct hf_error error;

    sem_init(&a.came, 0, 0);
    for (int i = 0; i < 500; i++) {
        char payload[20];
        snprintf(payload, sizeof(payload), "%d", i); /* copied before it returns */
        check_ok(hf_enqueue_async(hf,
                                  &(struct hf_new_job){ .kind = "a", .payload = payload },
                                  1, NULL, count_answer, &a, &error));
    }
    for (int i = 0; i < 500; i++)
        must_pass(&a.came);
    check_int(atomic_load(&a.ok), 500);
    struct hf_job *job = must_get(hf, a.last_id);
    check_str(job->payload, "499"); /* in order */
    hf_job_free(job);
    check_int(accepted(hf), 500);

    must_enqueue(hf, &(struct hf_new_job){ .kind = "a", .unique_key = "u" });
    check_ok(hf_enqueue_async(hf,
                              &(struct hf_new_job){ .kind = "a",
                                                    .unique_key = "u",
                                                    .on_conflict = HF_CONFLICT_REJECT },
                              1, NULL, count_answer, &a, &error));
    must_pass(&a.came);
    check_int(a.last_code, -HF_DUPLICATE);
    check_err(hf_enqueue_async(hf, &(struct hf_new_job){ .kind = "" }, 1, NULL,
                               count_answer, &a, &error),
              -HF_INVALID);
    check_int(atomic_load(&a.failed), 1); /* refused at once: no callback */
    check_ok(hf_close(hf));
}

struct gate {
    sem_t reached, open;
};

static void block(void *arg, const struct hf_error *error, const struct hf_enqueued *jobs,
                  size_t count)
{
    struct gate *gate = arg;
    (void)error;
    (void)jobs;
    (void)count;
    sem_post(&gate->reached);
    must_pass(&gate->open);
}

TEST(what_waits_for_the_commit_is_bounded)
{
    struct hf_options options = options_for(test_db_url());
    struct gate gate;
    struct answers a = { 0 };
    struct hf_error error;

    options.role = HF_PRODUCER;
    options.max_pending = 4;
    struct hf *hf = open_with(&options);
    sem_init(&gate.reached, 0, 0);
    sem_init(&gate.open, 0, 0);
    sem_init(&a.came, 0, 0);
    struct hf_new_job job = { .kind = "a" };
    check_ok(hf_enqueue_async(hf, &job, 1, NULL, block, &gate, &error));
    must_pass(&gate.reached); /* the committer's thread is ours now */

    int taken = 0;
    while (hf_enqueue_async(hf, &job, 1, NULL, count_answer, &a, &error) == 0)
        taken++;
    check_int(error.code, -HF_BUSY);
    check(taken >= 3 && taken <= 4);
    check_err(hf_enqueue(hf, &job, &error, NULL), -HF_BUSY);
    sem_post(&gate.open);
    for (int i = 0; i < taken; i++)
        must_pass(&a.came);
    check_int(atomic_load(&a.ok), taken); /* what was accepted was written */
    must_enqueue(hf, &job);               /* and there is room again */
    check_ok(hf_close(hf));
}

struct misuse {
    struct hf *hf;
    sem_t came;
    int enqueue, wait, close, cancel, recover, start;
    struct hf_error error;
};

static void misuse_everything(void *arg, const struct hf_error *error,
                              const struct hf_enqueued *jobs, size_t count)
{
    struct misuse *m = arg;
    struct hf_job *job = NULL;
    (void)error;
    (void)count;
    m->enqueue = hf_enqueue(m->hf, &(struct hf_new_job){ .kind = "a" }, &m->error, NULL);
    m->wait = hf_wait(m->hf, jobs[0].id, 1000, false, NULL, &job);
    m->cancel = hf_cancel(m->hf, jobs[0].id, NULL, NULL, NULL);
    m->recover = hf_recover(m->hf, NULL);
    m->start = hf_run(m->hf, 1);
    m->close = hf_close(m->hf);
    sem_post(&m->came);
}

TEST(a_callback_that_would_wait_for_itself_gets_an_error)
{
    struct misuse m = { .hf = open_scheduler(test_db_url(), "echo", echo, NULL) };

    sem_init(&m.came, 0, 0);
    check_ok(hf_enqueue_async(m.hf, &(struct hf_new_job){ .kind = "a" }, 1, NULL,
                              misuse_everything, &m, NULL));
    must_pass(&m.came);
    check_err(m.enqueue, -HF_INVALID);
    check(strstr(m.error.text, "callback") != NULL);
    check_err(m.wait, -HF_INVALID);
    check_err(m.cancel, -HF_INVALID);
    check_err(m.recover, -HF_INVALID);
    check_err(m.start, -HF_INVALID);
    check_err(m.close, -HF_INVALID);
    check_ok(hf_close(m.hf));
}

enum { WAITING_THREADS = 150, JOBS_EACH = 5 };

static void *enqueue_some(void *hf)
{
    for (int i = 0; i < JOBS_EACH; i++)
        (void)must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    return NULL;
}

/* The committer wakes some of them, and these the others. */
TEST(everyone_who_waits_for_a_commit_is_woken)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    pthread_t threads[WAITING_THREADS];
    struct hf_queues *queues = NULL;

    for (int i = 0; i < WAITING_THREADS; i++)
        check_int(pthread_create(&threads[i], NULL, enqueue_some, hf), 0);
    for (int i = 0; i < WAITING_THREADS; i++)
        pthread_join(threads[i], NULL);
    check_ok(hf_list_queues(hf, NULL, &queues));
    check_int(queues->items[0]->jobs[HF_QUEUED], WAITING_THREADS * JOBS_EACH);
    hf_queues_free(queues);
    check_ok(hf_close(hf));
}
