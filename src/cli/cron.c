/* SPDX-License-Identifier: Apache-2.0
 *
 * cron.c -- cron next: when an expression fires, shown to anyone who wonders. */
#include <inttypes.h>
#include <stdio.h>

#include "base/calendar.h"
#include "base/clock.h"
#include "base/cron.h"
#include "base/text.h"
#include "cli.h"

enum { DEFAULT_FIRES = 10, LIMIT_FIRES = 100000, LOCAL_TEXT_BYTES = 80 };

static const struct cli_option cron_options[] = {
    { "tz", "ZONE", "the time zone, such as Europe/Berlin; UTC", 0 },
    { "from", "TIME", "fires after this, as 2026-08-01T12:00:00Z; now", 0 },
    { "count", "N", "how many fires; 10", 'n' },
    { 0 },
};

/* "Sun 2026-03-29 03:00:00 +02:00 CEST" */
static const char *local_text(const struct tz *tz, int64_t time_us,
                              char out[LOCAL_TEXT_BYTES])
{
    static const char weekdays[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    int64_t utc_s = time_us / US_PER_S - (time_us % US_PER_S < 0);
    struct tz_period period = tz_at(tz, utc_s);
    int64_t days = days_of_seconds(utc_s + period.offset_s);
    int time = (int)(utc_s + period.offset_s - days * SECONDS_PER_DAY);
    int offset = abs(period.offset_s);
    struct date date = date_of_days(days);

    int n = snprintf(out, LOCAL_TEXT_BYTES,
                     "%s %04" PRId64 "-%02d-%02d %02d:%02d:%02d %c%02d:%02d",
                     weekdays[weekday_of_days(days)], date.year, date.month, date.day,
                     time / 3600, time / 60 % 60, time % 60,
                     period.offset_s < 0 ? '-' : '+', offset / 3600, offset / 60 % 60);
    assert(n > 0 && n < LOCAL_TEXT_BYTES / 2);
    if (offset % 60) /* local mean time, long ago */
        n += snprintf(out + n, LOCAL_TEXT_BYTES - (size_t)n, ":%02d", offset % 60);
    /* Where a zone has no word of its own, the word is the offset once more. */
    if (period.abbreviation[0] != '+' && period.abbreviation[0] != '-')
        snprintf(out + n, LOCAL_TEXT_BYTES - (size_t)n, " %s", period.abbreviation);
    return out;
}

static int print_fires(const struct cron *cron, const struct tz *tz, int64_t at_us,
                       int64_t count)
{
    static const char *const titles[] = { "LOCAL", "UTC", NULL };
    char local[LOCAL_TEXT_BYTES], utc[TIME_TEXT_BYTES];
    struct table table;
    int64_t n = 0;

    table_init(&table, titles);
    for (; n < count && cron_next(cron, tz, at_us, &at_us); n++) {
        table_text(&table, local_text(tz, at_us, local));
        table_text(&table, time_text(at_us, utc));
    }
    int r = n > 0 ? table_print(&table) : 0;
    if (n == 0)
        buf_release(&table.cells);
    if (n < count)
        printf(n > 0 ? "It never fires again.\n" : "It never fires.\n");
    return r;
}

static int print_fires_json(const struct cron *cron, const struct tz *tz, int64_t at_us,
                            int64_t count)
{
    char text[TIME_TEXT_BYTES];
    struct buf buf;

    buf_init(&buf, CLI_ANSWER_BYTES);
    struct json_writer w = json_writer(&buf);
    json_begin_array(&w);
    for (int64_t n = 0; n < count && cron_next(cron, tz, at_us, &at_us); n++)
        json_str(&w, slice_of(time_text(at_us, text)));
    json_end_array(&w);
    json_finish(&w);
    return print_json_buf(&buf);
}

static int next_fires(struct cli *cli)
{
    const char *zone = cli_option(cli, "tz"), *from = cli_option(cli, "from");
    int64_t from_us = clock_wall_us(&clock_system), count = DEFAULT_FIRES;
    struct tz *tz = NULL;
    struct cron cron;

    if (strcmp(cli->args[0], "next") != 0)
        return cli_refuse(cli, "cron can show what is \"next\", not \"%s\".",
                          cli->args[0]);
    int r = cli_number(cli, "count", 1, LIMIT_FIRES, &count);
    if (r < 0)
        return r;
    if (from && time_parse(slice_of(from), &from_us) < 0)
        return cli_refuse(cli,
                          "--from is \"%s\"; it takes a time with its offset, such as "
                          "2026-08-01T12:00:00Z.",
                          from);
    r = cron_parse(slice_of(cli->args[1]), &cli->error, &cron);
    if (r == 0)
        r = tz_load(NULL, slice_of(zone ? zone : "UTC"), &cli->error, &tz);
    if (r < 0)
        return r;
    r = cli->json ? print_fires_json(&cron, tz, from_us, count)
                  : print_fires(&cron, tz, from_us, count);
    tz_free(tz);
    return r;
}

/* clang-format off */
const struct subcommand cron_commands[] = {
    { "cron", "next EXPRESSION", "show when a cron expression fires", 2, 2,
      .options = cron_options, .run = next_fires },
    { 0 },
};
/* clang-format on */
