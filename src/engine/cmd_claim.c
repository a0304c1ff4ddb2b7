/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_claim.c -- jobs begin to run: for remote workers who ask, and for this
 * node's own free slots.
 *
 * A claim passes the gates of its queues first, all of them in one go and in
 * order; they tell what may be taken: nothing while paused or reserved, not
 * more than the concurrency leaves.  Then it takes jobs queue by queue in the
 * caller's order, and inserts their runs in the same transaction: the run's key
 * is the job's id, so a second run cannot exist (I3). */
#include "base/limits.h"
#include "engine/schedule/endpoint.h"

/* ---- gates ---- */

static int by_queue(const void *a, const void *b)
{
    int64_t x = ((const struct gate *)a)->queue_id,
            y = ((const struct gate *)b)->queue_id;
    return (x > y) - (x < y);
}

static struct gate *gate_of(struct tx *tx, int64_t queue_id)
{
    struct gate key = { .queue_id = queue_id };
    if (tx->gate_count == 0)
        return NULL;
    return bsearch(&key, tx->gates, tx->gate_count, sizeof(key), by_queue);
}

/* How many may be claimed from a queue, up to `wanted`. */
static int64_t room(const struct gate *gate, int64_t wanted)
{
    if (!gate || !gate->known || gate->paused || gate->reservation_id)
        return 0;
    if (gate->concurrency == 0)
        return wanted;
    if (!gate->exclusive)
        return 0; /* it got its limit a moment ago: next time, with the gate to itself */
    int64_t free_slots = gate->concurrency - gate->busy;
    return free_slots < wanted ? (free_slots > 0 ? free_slots : 0) : wanted;
}

/* Not under a lease that is over: whoever judges us by it would make a retry of what we
 * begin.  The next beat renews it, or finds that we are dead. */
static bool node_may_claim(const struct engine *engine)
{
    if (engine->lease_until != 0 && engine->lease_until <= engine->now_last)
        return false;
    return engine->ready && engine->dispatch.started && engine->owner_id != 0 &&
           local_busy(engine) < engine->capacity;
}

/* Counts (gates NULL) or lists the queues that may be claimed from. */
static size_t list_queues(struct tx *tx, struct command **commands, size_t count,
                          struct gate *gates)
{
    struct engine *engine = tx->engine;
    size_t n = 0;
    bool all = false;
    for (size_t i = 0; i < count; i++) {
        struct command *c = commands[i];
        if (c->op != OP_CLAIM)
            continue;
        all = all || c->claim.queue_count == 0;
        for (size_t q = 0; q < c->claim.queue_count; q++) {
            struct queue_entry *entry = NULL;
            if (store_queue(tx->store, c->claim.queues[q], false, &entry) < 0)
                continue; /* never mentioned: nothing in it */
            if (gates)
                gates[n] = (struct gate){ .queue_id = entry->queue.id };
            n++;
        }
    }
    for (size_t i = 0; i < tx->store->queue_count; i++) {
        int64_t id = tx->store->queues[i]->queue.id;
        struct dispatch_queue *queue =
            node_may_claim(engine) ? dispatch_queue(&engine->dispatch, id, -1) : NULL;
        if (!all && !(queue && queue->hint))
            continue;
        if (gates)
            gates[n] = (struct gate){ .queue_id = id };
        n++;
    }
    return n;
}

int open_gates(struct tx *tx, struct command **commands, size_t count)
{
    tx->gates = NULL;
    tx->gate_count = 0;
    size_t n = list_queues(tx, commands, count, NULL);
    if (n == 0 || tx->store->failed)
        return tx->store->failed;
    struct gate *gates = arena_array(&tx->store->arena, struct gate, n);
    if (!gates)
        return store_fail(tx->store, -HF_NOMEM);
    size_t listed = list_queues(tx, commands, count, gates);
    if (tx->store->failed)
        return tx->store->failed;
    assert(listed == n);
    qsort(gates, n, sizeof(*gates), by_queue);
    size_t distinct = 0;
    for (size_t i = 0; i < n; i++)
        if (distinct == 0 || gates[i].queue_id != gates[distinct - 1].queue_id)
            gates[distinct++] = gates[i];
    for (size_t i = 0; i < distinct; i++) {
        struct queue_entry *entry = store_queue_by_id(tx->store, gates[i].queue_id);
        gates[i].exclusive = entry && entry->queue.concurrency > 0;
    }
    int r = store_gates(tx->store, gates, distinct);
    for (size_t i = 0; i < distinct && r == 0; i++)
        if (gates[i].concurrency > 0 && !gates[i].exclusive)
            tx->store->queues_stale = true; /* our memory of the limit is old */
    tx->gates = gates;
    tx->gate_count = distinct;
    return r;
}

/* ---- taking ---- */

struct taking {
    struct tx *tx;
    int64_t owner_id;
    int executor;
    struct slice claim_id;
    struct started *out;
    size_t count, room; /* of `out`, which grows with what comes */
    size_t limit;
    size_t bytes; /* of payloads */
    bool http;    /* some are of kind http, on this node */
};

/* Room for so many more. */
static int have_room(struct taking *t, size_t more)
{
    if (more <= t->room - t->count)
        return 0;
    size_t room = t->count + (more > t->room ? more : t->room);
    struct started *out = arena_array(&t->tx->store->arena, struct started, room);
    if (!out)
        return store_fail(t->tx->store, -HF_NOMEM);
    if (t->count > 0)
        memcpy(out, t->out, t->count * sizeof(*out));
    t->out = out;
    t->room = room;
    return 0;
}

static int64_t stale_after(struct tx *tx, int64_t queue_id)
{
    struct queue_entry *entry = store_queue_by_id(tx->store, queue_id);
    return entry && entry->queue.stale_after_us >= 0
               ? entry->queue.stale_after_us
               : tx->engine->settings.stale_after_us;
}

/* Whose death counts against the job depends on it. */
static int executor_of(const struct taking *t, const struct job *job)
{
    bool http = slice_equal(job->kind, SLICE("http"));
    return t->executor != EXECUTOR_REMOTE && http ? EXECUTOR_HTTP : t->executor;
}

static void begin_run(struct taking *t, const struct job *job)
{
    struct tx *tx = t->tx;
    int64_t deadline = tx->now + job->max_execution_us;
    int64_t stale = tx->now + stale_after(tx, job->queue_id);
    int executor = executor_of(t, job);
    t->http = t->http || executor == EXECUTOR_HTTP;
    store_run_insert(tx->store,
                     &(struct run){ .job_id = job->id,
                                    .owner_id = t->owner_id,
                                    .started_at = tx->now,
                                    .deadline_at = deadline,
                                    .attention_at = stale < deadline ? stale : deadline,
                                    .executor = executor,
                                    .claim_id = t->claim_id });
    assert(t->count < t->limit && t->count < t->room);
    t->out[t->count++] = (struct started){ .job = *job,
                                           .started_at = tx->now,
                                           .deadline_at = deadline,
                                           .owner_id = t->owner_id };
    t->bytes += job->payload.n;
    tell_ordinary(tx, job, "job.run.started");
    struct engine_work *work = &tx->engine->totals.work;
    work->claims++;
    histogram_add_time(
        &work->waited,
        tx->now - (job->run_at > job->created_at ? job->run_at : job->created_at));
}

/* Takes what one statement gives.  Returns how many, or negative. */
static int64_t take(struct taking *t, const struct claim *claim)
{
    struct job *jobs = NULL;
    size_t n = 0;
    if (claim->limit == 0)
        return 0;
    int r = store_claim(t->tx->store, claim, &jobs, &n);
    if (r == 0)
        r = have_room(t, n);
    if (r < 0)
        return r;
    struct gate *gate = gate_of(t->tx, claim->queue_id);
    for (size_t i = 0; i < n; i++) {
        begin_run(t, &jobs[i]);
        if (gate)
            gate->busy++;
    }
    return (int64_t)n;
}

/* The one job that the hold on a queue lets through, if it is for this class. */
static int take_held(struct taking *t, struct gate *gate, int class, int64_t owner_id)
{
    struct job job;
    if (!gate || gate->paused || gate->held_job_id == 0)
        return 0;
    int r = store_claim_held(t->tx->store, gate->held_job_id, gate->queue_id, class,
                             owner_id, &job);
    if (r == 0)
        r = have_room(t, 1);
    if (r == 0) {
        begin_run(t, &job);
        gate->busy++;
    }
    return r == -HF_CONFLICT ? 0 : r;
}

static size_t smaller(int64_t a, int64_t b)
{
    int64_t n = a < b ? a : b;
    return n > 0 ? (size_t)(n < LIMIT_CLAIM_JOBS ? n : LIMIT_CLAIM_JOBS) : 0;
}

/* The normal lane while old work is held back: in the queue's order, old jobs
 * as far as the budget goes, fresh ones freely. */
static int64_t take_throttled(struct taking *t, struct claim claim, int64_t old_budget)
{
    int64_t start = t->tx->engine->started_at, wanted = (int64_t)claim.limit;
    int64_t taken = 0;
    for (int p = LIMIT_PRIORITY; p >= LEAST_PRIORITY && taken < wanted; p--)
        for (int fresh = 0; fresh < 2 && taken < wanted; fresh++) {
            claim.priority = p;
            claim.from_position = fresh ? start : INT64_MIN;
            claim.to_position = fresh ? INT64_MAX : start;
            claim.limit = smaller(wanted - taken, fresh ? wanted : old_budget);
            int64_t n = take(t, &claim);
            if (n < 0)
                return n;
            taken += n;
            old_budget -= fresh ? 0 : n;
        }
    return taken;
}

/* ---- remote workers ---- */

/* What is claimed must fit into one answer: a claim of many jobs with large payloads goes
 * step by step, and ends behind CLAIM_BYTES with fewer than it might have had. */
enum { CLAIM_STEP = 32, CLAIM_BYTES = 16 << 20 };

static int64_t take_in_steps(struct taking *t, struct claim claim)
{
    int64_t wanted = (int64_t)claim.limit, taken = 0, n = 0;
    do {
        claim.limit = smaller(wanted - taken, CLAIM_STEP);
        n = take(t, &claim);
        if (n < 0)
            return n;
        taken += n;
    } while (n == CLAIM_STEP && t->bytes < CLAIM_BYTES);
    return taken;
}

/* The two lanes take turns: half of each claim, and the odd one alternates. */
static int64_t take_remote(struct taking *t, int64_t queue_id, int64_t wanted)
{
    struct dispatch_queue *queue = dispatch_queue(&t->tx->engine->dispatch, queue_id, -1);
    if (!queue)
        return store_fail(t->tx->store, -HF_NOMEM);
    bool lanes = queue->remote_lane_recovered;
    int64_t share = lanes ? (wanted + (queue->remote_turn_recovered ? 1 : 0)) / 2 : 0;
    struct claim claim = { .queue_id = queue_id, .class = CLASS_REMOTE };
    int64_t recovered = 0, normal;
    claim.lane = LANE_RECOVERED;
    claim.limit = smaller(share, share);
    recovered = take_in_steps(t, claim);
    if (recovered < 0)
        return recovered;
    claim.lane = LANE_NORMAL;
    claim.limit = smaller(wanted - recovered, wanted);
    normal = take_in_steps(t, claim);
    if (normal < 0)
        return normal;
    if (lanes && recovered + normal < wanted) { /* nothing else to do: more of these */
        claim.lane = LANE_RECOVERED;
        claim.limit = smaller(wanted - recovered - normal, wanted);
        int64_t more = take_in_steps(t, claim);
        if (more < 0)
            return more;
        recovered += more;
    }
    if (lanes && wanted % 2 == 1)
        queue->remote_turn_recovered = !queue->remote_turn_recovered;
    return recovered + normal;
}

static int answer_with(struct command *c, struct taking *t)
{
    struct started *out = arena_array(&c->arena, struct started, t->count + 1);
    if (!out)
        return store_fail(t->tx->store, -HF_NOMEM);
    for (size_t i = 0; i < t->count; i++) {
        out[i] = t->out[i];
        struct job *job = &out[i].job;
        struct slice *const texts[] = {
            &job->kind,     &job->unique_key,  &job->retry_delays,    &job->payload,
            &job->metadata, &job->external_id, &job->concurrency_key, &job->cancel_reason
        };
        for (size_t k = 0; k < array_len(texts); k++)
            *texts[k] = arena_dup(&c->arena, *texts[k]);
        struct queue_entry *queue = store_queue_by_id(t->tx->store, job->queue_id);
        const char *project = store_project_name(t->tx->store, job->project_id);
        out[i].queue = arena_dup(&c->arena, slice_of(queue ? queue->queue.name : ""));
        out[i].project = arena_dup(&c->arena, slice_of(project));
    }
    c->claim.out = out;
    c->claim.out_count = t->count;
    return arena_end(&c->arena) < 0 ? store_fail(t->tx->store, -HF_NOMEM) : 0;
}

static int in_order(const void *a, const void *b)
{
    const struct job *x = &((const struct started *)a)->job;
    const struct job *y = &((const struct started *)b)->job;
    if (x->priority != y->priority)
        return y->priority - x->priority;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Moves the runs of a queue to the front of [from, count); returns how many. */
static size_t bring_forward(struct taking *t, size_t from, int64_t queue_id)
{
    size_t n = 0;
    for (size_t i = from; i < t->count; i++) {
        struct started run = t->out[i];
        if (run.job.queue_id != queue_id)
            continue;
        memmove(&t->out[from + n + 1], &t->out[from + n],
                (i - from - n) * sizeof(*t->out));
        t->out[from + n++] = run;
    }
    return n;
}

/* As the first answer was: queue by queue in the caller's order. */
static void sort_answer(struct taking *t, const struct command *c)
{
    struct store *store = t->tx->store;
    size_t n = c->claim.queue_count ? c->claim.queue_count : store->queue_count;
    size_t done = 0;
    qsort(t->out, t->count, sizeof(*t->out), in_order);
    for (size_t i = 0; i < n && done < t->count; i++) {
        struct queue_entry *entry = NULL;
        if (c->claim.queue_count == 0)
            entry = store->queues[i];
        else if (store_queue(store, c->claim.queues[i], false, &entry) < 0)
            continue;
        done += bring_forward(t, done, entry->queue.id);
    }
}

/* The same claim asked again (its answer was lost): the same runs. */
static int repeat_claim(struct taking *t, const struct command *c)
{
    struct tx *tx = t->tx;
    struct id_list before;
    int r = store_claimed_before(tx->store, t->owner_id, t->claim_id, &tx->store->arena,
                                 &before);
    if (r < 0)
        return r;
    r = have_room(t, before.count);
    for (size_t i = 0; i < before.count && r == 0 && t->count < t->limit; i++) {
        struct job_row *row = tx_job(tx, before.ids[i], &r);
        if (!row)
            break;
        r = store_payload(tx->store, &row->job, &tx->store->arena);
        t->out[t->count++] = (struct started){ .job = row->job,
                                               .started_at = row->run.started_at,
                                               .deadline_at = row->run.deadline_at,
                                               .owner_id = t->owner_id };
    }
    if (r == 0 && t->count > 0)
        sort_answer(t, c);
    return r < 0 ? store_fail(tx->store, r) : 0;
}

static int claim_one(struct taking *t, struct command *c)
{
    struct job job;
    int r = store_claim_one(t->tx->store, c->claim.job_id, &job);
    if (r == -HF_CONFLICT)
        return error_set(&c->error, r, NULL, "Job %lld is not queued.",
                         (long long)c->claim.job_id);
    if (r == 0)
        r = have_room(t, 1);
    if (r == 0)
        begin_run(t, &job);
    return r;
}

static int claim_queues(struct taking *t, struct command *c)
{
    struct tx *tx = t->tx;
    size_t n = c->claim.queue_count ? c->claim.queue_count : tx->store->queue_count;
    for (size_t i = 0; i < n && t->count < t->limit && t->bytes < CLAIM_BYTES; i++) {
        struct queue_entry *entry = NULL;
        if (c->claim.queue_count == 0)
            entry = tx->store->queues[i];
        else if (store_queue(tx->store, c->claim.queues[i], false, &entry) < 0)
            continue;
        struct gate *gate = gate_of(tx, entry->queue.id);
        int64_t wanted = room(gate, (int64_t)(t->limit - t->count));
        int64_t taken = wanted > 0 ? take_remote(t, entry->queue.id, wanted)
                                   : take_held(t, gate, CLASS_REMOTE, 0);
        if (taken < 0)
            return (int)taken;
    }
    return 0;
}

int apply_claim(struct tx *tx, struct command *c)
{
    struct taking t = { .tx = tx,
                        .executor = EXECUTOR_REMOTE,
                        .claim_id = c->claim.claim_id,
                        .limit = c->claim.count };
    assert(t.limit > 0 && t.limit <= LIMIT_CLAIM_JOBS);
    c->claim.out_count = 0;
    if (tx->engine->producer)
        return error_set(&c->error, -HF_INVALID, NULL,
                         "This handle is a producer; only a scheduler gives out jobs.");
    struct owner who = { .session = c->claim.session,
                         .name = c->claim.worker,
                         .host = c->claim.host,
                         .pid = c->claim.pid };
    int r = ensure_session(tx, &who, &t.owner_id);
    if (r == 0 && t.claim_id.p)
        r = repeat_claim(&t, c);
    if (r == 0 && t.count == 0)
        r = c->claim.job_id ? claim_one(&t, c) : claim_queues(&t, c);
    return r < 0 ? r : answer_with(c, &t);
}

/* ---- this node ---- */

/* Only jobs of our own kinds are known to be ours without asking the store, and those
 * only if it has been told of them. */
bool takes_fresh(const struct engine *engine)
{
    return db_engine(engine->store->db) == DB_SQLITE && !engine->kinds_changed;
}

/* No slot is waited for: the queue is empty but for this job. */
static int take_held_for_node(struct taking *t, struct gate *gate)
{
    struct engine *engine = t->tx->engine;
    t->count = 0;
    t->limit = 1;
    int r = take_held(t, gate, CLASS_NODE, engine->owner_id);
    if (r == 0 && t->count > 0)
        note_started(engine, &t->out[0]);
    return r < 0 ? r : engine->store->failed;
}

static int take_for_node(struct taking *t, struct dispatch_queue *queue)
{
    struct engine *engine = t->tx->engine;
    struct allowance may = dispatch_allowance(&engine->dispatch, queue, t->tx->now);
    int64_t spare = (int64_t)(engine->capacity - local_busy(engine));
    int64_t batch = engine->settings.claim_batch;
    int64_t wanted = may.total < spare ? may.total : spare;
    if (batch > 0 && wanted > batch)
        wanted = batch;
    wanted = room(gate_of(t->tx, queue->queue_id), wanted);
    t->count = 0;
    t->http = false;
    t->limit = smaller(wanted, wanted);
    if (t->limit == 0)
        return 0;

    /* Where there may be other nodes, they may execute other kinds; and until all
     * waiting jobs have the right class, some are of kinds that nobody executes. */
    bool picky = db_engine(engine->store->db) == DB_POSTGRES || engine->reclass.under_way;
    struct claim claim = { .queue_id = queue->queue_id,
                           .class = CLASS_NODE,
                           .only_kinds_of = picky ? engine->owner_id : 0,
                           .kinds = engine->kinds,
                           .kind_count = takes_fresh(engine) ? engine->kind_count : 0 };
    int64_t share = may.recovered, n = 0;
    /* The lane whose turn it is first; with one slot the other gets what is left. */
    for (int step = 0; step < 2 && t->count < t->limit; step++) {
        bool recovered = may.recovered_first ? step == 0 : step == 1;
        int64_t left = (int64_t)(t->limit - t->count);
        claim.lane = recovered ? LANE_RECOVERED : LANE_NORMAL;
        claim.limit = smaller(left, recovered ? share : left);
        n = !recovered && dispatch_throttled(&engine->dispatch, t->tx->now) &&
                    claim.limit > 0
                ? take_throttled(t, claim, may.old)
                : take(t, &claim);
        if (n < 0)
            return (int)n;
    }
    int r = t->http ? endpoints_begin(t->tx, t->out, t->count) : 0;
    for (size_t i = 0; i < t->count && r == 0; i++)
        note_started(engine, &t->out[i]);
    /* Less than asked: the queue has no more for us until something happens. */
    if (t->count < t->limit)
        queue->hint = false;
    return engine->store->failed;
}

int claim_for_node(struct tx *tx)
{
    struct engine *engine = tx->engine;
    if (!node_may_claim(engine))
        return 0;
    struct taking t = { .tx = tx,
                        .owner_id = engine->owner_id,
                        .executor = engine->executor };
    for (size_t i = 0; i < tx->gate_count; i++) {
        struct dispatch_queue *queue =
            dispatch_queue(&engine->dispatch, tx->gates[i].queue_id, -1);
        if (!queue || !queue->hint || local_busy(engine) >= engine->capacity)
            continue;
        int r = tx->gates[i].held_job_id ? take_held_for_node(&t, &tx->gates[i])
                                         : take_for_node(&t, queue);
        if (r < 0)
            return r;
    }
    return 0;
}
