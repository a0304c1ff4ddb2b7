/* SPDX-License-Identifier: Apache-2.0
 *
 * enqueue.c -- new jobs: checked and copied here, written by the
 * committer.
 *
 * What can be said without the store is said in the caller's thread, before
 * anything waits.  An asynchronous call returns before its jobs are written, so
 * all it was given is copied into the command's arena; a call that waits is
 * built the same way, and one copy is cheap beside a commit. */
#include "base/hash.h"
#include "base/limits.h"
#include "embed/handle.h"
#include "embed/job.h"

/* ---- a job in the engine's words ---- */

void job_of_request(const struct hf_new_job *in, struct new_job *out)
{
    new_job_init(out);
    out->kind = slice_of(in->kind);
    out->project = slice_of(in->project);
    out->queue = slice_of(in->queue);
    out->payload = slice_of(in->payload);
    if (in->payload && in->payload_bytes > 0)
        out->payload.n = in->payload_bytes;
    out->metadata = slice_of(in->metadata);
    out->unique_key = slice_of(in->unique_key);
    out->external_id = slice_of(in->external_id);
    out->retry_delays = slice_of(in->retry_delays);
    out->run_at = in->run_at_us;
    out->delay_us = ms_to_us(in->delay_ms);
    out->expires_at = in->expires_at_us;
    out->priority = in->priority;
    out->on_conflict = (enum on_conflict)in->on_conflict;
    if (in->max_execution_ms != 0)
        out->max_execution_us = ms_to_us(in->max_execution_ms);
    if (in->max_retries != 0)
        out->max_retries = in->max_retries == HF_NO_RETRIES ? 0 : in->max_retries;
    if (in->on_crash != HF_CRASH_DEFAULT)
        out->on_crash = (int)in->on_crash - 1;
}

int job_request_check(const struct hf_new_job *in, size_t max_payload_bytes,
                      struct error *why)
{
    struct new_job job;

    if (!in)
        return error_set(why, -HF_INVALID, "job", "There is no job.");
    int r = reserved_check(in->reserved, array_len(in->reserved), why);
    if (r < 0)
        return r;
    /* -1 is a word of ours for max_retries, and of the engine for others. */
    if (in->max_retries < HF_NO_RETRIES)
        return error_set(why, -HF_INVALID, "maxRetries",
                         "maxRetries is %d; it must be between 1 and %d, 0 for the "
                         "default, or HF_NO_RETRIES.",
                         in->max_retries, LIMIT_RETRIES);
    if (in->max_execution_ms < 0)
        return error_set(why, -HF_INVALID, "maxExecutionTimeMs",
                         "maxExecutionTimeMs is %lld; it must be at least 1, or 0 for "
                         "the default.",
                         (long long)in->max_execution_ms);
    job_of_request(in, &job);
    return new_job_check(&job, max_payload_bytes, why);
}

static void copy_job(struct arena *arena, struct new_job *job)
{
    struct slice *const texts[] = { &job->kind,        &job->project,
                                    &job->queue,       &job->payload,
                                    &job->metadata,    &job->unique_key,
                                    &job->external_id, &job->concurrency_key,
                                    &job->retry_delays };
    for (size_t i = 0; i < array_len(texts); i++)
        *texts[i] = arena_dup(arena, *texts[i]);
}

/* ---- idempotency ---- */

static void add_number(struct buf *buf, int64_t n)
{
    buf_int(buf, n);
    buf_byte(buf, ',');
}

static void add_text(struct buf *buf, struct slice text)
{
    buf_int(buf, text.p ? (int64_t)text.n : -1); /* absent is not empty */
    buf_byte(buf, ':');
    if (text.p)
        buf_add(buf, text);
}

/* What "the same jobs" means: every field as it was given, lengths included, so
 * that no two different requests are spelt alike. */
static int hash_jobs(const struct new_job *jobs, size_t count, uint8_t ret[SHA256_BYTES])
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, (size_t)2 * LIMIT_BATCH_BODY_BYTES + (size_t)LIMIT_BATCH_JOBS * 8192);
    for (size_t i = 0; i < count; i++) {
        const struct new_job *j = &jobs[i];
        const struct slice texts[] = {
            j->kind,        j->project,         j->queue,
            j->payload,     j->metadata,        j->unique_key,
            j->external_id, j->concurrency_key, j->retry_delays
        };
        const int64_t numbers[] = { j->run_at,   j->delay_us,    j->expires_at,
                                    j->priority, j->max_retries, j->max_execution_us,
                                    j->on_crash, j->on_conflict };
        for (size_t t = 0; t < array_len(texts); t++)
            add_text(&buf, texts[t]);
        for (size_t n = 0; n < array_len(numbers); n++)
            add_number(&buf, numbers[n]);
    }
    int r = buf_end(&buf, &text);
    return r < 0 ? r : sha256(text, ret);
}

/* ---- the command ---- */

static int check_batch(const struct hf *hf, const struct hf_new_job *jobs, size_t count,
                       struct error *why)
{
    size_t bytes = 0;

    if (!jobs || count < 1 || count > LIMIT_BATCH_JOBS)
        return error_set(why, count > LIMIT_BATCH_JOBS ? -HF_TOO_LARGE : -HF_INVALID,
                         "jobs", "There are %zu jobs; there must be between 1 and %d.",
                         jobs ? count : 0, LIMIT_BATCH_JOBS);
    for (size_t i = 0; i < count; i++) {
        int r = job_request_check(&jobs[i], (size_t)hf->settings.max_payload_bytes, why);
        if (r < 0)
            return r;
        struct new_job job;
        job_of_request(&jobs[i], &job);
        bytes += job.payload.n + job.metadata.n;
    }
    if (bytes > LIMIT_BATCH_BODY_BYTES)
        return error_set(why, -HF_TOO_LARGE, "jobs",
                         "The jobs have %zu bytes of payload and metadata; a batch may "
                         "have up to %d.",
                         bytes, LIMIT_BATCH_BODY_BYTES);
    return 0;
}

static int fill(struct command *c, const struct hf_new_job *jobs, size_t count,
                struct slice key)
{
    struct arena *arena = &c->arena;

    c->enqueue.jobs = arena_array(arena, struct new_job, count);
    c->enqueue.out = arena_array(arena, struct enqueued, count);
    c->enqueue.count = count;
    c->enqueue.idempotency_key = arena_dup(arena, key);
    int r = arena_end(arena);
    for (size_t i = 0; i < count && r == 0; i++) {
        job_of_request(&jobs[i], &c->enqueue.jobs[i]);
        copy_job(arena, &c->enqueue.jobs[i]);
        r = arena_end(arena);
    }
    if (r == 0 && key.p)
        r = hash_jobs(c->enqueue.jobs, count, c->enqueue.body_hash);
    return r;
}

/* NULL, and the sentence, if it is not acceptable. */
static struct command *build(struct hf *hf, const struct hf_new_job *jobs, size_t count,
                             const char *key, struct error *why)
{
    struct command *c = command_begin(hf, OP_ENQUEUE, why);
    if (!c)
        return NULL;
    int r = check_batch(hf, jobs, count, why);
    if (r == 0)
        r = text_check(slice_of(key), "idempotencyKey", why);
    if (r == 0)
        r = fill(c, jobs, count, slice_of(key));
    if (r == 0)
        return c;
    error_set(why, r, NULL, "There is no memory for these jobs.");
    command_free(c);
    return NULL;
}

static void view_of(const struct enqueued *in, size_t count, struct hf_enqueued *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (struct hf_enqueued){ .id = in[i].id,
                                       .deduplicated = in[i].deduplicated,
                                       .state = in[i].state };
}

int hf_enqueue_batch(struct hf *hf, const struct hf_new_job *jobs, size_t count,
                     const char *idempotency_key, struct hf_error *error,
                     struct hf_enqueued *ret)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c =
        build(hf, jobs, count, idempotency_key, &why);
    int r = c ? command_run(hf, c, &why) : why.code;
    if (r < 0 || !c)
        return give(error, &why, r);
    if (ret)
        view_of(c->enqueue.out, count, ret);
    return 0;
}

int hf_enqueue(struct hf *hf, const struct hf_new_job *job, struct hf_error *error,
               struct hf_enqueued *ret)
{
    return hf_enqueue_batch(hf, job, 1, NULL, error, ret);
}

/* ---- without waiting ---- */

/* Lives in its command's arena. */
struct answer {
    hf_done *done;
    void *arg;
    struct hf_enqueued *jobs;
};

static void answer_async(struct command *c, void *arg)
{
    const struct answer *answer = arg;

    if (answer->done && c->result < 0) {
        struct hf_error error;
        give(&error, &c->error, c->result);
        answer->done(answer->arg, &error, NULL, 0);
    } else if (answer->done) {
        view_of(c->enqueue.out, c->enqueue.count, answer->jobs);
        answer->done(answer->arg, NULL, answer->jobs, c->enqueue.count);
    }
    command_free(c);
}

int hf_enqueue_async(struct hf *hf, const struct hf_new_job *jobs, size_t count,
                     const char *idempotency_key, hf_done *done, void *arg,
                     struct hf_error *error)
{
    struct error why = { 0 };
    struct command *c = build(hf, jobs, count, idempotency_key, &why);
    if (!c)
        return give(error, &why, why.code);

    struct answer *answer = arena_new(&c->arena, struct answer);
    struct hf_enqueued *made = arena_array(&c->arena, struct hf_enqueued, count);
    int r = -HF_NOMEM;
    if (answer && made) {
        *answer = (struct answer){ .done = done, .arg = arg, .jobs = made };
        c->done = answer_async;
        c->done_arg = answer;
        c->in_order = true; /* a handler may end before it is written, but not its run */
        r = committer_submit(hf->committer, c);
    }
    if (r < 0) {
        command_free(c);
        return give(error, &why, refuse_submission(r, &why));
    }
    return 0;
}
