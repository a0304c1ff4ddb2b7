/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_finish.c -- what workers report: completed, failed, progress.
 *
 * Every report is fenced by its run: it must come from the run's owner, and the
 * run must not be finished.  A late one changes nothing and is refused with a
 * sentence, but what it brought is kept as an event: the truth cannot be
 * overwritten, and the evidence is not thrown away. */
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "engine/schedule/endpoint.h"
#include "store/webhooks.h"

/* All that a report may bring, written as JSON. */
enum { LATE_BYTES = 8 << 20 };

static void add_member(struct buf *data, const char *name, struct slice text, bool json)
{
    if (!text.p)
        return;
    buf_printf(data, ",\"%s\":", name);
    if (json && json_check(text, LIMIT_JSON_DEPTH, NULL) == 0)
        buf_add(data, text);
    else
        buf_json(data, text);
}

/* In full: the event is all that is left of the work. */
static void keep_late(struct tx *tx, const struct job *job, const struct command *c,
                      int64_t owner_id)
{
    cleanup(buf_release) struct buf data;
    struct slice text = { 0 };
    bool done = c->op == OP_COMPLETE;
    buf_init(&data, LATE_BYTES);
    buf_printf(&data, "{\"report\":\"%s\",\"from\":\"%lld\"", op_name(c->op),
               (long long)(owner_id > 0 ? owner_id : 0));
    add_member(&data, "session", done ? c->complete.session : c->fail.session, false);
    if (done) {
        add_member(&data, "result", c->complete.result, true);
    } else {
        const struct job_error *error = &c->fail.error;
        buf_printf(&data, ",\"errorType\":\"%s\"", error_type_name(error->type));
        add_member(&data, "errorClass", error->class, false);
        add_member(&data, "message", error->message, false);
        add_member(&data, "details", error->details, true);
    }
    buf_byte(&data, '}');
    if (store_fail(tx->store, buf_end(&data, &text)) == 0)
        tell_of_job(tx, job,
                    &(struct event){ .type = SLICE("run.late_result"),
                                     .project_id = job->project_id,
                                     .queue_id = job->queue_id,
                                     .job_id = job->id,
                                     .data = arena_dup(&tx->store->arena, text) });
}

static int refuse_late(struct tx *tx, struct command *c, const struct job_row *row,
                       int64_t owner_id)
{
    const struct job *job = &row->job;
    keep_late(tx, job, c, owner_id);
    tx->engine->totals.work.late_results++;
    if (row->run.job_id != 0 && job_state_busy(job->state))
        return error_set(
            &c->error, -HF_LATE, NULL,
            "Run %lld belongs to another owner; this report changes nothing.",
            (long long)job->id);
    return error_set(
        &c->error, -HF_LATE, NULL,
        "Run %lld is no longer running: its job is %s. This report comes too late "
        "and changes nothing; it is kept as an event.",
        (long long)job->id, job_state_name(job->state));
}

static int not_found(struct command *c, int64_t id)
{
    return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no run %lld.",
                     (long long)id);
}

/* ---- completions, by the set ---- */

static int owner_for(struct tx *tx, int64_t owner_id, struct slice session, int64_t *ret)
{
    *ret = owner_id;
    return owner_id != 0 ? 0 : owner_of_session(tx, session, ret);
}

/* Explains to one command why its completion was not taken. */
static int refuse_completion(struct tx *tx, struct command *c, int64_t owner_id)
{
    int r = 0;
    struct job_row *row = tx_job(tx, c->complete.job_id, &r);
    if (!row)
        return r == -HF_NOT_FOUND ? not_found(c, c->complete.job_id) : r;
    return refuse_late(tx, c, row, owner_id);
}

static int brief_by_id(const void *key, const void *brief)
{
    int64_t x = *(const int64_t *)key, y = ((const struct job_brief *)brief)->id;
    return (x > y) - (x < y);
}

/* What only webhooks ask of a completed job; most have none. */
struct briefs {
    struct job_brief *list;
    size_t count;
};

static int load_briefs(struct tx *tx, const struct completion *list, size_t count,
                       struct briefs *ret)
{
    static const char type[] = "job.run.completed";
    int64_t *ids = NULL;
    size_t n = 0;
    if (tx->engine->subscriptions.count == 0)
        return 0;
    ids = arena_array(&tx->store->arena, int64_t, count + 1);
    if (!ids)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        if (list[i].done &&
            subscriptions_want(&tx->engine->subscriptions, type, list[i].project_id))
            ids[n++] = list[i].job_id;
    return n ? store_job_briefs(tx->store, ids, n, &tx->store->arena, &ret->list,
                                &ret->count)
             : 0;
}

static void accept_completion(struct tx *tx, const struct completion *done,
                              const struct briefs *briefs)
{
    const struct job_brief *brief =
        briefs->count ? bsearch(&done->job_id, briefs->list, briefs->count,
                                sizeof(*briefs->list), brief_by_id)
                      : NULL;
    struct engine *engine = tx->engine;
    const struct local_run *run = note_ended(engine, done->job_id);
    if (run && run->endpoint_id != 0)
        endpoint_completed(tx, run->endpoint_id, done);
    hint_queue(engine, done->queue_id);
    engine->totals.work.completions++;
    histogram_add_time(&engine->totals.work.ran[0], tx->now - done->started_at);
    note_kind(engine,
              run ? run->kind : kind_totals_place(&engine->kind_totals, done->kind), 0,
              tx->now - done->started_at);
    tell_ordinary(tx,
                  &(struct job){ .id = done->job_id,
                                 .queue_id = done->queue_id,
                                 .project_id = done->project_id,
                                 .kind = brief ? brief->kind : (struct slice){ 0 },
                                 .attempt = brief ? brief->attempt : 0 },
                  "job.run.completed");
}

/* What we execute ourselves need not be looked up: on SQLite nobody else does, and if
 * another process has cancelled it the rows say so, and the second pass looks. */
static struct completion completion_of(struct tx *tx, const struct command *c,
                                       int64_t owner_id)
{
    struct completion completion = { .job_id = c->complete.job_id,
                                     .owner_id = owner_id,
                                     .result = c->complete.result };
    bool sure = db_engine(tx->store->db) == DB_SQLITE && !tx->alone;
    const struct local_run *run =
        sure ? local_run_find(tx->engine, completion.job_id) : NULL;
    if (run && run->owner_id == owner_id && !run->stop_told && !run->ended) {
        completion.known = true;
        completion.old_state = JOB_RUNNING;
        completion.queue_id = run->queue_id;
        completion.project_id = run->project_id;
        completion.started_at = run->started_at;
    }
    return completion;
}

static int by_job(const void *a, const void *b)
{
    int64_t x = ((const struct completion *)a)->job_id;
    int64_t y = ((const struct completion *)b)->job_id;
    return (x > y) - (x < y);
}

int apply_completions(struct tx *tx, struct command **commands, size_t count)
{
    struct completion *list = arena_array(&tx->store->arena, struct completion, count);
    int64_t *owners = arena_array(&tx->store->arena, int64_t, count);
    struct briefs briefs = { 0 };
    size_t n = 0;
    if (!list || !owners)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++) {
        struct command *c = commands[i];
        c->error = (struct error){ 0 };
        c->result = owner_for(tx, c->complete.owner_id, c->complete.session, &owners[i]);
        if (tx->store->failed)
            return tx->store->failed;
        if (c->result == -HF_NOT_FOUND)
            owners[i] = -1; /* refused below, with the job's own story */
        list[n++] = completion_of(tx, c, owners[i]);
    }
    /* The same run twice in one pile: the first one counts. */
    qsort(list, n, sizeof(*list), by_job);
    size_t distinct = 0;
    for (size_t i = 0; i < n; i++)
        if (distinct == 0 || list[i].job_id != list[distinct - 1].job_id)
            list[distinct++] = list[i];
    if (distinct < n && !tx->alone)
        return store_fail(tx->store, -HF_CONFLICT); /* one by one, in the second pass */

    int r = store_complete(tx->store, list, distinct);
    if (r == 0)
        r = load_briefs(tx, list, distinct, &briefs);
    for (size_t i = 0; i < count && r == 0; i++) {
        struct completion key = { .job_id = commands[i]->complete.job_id };
        const struct completion *done =
            bsearch(&key, list, distinct, sizeof(key), by_job);
        assert(done);
        if (done->done) {
            accept_completion(tx, done, &briefs);
            store_output_insert(tx->store, done->job_id, commands[i]->complete.output);
            commands[i]->result = 0;
        } else {
            commands[i]->result = refuse_completion(tx, commands[i], owners[i]);
            r = tx->store->failed;
        }
    }
    return r;
}

/* ---- failures ---- */

static enum job_event event_of(int error_type)
{
    switch (error_type) {
    case ERROR_TIMEOUT:
        return ON_TIMEOUT;
    case ERROR_INTERRUPTED:
        return ON_INTERRUPT;
    case ERROR_CRASH:
        return ON_CRASH;
    default:
        return ON_FAIL;
    }
}

/* The row, if the report's owner may still decide about it. */
static struct job_row *fenced(struct tx *tx, struct command *c, int64_t job_id,
                              int64_t owner_id, int *ret)
{
    struct job_row *row = tx_job(tx, job_id, ret);
    if (!row) {
        if (*ret == -HF_NOT_FOUND)
            *ret = not_found(c, job_id);
        return NULL;
    }
    if (!job_state_busy(row->job.state) || row->run.job_id == 0 ||
        row->run.finished_at != 0 || row->run.owner_id != owner_id) {
        *ret = refuse_late(tx, c, row, owner_id);
        return NULL;
    }
    return row;
}

int apply_fail(struct tx *tx, struct command *c)
{
    int64_t owner_id = 0;
    int r = owner_for(tx, c->fail.owner_id, c->fail.session, &owner_id);
    if (r < 0 && r != -HF_NOT_FOUND)
        return r;
    struct job_row *row = fenced(tx, c, c->fail.job_id, owner_id, &r);
    if (!row)
        return r;
    struct ending ending = {
        .event = event_of(c->fail.error.type),
        .error = c->fail.error,
        .retry_after_us = c->fail.retry_after_us,
        .crash_counts = c->fail.error.type == ERROR_CRASH,
    };
    finish_job(tx, row, &ending);
    store_output_insert(tx->store, row->job.id, c->fail.output);
    c->fail.out_retry_id = ending.retry_id;
    c->fail.out_state = row->job.state;
    return tx->store->failed;
}

int apply_progress(struct tx *tx, struct command *c)
{
    int64_t owner_id = 0;
    int r = owner_for(tx, c->progress.owner_id, c->progress.session, &owner_id);
    if (r < 0 && r != -HF_NOT_FOUND)
        return r;
    struct job_row *row = tx_job(tx, c->progress.job_id, &r);
    if (!row)
        return r == -HF_NOT_FOUND ? not_found(c, c->progress.job_id) : r;
    struct run *run = &row->run;
    if (!job_state_busy(row->job.state) || run->finished_at != 0 ||
        run->owner_id != owner_id)
        return error_set(
            &c->error, -HF_LATE, NULL,
            "Run %lld is no longer yours: its job is %s. Stop working on it.",
            (long long)row->job.id, job_state_name(row->job.state));
    if (c->progress.percent >= 0)
        run->percent = c->progress.percent;
    if (c->progress.text.p)
        run->progress = c->progress.text;
    store_post(tx->store, SQL_RUN_PROGRESS,
               (struct db_value[]){ db_int(row->job.id), db_int(run->percent),
                                    db_text(run->progress) });
    c->progress.out_cancelled = row->job.state == JOB_CANCELLING;
    return 0;
}
