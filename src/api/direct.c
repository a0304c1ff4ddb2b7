/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.c -- a job that is run at once, alone in its queue, while the caller waits.
 *
 * The queue is reserved; the job is made under that hold, which lets it and nothing
 * else through; whoever executes its kind runs it; the hold ends in the transaction that
 * ends the job.  So the engine keeps every promise of this, and a crash at any point
 * leaves neither a held queue nor a job that runs later for nobody. */
#include "api/holds.h"
#include "api/new_job_json.h"
#include "api/views.h"
#include "base/limits.h"

struct direct {
    struct hold hold; /* first */
    struct new_job job;
    int64_t job_id; /* 0 until it is made */
    bool ended;     /* the job, when it was last seen */
};

static void look(void *arg);

/* ---- the job is under way ---- */

/* Nobody waits for it any more.  The release follows its end. */
static void cancel(struct call *call)
{
    struct direct *direct = call->state;
    waiter_end(&direct->hold.waiter);
    struct command *command = command_new(OP_CANCEL);
    if (command) {
        command->cancel.job_id = direct->job_id;
        command->cancel.reason = SLICE("The direct call that waited for it has ended.");
    }
    send_and_forget(call->api, command);
}

static void gone(struct call *call)
{
    struct direct *direct = call->state;
    if (direct->hold.waiter.link)
        call_refuse_with(call, -HF_CLOSED, NULL, "The client hung up.");
}

static int show_job(struct store *store, struct show *show, struct json_writer *w)
{
    struct direct *direct = show->arg;
    struct job_row row;
    int r = store_job_get(store, show->id, &show->arena, &row);
    if (r == 0)
        r = view_job(store, &show->arena, w, &row,
                     clock_wall_us(show->call->api->options.clock));
    if (r == 0)
        direct->ended = job_state_terminal(row.job.state);
    return r;
}

static void wait_more(struct direct *direct)
{
    struct call *call = direct->hold.call;
    if (call->gone || call->api->stopping)
        call_refuse_with(call, -HF_CLOSED, NULL, "The server is stopping.");
    else if (waiter_wait(&call->api->waiters, &direct->hold.waiter, direct->job_id,
                         US_PER_S) < 0)
        call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left.");
}

static void seen(struct call *call, struct show *show)
{
    struct direct *direct = call->state;
    if (!direct->ended) {
        wait_more(direct);
        return;
    }
    call->on_gone = NULL;
    call->on_refused = NULL;
    call_answer_buf(call, 200, &show->out);
}

static void look(void *arg)
{
    struct direct *direct = arg;
    call_show_then(direct->hold.call, READER_QUICK, direct->job_id, direct, show_job,
                   seen);
}

/* ---- the job is made ---- */

static void release(struct call *call)
{
    hold_give_up(call->state);
}

static void enqueued(struct call *call, struct command *command)
{
    struct direct *direct = call->state;
    direct->job_id = command->enqueue.out[0].id;
    direct->hold.waiter.woken = look;
    direct->hold.waiter.arg = direct;
    call->on_gone = gone;
    call->on_refused = cancel;
    if (call->gone)
        call_refuse_with(call, -HF_CLOSED, NULL, "The client hung up.");
    else
        look(direct);
}

static void granted(struct call *call, struct show *show)
{
    struct direct *direct = call->state;
    (void)show;
    call->on_refused = release; /* until there is a job, whose end does it */
    struct command *command = call_command(call, OP_ENQUEUE);
    if (!command)
        return;
    command->enqueue.jobs = &direct->job;
    command->enqueue.out = arena_new(&command->arena, struct enqueued);
    command->enqueue.count = 1;
    command->enqueue.reservation_id = direct->hold.id;
    if (command->enqueue.out) {
        call_submit(call, command, enqueued);
        return;
    }
    command_free(command);
    call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left; try again.");
}

/* ---- what was sent ---- */

/* What a direct call decides itself is not asked for otherwise. */
static int check_job(const struct new_job *job, struct slice queue, struct error *error)
{
    if (job->queue.p && !slice_equal(job->queue, queue))
        return error_set(error, -HF_INVALID, "queue",
                         "queue is %.*s, and this is the queue %.*s; leave it out.",
                         (int)job->queue.n, job->queue.p, (int)queue.n, queue.p);
    if (job->run_at || job->delay_us)
        return error_set(error, -HF_INVALID, job->run_at ? "runAt" : "delayMs",
                         "A direct call runs its job at once; leave out runAt and "
                         "delayMs.");
    if (job->max_retries > 0)
        return error_set(error, -HF_INVALID, "maxRetries",
                         "A direct call does not try again: maxRetries must be 0 or left "
                         "out.");
    if (job->on_crash == ON_CRASH_RETRY)
        return error_set(error, -HF_INVALID, "onCrash",
                         "A direct call does not try again: onCrash must be fail or left "
                         "out.");
    return 0;
}

static int read_direct(struct call *call, struct slice queue, struct error *error,
                       struct direct **ret)
{
    struct slice body = call->request->body;
    struct direct *direct = arena_new(call->arena, struct direct);
    if (!direct)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left; try again.");
    *direct = (struct direct){ .hold = { .granted = granted } };
    int r = json_check(body, LIMIT_DOCUMENT_DEPTH, error);
    if (r == 0)
        r = new_job_read(body, call->arena, call->api->options.max_payload_bytes, error,
                         &direct->job);
    if (r == 0)
        r = check_job(&direct->job, queue, error);
    direct->job.queue = queue;
    direct->job.on_conflict = CONFLICT_REJECT; /* another's job is not ours to wait for */
    *ret = direct;
    return r;
}

static void run_direct(struct call *call)
{
    static const char *const known[] = { "ttlMs", "waitMs", "holder" };
    int64_t ttl_ms = DEFAULT_RESERVATION_MS, wait_ms = DEFAULT_WAIT_MS;
    struct slice queue, holder = call_query(call, "holder");
    struct direct *direct = NULL;
    struct error error = { 0 };
    if (!call_name(call, 0, "queue", &queue) || !call_query_known(call, known, 3) ||
        !call_query_int(call, "ttlMs", 1, LIMIT_RESERVATION_MS, &ttl_ms) ||
        !call_query_int(call, "waitMs", 0, LIMIT_WAIT_MS, &wait_ms))
        return;
    int r = read_direct(call, queue, &error, &direct);
    if (r == 0 && holder.p && (holder.n == 0 || holder.n > LIMIT_TEXT_BYTES))
        r = error_set(&error, -HF_INVALID, "holder", "holder must have 1 to %d bytes.",
                      LIMIT_TEXT_BYTES);
    if (r < 0) {
        error_set(&error, r, NULL, "%s.", status_of(r)->title);
        call_refuse(call, &error);
        return;
    }
    hold_begin(call, &direct->hold, queue, holder.p ? holder : SLICE("direct call"),
               ttl_ms, wait_ms, true);
}

const struct route direct_routes[] = {
    { HTTP_POST, "queues/{queue}/direct", ROLE_OPERATOR, run_direct, BODY_SMALL, true },
    { 0 },
};
