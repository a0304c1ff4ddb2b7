/* SPDX-License-Identifier: Apache-2.0
 *
 * command_outcome.c -- what an end means, in a word, a sentence and JSON. */
#include "command_outcome.h"

#include <signal.h>
#include <stdio.h>

#include "base/json.h"
#include "base/json_write.h"

enum hf_failure command_outcome_failure(const struct command_outcome *outcome)
{
    if (outcome->end == COMMAND_LOST)
        return HF_FAILURE_CRASH;
    if (outcome->end == COMMAND_NOT_STARTED)
        return HF_FAILURE_OTHER;
    if (outcome->cause == COMMAND_CAUSE_DEADLINE)
        return HF_FAILURE_TIMEOUT;
    if (outcome->end == COMMAND_EXITED && outcome->exit_code == 0)
        return HF_FAILURE_NONE;
    switch (outcome->cause) {
    case COMMAND_CAUSE_CANCEL:
        return HF_FAILURE_CANCELLED;
    case COMMAND_CAUSE_INTERRUPT:
    case COMMAND_CAUSE_LEASE:
        return HF_FAILURE_INTERRUPTED;
    case COMMAND_CAUSE_NONE:
    case COMMAND_CAUSE_DEADLINE:
        break;
    }
    return outcome->end == COMMAND_SIGNALLED ? HF_FAILURE_CRASH : HF_FAILURE_OTHER;
}

char *command_signal_text(int number, char out[COMMAND_SIGNAL_TEXT_BYTES])
{
    const char *name = sigabbrev_np(number);

    if (name)
        snprintf(out, COMMAND_SIGNAL_TEXT_BYTES, "SIG%s", name);
    else
        snprintf(out, COMMAND_SIGNAL_TEXT_BYTES, "signal %d", number);
    return out;
}

void command_outcome_sentence(const struct command_outcome *outcome, struct buf *buf)
{
    static const char *const why[] = {
        [COMMAND_CAUSE_NONE] = "The command",
        [COMMAND_CAUSE_DEADLINE] = "The command was stopped at its deadline; it",
        [COMMAND_CAUSE_CANCEL] = "The command was stopped because the job was cancelled; "
                                 "it",
        [COMMAND_CAUSE_INTERRUPT] = "The command was stopped by a shutdown; it",
        [COMMAND_CAUSE_LEASE] = "The command was stopped because no scheduler renewed "
                                "the node's lease; it",
    };
    char name[COMMAND_SIGNAL_TEXT_BYTES];

    assert(outcome->cause < array_len(why));
    switch (outcome->end) {
    case COMMAND_EXITED:
        buf_printf(buf, "%s exited with status %d.", why[outcome->cause],
                   outcome->exit_code);
        break;
    case COMMAND_SIGNALLED:
        buf_printf(buf, "%s was ended by %s.", why[outcome->cause],
                   command_signal_text(outcome->signal, name));
        break;
    case COMMAND_NOT_STARTED:
    case COMMAND_LOST:
        buf_add(buf, outcome->error);
        break;
    }
}

/* ---- the exit record ---- */

static const char *const end_names[] = {
    [COMMAND_EXITED] = "exited",
    [COMMAND_SIGNALLED] = "signalled",
    [COMMAND_NOT_STARTED] = "not started",
    [COMMAND_LOST] = "lost",
};

static const char *const cause_names[] = {
    [COMMAND_CAUSE_NONE] = "none",     [COMMAND_CAUSE_DEADLINE] = "deadline",
    [COMMAND_CAUSE_CANCEL] = "cancel", [COMMAND_CAUSE_INTERRUPT] = "interrupt",
    [COMMAND_CAUSE_LEASE] = "lease",
};

void command_outcome_write(const struct command_outcome *outcome, struct buf *buf)
{
    struct json_writer w = json_writer(buf);

    json_begin_object(&w);
    json_put_text(&w, "end", end_names[outcome->end]);
    json_put_int(&w, "exitCode", outcome->exit_code);
    json_put_int(&w, "signal", outcome->signal);
    json_put_text(&w, "cause", cause_names[outcome->cause]);
    json_put_int(&w, "startedUs", outcome->started_us);
    json_put_int(&w, "endedUs", outcome->ended_us);
    json_put_int(&w, "durationUs", outcome->duration_us);
    json_put_bool(&w, "resultTooLarge", outcome->result_too_large);
    json_put_str(&w, "error", outcome->error);
    json_put_int(&w, "percent", outcome->progress.percent);
    json_put_str(&w, "progress", outcome->progress.text);
    json_end_object(&w);
    json_finish(&w);
    /* The result has a line of its own: as a part of the object it might be nested
     * one too deep. */
    if (outcome->result.p) {
        buf_byte(buf, '\n');
        buf_add(buf, outcome->result);
    }
}

/* Reads fields one by one; the first that is not as it should be stays known. */
struct reader {
    struct slice object;
    struct arena *arena;
    struct error *error;
    int failed;
};

static int64_t get_int(struct reader *r, const char *name, int64_t least)
{
    int64_t value = 0;
    struct slice raw = json_find(r->object, slice_of(name));
    if (!r->failed && !raw.p)
        r->failed = error_set(r->error, -HF_INVALID, name, "there is no %s", name);
    if (!r->failed)
        r->failed = json_get_int(raw, name, least, INT64_MAX, r->error, &value);
    return value;
}

static struct slice get_text(struct reader *r, const char *name)
{
    struct slice value = { NULL, 0 };
    struct slice raw = json_find(r->object, slice_of(name));
    if (!raw.p || json_kind_of(raw) == JSON_KIND_NULL || r->failed)
        return value;
    r->failed =
        json_get_text(raw, name, LIMIT_ERROR_MESSAGE_BYTES, r->arena, r->error, &value);
    return value;
}

/* Which of `names` it is; `first` is the first of them. */
static int get_name(struct reader *r, const char *name, const char *const *names,
                    int first, int count)
{
    struct slice text = get_text(r, name);

    for (int i = first; i < count && !r->failed; i++)
        if (slice_equal(text, slice_of(names[i])))
            return i;
    if (!r->failed)
        r->failed = error_set(r->error, -HF_INVALID, name,
                              "the exit record's %s is unknown", name);
    return first;
}

int command_outcome_read(struct slice text, struct arena *arena, struct error *error,
                         struct command_outcome *ret)
{
    const char *newline = text.n > 0 ? memchr(text.p, '\n', text.n) : NULL;
    struct slice json = { text.p, newline ? (size_t)(newline - text.p) : text.n };
    struct reader r = { .object = json, .arena = arena, .error = error };
    struct command_outcome o = { 0 };

    int check = json_check(json, LIMIT_JSON_DEPTH, error);
    if (check < 0 || (check = json_expect(json, "exit", JSON_KIND_OBJECT, error)) < 0)
        return check;
    o.end = (enum command_end)get_name(&r, "end", end_names, COMMAND_EXITED,
                                       array_len(end_names));
    o.cause = (enum command_cause)get_name(&r, "cause", cause_names, COMMAND_CAUSE_NONE,
                                           array_len(cause_names));
    o.exit_code = (int)get_int(&r, "exitCode", 0);
    o.signal = (int)get_int(&r, "signal", 0);
    o.started_us = get_int(&r, "startedUs", 0);
    o.ended_us = get_int(&r, "endedUs", 0);
    o.duration_us = get_int(&r, "durationUs", 0);
    o.progress.percent = (int)get_int(&r, "percent", -1);
    o.progress.text = get_text(&r, "progress");
    o.error = get_text(&r, "error");
    o.result_too_large =
        slice_equal(json_find(json, SLICE("resultTooLarge")), SLICE("true"));
    if (newline && !r.failed) {
        struct slice result = { newline + 1, text.n - json.n - 1 };
        r.failed = json_check(result, LIMIT_JSON_DEPTH, error);
        o.result = arena_dup(arena, result);
    }
    if (r.failed)
        return r.failed;
    if (arena_end(arena) < 0)
        return -HF_NOMEM;
    *ret = o;
    return 0;
}
