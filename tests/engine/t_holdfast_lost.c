/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that was taken for dead, and was not. */
/* test: libs=libpq */
#include <libpq-fe.h>

#include "handle.h"

struct lost {
    sem_t running;
    atomic_int calls, told;
};

static int wait_to_be_told(struct hf_run *run, void *arg)
{
    struct lost *lost = arg;
    if (atomic_fetch_add(&lost->calls, 1) > 0)
        return hf_succeed(run, "\"second\"");
    sem_post(&lost->running);
    enum hf_stop_reason why;
    while ((why = hf_cancelled(run)) == HF_STOP_NONE)
        nap();
    atomic_store(&lost->told, (int)why);
    wait_for_state(run->hf, run->job_id, HF_FAILED); /* until then its word would count */
    return hf_succeed(run, "\"first\"");
}

/* What another node does when it thinks that a lease ran out. */
static void declare_dead(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result =
        PQexec(conn, "UPDATE holdfast.owners SET state = 3, ended_at = 1 WHERE type = 1");
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail("%s", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

TEST(a_handler_of_a_process_taken_for_dead_is_told_and_its_result_is_refused)
{
    const char *url = test_postgres_url();
    struct lost lost = { .calls = 0 };
    sem_init(&lost.running, 0, 0);
    struct hf *hf = open_scheduler(url, "k", wait_to_be_told, &lost);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });

    check_ok(hf_start(hf, 1));
    must_pass(&lost.running);
    declare_dead(url);
    must_enqueue(hf,
                 &(struct hf_new_job){ .kind = "other" }); /* it goes on, as another */
    struct hf_job *job = must_wait(hf, id, true);
    check_int(atomic_load(&lost.told), HF_STOP_LOST);
    check_int(job->state, HF_COMPLETED);
    check_int(job->attempt, 2);
    check_str(job->result, "\"second\"");
    hf_job_free(job);
    job = must_get(hf, id);
    check_int(job->state, HF_FAILED);
    check_int(job->failure, HF_FAILURE_CRASH);
    check(!job->result); /* "first" came from nobody */
    hf_job_free(job);
    check_ok(hf_close(hf));
}
