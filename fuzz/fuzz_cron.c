/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as a cron expression: refused with a sentence that blames "cron", or one
 * whose fires come one after another, at times that its sets have. */
#include <stdio.h>

#include "base/calendar.h"
#include "base/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool held, const char *what)
{
    if (!held) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* In UTC clocks never jump, so a fire is always at one of its times. */
static void check_fire(const struct cron *cron, int64_t time_us)
{
    int64_t days = days_of_seconds(time_us / US_PER_S);
    int64_t second = time_us / US_PER_S - days * SECONDS_PER_DAY;

    expect(time_us % US_PER_S == 0, "between two seconds");
    expect(cron->hours >> (second / 3600) & 1, "another hour");
    expect(cron->minutes >> (second / 60 % 60) & 1, "another minute");
    expect(cron->seconds >> (second % 60) & 1, "another second");
    expect(cron->months >> date_of_days(days).month & 1, "another month");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tz *berlin; /* kept for all runs */
    struct error error = { 0 };
    struct cron cron;

    if (!berlin && tz_load(NULL, SLICE("Europe/Berlin"), NULL, &berlin) < 0 &&
        tz_load(NULL, SLICE("UTC"), NULL, &berlin) < 0)
        abort();
    if (cron_parse((struct slice){ (const char *)data, size }, &error, &cron) < 0) {
        expect(strncmp(error.text, "cron: ", 6) == 0, "refused without a sentence");
        expect(strcmp(error.field, "cron") == 0, "nobody to blame");
        return 0;
    }
    int64_t at_us = 1774742400 * US_PER_S, local_us = at_us;
    for (int i = 0; i < 20; i++) {
        int64_t before_us = at_us, local_before_us = local_us;
        bool more = cron_next(&cron, tz_utc(), at_us, &at_us);
        bool local_more = cron_next(&cron, berlin, local_us, &local_us);
        /* What follows real time may always be in the hour that is skipped. */
        expect(more == local_more || !cron.is_fixed, "never in one zone only");
        if (!more || !local_more)
            return 0;
        expect(at_us > before_us && local_us > local_before_us, "not later");
        check_fire(&cron, at_us);
    }
    return 0;
}
