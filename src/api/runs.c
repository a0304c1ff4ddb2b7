/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.c -- what remote workers report of their runs: progress, and how they ended.
 *
 * A report comes from the run's own session and while the run is open, or is refused
 * as late (engine/cmd_finish.c): the truth is never overwritten. */
#include "api/call.h"
#include "base/limits.h"

static void answer_state(struct call *call, int64_t id, int state, int64_t retry_id)
{
    struct buf buf;
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_id(&w, "id", id);
    json_put_text(&w, "state", job_state_name(state));
    json_put_id(&w, "retryId", retry_id);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 200, &buf);
}

static int read_session(struct slice value, struct arena *arena, struct error *error,
                        struct slice *ret)
{
    if (!value.p)
        return error_set(error, -HF_INVALID, "session",
                         "session is missing; it must be the one that claimed the run.");
    return json_get_text(value, "session", LIMIT_TEXT_BYTES, arena, error, ret);
}

static void finish(struct call *call, struct command *command, int r, struct error *error,
                   void (*then)(struct call *call, struct command *command))
{
    if (r == 0) {
        call_report(call, command, then);
        return;
    }
    error_set(error, r, NULL, "%s.", status_of(r)->title);
    command_free(command);
    call_refuse(call, error);
}

/* ---- progress ---- */

static void progress_noted(struct call *call, struct command *command)
{
    call_answer(call, 200,
                command->progress.out_cancelled ? SLICE("{\"cancel\":true}")
                                                : SLICE("{\"cancel\":false}"));
}

static void progress(struct call *call)
{
    static const char *const names[] = { "session", "percent", "text" };
    struct slice v[3];
    struct error error = { 0 };
    int64_t id = 0, percent = -1;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 3, v))
        return;
    struct command *c = call_command(call, OP_PROGRESS);
    if (!c)
        return;
    c->progress.job_id = id;
    int r = read_session(v[0], &c->arena, &error, &c->progress.session);
    if (r == 0 && !v[1].p && !v[2].p)
        r = error_set(&error, -HF_INVALID, NULL,
                      "There is no progress to note; give percent, text, or both.");
    if (r == 0 && v[1].p)
        r = json_get_int(v[1], "percent", 0, 100, &error, &percent);
    c->progress.percent = (int)percent;
    if (r == 0 && v[2].p)
        r = json_get_text(v[2], "text", LIMIT_PROGRESS_BYTES, &c->arena, &error,
                          &c->progress.text);
    finish(call, c, r, &error, progress_noted);
}

/* ---- complete ---- */

static void completed(struct call *call, struct command *command)
{
    answer_state(call, command->complete.job_id, JOB_COMPLETED, 0);
}

/* Kept as it was sent; it stays in the request until the answer. */
static int read_result(struct slice value, struct error *error, struct slice *ret)
{
    struct slice result = value.p ? json_trim(value) : value;
    if (result.n > LIMIT_RESULT_BYTES)
        return error_set(error, -HF_TOO_LARGE, "result",
                         "result has %zu bytes; it may have %d.", result.n,
                         LIMIT_RESULT_BYTES);
    int r = result.p ? json_check(result, LIMIT_JSON_DEPTH, NULL) : 0;
    if (r < 0)
        return error_set(error, -HF_INVALID, "result",
                         "result is nested deeper than %d levels.", LIMIT_JSON_DEPTH);
    *ret = result;
    return 0;
}

static void complete(struct call *call)
{
    static const char *const names[] = { "session", "result" };
    struct slice v[2];
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 2, v))
        return;
    struct command *c = call_command(call, OP_COMPLETE);
    if (!c)
        return;
    c->complete.job_id = id;
    int r = read_session(v[0], &c->arena, &error, &c->complete.session);
    if (r == 0)
        r = read_result(v[1], &error, &c->complete.result);
    finish(call, c, r, &error, completed);
}

/* ---- fail ---- */

static void failed(struct call *call, struct command *command)
{
    answer_state(call, command->fail.job_id, command->fail.out_state,
                 command->fail.out_retry_id);
}

static int read_type(struct slice value, struct arena *arena, struct error *error,
                     int *ret)
{
    struct slice name = { 0 };
    int type = -1;
    if (!value.p) {
        *ret = ERROR_OTHER;
        return 0;
    }
    if (json_kind_of(value) == JSON_KIND_STRING) {
        int r = json_get_text(value, "error.type", LIMIT_TEXT_BYTES, arena, error, &name);
        if (r < 0)
            return r;
        type = error_type_from_name(name);
    }
    if (type <= ERROR_NONE)
        return error_set(error, -HF_INVALID, "error.type",
                         "error.type must be network, rate_limit, parse_error, timeout, "
                         "crash, interrupted, cancelled, permanent or other.");
    *ret = type;
    return 0;
}

static int read_details(struct slice value, struct error *error, struct slice *ret)
{
    struct slice details = value.p ? json_trim(value) : value;
    if (details.n > LIMIT_ERROR_DETAILS_BYTES)
        return error_set(error, -HF_TOO_LARGE, "error.details",
                         "error.details has %zu bytes; it may have %d.", details.n,
                         LIMIT_ERROR_DETAILS_BYTES);
    *ret = details;
    return 0;
}

static int read_error(struct slice object, struct arena *arena, struct error *error,
                      struct job_error *ret)
{
    static const char *const names[] = { "type", "class", "message", "details" };
    struct slice v[4] = { 0 };
    if (!object.p)
        return error_set(error, -HF_INVALID, "error",
                         "error is missing; it must be an object with at least a "
                         "message.");
    int r = json_expect(object, "error", JSON_KIND_OBJECT, error);
    if (r == 0)
        r = json_fields(object, names, 4, v, error);
    if (r == 0 && !v[2].p)
        r = error_set(error, -HF_INVALID, "error.message",
                      "error.message is missing; it tells a person what went wrong.");
    if (r == 0)
        r = read_type(v[0], arena, error, &ret->type);
    if (r == 0 && v[1].p && json_kind_of(v[1]) != JSON_KIND_NULL)
        r = json_get_text(v[1], "error.class", LIMIT_ERROR_CLASS_BYTES, arena, error,
                          &ret->class);
    if (r == 0)
        r = json_get_text(v[2], "error.message", LIMIT_ERROR_MESSAGE_BYTES, arena, error,
                          &ret->message);
    return r < 0 ? r : read_details(v[3], error, &ret->details);
}

static void fail(struct call *call)
{
    static const char *const names[] = { "session", "error" };
    struct slice v[2];
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 2, v))
        return;
    struct command *c = call_command(call, OP_FAIL);
    if (!c)
        return;
    c->fail.job_id = id;
    int r = read_session(v[0], &c->arena, &error, &c->fail.session);
    if (r == 0)
        r = read_error(v[1], &c->arena, &error, &c->fail.error);
    finish(call, c, r, &error, failed);
}

const struct route run_routes[] = {
    { HTTP_POST, "runs/{id}/progress", ROLE_WORKER, progress, BODY_SMALL, true },
    { HTTP_POST, "runs/{id}/complete", ROLE_WORKER, complete, BODY_SMALL, true },
    { HTTP_POST, "runs/{id}/fail", ROLE_WORKER, fail, BODY_SMALL, true },
    { 0 },
};
