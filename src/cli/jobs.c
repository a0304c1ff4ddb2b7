/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c -- enqueue, list, show, explain. */
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "base/limits.h"
#include "cli.h"

/* ---- a job, for people ---- */

static void print_reference(const char *name, int64_t id)
{
    char text[40];
    snprintf(text, sizeof(text), "job %lld", (long long)id);
    print_field(name, id ? text : NULL);
}

int job_print(struct cli *cli, struct slice job)
{
    struct slice error = member_raw(job, "error"), progress = member_raw(job, "progress");
    bool overdue = member_true(job, "overdue");
    bool later = member_is(job, "state", "scheduled");
    char attempt[80];

    snprintf(attempt, sizeof(attempt), "%lld (retries left: %lld of %lld)",
             (long long)member_int(job, "attempt"),
             (long long)member_int(job, "retriesLeft"),
             (long long)member_int(job, "maxRetries"));
    print_field("job", member(cli, job, "id"));
    print_field("state", member(cli, job, "state"));
    print_field("overdue", overdue ? "yes: past its deadline, and still running" : NULL);
    print_field("kind", member(cli, job, "kind"));
    print_field("queue", member(cli, job, "queue"));
    print_field("project", member(cli, job, "project"));
    print_field("attempt", attempt);
    print_reference("retry of", member_int(job, "retryOf"));
    print_reference("retried by", member_int(job, "retriedBy"));
    print_field("not retried", member(cli, job, "retryReason"));
    print_field("created", member(cli, job, "createdAt"));
    print_field("not before", later ? member(cli, job, "runAt") : NULL);
    print_field("expires", member(cli, job, "expiresAt"));
    print_field("started", member(cli, job, "startedAt"));
    print_field("finished", member(cli, job, "finishedAt"));
    print_field("owner", member(cli, job, "owner"));
    print_field("unique key", member(cli, job, "uniqueKey"));
    print_field("metadata", member(cli, job, "metadata"));
    print_field("payload", member(cli, job, "payload"));
    print_field("progress", progress.p ? member(cli, progress, "text") : NULL);
    print_field("result", member(cli, job, "result"));
    if (error.p) {
        print_field("failure", member(cli, error, "type"));
        print_field("class", member(cli, error, "class"));
        print_field("message", member(cli, error, "message"));
        print_field("details", member(cli, error, "details"));
    }
    return 0;
}

static bool is_over(struct slice job)
{
    return member_is(job, "state", "completed") || member_is(job, "state", "failed") ||
           member_is(job, "state", "cancelled");
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The API waits for one job; the outcome of the work is that of its last retry. */
int job_wait(struct cli *cli, int64_t id, bool chain, int64_t wait_ms, struct buf *answer,
             struct slice *ret)
{
    int64_t end_ms = now_ms() + wait_ms;

    for (;;) {
        int64_t left = end_ms - now_ms();
        char text[24];
        left = left < 0 ? 0 : left > LIMIT_WAIT_MS ? LIMIT_WAIT_MS : left;
        snprintf(text, sizeof(text), "%lld", (long long)left);
        struct ask ask = ask_for("GET", "jobs/%lld", (long long)id);
        ask_param(&ask, "waitMs", text);
        ask.wait_ms = left;
        int r = cli_ask(cli, &ask, answer, ret);
        if (r < 0)
            return r;
        int64_t next = member_int(*ret, "retriedBy");
        if (is_over(*ret) && (next == 0 || !chain))
            return 0;
        if (is_over(*ret))
            id = next;
        else if (now_ms() >= end_ms)
            return cli_fail(cli, -HF_TIMEOUT, "Job %lld is not over after %lld ms.",
                            (long long)id, (long long)wait_ms);
        buf_release(answer);
    }
}

/* ---- enqueue ---- */

static const struct cli_option enqueue_options[] = {
    { "queue", "NAME", "default: default", 0 },
    { "project", "NAME", "default: default", 0 },
    { "priority", "N", "9 is first, 1 is last; 5", 0 },
    { "run-at", "TIME", "not before this time", 0 },
    { "delay-ms", "N", "not before this many milliseconds from now", 0 },
    { "expires-at", "TIME", "cancel it if it was not started by then", 0 },
    { "unique-key", "TEXT", "one live job per key", 0 },
    { "on-conflict", "WORD", "return, reject or replace the live one", 0 },
    { "max-retries", "N", "0 to 100", 0 },
    { "retry-delays", "LIST", "seconds before each retry: 60,300,900", 0 },
    { "max-execution-time-ms", "N", "the deadline of its run", 0 },
    { "on-crash", "WORD", "retry or fail", 0 },
    { "metadata", "JSON", "an object of strings", 0 },
    { "idempotency-key", "TEXT", "asking again answers with the same job", 0 },
    { "wait-ms", "N", "wait for the outcome, and print it", 0 },
    { "file", "FILE", "many jobs: one JSON object a line; - is standard input", 0 },
    { "from-line", "N", "with --file: begin there, after an error", 0 },
    { 0 },
};

/* The payload from standard input; one byte more than allowed is enough to let
 * the API say so. */
static int read_payload(struct cli *cli, struct buf *buf)
{
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

static int put_payload(struct cli *cli, struct json_writer *w)
{
    cleanup(buf_release) struct buf given;
    const char *text = cli->arg_count > 1 ? cli->args[1] : NULL;

    buf_init(&given, LIMIT_PAYLOAD_BYTES + 1);
    if (!text)
        return 0;
    if (strcmp(text, "-") != 0)
        return cli_put_json(cli, w, "payload", slice_of(text));
    int r = read_payload(cli, &given);
    return r < 0 ? r
                 : cli_put_json(cli, w, "payload", (struct slice){ given.p, given.n });
}

static int write_job(struct cli *cli, struct json_writer *w)
{
    const char *metadata = cli_option(cli, "metadata");

    json_begin_object(w);
    json_put_text(w, "kind", cli->args[0]);
    cli_put_text(cli, w, "queue", "queue");
    cli_put_text(cli, w, "project", "project");
    cli_put_text(cli, w, "run-at", "runAt");
    cli_put_text(cli, w, "expires-at", "expiresAt");
    cli_put_text(cli, w, "unique-key", "uniqueKey");
    cli_put_text(cli, w, "on-conflict", "onConflict");
    cli_put_text(cli, w, "on-crash", "onCrash");
    int r = cli_put_number(cli, w, "priority", "priority");
    if (r == 0)
        r = cli_put_number(cli, w, "delay-ms", "delayMs");
    if (r == 0)
        r = cli_put_number(cli, w, "max-retries", "maxRetries");
    if (r == 0)
        r = cli_put_number(cli, w, "max-execution-time-ms", "maxExecutionTimeMs");
    if (r == 0)
        r = cli_put_delays(cli, w);
    if (r == 0 && metadata)
        r = cli_put_json(cli, w, "metadata", slice_of(metadata));
    if (r == 0)
        r = put_payload(cli, w);
    json_end_object(w);
    return r;
}

static int print_made(struct cli *cli, struct slice job, int64_t wait_ms)
{
    cleanup(buf_release) struct buf answer;
    int r = 0;

    buf_init(&answer, CLI_ANSWER_BYTES);
    if (wait_ms >= 0)
        r = job_wait(cli, member_int(job, "id"), true, wait_ms, &answer, &job);
    if (r < 0)
        return r;
    if (cli->json)
        print_json(job);
    else if (wait_ms >= 0)
        return job_print(cli, job);
    else
        printf("%s%s\n", member(cli, job, "id"),
               member_true(job, "deduplicated") ? " (was there already)" : "");
    return 0;
}

static int enqueue_one(struct cli *cli)
{
    cleanup(buf_release) struct buf body, answer;
    struct ask ask = ask_for("POST", "jobs");
    struct slice job = { 0 };
    int64_t wait_ms = -1;

    buf_init(&answer, CLI_ANSWER_BYTES);
    buf_init(&body, (size_t)8 << 20);
    struct json_writer w = json_writer(&body);
    int r = write_job(cli, &w);
    if (r == 0)
        r = buf_end(&body, &ask.body);
    if (r == 0)
        r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    ask.idempotency_key = cli_option(cli, "idempotency-key");
    if (r == 0)
        r = cli_ask(cli, &ask, &answer, &job);
    return r < 0 ? r : print_made(cli, job, wait_ms);
}

static int enqueue(struct cli *cli)
{
    const char *file = cli_option(cli, "file");

    if (file && cli->arg_count > 0)
        return cli_refuse(cli, "Each line of %s is a whole job; \"%s\" is too much.",
                          file, cli->args[0]);
    if (file)
        return enqueue_file(cli, file);
    if (cli->arg_count == 0)
        return cli_refuse(cli,
                          "enqueue needs more than that: holdfast enqueue [OPTION...] "
                          "KIND [PAYLOAD|-], or --file FILE");
    if (cli_option(cli, "from-line"))
        return cli_refuse(cli, "--from-line is for --file FILE.");
    return enqueue_one(cli);
}

/* ---- list ---- */

static const struct cli_option list_options[] = {
    FILTER_OPTIONS,
    { "limit", "N", "how many, up to 1000; 50", 0 },
    { "cursor", "ID", "go on where the last list ended", 0 },
    { 0 },
};

int filter_params(struct cli *cli, struct ask *ask, size_t *ret_given)
{
    static const struct {
        const char *option, *name;
    } pairs[] = { { "state", "state" },
                  { "queue", "queue" },
                  { "kind", "kind" },
                  { "project", "project" },
                  { "schedule", "schedule" },
                  { "unique-key", "uniqueKey" },
                  { "search", "q" },
                  { "created-after", "createdAfter" },
                  { "created-before", "createdBefore" } };
    const char *metadata = cli_option(cli, "metadata");
    size_t before = ask->param_count;

    for (size_t i = 0; i < array_len(pairs); i++)
        ask_param(ask, pairs[i].name, cli_option(cli, pairs[i].option));
    ask_param(ask, "final", cli_option(cli, "final") ? "true" : NULL);
    if (metadata) {
        const char *sign = strchr(metadata, '=');
        if (!sign || sign == metadata)
            return cli_refuse(cli, "--metadata is \"%s\"; it must be NAME=TEXT.",
                              metadata);
        struct buf name;
        buf_init(&name, LIMIT_TEXT_BYTES);
        buf_printf(&name, "metadata.%.*s", (int)(sign - metadata), metadata);
        struct slice copy = arena_dup(&cli->arena, (struct slice){ name.p, name.n });
        buf_release(&name);
        if (!copy.p)
            return cli_refuse(cli, "--metadata has too long a name.");
        ask_param(ask, copy.p, sign + 1);
    }
    *ret_given = ask->param_count - before;
    return 0;
}

static int print_list(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID",       "STATE",   "QUEUE",
                                          "KIND",     "ATTEMPT", "CREATED",
                                          "FINISHED", "OUTCOME", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice job;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &job)) {
        struct slice error = member_raw(job, "error");
        struct slice progress = member_raw(job, "progress");
        bool overdue = member_true(job, "overdue");
        table_text(&table, member(cli, job, "id"));
        table_text(&table, overdue ? "overdue" : member(cli, job, "state"));
        table_text(&table, member(cli, job, "queue"));
        table_text(&table, member(cli, job, "kind"));
        table_text(&table, member(cli, job, "attempt"));
        table_time(&table, member(cli, job, "createdAt"));
        table_time(&table, member(cli, job, "finishedAt"));
        table_text(&table, error.p      ? member(cli, error, "message")
                           : progress.p ? member(cli, progress, "text")
                                        : member(cli, job, "result"));
    }
    return table_print_page(cli, &table, answer, "No jobs here.");
}

static int list(struct cli *cli)
{
    struct ask ask = ask_for("GET", "jobs");
    size_t given = 0;
    int r = filter_params(cli, &ask, &given);
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_list);
}

/* ---- show and explain ---- */

static const struct cli_option show_options[] = {
    { "wait-ms", "N", "wait for the outcome of its chain first", 0 },
    { 0 },
};

static int print_events(struct cli *cli, struct slice answer)
{
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice event;

    for (size_t i = 0; json_array_next(&it, &event); i++) {
        if (i == 0)
            printf("\n");
        print_field("event", member(cli, event, "at"));
        print_field("", member(cli, event, "type"));
        print_field("", member(cli, event, "data"));
    }
    return 0;
}

static int show(struct cli *cli)
{
    cleanup(buf_release) struct buf answer;
    struct slice job = { 0 };
    int64_t id = 0, wait_ms = -1;

    buf_init(&answer, CLI_ANSWER_BYTES);
    int r = cli_id(cli, "job", cli->args[0], &id);
    if (r == 0)
        r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "jobs/%lld", (long long)id);
    r = wait_ms >= 0 ? job_wait(cli, id, true, wait_ms, &answer, &job)
                     : cli_ask(cli, &ask, &answer, &job);
    if (r < 0)
        return r;
    if (cli->json) {
        print_json(job);
        return 0;
    }
    id = member_int(job, "id");
    r = job_print(cli, job);
    ask = ask_for("GET", "jobs/%lld/events", (long long)id);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_events);
}

static int print_explanation(struct cli *cli, struct slice answer)
{
    struct json_iter it = json_iter(member_raw(answer, "reasons"));
    struct slice reason;

    print_field("job", member(cli, answer, "id"));
    print_field("state", member(cli, answer, "state"));
    print_field("", member(cli, answer, "summary"));
    while (json_array_next(&it, &reason)) {
        print_field("because", member(cli, reason, "text"));
        print_field("  until", member(cli, reason, "until"));
    }
    return 0;
}

static int explain(struct cli *cli)
{
    int64_t id = 0;
    int r = cli_id(cli, "job", cli->args[0], &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "jobs/%lld/explain", (long long)id);
    return cli_ask_and_print(cli, &ask, print_explanation);
}

/* clang-format off */
const struct subcommand job_commands[] = {
    { "enqueue", "KIND [PAYLOAD|-]", "make a job; its payload is JSON, - is standard input", 0, 2,
      .place = ANYWHERE, .creates = true, .role = HF_PRODUCER, .options = enqueue_options,
      .run = enqueue },
    { "list", "", "list jobs, the newest first", 0, 0,
      .place = ANYWHERE, .role = HF_READER, .options = list_options, .run = list },
    { "show", "ID", "show a job and its events", 1, 1,
      .place = ANYWHERE, .role = HF_READER, .options = show_options, .run = show },
    { "explain", "ID", "say why a job is in its state, and what has to happen", 1, 1,
      .place = ANYWHERE, .role = HF_READER, .run = explain },
    { 0 },
};
/* clang-format on */
