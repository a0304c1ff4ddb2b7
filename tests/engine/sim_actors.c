/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_actors.c -- producers, remote workers, handlers inside a node.
 *
 * They know only what they were told.  A worker whose answer was lost goes on
 * believing, one that stalled comes back with results that nobody wants, one that
 * died comes back as another. */
#include "sim.h"

#include <stdarg.h>

/* ---- commands ---- */

struct slice sim_text(struct command *c, const char *format, ...)
{
    char text[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return arena_dup(&c->arena, slice_of(text));
}

struct command *sim_ask(struct sim *s, enum op op, int worker)
{
    struct command *c = command_new(op);
    check(c != NULL && s->pile_count < PILE);
    s->asked[s->pile_count].worker = worker;
    s->asked[s->pile_count].lost = worker >= 0 && once_in(s, 16);
    s->pile[s->pile_count++] = c;
    return c;
}

void sim_send(struct sim *s, struct node *node)
{
    if (s->gathering || s->pile_count == 0)
        return;
    sim_apply(s, node);
    actors_hear(s, node);
    for (size_t i = 0; i < s->pile_count; i++)
        command_free(s->pile[i]);
    s->pile_count = 0;
}

/* ---- producers ---- */

static struct slice large_payload(void)
{
    static char text[700];
    if (!text[0]) {
        memset(text, 'x', sizeof(text));
        text[0] = text[sizeof(text) - 1] = '"';
    }
    return (struct slice){ text, sizeof(text) };
}

static struct new_job random_job(struct rng *rng, int64_t now)
{
    static const int64_t limits_s[] = { 2, 5, 20, 60 };
    struct new_job job;
    new_job_init(&job);
    job.kind = slice_of(sim_kind_names[rng_below(rng, KINDS)]);
    job.queue = slice_of(sim_queue_names[rng_below(rng, QUEUES)]);
    if (rng_one_in(rng, 2))
        job.priority = (int)rng_between(rng, 1, 9);
    if (rng_one_in(rng, 3)) {
        job.unique_key = slice_of(sim_key_names[rng_below(rng, KEYS)]);
        job.on_conflict = (enum on_conflict)rng_below(rng, 3);
    }
    if (rng_one_in(rng, 4))
        job.delay_us = rng_between(rng, 1, 20000) * US_PER_MS;
    else if (rng_one_in(rng, 10))
        job.run_at = now + rng_between(rng, -20, 20) * US_PER_S;
    if (rng_one_in(rng, 8))
        job.expires_at = now + rng_between(rng, -1, 15) * US_PER_S;
    if (rng_one_in(rng, 3))
        job.max_retries = (int)rng_between(rng, 0, 4);
    if (rng_one_in(rng, 3))
        job.retry_delays = slice_of(sim_policies[rng_below(rng, POLICIES)].text);
    if (rng_one_in(rng, 3))
        job.max_execution_us = limits_s[rng_below(rng, 4)] * US_PER_S;
    if (rng_one_in(rng, 6))
        job.on_crash = (int)rng_below(rng, 2);
    if (rng_one_in(rng, 8))
        job.project = slice_of(sim_project_names[rng_below(rng, PROJECTS)]);
    if (rng_one_in(rng, 2))
        job.payload = rng_one_in(rng, 8) ? large_payload() : SLICE("{\"n\":1}");
    return job;
}

static struct command *ask_for_jobs(struct sim *s, size_t count)
{
    struct command *c = sim_ask(s, OP_ENQUEUE, -1);
    c->enqueue.jobs = arena_array(&c->arena, struct new_job, count);
    c->enqueue.out = arena_array(&c->arena, struct enqueued, count);
    c->enqueue.count = count;
    check(c->enqueue.jobs && c->enqueue.out);
    return c;
}

static bool enough(const struct sim *s)
{
    return s->model.live_count > LIVE_MAX;
}

static void enqueue_some(struct sim *s, size_t count)
{
    if (enough(s)) {
        act_complete(s);
        return;
    }
    struct node *node = sim_some_node(s);
    struct command *c = ask_for_jobs(s, count);
    int64_t now = engine_now(node->engine);
    for (size_t i = 0; i < count; i++)
        c->enqueue.jobs[i] = random_job(&s->rng, now);
    sim_send(s, node);
}

void act_enqueue(struct sim *s)
{
    enqueue_some(s, 1);
}

void act_batch(struct sim *s)
{
    enqueue_some(s, (size_t)rng_between(&s->rng, 2, REQUEST_JOBS));
}

/* A request that is sent more than once: its body follows from its key and which
 * of two bodies it is. */
void act_request(struct sim *s)
{
    if (enough(s))
        return;
    struct node *node = sim_some_node(s);
    int64_t key = pick(s, REQUESTS), body = once_in(s, 4);
    const struct mrequest *before = &s->model.requests[key % PROJECTS][key];
    if (before->expires_at > engine_now(node->engine) && before->expires_at <= s->latest)
        return; /* the clock went back over its end: it may be forgotten, or not */
    struct rng rng;
    rng_seed(&rng, (uint64_t)(key * 2 + body));
    size_t count = rng_one_in(&rng, 3) ? (size_t)rng_between(&rng, 2, REQUEST_JOBS) : 1;
    struct command *c = ask_for_jobs(s, count);
    for (size_t i = 0; i < count; i++) {
        c->enqueue.jobs[i] = random_job(&rng, engine_now(node->engine));
        c->enqueue.jobs[i].project = slice_of(sim_project_names[key % PROJECTS]);
    }
    c->enqueue.idempotency_key = sim_text(c, "r%lld", (long long)key);
    memset(c->enqueue.body_hash, (int)body + 1, sizeof(c->enqueue.body_hash));
    sim_send(s, node);
}

/* So many that a recovery needs more than one chunk for them. */
void act_flood(struct sim *s)
{
    if (enough(s) || !once_in(s, 4))
        return;
    struct node *node = sim_some_node(s);
    struct command *c = ask_for_jobs(s, FLOOD);
    struct slice queue = slice_of(sim_queue_names[pick(s, QUEUES)]);
    for (size_t i = 0; i < FLOOD; i++) {
        new_job_init(&c->enqueue.jobs[i]);
        c->enqueue.jobs[i].kind = SLICE("crawl");
        c->enqueue.jobs[i].queue = queue;
        c->enqueue.jobs[i].max_retries = 0;
        c->enqueue.jobs[i].expires_at = engine_now(node->engine) + 30 * US_PER_S;
    }
    sim_send(s, node);
    c = sim_ask(s, OP_CLAIM, -1);
    c->claim.session = sim_text(c, "flood.%zu", s->step);
    c->claim.queues = arena_array(&c->arena, struct slice, 1);
    c->claim.queues[0] = queue;
    c->claim.queue_count = 1;
    c->claim.count = 1000;
    sim_send(s, node);
}

/* ---- remote workers ---- */

static bool is_well(const struct sim *s, const struct worker *w)
{
    return !w->gone && w->silent_until <= s->mono;
}

/* One who is well; -1 if the dice find none. */
static int some_worker(struct sim *s, bool with_runs)
{
    int first = (int)pick(s, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        const struct worker *w = &s->workers[(first + i) % WORKERS];
        if (is_well(s, w) && (!with_runs || w->run_count > 0))
            return (first + i) % WORKERS;
    }
    return -1;
}

void worker_come_back(struct sim *s, struct worker *w)
{
    *w = (struct worker){ .incarnation = w->incarnation + 1 };
    snprintf(w->session, sizeof(w->session), "worker%d.%d", (int)(w - s->workers),
             w->incarnation);
}

static void ask_claim(struct sim *s, int i, size_t count, const char *claim_id)
{
    struct worker *w = &s->workers[i];
    struct command *c = sim_ask(s, OP_CLAIM, i);
    c->claim.session = sim_text(c, "%s", w->session);
    c->claim.count = count;
    if (claim_id)
        c->claim.claim_id = sim_text(c, "%s", claim_id);
    if (once_in(s, 2))
        return;
    c->claim.queue_count = (size_t)rng_between(&s->rng, 1, 3);
    c->claim.queues = arena_array(&c->arena, struct slice, c->claim.queue_count);
    check(c->claim.queues != NULL);
    for (size_t k = 0; k < c->claim.queue_count; k++)
        c->claim.queues[k] = slice_of(sim_queue_names[pick(s, QUEUES)]);
}

void act_claim(struct sim *s)
{
    int i = (int)pick(s, WORKERS);
    struct worker *w = &s->workers[i];
    size_t count = (size_t)rng_between(&s->rng, 1, 4);
    char claim_id[24];
    if (w->gone && once_in(s, 2))
        worker_come_back(s, w);
    if (!is_well(s, w) || w->run_count + (size_t)4 * PILE > WORKER_RUNS)
        return;
    snprintf(claim_id, sizeof(claim_id), "claim%d", ++w->claims);
    ask_claim(s, i, count, once_in(s, 2) ? claim_id : NULL);
    sim_send(s, sim_some_node(s));
}

/* The answer was lost: the same question again. */
void act_claim_again(struct sim *s)
{
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &s->workers[i];
        if (!is_well(s, w) || !w->claim_id[0] ||
            w->run_count + (size_t)4 * PILE > WORKER_RUNS)
            continue;
        ask_claim(s, i, w->claim_count, w->claim_id);
        sim_send(s, sim_some_node(s));
        return;
    }
}

static void ask_beat(struct sim *s, int i)
{
    struct worker *w = &s->workers[i];
    struct command *c = sim_ask(s, OP_BEAT, i);
    c->beat.session = sim_text(c, "%s", w->session);
    w->beat_mono = s->mono;
    w->known = true;
    if (once_in(s, 12))
        return; /* it does not tell what it works on */
    if (w->run_count > 0 && once_in(s, 20))
        w->run_count--; /* its thread died, and it does not know of that run any more */
    int64_t *runs = arena_array(&c->arena, int64_t, w->run_count + 1);
    check(runs != NULL);
    for (size_t k = 0; k < w->run_count; k++)
        runs[k] = w->runs[k].job_id;
    c->beat.runs = runs;
    c->beat.run_count = w->run_count;
}

void act_beat(struct sim *s)
{
    int i = some_worker(s, false);
    if (i < 0)
        return;
    ask_beat(s, i);
    sim_send(s, sim_some_node(s));
}

void workers_beat(struct sim *s)
{
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &s->workers[i];
        if (!is_well(s, w) || !w->known ||
            s->mono - w->beat_mono < s->settings.lease_us / 3)
            continue;
        ask_beat(s, i);
        sim_send(s, sim_some_node(s));
    }
}

static void drop_run(struct worker *w, int64_t job_id)
{
    for (size_t i = 0; i < w->run_count; i++)
        if (w->runs[i].job_id == job_id) {
            w->runs[i] = w->runs[--w->run_count];
            return;
        }
}

void act_progress(struct sim *s)
{
    int i = some_worker(s, true);
    if (i < 0)
        return;
    struct worker *w = &s->workers[i];
    struct command *c = sim_ask(s, OP_PROGRESS, i);
    c->progress.job_id = w->runs[pick(s, (int64_t)w->run_count)].job_id;
    c->progress.session = sim_text(c, "%s", w->session);
    c->progress.percent = (int)rng_between(&s->rng, -1, 100);
    c->progress.text = SLICE("working");
    sim_send(s, sim_some_node(s));
}

static void ask_complete(struct sim *s, int worker, struct slice session, int64_t job_id,
                         int64_t owner_id)
{
    struct command *c = sim_ask(s, OP_COMPLETE, worker);
    c->complete.job_id = job_id;
    c->complete.owner_id = owner_id;
    c->complete.session = arena_dup(&c->arena, session);
    c->complete.result = SLICE("{\"ok\":true}");
}

static void ask_fail(struct sim *s, int worker, struct slice session, int64_t job_id,
                     int64_t owner_id, int type)
{
    struct command *c = sim_ask(s, OP_FAIL, worker);
    c->fail.job_id = job_id;
    c->fail.owner_id = owner_id;
    c->fail.session = arena_dup(&c->arena, session);
    c->fail.error = (struct job_error){ .type = type,
                                        .class = SLICE("Broken"),
                                        .message = SLICE("it broke") };
    if (type == ERROR_RATE_LIMIT && once_in(s, 2))
        c->fail.retry_after_us = pick(s, 20000) * US_PER_MS;
}

/* Some worker reports on some run of its own. */
static void report(struct sim *s, bool well)
{
    int i = some_worker(s, true);
    if (i < 0)
        return;
    struct worker *w = &s->workers[i];
    size_t k = (size_t)pick(s, (int64_t)w->run_count);
    int type = w->runs[k].cancel && !once_in(s, 4)
                   ? ERROR_CANCELLED
                   : (int)rng_between(&s->rng, 1, ERROR_TYPE_MAX);
    if (well && !(w->runs[k].cancel && once_in(s, 2)))
        ask_complete(s, i, slice_of(w->session), w->runs[k].job_id, 0);
    else
        ask_fail(s, i, slice_of(w->session), w->runs[k].job_id, 0, type);
    sim_send(s, sim_some_node(s));
}

void act_complete(struct sim *s)
{
    report(s, true);
}

void act_fail(struct sim *s)
{
    report(s, false);
}

/* A report on any job by anybody: most of them are refused. */
void act_stray(struct sim *s)
{
    struct node *node = sim_some_node(s);
    int64_t id = s->model.last_job - pick(s, 40);
    struct slice session = slice_of(s->workers[pick(s, WORKERS)].session);
    int64_t owner_id = once_in(s, 4) ? node->engine->owner_id : 0;
    const struct mjob *m = model_job(&s->model, id);
    if (m && m->run.owner_id == node->engine->owner_id)
        owner_id = 0; /* its handler reports on that one */
    if (once_in(s, 2))
        ask_complete(s, -1, session, id, owner_id);
    else
        ask_fail(s, -1, session, id, owner_id,
                 (int)rng_between(&s->rng, 1, ERROR_TYPE_MAX));
    sim_send(s, node);
}

void act_die(struct sim *s)
{
    struct worker *w = &s->workers[pick(s, WORKERS)];
    if (!s->gathering)
        w->gone = true;
    w->run_count = 0;
    w->known = w->known && !w->gone;
}

void act_stall(struct sim *s)
{
    s->workers[pick(s, WORKERS)].silent_until =
        s->mono + rng_between(&s->rng, 1, 30) * US_PER_S;
}

/* ---- handlers ---- */

void act_handler(struct sim *s)
{
    struct node *node = sim_some_node(s);
    if (node->run_count == 0)
        return;
    size_t i = (size_t)pick(s, (int64_t)node->run_count);
    int64_t id = node->runs[i].job_id, owner_id = node->runs[i].owner_id;
    struct slice nobody = { 0 };
    int type = node->runs[i].stop;
    if (type == 0 && once_in(s, 3))
        type = (int)rng_between(&s->rng, 1, ERROR_TYPE_MAX);
    if (type == ERROR_CANCELLED && once_in(s, 4))
        type = 0; /* it was done before it looked */
    if (type == 0)
        ask_complete(s, -1, nobody, id, owner_id);
    else
        ask_fail(s, -1, nobody, id, owner_id, type);
    sim_send(s, node);
}

/* ---- hearing the answers ---- */

static void hear_claim(struct sim *s, struct worker *w, const struct command *c,
                       bool lost)
{
    if (!w->known)
        w->beat_mono = s->mono; /* whoever claims is known, and beats from then on */
    w->known = true;
    if (lost) {
        if (c->claim.claim_id.p) {
            snprintf(w->claim_id, sizeof(w->claim_id), "%s", c->claim.claim_id.p);
            w->claim_count = c->claim.count;
        }
        return;
    }
    w->claim_id[0] = '\0';
    for (size_t i = 0; i < c->claim.out_count; i++) {
        drop_run(w, c->claim.out[i].job.id);
        check(w->run_count < WORKER_RUNS);
        w->runs[w->run_count].job_id = c->claim.out[i].job.id;
        w->runs[w->run_count++].cancel = false;
    }
}

static void hear_beat(struct worker *w, const struct command *c)
{
    for (size_t i = 0; i < c->beat.out_cancel_count; i++)
        for (size_t k = 0; k < w->run_count; k++)
            if (w->runs[k].job_id == c->beat.out_cancel[i])
                w->runs[k].cancel = true;
}

static void forget_handler(struct node *node, int64_t job_id)
{
    for (size_t i = 0; i < node->run_count; i++)
        if (node->runs[i].job_id == job_id) {
            node->runs[i] = node->runs[--node->run_count];
            return;
        }
}

void actors_hear(struct sim *s, struct node *node)
{
    for (size_t i = 0; i < s->pile_count; i++) {
        const struct command *c = s->pile[i];
        struct worker *w =
            s->asked[i].worker < 0 ? NULL : &s->workers[s->asked[i].worker];
        bool lost = s->asked[i].lost;
        if (w && c->op == OP_CLAIM)
            hear_claim(s, w, c, lost);
        else if (w && c->op == OP_BEAT && !lost)
            hear_beat(w, c);
        else if (w && c->op == OP_COMPLETE && !lost)
            drop_run(w, c->complete.job_id);
        else if (w && c->op == OP_FAIL && !lost)
            drop_run(w, c->fail.job_id);
        else if (w && c->op == OP_PROGRESS && !lost && c->result == -HF_LATE &&
                 once_in(s, 2))
            drop_run(w, c->progress.job_id);
        else if (!w && !lost && c->op == OP_COMPLETE && c->complete.owner_id)
            forget_handler(node, c->complete.job_id);
        else if (!w && !lost && c->op == OP_FAIL && c->fail.owner_id)
            forget_handler(node, c->fail.job_id);
    }
}
