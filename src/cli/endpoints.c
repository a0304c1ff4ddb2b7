/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoints.c -- URLs that are called on a schedule: made, shown, changed, paused, called
 * now, and how it went.
 *
 * An endpoint is a schedule too, and found as one; in the API it stands below its
 * project. */
#include "cli/endpoints.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "cli/headers.h"
#include "cli/schedules.h"

/* ---- which one ---- */

int endpoint_ask(struct cli *cli, const char *method, const char *below, struct ask *ret)
{
    cleanup(buf_release) struct buf answer;
    struct slice schedule = { 0 };

    int r = schedule_find(cli, "endpoint", cli->args[1], &answer, &schedule);
    if (r < 0)
        return r;
    if (!member_raw(schedule, "endpointId").p)
        return cli_fail(cli, -HF_NOT_FOUND,
                        "There is no endpoint %s, but a schedule: see \"holdfast "
                        "schedules show %s\".",
                        cli->args[1], cli->args[1]);
    *ret = ask_for(method, "projects/%s/endpoints/%" PRId64 "%s",
                   member(cli, schedule, "project"), member_int(schedule, "id"), below);
    return 0;
}

static int ask_and_print(struct cli *cli, const char *method, const char *below,
                         int (*print)(struct cli *cli, struct slice answer))
{
    struct ask ask;
    int r = endpoint_ask(cli, method, below, &ask);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print);
}

/* ---- shown ---- */

static void print_headers(struct cli *cli, struct slice headers)
{
    struct slice key, value;
    struct json_iter it = json_iter(headers);
    while (json_object_next(&it, &key, &value)) {
        struct slice text = SLICE("(secret)");
        struct buf line;
        if (json_kind_of(value) == JSON_KIND_STRING &&
            json_decode(value, &cli->arena, &text) < 0)
            continue;
        buf_init(&line, 64 << 10);
        buf_printf(&line, "%.*s: %.*s", (int)key.n - 2, key.p + 1, (int)text.n, text.p);
        if (buf_end(&line, &text) == 0)
            print_field("header", text.p);
        buf_release(&line);
    }
}

/* "98.50 %" of what the API tells as 0.9850. */
static const char *percent(struct cli *cli, const char *rate)
{
    char text[32];
    if (!rate)
        return NULL;
    snprintf(text, sizeof(text), "%.2f %% of the last runs", 100 * strtod(rate, NULL));
    return arena_dup(&cli->arena, slice_of(text)).p;
}

static void print_fares(struct cli *cli, struct slice e)
{
    struct slice took = member_raw(e, "durationMs");

    print_number("runs", e, "runCount");
    print_number("failures", e, "failureCount");
    print_number("failures in a row", e, "failuresInRow");
    print_field("last start", member(cli, e, "lastStartedAt"));
    print_field("last end", member(cli, e, "lastFinishedAt"));
    print_number("last answer", e, "lastStatus");
    print_field("last error", member(cli, e, "lastError"));
    print_field("last error at", member(cli, e, "lastErrorAt"));
    print_field("next try", member(cli, e, "nextTryAt"));
    print_field("success", percent(cli, member(cli, e, "successRate")));
    if (took.p) {
        print_number("half within ms", took, "p50");
        print_number("95 % within ms", took, "p95");
    }
}

static int print_endpoint(struct cli *cli, struct slice e)
{
    print_field("endpoint", member(cli, e, "id"));
    schedule_print_shared(cli, e);
    print_field("url", member(cli, e, "url"));
    print_field("method", member(cli, e, "method"));
    print_headers(cli, member_raw(e, "headers"));
    print_field("body", member(cli, e, "body"));
    print_number("timeout ms", e, "timeoutMs");
    print_field("expected answers", member(cli, e, "expectedStatuses"));
    print_fares(cli, e);
    return 0;
}

static int show(struct cli *cli)
{
    return ask_and_print(cli, "GET", "", print_endpoint);
}

/* ---- made and changed ---- */

static const struct cli_field fields[] = {
    { "to", "url", FIELD_TEXT },
    { "method", "method", FIELD_TEXT },
    { "body", "body", FIELD_BODY },
    { "timeout-ms", "timeoutMs", FIELD_NUMBER },
    { "expect", "expectedStatuses", FIELD_LIST },
    { "name", "name", FIELD_TEXT },
    { "cron", "cron", FIELD_TEXT },
    { "every", "everyMs", FIELD_EVERY },
    { "tz", "timeZone", FIELD_TEXT },
    { "start-at", "startAt", FIELD_TEXT },
    { "end-at", "endAt", FIELD_TEXT },
    { "jitter-ms", "jitterMs", FIELD_NUMBER },
    { "overlap", "overlap", FIELD_TEXT },
    { "misfire", "misfire", FIELD_TEXT },
    { "queue", "queue", FIELD_TEXT },
    { "metadata", "metadata", FIELD_JSON },
    { "unique-key", "uniqueKey", FIELD_TEXT },
    { "priority", "priority", FIELD_NUMBER },
    { "max-retries", "maxRetries", FIELD_NUMBER },
    { "retry-delays", "retryDelaysSeconds", FIELD_DELAYS },
    { "max-execution-time-ms", "maxExecutionTimeMs", FIELD_NUMBER },
    { "expire-ms", "expireMs", FIELD_NUMBER },
    { "on-crash", "onCrash", FIELD_TEXT },
    { 0 },
};

static int print_made(struct cli *cli, struct slice endpoint)
{
    schedule_print_made(cli, "Endpoint", endpoint);
    return 0;
}

/* What was given, as a body; `there` is the endpoint that is to be changed, absent if it
 * is to be made. */
static int write_endpoint(struct cli *cli, struct slice there, struct buf *body,
                          struct slice *ret)
{
    struct json_writer w = json_writer(body);

    json_begin_object(&w);
    if (!there.p) {
        json_put_text(&w, "name", cli->args[1]);
        json_put_text(&w, "url", cli->args[2]);
    }
    int r = cli_put_fields(cli, &w, fields, !there.p);
    if (r == 0)
        r = cli_put_headers(cli, &w, true,
                            there.p ? member_raw(there, "headers") : there);
    json_end_object(&w);
    return r < 0 ? r : buf_end(body, ret);
}

static int add(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    const char *project = cli_option(cli, "project");
    struct slice text = { 0 };

    buf_init(&body, (size_t)8 << 20);
    int r = cli_name(cli, "project", project ? project : "default");
    if (r == 0)
        r = write_endpoint(cli, (struct slice){ 0 }, &body, &text);
    if (r < 0)
        return r;
    struct ask ask =
        ask_for("POST", "projects/%s/endpoints", project ? project : "default");
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_made);
}

static int set(struct cli *cli)
{
    cleanup(buf_release) struct buf body, answer;
    struct slice there = { 0 }, text = { 0 };
    struct ask ask;

    buf_init(&body, (size_t)8 << 20);
    buf_init(&answer, CLI_ANSWER_BYTES);
    int r = endpoint_ask(cli, "GET", "", &ask);
    if (r == 0)
        r = cli_ask(cli, &ask, &answer, &there);
    if (r == 0)
        r = write_endpoint(cli, there, &body, &text);
    if (r < 0)
        return r;
    ask.method = "PATCH";
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_made);
}

/* ---- acts ---- */

static int pause_endpoint(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct slice text = { 0 };
    struct ask ask;

    int r = schedule_write_pause(cli, &body, &text);
    if (r == 0)
        r = endpoint_ask(cli, "POST", "/pause", &ask);
    if (r < 0)
        return r;
    ask.body = text;
    return cli_ask_and_print(cli, &ask, schedule_print_paused);
}

static int resume_endpoint(struct cli *cli)
{
    return ask_and_print(cli, "POST", "/resume", schedule_print_paused);
}

static int delete (struct cli *cli)
{
    struct ask ask;
    int r = endpoint_ask(cli, "DELETE", "", &ask);
    return r < 0 ? r : cli_delete(cli, &ask, "Endpoint", "");
}

/* ---- called now, and how it went ---- */

/* Its job; with --wait-ms when it is over, and whether it has worked.  A retry of it may
 * come a long time after: whoever waits here wants to know of this call. */
static int run(struct cli *cli)
{
    cleanup(buf_release) struct buf answer, last;
    struct slice job = { 0 };
    struct ask ask;
    int64_t wait_ms = -1;

    buf_init(&answer, CLI_ANSWER_BYTES);
    buf_init(&last, CLI_ANSWER_BYTES);
    int r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    if (r == 0)
        r = endpoint_ask(cli, "POST", "/run", &ask);
    if (r == 0)
        r = cli_ask(cli, &ask, &answer, &job);
    if (r == 0 && wait_ms >= 0)
        r = job_wait(cli, member_int(job, "id"), false, wait_ms, &last, &job);
    if (r < 0)
        return r;
    if (cli->json)
        print_json(job);
    else if (wait_ms >= 0)
        r = job_print(cli, job);
    else
        printf("%s\n", member(cli, job, "id"));
    return r < 0 || wait_ms < 0 || member_is(job, "state", "completed") ? r : CLI_NO;
}

static int print_runs(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "JOB",     "STATE",  "ATTEMPT", "STARTED",
                                          "TOOK MS", "ANSWER", "ERROR",   NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice run;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &run)) {
        struct slice response = member_raw(run, "response");
        struct slice error = member_raw(run, "error");
        table_text(&table, member(cli, run, "jobId"));
        table_text(&table, member(cli, run, "state"));
        table_text(&table, member(cli, run, "attempt"));
        table_time(&table, member(cli, run, "startedAt"));
        table_text(&table, member(cli, run, "durationMs"));
        table_text(&table, response.p ? member(cli, response, "status") : NULL);
        table_text(&table, error.p ? member(cli, error, "message") : NULL);
    }
    return table_print_page(
        cli, &table, answer,
        "No runs so far. Call it now: holdfast endpoints run NAME --wait-ms 60000");
}

static int runs(struct cli *cli)
{
    struct ask ask;
    int r = endpoint_ask(cli, "GET", "/runs", &ask);
    if (r < 0)
        return r;
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return cli_ask_and_print(cli, &ask, print_runs);
}

/* ---- the actions ---- */

/* clang-format off */
static const struct cli_option endpoint_options[] = {
    { "project", "NAME", "the project; default for a new one", 0 },
    { "to", "URL", "set: call this", 0 },
    { "method", "WORD", "GET, PUT, ...; POST", 0 },
    { "header", "'NAME: VALUE'", "sent along, may be many; 'NAME:' takes it away", .many = true },
    { "secret-header", "@FILE", "'NAME: VALUE', or lines of it; never shown", .many = true },
    { "body", "TEXT|@FILE", "sent as it is; JSON if it is {} or []", 0 },
    { "timeout-ms", "N", "for an answer; the deadline of a run", 0 },
    { "expect", "LIST", "answers that are good, as 200,404-410; 200-299", 0 },
    { "cron", "EXPR", "when: five fields, six with seconds, or @daily", 0 },
    { "every", "TIME", "instead of --cron: 90s, 5m, 12h, 1d", 0 },
    { "tz", "ZONE", "the time zone of --cron, as Europe/Berlin; UTC", 0 },
    { "start-at", "TIME", "no fire times before it", 0 },
    { "end-at", "TIME", "no fire times after it", 0 },
    { "jitter-ms", "N", "each call waits for up to this long, by chance", 0 },
    { "overlap", "WORD", "while a call of it is under way: skip or queue", 0 },
    { "misfire", "WORD", "what passed while down: once, skip or all", 0 },
    { "name", "NAME", "set: call it this", 0 },
    { "queue", "NAME", "of its jobs", 0 },
    { "metadata", "JSON", "of its jobs: an object of strings", 0 },
    { "unique-key", "TEXT", "of its jobs", 0 },
    { "priority", "N", "of its jobs: 9 is first, 1 is last", 0 },
    { "max-retries", "N", "of its jobs: 0 to 100", 0 },
    { "retry-delays", "LIST", "of its jobs: seconds, as 60,300,900", 0 },
    { "max-execution-time-ms", "N", "the deadline of a run, up to 1800000; 60000", 0 },
    { "expire-ms", "N", "cancel a job that nobody starts for so long", 0 },
    { "on-crash", "WORD", "of its jobs: retry or fail", 0 },
    { "reason", "TEXT", "pause: shown to whoever wonders", 0 },
    { "until", "TIME", "pause: it goes on by itself then", 0 },
    { "wait-ms", "N", "run: wait for the outcome, and show it", 0 },
    { "limit", "N", "list, runs: how many, up to 1000; 50", 0 },
    { "cursor", "ID", "list, runs: go on where the last page ended", 0 },
    { 0 },
};

#define ENDPOINT_OPTIONS                                                                 \
    " project method header secret-header body timeout-ms expect cron every tz "     \
    "start-at end-at jitter-ms overlap misfire queue metadata unique-key priority "      \
    "max-retries retry-delays max-execution-time-ms expire-ms on-crash "

static const struct action endpoint_actions[] = {
    { "list", "", "all of them, or those of --project", 0, 0,
      " project limit cursor ", endpoint_list },
    { "show", "NAME", "everything about one, and how it fares", 1, 1, " project ", show },
    { "add", "NAME URL", "make one: --cron or --every, or run it by hand", 2, 2,
      ENDPOINT_OPTIONS, add },
    { "set", "NAME", "change what is given; '' puts the default back", 1, 1,
      " name to " ENDPOINT_OPTIONS, set },
    { "run", "NAME", "call it now, and print the job's id", 1, 1, " project wait-ms ", run },
    { "runs", "NAME", "how its calls went, the latest first", 1, 1,
      " project limit cursor ", runs },
    { "pause", "NAME", "skip its fire times, until --until or resume", 1, 1,
      " project reason until ", pause_endpoint },
    { "resume", "NAME", "let it go on", 1, 1, " project ", resume_endpoint },
    { "delete", "NAME", "delete it; calls that still wait will fail", 1, 1, " project ", delete },
    { 0 },
};

const struct subcommand endpoint_commands[] = {
    { "endpoints", "[ACTION [NAME...]]", "URLs that are called on a schedule: list, add, run, ...", 0, INT_MAX,
      .actions = endpoint_actions,
      .note = "NAME is an endpoint's name or id",
      .place = SERVER, .options = endpoint_options, .run = cli_act },
    { 0 },
};
/* clang-format on */
