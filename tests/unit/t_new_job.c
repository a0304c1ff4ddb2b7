/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be enqueued: each rule alone, from both sides of its edge.  A refusal
 * has a code, the field as the API calls it, and the range that would be right. */
#include <limits.h>
#include <stdio.h>

#include "base/limits.h"
#include "engine/command.h"
#include "test.h"

static struct new_job a_job(void)
{
    struct new_job job;

    new_job_init(&job);
    job.kind = SLICE("crawl");
    return job;
}

static void check_accepted(struct new_job job)
{
    struct error error = { 0 };
    int r = new_job_check(&job, LIMIT_PAYLOAD_BYTES, &error);

    if (r < 0)
        fail("refused: %s", error.text);
    check_int(error.code, 0);
}

/* Refused, because of `field`, with a sentence that has `part` in it. */
static void check_refused_as(struct new_job job, int code, const char *field,
                             const char *part)
{
    struct error error = { 0 };

    check_err(new_job_check(&job, LIMIT_PAYLOAD_BYTES, &error), code);
    check_int(error.code, code);
    check_str(error.field, field);
    if (!strstr(error.text, part))
        fail("\"%s\" is not in: %s", part, error.text);
    check(strstr(error.text, field) != NULL);
    check_err(new_job_check(&job, LIMIT_PAYLOAD_BYTES, NULL), code);
}

static void check_refused(struct new_job job, const char *field, const char *part)
{
    check_refused_as(job, -HF_INVALID, field, part);
}

/* `n` times the same letter. */
static struct slice letters(size_t n)
{
    static char many[LIMIT_PAYLOAD_BYTES + 16];

    check(n <= sizeof(many));
    memset(many, 'a', sizeof(many));
    return (struct slice){ many, n };
}

TEST(the_defaults_with_a_kind_are_accepted)
{
    struct new_job job;

    memset(&job, 0xA5, sizeof(job));
    new_job_init(&job);
    check(!job.project.p && !job.queue.p && !job.payload.p && !job.metadata.p);
    check_int(job.max_retries, -1);
    check_int(job.max_execution_us, -1);
    check_int(job.on_crash, -1);
    check_int(job.priority, 0);
    check_int(job.run_at, 0);
    check_int(job.on_conflict, CONFLICT_RETURN);
    check_accepted(a_job());
}

/* ---- names and texts ---- */

TEST(a_job_without_a_kind_is_refused)
{
    struct new_job job = a_job();

    job.kind = (struct slice){ NULL, 0 };
    check_refused(job, "kind", "is missing");
    job.kind = SLICE("");
    check_refused(job, "kind", "1 to 100 characters");
}

TEST(a_name_has_1_to_100_plain_characters)
{
    static const char *const wrong[] = {
        "",   "a b",  "a/b",  "\xc3\xa9",        "a\n", "a:b", "a,b", "\"", " a",
        "a*", "\x7f", "\xff", "\xf0\x9f\x98\x80"
    };
    static const char *const right[] = { "a", "A-Z.a_z-0.9", "...", "-", "0" };

    for (int which = 0; which < 3; which++) {
        static const char *const fields[] = { "kind", "project", "queue" };
        struct new_job job = a_job();
        struct slice *name = which == 0   ? &job.kind
                             : which == 1 ? &job.project
                                          : &job.queue;
        for (size_t i = 0; i < array_len(wrong); i++) {
            *name = slice_of(wrong[i]);
            check_refused(job, fields[which], "1 to 100 characters");
        }
        *name = (struct slice){ "a\0b", 3 };
        check_refused(job, fields[which], "1 to 100 characters");
        *name = letters(LIMIT_NAME_BYTES + 1);
        check_refused(job, fields[which], "1 to 100 characters");
        for (size_t i = 0; i < array_len(right); i++) {
            *name = slice_of(right[i]);
            check_accepted(job);
        }
        *name = letters(LIMIT_NAME_BYTES);
        check_accepted(job);
    }
}

TEST(a_text_has_1_to_500_bytes_of_utf8)
{
    static const char *const fields[] = { "uniqueKey", "externalId", "concurrencyKey" };
    static const char *const wrong[] = {
        "\xff", "a\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"
    };

    for (int which = 0; which < 3; which++) {
        struct new_job job = a_job();
        struct slice *text = which == 0   ? &job.unique_key
                             : which == 1 ? &job.external_id
                                          : &job.concurrency_key;
        *text = SLICE("");
        check_refused(job, fields[which], "between 1 and 500");
        *text = letters(LIMIT_TEXT_BYTES + 1);
        check_refused(job, fields[which],
                      "has 501 bytes; it must have between 1 and 500");
        for (size_t i = 0; i < array_len(wrong); i++) {
            *text = slice_of(wrong[i]);
            check_refused(job, fields[which], "valid UTF-8");
        }
        *text = (struct slice){ "a\0b", 3 };
        check_refused(job, fields[which], "without NUL");
        *text = letters(LIMIT_TEXT_BYTES);
        check_accepted(job);
        *text = SLICE("https://example.com/?a=b c \xe2\x82\xac \xf0\x9f\x98\x80\n");
        check_accepted(job);
    }
}

/* ---- numbers ---- */

TEST(a_priority_is_1_to_9_or_left_out)
{
    static const int wrong[] = { -1, 10, 100, INT_MIN, INT_MAX };
    struct new_job job = a_job();

    for (int priority = 0; priority <= 9; priority++) {
        job.priority = priority;
        check_accepted(job);
    }
    for (size_t i = 0; i < array_len(wrong); i++) {
        job.priority = wrong[i];
        check_refused(job, "priority", "between 1 and 9");
    }
}

TEST(retries_are_0_to_100_or_left_out)
{
    static const int wrong[] = { -2, 101, INT_MIN, INT_MAX };
    static const int right[] = { -1, 0, 1, 100 };
    struct new_job job = a_job();

    for (size_t i = 0; i < array_len(right); i++) {
        job.max_retries = right[i];
        check_accepted(job);
    }
    for (size_t i = 0; i < array_len(wrong); i++) {
        job.max_retries = wrong[i];
        check_refused(job, "maxRetries", "between 0 and 100");
    }
}

TEST(on_crash_is_retry_or_fail_or_left_out)
{
    static const int wrong[] = { -2, 2, INT_MIN, INT_MAX };
    struct new_job job = a_job();

    for (int on_crash = -1; on_crash <= 1; on_crash++) {
        job.on_crash = on_crash;
        check_accepted(job);
    }
    for (size_t i = 0; i < array_len(wrong); i++) {
        job.on_crash = wrong[i];
        check_refused(job, "onCrash", "retry or fail");
    }
}

TEST(on_conflict_is_return_reject_or_replace)
{
    struct new_job job = a_job();

    for (int i = CONFLICT_RETURN; i <= CONFLICT_REPLACE; i++) {
        job.on_conflict = (enum on_conflict)i;
        check_accepted(job);
    }
    job.on_conflict = (enum on_conflict)3;
    check_refused(job, "onConflict", "return, reject or replace");
    job.on_conflict = (enum on_conflict) - 1;
    check_refused(job, "onConflict", "return, reject or replace");
}

TEST(a_schedule_is_not_negative)
{
    struct new_job job = a_job();

    job.schedule_id = 7;
    check_accepted(job);
    job.schedule_id = -1;
    check_refused(job, "scheduleId", "0 or more");
}

TEST(a_retry_policy_is_checked)
{
    struct new_job job = a_job();

    job.retry_delays = SLICE("1,2,3");
    check_accepted(job);
    job.retry_delays = SLICE("exp:10:3600:20");
    check_accepted(job);
    job.retry_delays = SLICE("");
    check_refused(job, "retryDelaysSeconds", "1 to 20 whole numbers");
    job.retry_delays = SLICE("1,two");
    check_refused(job, "retryDelaysSeconds", "from 0 to 2592000");
}

/* ---- deadlines and times ---- */

TEST(a_deadline_is_whole_milliseconds_up_to_seven_days)
{
    static const int64_t wrong[] = { 0,
                                     -2,
                                     -1000,
                                     999,
                                     1001,
                                     INT64_MIN,
                                     INT64_MAX,
                                     604800001 * US_PER_MS,
                                     INT64_MAX / 1000 * 1000 };
    static const int64_t right[] = { -1, 1000, 1800001 * US_PER_MS,
                                     604800000 * US_PER_MS };
    struct new_job job = a_job();

    for (size_t i = 0; i < array_len(right); i++) {
        job.max_execution_us = right[i];
        check_accepted(job);
    }
    for (size_t i = 0; i < array_len(wrong); i++) {
        job.max_execution_us = wrong[i];
        check_refused(job, "maxExecutionTimeMs", "from 1 to 604800000.");
    }
}

TEST(the_deadline_of_an_http_job_is_up_to_half_an_hour)
{
    struct new_job job = a_job();

    job.kind = SLICE("http");
    job.payload = SLICE("{\"url\": \"https://example.com\"}");
    check_accepted(job);
    job.max_execution_us = 1800000 * US_PER_MS;
    check_accepted(job);
    job.max_execution_us = 1800001 * US_PER_MS;
    check_refused(job, "maxExecutionTimeMs", "from 1 to 1800000 for kind http.");
    job.kind = SLICE("https"); /* another kind */
    check_accepted(job);
}

TEST(a_time_is_between_1970_and_9999)
{
    const char *range = "between 1970-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z";
    static const int64_t wrong[] = { -1, INT64_MIN, LEAST_TIME_US, LIMIT_TIME_US + 1,
                                     INT64_MAX };

    for (size_t i = 0; i < array_len(wrong); i++) {
        struct new_job job = a_job();
        job.run_at = wrong[i];
        check_refused(job, "runAt", range);
        job = a_job();
        job.expires_at = wrong[i];
        check_refused(job, "expiresAt", range);
    }
    struct new_job job = a_job();
    job.run_at = LIMIT_TIME_US;
    check_accepted(job);
    job.run_at = 1; /* long ago: due at once */
    check_accepted(job);
    job = a_job();
    job.expires_at = LIMIT_TIME_US;
    check_accepted(job);
}

TEST(a_delay_is_up_to_ten_years)
{
    const int64_t most = INT64_C(10) * 366 * 86400 * US_PER_S;
    const int64_t wrong[] = { -1, most + 1, INT64_MIN, INT64_MAX };
    struct new_job job = a_job();

    job.delay_us = 1;
    check_accepted(job);
    job.delay_us = most;
    check_accepted(job);
    for (size_t i = 0; i < array_len(wrong); i++) {
        job.delay_us = wrong[i];
        check_refused(job, "delayMs", "between 0 and 316224000000 milliseconds");
    }
}

TEST(a_time_and_a_delay_together_are_refused)
{
    struct new_job job = a_job();

    job.run_at = 1700000000 * US_PER_S;
    check_accepted(job);
    job.delay_us = US_PER_S;
    check_refused(job, "delayMs", "runAt");
}

TEST(a_job_expires_after_it_is_to_run)
{
    struct new_job job = a_job();

    job.run_at = 1700000000 * US_PER_S;
    job.expires_at = job.run_at + 1;
    check_accepted(job);
    job.expires_at = job.run_at;
    check_refused(job, "expiresAt", "after runAt, which is 2023-11-14T22:13:20.000Z");
    job.expires_at = job.run_at - 1;
    check_refused(job, "expiresAt", "after runAt");
    job.run_at = 0; /* now: whether that is over only the engine knows */
    check_accepted(job);
}

TEST(the_first_fault_is_the_one_that_is_named)
{
    struct new_job job = a_job();
    struct error error = { 0 };

    job.kind = SLICE("a b");
    job.priority = 10;
    check_err(new_job_check(&job, LIMIT_PAYLOAD_BYTES, &error), -HF_INVALID);
    check_str(error.field, "kind");
}
