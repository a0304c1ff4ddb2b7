/* SPDX-License-Identifier: Apache-2.0
 *
 * The defaults of the manual, and the edges of every range: the last good value
 * passes, the next is refused with a sentence that names the setting as the
 * operator wrote it. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/settings.h"
#include "test.h"

#define MS 1000
#define S 1000000
#define DAY (INT64_C(86400) * 1000000)

/* What the manual says, written down a second time. */
struct expected {
    const char *name;
    size_t offset, size;
    int64_t unit;
    int64_t initial, least, most; /* in units */
};

#define ROW(name, member, unit, initial, least, most)                                    \
    {                                                                                    \
        name, offsetof(struct settings, member), sizeof(((struct settings *)0)->member), \
            unit, initial, least, most                                                   \
    }

/* clang-format off */
static const struct expected numbers[] = {
    ROW("lease_ms",                   lease_us,               MS,  30000,   1000, 600000),
    ROW("poll_interval_ms",           poll_interval_us,       MS,  1000,    10,   60000),
    ROW("cleanup_interval_ms",        cleanup_interval_us,    MS,  300000,  1000, 86400000),
    ROW("zombie_run_threshold_ms",    zombie_threshold_us,    MS,  3600000, 1000, 604800000),
    ROW("startup_stagger_seconds",    startup_stagger_us,     S,   1,       0,    60),
    ROW("startup_window_seconds",     startup_window_us,      S,   60,      0,    3600),
    ROW("startup_burst_limit",        startup_burst_limit,    1,   5,       1,    1000),
    ROW("shutdown_grace_ms",          shutdown_grace_us,      MS,  10000,   0,    600000),
    ROW("crash_limit",                crash_limit,            1,   3,       1,    100),
    ROW("claim_batch",                claim_batch,            1,   0,       0,    1000),
    ROW("retention_completed_days",   retention_completed_us, DAY, 0,       0,    36500),
    ROW("retention_failed_days",      retention_failed_us,    DAY, 0,       0,    36500),
    ROW("max_payload_bytes",          max_payload_bytes,      1,   1048576, 1,    1048576),
    ROW("slots",                      slots,                  1,   10,      0,    10000),
    ROW("stale_after_ms",             stale_after_us,         MS,  1800000, 1000, 604800000),
    ROW("max_retries",                max_retries,            1,   3,       0,    100),
    ROW("max_execution_time_ms",      max_execution_us,       MS,  1800000, 1,    604800000),
    ROW("http_max_execution_time_ms", http_max_execution_us,  MS,  60000,   1,    1800000),
};
/* clang-format on */

static int64_t read_member(const struct settings *settings, const struct expected *row)
{
    const char *at = (const char *)settings + row->offset;
    int64_t wide;
    int narrow;

    if (row->size == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    check_int(row->size, sizeof(narrow));
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static void write_member(struct settings *settings, const struct expected *row, int64_t n)
{
    char *at = (char *)settings + row->offset;
    int narrow = (int)n;

    memcpy(at, row->size == sizeof(n) ? (void *)&n : (void *)&narrow, row->size);
}

/* The default settings with one number changed. */
static struct settings with(const struct expected *row, int64_t stored)
{
    struct settings settings;

    settings_default(&settings);
    write_member(&settings, row, stored);
    return settings;
}

static void check_refused(const struct settings *settings, const char *name,
                          const char *sentence)
{
    struct error error = { 0 };

    check_err(settings_check(settings, &error), -HF_INVALID);
    check_int(error.code, -HF_INVALID);
    check_str(error.field, name);
    check_str(error.text, sentence);
    check_err(settings_check(settings, NULL), -HF_INVALID);
}

static void check_accepted(const struct settings *settings)
{
    struct error error = { 0 };

    check_ok(settings_check(settings, &error));
    check_int(error.code, 0);
}

TEST(the_defaults_are_those_of_the_manual)
{
    struct settings settings;

    memset(&settings, 0xA5, sizeof(settings));
    settings_default(&settings);
    for (size_t i = 0; i < array_len(numbers); i++)
        if (read_member(&settings, &numbers[i]) != numbers[i].initial * numbers[i].unit)
            fail("%s is not %" PRId64, numbers[i].name, numbers[i].initial);
    check_int(settings.startup_throttle, THROTTLE_AUTO);
    check_int(settings.recovery_on_startup, true);
    check_int(settings.recovery_action, RECOVERY_RETRY);
    check_int(settings.event_level, EVENTS_NOTABLE);
    check_str(settings.retry_delays, "60,300,900");
}

TEST(the_defaults_are_accepted)
{
    struct settings settings;

    settings_default(&settings);
    check_accepted(&settings);
}

TEST(the_edges_of_every_range_are_accepted)
{
    for (size_t i = 0; i < array_len(numbers); i++) {
        const struct expected *row = &numbers[i];
        struct settings settings = with(row, row->least * row->unit);
        check_accepted(&settings);
        settings = with(row, row->most * row->unit);
        check_accepted(&settings);
    }
}

TEST(one_beyond_every_edge_is_refused_with_the_range)
{
    char sentence[200];

    for (size_t i = 0; i < array_len(numbers); i++) {
        const struct expected *row = &numbers[i];
        const int64_t beyond[] = { row->least - 1, row->most + 1 };
        for (size_t j = 0; j < array_len(beyond); j++) {
            struct settings settings = with(row, beyond[j] * row->unit);
            snprintf(sentence, sizeof(sentence),
                     "%s is %" PRId64 "; it must be between %" PRId64 " and %" PRId64 ".",
                     row->name, beyond[j], row->least, row->most);
            check_refused(&settings, row->name, sentence);
        }
    }
}

TEST(the_least_step_beyond_an_edge_is_shown_as_a_fraction)
{
    struct settings settings;

    settings_default(&settings);
    settings.lease_us = 1000 * MS - 1;
    check_refused(&settings, "lease_ms",
                  "lease_ms is 999.999; it must be between 1000 and 600000.");
    settings_default(&settings);
    settings.startup_stagger_us = 60 * S + 500000;
    check_refused(&settings, "startup_stagger_seconds",
                  "startup_stagger_seconds is 60.5; it must be between 0 and 60.");
    settings.startup_stagger_us = -1;
    check_refused(&settings, "startup_stagger_seconds",
                  "startup_stagger_seconds is -0.000001; it must be between 0 and 60.");
}

TEST(a_stagger_of_half_a_second_is_fine)
{
    struct settings settings;

    settings_default(&settings);
    settings.startup_stagger_us = 500000;
    check_accepted(&settings);
}

TEST(the_most_extreme_numbers_are_refused_without_harm)
{
    for (size_t i = 0; i < array_len(numbers); i++) {
        const struct expected *row = &numbers[i];
        const int64_t extremes[] = { row->size == 8 ? INT64_MIN : INT32_MIN,
                                     row->size == 8 ? INT64_MAX : INT32_MAX };
        for (size_t j = 0; j < array_len(extremes); j++) {
            struct settings settings = with(row, extremes[j]);
            struct error error = { 0 };
            check_err(settings_check(&settings, &error), -HF_INVALID);
            check_str(error.field, row->name);
        }
    }
}

TEST(a_word_out_of_range_is_refused_with_the_words)
{
    struct settings settings;

    settings_default(&settings);
    settings.startup_throttle = (enum throttle_mode)3;
    check_refused(&settings, "startup_throttle",
                  "startup_throttle is none of its words (number 3); it must be auto, "
                  "always or never.");
    settings_default(&settings);
    settings.recovery_action = (enum recovery_action) - 1;
    check_refused(&settings, "recovery_action",
                  "recovery_action is none of its words (number -1); it must be retry or "
                  "fail.");
    settings_default(&settings);
    settings.event_level = (enum event_level)2;
    check_refused(&settings, "event_level",
                  "event_level is none of its words (number 2); it must be notable or "
                  "all.");
}

TEST(every_word_is_accepted)
{
    struct settings settings;

    settings_default(&settings);
    for (int i = THROTTLE_AUTO; i <= THROTTLE_NEVER; i++) {
        settings.startup_throttle = (enum throttle_mode)i;
        check_accepted(&settings);
    }
    settings.recovery_action = RECOVERY_FAIL;
    check_accepted(&settings);
    settings.event_level = EVENTS_EVERY;
    check_accepted(&settings);
    settings.recovery_on_startup = false;
    check_accepted(&settings);
}

TEST(a_malformed_list_of_delays_is_refused_with_the_text)
{
    static const char *const malformed[] = { "", "soon", "60,", "60,,300", "-1", "1.5" };
    struct settings settings;
    char sentence[400];

    for (size_t i = 0; i < array_len(malformed); i++) {
        settings_default(&settings);
        snprintf(settings.retry_delays, sizeof(settings.retry_delays), "%s",
                 malformed[i]);
        snprintf(sentence, sizeof(sentence),
                 "retry_delays_seconds is \"%s\"; it must be 1 to 20 whole numbers of "
                 "seconds from 0 to 2592000, such as 60,300,900; or "
                 "exp:BASE:CAP:JITTER, such as exp:10:3600:20.",
                 malformed[i]);
        check_refused(&settings, "retry_delays_seconds", sentence);
    }
}

TEST(a_list_of_delays_that_never_ends_is_refused)
{
    struct settings settings;
    struct error error = { 0 };

    settings_default(&settings);
    memset(settings.retry_delays, '1', sizeof(settings.retry_delays)); /* no NUL */
    check_err(settings_check(&settings, &error), -HF_INVALID);
    check_str(error.field, "retry_delays_seconds");
}

TEST(an_exponential_policy_is_accepted)
{
    struct settings settings;

    settings_default(&settings);
    strcpy(settings.retry_delays, "exp:10:3600:20");
    check_accepted(&settings);
}
