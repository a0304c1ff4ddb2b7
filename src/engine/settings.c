/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c -- one table: the name, unit, default and range of every knob.
 *
 * The ranges keep out what is surely a slip (a lease of 10 ms, a grace period
 * of a day); inside them the operator is right. */
#include "engine/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/limits.h"
#include "engine/retry.h"

enum type { TYPE_INT64, TYPE_INT, TYPE_BOOL, TYPE_WORD, TYPE_POLICY };

struct setting {
    const char *name; /* in the configuration; its last word is the unit */
    size_t offset;    /* in struct settings */
    enum type type;
    int64_t unit;                 /* what is stored for 1 of the configuration */
    int64_t initial, least, most; /* as stored */
    const char *const *words;     /* by their number, then NULL */
    const char *text;             /* initial, of a policy */
};

static const char *const throttle_words[] = {
    [THROTTLE_AUTO] = "auto",
    [THROTTLE_ALWAYS] = "always",
    [THROTTLE_NEVER] = "never",
    NULL,
};
static const char *const action_words[] = {
    [RECOVERY_RETRY] = "retry",
    [RECOVERY_FAIL] = "fail",
    NULL,
};
static const char *const level_words[] = {
    [EVENTS_NOTABLE] = "notable",
    [EVENTS_EVERY] = "all",
    NULL,
};

#define AT(member) offsetof(struct settings, member)
#define NUMBER(name, member, unit, initial, least, most)                                 \
    {                                                                                    \
        name, AT(member), TYPE_INT64, unit, (initial) * (unit), (least) * (unit),        \
            (most) * (unit), NULL, NULL                                                  \
    }
#define SMALL(name, member, initial, least, most)                                        \
    {                                                                                    \
        name, AT(member), TYPE_INT, 1, initial, least, most, NULL, NULL                  \
    }
#define FLAG(name, member, initial)                                                      \
    {                                                                                    \
        name, AT(member), TYPE_BOOL, 1, initial, 0, 1, NULL, NULL                        \
    }
#define WORD(name, member, initial, words)                                               \
    {                                                                                    \
        name, AT(member), TYPE_WORD, 1, initial, 0, array_len(words) - 2, words, NULL    \
    }
#define POLICY(name, member, text)                                                       \
    {                                                                                    \
        name, AT(member), TYPE_POLICY, 1, 0, 0, 0, NULL, text                            \
    }

enum { DAY_MS = 86400 * 1000 };

/* clang-format off */
static const struct setting table[] = {
/*      name                          member                  unit        default                   least           most */
NUMBER("lease_ms",                    lease_us,               US_PER_MS,  DEFAULT_LEASE_MS,         LEAST_LEASE_MS, LIMIT_LEASE_MS),
NUMBER("poll_interval_ms",            poll_interval_us,       US_PER_MS,  1000,                     10,             60 * 1000),
NUMBER("cleanup_interval_ms",         cleanup_interval_us,    US_PER_MS,  300 * 1000,               1000,           DAY_MS),
NUMBER("zombie_run_threshold_ms",     zombie_threshold_us,    US_PER_MS,  3600 * 1000,              1000,           7 * DAY_MS),
NUMBER("startup_stagger_seconds",     startup_stagger_us,     US_PER_S,   1,                        0,              60),
NUMBER("startup_window_seconds",      startup_window_us,      US_PER_S,   60,                       0,              3600),
NUMBER("startup_burst_limit",         startup_burst_limit,    1,          5,                        1,              1000),
WORD  ("startup_throttle",            startup_throttle,                   THROTTLE_AUTO,            throttle_words),
FLAG  ("recovery_on_startup",         recovery_on_startup,                true),
WORD  ("recovery_action",             recovery_action,                    RECOVERY_RETRY,           action_words),
NUMBER("shutdown_grace_ms",           shutdown_grace_us,      US_PER_MS,  10 * 1000,                0,              600 * 1000),
SMALL ("crash_limit",                 crash_limit,                        DEFAULT_CRASHES,          1,              LIMIT_CRASHES),
NUMBER("claim_batch",                 claim_batch,            1,          0,                        0,              LIMIT_CLAIM_JOBS),
WORD  ("event_level",                 event_level,                        EVENTS_NOTABLE,           level_words),
NUMBER("retention_completed_days",    retention_completed_us, US_PER_DAY, 0,                        0,              36500),
NUMBER("retention_failed_days",       retention_failed_us,    US_PER_DAY, 0,                        0,              36500),
NUMBER("max_payload_bytes",           max_payload_bytes,      1,          LIMIT_PAYLOAD_BYTES,      1,              LIMIT_PAYLOAD_BYTES),
NUMBER("slots",                       slots,                  1,          10,                       0,              10000),
NUMBER("stale_after_ms",              stale_after_us,         US_PER_MS,  1800 * 1000,              1000,           7 * DAY_MS),
SMALL ("max_retries",                 max_retries,                        DEFAULT_RETRIES,          0,              LIMIT_RETRIES),
POLICY("retry_delays_seconds",        retry_delays,                       "60,300,900"),
NUMBER("max_execution_time_ms",       max_execution_us,       US_PER_MS,  DEFAULT_DEADLINE_MS,      1,              LIMIT_DEADLINE_MS),
NUMBER("http_max_execution_time_ms",  http_max_execution_us,  US_PER_MS,  DEFAULT_HTTP_DEADLINE_MS, 1,              LIMIT_HTTP_DEADLINE_MS),
};
/* clang-format on */

/* The member a row is about, in a copy of its own type: rows differ in width. */
static int64_t read_number(const struct settings *settings, const struct setting *row)
{
    const char *at = (const char *)settings + row->offset;
    int64_t wide;
    int narrow;
    bool flag;

    switch (row->type) {
    case TYPE_INT64:
        memcpy(&wide, at, sizeof(wide));
        return wide;
    case TYPE_BOOL:
        memcpy(&flag, at, sizeof(flag));
        return flag;
    case TYPE_INT:
    case TYPE_WORD:
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    case TYPE_POLICY:
        break;
    }
    assert(!"a policy is no number");
    return 0;
}

static void write_initial(struct settings *settings, const struct setting *row)
{
    char *at = (char *)settings + row->offset;
    int narrow = (int)row->initial;
    bool flag = row->initial != 0;

    switch (row->type) {
    case TYPE_INT64:
        memcpy(at, &row->initial, sizeof(row->initial));
        break;
    case TYPE_BOOL:
        memcpy(at, &flag, sizeof(flag));
        break;
    case TYPE_INT:
    case TYPE_WORD:
        memcpy(at, &narrow, sizeof(narrow));
        break;
    case TYPE_POLICY:
        assert(strlen(row->text) < sizeof(settings->retry_delays));
        memcpy(at, row->text, strlen(row->text) + 1);
        break;
    }
}

void settings_default(struct settings *settings)
{
    static_assert(sizeof(enum throttle_mode) == sizeof(int), "read_number copies an int");
    static_assert(sizeof(enum recovery_action) == sizeof(int), "likewise");
    static_assert(sizeof(enum event_level) == sizeof(int), "likewise");

    *settings = (struct settings){ 0 };
    for (size_t i = 0; i < array_len(table); i++)
        write_initial(settings, &table[i]);
}

/* `stored` as the operator would write it: 1500000 of a second is 1.5. */
enum { SHOWN_BYTES = 48 };
static const char *shown(int64_t stored, int64_t unit, char out[SHOWN_BYTES])
{
    uint64_t size = stored < 0 ? -(uint64_t)stored : (uint64_t)stored;
    uint64_t one = (uint64_t)unit;
    assert(one > 0);

    int n = snprintf(out, SHOWN_BYTES, "%s%" PRIu64, stored < 0 ? "-" : "", size / one);
    uint64_t rest = size % one;
    if (rest > 0)
        out[n++] = '.';
    for (int digits = 0; rest > 0 && digits < 6; digits++) {
        out[n++] = (char)('0' + rest * 10 / one);
        rest = rest * 10 % one;
    }
    out[n] = '\0';
    return out;
}

static int check_number(const struct setting *row, int64_t value, struct error *error)
{
    char is[SHOWN_BYTES], least[SHOWN_BYTES], most[SHOWN_BYTES];

    if (value >= row->least && value <= row->most)
        return 0;
    return error_set(error, -HF_INVALID, row->name,
                     "%s is %s; it must be between %s and %s.", row->name,
                     shown(value, row->unit, is), shown(row->least, row->unit, least),
                     shown(row->most, row->unit, most));
}

static int check_word(const struct setting *row, int64_t value, struct error *error)
{
    char list[128] = "";
    size_t n = 0;

    if (value >= row->least && value <= row->most)
        return 0;
    for (int i = 0; row->words[i]; i++) {
        const char *glue = i == 0 ? "" : row->words[i + 1] ? ", " : " or ";
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", glue, row->words[i]);
        assert(n < sizeof(list));
    }
    return error_set(error, -HF_INVALID, row->name,
                     "%s is none of its words (number %" PRId64 "); it must be %s.",
                     row->name, value, list);
}

static int check_policy(const struct setting *row, const struct settings *settings,
                        struct error *error)
{
    const char *text = (const char *)settings + row->offset;
    size_t n = strnlen(text, sizeof(settings->retry_delays));

    if (n < sizeof(settings->retry_delays) &&
        retry_policy_check((struct slice){ text, n }, NULL) == 0)
        return 0;
    return error_set(error, -HF_INVALID, row->name,
                     "%s is \"%.*s\"; it must be 1 to %d whole numbers of seconds from 0 "
                     "to %d, such as 60,300,900; or exp:BASE:CAP:JITTER, such as "
                     "exp:10:3600:20.",
                     row->name, (int)(n < 80 ? n : 80), text, LIMIT_RETRY_DELAYS,
                     LIMIT_RETRY_DELAY_SECONDS);
}

static int check_row(const struct setting *row, const struct settings *settings,
                     struct error *error)
{
    switch (row->type) {
    case TYPE_POLICY:
        return check_policy(row, settings, error);
    case TYPE_WORD:
        return check_word(row, read_number(settings, row), error);
    default:
        return check_number(row, read_number(settings, row), error);
    }
}

int settings_check(const struct settings *settings, struct error *error)
{
    for (size_t i = 0; i < array_len(table); i++) {
        int r = check_row(&table[i], settings, error);
        if (r < 0)
            return r;
    }
    return 0;
}
