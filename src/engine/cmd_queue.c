/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_queue.c -- settings of queues, pause and resume. */
#include <stdio.h>

#include "base/limits.h"
#include "engine/engine.h"

/* A setting the configuration file names belongs to it. */
static void fix(struct queue *q, const char *name)
{
    size_t n = strlen(q->fixed);
    if (!queue_setting_is_fixed(q, name) && n + strlen(name) + 3 < sizeof(q->fixed))
        snprintf(q->fixed + n, sizeof(q->fixed) - n, n ? "%s," : ",%s,", name);
}

/* -1 stands for the default, which the queue has as `none`. */
struct queue_setting {
    const char *name;  /* in the configuration */
    const char *field; /* in the API */
    int64_t unit;      /* what is stored for 1 of the API */
    int64_t asked, least, most, none;
    int64_t *to;
};

static int set_one(struct command *c, struct queue *q, const struct queue_setting *s)
{
    int64_t value = s->asked == -1 ? s->none : s->asked;
    if (s->asked == INT64_MIN)
        return 0;
    if (queue_setting_is_fixed(q, s->name) && !c->queue.fix && value != *s->to)
        return error_set(
            &c->error, -HF_CONFLICT, s->field,
            "%s of queue %s is set in the configuration file; change it there.", s->field,
            q->name);
    if (s->asked != -1 && (value < s->least * s->unit || value > s->most * s->unit))
        return error_set(&c->error, -HF_INVALID, s->field,
                         "%s is %lld; it must be between %lld and %lld.", s->field,
                         (long long)(value / s->unit), (long long)s->least,
                         (long long)s->most);
    *s->to = value;
    if (c->queue.fix)
        fix(q, s->name);
    return 0;
}

static int check_crash_word(struct command *c)
{
    int64_t word = c->queue.on_crash;
    if (word == INT64_MIN || (word >= -1 && word <= ON_CRASH_FAIL))
        return 0;
    return error_set(
        &c->error, -HF_INVALID, "onCrash",
        "onCrash is none of its words (number %lld); it must be retry or fail.",
        (long long)word);
}

static int set_delays(struct command *c, struct queue *q)
{
    struct slice delays = c->queue.retry_delays;
    if (!delays.p)
        return 0;
    if (queue_setting_is_fixed(q, "retry_delays_seconds") && !c->queue.fix &&
        !slice_equal(delays, slice_of(q->retry_delays)))
        return error_set(
            &c->error, -HF_CONFLICT, "retryDelaysSeconds",
            "retryDelaysSeconds of queue %s is set in the configuration file; "
            "change it there.",
            q->name);
    int r = delays.n ? retry_policy_check(delays, &c->error) : 0;
    if (r < 0 || delays.n >= sizeof(q->retry_delays))
        return r < 0 ? r
                     : error_set(&c->error, -HF_TOO_LARGE, "retryDelaysSeconds",
                                 "retryDelaysSeconds is too long.");
    memcpy(q->retry_delays, delays.p, delays.n);
    q->retry_delays[delays.n] = '\0';
    if (c->queue.fix)
        fix(q, "retry_delays_seconds");
    return 0;
}

static int set_all(struct command *c, struct queue *q)
{
    int64_t on_crash = q->on_crash;
    const struct queue_setting settings[] = {
        { "slots", "slots", 1, c->queue.slots, 0, LIMIT_SLOTS, -1, &q->slots },
        { "concurrency", "concurrency", 1, c->queue.concurrency, 0, LIMIT_CONCURRENCY, 0,
          &q->concurrency },
        { "stale_after_ms", "staleAfterMs", US_PER_MS, c->queue.stale_after_us,
          LEAST_STALE_MS, LIMIT_DEADLINE_MS, -1, &q->stale_after_us },
        { "max_retries", "maxRetries", 1, c->queue.max_retries, 0, LIMIT_RETRIES, -1,
          &q->max_retries },
        { "max_execution_time_ms", "maxExecutionTimeMs", US_PER_MS,
          c->queue.max_execution_us, 1, LIMIT_DEADLINE_MS, -1, &q->max_execution_us },
        { "on_crash", "onCrash", 1, c->queue.on_crash, 0, ON_CRASH_FAIL, -1, &on_crash },
    };
    int r = check_crash_word(c);
    for (size_t i = 0; i < array_len(settings) && r == 0; i++)
        r = set_one(c, q, &settings[i]);
    if (r < 0)
        return r;
    q->on_crash = (int)on_crash;
    return set_delays(c, q);
}

static void set_pause(struct tx *tx, struct command *c, struct queue *q)
{
    bool pause = c->queue.pause == 1;
    if (c->queue.pause < 0 || pause == q->paused)
        return;
    q->paused = pause;
    q->paused_at = pause ? tx->now : 0;
    size_t n = pause && c->queue.reason.p ? c->queue.reason.n : 0;
    if (n >= sizeof(q->paused_reason))
        n = sizeof(q->paused_reason) - 1;
    if (n > 0)
        memcpy(q->paused_reason, c->queue.reason.p, n);
    q->paused_reason[n] = '\0';
    tell(tx, &(struct job){ .queue_id = q->id }, pause ? "queue.paused" : "queue.resumed",
         "\"queue\":\"%s\",\"reason\":%s", q->name, quoted(tx, c->queue.reason));
}

int apply_queue(struct tx *tx, struct command *c)
{
    struct queue_entry *entry = NULL;
    int r = store_queue(tx->store, c->queue.name, true, &entry);
    if (r < 0)
        return r;
    /* Who claims must see a pause or a limit at once: pass its gate alone.  Behind
     * it, what another process has set meanwhile is read. */
    struct gate gate = { .queue_id = entry->queue.id, .exclusive = true };
    r = store_gates(tx->store, &gate, 1);
    if (r == 0)
        r = store_queues_reload(tx->store);
    if (r < 0)
        return r;
    struct queue changed = entry->queue; /* all of it, or nothing */
    if (c->queue.fix) /* the file names these, and no others any more */
        changed.fixed[0] = '\0';
    r = set_all(c, &changed);
    if (r < 0)
        return r;
    set_pause(tx, c, &changed);
    entry->queue = changed;
    r = store_queue_update(tx->store, entry);
    c->queue.out = changed;
    hint_queue(tx->engine, changed.id);
    return r;
}
