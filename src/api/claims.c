/* SPDX-License-Identifier: Apache-2.0
 *
 * claims.c -- POST /claim, and the line of those who wait. */
#include "api/claims.h"

#include <event2/event.h>

#include "api/call.h"
#include "base/hash.h"
#include "base/limits.h"

/* More at once is no quicker: a commit takes as long as it takes. */
enum { WAKES_MAX = 16 };

/* One claim, from its arrival to its answer. */
struct claim_wait {
    struct claim_wait *next, **link; /* in the line; link is NULL while it asks */
    struct call *call;
    struct event *timer; /* NULL: it does not wait */
    uint64_t arrival;
    int64_t until_us; /* monotonic */
    int wakes;        /* how many it wakes when it is given something */

    struct slice session, worker, host, claim_id;
    int64_t pid, count, wait_ms;
    struct slice *queues; /* none: every queue */
    uint64_t *hashes;     /* of their names: comparing is cheap */
    size_t queue_count;
};

static void ask(struct claim_wait *wait);

/* ---- the line ---- */

/* Behind all that came before, also when it comes back. */
static void line_in(struct claim_line *line, struct claim_wait *wait)
{
    line->count++;
    struct claim_wait **link = &line->first;
    while (*link && (*link)->arrival < wait->arrival)
        link = &(*link)->next;
    wait->next = *link;
    wait->link = link;
    if (wait->next)
        wait->next->link = &wait->next;
    *link = wait;
}

static void line_out(struct claim_wait *wait)
{
    assert(wait->link);
    wait->call->api->claims.count--;
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
    wait->link = NULL;
}

static bool wants(const struct claim_wait *wait, uint64_t hash, struct slice queue)
{
    for (size_t i = 0; i < wait->queue_count; i++)
        if (wait->hashes[i] == hash && slice_equal(wait->queues[i], queue))
            return true;
    return wait->queue_count == 0;
}

/* The oldest of those who want this queue ask again; each will wake `next` others if it
 * succeeds. */
static void wake(struct claim_line *line, struct slice queue, int count, int next)
{
    uint64_t hash = hash64(0, queue);
    struct claim_wait *after = NULL;
    for (struct claim_wait *w = line->first; w && count > 0; w = after) {
        after = w->next;
        if (!wants(w, hash, queue))
            continue;
        line_out(w);
        w->wakes = next;
        count--;
        ask(w);
    }
}

void claims_ready(struct api *api, const char *const *queues, size_t count)
{
    struct claim_line *line = &api->claims;
    for (size_t i = 0; queues && i < count; i++)
        wake(line, slice_of(queues[i]), 1, 1);
    if (!queues && line->first) { /* too many to name: one of each is woken by itself */
        struct claim_wait *oldest = line->first;
        line_out(oldest);
        oldest->wakes = WAKES_MAX;
        ask(oldest);
    }
}

/* ---- answers ---- */

static void put_run(struct json_writer *w, const struct started *run)
{
    const struct job *job = &run->job;

    json_begin_object(w);
    json_put_id(w, "id", job->id);
    json_put_id(w, "rootId", job->root_id);
    json_put_str(w, "project", run->project);
    json_put_str(w, "queue", run->queue);
    json_put_str(w, "kind", job->kind);
    json_put_raw(w, "payload", job->payload);
    json_put_raw(w, "metadata", job->metadata);
    json_put_str(w, "uniqueKey", job->unique_key);
    json_put_int(w, "priority", job->priority);
    json_put_int(w, "attempt", job->attempt);
    json_put_int(w, "maxRetries", job->max_retries);
    json_put_int(w, "retriesLeft", job->retries_left);
    json_put_time(w, "runAt", job->run_at);
    json_put_time(w, "createdAt", job->created_at);
    json_put_time(w, "startedAt", run->started_at);
    json_put_time(w, "deadlineAt", run->deadline_at);
    json_end_object(w);
}

static void let_go(struct claim_wait *wait)
{
    if (wait->link)
        line_out(wait);
    if (wait->timer)
        event_free(wait->timer);
    wait->timer = NULL;
}

static void answer_nothing(struct claim_wait *wait)
{
    let_go(wait);
    call_answer(wait->call, 200, SLICE("{\"runs\":[]}"));
}

static void handed_back(struct command *command, void *arg)
{
    (void)arg; /* what cannot be handed back now ends with the worker's lease */
    command_free(command);
}

static void hand_back(struct api *api, const struct started *run)
{
    struct command *command = command_new(OP_FAIL);
    if (!command)
        return;
    command->fail.job_id = run->job.id;
    command->fail.owner_id = run->owner_id;
    command->fail.error = (struct job_error){
        .type = ERROR_INTERRUPTED,
        .message = SLICE("The worker hung up before it was given this run; it is tried "
                         "again at once.")
    };
    command->done = handed_back;
    if (node_report(api->node, command) < 0)
        command_free(command);
}

static void answer_runs(struct claim_wait *wait, const struct command *command)
{
    const struct started *runs = command->claim.out;
    struct call *call = wait->call;
    struct buf buf;

    let_go(wait);
    buf_init(&buf, (size_t)2 << 30);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_key(&w, "runs");
    json_begin_array(&w);
    for (size_t i = 0; i < command->claim.out_count; i++)
        put_run(&w, &runs[i]);
    json_end_array(&w);
    json_end_object(&w);
    json_finish(&w);
    bool lost = call->gone || buf.failed;
    for (size_t i = 0; i < command->claim.out_count && lost && !wait->claim_id.p; i++)
        hand_back(call->api, &runs[i]);
    call_answer_buf(call, 200, &buf);
}

/* ---- asking ---- */

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct claim_wait *wait = arg;
    (void)fd;
    (void)what;
    if (wait->link) /* else it is told when its claim comes back */
        answer_nothing(wait);
}

static void on_gone(struct call *call)
{
    struct claim_wait *wait = call->state;
    if (wait->link)
        answer_nothing(wait);
}

static int start_timer(struct claim_wait *wait)
{
    struct timeval after = { wait->wait_ms / 1000, wait->wait_ms % 1000 * 1000 };
    wait->timer = evtimer_new(wait->call->api->options.loop, on_time, wait);
    return wait->timer && evtimer_add(wait->timer, &after) == 0 ? 0 : -HF_NOMEM;
}

/* Nothing there: waits, if it may. */
static void came_back_empty(struct claim_wait *wait)
{
    struct api *api = wait->call->api;
    if (wait->wait_ms == 0 || wait->call->gone || api->stopping ||
        clock_mono_us(api->options.clock) >= wait->until_us ||
        (!wait->timer && start_timer(wait) < 0))
        answer_nothing(wait);
    else
        line_in(&api->claims, wait);
}

/* There may be more where these came from. */
static void wake_others(struct claim_line *line, const struct command *command, int wakes)
{
    int next = 2 * wakes < WAKES_MAX ? 2 * wakes : WAKES_MAX;
    for (size_t i = 0; i < command->claim.out_count; i++) {
        struct slice queue = command->claim.out[i].queue;
        if (i == 0 || !slice_equal(queue, command->claim.out[i - 1].queue))
            wake(line, queue, wakes, next);
    }
}

static void asked(struct command *command, void *arg)
{
    struct claim_wait *wait = arg;
    struct api *api = wait->call->api;
    int wakes = wait->wakes;

    if (command->result < 0) {
        let_go(wait);
        error_set(&command->error, command->result, NULL, "%s.",
                  status_of(command->result)->title);
        call_refuse(wait->call, &command->error);
    } else if (command->claim.out_count == 0) {
        came_back_empty(wait);
    } else {
        answer_runs(wait, command);
        wake_others(&api->claims, command, wakes);
    }
    command_free(command);
}

static void ask(struct claim_wait *wait)
{
    struct call *call = wait->call;
    struct command *command = command_new(OP_CLAIM);
    int r = command ? 0 : -HF_NOMEM;
    if (r == 0) {
        command->claim.queues = wait->queues;
        command->claim.queue_count = wait->queue_count;
        command->claim.count = (size_t)wait->count;
        command->claim.session = wait->session;
        command->claim.worker = wait->worker;
        command->claim.host = wait->host;
        command->claim.pid = wait->pid;
        command->claim.claim_id = wait->claim_id;
        command->done = asked;
        command->done_arg = wait;
        r = node_submit(call->api->node, command);
    }
    if (r == 0)
        return;
    command_free(command);
    let_go(wait);
    call_refuse_with(call, r, NULL, "The server is too busy, or stopping; try again.");
}

void claims_stopping(struct api *api)
{
    while (api->claims.first)
        answer_nothing(api->claims.first);
}

/* ---- what was sent ---- */

enum { QUEUES, WORKER, SESSION, HOST, PID, CLAIM_ID, COUNT, WAIT_MS, FIELDS };
static const char *const names[FIELDS] = { "queues", "worker",  "session", "host",
                                           "pid",    "claimId", "count",   "waitMs" };

static int read_queues(struct slice list, struct arena *arena, struct error *error,
                       struct claim_wait *wait)
{
    struct json_iter it;
    struct slice item;
    size_t count = 0;
    if (!list.p)
        return 0;
    int r = json_expect(list, "queues", JSON_KIND_ARRAY, error);
    if (r < 0)
        return r;
    for (it = json_iter(list); json_array_next(&it, &item);)
        count++;
    if (count == 0 || count > LIMIT_CLAIM_QUEUES)
        return error_set(error, -HF_INVALID, "queues",
                         "queues has %zu entries; it must have 1 to %d, or be left out "
                         "for all queues.",
                         count, LIMIT_CLAIM_QUEUES);
    wait->queues = arena_array(arena, struct slice, count);
    wait->hashes = arena_array(arena, uint64_t, count);
    if (!wait->queues || !wait->hashes)
        return -HF_NOMEM;
    for (it = json_iter(list); r == 0 && json_array_next(&it, &item);) {
        size_t i = wait->queue_count++;
        r = json_get_name(item, "queues", arena, error, &wait->queues[i]);
        wait->hashes[i] = r == 0 ? hash64(0, wait->queues[i]) : 0;
    }
    return r;
}

static int read_text(const struct slice *v, int field, struct arena *arena,
                     struct error *error, struct slice *ret)
{
    if (!v[field].p)
        return 0;
    int r = json_get_text(v[field], names[field], LIMIT_TEXT_BYTES, arena, error, ret);
    if (r == 0 && ret->n == 0)
        r = error_set(error, -HF_INVALID, names[field], "%s is empty.", names[field]);
    return r;
}

static int read_int(const struct slice *v, int field, int64_t least, int64_t most,
                    struct error *error, int64_t *ret)
{
    return v[field].p ? json_get_int(v[field], names[field], least, most, error, ret) : 0;
}

static int read_claim(const struct slice *v, struct arena *arena, struct error *error,
                      struct claim_wait *wait)
{
    if (!v[SESSION].p)
        return error_set(error, -HF_INVALID, "session",
                         "session is missing; it names one process of a worker, and must "
                         "be unique to it.");
    int r = read_text(v, SESSION, arena, error, &wait->session);
    if (r == 0)
        r = read_text(v, WORKER, arena, error, &wait->worker);
    if (r == 0)
        r = read_text(v, HOST, arena, error, &wait->host);
    if (r == 0)
        r = read_text(v, CLAIM_ID, arena, error, &wait->claim_id);
    if (r == 0)
        r = read_queues(v[QUEUES], arena, error, wait);
    if (r == 0)
        r = read_int(v, PID, 1, INT32_MAX, error, &wait->pid);
    if (r == 0)
        r = read_int(v, COUNT, 1, LIMIT_CLAIM_JOBS, error, &wait->count);
    if (r == 0)
        r = read_int(v, WAIT_MS, 0, LIMIT_WAIT_MS, error, &wait->wait_ms);
    return r;
}

static void claim(struct call *call)
{
    struct slice v[FIELDS];
    struct error error = { 0 };
    struct api *api = call->api;
    if (!call_fields(call, names, FIELDS, v))
        return;
    struct claim_wait *wait = arena_new(call->arena, struct claim_wait);
    int r = wait ? 0 : -HF_NOMEM;
    if (r == 0) {
        *wait = (struct claim_wait){
            .call = call, .arrival = api->claims.arrivals++, .count = 1, .wakes = 1
        };
        r = read_claim(v, call->arena, &error, wait);
    }
    if (r < 0) {
        error_set(&error, r, NULL, "%s.", status_of(r)->title);
        call_refuse(call, &error);
        return;
    }
    wait->until_us = clock_mono_us(api->options.clock) + wait->wait_ms * US_PER_MS;
    call->state = wait;
    call->on_gone = on_gone;
    ask(wait);
}

const struct route claim_routes[] = {
    { HTTP_POST, "claim", ROLE_WORKER, claim, BODY_SMALL, true },
    { 0 },
};
