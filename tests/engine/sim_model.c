/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_model.c -- jobs as they must stand, and how they end. */
#include "sim.h"

const char *const sim_queue_names[QUEUES] = { "alpha", "beta", "gamma", "delta" };
const char *const sim_kind_names[KINDS] = { "http",  "mail",  "image",
                                            "crawl", "parse", "sync" };
const char *const sim_key_names[KEYS] = {
    "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
};
const char *const sim_project_names[PROJECTS] = { "default", "other" };

const struct policy sim_policies[POLICIES] = {
    { "4,15,40", { 4, 15, 40 }, 3, false }, /* the global default of the simulation */
    { "0", { 0 }, 1, false },
    { "1", { 1 }, 1, false },
    { "2,7", { 2, 7 }, 2, false },
    { "0,20", { 0, 20 }, 2, false },
    { "exp:1:30:0", { 1, 30, 0 }, 3, true },
    { "exp:2:9:50", { 2, 9, 50 }, 3, true },
};

/* ---- finding ---- */

void model_init(struct sim *s)
{
    struct model *model = &s->model;
    for (int i = 0; i < QUEUES; i++)
        model->queues[i] = (struct mqueue){ .name = sim_queue_names[i],
                                            .slots = -1,
                                            .stale_after_us = -1,
                                            .max_retries = -1,
                                            .max_execution_us = -1,
                                            .on_crash = -1,
                                            .policy = -1 };
    model->projects[0] = 1;
}

void model_release(struct model *model)
{
    for (size_t i = 0; i < model->job_capacity; i++)
        free(model->jobs[i]);
    free(model->jobs);
    free(model->live);
    free(model->owners);
    free(model->holds);
}

struct mjob *model_job(const struct model *model, int64_t id)
{
    return id >= 0 && (size_t)id < model->job_capacity ? model->jobs[id] : NULL;
}

struct mqueue *model_queue_named(struct sim *s, struct slice name)
{
    for (int i = 0; i < QUEUES; i++)
        if (slice_equal(name, slice_of(sim_queue_names[i])))
            return &s->model.queues[i];
    fail("the simulation has no queue %.*s", (int)name.n, name.p);
}

int64_t model_queue_id(struct sim *s, struct mqueue *q)
{
    struct queue_entry *entry = NULL;
    if (q->id == 0 && store_queue(sim_store(s), slice_of(q->name), false, &entry) == 0)
        q->id = entry->queue.id;
    return q->id;
}

struct mqueue *model_queue(struct sim *s, int64_t id)
{
    for (int i = 0; i < QUEUES; i++)
        if (model_queue_id(s, &s->model.queues[i]) == id)
            return &s->model.queues[i];
    sim_broken(s, "queue", "there is a queue %lld that nobody has asked for",
               (long long)id);
}

struct mowner *model_owner(struct model *model, int64_t id)
{
    /* The youngest are asked for most. */
    for (size_t i = model->owner_count; i > 0; i--)
        if (model->owners[i - 1].id == id)
            return &model->owners[i - 1];
    return NULL;
}

struct mowner *model_session(struct model *model, struct slice session)
{
    for (size_t i = model->owner_count; i > 0; i--) {
        struct mowner *o = &model->owners[i - 1];
        if (o->state == OWNER_ALIVE && slice_equal(session, slice_of(o->session)))
            return o;
    }
    return NULL;
}

struct mowner *model_add_owner(struct sim *s, struct mowner owner)
{
    struct model *model = &s->model;
    if (model->owner_count == model->owner_capacity) {
        size_t capacity = model->owner_capacity ? 2 * model->owner_capacity : 64;
        void *grown = reallocarray(model->owners, capacity, sizeof(*model->owners));
        check(grown != NULL);
        model->owners = grown;
        model->owner_capacity = capacity;
    }
    model->owners[model->owner_count] = owner;
    return &model->owners[model->owner_count++];
}

struct mjob *model_holder(const struct model *model, int64_t project, struct slice key)
{
    for (size_t i = 0; i < model->live_count; i++) {
        struct mjob *m = model->live[i];
        if (m->job.project_id == project && m->job.unique_key.p &&
            slice_equal(m->job.unique_key, key))
            return m;
    }
    return NULL;
}

int64_t model_busy(const struct model *model, int64_t queue_id)
{
    int64_t n = 0;
    for (size_t i = 0; i < model->live_count; i++)
        n += model->live[i]->job.queue_id == queue_id &&
             job_state_busy(model->live[i]->job.state);
    return n;
}

bool model_orphan(struct sim *s, const struct mjob *m)
{
    if (m->run.job_id == 0)
        return false;
    const struct mowner *owner = model_owner(&s->model, m->run.owner_id);
    return !owner || owner->state != OWNER_ALIVE;
}

int sim_kind(struct slice name)
{
    for (int i = 0; i < KINDS; i++)
        if (slice_equal(name, slice_of(sim_kind_names[i])))
            return i;
    fail("the simulation has no kind %.*s", (int)name.n, name.p);
}

unsigned model_kinds(const struct model *model)
{
    unsigned kinds = 1; /* http is always the nodes' */
    for (size_t i = 0; i < model->owner_count; i++)
        kinds |= model->owners[i].kinds;
    return kinds;
}

int model_class(const struct model *model, struct slice kind)
{
    return model_kinds(model) >> sim_kind(kind) & 1 ? CLASS_NODE : CLASS_REMOTE;
}

/* ---- changing ---- */

static void live_add(struct model *model, struct mjob *m)
{
    if (model->live_count == model->live_capacity) {
        size_t capacity = model->live_capacity ? 2 * model->live_capacity : 256;
        void *grown = reallocarray(model->live, capacity, sizeof(*model->live));
        check(grown != NULL);
        model->live = grown;
        model->live_capacity = capacity;
    }
    m->live_index = model->live_count;
    model->live[model->live_count++] = m;
}

static void live_remove(struct model *model, struct mjob *m)
{
    struct mjob *last = model->live[--model->live_count];
    assert(model->live[m->live_index] == m);
    model->live[m->live_index] = last;
    last->live_index = m->live_index;
}

struct mjob *model_add(struct sim *s, const struct job *job)
{
    struct model *model = &s->model;
    size_t id = (size_t)job->id;
    sim_must(s, job->id > 0 && !model_job(model, job->id), "I3 ids",
             "the id %lld was given to two jobs", (long long)job->id);
    if (id >= model->job_capacity) {
        size_t capacity = 2 * (id + 512);
        struct mjob **grown = reallocarray(model->jobs, capacity, sizeof(struct mjob *));
        check(grown != NULL);
        memset(grown + model->job_capacity, 0,
               (capacity - model->job_capacity) * sizeof(struct mjob *));
        model->jobs = grown;
        model->job_capacity = capacity;
    }
    struct mjob *m = new (struct mjob);
    check(m != NULL);
    m->job = *job;
    m->changed_mono = s->mono;
    model->jobs[id] = m;
    model->job_count++;
    if (job->id > model->last_job)
        model->last_job = job->id;
    live_add(model, m);
    struct mqueue *q = model_queue(s, job->queue_id);
    q->counts[COUNT_ACCEPTED]++;
    q->counts[COUNT_ACCEPTED + job->state]++;
    s->shared->saw[SAW_JOBS]++;
    sim_say(s, "    job %lld: %s, %s in %s, priority %d%s", (long long)job->id,
            job_state_name(job->state), sim_kind_names[sim_kind(job->kind)], q->name,
            job->priority, job->retry_of ? ", a retry" : "");
    return m;
}

void model_move(struct sim *s, struct mjob *m, int state)
{
    struct mqueue *q = model_queue(s, m->job.queue_id);
    sim_must(s, job_state_live(m->job.state), "I3 terminal",
             "job %lld is %s and was moved", (long long)m->job.id,
             job_state_name(m->job.state));
    if (state != m->job.state)
        sim_say(s, "    job %lld: %s -> %s", (long long)m->job.id,
                job_state_name(m->job.state), job_state_name(state));
    q->counts[COUNT_ACCEPTED + m->job.state]--;
    q->counts[COUNT_ACCEPTED + state]++;
    m->job.state = state;
    if (job_state_terminal(state))
        live_remove(&s->model, m);
}

void model_remove(struct sim *s, struct mjob *m)
{
    struct mqueue *q = model_queue(s, m->job.queue_id);
    assert(job_state_terminal(m->job.state));
    q->counts[COUNT_ACCEPTED + m->job.state]--;
    q->counts[COUNT_PRUNED]++;
    s->model.jobs[m->job.id] = NULL;
    s->model.job_count--;
    free(m);
}

void model_complete(struct sim *s, struct mjob *m, int64_t now)
{
    m->job.finished_at = m->run.finished_at = now;
    m->run.outcome = JOB_COMPLETED;
    model_move(s, m, JOB_COMPLETED);
}

void model_cancel_waiting(struct sim *s, struct mjob *m, int64_t now)
{
    m->job.finished_at = m->job.cancel_at = now;
    model_move(s, m, JOB_CANCELLED);
}

/* ---- retries ---- */

const struct policy *model_policy(struct slice text)
{
    for (int i = 0; i < POLICIES; i++)
        if (slice_equal(text, slice_of(sim_policies[i].text)))
            return &sim_policies[i];
    fail("the simulation has no policy %.*s", (int)text.n, text.p);
}

/* The delay before the retry after `used` ones: from *low to *high. */
static void delay_of(const struct policy *policy, int used, int64_t *low, int64_t *high)
{
    if (!policy->exponential) {
        int last = policy->count - 1;
        *low = *high = policy->seconds[used < last ? used : last] * US_PER_S;
        return;
    }
    int64_t delay = policy->seconds[0];
    for (int i = 0; i < used && delay < policy->seconds[1]; i++)
        delay *= 2;
    if (delay > policy->seconds[1])
        delay = policy->seconds[1];
    *low = delay * US_PER_S;
    *high = *low + *low * policy->seconds[2] / 100;
}

struct decision {
    bool retry;
    int reason, retries_left, crash_count;
    int64_t low, high; /* of the delay */
};

static struct decision decide(const struct node *node, const struct job *job,
                              const struct mending *e, bool was_cancelling)
{
    bool crash = e->error_type == ERROR_CRASH;
    bool interrupted = e->error_type == ERROR_INTERRUPTED;
    struct decision d = { .retries_left = job->retries_left };
    d.crash_count =
        crash ? job->crash_count + e->counts : (interrupted ? job->crash_count : 0);
    if (e->superseded)
        d.reason = REASON_SUPERSEDED;
    else if (was_cancelling || e->error_type == ERROR_CANCELLED)
        d.reason = REASON_CANCELLED;
    else if (e->error_type == ERROR_PERMANENT)
        d.reason = REASON_PERMANENT;
    else if ((crash || interrupted) && job->on_crash == ON_CRASH_FAIL)
        d.reason = REASON_CRASH_POLICY;
    else if (crash && e->recovery && node->settings.recovery_action == RECOVERY_FAIL)
        d.reason = REASON_CRASH_POLICY;
    else if (interrupted)
        d.retry = true;
    else if (crash && e->counts && d.crash_count >= node->settings.crash_limit)
        d.reason = REASON_POISON;
    else if (job->retries_left <= 0)
        d.reason = REASON_EXHAUSTED;
    else {
        d.retry = true;
        d.retries_left--;
        delay_of(model_policy(job->retry_delays), job->max_retries - job->retries_left,
                 &d.low, &d.high);
        if (d.low < e->retry_after_us)
            d.low = e->retry_after_us;
        if (d.high < d.low)
            d.high = d.low;
    }
    return d;
}

/* The retry as it must be: everything of its original but what a retry has of its
 * own.  Its id, and where within the jitter it falls, are the engine's to say. */
static struct mjob *expect_retry(struct sim *s, struct mjob *m, const struct decision *d,
                                 int64_t now, bool recovery)
{
    const struct job_row *row = sim_seen_retry(s, m->job.id);
    sim_must(s, row != NULL, "I4 lost retry", "job %lld is %s and must have been retried",
             (long long)m->job.id, job_state_name(m->job.state));
    struct job retry = m->job;
    int64_t delay = row->job.run_at - now;
    if (delay < d->low || delay > d->high)
        delay = d->low; /* comparing will tell, unless it was made due by hand */
    retry.id = row->job.id;
    retry.retry_of = m->job.id;
    retry.attempt++;
    retry.retries_left = d->retries_left;
    retry.crash_count = d->crash_count;
    retry.created_at = now;
    retry.run_at = now + delay;
    retry.state = delay > 0 ? JOB_SCHEDULED : JOB_QUEUED;
    retry.finished_at = retry.expires_at = retry.cancel_at = 0;
    retry.retry_state = RETRY_NONE;
    retry.retry_reason = REASON_NONE;
    retry.lane = recovery ? LANE_RECOVERED : LANE_NORMAL;
    retry.recovery_id = recovery;
    retry.class = model_class(&s->model, retry.kind);
    m->retry_id = retry.id;
    m->job.retry_state = RETRY_RETRIED;
    m->job.retry_reason = REASON_NONE;
    s->shared->saw[SAW_RETRIES]++;
    return model_add(s, &retry);
}

void model_end(struct sim *s, const struct node *node, struct mjob *m,
               const struct mending *e, int64_t now)
{
    bool was_cancelling = m->job.state == JOB_CANCELLING;
    m->job.finished_at = now;
    m->run.finished_at = now;
    if (was_cancelling && e->event != ON_CRASH) {
        m->run.outcome = JOB_CANCELLED;
        m->run.error.type = ERROR_CANCELLED;
        model_move(s, m, JOB_CANCELLED);
        return;
    }
    m->run.outcome = JOB_FAILED;
    m->run.error.type = e->error_type;
    struct decision d = decide(node, &m->job, e, was_cancelling);
    model_move(s, m, JOB_FAILED);
    if (d.retry) {
        expect_retry(s, m, &d, now, e->recovery);
        return;
    }
    m->job.retry_state = RETRY_FINAL;
    m->job.retry_reason = d.reason;
    s->shared->saw[SAW_POISON] += d.reason == REASON_POISON;
}

struct mjob *model_retry_by_hand(struct sim *s, struct mjob *m, int64_t now)
{
    struct decision d = { .retry = true, .retries_left = m->job.max_retries };
    return expect_retry(s, m, &d, now, false);
}

/* ---- comparing ---- */

#define COLUMN(name)                                                                     \
#name, offsetof(struct job_row, name), sizeof(((struct job_row *)0)->name)
static const struct {
    const char *name;
    size_t offset, size;
} columns[] = {
    { COLUMN(job.id) },
    { COLUMN(job.root_id) },
    { COLUMN(job.retry_of) },
    { COLUMN(job.state) },
    { COLUMN(job.position) },
    { COLUMN(job.run_at) },
    { COLUMN(job.created_at) },
    { COLUMN(job.finished_at) },
    { COLUMN(job.expires_at) },
    { COLUMN(job.cancel_at) },
    { COLUMN(job.project_id) },
    { COLUMN(job.queue_id) },
    { COLUMN(job.class) },
    { COLUMN(job.lane) },
    { COLUMN(job.priority) },
    { COLUMN(job.attempt) },
    { COLUMN(job.on_crash) },
    { COLUMN(job.max_retries) },
    { COLUMN(job.retries_left) },
    { COLUMN(job.crash_count) },
    { COLUMN(job.retry_state) },
    { COLUMN(job.retry_reason) },
    { COLUMN(job.max_execution_us) },
    { COLUMN(run.job_id) },
    { COLUMN(run.owner_id) },
    { COLUMN(run.started_at) },
    { COLUMN(run.deadline_at) },
    { COLUMN(run.finished_at) },
    { COLUMN(run.executor) },
    { COLUMN(run.outcome) },
    { COLUMN(run.error.type) },
    { COLUMN(run.percent) },
    { COLUMN(run.missed_beats) },
};

static int64_t column_of(const struct job_row *row, size_t i)
{
    const char *at = (const char *)row + columns[i].offset;
    int64_t wide = 0;
    int narrow = 0;
    if (columns[i].size == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    assert(columns[i].size == sizeof(narrow));
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static void compare_text(struct sim *s, int64_t id, const char *name, struct slice got,
                         struct slice want)
{
    sim_must(s, !got.p == !want.p && slice_equal(got, want), name,
             "job %lld: %s is \"%.*s\", not \"%.*s\"", (long long)id, name, (int)got.n,
             got.p ? got.p : "", (int)want.n, want.p ? want.p : "");
}

bool model_same(struct sim *s, const struct job_row *row)
{
    const struct mjob *m = model_job(&s->model, row->job.id);
    if (!m)
        return false;
    struct job_row want = { m->job, m->run };
    for (size_t i = 0; i < array_len(columns); i++)
        if (column_of(row, i) != column_of(&want, i))
            return false;
    return true;
}

void model_compare(struct sim *s, const struct job_row *row)
{
    const struct mjob *m = model_job(&s->model, row->job.id);
    sim_must(s, m != NULL, "unexplained job",
             "job %lld (%s, retry of %lld) is there, and nobody has asked for it",
             (long long)row->job.id, job_state_name(row->job.state),
             (long long)row->job.retry_of);
    sim_must(s, row->job.state == m->job.state, "job.state",
             "job %lld is %s, and must be %s", (long long)row->job.id,
             job_state_name(row->job.state), job_state_name(m->job.state));
    struct job_row want = { m->job, m->run };
    if (row->run.finished_at != 0) /* of no meaning any more */
        want.run.missed_beats = row->run.missed_beats;
    for (size_t i = 0; i < array_len(columns); i++) {
        int64_t a = column_of(row, i), b = column_of(&want, i);
        sim_must(s, a == b, columns[i].name, "job %lld (%s): %s is %lld, not %lld",
                 (long long)row->job.id, job_state_name(row->job.state), columns[i].name,
                 (long long)a, (long long)b);
    }
    int64_t id = row->job.id;
    compare_text(s, id, "job.kind", row->job.kind, m->job.kind);
    compare_text(s, id, "job.unique_key", row->job.unique_key, m->job.unique_key);
    compare_text(s, id, "job.payload", row->job.payload, m->job.payload);
    compare_text(s, id, "job.retry_delays", row->job.retry_delays, m->job.retry_delays);
    sim_must(s, (row->job.recovery_id != 0) == (m->job.recovery_id != 0),
             "job.recovery_id", "job %lld: recovery_id is %lld", (long long)id,
             (long long)row->job.recovery_id);
    sim_must(s, row->job.state != JOB_CANCELLED || row->job.cancel_reason.p,
             "job.cancel_reason", "job %lld is cancelled without a reason",
             (long long)id);
    sim_must(s, row->run.error.type == ERROR_NONE || row->run.error.message.p,
             "run.error.message", "the run of job %lld failed without a word",
             (long long)id);
}

void model_compare_counts(struct sim *s)
{
    struct queue_counts *counts = NULL;
    size_t count = 0;
    int r = store_counts(sim_store(s), &s->arena, &counts, &count);
    sim_must(s, r == 0, "read", "counters cannot be read: %d", r);
    for (int i = 0; i < QUEUES; i++) {
        struct mqueue *q = &s->model.queues[i];
        const struct queue_counts *c = NULL;
        for (size_t k = 0; k < count; k++)
            if (counts[k].queue_id == q->id && q->id != 0)
                c = &counts[k];
        for (int k = 0; k < COUNTERS; k++)
            sim_must(s, (c ? c->count[k] : 0) == q->counts[k], "I10 counters",
                     "queue %s: counter %d is %lld, not %lld", q->name, k,
                     (long long)(c ? c->count[k] : 0), (long long)q->counts[k]);
    }
}
