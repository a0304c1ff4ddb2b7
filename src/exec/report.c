/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c -- copies of outcomes. */
#include "exec/report.h"

#include "base/json_write.h"

/* A result or an output of each stream's head and tail, escaped: six bytes for one
 * at worst. */
#define REPORT_BYTES ((size_t)8 << 20)

struct report {
    struct arena arena;
    bool completed;
    struct slice result, output;
    struct job_error error;
    int64_t retry_after_us;
};

static struct report *report_new(void)
{
    struct report *report = new (struct report);
    if (report)
        arena_init(&report->arena, 1024, REPORT_BYTES);
    return report;
}

void report_free(struct report *report)
{
    if (!report)
        return;
    arena_release(&report->arena);
    free(report);
}

/* NULL instead of half a report. */
static struct report *whole(struct report *report)
{
    if (arena_end(&report->arena) == 0)
        return report;
    report_free(report);
    return NULL;
}

static struct slice copy(struct report *report, struct slice text)
{
    return arena_dup(&report->arena, text);
}

struct report *report_new_plain(int error_type, const char *message)
{
    struct report *report = report_new();
    if (!report)
        return NULL;
    report->error.type = error_type;
    report->error.message = copy(report, slice_of(message));
    return whole(report);
}

struct report *report_new_http(const struct http_job_outcome *outcome)
{
    struct report *report = report_new();
    if (!report)
        return NULL;
    report->completed = outcome->completed;
    report->retry_after_us = outcome->retry_after_us;
    report->result = copy(report, outcome->result);
    report->error = outcome->error;
    report->error.class = copy(report, outcome->error.class);
    report->error.message = copy(report, outcome->error.message);
    report->error.details = copy(report, outcome->error.details);
    return whole(report);
}

/* ---- commands ---- */

static void put_stream(struct json_writer *w, const char *name,
                       const struct command_output *stream)
{
    int64_t kept = (int64_t)(stream->head.n + stream->tail.n);
    json_key(w, name);
    json_begin_object(w);
    json_put_int(w, "total", stream->total);
    json_put_str(w, "head", stream->head.p ? stream->head : SLICE(""));
    json_put_str(w, "tail", stream->tail.p ? stream->tail : SLICE(""));
    json_put_bool(w, "complete", !stream->lost && kept >= stream->total);
    json_end_object(w);
}

int report_output(const struct command_output *out, const struct command_output *err,
                  struct arena *arena, struct slice *ret)
{
    struct buf buf;
    struct slice text = { 0 };
    buf_init(&buf, REPORT_BYTES);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    put_stream(&w, "stdout", out);
    put_stream(&w, "stderr", err);
    json_end_object(&w);
    json_finish(&w);
    int r = buf_end(&buf, &text);
    if (r == 0) {
        *ret = arena_dup(arena, text);
        r = ret->p ? 0 : -HF_NOMEM;
    }
    buf_release(&buf);
    return r;
}

static struct slice details_of(struct report *report,
                               const struct command_outcome *outcome)
{
    char name[COMMAND_SIGNAL_TEXT_BYTES];
    struct buf buf;
    struct slice text = { 0 };
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    if (outcome->end == COMMAND_EXITED)
        json_put_int(&w, "exitCode", outcome->exit_code);
    if (outcome->end == COMMAND_SIGNALLED)
        json_put_text(&w, "signal", command_signal_text(outcome->signal, name));
    json_put_int(&w, "durationMs", outcome->duration_us / US_PER_MS);
    json_end_object(&w);
    json_finish(&w);
    struct slice kept = { 0 };
    if (buf_end(&buf, &text) == 0)
        kept = copy(report, text);
    buf_release(&buf);
    return kept;
}

struct report *report_new_command(const struct command_outcome *outcome)
{
    struct report *report = report_new();
    struct buf sentence;
    struct slice text = { 0 };
    if (!report)
        return NULL;
    int type = (int)command_outcome_failure(outcome);
    report->completed = type == ERROR_NONE;
    if (report->completed) {
        report->result = copy(report, outcome->result);
    } else {
        buf_init(&sentence, 4096);
        command_outcome_sentence(outcome, &sentence);
        report->error.type = type;
        report->error.message = copy(
            report, buf_end(&sentence, &text) == 0 ? text : SLICE("The command failed."));
        report->error.details = details_of(report, outcome);
        buf_release(&sentence);
    }
    if (report_output(&outcome->out, &outcome->err, &report->arena, &report->output) < 0)
        report->output = (struct slice){ 0 };
    return whole(report);
}

/* ---- the command ---- */

struct command *report_command(const struct report *report, int64_t job_id,
                               int64_t owner_id)
{
    struct command *c = command_new(report->completed ? OP_COMPLETE : OP_FAIL);
    if (!c)
        return NULL;
    /* The report outlives the command, so its slices may be lent. */
    if (report->completed) {
        c->complete.job_id = job_id;
        c->complete.owner_id = owner_id;
        c->complete.result = report->result;
        c->complete.output = report->output;
    } else {
        c->fail.job_id = job_id;
        c->fail.owner_id = owner_id;
        c->fail.error = report->error;
        c->fail.output = report->output;
        c->fail.retry_after_us = report->retry_after_us;
    }
    return c;
}
