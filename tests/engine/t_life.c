/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job: enqueue, claim, finish, retry, cancel. */
#include "world.h"

TEST(a_job_is_enqueued_claimed_and_completed)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.payload = SLICE("{\"n\": 0.1 }");
    int64_t id = enqueue(&w, job);
    check_int(state_of(&w, id), JOB_QUEUED);
    check_int(claim_one(&w, "s1"), id);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_RUNNING);
    check_slice(row.job.payload, "{\"n\": 0.1 }");
    check_int(row.run.deadline_at, w.wall + 1800 * US_PER_S);
    world_pass(&w, US_PER_S);
    check_ok(complete(&w, "s1", id));
    row = look(&w, id);
    check_int(row.job.state, JOB_COMPLETED);
    check_int(row.run.outcome, JOB_COMPLETED);
    check_int(row.job.finished_at, w.wall);
    check_slice(row.run.result, "{\"ok\":true}");
    check_int(claim_one(&w, "s1"), 0);
    world_close(&w);
}

TEST(a_failure_makes_its_retry_in_the_same_transaction)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.priority = 7;
    int64_t id = enqueue(&w, job), retry = 0;
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, &retry));
    check(retry != 0);
    struct job_row row = look(&w, id), next = look(&w, retry);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.job.retry_state, RETRY_RETRIED);
    check_int(next.job.state, JOB_SCHEDULED);
    check_int(next.job.retry_of, id);
    check_int(next.job.root_id, id);
    check_int(next.job.attempt, 2);
    check_int(next.job.retries_left, 2);
    check_int(next.job.priority, 7);
    check_int(next.job.position, row.job.position);
    check_int(next.job.run_at, w.wall + 60 * US_PER_S);
    check_int(claim_one(&w, "s1"), 0);
    world_pass(&w, 60 * US_PER_S);
    check_int(claim_one(&w, "s1"), retry);
    world_close(&w);
}
