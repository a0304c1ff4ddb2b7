/* SPDX-License-Identifier: Apache-2.0
 *
 * The database goes away under a working program, and comes back. */
/* test: once */
#include "handle.h"

/* Waits until the test has pulled the plug, and returns while nobody is there to
 * hear it. */
TEST(an_outcome_reported_to_a_dead_server_is_told_again_when_it_lives)
{
    struct hold hold;
    hold_init(&hold);
    struct hf *hf = open_scheduler(test_postgres_url(), "k", hold_on, &hold);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });

    check_ok(hf_start(hf, 1));
    must_pass(&hold.running);
    test_postgres_crash();
    sem_post(&hold.go);
    nap();
    test_postgres_start();
    struct hf_job *job = must_wait(hf, id, true);
    check_int(job->id, id); /* itself, not a retry: its work was not thrown away */
    check_int(job->state, HF_COMPLETED);
    check_int(atomic_load(&hold.calls), 1);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

TEST(no_job_is_acknowledged_that_is_not_there_afterwards)
{
    enum { JOBS = 50 };
    struct hf *hf = open_role(test_postgres_url(), HF_PRODUCER);
    struct hf_new_job job = { .kind = "k" };
    struct hf_enqueued made[JOBS];
    struct hf_error error;
    int count = 0;

    for (int i = 0; i < JOBS; i++) {
        if (i == JOBS / 2)
            test_postgres_crash();
        if (i == JOBS / 2 + 1)
            test_postgres_start();
        int r = hf_enqueue(hf, &job, &error, &made[count]);
        if (r == 0)
            count++;
        else
            check(r == -HF_UNAVAILABLE || r == -HF_UNKNOWN);
    }
    check(count >= JOBS / 2 && count < JOBS); /* one was asked of a dead server */
    for (int i = 0; i < count; i++)
        check_int(state_of(hf, made[i].id), HF_QUEUED);
    check_ok(hf_close(hf));
}
