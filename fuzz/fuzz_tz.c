/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a zone's file: refused with a sentence, or a zone whose periods follow
 * one another without a hole, in which every local time is reached when it should be,
 * and in which a schedule's next fire is found. */
#include <stdio.h>

#include "base/cron.h"
#include "base/limits.h"
#include "base/tz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool held, const char *what)
{
    if (!held) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void look(const struct tz *tz, int64_t utc_s)
{
    struct tz_period p = tz_at(tz, utc_s);
    int64_t local_s = utc_s + p.offset_s, latest_s = tz_latest_local(tz, utc_s);
    struct tz_reached reached = tz_reach(tz, local_s);

    expect(p.start_s <= utc_s && utc_s < p.end_s, "an instant outside its period");
    expect(p.end_s == INT64_MAX || tz_at(tz, p.end_s).start_s == p.end_s, "a hole");
    expect(p.start_s == INT64_MIN || tz_at(tz, p.start_s - 1).end_s == p.start_s,
           "a hole");
    expect(p.abbreviation[0] == '\0' || strlen(p.abbreviation) <= LIMIT_ZONE_WORD_BYTES,
           "an endless abbreviation");
    expect(latest_s >= local_s, "more is shown than was");
    expect(reached.utc_s <= utc_s, "what is shown was not reached");
    expect(reached.gap_s > 0 ||
               reached.utc_s + tz_at(tz, reached.utc_s).offset_s == local_s,
           "reached, and something else is shown");
    expect(tz_reach(tz, latest_s + 1).utc_s > utc_s, "reached before it was shown");
}

static void schedule(const struct tz *tz, const char *text, int64_t after_us)
{
    struct cron cron;

    if (cron_parse(slice_of(text), NULL, &cron) < 0)
        abort();
    for (int i = 0; i < 20; i++) {
        int64_t next_us = after_us;
        if (!cron_next(&cron, tz, after_us, &next_us))
            return;
        expect(next_us > after_us, "a fire that is not later");
        look(tz, next_us / US_PER_S);
        after_us = next_us;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t years[] = { -60000000000, -2000000000, 0,
                                     1774746000,   4000000000,  200000000000 };
    struct error error = { 0 };
    struct tz *tz = NULL;

    if (tz_read(SLICE("Test/Zone"), (struct slice){ (const char *)data, size }, &error,
                &tz) < 0) {
        expect(error.text[0] && !tz, "refused without a sentence");
        return 0;
    }
    for (size_t i = 0; i < array_len(years); i++) {
        int64_t at_s = years[i];
        for (int n = 0; n < 10 && at_s < 250000000000; n++) {
            int64_t end_s = tz_at(tz, at_s).end_s;
            look(tz, at_s);
            look(tz, at_s - 1);
            at_s = end_s;
        }
        schedule(tz, "30 2 * * *", years[i] * US_PER_S);
        schedule(tz, "*/30 1-3 29 2 *", years[i] * US_PER_S);
    }
    tz_free(tz);
    return 0;
}
