/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c -- names of the model's numbers. */
#include "store/model.h"

#include <stdio.h>

static const char *const job_states[] = {
    NULL,         "scheduled", "queued", "running",
    "cancelling", "completed", "failed", "cancelled"
};
static const char *const retry_states[] = { "none", "pending", "retried", "final" };
static const char *const retry_reasons[] = { "none",       "exhausted",    "permanent",
                                             "poison",     "crash_policy", "operator",
                                             "superseded", "cancelled" };
static const char *const error_types[] = { "none",        "network",   "rate_limit",
                                           "parse_error", "timeout",   "crash",
                                           "interrupted", "cancelled", "permanent",
                                           "other" };
static_assert(array_len(job_states) == JOB_STATE_MAX + 1, "a state has no name");
static_assert(array_len(retry_states) == RETRY_FINAL + 1, "a retry state has no name");
static_assert(array_len(retry_reasons) == REASON_MAX + 1, "a reason has no name");
static_assert(array_len(error_types) == ERROR_TYPE_MAX + 1, "an error type has no name");

static const char *name_of(const char *const *names, size_t count, int number)
{
    return number >= 0 && (size_t)number < count ? names[number] : NULL;
}

static int number_of(const char *const *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && slice_equal(slice_of(names[i]), name))
            return (int)i;
    return -1;
}

const char *job_state_name(int state)
{
    return name_of(job_states, array_len(job_states), state);
}

const char *retry_state_name(int state)
{
    return name_of(retry_states, array_len(retry_states), state);
}

const char *retry_reason_name(int reason)
{
    return name_of(retry_reasons, array_len(retry_reasons), reason);
}

const char *error_type_name(int type)
{
    return name_of(error_types, array_len(error_types), type);
}

int job_state_from_name(struct slice name)
{
    return number_of(job_states, array_len(job_states), name);
}

int error_type_from_name(struct slice name)
{
    int type = number_of(error_types, array_len(error_types), name);
    return type == ERROR_NONE ? -1 : type;
}

/* The list has commas around each name. */
bool queue_setting_is_fixed(const struct queue *queue, const char *setting)
{
    char needle[48];
    snprintf(needle, sizeof(needle), ",%s,", setting);
    return strstr(queue->fixed, needle) != NULL;
}
