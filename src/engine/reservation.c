/* SPDX-License-Identifier: Apache-2.0
 *
 * reservation.c -- exclusive, expiring holds on a queue (I6).
 *
 *   asked ─► WAITING ─ nobody before it ─► DRAINING ─ nothing runs ─► ACTIVE
 *              │ waitMs over                 │ waitMs over             │ released
 *              ▼                             ▼                         ▼ or ttl over
 *            EXPIRED                       EXPIRED          RELEASED, EXPIRED
 *
 * While one is draining or active, dispatch of its queue stops (claims see it
 * at the gate); jobs already running go on.  At most one per queue is draining
 * or active: a unique index says so.  The queue itself is never changed. */
#include "base/limits.h"
#include "engine/engine.h"

static int not_found(struct command *c, int64_t id)
{
    return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no reservation %lld.",
                     (long long)id);
}

static void tell_reservation(struct tx *tx, const struct reservation *v, const char *type)
{
    tell(tx, &(struct job){ .queue_id = v->queue_id }, type,
         "\"reservation\":\"%lld\",\"holder\":%s,\"reason\":%s", (long long)v->id,
         quoted(tx, v->holder), quoted(tx, v->reason));
}

int reservation_ended(struct tx *tx, const struct reservation *v)
{
    int r = 0;
    if (v->owner_id == 0 || v->job_id == 0)
        return 0;
    struct job_row *row = tx_job(tx, v->job_id, &r);
    if (!row)
        return r == -HF_NOT_FOUND ? 0 : r;
    if (job_state_waiting(row->job.state))
        cancel_waiting(tx, &row->job,
                       SLICE("The direct call it was for ended before it was started."),
                       "job.cancelled");
    return tx->store->failed;
}

static int change(struct tx *tx, struct reservation *v, int state, const char *type)
{
    int old_state = v->state;
    v->state = state;
    if (state == RESERVATION_ACTIVE) {
        v->granted_at = tx->now;
        v->expires_at = tx->now + v->ttl_us;
    } else if (state == RESERVATION_RELEASED || state == RESERVATION_EXPIRED) {
        v->ended_at = tx->now;
    }
    int r = store_reservation_update(tx->store, v, old_state);
    if (r < 0)
        return r;
    tell_reservation(tx, v, type);
    return v->ended_at ? reservation_ended(tx, v) : 0;
}

static int queue_is_busy(struct tx *tx, int64_t queue_id, bool *ret)
{
    int64_t busy = 0;
    int r = store_flush(tx->store);
    if (r == 0)
        r = store_int(tx->store, SQL_QUEUE_BUSY, (struct db_value[]){ db_int(queue_id) },
                      0, &busy);
    *ret = busy > 0;
    return r;
}

/* A hold of a direct call is over when its job is. */
static int job_has_ended(struct tx *tx, const struct reservation *v, bool *ret)
{
    struct db_rows rows;
    int r = store_flush(tx->store);
    if (r < 0)
        return r;
    *ret = true; /* retention may have removed it */
    r = db_query(tx->store->db, SQL_JOB_STATES, (struct db_value[]){ db_int(v->job_id) },
                 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        *ret = job_state_terminal((int)db_get_int(&rows, 1));
    db_done(&rows);
    return r < 0 ? store_fail(tx->store, r) : 0;
}

/* Whether it has ended now, by its job's end or its own time. */
static int end_active(struct tx *tx, struct reservation *v, bool *ret)
{
    bool done = false;
    int r = v->owner_id && v->job_id ? job_has_ended(tx, v, &done) : 0;
    *ret = done || v->expires_at <= tx->now;
    if (r < 0 || !*ret)
        return r;
    if (!done)
        v->reason = SLICE("Its time was over before it was released.");
    hint_queue(tx->engine, v->queue_id);
    return change(tx, v, done ? RESERVATION_RELEASED : RESERVATION_EXPIRED,
                  done ? "reservation.released" : "reservation.expired");
}

/* Brings the holds of one queue up to date, oldest first: ends what is over,
 * lets the next one drain, grants it when nothing runs. */
static int advance(struct tx *tx, struct reservation *list, size_t count)
{
    bool held = false;
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        struct reservation *v = &list[i];
        bool waits = v->state == RESERVATION_WAITING || v->state == RESERVATION_DRAINING;
        bool ended = false;
        if (v->state == RESERVATION_ACTIVE)
            r = end_active(tx, v, &ended);
        if (r < 0 || ended)
            continue;
        if (v->state == RESERVATION_WAITING && !held)
            r = change(tx, v, RESERVATION_DRAINING, "reservation.draining");
        if (v->state == RESERVATION_DRAINING && r == 0) {
            bool busy = false;
            r = queue_is_busy(tx, v->queue_id, &busy);
            if (r == 0 && !busy)
                r = change(tx, v, RESERVATION_ACTIVE, "reservation.granted");
        }
        if (r == 0 && waits && v->state != RESERVATION_ACTIVE &&
            v->wait_until <= tx->now) {
            v->reason = SLICE("It was not granted within the time it wanted to wait.");
            r = change(tx, v, RESERVATION_EXPIRED, "reservation.expired");
            hint_queue(tx->engine, v->queue_id);
            continue;
        }
        held = true;
    }
    return r == -HF_CONFLICT ? 0 : r; /* another node was quicker */
}

/* A hold must not be granted while a claim that has not seen it is under way:
 * both pass the queue's gate, the hold alone. */
static int advance_queue(struct tx *tx, int64_t queue_id)
{
    struct gate gate = { .queue_id = queue_id, .exclusive = true };
    struct reservation *list = NULL;
    size_t count = 0;
    int r = store_gates(tx->store, &gate, 1);
    if (r == 0)
        r = store_reservations(tx->store, queue_id, &tx->store->arena, &list, &count);
    return r < 0 ? r : advance(tx, list, count);
}

int64_t reservation_tick(struct tx *tx)
{
    struct reservation *list = NULL;
    size_t count = 0;
    int r = store_flush(tx->store);
    if (r == 0)
        r = store_reservations(tx->store, 0, &tx->store->arena, &list, &count);
    for (size_t i = 0; i < count && r == 0; i++)
        if (i == 0 || list[i].queue_id != list[i - 1].queue_id)
            r = advance_queue(tx, list[i].queue_id);
    tx->engine->holds = count > 0;
    return r < 0 ? r : (int64_t)count;
}

/* ---- commands ---- */

static struct reservation without_texts(struct reservation v)
{
    v.holder = v.reason = (struct slice){ 0 };
    return v;
}

static int read_back(struct tx *tx, int64_t id, struct reservation *ret)
{
    struct reservation v;
    int r = store_reservation_get(tx->store, id, &tx->store->arena, &v);
    if (r == 0)
        *ret = without_texts(v);
    return r;
}

int apply_reserve(struct tx *tx, struct command *c)
{
    struct queue_entry *entry = NULL;
    int64_t ttl =
        c->reserve.ttl_us ? c->reserve.ttl_us : DEFAULT_RESERVATION_MS * US_PER_MS;
    if (ttl < US_PER_MS || ttl > LIMIT_RESERVATION_MS * US_PER_MS)
        return error_set(&c->error, -HF_INVALID, "ttlMs",
                         "ttlMs is %lld; it must be between 1 and %d.",
                         (long long)(ttl / US_PER_MS), LIMIT_RESERVATION_MS);
    if (c->reserve.wait_us < 0 || c->reserve.wait_us > LIMIT_WAIT_MS * US_PER_MS)
        return error_set(&c->error, -HF_INVALID, "waitMs",
                         "waitMs is %lld; it must be between 0 and %d.",
                         (long long)(c->reserve.wait_us / US_PER_MS), LIMIT_WAIT_MS);
    int r = store_queue(tx->store, c->reserve.queue, true, &entry);
    if (r < 0)
        return r;
    struct reservation v = { .id = store_id(tx->store),
                             .queue_id = entry->queue.id,
                             .owner_id = c->reserve.direct ? tx->engine->owner_id : 0,
                             .state = RESERVATION_WAITING,
                             .holder = c->reserve.holder,
                             .wait_until = tx->now + c->reserve.wait_us,
                             .ttl_us = ttl,
                             .job_id = c->reserve.job_id };
    if (v.id == 0)
        return tx->store->failed;
    r = store_reservation_insert(tx->store, &v);
    if (r == 0)
        r = advance_queue(tx, v.queue_id);
    tx->engine->holds = true;
    return r < 0 ? r : read_back(tx, v.id, &c->reserve.out);
}

static bool is_of_queue(struct tx *tx, const struct reservation *v, struct slice name)
{
    const struct queue_entry *queue = store_queue_by_id(tx->store, v->queue_id);
    return !name.p || (queue && slice_equal(name, slice_of(queue->queue.name)));
}

/* The reservation of a command, if it is open and the caller may touch it. */
static int open_one(struct tx *tx, struct command *c, int64_t id, struct slice queue,
                    struct slice holder, struct reservation *v)
{
    int r = store_reservation_get(tx->store, id, &tx->store->arena, v);
    if (r == -HF_NOT_FOUND || (r == 0 && !is_of_queue(tx, v, queue)))
        return not_found(c, id);
    if (r < 0)
        return r;
    if (holder.p && !slice_equal(holder, v->holder))
        return error_set(&c->error, -HF_CONFLICT, "holder",
                         "Reservation %lld has another holder.", (long long)id);
    if (v->state == RESERVATION_RELEASED || v->state == RESERVATION_EXPIRED ||
        (v->state == RESERVATION_ACTIVE && v->expires_at <= tx->now))
        return error_set(
            &c->error, -HF_CONFLICT, NULL, "Reservation %lld has %s.", (long long)id,
            v->state == RESERVATION_RELEASED ? "been released already" : "expired");
    return 0;
}

int apply_release(struct tx *tx, struct command *c)
{
    struct reservation v;
    int r = open_one(tx, c, c->release.reservation_id, c->release.queue,
                     c->release.holder, &v);
    if (r == 0)
        r = change(tx, &v, RESERVATION_RELEASED, "reservation.released");
    if (r == 0)
        r = advance_queue(tx, v.queue_id); /* the next in line */
    if (r < 0)
        return r;
    hint_queue(tx->engine, v.queue_id);
    c->release.out = without_texts(v);
    return 0;
}

int apply_renew(struct tx *tx, struct command *c)
{
    struct reservation v;
    int64_t ttl = c->renew.ttl_us;
    if (ttl < 0 || ttl > LIMIT_RESERVATION_MS * US_PER_MS)
        return error_set(&c->error, -HF_INVALID, "ttlMs",
                         "ttlMs is %lld; it must be between 1 and %d.",
                         (long long)(ttl / US_PER_MS), LIMIT_RESERVATION_MS);
    int r = open_one(tx, c, c->renew.reservation_id, c->renew.queue, c->renew.holder, &v);
    if (r < 0)
        return r;
    if (v.state != RESERVATION_ACTIVE)
        return error_set(
            &c->error, -HF_CONFLICT, NULL,
            "Reservation %lld is not granted yet; there is nothing to renew.",
            (long long)v.id);
    v.expires_at = tx->now + (ttl ? ttl : v.ttl_us);
    r = store_reservation_update(tx->store, &v, RESERVATION_ACTIVE);
    if (r == 0)
        c->renew.out = without_texts(v);
    return r;
}

int reservation_take_job(struct tx *tx, struct command *c, int64_t id, struct job *job)
{
    struct reservation v;
    struct slice anyone = { 0 };
    int r = open_one(tx, c, id, anyone, anyone, &v);
    if (r < 0)
        return r;
    if (v.state != RESERVATION_ACTIVE || v.job_id != 0 || v.queue_id != job->queue_id)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "Reservation %lld does not hold the job's queue for it.",
                         (long long)id);
    if (job->max_execution_us > v.expires_at - tx->now)
        job->max_execution_us = v.expires_at - tx->now;
    job->max_retries = job->retries_left = 0;
    job->on_crash = ON_CRASH_FAIL;
    v.job_id = job->id;
    return store_reservation_update(tx->store, &v, RESERVATION_ACTIVE);
}
