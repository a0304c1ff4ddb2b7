/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c -- what a handler can say about its run, and what becomes of
 * it. */
#include "embed/run.h"

#include <stdio.h>

#include "base/json.h"
#include "base/text.h"

/* A run's own texts and its result; the payload may be large, and so may be the
 * result. */
enum {
    SLOT_BLOCK_BYTES = 4096,
    SLOT_BYTES = LIMIT_PAYLOAD_BYTES + LIMIT_RESULT_BYTES + LIMIT_METADATA_BYTES +
                 2 * LIMIT_ERROR_DETAILS_BYTES + (64 << 10),
};

int slot_init(struct slot *slot, struct committer *committer)
{
    slot->committer = committer;
    arena_init(&slot->arena, SLOT_BLOCK_BYTES, SLOT_BYTES);
    slot->report = command_new(OP_COMPLETE);
    slot->progress.command = command_new(OP_PROGRESS);
    pthread_mutex_init(&slot->progress.lock, NULL);
    pthread_cond_init(&slot->progress.settled, NULL);
    return slot->report && slot->progress.command ? 0 : -HF_NOMEM;
}

void slot_release(struct slot *slot)
{
    if (!slot->committer)
        return; /* slot_init() never saw it */
    command_free(slot->report);
    command_free(slot->progress.command);
    pthread_cond_destroy(&slot->progress.settled);
    pthread_mutex_destroy(&slot->progress.lock);
    arena_release(&slot->arena);
}

void slot_reset(struct slot *slot)
{
    assert(!slot->progress.on_its_way);
    arena_reset(&slot->arena);
    atomic_store(&slot->stop, HF_STOP_NONE);
    slot->failed = false;
    slot->error = (struct job_error){ 0 };
    slot->result = (struct slice){ 0 };
    slot->retry_after_us = 0;
    slot->progress.told = slot->progress.has_text = false;
    slot->progress.percent = -1;
}

static struct slot *slot_of(const struct hf_run *run)
{
    return (struct slot *)(uintptr_t)run; /* `run` is the first member */
}

/* ---- the outcome ---- */

static bool over_deadline(const struct slot *slot)
{
    return atomic_load(&slot->stop) == HF_STOP_TIMEOUT ||
           clock_mono_us(&clock_system) >= slot->deadline_us;
}

static void fail_with(struct slot *slot, int type, struct slice message)
{
    slot->failed = true;
    slot->error = (struct job_error){ .type = type, .message = message };
}

/* What was recorded before does not matter any more: its time was up. */
static void fail_as_overdue(struct slot *slot)
{
    char took[DURATION_TEXT_BYTES], allowed[DURATION_TEXT_BYTES], text[200];

    int64_t over_us = clock_mono_us(&clock_system) - slot->deadline_us;

    duration_text(slot->allowed_us + (over_us > 0 ? over_us : 0), took);
    duration_text(slot->allowed_us, allowed);
    snprintf(text, sizeof(text),
             "The handler returned after %s; the deadline was %s after the start.", took,
             allowed);
    struct slice message = arena_dup(&slot->arena, slice_of(text));
    fail_with(slot, ERROR_TIMEOUT,
              message.p ? message : SLICE("The handler returned past its deadline."));
}

static void call_handler(struct slot *slot)
{
    char text[100];
    int r = slot->handler->handle(&slot->run, slot->handler->arg);

    if (over_deadline(slot)) {
        fail_as_overdue(slot);
    } else if (r != 0 && !slot->failed) {
        if (r < 0 && r >= -HF_INTERNAL)
            snprintf(text, sizeof(text), "The handler returned %d (%s).", r,
                     status_of(r)->name);
        else
            snprintf(text, sizeof(text), "The handler returned %d.", r);
        struct slice message = arena_dup(&slot->arena, slice_of(text));
        fail_with(slot, ERROR_OTHER,
                  message.p ? message : SLICE("The handler returned an error."));
    }
}

void slot_execute(struct slot *slot)
{
    int stop = atomic_load(&slot->stop);

    if (arena_end(&slot->arena) < 0)
        fail_with(slot, ERROR_OTHER,
                  SLICE("There was no memory to hand the job to its handler."));
    else if (!slot->handler)
        fail_with(slot, ERROR_OTHER, SLICE("This process has no handler of this kind."));
    else if (stop == HF_STOP_CANCELLED)
        fail_with(slot, ERROR_CANCELLED, SLICE("Cancelled before its handler began."));
    else if (stop == HF_STOP_TIMEOUT)
        fail_with(slot, ERROR_TIMEOUT, SLICE("Its deadline passed before it began."));
    else if (stop != HF_STOP_NONE)
        fail_with(slot, ERROR_INTERRUPTED, SLICE("Shut down before its handler began."));
    else
        call_handler(slot);
}

void slot_fill_report(struct slot *slot)
{
    struct command *c = slot->report;

    arena_reset(&c->arena);
    c->error = (struct error){ 0 };
    c->result = 0;
    if (slot->failed) {
        c->op = OP_FAIL;
        memset(&c->fail, 0, sizeof(c->fail));
        c->fail.job_id = slot->run.job_id;
        c->fail.owner_id = slot->owner_id;
        c->fail.error = slot->error;
        c->fail.retry_after_us = slot->retry_after_us;
    } else {
        c->op = OP_COMPLETE;
        memset(&c->complete, 0, sizeof(c->complete));
        c->complete.job_id = slot->run.job_id;
        c->complete.owner_id = slot->owner_id;
        c->complete.result = slot->result;
    }
}

int hf_succeed(struct hf_run *run, const char *result)
{
    if (!run)
        return -HF_INVALID;
    struct slot *slot = slot_of(run);
    struct slice text = slice_of(result);
    if (text.n > LIMIT_RESULT_BYTES)
        return -HF_TOO_LARGE;
    if (text.p && json_check(text, LIMIT_JSON_DEPTH, NULL) < 0)
        return -HF_INVALID;
    struct slice copy = arena_dup(&slot->arena, text);
    if (text.p && !copy.p)
        return -HF_NOMEM;
    slot->result = copy;
    return 0;
}

/* A copy of a text of anyone's making: cut to `max` bytes between characters,
 * and with '?' for bytes that are none. */
static struct slice tame(struct arena *arena, const char *text, size_t max)
{
    struct slice in = slice_of(text);
    if (!text)
        return in;
    if (in.n > max)
        in.n = utf8_fit(in, max);
    struct slice copy = arena_dup(arena, in);
    char *p = (char *)(uintptr_t)copy.p;
    for (size_t at = 0; p && at < copy.n;) {
        size_t step = utf8_step(p + at, copy.n - at);
        if (step == 0)
            p[at] = '?';
        at += step ? step : 1;
    }
    return copy;
}

int hf_fail(struct hf_run *run, enum hf_failure failure, const char *type_name,
            const char *message, const char *details)
{
    if (!run)
        return -HF_INVALID;
    struct slot *slot = slot_of(run);
    struct slice json = slice_of(details);
    int64_t type = failure;

    if (type <= HF_FAILURE_NONE || type > HF_FAILURE_OTHER)
        type = HF_FAILURE_OTHER;
    if (json.n > LIMIT_ERROR_DETAILS_BYTES ||
        (json.p && json_check(json, LIMIT_JSON_DEPTH, NULL) < 0))
        json = (struct slice){ 0 };
    slot->failed = true;
    slot->error = (struct job_error){
        .type = (int)type,
        .class = tame(&slot->arena, type_name, LIMIT_ERROR_CLASS_BYTES),
        .message = tame(&slot->arena, message ? message : "The handler failed.",
                        LIMIT_ERROR_MESSAGE_BYTES),
        .details = arena_dup(&slot->arena, json),
    };
    return 1;
}

void hf_retry_after(struct hf_run *run, int64_t delay_ms)
{
    const int64_t most_ms = LIMIT_RETRY_DELAY_SECONDS * (int64_t)1000;
    if (run && delay_ms >= 0)
        slot_of(run)->retry_after_us =
            (delay_ms < most_ms ? delay_ms : most_ms) * US_PER_MS;
}

/* ---- stopping ---- */

enum hf_stop_reason hf_cancelled(const struct hf_run *run)
{
    if (!run)
        return HF_STOP_NONE;
    const struct slot *slot = slot_of(run);
    int stop = atomic_load(&slot->stop);
    if (stop != HF_STOP_NONE)
        return (enum hf_stop_reason)stop;
    return over_deadline(slot) ? HF_STOP_TIMEOUT : HF_STOP_NONE;
}

/* ---- progress ---- */

static void progress_answered(struct command *c, void *arg);

/* Sends the latest; the lock is held. */
static void send_progress(struct slot *slot)
{
    struct slot_progress *p = &slot->progress;
    struct command *c = p->command;

    memcpy(p->sent, p->text, sizeof(p->sent));
    arena_reset(&c->arena);
    c->error = (struct error){ 0 };
    c->progress.job_id = slot->run.job_id;
    c->progress.owner_id = slot->owner_id;
    c->progress.percent = p->percent;
    c->progress.text = p->has_text ? slice_of(p->sent) : (struct slice){ 0 };
    c->done = progress_answered;
    c->done_arg = slot;
    p->told = false;
    p->on_its_way = committer_report(slot->committer, c) == 0;
}

static void progress_answered(struct command *c, void *arg)
{
    struct slot *slot = arg;
    struct slot_progress *p = &slot->progress;
    int none = HF_STOP_NONE;

    if (c->result == -HF_LATE)
        atomic_compare_exchange_strong(&slot->stop, &none, HF_STOP_LOST);
    else if (c->result == 0 && c->progress.out_cancelled)
        atomic_compare_exchange_strong(&slot->stop, &none, HF_STOP_CANCELLED);
    pthread_mutex_lock(&p->lock);
    p->on_its_way = false;
    if (p->told)
        send_progress(slot);
    if (!p->on_its_way)
        pthread_cond_broadcast(&p->settled);
    pthread_mutex_unlock(&p->lock);
}

int hf_progress(struct hf_run *run, int percent, const char *text)
{
    if (!run || percent < -1 || percent > 100)
        return -HF_INVALID;
    size_t n = text ? strlen(text) : 0;
    if (n > LIMIT_PROGRESS_BYTES)
        return -HF_TOO_LARGE;
    if (text && !utf8_valid((struct slice){ text, n }))
        return -HF_INVALID;

    struct slot *slot = slot_of(run);
    struct slot_progress *p = &slot->progress;
    pthread_mutex_lock(&p->lock);
    if (percent >= 0)
        p->percent = percent;
    if (text) {
        p->has_text = true;
        memcpy(p->text, text, n + 1);
    }
    p->told = true;
    if (!p->on_its_way)
        send_progress(slot);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

void slot_settle_progress(struct slot *slot)
{
    struct slot_progress *p = &slot->progress;

    pthread_mutex_lock(&p->lock);
    while (p->on_its_way)
        pthread_cond_wait(&p->settled, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
