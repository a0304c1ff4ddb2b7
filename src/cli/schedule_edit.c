/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_edit.c -- schedules add and set: options to the fields of a schedule. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/schedules.h"

/* "90s" to milliseconds; false if it is none. */
static bool parse_interval(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {
        { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }
    };
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 12)
        return false;
    for (size_t i = 0; i < array_len(units); i++)
        if (strcmp(text + digits, units[i].unit) == 0) {
            *ret_ms = strtoll(text, NULL, 10) * units[i].ms;
            return true;
        }
    return false;
}

int schedule_put_every(struct cli *cli, struct json_writer *w)
{
    const char *text = cli_option(cli, "every");
    int64_t ms = 0;

    if (!text)
        return 0;
    if (!parse_interval(text, &ms))
        return cli_refuse(cli,
                          "--every is \"%s\"; it must be a number with a unit out of ms, "
                          "s, m, h and d, such as 90s.",
                          text);
    json_put_int(w, "everyMs", ms);
    return 0;
}

/* ---- fields ---- */

enum field_type { TEXT, NUMBER, JSON, DELAYS, EVERY };

static const struct field {
    const char *option, *field;
    enum field_type type;
} fields[] = {
    { "cron", "cron", TEXT },
    { "every", "everyMs", EVERY },
    { "tz", "timeZone", TEXT },
    { "start-at", "startAt", TEXT },
    { "end-at", "endAt", TEXT },
    { "jitter-ms", "jitterMs", NUMBER },
    { "overlap", "overlap", TEXT },
    { "misfire", "misfire", TEXT },
    { "name", "name", TEXT },
    { "kind", "kind", TEXT },
    { "queue", "queue", TEXT },
    { "payload", "payload", JSON },
    { "metadata", "metadata", JSON },
    { "unique-key", "uniqueKey", TEXT },
    { "priority", "priority", NUMBER },
    { "max-retries", "maxRetries", NUMBER },
    { "retry-delays", "retryDelaysSeconds", DELAYS },
    { "max-execution-time-ms", "maxExecutionTimeMs", NUMBER },
    { "expire-ms", "expireMs", NUMBER },
    { "on-crash", "onCrash", TEXT },
};

static int put_field(struct cli *cli, struct json_writer *w, const struct field *field)
{
    switch (field->type) {
    case TEXT:
        cli_put_text(cli, w, field->option, field->field);
        return 0;
    case NUMBER:
        return cli_put_number(cli, w, field->option, field->field);
    case JSON:
        return cli_put_json(cli, w, field->field,
                            slice_of(cli_option(cli, field->option)));
    case DELAYS:
        return cli_put_delays(cli, w);
    default:
        return schedule_put_every(cli, w);
    }
}

/* Of a schedule that is there, '' puts the default back. */
static int put_fields(struct cli *cli, struct json_writer *w, bool is_new)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_len(fields); i++) {
        const char *value = cli_option(cli, fields[i].option);
        if (value && !value[0] && !is_new)
            json_put_null(w, fields[i].field);
        else if (value)
            r = put_field(cli, w, &fields[i]);
    }
    return r;
}

/* ---- add and set ---- */

static int print_made(struct cli *cli, struct slice s)
{
    const char *next = member(cli, s, "nextFireAt");
    printf("Schedule %s (%s): %s%s%s\n", member(cli, s, "name"), member(cli, s, "id"),
           schedule_when_text(cli, s), next ? ", next at " : "", next ? next : "");
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
    int r = put_fields(cli, &w, true);
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
    int r = put_fields(cli, &w, false);
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&body, &text);
    if (r == 0)
        r = schedule_find(cli, cli->args[1], &answer, &schedule);
    if (r < 0)
        return r;
    struct ask ask = ask_for("PATCH", "schedules/%" PRId64, member_int(schedule, "id"));
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_made);
}
