/* SPDX-License-Identifier: Apache-2.0
 *
 * event_types.c -- the table of events, and finding the way in it. */
#include "engine/event_types.h"

#include <stdio.h>

#include "base/limits.h"

#define JOB                                                                              \
    "\"job\":{\"id\":\"1042\",\"project\":\"default\",\"queue\":\"crawl\","              \
    "\"kind\":\"crawl\",\"attempt\":1}"
#define QUEUE "\"queue\":\"crawl\""
#define FAILED                                                                           \
    "\"errorType\":\"network\",\"errorClass\":\"ECONNRESET\","                           \
    "\"message\":\"The connection was reset.\""
#define SCHEDULE "\"project\":\"default\",\"scheduleId\":\"77\",\"name\":\"nightly\""
#define ENDPOINT JOB ",\"endpointId\":\"78\""
#define PROJECT "\"project\":\"blue\",\"name\":\"blue\""
#define WEBHOOK "\"project\":null,\"webhookId\":\"90\",\"name\":\"ops\""
#define HOLD "\"reservation\":\"55\",\"holder\":\"gpu-job\","

/* The ordinary three come first: they are looked for most. */
static const struct event_type table[] = {
    { "job.enqueued", "job", "A job was made.", "{" JOB "}" },
    { "job.run.started", "job", "A worker or node has begun to execute it.",
      "{" JOB "}" },
    { "job.run.completed", "job", "Its run ended well.", "{" JOB "}" },
    { "job.run.failed", "job",
      "Its run failed: by its own error, a timeout, or the death of who executed it. "
      "`retry` is the job that tries again (\"0\": none), `final` why there is none.",
      "{" JOB "," FAILED ",\"verdict\":null,\"ranForMs\":5210,\"retry\":\"1043\","
      "\"final\":\"none\"}" },
    { "job.failed", "job",
      "It has failed for good: `final` says why it is not tried again.",
      "{" JOB "," FAILED ",\"final\":\"exhausted\"}", .webhooks_only = true },
    { "job.retry_scheduled", "job", "It has failed, and is tried again as another job.",
      "{" JOB "," FAILED ",\"retry\":\"1043\",\"retryAt\":\"2026-08-01T12:35:56.000Z\"}",
      .webhooks_only = true },
    { "job.cancelling", "job", "Its owner was asked to stop.",
      "{" JOB ",\"reason\":\"Not needed any more.\"}" },
    { "job.cancelled", "job", "It was cancelled.",
      "{" JOB ",\"reason\":\"Not needed any more.\",\"wasRunning\":false}" },
    { "job.changed", "job", "Time, priority or queue of a waiting job were changed.",
      "{" JOB ",\"priority\":9,\"state\":\"queued\"}" },
    { "job.retried", "job", "An operator had it tried again.",
      "{" JOB ",\"retry\":\"1043\",\"by\":\"operator\",\"before\":\"exhausted\"}" },
    { "job.retry_resolved", "job",
      "It had failed with its retry still to be decided; now it is.",
      "{" JOB ",\"verdict\":null,\"retry\":\"1043\",\"final\":\"none\"}" },
    { "job.recovered", "job",
      "A recovery found it running: it goes on (adopted), or had ended already and takes "
      "its run's outcome.",
      "{" JOB ",\"verdict\":\"adopted\"}" },
    { "job.stale", "job", "It runs for longer than its queue's stale_after_ms.",
      "{" JOB ",\"runningFor\":\"31.0 minutes\"}" },
    { "job.overdue", "job", "It runs past its deadline and cannot be stopped from here.",
      "{" JOB "}" },
    { "run.late_result", "job",
      "A result came for a run that had ended already. It changed nothing, and is kept "
      "here.",
      "{" JOB
      ",\"report\":\"complete\",\"from\":\"12\",\"session\":\"w1\",\"result\":{\"pages\":3}}" },

    { "queue.paused", "queue", "Nothing more is started from it.",
      "{" QUEUE ",\"reason\":\"maintenance\"}" },
    { "queue.resumed", "queue", "It goes on.", "{" QUEUE ",\"reason\":null}" },

    { "reservation.draining", "queue",
      "A hold was asked for: nothing is started, running jobs go on.",
      "{" QUEUE "," HOLD "\"reason\":null}" },
    { "reservation.granted", "queue", "The queue is its holder's.",
      "{" QUEUE "," HOLD "\"reason\":null}" },
    { "reservation.released", "queue", "It was given back.",
      "{" QUEUE "," HOLD "\"reason\":null}" },
    { "reservation.expired", "queue",
      "Its time was over, or it was not granted in time, or its holder died.",
      "{" QUEUE "," HOLD "\"reason\":\"Its time was over before it was released.\"}" },

    { "schedule.created", "schedule", "A schedule was made.",
      "{" SCHEDULE ",\"kind\":\"crawl\"}" },
    { "schedule.changed", "schedule", "It was changed.",
      "{" SCHEDULE ",\"kind\":\"crawl\"}" },
    { "schedule.deleted", "schedule", "It was deleted; its jobs stay.",
      "{" SCHEDULE ",\"kind\":\"crawl\"}" },
    { "schedule.paused", "schedule", "It makes no jobs until it is resumed.",
      "{" SCHEDULE ",\"reason\":\"maintenance\",\"until\":null}" },
    { "schedule.resumed", "schedule", "It goes on.", "{" SCHEDULE ",\"reason\":null}" },
    { "schedule.triggered", "schedule", "A job was made of it by hand.",
      "{" JOB ",\"scheduleId\":\"77\",\"name\":\"nightly\",\"jobId\":\"1042\"}" },
    { "schedule.missed", "schedule",
      "Fire times passed while nobody was there; `policy` says what became of them.",
      "{" SCHEDULE ",\"count\":12,\"first\":\"2026-08-01T00:00:00.000Z\","
      "\"last\":\"2026-08-01T11:00:00.000Z\",\"policy\":\"once\"}" },
    { "schedule.skipped", "schedule",
      "Its job was still there when its time came again. Told when that begins, not for "
      "each fire time after it.",
      "{" SCHEDULE ",\"count\":1,\"first\":\"2026-08-01T12:00:00.000Z\","
      "\"last\":\"2026-08-01T12:00:00.000Z\",\"reason\":\"overlap\"}" },
    { "schedule.stalled", "schedule",
      "It cannot fire: the system does not have its time zone any more.",
      "{" SCHEDULE ",\"problem\":\"There is no time zone Mars/Olympus here.\"}" },

    { "endpoint.failed", "endpoint", "A run of it failed, the first one in a row.",
      "{" ENDPOINT ",\"failuresInRow\":1,\"status\":500,"
      "\"error\":\"The server answered 500.\"}" },
    { "endpoint.recovered", "endpoint", "A run of it succeeded after failures.",
      "{" ENDPOINT ",\"failuresInRow\":0,\"status\":200,\"error\":null}" },
    { "endpoint.duplicate_start", "endpoint",
      "It was started again within 5 seconds of its last start.",
      "{" ENDPOINT ",\"lastStartedAt\":\"2026-08-01T12:34:56.000Z\"}" },

    { "project.paused", "project", "All its schedules and endpoints are paused with it.",
      "{" PROJECT ",\"schedules\":3}" },
    { "project.resumed", "project", "They go on.", "{" PROJECT ",\"schedules\":3}" },
    { "project.deleting", "project", "It is being deleted, with what is in it.",
      "{" PROJECT ",\"schedules\":3}" },
    { "project.kept", "project",
      "It was to be deleted only if it was empty, and has jobs.",
      "{" PROJECT ",\"jobs\":12}" },
    { "project.deleted", "project", "It is gone, with so many jobs.",
      "{" PROJECT ",\"jobs\":12}" },

    { "worker.run", "owner", "A remote worker was told to go on.",
      "{\"ownerId\":\"12\"}" },
    { "worker.quiet", "owner", "A remote worker was told to take no more.",
      "{\"ownerId\":\"12\"}" },
    { "worker.stop", "owner", "A remote worker was told to end.",
      "{\"ownerId\":\"12\"}" },
    { "owner.died", "owner",
      "A node or a remote worker is dead; what it was executing is failed and retried.",
      "{\"ownerId\":\"12\",\"name\":\"node-a\","
      "\"reason\":\"its lease ran out, or its process is gone\"}" },
    { "recovery.completed", "recovery",
      "What a crash had left was resolved; the counts are those of the report.",
      "{\"ownerId\":\"13\",\"recoveryId\":\"60\",\"type\":\"start\","
      "\"runningFailed\":2,\"retriesCreated\":2,\"durationMs\":41}" },

    { "token.created", "token", "A token was made.",
      "{\"token\":\"30\",\"name\":\"ci\"}" },
    { "token.deleted", "token", "It was deleted.", "{\"token\":\"30\",\"name\":null}" },

    { "webhook.created", "webhook", "A webhook was made.", "{" WEBHOOK "}" },
    { "webhook.changed", "webhook", "It was changed, or got a new secret.",
      "{" WEBHOOK "}" },
    { "webhook.deleted", "webhook", "It was deleted with its deliveries.",
      "{" WEBHOOK "}" },
    { "webhook.paused", "webhook",
      "Nothing is sent until it is resumed; by hand, or because it kept failing.",
      "{" WEBHOOK ",\"reason\":\"12 tries in a row have failed in 25.1 hours; the last: "
      "The connection was refused.\"}" },
    { "webhook.disabled", "webhook",
      "Its receiver answered 410: it is gone. Nothing is collected any more.",
      "{" WEBHOOK ",\"reason\":\"The receiver answered 410 Gone.\"}" },
    { "webhook.resumed", "webhook", "It sends again.", "{" WEBHOOK "}" },
    { "webhook.test", "webhook", "Asked for by hand, for this webhook alone.",
      "{" WEBHOOK "}", .webhooks_only = true, .private = true },
};
static_assert(array_len(table) <= EVENT_TYPES_MAX, "event_set is too small");

const struct event_type *event_types(size_t *ret_count)
{
    *ret_count = array_len(table);
    return table;
}

int event_type_find(struct slice name)
{
    for (size_t i = 0; i < array_len(table); i++)
        if (strncmp(table[i].name, name.p, name.n) == 0 && table[i].name[name.n] == '\0')
            return (int)i;
    return -1;
}

bool event_pattern_matches(struct slice pattern, const struct event_type *type)
{
    if (pattern.n == 0 || pattern.p[pattern.n - 1] != '*')
        return slice_equal(pattern, slice_of(type->name));
    if (pattern.n > 1 && pattern.p[pattern.n - 2] != '.')
        return false;
    return strncmp(type->name, pattern.p, pattern.n - 1) == 0;
}

void event_set_add(struct event_set *set, struct slice pattern)
{
    for (size_t i = 0; i < array_len(table); i++)
        if (!table[i].private && event_pattern_matches(pattern, &table[i]))
            set->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

/* ---- what somebody may have meant ---- */

enum { NEAREST = 3 };

/* How many single changes make one of the other (Levenshtein). */
static size_t distance(struct slice a, const char *b)
{
    size_t row[LIMIT_NAME_BYTES + 1], n = strlen(b);
    assert(n <= LIMIT_NAME_BYTES);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; i < a.n; i++) {
        size_t before = row[0]++; /* of the row above, one to the left */
        for (size_t j = 0; j < n; j++) {
            size_t change = before + (a.p[i] != b[j]);
            before = row[j + 1];
            size_t least = row[j] < before ? row[j] + 1 : before + 1;
            row[j + 1] = change < least ? change : least;
        }
    }
    return row[n];
}

static void nearest_names(struct slice pattern, const char *ret[NEAREST])
{
    size_t far[NEAREST] = { SIZE_MAX, SIZE_MAX, SIZE_MAX };
    for (size_t i = 0; i < array_len(table); i++) {
        size_t d = table[i].private ? SIZE_MAX : distance(pattern, table[i].name);
        for (size_t k = 0; k < NEAREST; k++)
            if (d < far[k]) {
                memmove(&far[k + 1], &far[k], (NEAREST - 1 - k) * sizeof(far[0]));
                memmove(&ret[k + 1], &ret[k], (NEAREST - 1 - k) * sizeof(ret[0]));
                far[k] = d;
                ret[k] = table[i].name;
                break;
            }
    }
}

int event_pattern_check(struct slice pattern, const char *field, struct error *error)
{
    const char *near[NEAREST] = { 0 };
    if (pattern.n > LIMIT_NAME_BYTES)
        return error_set(error, -HF_INVALID, field,
                         "%s has a type of %zu bytes; none has more than %d.", field,
                         pattern.n, LIMIT_NAME_BYTES);
    for (size_t i = 0; i < array_len(table); i++)
        if (!table[i].private && event_pattern_matches(pattern, &table[i]))
            return 0;
    nearest_names(pattern, near);
    return error_set(error, -HF_INVALID, field,
                     "%s has \"%.*s\", which is no type of event; near it are %s, %s and "
                     "%s, and patterns such as job.* and * are possible.",
                     field, (int)pattern.n, pattern.p, near[0], near[1], near[2]);
}
