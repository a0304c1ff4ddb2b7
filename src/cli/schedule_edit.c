/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_edit.c -- schedules add and set: options to the fields of a schedule. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/schedules.h"

static const struct cli_field fields[] = {
    { "cron", "cron", FIELD_TEXT },
    { "every", "everyMs", FIELD_EVERY },
    { "tz", "timeZone", FIELD_TEXT },
    { "start-at", "startAt", FIELD_TEXT },
    { "end-at", "endAt", FIELD_TEXT },
    { "jitter-ms", "jitterMs", FIELD_NUMBER },
    { "overlap", "overlap", FIELD_TEXT },
    { "misfire", "misfire", FIELD_TEXT },
    { "name", "name", FIELD_TEXT },
    { "kind", "kind", FIELD_TEXT },
    { "queue", "queue", FIELD_TEXT },
    { "payload", "payload", FIELD_JSON },
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

/* ---- add and set ---- */

void schedule_print_made(struct cli *cli, const char *what, struct slice s)
{
    const char *next = member(cli, s, "nextFireAt");
    printf("%s %s (%s): %s%s%s\n", what, member(cli, s, "name"), member(cli, s, "id"),
           schedule_when_text(cli, s), next ? ", next at " : "", next ? next : "");
}

static int print_made(struct cli *cli, struct slice schedule)
{
    schedule_print_made(cli, "Schedule", schedule);
    return 0;
}

int schedule_add(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct ask ask = ask_for("POST", "schedules");

    buf_init(&body, (size_t)8 << 20);
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    json_put_text(&w, "name", cli->args[1]);
    cli_put_text(cli, &w, "project", "project");
    if (cli_option(cli, "paused"))
        json_put_bool(&w, "paused", true);
    int r = cli_put_fields(cli, &w, fields, true);
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&body, &ask.body);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_made);
}

int schedule_set(struct cli *cli)
{
    cleanup(buf_release) struct buf body, answer;
    struct slice schedule = { 0 }, text = { 0 };

    buf_init(&answer, CLI_ANSWER_BYTES);
    buf_init(&body, (size_t)8 << 20);
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    int r = cli_put_fields(cli, &w, fields, false);
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&body, &text);
    if (r == 0)
        r = schedule_find(cli, "schedule", cli->args[1], &answer, &schedule);
    if (r < 0)
        return r;
    struct ask ask = ask_for("PATCH", "schedules/%" PRId64, member_int(schedule, "id"));
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_made);
}
