/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c -- enqueue, list, show, cancel, retry. */
#include <limits.h>
#include <stdio.h>

#include "base/limits.h"
#include "cli.h"

#define ANSWER_BYTES ((size_t)512 << 20)

static int print_job_json(const struct hf_job *job)
{
    struct buf buf;
    buf_init(&buf, ANSWER_BYTES);
    struct json_writer w = json_writer(&buf);
    put_job(&w, job);
    json_finish(&w);
    return print_json(&buf);
}

static int print_job(const struct hf_job *job)
{
    char number[48];

    snprintf(number, sizeof(number), "%lld", (long long)job->id);
    print_field("job", number);
    print_field("state", hf_state_name(job->state));
    print_field("overdue",
                job->overdue ? "yes: past its deadline, and still running" : NULL);
    print_field("kind", job->kind);
    print_field("queue", job->queue);
    print_field("project", job->project);
    snprintf(number, sizeof(number), "%d (retries left: %d of %d)", job->attempt,
             job->retries_left, job->max_retries);
    print_field("attempt", number);
    if (job->retry_of) {
        snprintf(number, sizeof(number), "job %lld", (long long)job->retry_of);
        print_field("retry of", number);
    }
    if (job->retried_by) {
        snprintf(number, sizeof(number), "job %lld", (long long)job->retried_by);
        print_field("retried by", number);
    }
    print_field("not retried", job->retry_reason);
    print_time("created", job->created_at_us);
    print_time("not before", job->state == HF_SCHEDULED ? job->run_at_us : 0);
    print_time("expires", job->expires_at_us);
    print_time("started", job->started_at_us);
    print_time("finished", job->finished_at_us);
    print_field("owner", job->owner);
    print_field("unique key", job->unique_key);
    print_field("metadata", job->metadata);
    print_field("payload", job->payload);
    print_field("progress", job->progress_text);
    print_field("result", job->result);
    print_field("failure", job->failure ? hf_failure_name(job->failure) : NULL);
    print_field("class", job->failure_class);
    print_field("message", job->failure_message);
    print_field("details", job->failure_details);
    return 0;
}

/* ---- enqueue ---- */

static const struct cli_option enqueue_options[] = {
    { "queue", "NAME", "default: default" },
    { "project", "NAME", "default: default" },
    { "priority", "N", "9 is first, 1 is last; 5" },
    { "run-at", "TIME", "not before this time" },
    { "delay-ms", "N", "not before this many milliseconds from now" },
    { "expires-at", "TIME", "cancel it if it was not started by then" },
    { "unique-key", "TEXT", "one live job per key" },
    { "on-conflict", "WORD", "return, reject or replace the live one" },
    { "max-retries", "N", "0 to 100" },
    { "retry-delays", "LIST", "seconds before each retry: 60,300,900" },
    { "max-execution-time-ms", "N", "the deadline of its run" },
    { "on-crash", "WORD", "retry or fail" },
    { "metadata", "JSON", "an object of strings" },
    { "idempotency-key", "TEXT", "asking again answers with the same job" },
    { "wait-ms", "N", "wait for the outcome, and print it" },
    { 0 },
};

static int read_numbers(struct cli *cli, struct hf_new_job *job)
{
    static const char *const conflicts[] = { "return", "reject", "replace", NULL };
    static const char *const crashes[] = { "retry", "fail", NULL };
    int64_t priority = 0, retries = -1;
    int conflict = HF_CONFLICT_RETURN, crash = -1;

    int r = cli_number(cli, "priority", LEAST_PRIORITY, LIMIT_PRIORITY, &priority);
    if (r == 0)
        r = cli_number(cli, "max-retries", 0, LIMIT_RETRIES, &retries);
    if (r == 0)
        r = cli_number(cli, "delay-ms", 0, LIMIT_DELAY_SECONDS * (int64_t)1000,
                       &job->delay_ms);
    if (r == 0)
        r = cli_number(cli, "max-execution-time-ms", 1, LIMIT_DEADLINE_MS,
                       &job->max_execution_ms);
    if (r == 0)
        r = cli_time(cli, "run-at", &job->run_at_us);
    if (r == 0)
        r = cli_time(cli, "expires-at", &job->expires_at_us);
    if (r == 0)
        r = cli_word(cli, "on-conflict", conflicts, &conflict);
    if (r == 0)
        r = cli_word(cli, "on-crash", crashes, &crash);
    job->priority = (int)priority;
    job->max_retries = retries == 0 ? HF_NO_RETRIES : retries > 0 ? (int)retries : 0;
    job->on_conflict = (enum hf_on_conflict)conflict;
    job->on_crash = (enum hf_on_crash)(crash + 1);
    return r;
}

/* The payload from standard input; one byte more than allowed is enough to let
 * the library say so. */
static int read_payload(struct cli *cli, struct buf *buf)
{
    buf_init(buf, LIMIT_PAYLOAD_BYTES + 1);
    for (;;) {
        size_t room = LIMIT_PAYLOAD_BYTES + 1 - buf->n;
        char *space = room ? buf_space(buf, room < 65536 ? room : 65536) : NULL;
        size_t n = space ? fread(space, 1, room < 65536 ? room : 65536, stdin) : 0;
        if (n == 0)
            break;
        buf_advance(buf, n);
    }
    struct slice text;
    int r = buf_end(buf, &text);
    if (r == 0 && text.n == 0)
        r = cli_refuse(cli, "There is no payload on standard input.");
    return r;
}

static int wait_and_print(struct cli *cli, int64_t id, int64_t wait_ms)
{
    struct hf_job *job = NULL;
    int r = wait_ms >= 0 ? hf_wait(cli->hf, id, wait_ms, true, &cli->error, &job)
                         : hf_get_job(cli->hf, id, &cli->error, &job);
    if (r < 0)
        return r;
    r = cli->json ? print_job_json(job) : print_job(job);
    hf_job_free(job);
    return r;
}

static int enqueue(struct cli *cli)
{
    cleanup(buf_release) struct buf payload = { 0 };
    struct hf_new_job job = { .kind = cli->args[0],
                              .queue = cli_option(cli, "queue"),
                              .project = cli_option(cli, "project"),
                              .unique_key = cli_option(cli, "unique-key"),
                              .retry_delays = cli_option(cli, "retry-delays"),
                              .metadata = cli_option(cli, "metadata") };
    struct hf_enqueued made;
    int64_t wait_ms = -1;

    int r = read_numbers(cli, &job);
    if (r == 0)
        r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    if (r == 0 && cli->arg_count > 1) {
        job.payload = cli->args[1];
        if (strcmp(job.payload, "-") == 0) {
            r = read_payload(cli, &payload);
            job.payload = payload.p;
            job.payload_bytes = payload.n;
        }
    }
    if (r == 0)
        r = hf_enqueue_batch(cli->hf, &job, 1, cli_option(cli, "idempotency-key"),
                             &cli->error, &made);
    if (r != 0)
        return r;
    if (wait_ms >= 0 || cli->json)
        return wait_and_print(cli, made.id, wait_ms);
    printf("%lld%s\n", (long long)made.id,
           made.deduplicated ? " (was there already)" : "");
    return 0;
}

/* ---- list and show ---- */

static const struct cli_option list_options[] = {
    { "state", "WORD", "scheduled, queued, running, cancelling, completed, failed, ..." },
    { "queue", "NAME", "only of this queue" },
    { "kind", "NAME", "only of this kind" },
    { "limit", "N", "how many, up to 1000; 50" },
    { "cursor", "ID", "go on where the last list ended" },
    { 0 },
};

static int print_list_json(const struct hf_jobs *jobs)
{
    struct buf buf;
    buf_init(&buf, ANSWER_BYTES);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_key(&w, "items");
    json_begin_array(&w);
    for (size_t i = 0; i < jobs->count; i++)
        put_job(&w, jobs->items[i]);
    json_end_array(&w);
    json_put_id(&w, "nextCursor", jobs->next);
    json_end_object(&w);
    json_finish(&w);
    return print_json(&buf);
}

static int print_list(const struct hf_jobs *jobs)
{
    static const char *const titles[] = { "ID",       "STATE",   "QUEUE",
                                          "KIND",     "ATTEMPT", "CREATED",
                                          "FINISHED", "OUTCOME", NULL };
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < jobs->count; i++) {
        const struct hf_job *job = jobs->items[i];
        table_int(&table, job->id);
        table_text(&table, job->overdue ? "overdue" : hf_state_name(job->state));
        table_text(&table, job->queue);
        table_text(&table, job->kind);
        table_int(&table, job->attempt);
        table_time(&table, job->created_at_us);
        table_time(&table, job->finished_at_us);
        table_text(&table, job->failure_message ? job->failure_message
                           : job->result        ? job->result
                                                : job->progress_text);
    }
    int r = table_print(&table);
    if (r == 0 && jobs->next)
        printf("More with --cursor %lld\n", (long long)jobs->next);
    return r;
}

static int list(struct cli *cli)
{
    static const char *const states[] = { "",        "scheduled",  "queued",
                                          "running", "cancelling", "completed",
                                          "failed",  "cancelled",  NULL };
    struct hf_filter filter = { .queue = cli_option(cli, "queue"),
                                .kind = cli_option(cli, "kind") };
    struct hf_jobs *jobs = NULL;
    int64_t limit = 0;

    int r = cli_word(cli, "state", states, &filter.state);
    if (r == 0)
        r = cli_number(cli, "limit", 1, LIMIT_PAGE_ITEMS, &limit);
    if (r == 0)
        r = cli_number(cli, "cursor", 1, INT64_MAX, &filter.before);
    filter.limit = (size_t)limit;
    if (r == 0)
        r = hf_list_jobs(cli->hf, &filter, &cli->error, &jobs);
    if (r != 0)
        return r;
    r = cli->json ? print_list_json(jobs) : print_list(jobs);
    hf_jobs_free(jobs);
    return r;
}

static const struct cli_option show_options[] = {
    { "wait-ms", "N", "wait for the outcome of its chain first" },
    { 0 },
};

static int show(struct cli *cli)
{
    struct hf_events *events = NULL;
    int64_t id = 0, wait_ms = -1;

    int r = cli_id(cli, cli->args[0], &id);
    if (r == 0)
        r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    if (r == 0)
        r = wait_and_print(cli, id, wait_ms);
    if (r < 0 || cli->json)
        return r;
    r = hf_list_events(cli->hf, id, 0, LIMIT_PAGE_ITEMS, &cli->error, &events);
    for (size_t i = 0; r == 0 && i < events->count; i++) {
        if (i == 0)
            printf("\n");
        print_time("event", events->items[i]->at_us);
        print_field("", events->items[i]->type);
        print_field("", events->items[i]->data);
    }
    hf_events_free(events);
    return r;
}

/* ---- cancel and retry ---- */

static const struct cli_option cancel_options[] = {
    { "reason", "TEXT", "kept with the job" },
    { 0 },
};

static int cancel(struct cli *cli)
{
    int r = 0;
    for (int i = 0; i < cli->arg_count && r == 0; i++) {
        int64_t id = 0;
        int state = 0;
        r = cli_id(cli, cli->args[i], &id);
        if (r == 0)
            r = hf_cancel(cli->hf, id, cli_option(cli, "reason"), &cli->error, &state);
        if (r == 0 && cli->json)
            r = wait_and_print(cli, id, -1);
        else if (r == 0)
            printf("%lld is %s\n", (long long)id, hf_state_name(state));
    }
    return r;
}

static int retry(struct cli *cli)
{
    int r = 0;
    for (int i = 0; i < cli->arg_count && r == 0; i++) {
        int64_t id = 0, retried = 0;
        r = cli_id(cli, cli->args[i], &id);
        if (r == 0)
            r = hf_retry(cli->hf, id, &cli->error, &retried);
        if (r == 0 && cli->json)
            r = wait_and_print(cli, retried, -1);
        else if (r == 0)
            printf("%lld is tried as job %lld\n", (long long)id, (long long)retried);
    }
    return r;
}

/* clang-format off */
const struct subcommand job_commands[] = {
    { "enqueue", "KIND [PAYLOAD|-]", "make a job; its payload is JSON, - is standard input", 1, 2,
      .creates = true, .role = HF_PRODUCER, .options = enqueue_options, .run = enqueue },
    { "list", "", "list jobs, the newest first", 0, 0,
      .role = HF_READER, .options = list_options, .run = list },
    { "show", "ID", "show a job and its events", 1, 1,
      .role = HF_READER, .options = show_options, .run = show },
    { "cancel", "ID...", "cancel jobs that wait or run", 1, INT_MAX,
      .role = HF_PRODUCER, .options = cancel_options, .run = cancel },
    { "retry", "ID...", "try jobs again that are over", 1, INT_MAX,
      .role = HF_PRODUCER, .run = retry },
    { 0 },
};
/* clang-format on */
