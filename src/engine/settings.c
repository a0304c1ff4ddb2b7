/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c -- one table: the name, unit, default and range of every knob.
 *
 * The ranges keep out what is surely a slip (a lease of 10 ms, a grace period
 * of a day); inside them the operator is right. */
#include "engine/settings.h"

#include "base/limits.h"
#include "engine/retry.h"

static const char *const throttle_words[] = {
    [THROTTLE_AUTO] = "auto",
    [THROTTLE_ALWAYS] = "always",
    [THROTTLE_NEVER] = "never",
};
static const char *const action_words[] = {
    [RECOVERY_RETRY] = "retry",
    [RECOVERY_FAIL] = "fail",
};
static const char *const level_words[] = {
    [EVENTS_NOTABLE] = "notable",
    [EVENTS_EVERY] = "all",
};

int settings_check_delays(const struct knob *knob, struct slice value,
                          struct error *error)
{
    if (retry_policy_check(value, NULL) == 0)
        return 0;
    return error_set(error, -HF_INVALID, knob->name,
                     "%s is \"%.*s\"; it must be 1 to %d whole numbers of seconds from 0 "
                     "to %d, such as 60,300,900; or exp:BASE:CAP:JITTER, such as "
                     "exp:10:3600:20.",
                     knob->name, (int)(value.n < 80 ? value.n : 80), value.p,
                     LIMIT_RETRY_DELAYS, LIMIT_RETRY_DELAY_SECONDS);
}

#define ROW(name_, type_, member, help_)                                                 \
    .name = name_, .type = type_, KNOB_AT(struct settings, member), .help = help_
#define NUMBER(name, member, unit_, initial_, least_, most_, help)                       \
    {                                                                                    \
        ROW(name, KNOB_NUMBER, member, help),                                            \
            .unit = unit_, .initial = (initial_) * (unit_), .least = (least_) * (unit_), \
            .most = (most_) * (unit_)                                                    \
    }
#define FLAG(name, member, initial_, help)                                               \
    {                                                                                    \
        ROW(name, KNOB_FLAG, member, help), .initial = initial_, .most = 1               \
    }
#define WORD(name, member, initial_, words_, help)                                       \
    {                                                                                    \
        ROW(name, KNOB_WORD, member, help),                                              \
            .initial = initial_, .most = array_len(words_) - 1, .words = words_          \
    }
#define DELAYS(name, member, initial, help)                                              \
    {                                                                                    \
        ROW(name, KNOB_TEXT, member, help), .text = initial,                             \
                                            .check = settings_check_delays               \
    }

/* clang-format off */
static const struct knob table[] = {
/*     name, member, unit, default, least, most: what it is for */
NUMBER("slots", slots, 1, 10, 0, LIMIT_SLOTS,
       "jobs of a queue at once on this node, where the queue does not say"),
NUMBER("stale_after_ms", stale_after_us, US_PER_MS, DEFAULT_STALE_MS, LEAST_STALE_MS, LIMIT_DEADLINE_MS,
       "a run older than this gets a warning, where its queue does not say"),
NUMBER("max_retries", max_retries, 1, DEFAULT_RETRIES, 0, LIMIT_RETRIES,
       "how often a failed job is tried again"),
DELAYS("retry_delays_seconds", retry_delays, "60,300,900",
       "how long before each retry, the last one repeats; or exp:BASE:CAP:JITTER"),
NUMBER("max_execution_time_ms", max_execution_us, US_PER_MS, DEFAULT_DEADLINE_MS, 1, LIMIT_DEADLINE_MS,
       "a run's deadline"),
NUMBER("http_max_execution_time_ms", http_max_execution_us, US_PER_MS, DEFAULT_HTTP_DEADLINE_MS, 1, LIMIT_HTTP_DEADLINE_MS,
       "the same for jobs of kind http"),
NUMBER("crash_limit", crash_limit, 1, DEFAULT_CRASHES, 1, LIMIT_CRASHES,
       "a job whose process dies under it so many times in a row is not tried again"),
NUMBER("max_payload_bytes", max_payload_bytes, 1, LIMIT_PAYLOAD_BYTES, 1, LIMIT_PAYLOAD_BYTES,
       "the largest payload of a job"),
NUMBER("claim_batch", claim_batch, 1, 0, 0, LIMIT_CLAIM_JOBS,
       "how many jobs a node takes at once; 0: as many as it has free slots"),
NUMBER("poll_interval_ms", poll_interval_us, US_PER_MS, 1000, 10, 60 * 1000,
       "how soon what other processes enqueued is noticed"),
NUMBER("lease_ms", lease_us, US_PER_MS, DEFAULT_LEASE_MS, LEAST_LEASE_MS, LIMIT_LEASE_MS,
       "an owner that was not heard of for so long is dead"),
NUMBER("cleanup_interval_ms", cleanup_interval_us, US_PER_MS, 300 * 1000, 1000, LIMIT_DAY_MS,
       "how often the sweep looks for runs without a live owner"),
NUMBER("zombie_run_threshold_ms", zombie_threshold_us, US_PER_MS, 3600 * 1000, 1000, LIMIT_DEADLINE_MS,
       "how old such a run must be for the sweep to fail it"),
NUMBER("misfire_grace_ms", misfire_grace_us, US_PER_MS, DEFAULT_MISFIRE_GRACE_MS, LEAST_MISFIRE_GRACE_MS, LIMIT_MISFIRE_GRACE_MS,
       "a schedule's fire time that is dealt with so late is on time; of older ones its misfire policy decides"),
FLAG  ("recovery_on_startup", recovery_on_startup, true,
       "resolve at the start what a crash left behind; false leaves it to the sweep"),
WORD  ("recovery_action", recovery_action, RECOVERY_RETRY, action_words,
       "what becomes of interrupted jobs: tried again by their policy, or failed for a person to look at"),
WORD  ("startup_throttle", startup_throttle, THROTTLE_AUTO, throttle_words,
       "hold back old work after a start; auto: only if there was something to recover"),
NUMBER("startup_stagger_seconds", startup_stagger_us, US_PER_S, 1, 0, 60,
       "between the starts of two workers"),
NUMBER("startup_window_seconds", startup_window_us, US_PER_S, 60, 0, 3600,
       "how long old work is held back"),
NUMBER("startup_burst_limit", startup_burst_limit, 1, 5, 1, 1000,
       "what each started worker adds to the budget for old work meanwhile"),
NUMBER("shutdown_grace_ms", shutdown_grace_us, US_PER_MS, 10 * 1000, 0, 600 * 1000,
       "how long a stop waits for running jobs"),
WORD  ("event_level", event_level, EVENTS_NOTABLE, level_words,
       "which events are stored; all: also enqueued, started and completed"),
NUMBER("retention_completed_days", retention_completed_us, US_PER_DAY, 0, 0, 36500,
       "completed chains older than this are pruned; 0: kept"),
NUMBER("retention_failed_days", retention_failed_us, US_PER_DAY, 0, 0, 36500,
       "the same for chains that failed or were cancelled; 0: kept"),
};
/* clang-format on */

const struct knob *settings_table(size_t *ret_count)
{
    *ret_count = array_len(table);
    return table;
}

void settings_default(struct settings *settings)
{
    *settings = (struct settings){ 0 };
    for (size_t i = 0; i < array_len(table); i++)
        knob_default(&table[i], settings);
}

int settings_check(const struct settings *settings, struct error *error)
{
    for (size_t i = 0; i < array_len(table); i++) {
        int r = knob_check(&table[i], settings, error);
        if (r < 0)
            return r;
    }
    return 0;
}
