/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of events: patterns, what somebody may have meant, examples that are JSON. */
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/event_types.h"
#include "test.h"

static bool matches(const char *pattern, const char *name)
{
    return event_pattern_matches(slice_of(pattern), &(struct event_type){ .name = name });
}

TEST(a_pattern_is_a_type_a_family_or_all)
{
    check(matches("job.run.failed", "job.run.failed"));
    check(matches("job.*", "job.run.failed"));
    check(matches("job.run.*", "job.run.failed"));
    check(matches("*", "job.run.failed"));
    check(!matches("job", "job.run.failed"));
    check(!matches("job.run.faile", "job.run.failed"));
    check(!matches("job.run.failed.", "job.run.failed"));
    check(!matches("jo*", "job.run.failed"));
    check(!matches("queue.*", "job.run.failed"));
    check(!matches("", "job.run.failed"));
    check(!matches("*.failed", "job.run.failed"));
}

TEST(every_type_has_a_name_of_its_own_a_meaning_and_an_example)
{
    size_t count = 0;
    const struct event_type *types = event_types(&count);
    for (size_t i = 0; i < count; i++) {
        const struct event_type *t = &types[i];
        check_int(event_type_find(slice_of(t->name)), i);
        check(name_valid(slice_of(t->name)) && strchr(t->name, '.'));
        check(t->meaning[strlen(t->meaning) - 1] == '.');
        check_int(json_check(slice_of(t->example), LIMIT_JSON_DEPTH, NULL), 0);
        check_int(json_kind_of(slice_of(t->example)), JSON_KIND_OBJECT);
        if (strcmp(t->about, "job") == 0)
            check(json_find(slice_of(t->example), SLICE("job")).p);
    }
    check_int(event_type_find(SLICE("job.run")), -1);
    check_int(event_type_find(SLICE("")), -1);
}

TEST(the_types_that_others_rely_on_are_there)
{
    static const char *const names[] = {
        "job.enqueued",        "job.run.started",
        "job.run.completed",   "job.run.failed",
        "job.failed",          "job.cancelled",
        "job.retry_scheduled", "job.stale",
        "run.late_result",     "queue.paused",
        "queue.resumed",       "reservation.granted",
        "schedule.missed",     "recovery.completed",
        "owner.died",          "webhook.paused",
        "webhook.disabled",    "webhook.resumed",
        "endpoint.failed",     "endpoint.duplicate_start",
    };
    for (size_t i = 0; i < array_len(names); i++)
        if (event_type_find(slice_of(names[i])) < 0)
            fail("there is no %s", names[i]);
}

TEST(what_is_no_type_is_refused_with_the_nearest_names)
{
    struct error error = { 0 };
    check_err(event_pattern_check(SLICE("job.run.faild"), "events", &error), -HF_INVALID);
    check_str(error.field, "events");
    check(strstr(error.text, "\"job.run.faild\""));
    check(strstr(error.text, "job.run.failed"));
    static const char *const none[] = { "",        "job", "jobs.*",      "*.*",
                                        "job.run", "**",  "webhook.test" };
    for (size_t i = 0; i < array_len(none); i++)
        check_err(event_pattern_check(slice_of(none[i]), "events", NULL), -HF_INVALID);
    check_ok(event_pattern_check(SLICE("*"), "events", NULL));
    check_ok(event_pattern_check(SLICE("reservation.*"), "events", NULL));
    char long_name[LIMIT_NAME_BYTES + 2];
    memset(long_name, 'a', sizeof(long_name));
    check_err(event_pattern_check((struct slice){ long_name, sizeof(long_name) },
                                  "events", NULL),
              -HF_INVALID);
}

TEST(a_set_has_what_its_patterns_mean_and_never_a_test)
{
    struct event_set set = { 0 };
    event_set_add(&set, SLICE("queue.*"));
    check(event_set_has(&set, event_type_find(SLICE("queue.paused"))));
    check(!event_set_has(&set, event_type_find(SLICE("job.enqueued"))));
    event_set_add(&set, SLICE("*"));
    check(event_set_has(&set, event_type_find(SLICE("job.enqueued"))));
    check(event_set_has(&set, event_type_find(SLICE("webhook.resumed"))));
    check(!event_set_has(&set, event_type_find(SLICE("webhook.test"))));
}
