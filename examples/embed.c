/* SPDX-License-Identifier: Apache-2.0
 *
 * embed.c -- a job queue inside a program of your own, from start to end.
 *
 *   embed [FILE | postgres://...]
 *
 * Opens a store, registers a handler for two kinds of jobs, enqueues a few,
 * lets two worker threads execute them, and shows what became of each.  Without
 * an argument the store is a temporary file that is removed at the end. */
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A handler is called in a worker thread, with one job.  Its payload is JSON, as
 * it was enqueued; what it returns becomes the job's outcome. */
static int greet(struct hf_run *run, void *arg)
{
    char result[200];

    (void)arg;
    printf("  worker:  job %lld says hello to %s\n", (long long)run->job_id,
           run->payload);
    hf_progress(run, 50, "half way through the hello");
    snprintf(result, sizeof(result), "{\"greeted\": %s}", run->payload);
    return hf_succeed(run, result);
}

/* A job that fails is not tried again itself: its retry is a new job, which
 * comes with a higher attempt.  This one works the second time. */
static int fetch(struct hf_run *run, void *arg)
{
    (void)arg;
    printf("  worker:  job %lld fetches %s, attempt %d\n", (long long)run->job_id,
           run->payload, run->attempt);
    if (run->attempt == 1)
        return hf_fail(run, HF_FAILURE_NETWORK, NULL, "the server did not answer", NULL);
    return hf_succeed(run, "{\"status\": 200}");
}

static int complain(const struct hf_error *error)
{
    fprintf(stderr, "embed: %s\n", error->text);
    return 1;
}

/* Waits for the outcome of the work: of the job, or of its retries. */
static int show(struct hf *hf, int64_t id)
{
    struct hf_error error;
    struct hf_job *job;

    if (hf_wait(hf, id, 30000, true, &error, &job) < 0)
        return complain(&error);
    printf("  outcome: job %lld is %s", (long long)id, hf_state_name(job->state));
    if (job->id != id)
        printf(" by its retry, job %lld", (long long)job->id);
    printf(": %s\n", job->result ? job->result : job->failure_message);
    hf_job_free(job);
    return 0;
}

static int work(struct hf *hf)
{
    /* Zero is the default of every field that is not named. */
    const struct hf_new_job jobs[] = {
        { .kind = "greet", .payload = "\"Ada\"" },
        { .kind = "greet", .payload = "\"Grace\"", .priority = 9 },
        { .kind = "fetch", .payload = "\"https://example.org\"", .retry_delays = "1" },
    };
    enum { COUNT = sizeof(jobs) / sizeof(jobs[0]) };
    struct hf_enqueued made[COUNT];
    struct hf_error error;

    /* All of them or none; when this returns they are on disk. */
    if (hf_enqueue_batch(hf, jobs, COUNT, NULL, &error, made) < 0)
        return complain(&error);
    printf("  main:    %d jobs are on disk, whatever happens now\n", COUNT);

    /* Workers could have been there before, or in another process. */
    int r = hf_start(hf, 2);
    if (r < 0) {
        fprintf(stderr, "embed: cannot start workers: %s\n", hf_status_title(r));
        return 1;
    }
    int failed = 0;
    for (int i = 0; i < COUNT; i++)
        failed |= show(hf, made[i].id);
    return failed;
}

static void remove_store(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-lock" };
    char name[200];

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

int main(int argc, char **argv)
{
    const struct hf_handler handlers[] = { { "greet", greet, NULL },
                                           { "fetch", fetch, NULL } };
    char folder[] = "/tmp/holdfast-embed-XXXXXX", path[100] = "";
    struct hf_options options;
    struct hf_error error;
    struct hf *hf;

    if (argc < 2) {
        if (!mkdtemp(folder)) {
            perror("embed: cannot make a temporary folder");
            return 1;
        }
        snprintf(path, sizeof(path), "%s/jobs.db", folder);
    }
    hf_options_init(&options);
    options.db = argc < 2 ? path : argv[1];
    options.handlers = handlers;
    options.handler_count = sizeof(handlers) / sizeof(handlers[0]);
    printf("Holdfast %s, embedded, on %s\n", hf_version(), options.db);
    if (hf_open(&options, &error, &hf) < 0)
        return complain(&error);

    int failed = work(hf);

    hf_close(hf); /* waits for what is running */
    if (argc < 2) {
        remove_store(path);
        rmdir(folder);
    }
    return failed;
}
