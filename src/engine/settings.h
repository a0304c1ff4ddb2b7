/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h -- the knobs of the engine, with the defaults of the manual.
 *
 * Their names for the operator, units, defaults and ranges are the rows of
 * settings_table(); the engine takes the values as they stand when it opens. */
#pragma once

#include "base/knob.h"
#include "base/status.h"

enum throttle_mode { THROTTLE_AUTO, THROTTLE_ALWAYS, THROTTLE_NEVER };
enum recovery_action { RECOVERY_RETRY, RECOVERY_FAIL };
enum event_level { EVENTS_NOTABLE, EVENTS_EVERY };

struct settings {
    int64_t lease_us;            /* lease_ms 30000 */
    int64_t poll_interval_us;    /* poll_interval_ms 1000 */
    int64_t cleanup_interval_us; /* cleanup_interval_ms 300000 */
    int64_t zombie_threshold_us; /* zombie_run_threshold_ms 3600000 */
    int64_t misfire_grace_us;    /* misfire_grace_ms 30000 */
    int64_t startup_stagger_us;  /* startup_stagger_seconds 1.0 */
    int64_t startup_window_us;   /* startup_window_seconds 60 */
    int64_t startup_burst_limit; /* 5 */
    enum throttle_mode startup_throttle;
    bool recovery_on_startup; /* true */
    enum recovery_action recovery_action;
    int64_t shutdown_grace_us; /* shutdown_grace_ms 10000 */
    int crash_limit;           /* 3 */
    int64_t claim_batch;       /* 0: as many as there are free slots */
    enum event_level event_level;
    int64_t retention_completed_us; /* 0: keep all */
    int64_t retention_failed_us;
    int64_t max_payload_bytes; /* 1048576 */

    /* What a job gets where neither it nor its queue says otherwise. */
    int64_t slots;                 /* 10 */
    int64_t stale_after_us;        /* 1800 s */
    int max_retries;               /* 3 */
    char retry_delays[256];        /* "60,300,900" */
    int64_t max_execution_us;      /* 1800 s */
    int64_t http_max_execution_us; /* 60 s */
};

/* The rows, in the order of the manual: for whoever reads a configuration. */
const struct knob *settings_table(size_t *ret_count);

/* Of a list of delays, for other tables that have one; see struct knob. */
int settings_check_delays(const struct knob *knob, struct slice value,
                          struct error *error);

void settings_default(struct settings *settings);

/* 0, or -HF_INVALID with a sentence that names the setting and its range. */
must_check int settings_check(const struct settings *settings, struct error *error);
