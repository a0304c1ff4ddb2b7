/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs_many.c -- cancelling and retrying all jobs that a filter finds.
 *
 * It goes chunk by chunk, from the newest down: a reader finds the next few hundred
 * jobs, each becomes a command of its own, and when all of them are answered the next
 * chunk is looked for.  So no transaction is large, others are served in between, and
 * a client that hangs up stops it.  What comes into being meanwhile is newer than the
 * first chunk, and is left alone.
 *
 * Each job is changed as by itself: a retry of a chain acts on its tail.  So that a
 * chain is not run again because its first attempt once failed, jobs that were retried
 * already are skipped. */
#include "api/wanted.h"
#include "base/limits.h"

enum {
    CHUNK_JOBS = 500,
    STEP_ROWS = 5000,
    STEPS = 10, /* of a reader, for one chunk */
    BUSY_WAIT_MS = 20
};

/* What a reader has found. */
struct chunk {
    int64_t ids[CHUNK_JOBS]; /* to be changed */
    size_t count;
    int64_t skipped;
    int64_t next; /* where the next one begins; 0: there is none */
};

struct many {
    struct call *call;
    struct wanted wanted;
    enum op op;
    bool dry_run;
    struct slice reason;
    int64_t matched, changed, skipped;

    struct chunk chunk;   /* the reader's while it looks */
    size_t sent;          /* of the chunk */
    size_t under_way;     /* commands that are not answered */
    struct error error;   /* why it cannot go on */
    struct waiter waiter; /* for a committer that has too much to do */
};

static void go_on(struct many *many);

/* ---- the end ---- */

static void answer_counts(struct many *many)
{
    struct buf buf;
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_int(&w, "matched", many->matched);
    json_put_int(&w, "changed", many->changed);
    json_put_int(&w, "skipped", many->skipped);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(many->call, 200, &buf);
}

static void finish(struct many *many)
{
    waiter_end(&many->waiter);
    if (many->error.code)
        call_refuse_with(many->call, many->error.code, NULL,
                         "%.300s Of %lld jobs that were found so far, %lld were changed; "
                         "the rest was not.",
                         many->error.text, (long long)many->matched,
                         (long long)many->changed);
    else
        answer_counts(many);
}

/* ---- finding a chunk, in the reader's thread ---- */

/* What the command would do something to. */
static bool can_change(enum op op, const struct job *job)
{
    if (op == OP_CANCEL)
        return job_state_waiting(job->state) || job->state == JOB_RUNNING ||
               (job->state == JOB_FAILED && job->retry_state == RETRY_PENDING);
    return job->state == JOB_SCHEDULED ||
           (job_state_terminal(job->state) && job->retry_state != RETRY_RETRIED);
}

static int find_chunk(struct store *store, struct show *show, struct json_writer *w)
{
    const struct many *many = show->call->state;
    struct chunk *chunk = show->arg;
    int64_t before = show->id;
    struct job_filter filter;
    bool none = false;

    *chunk = (struct chunk){ 0 };
    int r = wanted_resolve(store, &many->wanted, &show->look.error, &filter, &none);
    filter.before = before;
    filter.limit = CHUNK_JOBS;
    for (int i = 0; r == 0 && !none && i < STEPS; i++) {
        struct job_page page = { 0 };
        r = store_jobs_page(store, &filter, STEP_ROWS, &show->arena, &page);
        for (size_t n = 0; r == 0 && n < page.count; n++)
            if (can_change(many->op, &page.rows[n].job))
                chunk->ids[chunk->count++] = page.rows[n].job.id;
            else
                chunk->skipped++;
        chunk->next = filter.before = page.next;
        if (chunk->count > 0 || page.next == 0)
            break;
    }
    json_bool(w, true); /* an answer is written by the last chunk */
    return r;
}

static void chunk_found(struct call *call, struct show *show)
{
    struct many *many = call->state;
    const struct chunk *chunk = show->arg;

    many->matched += (int64_t)chunk->count + chunk->skipped;
    many->skipped += chunk->skipped;
    many->changed += many->dry_run ? (int64_t)chunk->count : 0;
    many->sent = many->dry_run ? chunk->count : 0;
    go_on(many);
}

static void look_on(struct many *many)
{
    call_show_then(many->call, READER_LONG, many->chunk.next, &many->chunk, find_chunk,
                   chunk_found);
}

/* ---- changing it, in the loop's thread ---- */

/* A job that has changed meanwhile, or whose source is taken, is only skipped. */
static bool is_refusal(int code)
{
    return code == -HF_CONFLICT || code == -HF_DUPLICATE || code == -HF_NOT_FOUND ||
           code == -HF_LATE;
}

static void changed(struct command *command, void *arg)
{
    struct many *many = arg;
    bool did = many->op == OP_CANCEL || command->retry.out_changed;

    if (command->result == 0 && did)
        many->changed++;
    else if (command->result == 0 || is_refusal(command->result))
        many->skipped++;
    else
        error_set(&many->error, command->result, NULL, "%s",
                  command->error.text[0] ? command->error.text
                                         : status_of(command->result)->title);
    command_free(command);
    many->under_way--;
    if (many->under_way == 0)
        go_on(many);
}

static int send_one(struct many *many, int64_t id)
{
    struct command *command = command_new(many->op);
    if (!command)
        return -HF_NOMEM;
    if (many->op == OP_CANCEL) {
        command->cancel.job_id = id;
        command->cancel.reason = many->reason;
    } else {
        command->retry.job_id = id;
    }
    command->done = changed;
    command->done_arg = many;
    int r = node_submit(many->call->api->node, command);
    if (r < 0)
        command_free(command);
    return r;
}

static void send_chunk(struct many *many)
{
    int r = 0;
    while (many->sent < many->chunk.count && r == 0) {
        r = send_one(many, many->chunk.ids[many->sent]);
        if (r == 0) {
            many->sent++;
            many->under_way++;
        }
    }
    if (r < 0 && r != -HF_BUSY)
        error_set(&many->error, r, NULL, "The server is stopping.");
}

static void waited(void *arg)
{
    go_on(arg);
}

/* Nothing is under way: the rest of the chunk, the next one, or the end. */
static void go_on(struct many *many)
{
    bool stop = many->call->gone || many->error.code;

    assert(many->under_way == 0);
    if (many->call->api->stopping && !stop) {
        error_set(&many->error, -HF_CLOSED, NULL, "The server is stopping.");
        stop = true;
    }
    if (!stop && many->sent < many->chunk.count) {
        send_chunk(many);
        if (many->under_way > 0)
            return;
        if (!many->error.code && waiter_wait(&many->call->api->waiters, &many->waiter, 0,
                                             BUSY_WAIT_MS * US_PER_MS) == 0)
            return;
        stop = true;
    }
    if (stop || many->chunk.next == 0)
        finish(many);
    else
        look_on(many);
}

/* ---- routes ---- */

static bool read_many(struct call *call, struct many *many)
{
    static const char *const more[] = { "dryRun", "reason" };
    struct slice values[2];
    struct error error = { 0 };
    bool cancel = many->op == OP_CANCEL;

    if (!wanted_from_body(call, more, cancel ? 2 : 1, values, &many->wanted))
        return false;
    int r = 0;
    if (values[0].p)
        r = json_get_bool(values[0], "dryRun", &error, &many->dry_run);
    if (r == 0 && cancel && values[1].p)
        r = json_get_text(values[1], "reason", LIMIT_TEXT_BYTES, call->arena, &error,
                          &many->reason);
    if (r == 0 && many->wanted.given == 0)
        r = error_set(&error, -HF_INVALID, NULL,
                      "There is no filter; give at least one, such as queue, kind or "
                      "state, so that not everything is %s by mistake.",
                      cancel ? "cancelled" : "retried");
    if (r < 0)
        call_refuse(call, &error);
    return r == 0;
}

static void start(struct call *call, enum op op, unsigned states)
{
    struct many *many = call_new(call, struct many);
    if (!many)
        return;
    memset(many, 0, sizeof(*many));
    many->call = call;
    many->op = op;
    many->waiter.woken = waited;
    many->waiter.arg = many;
    if (!read_many(call, many))
        return;
    if (many->wanted.filter.states == 0)
        many->wanted.filter.states = states;
    call->state = many;
    look_on(many);
}

static void cancel_many(struct call *call)
{
    start(call, OP_CANCEL,
          1u << JOB_SCHEDULED | 1u << JOB_QUEUED | 1u << JOB_RUNNING |
              1u << JOB_CANCELLING);
}

static void retry_many(struct call *call)
{
    start(call, OP_RETRY, 1u << JOB_FAILED);
}

const struct route job_many_routes[] = {
    { HTTP_POST, "jobs/cancel", ROLE_PRODUCER, cancel_many, BODY_SMALL, false },
    { HTTP_POST, "jobs/retry", ROLE_OPERATOR, retry_many, BODY_SMALL, false },
    { 0 },
};
