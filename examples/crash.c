/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c -- the worst moment: the process is killed while it executes a job.
 *
 *   crash [FILE | postgres://...]
 *
 * The parent starts this program as a worker.  The worker enqueues a job,
 * executes it, and kills itself with signal 9 in the middle of it: no handler
 * of signals, no destructor, no last word.  The parent starts it again.  The
 * second worker finds the job marked as running by a process that is gone,
 * fails it as a crash, and executes its retry. */
#include <holdfast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int charge_customer(struct hf_run *run, void *arg)
{
    (void)arg;
    printf("  worker %d: job %lld, attempt %d, begins\n", (int)getpid(),
           (long long)run->job_id, run->attempt);
    fflush(stdout);
    if (run->attempt == 1) {
        printf("  worker %d: killed by signal 9\n", (int)getpid());
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    return hf_succeed(run, "{\"charged\": true}");
}

/* What the recovery at the start wrote down. */
static void show_report(struct hf *hf)
{
    struct hf_recoveries *list;

    if (hf_list_recoveries(hf, 1, NULL, &list) < 0)
        return;
    for (size_t i = 0; i < list->count; i++)
        printf("  report of recovery %lld: %s\n", (long long)list->items[i]->id,
               list->items[i]->report);
    hf_recoveries_free(list);
}

static void show_job(const char *what, const struct hf_job *job)
{
    printf("  %s: job %lld, attempt %d, is %s: %s\n", what, (long long)job->id,
           job->attempt, hf_state_name(job->state),
           job->result ? job->result : job->failure_message);
}

/* One life of the worker.  A key makes the second life's request the same as the
 * first one's: it is answered with the job that is there. */
static int live(const char *db)
{
    struct hf_handler handler = { "charge", charge_customer, NULL };
    struct hf_new_job order = { .kind = "charge",
                                .payload = "{\"order\": 7}",
                                .retry_delays = "1" };
    struct hf_enqueued made;
    struct hf_options options;
    struct hf_error error;
    struct hf_job *job;
    struct hf *hf;

    hf_options_init(&options);
    options.db = db;
    options.handlers = &handler;
    options.handler_count = 1;
    if (hf_open(&options, &error, &hf) < 0 ||
        hf_enqueue_batch(hf, &order, 1, "order 7", &error, &made) < 0) {
        fprintf(stderr, "crash: %s\n", error.text);
        return 1;
    }
    if (made.deduplicated)
        printf("  worker %d: order 7 is job %lld already\n", (int)getpid(),
               (long long)made.id);
    if (hf_start(hf, 1) < 0 || hf_wait(hf, made.id, 60000, true, &error, &job) < 0) {
        fprintf(stderr, "crash: %s\n", error.text);
        return 1;
    }
    show_report(hf);
    show_job("in the end", job);
    hf_job_free(job);
    if (hf_get_job(hf, made.id, &error, &job) == 0) {
        show_job("and the first", job);
        hf_job_free(job);
    }
    return hf_close(hf) < 0;
}

/* Runs this program once more, as a worker; returns how it ended. */
static int start_worker(const char *self, const char *db)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "--worker", db, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        perror("crash: cannot start the worker");
        exit(1);
    }
    return status;
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-lock" };
    char folder[] = "/tmp/holdfast-crash-XXXXXX", path[100], name[120];

    if (argc == 3 && strcmp(argv[1], "--worker") == 0)
        return live(argv[2]);
    if (argc < 2 && !mkdtemp(folder)) {
        perror("crash: cannot make a temporary folder");
        return 1;
    }
    snprintf(path, sizeof(path), "%s/jobs.db", folder);
    const char *db = argc < 2 ? path : argv[1];

    printf("The first life:\n");
    int first = start_worker("/proc/self/exe", db);
    printf("%s\n", WIFSIGNALED(first) ? "It was killed.  The second life:"
                                      : "It was not killed; that job had been done.");
    int second = WIFSIGNALED(first) ? start_worker("/proc/self/exe", db) : 0;

    for (size_t i = 0; argc < 2 && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
    if (argc < 2)
        rmdir(folder);
    return second != 0;
}
