/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c -- one job, or a batch: made, shown, waited for, changed. */
#include "api/call.h"

#include <stdio.h>

#include "api/new_job_json.h"
#include "api/views.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"

/* ---- enqueue ---- */

/* A token that is bound to a project makes jobs there, and nowhere else. */
static int bind_project(const struct call *call, struct new_job *job, struct error *error)
{
    struct slice own = slice_of(call->who.project);
    if (call->who.project_id == 0)
        return 0;
    if (!job->project.p)
        job->project = own;
    if (slice_equal(job->project, own))
        return 0;
    return error_set(error, -HF_FORBIDDEN, "project",
                     "This token is bound to the project %s.", call->who.project);
}

static int take_key(struct call *call, struct command *command, struct error *error)
{
    const struct http_head *head = &call->request->head;
    struct slice key =
        http_pair_find(head->headers, head->header_count, "Idempotency-Key");
    if (!key.p)
        return 0;
    if (key.n == 0 || key.n > LIMIT_TEXT_BYTES || !utf8_valid(key))
        return error_set(error, -HF_INVALID, "Idempotency-Key",
                         "Idempotency-Key must have 1 to %d bytes of UTF-8.",
                         LIMIT_TEXT_BYTES);
    command->enqueue.idempotency_key = arena_dup(&command->arena, key);
    return sha256(call->request->body, command->enqueue.body_hash);
}

static int prepare(struct command *command, size_t count)
{
    struct arena *arena = &command->arena;
    command->enqueue.jobs = arena_array(arena, struct new_job, count);
    command->enqueue.out = arena_array(arena, struct enqueued, count);
    command->enqueue.made = arena_array(arena, struct job, count);
    command->enqueue.count = count;
    return arena_end(arena);
}

/* The body stays in the request's arena as long as the call lives; the command does
 * not outlive the call. */
static int read_job(struct call *call, struct command *command, struct slice object,
                    size_t i, struct error *error)
{
    struct new_job *job = &command->enqueue.jobs[i];
    int r = new_job_read(object, &command->arena, call->api->options.max_payload_bytes,
                         error, job);
    return r < 0 ? r : bind_project(call, job, error);
}

static int show_job(struct store *store, struct show *show, struct json_writer *w)
{
    struct job_row row;
    int r = store_job_get(store, show->id, &show->arena, &row);
    if (r == -HF_NOT_FOUND)
        return error_set(&show->look.error, r, NULL, "There is no job %lld.",
                         (long long)show->id);
    struct call *call = show->call;
    if (r == 0 && call->who.project_id && row.job.project_id != call->who.project_id)
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL, "There is no job %lld.",
                         (long long)show->id);
    return r < 0 ? r
                 : view_job(store, &show->arena, w, &row,
                            clock_wall_us(call->api->options.clock));
}

static int show_duplicate(struct store *store, struct show *show, struct json_writer *w)
{
    struct job_row row;
    int r = store_job_get(store, show->id, &show->arena, &row);
    if (r < 0)
        return r;
    struct slice text = { 0 };
    struct buf job;
    buf_init(&job, (size_t)8 << 20);
    struct json_writer inner = json_writer(&job);
    r = view_job(store, &show->arena, &inner, &row,
                 clock_wall_us(show->call->api->options.clock));
    if (r == 0)
        r = buf_end(&job, &text);
    if (r == 0) { /* one more member in front */
        struct buf whole;
        struct slice out = { 0 };
        buf_init(&whole, (size_t)8 << 20);
        buf_text(&whole, "{\"deduplicated\":true,");
        buf_add(&whole, (struct slice){ text.p + 1, text.n - 1 });
        r = buf_end(&whole, &out);
        if (r == 0)
            json_raw(w, out);
        buf_release(&whole);
    }
    buf_release(&job);
    return r;
}

/* The most common answer of all: its memory is kept for the next, unless it is large. */
enum { SCRATCH_KEPT_BYTES = 16 << 10 };

static void answer_made(struct call *call, const struct command *command)
{
    const struct new_job *in = &command->enqueue.jobs[0];
    struct job_row row = { .job = command->enqueue.made[0] };
    char project[LIMIT_NAME_BYTES + 1] = "default";
    struct api *api = call->api; /* stays when the call is answered */
    struct slice text = { 0 };

    if (in->project.p)
        memcpy(project, in->project.p, in->project.n + 1);
    buf_reset(&api->scratch);
    struct json_writer w = json_writer(&api->scratch);
    json_begin_object(&w);
    view_job_members(
        &w, &row,
        &(struct job_links){ .queue = command->enqueue.out[0].queue, .project = project },
        0);
    json_put_bool(&w, "deduplicated", false);
    json_end_object(&w);
    json_finish(&w);
    int r = buf_end(&api->scratch, &text);
    if (r == 0)
        call_answer(call, 201, text);
    else
        call_refuse_with(call, r, NULL, "The answer is too large to be sent.");
    if (api->scratch.room > SCRATCH_KEPT_BYTES)
        buf_release(&api->scratch);
}

static void enqueued(struct call *call, struct command *command)
{
    const struct enqueued *out = &command->enqueue.out[0];
    if (command->enqueue.made[0].id == out->id)
        answer_made(call, command);
    else
        call_show(call, READER_QUICK, out->id, NULL, show_duplicate);
}

static void enqueue(struct call *call)
{
    struct error error = { 0 };
    struct command *command = call_command(call, OP_ENQUEUE);
    if (!command)
        return;
    struct slice body = call->request->body;
    int r = prepare(command, 1);
    if (r == 0)
        r = json_check(body, LIMIT_DOCUMENT_DEPTH, &error);
    if (r == 0)
        r = read_job(call, command, body, 0, &error);
    if (r == 0)
        r = take_key(call, command, &error);
    call_submit_read(call, command, r, &error, enqueued);
}

/* ---- batches ---- */

static int count_jobs(struct slice list, size_t *ret, struct error *error)
{
    struct json_iter it;
    struct slice item;
    size_t count = 0;

    if (!list.p)
        return error_set(error, -HF_INVALID, "jobs",
                         "jobs is missing; it must be a list of jobs.");
    int r = json_expect(list, "jobs", JSON_KIND_ARRAY, error);
    if (r < 0)
        return r;
    for (it = json_iter(list); json_array_next(&it, &item);)
        count++;
    if (count == 0 || count > LIMIT_BATCH_JOBS)
        return error_set(error, count ? -HF_TOO_LARGE : -HF_INVALID, "jobs",
                         "jobs has %zu entries; it must have 1 to %d.", count,
                         LIMIT_BATCH_JOBS);
    *ret = count;
    return 0;
}

/* Which job of the batch is to blame stands in front of the sentence. */
static int blame(struct error *error, size_t i)
{
    struct error named = { 0 };
    char field[sizeof(error->field)];
    snprintf(field, sizeof(field), "jobs[%zu]%s%.40s", i, error->field[0] ? "." : "",
             error->field);
    error_set(&named, error->code, field, "Job %zu of the batch: %s", i, error->text);
    *error = named;
    return error->code;
}

static int read_batch(struct call *call, struct command *command, struct error *error)
{
    static const char *const names[] = { "jobs" };
    struct slice list = { 0 }, item;
    size_t count = 0, i = 0;

    int r = json_check(call->request->body, LIMIT_DOCUMENT_DEPTH, error);
    if (r == 0)
        r = json_fields(call->request->body, names, 1, &list, error);
    if (r == 0)
        r = count_jobs(list, &count, error);
    if (r == 0)
        r = prepare(command, count);
    if (r < 0)
        return r;
    command->enqueue.made = NULL; /* only ids are shown */
    struct json_iter it = json_iter(list);
    while (json_array_next(&it, &item)) {
        r = read_job(call, command, item, i, error);
        if (r < 0)
            return error->code ? blame(error, i) : r;
        i++;
    }
    return take_key(call, command, error);
}

static void batch_enqueued(struct call *call, struct command *command)
{
    struct buf buf;
    buf_init(&buf, (size_t)1 << 20);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_key(&w, "ids");
    json_begin_array(&w);
    for (size_t i = 0; i < command->enqueue.count; i++)
        json_id(&w, command->enqueue.out[i].id);
    json_end_array(&w);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 201, &buf);
}

static void enqueue_batch(struct call *call)
{
    struct error error = { 0 };
    struct command *command = call_command(call, OP_ENQUEUE);
    if (!command)
        return;
    int r = read_batch(call, command, &error);
    call_submit_read(call, command, r, &error, batch_enqueued);
}

/* ---- one job: shown, and waited for ---- */

struct wait {
    struct waiter waiter;
    struct call *call;
    int64_t id, until_us; /* monotonic */
    bool seen;            /* once in full: there is such a job, and it may be shown */
    bool last;            /* this look is for the answer, whatever it shows */
    bool ended;           /* the job */
};

static void wait_look(void *arg);

static int64_t mono_now(const struct call *call)
{
    return clock_mono_us(call->api->options.clock);
}

/* Ended, or the time is up: answered.  Otherwise until something happens, or a
 * second has passed: another node may be the one that ends it. */
static void wait_seen(struct call *call, struct show *show)
{
    struct wait *wait = call->state;
    struct slice text = { 0 };
    int64_t left = wait->until_us - mono_now(call);

    wait->seen = true;
    if (wait->ended || wait->last) {
        waiter_end(&wait->waiter);
        if (buf_end(&show->out, &text) == 0)
            call_answer(call, 200, text);
        return;
    }
    int64_t step = left < 0 ? 0 : left < US_PER_S ? left : US_PER_S;
    if (waiter_wait(&call->api->waiters, &wait->waiter, wait->id, step) < 0) {
        wait->until_us = 0;
        wait_look(wait);
    }
}

/* In the reader's thread.  Many may wait, for jobs with large payloads: while it goes on,
 * only its state is read. */
static int show_waiting(struct store *store, struct show *show, struct json_writer *w)
{
    struct wait *wait = show->arg;
    int state = 0;
    int r = store_job_state(store, show->id, &state);

    if (r < 0 && r != -HF_NOT_FOUND)
        return r;
    wait->ended = r == 0 && job_state_terminal(state);
    if (r == 0 && wait->seen && !wait->ended && !wait->last) {
        json_bool(w, false); /* nobody reads it */
        return 0;
    }
    return show_job(store, show, w);
}

static void wait_look(void *arg)
{
    struct wait *wait = arg;
    struct call *call = wait->call;

    wait->last = call->gone || call->api->stopping || mono_now(call) >= wait->until_us;
    call_show_then(call, READER_QUICK, wait->id, wait, show_waiting, wait_seen);
}

static void wait_gone(struct call *call)
{
    struct wait *wait = call->state;
    if (wait->waiter.link)
        waiters_wake(&call->api->waiters, wait->waiter.id);
}

static void get_job(struct call *call)
{
    static const char *const known[] = { "waitMs" };
    int64_t id = 0, wait_ms = 0;
    if (!call_id(call, 0, &id) || !call_query_known(call, known, 1) ||
        !call_query_int(call, "waitMs", 0, LIMIT_WAIT_MS, &wait_ms))
        return;
    if (wait_ms == 0) {
        call_show(call, READER_QUICK, id, NULL, show_job);
        return;
    }
    struct wait *wait = call_new(call, struct wait);
    if (!wait)
        return;
    *wait = (struct wait){ .call = call,
                           .id = id,
                           .until_us = mono_now(call) + wait_ms * US_PER_MS };
    wait->waiter.woken = wait_look;
    wait->waiter.arg = wait;
    call->state = wait;
    call->on_gone = wait_gone;
    wait_look(wait);
}

/* ---- changed ---- */

static void changed(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->change.job_id, NULL, show_job);
}

static void patch_job(struct call *call)
{
    static const char *const names[] = { "runAt", "priority", "queue" };
    struct slice v[3];
    struct error error = { 0 };
    int64_t id = 0, n = 0;
    int r = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 3, v))
        return;
    struct command *command = call_command(call, OP_CHANGE);
    if (!command)
        return;
    command->change.job_id = id;
    command->change.project_id = call->who.project_id;
    if (!v[0].p && !v[1].p && !v[2].p)
        r = error_set(&error, -HF_INVALID, NULL,
                      "There is nothing to change; give runAt, priority or queue.");
    if (r == 0 && v[0].p)
        r = json_get_time(v[0], "runAt", &error, &command->change.run_at);
    if (r == 0 && v[1].p) {
        r = json_get_int(v[1], "priority", LEAST_PRIORITY, LIMIT_PRIORITY, &error, &n);
        command->change.priority = (int)n;
    }
    if (r == 0 && v[2].p)
        r = json_get_name(v[2], "queue", &command->arena, &error, &command->change.queue);
    call_submit_read(call, command, r, &error, changed);
}

static void cancelled(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->cancel.job_id, NULL, show_job);
}

static void cancel_job(struct call *call)
{
    static const char *const names[] = { "reason" };
    struct slice reason;
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 1, &reason))
        return;
    struct command *command = call_command(call, OP_CANCEL);
    if (!command)
        return;
    command->cancel.job_id = id;
    command->cancel.project_id = call->who.project_id;
    int r = reason.p ? json_get_text(reason, "reason", LIMIT_TEXT_BYTES, &command->arena,
                                     &error, &command->cancel.reason)
                     : 0;
    call_submit_read(call, command, r, &error, cancelled);
}

static void retried(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->retry.out_id, NULL, show_job);
}

static void retry_job(struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = call_command(call, OP_RETRY);
    if (!command)
        return;
    command->retry.job_id = id;
    command->retry.project_id = call->who.project_id;
    call_submit(call, command, retried);
}

const struct route job_routes[] = {
    { HTTP_POST, "jobs", ROLE_PRODUCER, enqueue, BODY_SMALL, false },
    { HTTP_POST, "jobs/batch", ROLE_PRODUCER, enqueue_batch, BODY_BATCH, false },
    { HTTP_GET, "jobs/{id}", ROLE_VIEWER, get_job, BODY_NONE, false },
    { HTTP_PATCH, "jobs/{id}", ROLE_PRODUCER, patch_job, BODY_SMALL, false },
    { HTTP_POST, "jobs/{id}/cancel", ROLE_PRODUCER, cancel_job, BODY_SMALL, false },
    { HTTP_POST, "jobs/{id}/retry", ROLE_OPERATOR, retry_job, BODY_SMALL, false },
    { 0 },
};
