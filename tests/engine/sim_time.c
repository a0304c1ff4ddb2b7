/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_time.c -- what may happen by itself, and what must have happened by now.
 *
 * May: a job falls due or expires, a remote run passes its deadline, an owner whose
 * lease ran out is dead, what a dead owner had is failed as a crash, a node begins
 * what it has room for, old chains are pruned.
 * Must: all of these within a second or so of the moment they may. */
#include "sim.h"

/* ---- owners ---- */

/* An owner is no longer alive: it must have been dead beyond doubt. */
static void explain_death(struct sim *s, const struct node *judge, struct mowner *o,
                          const struct owner *row, int64_t now)
{
    long long id = (long long)o->id;
    s->shared->saw[SAW_DEATHS]++;
    sim_say(s, "    owner %lld %s is %s", id, o->session,
            row->state == OWNER_DEAD ? "dead" : "stopped");
    o->state = row->state;
    o->ended_at = row->ended_at;
    if (row->state == OWNER_STOPPED) {
        sim_must(s, s->closing == o->id, "owner stopped",
                 "owner %lld is said to have stopped, and it has not", id);
        return;
    }
    bool ran_out =
        o->lease_until != 0 && o->lease_until <= now && now >= judge->judge_from;
    if (o->type == OWNER_REMOTE) {
        sim_must(
            s, ran_out, "I2 judged too early",
            "worker %s was judged dead at %lld: its lease lasts until %lld, and nobody "
            "may be judged before %lld",
            o->session, (long long)now, (long long)o->lease_until,
            (long long)judge->judge_from);
        return;
    }
    const struct node *node = &s->nodes[o->node];
    bool current = node->engine && node->engine->owner_id == o->id;
    bool gone =
        !current && (!s->postgres || (o->node == judge->index && o->boot == judge->boot));
    sim_must(s, gone || (s->postgres && ran_out), "I2 judged too early",
             "node %lld was judged dead, and it may be alive", id);
}

void explain_owners(struct sim *s, const struct node *node, int64_t now)
{
    struct owner *rows = NULL;
    size_t count = 0;
    if (!s->watch.owners)
        return;
    int r = store_owners(sim_store(s), false, &s->arena, &rows, &count);
    sim_must(s, r == 0, "read", "owners cannot be read: %d", r);
    for (size_t i = s->model.owner_count; i > 0; i--) {
        struct mowner *o = &s->model.owners[i - 1];
        const struct owner *alive = NULL;
        if (o->state != OWNER_ALIVE)
            continue;
        for (size_t k = 0; k < count; k++)
            if (rows[k].id == o->id)
                alive = &rows[k];
        if (alive) {
            if (o->type == OWNER_NODE)
                o->lease_until = alive->lease_until;
            sim_must(s, alive->lease_until == o->lease_until, "lease",
                     "the lease of owner %lld ends at %lld, not at %lld",
                     (long long)o->id, (long long)alive->lease_until,
                     (long long)o->lease_until);
            continue;
        }
        struct owner row = { 0 };
        r = store_owner_get(sim_store(s), o->id, &s->arena, &row);
        sim_must(s, r == 0, "owner", "owner %lld is gone", (long long)o->id);
        explain_death(s, node, o, &row, now);
    }
    for (size_t k = 0; k < count; k++) {
        bool known = rows[k].type == OWNER_PRODUCER || model_owner(&s->model, rows[k].id);
        if (!known && s->cut && rows[k].type == OWNER_REMOTE)
            explain_session(s, rows[k].session, now);
        else
            sim_must(s, known || (node->engine && rows[k].id == node->engine->owner_id),
                     "owner", "owner %lld is there, and nobody has come",
                     (long long)rows[k].id);
    }
}

/* It begins to be somebody. */
static void note_self(struct sim *s, struct node *node)
{
    node->owner_id = node->engine->owner_id;
    model_add_owner(s, (struct mowner){ .id = node->owner_id,
                                        .type = OWNER_NODE,
                                        .state = OWNER_ALIVE,
                                        .node = node->index,
                                        .boot = node->boot });
}

/* A node that others had judged dead goes on as a new owner, with the same kinds;
 * its runs were taken over. */
void explain_rebirth(struct sim *s, struct node *node)
{
    const struct mowner *old = model_owner(&s->model, node->owner_id);
    if (node->engine->owner_id == node->owner_id)
        return;
    sim_must(s, old && old->state != OWNER_ALIVE, "I2 reborn",
             "node %lld goes on as another, and nobody had judged it",
             (long long)node->owner_id);
    s->shared->saw[SAW_REBIRTHS]++;
    note_self(s, node);
    model_owner(&s->model, node->owner_id)->kinds = node->kinds;
    sim_say(s, "    node %d was judged dead, and goes on as %lld", node->index,
            (long long)node->owner_id);
}

/* Nobody's jobs are touched by the opening itself.  Kinds that no living node has
 * are the remote workers' from now on. */
void explain_open(struct sim *s, struct node *node)
{
    int64_t now = engine_now(node->engine);
    note_self(s, node);
    s->watch.owners = true;
    explain_owners(s, node, now);
    for (size_t i = 0; i < s->model.owner_count; i++)
        if (s->model.owners[i].state != OWNER_ALIVE)
            s->model.owners[i].kinds = 0;
    model_owner(&s->model, node->owner_id)->kinds = node->kinds;
    compare_seen(s);
}

/* ---- changes of jobs ---- */

static bool too_early_to_sweep(const struct node *node, const struct mowner *owner,
                               const struct mjob *m, int64_t now)
{
    bool before_us = !owner || owner->ended_at <= node->opened_at;
    return !node->settings.recovery_on_startup && before_us &&
           m->run.started_at > now - node->settings.zombie_threshold_us;
}

/* A busy job whose owner is dead has been failed by a recovery. */
static void explain_crash(struct sim *s, struct node *node, struct mjob *m, int64_t now)
{
    const struct mowner *owner = model_owner(&s->model, m->run.owner_id);
    sim_must(s, model_orphan(s, m), "I2 owner lives",
             "job %lld was failed as crashed, and its owner %lld lives",
             (long long)m->job.id, (long long)m->run.owner_id);
    sim_must(s, !too_early_to_sweep(node, owner, m, now), "recovery_on_startup",
             "job %lld was recovered, and recovery at the start is off",
             (long long)m->job.id);
    bool rebooted = owner->node == node->index && owner->boot != node->boot;
    /* A node's death counts for what it executed within itself. */
    bool counts = m->run.executor == EXECUTOR_REMOTE ||
                  (m->run.executor == EXECUTOR_HANDLER && owner->state != OWNER_STOPPED &&
                   !rebooted);
    if (node->ready_at == 0)
        node->recovered++;
    s->shared->saw[SAW_RECOVERED]++;
    model_end(s, node, m,
              &(struct mending){ .event = ON_CRASH,
                                 .error_type = ERROR_CRASH,
                                 .counts = counts,
                                 .recovery = true },
              now);
}

static void explain_timeout(struct sim *s, const struct node *node, struct mjob *m,
                            int64_t now)
{
    sim_must(s, m->run.executor == EXECUTOR_REMOTE && m->run.deadline_at <= now,
             "deadline", "job %lld timed out at %lld, its deadline is %lld",
             (long long)m->job.id, (long long)now, (long long)m->run.deadline_at);
    sim_must(s, now >= node->judge_from, "I2 judged too early",
             "job %lld timed out at %lld; nobody may be judged before %lld",
             (long long)m->job.id, (long long)now, (long long)node->judge_from);
    s->shared->saw[SAW_TIMEOUTS]++;
    model_end(s, node, m,
              &(struct mending){ .event = ON_TIMEOUT, .error_type = ERROR_TIMEOUT }, now);
}

static void explain_waiting(struct sim *s, struct mjob *m, const struct job_row *row,
                            int64_t now)
{
    if (row->job.class != m->job.class &&
        row->job.class == model_class(&s->model, m->job.kind))
        m->job.class = row->job.class;
    if (row->job.state == JOB_CANCELLED) {
        sim_must(s, m->job.expires_at != 0 && m->job.expires_at <= now, "expiry",
                 "job %lld was cancelled at %lld, and nobody asked for it",
                 (long long)m->job.id, (long long)now);
        model_cancel_waiting(s, m, now);
    } else if (m->job.state == JOB_SCHEDULED && row->job.state != JOB_SCHEDULED) {
        sim_must(s, m->job.run_at <= now, "due", "job %lld is %s before its time",
                 (long long)m->job.id, job_state_name(row->job.state));
        model_move(s, m, JOB_QUEUED);
    }
}

static void explain_row(struct sim *s, struct node *node, const struct job_row *row,
                        int64_t now)
{
    struct mjob *m = model_job(&s->model, row->job.id);
    if (!m)
        return; /* a retry is explained with its original; others below */
    if (job_state_waiting(m->job.state)) {
        explain_waiting(s, m, row, now);
    } else if (job_state_busy(m->job.state) && job_state_terminal(row->job.state)) {
        sim_must(s, row->job.state != JOB_COMPLETED, "unexplained completion",
                 "job %lld is completed, and nobody has said so", (long long)m->job.id);
        if (row->run.error.type == ERROR_CRASH)
            explain_crash(s, node, m, now);
        else
            explain_timeout(s, node, m, now);
    } else if (row->job.state != m->job.state) {
        sim_broken(s, "I3 transition", "job %lld went from %s to %s",
                   (long long)m->job.id, job_state_name(m->job.state),
                   job_state_name(row->job.state));
    }
}

/* ---- retention ---- */

static struct mjob *tail_of(struct sim *s, struct mjob *m)
{
    while (m->retry_id && model_job(&s->model, m->retry_id))
        m = model_job(&s->model, m->retry_id);
    return m;
}

static bool was_removed(const struct sim *s, int64_t id)
{
    for (size_t i = 0; i < s->watch.gone_count; i++)
        if (s->watch.gone[i] == id)
            return true;
    return false;
}

/* Whole chains, ended and old enough. */
static void explain_removed(struct sim *s, const struct node *node, int64_t now)
{
    for (size_t i = 0; i < s->watch.gone_count; i++) {
        struct mjob *m = model_job(&s->model, s->watch.gone[i]);
        if (!m)
            continue; /* it was rolled back, or went with its chain */
        const struct mjob *tail = tail_of(s, m);
        int64_t keep = tail->job.state == JOB_COMPLETED
                           ? node->settings.retention_completed_us
                           : node->settings.retention_failed_us;
        sim_must(s,
                 job_state_terminal(tail->job.state) && keep > 0 &&
                     tail->job.finished_at <= now - keep &&
                     tail->job.retry_state != RETRY_RETRIED,
                 "I10 removed", "job %lld was removed; the end of its chain is %s",
                 (long long)s->watch.gone[i], job_state_name(tail->job.state));
        for (int64_t id = tail->job.id; id != 0;) {
            struct mjob *link = model_job(&s->model, id);
            sim_must(s, link && was_removed(s, id), "I10 removed",
                     "the chain of job %lld was removed only in part",
                     (long long)s->watch.gone[i]);
            id = link->job.retry_of;
            model_remove(s, link);
        }
    }
}

void compare_gone(struct sim *s)
{
    for (size_t i = 0; i < s->watch.gone_count; i++)
        sim_must(s, !model_job(&s->model, s->watch.gone[i]), "I1 lost job",
                 "job %lld was acknowledged and is gone", (long long)s->watch.gone[i]);
}

void compare_seen(struct sim *s)
{
    for (size_t i = 0; i < s->watch.row_count; i++)
        model_compare(s, &s->watch.rows[i]);
    compare_gone(s);
}

/* ---- ticks, closing ---- */

void explain_time(struct sim *s, struct node *node, int64_t now, bool ready)
{
    explain_owners(s, node, now);
    explain_removed(s, node, now);
    for (size_t i = 0; i < s->watch.row_count; i++)
        explain_row(s, node, &s->watch.rows[i], now);
    explain_holds(s, now);
    if (ready && node->ready_at == 0) {
        node->ready_at = now;
        node->throttled =
            node->settings.startup_throttle == THROTTLE_ALWAYS ||
            (node->settings.startup_throttle == THROTTLE_AUTO && node->recovered > 0);
    }
    explain_node_claims(s, node, now);
    compare_seen(s);
}

/* What a node hands over is interrupted, which uses up nothing. */
void explain_close(struct sim *s, struct node *node)
{
    for (size_t i = s->model.live_count; i > 0; i--) {
        struct mjob *m = s->model.live[i - 1];
        if (job_state_busy(m->job.state) && m->run.owner_id == s->closing)
            model_end(s, node, m,
                      &(struct mending){ .event = ON_INTERRUPT,
                                         .error_type = ERROR_INTERRUPTED },
                      s->closed_at);
    }
    compare_seen(s);
}

/* ---- what must have happened by now ---- */

/* A second, and one more poll for what is noticed by looking. */
static int64_t grace(const struct node *node)
{
    return US_PER_S + node->settings.poll_interval_us;
}

static void check_busy(struct sim *s, const struct node *node, const struct mjob *m,
                       int64_t now)
{
    const struct mowner *owner = model_owner(&s->model, m->run.owner_id);
    bool judging = now >= node->judge_from + grace(node);
    bool late = m->run.deadline_at + grace(node) <= now;
    if (owner && owner->state == OWNER_ALIVE) {
        sim_must(s, m->run.executor != EXECUTOR_REMOTE || !late || !judging,
                 "I2 deadline", "job %lld is %s %lld us after its deadline",
                 (long long)m->job.id, job_state_name(m->job.state),
                 (long long)(now - m->run.deadline_at));
        return;
    }
    int64_t ended_at = owner ? owner->ended_at : 0;
    bool left = !node->settings.recovery_on_startup && ended_at <= node->opened_at;
    int64_t since =
        left ? m->run.started_at + node->settings.zombie_threshold_us : ended_at;
    if (since < node->awake_at)
        since = node->awake_at;
    if (left)
        since += node->settings.cleanup_interval_us;
    sim_must(s, now < since + grace(node), "I2 ghost",
             "job %lld is %s, its owner died at %lld and it is %lld",
             (long long)m->job.id, job_state_name(m->job.state), (long long)ended_at,
             (long long)now);
}

static void check_owners(struct sim *s, const struct node *node, int64_t now)
{
    for (size_t i = 0; i < s->model.owner_count; i++) {
        const struct mowner *o = &s->model.owners[i];
        if (o->state != OWNER_ALIVE || o->lease_until == 0 || o->id == node->owner_id ||
            now < node->judge_from + grace(node))
            continue;
        sim_must(s, o->lease_until + grace(node) > now, "I2 dead owner",
                 "the lease of %lld %s is over since %lld us, and it counts as alive",
                 (long long)o->id, o->session, (long long)(now - o->lease_until));
    }
}

static void check_holds(struct sim *s, const struct node *node, int64_t now)
{
    for (size_t i = 0; i < s->model.hold_count; i++) {
        const struct reservation *v = &s->model.holds[i].row;
        int64_t end = v->state == RESERVATION_ACTIVE ? v->expires_at : v->wait_until;
        sim_must(s, end + grace(node) > now, "I6 stuck",
                 "reservation %lld is %d and should have ended at %lld", (long long)v->id,
                 v->state, (long long)end);
    }
}

/* Nobody idles: what this node could begin does not wait for long. */
static void check_idle(struct sim *s, const struct node *node, struct mjob *m,
                       int64_t now)
{
    const struct mqueue *q = model_queue(s, m->job.queue_id);
    int64_t slots = q->slots >= 0 ? q->slots : node->settings.slots, here = 0, all = 0;
    for (size_t i = 0; i < s->model.live_count; i++) {
        const struct mjob *o = s->model.live[i];
        bool local = job_state_busy(o->job.state) && o->run.owner_id == node->owner_id;
        all += local;
        here += local && o->job.queue_id == q->id;
    }
    bool could = m->job.state == JOB_QUEUED && m->job.class == CLASS_NODE &&
                 node->ready_at != 0 && !q->paused &&
                 node->kinds >> sim_kind(m->job.kind) & 1 &&
                 !model_held(&s->model, q->id) && here < slots &&
                 all < (int64_t)node->capacity && m->job.lane == LANE_NORMAL &&
                 !node->throttled && node->settings.claim_batch == 0 &&
                 (q->concurrency == 0 || model_busy(&s->model, q->id) < q->concurrency);
    if (!could)
        m->claimable_since = 0;
    else if (m->claimable_since == 0)
        m->claimable_since = now;
    sim_must(s, !could || now - m->claimable_since <= grace(node), "idle",
             "job %lld waits in %s, and nothing keeps the node from it",
             (long long)m->job.id, q->name);
}

void check_settled(struct sim *s, struct node *node)
{
    int64_t now = engine_now(node->engine);
    if (now < node->trouble_at + grace(node))
        return; /* the disk failed: it tries again a little later */
    for (size_t i = 0; i < s->model.live_count; i++) {
        struct mjob *m = s->model.live[i];
        if (s->postgres && s->mono < m->changed_mono + grace(node))
            continue; /* another node has made it: this one may not know yet */
        sim_must(s, m->job.state != JOB_SCHEDULED || m->job.run_at > now, "due",
                 "job %lld is scheduled %lld us after its time", (long long)m->job.id,
                 (long long)(now - m->job.run_at));
        if (job_state_busy(m->job.state)) {
            check_busy(s, node, m, now);
            continue;
        }
        sim_must(s, m->job.expires_at == 0 || m->job.expires_at > now, "expiry",
                 "job %lld waits after its expiry", (long long)m->job.id);
        check_idle(s, node, m, now);
    }
    check_owners(s, node, now);
    check_holds(s, node, now);
}
