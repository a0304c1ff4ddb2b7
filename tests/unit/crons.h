/* SPDX-License-Identifier: Apache-2.0
 *
 * crons.h -- expressions, zones and times in short, and stories of fires. */
#pragma once

#include <stdio.h>

#include "base/cron.h"
#include "base/text.h"
#include "test.h"

static inline struct cron parse(const char *text)
{
    struct error error = { 0 };
    struct cron cron;

    if (cron_parse(slice_of(text), &error, &cron) < 0)
        fail("%s", error.text);
    return cron;
}

static inline struct tz *load(const char *name)
{
    struct error error = { 0 };
    struct tz *tz = NULL;

    if (tz_load(NULL, slice_of(name), &error, &tz) < 0)
        fail("%s", error.text);
    return tz;
}

static inline int64_t utc_us(const char *text)
{
    char whole[64];
    int64_t us;

    snprintf(whole, sizeof(whole), "%s%s", text, strlen(text) == 16 ? ":00Z" : "Z");
    if (time_parse(slice_of(whole), &us) < 0)
        fail("%s is no time", whole);
    return us;
}

/* Fires one after another, as UTC to the minute (or the second), from the first after
 * a time; "never" ends the row. */
struct story {
    const char *cron, *zone, *after;
    const char *fires[8];
};

static inline void tell(const struct story *story)
{
    struct cron cron = parse(story->cron);
    struct tz *tz = load(story->zone);
    int64_t at_us = utc_us(story->after);

    for (size_t i = 0; i < array_len(story->fires) && story->fires[i]; i++) {
        char got[TIME_TEXT_BYTES];
        bool found = cron_next(&cron, tz, at_us, &at_us);
        if (strcmp(story->fires[i], "never") == 0) {
            check(!found);
            break;
        }
        if (!found || at_us != utc_us(story->fires[i]))
            fail("%s in %s: fire %zu is %s, not %s", story->cron, story->zone, i,
                 found ? time_text(at_us, got) : "never", story->fires[i]);
    }
    tz_free(tz);
}

static inline void tell_all(const struct story *stories, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tell(&stories[i]);
}
