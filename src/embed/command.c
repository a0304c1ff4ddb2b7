/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c -- calls that change something and wait for it.
 *
 * Each builds a command, has it applied, and hands out its answer.  The caller
 * waits, so its texts are used where they lie. */
#include "base/limits.h"
#include "base/text.h"
#include "embed/handle.h"

struct command *command_begin(struct hf *hf, enum op op, struct error *why)
{
    struct command *command = NULL;

    if (!hf)
        error_set(why, -HF_INVALID, "hf", "There is no handle.");
    else if (!hf->committer)
        error_set(why, -HF_READONLY, NULL,
                  "This handle was opened as a reader; it cannot change anything.");
    else if (!(command = command_new(op)))
        error_set(why, -HF_NOMEM, NULL, "There is no memory for this call.");
    return command;
}

int refuse_submission(int code, struct error *why)
{
    switch (code) {
    case -HF_BUSY:
        return error_set(why, code, NULL,
                         "Too many commands are waiting for their commit; try again.");
    case -HF_CLOSED:
        return error_set(why, code, NULL, "This handle is being closed.");
    default:
        return code;
    }
}

int command_run(struct hf *hf, struct command *command, struct error *why)
{
    int self = refuse_in_callback(hf, why);
    if (self < 0)
        return self;
    int r = committer_apply(hf->committer, command);
    if (r < 0 && command->error.code != 0)
        *why = command->error;
    return r < 0 ? refuse_submission(r, why) : 0;
}

void command_drop(struct command **command)
{
    command_free(*command);
}

/* ---- jobs ---- */

int hf_cancel(struct hf *hf, int64_t job_id, const char *reason, struct hf_error *error,
              int *ret_state)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_CANCEL, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = text_check(slice_of(reason), "reason", &why);
    if (r == 0) {
        c->cancel.job_id = job_id;
        c->cancel.reason = slice_of(reason);
        r = command_run(hf, c, &why);
    }
    if (r < 0)
        return give(error, &why, r);
    watch_wake(hf, job_id);
    if (ret_state)
        *ret_state = c->cancel.out_state;
    return 0;
}

static int check_change(const struct hf_change *change, struct error *why)
{
    if (!change)
        return error_set(why, -HF_INVALID, "change", "There is no change.");
    if (change->run_at_us < 0 || change->run_at_us > LIMIT_TIME_US)
        return error_set(why, -HF_INVALID, "runAt",
                         "runAt must be a time between the years 1970 and 9999.");
    if (change->priority != 0 &&
        (change->priority < LEAST_PRIORITY || change->priority > LIMIT_PRIORITY))
        return error_set(why, -HF_INVALID, "priority",
                         "priority is %d; it must be between %d and %d.",
                         change->priority, LEAST_PRIORITY, LIMIT_PRIORITY);
    int r = change->queue ? name_check(change->queue, "queue", why) : 0;
    return r < 0 ? r : reserved_check(change->reserved, array_len(change->reserved), why);
}

int hf_change(struct hf *hf, int64_t job_id, const struct hf_change *change,
              struct hf_error *error, int *ret_state)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_CHANGE, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = check_change(change, &why);
    if (r == 0) {
        c->change.job_id = job_id;
        c->change.run_at = change->run_at_us;
        c->change.priority = change->priority;
        c->change.queue = slice_of(change->queue);
        r = command_run(hf, c, &why);
    }
    if (r < 0)
        return give(error, &why, r);
    if (ret_state)
        *ret_state = c->change.out_state;
    return 0;
}

int hf_retry(struct hf *hf, int64_t job_id, struct hf_error *error, int64_t *ret_id)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_RETRY, &why);
    if (!c)
        return give(error, &why, why.code);
    c->retry.job_id = job_id;
    int r = command_run(hf, c, &why);
    if (r < 0)
        return give(error, &why, r);
    if (ret_id)
        *ret_id = c->retry.out_id;
    return 0;
}

/* ---- projects and queues ---- */

int hf_create_project(struct hf *hf, const char *name, struct hf_error *error)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_PROJECT, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = name_check(name, "name", &why);
    if (r == 0) {
        c->project.name = slice_of(name);
        r = command_run(hf, c, &why);
    }
    return give(error, &why, r);
}

/* A queue command that changes nothing yet; NULL and the sentence if not. */
static struct command *begin_queue(struct hf *hf, const char *queue, struct error *why)
{
    struct command *c = command_begin(hf, OP_QUEUE, why);
    if (c && name_check(queue, "queue", why) < 0) {
        command_free(c);
        return NULL;
    }
    if (!c)
        return NULL;
    c->queue.name = slice_of(queue);
    c->queue.pause = -1;
    c->queue.slots = c->queue.concurrency = c->queue.stale_after_us =
        c->queue.max_retries = c->queue.max_execution_us = c->queue.on_crash = INT64_MIN;
    return c;
}

int hf_pause(struct hf *hf, const char *queue, const char *reason, struct hf_error *error)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = begin_queue(hf, queue, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = text_check(slice_of(reason), "reason", &why);
    if (r == 0) {
        c->queue.pause = 1;
        c->queue.reason = slice_of(reason);
        r = command_run(hf, c, &why);
    }
    return give(error, &why, r);
}

int hf_resume(struct hf *hf, const char *queue, struct hf_error *error)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = begin_queue(hf, queue, &why);
    if (!c)
        return give(error, &why, why.code);
    c->queue.pause = 0;
    return give(error, &why, command_run(hf, c, &why));
}

void hf_queue_settings_init(struct hf_queue_settings *settings)
{
    if (settings)
        *settings = (struct hf_queue_settings){ .slots = HF_UNCHANGED,
                                                .concurrency = HF_UNCHANGED,
                                                .stale_after_ms = HF_UNCHANGED,
                                                .max_retries = HF_UNCHANGED,
                                                .max_execution_ms = HF_UNCHANGED,
                                                .on_crash = HF_UNCHANGED };
}

/* -1 and HF_UNCHANGED are words, not durations. */
static int64_t setting_us(int64_t ms)
{
    return ms == HF_UNCHANGED || ms == -1 ? ms : ms_to_us(ms);
}

static int check_queue_settings(const struct hf_queue_settings *s, struct error *why)
{
    if (!s)
        return error_set(why, -HF_INVALID, "settings", "There are no settings.");
    if (s->max_execution_ms == 0 || s->stale_after_ms == 0)
        return error_set(why, -HF_INVALID,
                         s->stale_after_ms == 0 ? "staleAfterMs" : "maxExecutionTimeMs",
                         "%s is 0; it must be at least 1, or -1 for the default.",
                         s->stale_after_ms == 0 ? "staleAfterMs" : "maxExecutionTimeMs");
    if (s->on_crash != HF_UNCHANGED && (s->on_crash < -1 || s->on_crash > HF_CRASH_FAIL))
        return error_set(
            why, -HF_INVALID, "onCrash",
            "onCrash is %lld; it must be HF_CRASH_DEFAULT, HF_CRASH_RETRY or "
            "HF_CRASH_FAIL.",
            (long long)s->on_crash);
    return reserved_check(s->reserved, array_len(s->reserved), why);
}

int hf_set_queue(struct hf *hf, const char *queue,
                 const struct hf_queue_settings *settings, struct hf_error *error)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = begin_queue(hf, queue, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = check_queue_settings(settings, &why);
    if (r == 0) {
        int64_t crash = settings->on_crash;
        c->queue.slots = settings->slots;
        c->queue.concurrency = settings->concurrency;
        c->queue.stale_after_us = setting_us(settings->stale_after_ms);
        c->queue.max_retries = settings->max_retries;
        c->queue.max_execution_us = setting_us(settings->max_execution_ms);
        /* Public words count from 1, so that zero is the default. */
        c->queue.on_crash = crash == HF_UNCHANGED ? crash : crash > 0 ? crash - 1 : -1;
        c->queue.retry_delays = slice_of(settings->retry_delays);
        r = command_run(hf, c, &why);
    }
    return give(error, &why, r);
}

/* ---- reservations that are there ---- */

static struct hf_reservation reservation_view(const struct reservation *r)
{
    return (struct hf_reservation){ .id = r->id,
                                    .state = r->state,
                                    .granted_at_us = r->granted_at,
                                    .expires_at_us = r->expires_at };
}

int hf_release(struct hf *hf, int64_t reservation_id, const char *holder,
               struct hf_error *error, struct hf_reservation *ret)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_RELEASE, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = text_check(slice_of(holder), "holder", &why);
    if (r == 0) {
        c->release.reservation_id = reservation_id;
        c->release.holder = slice_of(holder);
        r = command_run(hf, c, &why);
    }
    if (r < 0)
        return give(error, &why, r);
    watch_wake(hf, 0);
    if (ret)
        *ret = reservation_view(&c->release.out);
    return 0;
}

int hf_renew(struct hf *hf, int64_t reservation_id, const char *holder, int64_t ttl_ms,
             struct hf_error *error, struct hf_reservation *ret)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_RENEW, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = text_check(slice_of(holder), "holder", &why);
    if (r == 0 && (ttl_ms < 0 || ttl_ms > LIMIT_RESERVATION_MS))
        r = error_set(&why, -HF_INVALID, "ttlMs",
                      "ttlMs is %lld; it must be between 1 and %d, or 0 for as before.",
                      (long long)ttl_ms, LIMIT_RESERVATION_MS);
    if (r == 0) {
        c->renew.reservation_id = reservation_id;
        c->renew.holder = slice_of(holder);
        c->renew.ttl_us = ms_to_us(ttl_ms);
        r = command_run(hf, c, &why);
    }
    if (r < 0)
        return give(error, &why, r);
    if (ret)
        *ret = reservation_view(&c->renew.out);
    return 0;
}
