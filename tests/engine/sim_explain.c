/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_explain.c -- commands: what each must answer, and must have changed.
 *
 * A pile is applied as engine.h says: completions first, then all others in the
 * order of arrival, then claims; in its second pass one by one. */
#include "sim.h"

#include "base/limits.h"

void expect_result(struct sim *s, const struct command *c, int want)
{
    s->shared->saw[SAW_COMMANDS]++;
    s->shared->saw[SAW_REFUSALS] += want < 0;
    sim_must(s, s->cut || c->result == want, op_name(c->op),
             "%s was answered with %s (%s), not with %s", op_name(c->op),
             c->result ? status_of(c->result)->name : "ok", c->error.text,
             want ? status_of(want)->name : "ok");
}

/* ---- enqueue ---- */

static struct mrequest *request_of(struct sim *s, const struct command *c, int project)
{
    struct slice key = c->enqueue.idempotency_key;
    return key.p ? &s->model.requests[project][atoi(key.p + 1)] : NULL;
}

static int project_of(const struct new_job *in)
{
    return in->project.p && slice_equal(in->project, slice_of(sim_project_names[1]));
}

static int64_t first_of(int64_t a, int64_t b, int64_t c)
{
    return a >= 0 ? a : (b >= 0 ? b : c);
}

/* Policies resolve job, queue, global, and are fixed when it is enqueued. */
static struct job job_as_asked(struct sim *s, const struct node *node,
                               const struct new_job *in, int64_t now)
{
    const struct settings *g = &node->settings;
    struct mqueue *q = model_queue_named(s, in->queue);
    bool http = slice_equal(in->kind, SLICE("http"));
    int64_t run_at = in->delay_us > 0 ? now + in->delay_us : in->run_at;
    if (run_at == 0)
        run_at = now;
    struct job job = {
        .project_id = s->model.projects[project_of(in)],
        .queue_id = model_queue_id(s, q),
        .kind = in->kind,
        .payload = in->payload.p ? in->payload : SLICE("null"),
        .unique_key = in->unique_key,
        .retry_delays = in->retry_delays.p ? in->retry_delays
                        : q->policy >= 0   ? slice_of(sim_policies[q->policy].text)
                                           : slice_of(sim_policies[0].text),
        .created_at = now,
        .run_at = run_at,
        .position = run_at > now ? run_at : now,
        .expires_at = in->expires_at,
        .state = run_at > now ? JOB_SCHEDULED : JOB_QUEUED,
        .class = model_class(&s->model, in->kind),
        .priority = in->priority ? in->priority : 5,
        .attempt = 1,
        .max_retries = (int)first_of(in->max_retries, q->max_retries, g->max_retries),
        .on_crash = (int)first_of(in->on_crash, q->on_crash, ON_CRASH_RETRY),
        .max_execution_us =
            first_of(in->max_execution_us, q->max_execution_us,
                     http ? g->http_max_execution_us : g->max_execution_us),
    };
    if (http && job.max_execution_us > LIMIT_HTTP_DEADLINE_MS * US_PER_MS)
        job.max_execution_us = LIMIT_HTTP_DEADLINE_MS * US_PER_MS;
    job.retries_left = job.max_retries;
    return job;
}

/* A holder that only looks alive: its owner is dead, and nobody has come to
 * clean up yet. */
static bool is_ghost(struct sim *s, const struct mjob *holder)
{
    return job_state_busy(holder->job.state) && model_orphan(s, holder);
}

/* What a batch must be answered: it is taken whole or not at all. */
static int enqueue_result(struct sim *s, const struct command *c)
{
    for (size_t i = 0; i < c->enqueue.count; i++) {
        const struct new_job *in = &c->enqueue.jobs[i];
        int64_t project = s->model.projects[project_of(in)];
        if (project == 0)
            return -HF_NOT_FOUND;
        if (!in->unique_key.p || in->on_conflict != CONFLICT_REJECT)
            continue;
        for (size_t k = 0; k < i; k++) {
            const struct new_job *other = &c->enqueue.jobs[k];
            if (other->unique_key.p && project_of(in) == project_of(other) &&
                slice_equal(in->unique_key, other->unique_key))
                return -HF_DUPLICATE;
        }
        struct mjob *holder = model_holder(&s->model, project, in->unique_key);
        if (holder && !is_ghost(s, holder))
            return -HF_DUPLICATE;
    }
    return 0;
}

/* The next new job among the rows: when nobody was answered, they tell the ids. */
static int64_t next_new_row(const struct sim *s)
{
    for (size_t i = 0; i < s->watch.row_count; i++) {
        const struct job *job = &s->watch.rows[i].job;
        if (job->retry_of == 0 && !model_job(&s->model, job->id))
            return job->id;
    }
    return 0;
}

static void explain_new(struct sim *s, const struct node *node, const struct new_job *in,
                        struct enqueued *out, int64_t now)
{
    struct job job = job_as_asked(s, node, in, now);
    struct mjob *holder =
        in->unique_key.p ? model_holder(&s->model, job.project_id, in->unique_key) : NULL;
    if (holder && is_ghost(s, holder))
        model_end(s, node, holder,
                  &(struct mending){
                      .event = ON_CRASH, .error_type = ERROR_CRASH, .superseded = true },
                  now);
    else if (holder && in->on_conflict == CONFLICT_REPLACE &&
             job_state_waiting(holder->job.state))
        model_cancel_waiting(s, holder, now);
    else if (holder) {
        sim_must(s, s->cut || (out->deduplicated && out->id == holder->job.id),
                 "I5 one live per key", "job %lld was made although job %lld is %s",
                 (long long)out->id, (long long)holder->job.id,
                 job_state_name(holder->job.state));
        *out = (struct enqueued){ .id = holder->job.id, .deduplicated = true };
        return;
    }
    if (s->cut)
        *out = (struct enqueued){ .id = next_new_row(s) };
    sim_must(s, !out->deduplicated, "enqueue", "job %lld was returned, not a new one",
             (long long)out->id);
    job.id = job.root_id = out->id;
    model_add(s, &job);
}

static void explain_enqueue(struct sim *s, const struct node *node, struct command *c,
                            int64_t now)
{
    int project = project_of(&c->enqueue.jobs[0]);
    struct mrequest *before = request_of(s, c, project);
    if (before && s->model.projects[project] == 0) {
        expect_result(s, c, -HF_NOT_FOUND);
        return;
    }
    if (before && before->used && before->expires_at > now) {
        bool same = memcmp(before->hash, c->enqueue.body_hash, sizeof(before->hash)) == 0;
        expect_result(s, c, same ? 0 : -HF_MISMATCH);
        for (size_t i = 0; same && !s->cut && i < c->enqueue.count; i++)
            sim_must(s, c->enqueue.out[i].id == before->ids[i], "idempotency",
                     "the same request got job %lld, before it was %lld",
                     (long long)c->enqueue.out[i].id, (long long)before->ids[i]);
        return;
    }
    int result = enqueue_result(s, c);
    expect_result(s, c, result);
    if (result < 0)
        return;
    for (size_t i = 0; i < c->enqueue.count; i++)
        explain_new(s, node, &c->enqueue.jobs[i], &c->enqueue.out[i], now);
    if (!before)
        return;
    *before = (struct mrequest){ .used = true,
                                 .expires_at = now + 24 * 3600 * US_PER_S,
                                 .count = c->enqueue.count };
    memcpy(before->hash, c->enqueue.body_hash, sizeof(before->hash));
    for (size_t i = 0; i < c->enqueue.count; i++)
        before->ids[i] = c->enqueue.out[i].id;
}

/* ---- reports ---- */

/* The job of a report that must be taken; NULL if it must be refused, and *ret
 * says how. */
static struct mjob *fenced(struct sim *s, const struct command *c, int64_t job_id,
                           int64_t owner_id, struct slice session, int *ret)
{
    struct mjob *m = model_job(&s->model, job_id);
    if (owner_id == 0) {
        const struct mowner *owner = model_session(&s->model, session);
        owner_id = owner ? owner->id : -1;
    }
    *ret = !m ? -HF_NOT_FOUND : 0;
    if (m && (!job_state_busy(m->job.state) || m->run.job_id == 0 ||
              m->run.finished_at != 0 || m->run.owner_id != owner_id))
        *ret = -HF_LATE;
    s->shared->saw[SAW_LATE] += *ret == -HF_LATE;
    expect_result(s, c, *ret);
    return *ret == 0 ? m : NULL;
}

/* What a late worker brought is kept. */
static void expect_evidence(struct sim *s, int64_t job_id)
{
    struct event *events = NULL;
    size_t count = 0;
    if (s->postgres || s->cut)
        return;
    int r = store_events(sim_store(s), EVENTS_OF_JOB, job_id, s->watch.event_before, 100,
                         &s->arena, &events, &count);
    sim_must(s, r == 0, "read", "events cannot be read: %d", r);
    for (size_t i = 0; i < count; i++)
        if (slice_equal(events[i].type, SLICE("run.late_result")))
            return;
    sim_broken(s, "late result", "the late result for job %lld was not kept as an event",
               (long long)job_id);
}

static void explain_complete(struct sim *s, struct command *c, int64_t now)
{
    int r;
    struct mjob *m =
        fenced(s, c, c->complete.job_id, c->complete.owner_id, c->complete.session, &r);
    if (m)
        model_complete(s, m, now);
    else if (r == -HF_LATE)
        expect_evidence(s, c->complete.job_id);
}

static enum job_event event_of(int error_type)
{
    return error_type == ERROR_TIMEOUT       ? ON_TIMEOUT
           : error_type == ERROR_INTERRUPTED ? ON_INTERRUPT
           : error_type == ERROR_CRASH       ? ON_CRASH
                                             : ON_FAIL;
}

static void explain_fail(struct sim *s, const struct node *node, struct command *c,
                         int64_t now)
{
    int r, type = c->fail.error.type;
    struct mjob *m = fenced(s, c, c->fail.job_id, c->fail.owner_id, c->fail.session, &r);
    if (r == -HF_LATE)
        expect_evidence(s, c->fail.job_id);
    if (!m)
        return;
    model_end(s, node, m,
              &(struct mending){ .event = event_of(type),
                                 .error_type = type,
                                 .counts = type == ERROR_CRASH,
                                 .retry_after_us = c->fail.retry_after_us },
              now);
    sim_must(s, s->cut || c->fail.out_state == m->job.state, "fail",
             "job %lld is %s, and the worker was told %s", (long long)m->job.id,
             job_state_name(m->job.state), job_state_name(c->fail.out_state));
    sim_must(s, s->cut || c->fail.out_retry_id == m->retry_id, "fail",
             "the retry of job %lld is %lld, and the worker was told %lld",
             (long long)m->job.id, (long long)m->retry_id,
             (long long)c->fail.out_retry_id);
}

static void explain_progress(struct sim *s, struct command *c)
{
    int r;
    struct mjob *m =
        fenced(s, c, c->progress.job_id, c->progress.owner_id, c->progress.session, &r);
    if (!m)
        return;
    if (c->progress.percent >= 0)
        m->run.percent = c->progress.percent;
    sim_must(s, s->cut || c->progress.out_cancelled == (m->job.state == JOB_CANCELLING),
             "progress",
             "the worker of job %lld was told the wrong thing about its cancel",
             (long long)m->job.id);
}

static bool names(const struct command *c, int64_t job_id)
{
    for (size_t i = 0; i < c->beat.run_count; i++)
        if (c->beat.runs[i] == job_id)
            return true;
    return false;
}

static bool told_to_stop(const struct command *c, int64_t job_id)
{
    for (size_t i = 0; i < c->beat.out_cancel_count; i++)
        if (c->beat.out_cancel[i] == job_id)
            return true;
    return false;
}

/* A run missing from two beats in a row fails as a crash of its worker. */
static void explain_beat(struct sim *s, const struct node *node, struct command *c,
                         int64_t now)
{
    struct mowner *owner = explain_session(s, c->beat.session, now);
    size_t cancels = 0;
    expect_result(s, c, 0);
    owner->lease_until = now + node->settings.lease_us;
    for (size_t i = s->model.live_count; i > 0; i--) {
        struct mjob *m = s->model.live[i - 1];
        if (!job_state_busy(m->job.state) || m->run.owner_id != owner->id)
            continue;
        bool cancel = m->job.state == JOB_CANCELLING;
        cancels += cancel;
        sim_must(s, s->cut || told_to_stop(c, m->job.id) == cancel, "beat",
                 "job %lld is %s, and its worker was told otherwise",
                 (long long)m->job.id, job_state_name(m->job.state));
        if (!c->beat.runs)
            continue;
        m->run.missed_beats = names(c, m->job.id) ? 0 : m->run.missed_beats + 1;
        if (m->run.missed_beats < 2)
            continue;
        m->run.missed_beats = 1; /* the row keeps what it had */
        model_end(s, node, m,
                  &(struct mending){
                      .event = ON_CRASH, .error_type = ERROR_CRASH, .counts = true },
                  now);
    }
    sim_must(s, s->cut || c->beat.out_cancel_count == cancels, "beat",
             "%s was told to stop %zu runs, not %zu", owner->session,
             c->beat.out_cancel_count, cancels);
}

/* ---- people ---- */

static void explain_cancel(struct sim *s, struct command *c, int64_t now)
{
    struct mjob *m = model_job(&s->model, c->cancel.job_id);
    int state = m ? m->job.state : 0;
    int want = !m                                              ? -HF_NOT_FOUND
               : state == JOB_COMPLETED || state == JOB_FAILED ? -HF_CONFLICT
                                                               : 0;
    expect_result(s, c, want);
    if (want < 0)
        return;
    if (job_state_waiting(state)) {
        model_cancel_waiting(s, m, now);
    } else if (state == JOB_RUNNING) {
        model_move(s, m, JOB_CANCELLING);
        m->job.cancel_at = now;
    }
    sim_must(s, s->cut || c->cancel.out_state == m->job.state, "cancel",
             "job %lld is %s, and the answer says %s", (long long)m->job.id,
             job_state_name(m->job.state), job_state_name(c->cancel.out_state));
}

static void explain_change(struct sim *s, struct command *c, int64_t now)
{
    struct mjob *m = model_job(&s->model, c->change.job_id);
    int want = !m ? -HF_NOT_FOUND : !job_state_waiting(m->job.state) ? -HF_CONFLICT : 0;
    expect_result(s, c, want);
    if (want < 0)
        return;
    if (c->change.queue.p) {
        struct mqueue *from = model_queue(s, m->job.queue_id);
        struct mqueue *to = model_queue_named(s, c->change.queue);
        m->job.queue_id = model_queue_id(s, to);
        from->counts[COUNT_ACCEPTED]--, to->counts[COUNT_ACCEPTED]++;
        from->counts[COUNT_ACCEPTED + m->job.state]--;
        to->counts[COUNT_ACCEPTED + m->job.state]++;
    }
    m->changed_mono = s->mono;
    if (c->change.priority)
        m->job.priority = c->change.priority;
    if (c->change.run_at) {
        m->job.run_at = c->change.run_at;
        model_move(s, m, c->change.run_at > now ? JOB_SCHEDULED : JOB_QUEUED);
    }
    sim_must(s, s->cut || c->change.out_state == m->job.state, "change",
             "job %lld is %s, and the answer says %s", (long long)m->job.id,
             job_state_name(m->job.state), job_state_name(c->change.out_state));
}

static void explain_retry(struct sim *s, struct command *c, int64_t now)
{
    struct mjob *m = model_job(&s->model, c->retry.job_id);
    while (m && m->retry_id)
        m = model_job(&s->model, m->retry_id);
    int want = m ? 0 : -HF_NOT_FOUND;
    bool terminal = m && job_state_terminal(m->job.state);
    if (terminal && m->job.unique_key.p &&
        model_holder(&s->model, m->job.project_id, m->job.unique_key))
        want = -HF_DUPLICATE;
    expect_result(s, c, want);
    if (want < 0)
        return;
    int64_t id = m->job.id;
    if (terminal) {
        id = model_retry_by_hand(s, m, now)->job.id;
    } else if (m->job.state == JOB_SCHEDULED) {
        m->job.run_at = now;
        model_move(s, m, JOB_QUEUED);
    }
    sim_must(s, s->cut || (c->retry.out_id == id && c->retry.out_made == terminal),
             "retry", "the retry of job %lld is %lld, and the answer says %lld",
             (long long)c->retry.job_id, (long long)id, (long long)c->retry.out_id);
}

static void set(int64_t *to, int64_t asked)
{
    if (asked != INT64_MIN)
        *to = asked;
}

static void explain_queue(struct sim *s, struct command *c)
{
    struct mqueue *q = model_queue_named(s, c->queue.name);
    expect_result(s, c, 0);
    set(&q->slots, c->queue.slots);
    set(&q->concurrency, c->queue.concurrency);
    set(&q->stale_after_us, c->queue.stale_after_us);
    set(&q->max_retries, c->queue.max_retries);
    set(&q->max_execution_us, c->queue.max_execution_us);
    set(&q->on_crash, c->queue.on_crash);
    if (c->queue.retry_delays.p)
        q->policy = (int)(model_policy(c->queue.retry_delays) - sim_policies);
    if (c->queue.pause >= 0)
        q->paused = c->queue.pause;
    const struct queue *out = &c->queue.out;
    sim_must(s,
             s->cut || (out->paused == q->paused && out->slots == q->slots &&
                        out->concurrency == q->concurrency &&
                        out->max_retries == q->max_retries),
             "queue", "queue %s was answered with other settings", q->name);
}

static void explain_project(struct sim *s, struct command *c)
{
    bool there = s->model.projects[1] != 0;
    expect_result(s, c, there ? -HF_CONFLICT : 0);
    if (there)
        return;
    int64_t id = c->project.out_id;
    if (s->cut && store_project(sim_store(s), c->project.name, &id) < 0)
        id = 0;
    s->model.projects[1] = id;
}

/* ---- the pile ---- */

static void explain_one(struct sim *s, struct node *node, struct command *c, int64_t now)
{
    switch (c->op) {
    case OP_ENQUEUE:
        explain_enqueue(s, node, c, now);
        break;
    case OP_COMPLETE:
        explain_complete(s, c, now);
        break;
    case OP_FAIL:
        explain_fail(s, node, c, now);
        break;
    case OP_PROGRESS:
        explain_progress(s, c);
        break;
    case OP_BEAT:
        explain_beat(s, node, c, now);
        break;
    case OP_CANCEL:
        explain_cancel(s, c, now);
        break;
    case OP_CHANGE:
        explain_change(s, c, now);
        break;
    case OP_RETRY:
        explain_retry(s, c, now);
        break;
    case OP_QUEUE:
        explain_queue(s, c);
        break;
    case OP_PROJECT:
        explain_project(s, c);
        break;
    case OP_CLAIM:
        explain_claim(s, c, now);
        break;
    case OP_RESERVE:
    case OP_RELEASE:
    case OP_RENEW:
        explain_hold(s, node, c, now);
        break;
    case OP_WORKER:
    case OP_TOKEN:
    case OP_TOKEN_DROP:
    case OP_SCHEDULE:
    case OP_SCHEDULE_DROP:
    case OP_TRIGGER:
    case OP_WEBHOOK:
    case OP_WEBHOOK_DROP:
    case OP_WEBHOOK_TEST:
    case OP_DELIVERIES:
    case OP_DELIVERED:
    case OP_RESEND:
    case OPS:
        break;
    }
}

/* No claim begins what has expired: that is cancelled first. */
static void explain_expired(struct sim *s, int64_t now)
{
    for (size_t i = 0; i < s->watch.row_count; i++) {
        const struct job_row *row = &s->watch.rows[i];
        struct mjob *m = model_job(&s->model, row->job.id);
        if (m && job_state_waiting(m->job.state) && row->job.state == JOB_CANCELLED &&
            m->job.expires_at != 0 && m->job.expires_at <= now)
            model_cancel_waiting(s, m, now);
    }
}

static void explain_round(struct sim *s, struct node *node, int64_t now, int round)
{
    for (size_t i = 0; i < s->pile_count; i++) {
        enum op op = s->pile[i]->op;
        if ((op == OP_COMPLETE ? 0 : op == OP_CLAIM ? 2 : 1) == round)
            explain_one(s, node, s->pile[i], now);
    }
}

void explain_pile(struct sim *s, struct node *node, int64_t now, bool second)
{
    if (!second) {
        explain_round(s, node, now, 0);
        explain_round(s, node, now, 1);
        explain_expired(s, now);
        explain_round(s, node, now, 2);
    }
    for (size_t i = 0; i < s->pile_count && second; i++) {
        if (s->pile[i]->op == OP_CLAIM)
            explain_expired(s, now);
        explain_one(s, node, s->pile[i], now);
        explain_expired(s, now);
    }
    s->shared->saw[SAW_SECOND_PASSES] += second;
    explain_holds(s, now);
    explain_node_claims(s, node, now);
}
