/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_claim.c -- who may begin which job, in which order.
 *
 * Order holds within a queue, a class and a lane: what is begun is the front of
 * the line.  After a crash old jobs of a node's normal lane may be held back, and
 * fresh ones overtake them; each of the two is still begun from its front. */
#include "sim.h"

enum line { LINE_NORMAL, LINE_RECOVERED, LINE_FRESH, LINES };

struct line_up {
    struct mjob *jobs[4096];
    size_t count, taken;
};

static bool stands_before(const struct job *a, const struct job *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->position != b->position)
        return a->position < b->position;
    return a->id < b->id;
}

static int by_place(const void *a, const void *b)
{
    const struct job *x = &(*(struct mjob *const *)a)->job,
                     *y = &(*(struct mjob *const *)b)->job;
    return stands_before(x, y) ? -1 : 1;
}

/* Lines up what may be begun from a queue.  `old_before`: what stands before it is
 * held back by the gentle start, and the rest is fresh; 0: nothing is. */
static void line_up(const struct sim *s, struct line_up lines[LINES], int64_t queue_id,
                    int class, unsigned kinds, int64_t old_before)
{
    for (int i = 0; i < LINES; i++)
        lines[i].count = lines[i].taken = 0;
    for (size_t i = 0; i < s->model.live_count; i++) {
        struct mjob *m = s->model.live[i];
        if (m->job.state != JOB_QUEUED || m->job.queue_id != queue_id ||
            m->job.class != class || !(kinds >> sim_kind(m->job.kind) & 1))
            continue;
        enum line line = m->job.lane == LANE_RECOVERED                 ? LINE_RECOVERED
                         : old_before && m->job.position >= old_before ? LINE_FRESH
                                                                       : LINE_NORMAL;
        assert(lines[line].count < array_len(lines[line].jobs));
        lines[line].jobs[lines[line].count++] = m;
    }
    for (int i = 0; i < LINES; i++)
        qsort(lines[i].jobs, lines[i].count, sizeof(lines[i].jobs[0]), by_place);
}

/* A job was begun: it must have been the first of one of the lines. */
static void take_from_front(struct sim *s, struct line_up lines[LINES], struct mjob *m)
{
    for (int i = 0; i < LINES; i++)
        if (lines[i].taken < lines[i].count && lines[i].jobs[lines[i].taken] == m) {
            lines[i].taken++;
            return;
        }
    for (int i = 0; i < LINES; i++)
        for (size_t k = lines[i].taken; k < lines[i].count; k++)
            if (lines[i].jobs[k] == m)
                sim_broken(s, "I8 order", "job %lld was begun before job %lld",
                           (long long)m->job.id,
                           (long long)lines[i].jobs[lines[i].taken]->job.id);
    sim_broken(s, "claim", "job %lld was begun, but could not be: it is %s, class %d",
               (long long)m->job.id, job_state_name(m->job.state), m->job.class);
}

/* How many more may run in a queue, up to `wanted`. */
static int64_t room_in(struct sim *s, struct mqueue *q, int64_t wanted)
{
    if (q->id == 0 || q->paused || model_held(&s->model, q->id))
        return 0;
    if (q->concurrency == 0)
        return wanted;
    int64_t room = q->concurrency - model_busy(&s->model, q->id);
    return room < wanted ? (room > 0 ? room : 0) : wanted;
}

static void begin_run(struct sim *s, struct mjob *m, int64_t owner_id, int executor,
                      int64_t now)
{
    sim_must(s, ++m->starts == 1, "I3 started twice", "job %lld was begun a second time",
             (long long)m->job.id);
    sim_must(s, m->job.state == JOB_QUEUED, "I3 start", "job %lld was begun while %s",
             (long long)m->job.id, job_state_name(m->job.state));
    sim_must(s, m->job.expires_at == 0 || m->job.expires_at > now, "expiry",
             "job %lld was begun after its expiry", (long long)m->job.id);
    model_move(s, m, JOB_RUNNING);
    m->run = (struct run){ .job_id = m->job.id,
                           .owner_id = owner_id,
                           .started_at = now,
                           .deadline_at = now + m->job.max_execution_us,
                           .executor = executor };
}

/* ---- remote workers ---- */

struct mowner *explain_session(struct sim *s, struct slice session, int64_t now)
{
    struct mowner *known = model_session(&s->model, session);
    if (known)
        return known;
    /* New, or judged dead and here again: a new owner. */
    struct owner row = { 0 };
    int r = store_owner_by_session(sim_store(s), session, &s->arena, &row);
    sim_must(s, r == 0 && row.state == OWNER_ALIVE && row.type == OWNER_REMOTE, "session",
             "%.*s has spoken, and is not known as alive", (int)session.n, session.p);
    struct mowner owner = { .id = row.id,
                            .type = OWNER_REMOTE,
                            .state = OWNER_ALIVE,
                            .lease_until = now + s->settings.lease_us,
                            .node = -1 };
    snprintf(owner.session, sizeof(owner.session), "%.*s", (int)session.n, session.p);
    return model_add_owner(s, owner);
}

/* The same claim again: the same runs. */
static bool explain_repeat(struct sim *s, const struct command *c, int64_t owner_id)
{
    size_t open = 0, told = 0;
    if (!c->claim.claim_id.p)
        return false;
    for (size_t i = 0; i < s->model.live_count; i++) {
        const struct mjob *m = s->model.live[i];
        if (!job_state_busy(m->job.state) || m->run.owner_id != owner_id ||
            !m->run.claim_id.p || !slice_equal(m->run.claim_id, c->claim.claim_id))
            continue;
        open++;
        for (size_t k = 0; k < c->claim.out_count; k++)
            told += c->claim.out[k].job.id == m->job.id;
    }
    if (open == 0)
        return false;
    if (s->cut)
        return true;
    size_t want = open < c->claim.count ? open : c->claim.count;
    sim_must(s, told == want && c->claim.out_count == want, "repeated claim",
             "the claim %.*s has %zu open runs, %zu of %zu were told again",
             (int)c->claim.claim_id.n, c->claim.claim_id.p, open, told,
             c->claim.out_count);
    return true;
}

static int by_place_begun(const void *a, const void *b)
{
    const struct started *x = a, *y = b;
    return stands_before(&x->job, &y->job) ? -1 : 1;
}

/* Nobody heard the answer: the rows tell what was begun. */
static void read_unheard(struct sim *s, struct command *c, int64_t owner_id)
{
    struct started *out = arena_array(&s->arena, struct started, s->watch.row_count + 1);
    check(out != NULL);
    c->claim.out = out;
    c->claim.out_count = 0;
    for (size_t i = 0; i < s->watch.row_count; i++) {
        const struct job_row *row = &s->watch.rows[i];
        const struct mjob *m = model_job(&s->model, row->job.id);
        if (m && m->job.state == JOB_QUEUED && row->run.job_id &&
            row->run.owner_id == owner_id)
            out[c->claim.out_count++].job = row->job;
    }
    qsort(out, c->claim.out_count, sizeof(out[0]), by_place_begun);
}

static bool expired_is_left(const struct model *model, int64_t now)
{
    for (size_t i = 0; i < model->live_count; i++) {
        const struct job *job = &model->live[i]->job;
        if (job_state_waiting(job->state) && job->expires_at && job->expires_at <= now)
            return true;
    }
    return false;
}

/* What a claim took from one queue.  The lanes take turns: at most half of it, and
 * the odd one, is recovered work while there is other. */
static void explain_queue_claim(struct sim *s, struct mqueue *q, struct command *c,
                                int64_t owner_id, size_t *left, int64_t now)
{
    static struct line_up lines[LINES];
    int64_t id = model_queue_id(s, q);
    int64_t wanted = room_in(s, q, (int64_t)*left), taken = 0, recovered = 0;
    line_up(s, lines, id, CLASS_REMOTE, ~0U, 0);
    for (size_t i = 0; i < c->claim.out_count; i++) {
        struct mjob *m = model_job(&s->model, c->claim.out[i].job.id);
        sim_must(s, m != NULL, "claim", "job %lld was given out and is not there",
                 (long long)c->claim.out[i].job.id);
        if (m->job.queue_id != id || m->run.job_id != 0)
            continue;
        if (taken == wanted)
            break; /* of a later mention of this queue, or too many: see below */
        recovered += m->job.lane == LANE_RECOVERED;
        take_from_front(s, lines, m);
        begin_run(s, m, owner_id, EXECUTOR_REMOTE, now);
        m->run.claim_id = c->claim.claim_id.p ? arena_dup(&s->names, c->claim.claim_id)
                                              : (struct slice){ 0 };
        taken++;
    }
    *left -= (size_t)taken;
    struct line_up *normal = &lines[LINE_NORMAL];
    bool drained = normal->taken == normal->count;
    /* Over nodes, what one of them knows of a queue may be a moment old; and nothing is
     * begun while more has expired than is cancelled at once. */
    bool excused = s->postgres || expired_is_left(&s->model, now);
    sim_must(s, taken == wanted || drained || excused, "claim",
             "%lld were taken from %s, although %lld may run and %zu wait",
             (long long)taken, q->name, (long long)wanted, normal->count - normal->taken);
    sim_must(s, drained || recovered <= (wanted + 1) / 2, "I9 lanes",
             "%lld of %lld taken from %s were recovered work, and other waits",
             (long long)recovered, (long long)taken, q->name);
}

static int by_id(const void *a, const void *b)
{
    int64_t x = (*(struct mqueue *const *)a)->id, y = (*(struct mqueue *const *)b)->id;
    return (x > y) - (x < y);
}

void explain_claim(struct sim *s, struct command *c, int64_t now)
{
    struct mqueue *queues[QUEUES * 2];
    size_t count = 0, left = c->claim.count;
    struct mowner *owner = explain_session(s, c->claim.session, now);
    sim_must(s, s->cut || c->result == 0, "claim", "a claim was refused: %s",
             c->error.text);
    s->shared->saw[SAW_COMMANDS]++;
    if (explain_repeat(s, c, owner->id))
        return;
    if (s->cut)
        read_unheard(s, c, owner->id);
    for (size_t i = 0; i < c->claim.queue_count && count < array_len(queues); i++)
        queues[count++] = model_queue_named(s, c->claim.queues[i]);
    if (count == 0) {
        for (int i = 0; i < QUEUES; i++)
            if (model_queue_id(s, &s->model.queues[i]))
                queues[count++] = &s->model.queues[i];
        qsort(queues, count, sizeof(queues[0]), by_id);
    }
    for (size_t i = 0; i < count; i++)
        explain_queue_claim(s, queues[i], c, owner->id, &left, now);
    size_t begun = c->claim.count - left;
    sim_must(
        s, begun == c->claim.out_count, "claim",
        "%zu runs were given out where %zu could be: running already, or the queue is "
        "paused, held or full",
        c->claim.out_count, begun);
}

/* ---- nodes ---- */

static bool throttled(const struct node *node, int64_t now)
{
    return node->throttled && now < node->ready_at + node->settings.startup_window_us;
}

static void count_local(struct sim *s, const struct node *node, int64_t queue_id,
                        int64_t *ret_all, int64_t *ret_here, int64_t *ret_recovered)
{
    *ret_all = *ret_here = *ret_recovered = 0;
    for (size_t i = 0; i < s->model.live_count; i++) {
        const struct mjob *m = s->model.live[i];
        if (!job_state_busy(m->job.state) || m->run.owner_id != node->owner_id)
            continue;
        ++*ret_all;
        if (m->job.queue_id != queue_id)
            continue;
        ++*ret_here;
        *ret_recovered += m->job.lane == LANE_RECOVERED;
    }
}

/* One job that a node has begun: all limits hold. */
static void explain_node_start(struct sim *s, struct node *node, struct mjob *m,
                               int64_t now)
{
    struct mqueue *q = model_queue(s, m->job.queue_id);
    int64_t slots = q->slots >= 0 ? q->slots : node->settings.slots;
    int64_t all, here, recovered;
    count_local(s, node, q->id, &all, &here, &recovered);
    sim_must(s, node->ready_at != 0, "I9 ready",
             "job %lld was begun before the recovery was over", (long long)m->job.id);
    sim_must(s, node->kinds >> sim_kind(m->job.kind) & 1, "kind",
             "job %lld was begun by a node that does not execute %.*s",
             (long long)m->job.id, (int)m->job.kind.n, m->job.kind.p);
    sim_must(s, !q->paused, "paused", "job %lld was begun, but %s is paused",
             (long long)m->job.id, q->name);
    sim_must(s, !model_held(&s->model, q->id), "I6 held",
             "job %lld was begun, but %s is reserved", (long long)m->job.id, q->name);
    sim_must(s, room_in(s, q, 1) == 1, "concurrency",
             "job %lld was begun, but %lld of %lld run in %s", (long long)m->job.id,
             (long long)model_busy(&s->model, q->id), (long long)q->concurrency, q->name);
    sim_must(s, here < slots, "slots", "job %lld was begun, but %s has %lld slots here",
             (long long)m->job.id, q->name, (long long)slots);
    sim_must(s, all < (int64_t)node->capacity, "capacity",
             "job %lld was begun, but the node executes %zu at once",
             (long long)m->job.id, node->capacity);
    sim_must(s, m->job.lane != LANE_RECOVERED || slots < 2 || recovered < slots / 2,
             "I9 lanes", "job %lld was begun: recovered work has more than half of %s",
             (long long)m->job.id, q->name);
    bool http = slice_equal(m->job.kind, SLICE("http"));
    begin_run(s, m, node->owner_id, http ? EXECUTOR_HTTP : EXECUTOR_HANDLER, now);
}

static bool has_started(const struct node *node, int64_t id)
{
    for (size_t i = 0; i < node->started_count; i++)
        if (node->started[i] == id)
            return true;
    return false;
}

/* Nobody told the handlers: the rows tell what was begun. */
static void read_unheard_starts(struct sim *s, struct node *node)
{
    for (size_t i = 0; i < s->watch.row_count; i++) {
        const struct job_row *row = &s->watch.rows[i];
        const struct mjob *m = model_job(&s->model, row->job.id);
        if (!m || m->run.job_id != 0 || row->run.job_id == 0 ||
            has_started(node, row->job.id) || row->run.owner_id != node->owner_id)
            continue;
        size_t k = node->started_count++;
        for (; k > 0 &&
               stands_before(&m->job, &model_job(&s->model, node->started[k - 1])->job);
             k--)
            node->started[k] = node->started[k - 1];
        node->started[k] = row->job.id;
    }
}

void explain_node_claims(struct sim *s, struct node *node, int64_t now)
{
    if (s->cut)
        read_unheard_starts(s, node);
    static struct line_up lines[LINES];
    int64_t old_before = throttled(node, now) ? node->opened_at : 0;
    unsigned kinds = node->kinds; /* others are not for it, whatever their class */
    for (int q = 0; q < QUEUES && node->started_count > 0; q++) {
        int64_t id = s->model.queues[q].id;
        line_up(s, lines, id, CLASS_NODE, kinds, old_before);
        for (size_t i = 0; i < node->started_count; i++) {
            struct mjob *m = model_job(&s->model, node->started[i]);
            sim_must(s, m != NULL, "unexplained job",
                     "job %lld was begun, and nobody has asked for it",
                     (long long)node->started[i]);
            if (m->job.queue_id != id)
                continue;
            take_from_front(s, lines, m);
            explain_node_start(s, node, m, now);
        }
    }
    node->started_count = 0;
}
