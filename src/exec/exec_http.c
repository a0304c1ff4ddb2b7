/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_http.c -- which runs of kind http are under way, and how each ends. */
#include "exec/exec_http.h"

#include <search.h>

/* A payload twice (the headers of ours, the decoded texts), an outcome, and air. */
enum { BLOCK_BYTES = 4096, ARENA_CAP = 8 << 20 };

struct exec_http {
    struct http_client *client;
    const struct clock *clock;
    exec_http_ended *ended;
    void *arg;
    void *runs; /* a tree (search.h) by job_id */
    size_t count;
};

struct http_run {
    int64_t job_id; /* first: what the tree compares */
    struct exec_http *exec;
    struct arena arena;
    struct http_job job;
    struct fetch *fetch;
    int stop_type; /* how it ends if it is aborted */
    struct slice stop_reason;
};

int exec_http_new(const struct exec_http_options *options, struct exec_http **ret)
{
    assert(options->client && options->ended);
    struct exec_http *exec = new(struct exec_http);
    if (!exec)
        return -HF_NOMEM;
    exec->client = options->client;
    exec->clock = options->clock ? options->clock : &clock_system;
    exec->ended = options->ended;
    exec->arg = options->arg;
    *ret = exec;
    return 0;
}

void exec_http_free(struct exec_http *exec)
{
    assert(!exec || exec->count == 0);
    free(exec);
}

size_t exec_http_count(const struct exec_http *exec)
{
    return exec->count;
}

/* ---- the runs ---- */

static int compare_runs(const void *a, const void *b)
{
    int64_t x = ((const struct http_run *)a)->job_id;
    int64_t y = ((const struct http_run *)b)->job_id;

    return (x > y) - (x < y);
}

static struct http_run *find_run(const struct exec_http *exec, int64_t job_id)
{
    struct http_run key = { .job_id = job_id };
    void *node = tfind(&key, &exec->runs, compare_runs);

    return node ? *(struct http_run **)node : NULL;
}

static bool add_run(struct exec_http *exec, struct http_run *run)
{
    assert(!find_run(exec, run->job_id)); /* a job is run once */
    if (!tsearch(run, &exec->runs, compare_runs))
        return false;
    exec->count++;
    return true;
}

static void free_run(struct http_run *run)
{
    if (!run)
        return;
    arena_release(&run->arena);
    free(run);
}

/* ---- ending ---- */

static void run_done(void *arg, const struct fetch_answer *answer)
{
    struct http_run *run = arg;
    struct exec_http *exec = run->exec;
    struct http_job_outcome outcome =
        http_job_judge(&run->job, answer, clock_wall_us(exec->clock), &run->arena);

    if (answer->end == FETCH_CANCELLED) {
        outcome.error.type = run->stop_type;
        outcome.error.class = (struct slice){ 0 };
        if (run->stop_reason.p)
            outcome.error.message = run->stop_reason;
    }
    tdelete(run, &exec->runs, compare_runs);
    exec->count--;
    exec->ended(exec->arg, run->job_id, &outcome);
    free_run(run);
}

/* It could not even begin. */
static void end_at_once(struct exec_http *exec, int64_t job_id, int type,
                        const char *text)
{
    struct http_job_outcome outcome = {
        .error = { .type = type, .message = slice_of(text) },
    };

    exec->ended(exec->arg, job_id, &outcome);
}

/* ---- beginning ---- */

static int begin(struct exec_http *exec, const struct started *started,
                 int64_t timeout_ms, struct error *error, struct http_run **ret)
{
    struct http_run *run = new(struct http_run);
    struct job job = started->job;

    if (!run)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory to run this job.");
    *ret = run;
    run->exec = exec;
    run->job_id = job.id;
    run->stop_type = ERROR_INTERRUPTED;
    arena_init(&run->arena, BLOCK_BYTES, ARENA_CAP);
    job.payload = arena_dup(&run->arena, job.payload);
    if (!job.payload.p)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory to run this job.");
    int r = http_job_read(&job, &run->arena, error, &run->job);
    if (r < 0)
        return r;
    struct fetch_request *request = &run->job.request;
    if (request->timeout_ms == 0 || request->timeout_ms > timeout_ms)
        request->timeout_ms = timeout_ms;
    if (!add_run(exec, run))
        return error_set(error, -HF_NOMEM, NULL, "There is no memory to run this job.");
    r = http_client_start(exec->client, request, run_done, run, error, &run->fetch);
    if (r < 0) {
        tdelete(run, &exec->runs, compare_runs);
        exec->count--;
    }
    return r;
}

void exec_http_start(struct exec_http *exec, const struct started *started)
{
    int64_t left_us = started->deadline_at - clock_wall_us(exec->clock);
    struct error error = { 0 };
    struct http_run *run = NULL;

    if (left_us < US_PER_MS) {
        end_at_once(exec, started->job.id, ERROR_TIMEOUT,
                    "The job's time was up before its request could be sent.");
        return;
    }
    if (http_payload_endpoint(started->job.payload) != 0) {
        end_at_once(exec, started->job.id, ERROR_PERMANENT, "The endpoint was deleted.");
        return;
    }
    if (begin(exec, started, left_us / US_PER_MS, &error, &run) < 0) {
        free_run(run);
        end_at_once(exec, started->job.id, ERROR_OTHER, error.text);
    }
}

bool exec_http_stop(struct exec_http *exec, int64_t job_id, int type, const char *reason)
{
    struct http_run *run = find_run(exec, job_id);

    if (!run)
        return false;
    run->stop_type = type;
    run->stop_reason = arena_dup(&run->arena, slice_of(reason));
    http_client_abort(run->fetch);
    return true;
}
