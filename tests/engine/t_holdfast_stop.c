/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a process: asked for, impatient, or without a word. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "handle.h"

static void *stop_when_running(void *arg)
{
    void **args = arg;
    struct hold *hold = args[1];
    must_pass(&hold->running);
    hf_stop(args[0]);
    sem_post(&hold->go);
    return NULL;
}

TEST(run_ends_by_stop_after_its_handlers_returned)
{
    struct hold hold;
    hold_init(&hold);
    struct hf *hf = open_scheduler(test_db_url(), "k", hold_on, &hold);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    pthread_t thread;
    void *args[] = { hf, &hold };

    pthread_create(&thread, NULL, stop_when_running, args);
    check_ok(hf_run(hf, 2));
    check_int(state_of(hf, id), HF_COMPLETED);
    int64_t later = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    check_err(hf_start(hf, 1), -HF_CLOSED); /* stopped is stopped */
    pthread_join(thread, NULL);
    check_int(state_of(hf, later), HF_QUEUED);
    check_ok(hf_close(hf));
}

static struct hf *signalled;

static void stop_on_signal(int number)
{
    (void)number;
    hf_stop(signalled); /* NOLINT(bugprone-signal-handler): its contract allows it */
}

static int raise_alarm(struct hf_run *run, void *arg)
{
    (void)run;
    kill(getpid(), *(int *)arg);
    return 0;
}

TEST(run_can_be_ended_by_a_signal_handler)
{
    int number = SIGUSR1;
    signalled = open_scheduler(test_db_url(), "k", raise_alarm, &number);
    int64_t id = must_enqueue(signalled, &(struct hf_new_job){ .kind = "k" });

    signal(number, stop_on_signal);
    check_ok(
        hf_run(signalled, 1)); /* the signal comes to this thread: all others block */
    check_int(state_of(signalled, id), HF_COMPLETED);
    check_ok(hf_close(signalled));
}

static int wait_for_stopping(struct hf_run *run, void *arg)
{
    struct hold *hold = arg;
    if (atomic_fetch_add(&hold->calls, 1) > 0)
        return 0;
    sem_post(&hold->running);
    while (!hf_stopping(run))
        nap();
    return hf_fail(run, HF_FAILURE_INTERRUPTED, NULL, "saved my place", NULL);
}

TEST(a_handler_can_give_way_to_a_shutdown_and_uses_up_no_retry)
{
    struct hold hold;
    hold_init(&hold);
    const char *url = test_db_url();
    struct hf *hf = open_scheduler(url, "k", wait_for_stopping, &hold);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k", .max_retries = 1 });

    check_ok(hf_start(hf, 1));
    must_pass(&hold.running);
    check_ok(hf_close(hf));

    hf = open_scheduler(url, "k", wait_for_stopping, &hold);
    struct hf_job *job = must_get(hf, id);
    check_int(job->state, HF_FAILED);
    check_int(job->failure, HF_FAILURE_INTERRUPTED);
    hf_job_free(job);
    check_ok(hf_start(hf, 1));
    job = must_wait(hf, id, true);
    check_int(job->state, HF_COMPLETED);
    check_int(job->attempt, 2);
    check_int(job->retries_left, 1);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

static int outlast_the_grace(struct hf_run *run, void *arg)
{
    struct hold *hold = arg;
    if (atomic_fetch_add(&hold->calls, 1) > 0)
        return hf_succeed(run, "\"second\"");
    sem_post(&hold->running);
    while (hf_cancelled(run) != HF_STOP_SHUTDOWN)
        nap();
    wait_for_state(run->hf, run->job_id, HF_FAILED); /* handed over */
    return hf_succeed(run, "\"too late\"");
}

TEST(a_handler_that_outlasts_the_grace_is_interrupted_and_retried_at_the_next_open)
{
    struct hold hold;
    hold_init(&hold);
    struct hf_options options = options_for(test_db_url());
    struct hf_handler handler = { "k", outlast_the_grace, &hold };
    options.handlers = &handler;
    options.handler_count = 1;
    options.shutdown_grace_ms = 10;
    struct hf *hf = open_with(&options);
    int64_t id = must_enqueue(
        hf, &(struct hf_new_job){ .kind = "k", .max_retries = HF_NO_RETRIES });

    check_ok(hf_start(hf, 1));
    must_pass(&hold.running);
    check_ok(hf_close(hf)); /* waits for the handler, which was told */

    hf = open_with(&options);
    struct hf_job *job = must_get(hf, id);
    check_int(job->state, HF_FAILED);
    check_int(job->failure, HF_FAILURE_INTERRUPTED);
    check(!job->result);
    check(job->retried_by > 0);
    hf_job_free(job);
    check_ok(hf_start(hf, 1));
    job = must_wait(hf, id, true);
    check_int(job->state, HF_COMPLETED);
    check_str(job->result, "\"second\"");
    check_int(job->retries_left, 0);
    hf_job_free(job);
    check_ok(hf_close(hf));
}

/* ---- crashing ---- */

static int die_once(struct hf_run *run, void *arg)
{
    (void)arg;
    if (run->attempt == 1)
        kill(getpid(), SIGKILL);
    return 0;
}

/* A process that enqueues a job, executes it, and dies in it. */
static int64_t die_in_a_child(const char *url)
{
    int ids[2];
    int64_t id = 0;
    check(pipe(ids) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        struct hf *hf = open_scheduler(url, "k", die_once, NULL);
        id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
        check(write(ids[1], &id, sizeof(id)) == sizeof(id));
        hf_start(hf, 1);
        for (;;)
            pause();
    }
    check(read(ids[0], &id, sizeof(id)) == sizeof(id));
    int status = 0;
    check(waitpid(child, &status, 0) == child);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ids[0]);
    close(ids[1]);
    return id;
}

static void note_item(void *arg, const struct hf_recovery_item *item)
{
    struct hf_recovery_item *ret = arg;
    ret->job_id = item->job_id;
    check_str(item->kind, "k");
    check_str(item->queue, "default");
    check_str(item->verdict, "crashed");
    check_int(item->state, HF_RUNNING);
}

TEST(a_killed_process_leaves_a_job_that_is_failed_as_crash_and_retried)
{
    const char *url = test_db_url();
    int64_t id = die_in_a_child(url), would = 0;
    struct hf_recovery_item item = { 0 };
    struct hf_error error;

    struct hf *hf = open_role(url, HF_READER);
    check_int(state_of(hf, id), HF_RUNNING);
    check_ok(hf_recover_dry_run(hf, note_item, &item, &error, &would));
    check_int(would, 1);
    check_int(item.job_id, id);
    check_int(state_of(hf, id), HF_RUNNING);
    check_ok(hf_close(hf));

    hf = open_scheduler(url, "k", die_once, NULL);
    check_ok(hf_start(hf, 1));
    struct hf_job *job = must_wait(hf, id, true);
    check_int(job->state, HF_COMPLETED);
    check_int(job->attempt, 2);
    check(job->recovery_id > 0);
    hf_job_free(job);
    job = must_get(hf, id);
    check_int(job->failure, HF_FAILURE_CRASH);
    check(strstr(job->failure_message, "crash recovery") != NULL);
    hf_job_free(job);
    check_ok(hf_wait_ready(hf, 0));

    check_ok(hf_recover(hf, &error)); /* nothing is left to do */
    struct hf_recoveries *recoveries = NULL;
    check_ok(hf_list_recoveries(hf, 10, &error, &recoveries));
    check(recoveries->count >= 1);
    const struct hf_recovery *first = recoveries->items[recoveries->count - 1];
    bool found = false;
    for (size_t i = 0; i < recoveries->count; i++) {
        first = recoveries->items[i];
        found = found || (strcmp(first->type, "start") == 0 &&
                          strstr(first->report, "\"runningFailed\":1"));
    }
    check(found);
    hf_recoveries_free(recoveries);
    check_ok(hf_close(hf));
}
