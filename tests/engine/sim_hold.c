/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_hold.c -- holds on queues: one at a time, in the order they were asked for,
 * granted when nothing runs, over when their time is. */
#include "sim.h"

bool model_held(const struct model *model, int64_t queue_id)
{
    for (size_t i = 0; i < model->hold_count; i++) {
        const struct reservation *v = &model->holds[i].row;
        if (v->queue_id == queue_id &&
            (v->state == RESERVATION_DRAINING || v->state == RESERVATION_ACTIVE))
            return true;
    }
    return false;
}

struct mhold *model_hold(struct model *model, int64_t id)
{
    for (size_t i = 0; i < model->hold_count; i++)
        if (model->holds[i].row.id == id)
            return &model->holds[i];
    return NULL;
}

static bool came_before(const struct reservation *a, const struct reservation *b)
{
    return a->created_at != b->created_at ? a->created_at < b->created_at : a->id < b->id;
}

/* In the order in which they came. */
static struct mhold *hold_add(struct sim *s, const struct reservation *row, bool direct)
{
    struct model *model = &s->model;
    if (model->hold_count == model->hold_capacity) {
        model->hold_capacity = model->hold_capacity ? 2 * model->hold_capacity : 32;
        void *grown =
            reallocarray(model->holds, model->hold_capacity, sizeof(*model->holds));
        check(grown != NULL);
        model->holds = grown;
    }
    size_t i = model->hold_count++;
    for (; i > 0 && came_before(row, &model->holds[i - 1].row); i--)
        model->holds[i] = model->holds[i - 1];
    model->holds[i] = (struct mhold){ *row, direct };
    return &model->holds[i];
}

static void hold_remove(struct model *model, struct mhold *hold)
{
    size_t i = (size_t)(hold - model->holds);
    memmove(hold, hold + 1, (model->hold_count - i - 1) * sizeof(*hold));
    model->hold_count--;
}

static bool holder_died(struct sim *s, const struct mhold *hold)
{
    const struct mowner *owner =
        hold->direct ? model_owner(&s->model, hold->row.owner_id) : NULL;
    return owner && owner->state != OWNER_ALIVE;
}

/* Nobody holds the queue, and nobody else has waited for longer. */
static bool is_first(const struct model *model, const struct mhold *hold)
{
    for (size_t i = 0; i < model->hold_count; i++) {
        const struct mhold *h = &model->holds[i];
        if (h != hold && h->row.queue_id == hold->row.queue_id &&
            (h < hold || h->row.state != RESERVATION_WAITING))
            return false;
    }
    return true;
}

static void explain_hold_end(struct sim *s, const struct mhold *hold,
                             const struct reservation *row, int64_t now)
{
    const struct reservation *was = &hold->row;
    bool waited = was->state == RESERVATION_WAITING || was->state == RESERVATION_DRAINING;
    bool over = waited ? was->wait_until <= now : was->expires_at <= now;
    sim_must(s, row->state != RESERVATION_RELEASED, "I6 release",
             "reservation %lld was released, and nobody asked for it",
             (long long)row->id);
    sim_must(s, over || holder_died(s, hold), "I6 expiry",
             "reservation %lld expired before its time", (long long)row->id);
}

/* One hold that is open. */
static void explain_hold_row(struct sim *s, struct mhold *hold,
                             const struct reservation *row, int64_t now)
{
    struct reservation *was = &hold->row;
    long long id = (long long)row->id;
    bool waited = was->state == RESERVATION_WAITING || was->state == RESERVATION_DRAINING;
    if (row->state != was->state) {
        sim_must(s, waited && row->state > was->state, "I6 states",
                 "reservation %lld went from %d to %d", id, was->state, row->state);
        sim_must(s, was->state == RESERVATION_DRAINING || is_first(&s->model, hold),
                 "I6 line", "reservation %lld went before an older one", id);
    }
    if (waited && row->state == RESERVATION_ACTIVE) {
        sim_must(s, model_busy(&s->model, row->queue_id) == 0, "I6 drained",
                 "reservation %lld was granted while %lld jobs run", id,
                 (long long)model_busy(&s->model, row->queue_id));
        was->granted_at = now;
        was->expires_at = now + was->ttl_us;
    }
    was->state = row->state;
    sim_must(s,
             row->granted_at == was->granted_at && row->expires_at == was->expires_at &&
                 row->wait_until == was->wait_until && row->queue_id == was->queue_id,
             "I6 times", "reservation %lld has other times than it should", id);
}

/* How a hold stands now; its state is 0 if it is gone. */
static struct reservation hold_now(struct sim *s, const struct mhold *hold,
                                   const struct reservation *open, size_t count)
{
    struct reservation row = hold->row;
    for (size_t i = 0; i < count; i++)
        if (open[i].id == row.id)
            return open[i];
    row.state = sim_hold_state(s, row.id);
    sim_must(s, row.state != 0, "I6 lost", "reservation %lld is gone", (long long)row.id);
    return row;
}

void explain_holds(struct sim *s, int64_t now)
{
    struct reservation *open = NULL;
    size_t count = 0;
    if (!s->watch.holds)
        return;
    int r = store_reservations(sim_store(s), 0, &s->arena, &open, &count);
    sim_must(s, r == 0, "read", "reservations cannot be read: %d", r);
    for (size_t i = 0; i < count; i++)
        sim_must(s, model_hold(&s->model, open[i].id), "I6 unexplained",
                 "reservation %lld is there, and nobody asked for it",
                 (long long)open[i].id);
    /* What is over makes room for the next, so it comes first. */
    for (size_t i = s->model.hold_count; i > 0; i--) {
        struct mhold *hold = &s->model.holds[i - 1];
        struct reservation row = hold_now(s, hold, open, count);
        if (row.state == RESERVATION_RELEASED || row.state == RESERVATION_EXPIRED) {
            explain_hold_end(s, hold, &row, now);
            hold_remove(&s->model, hold);
        }
    }
    for (size_t i = 0; i < s->model.hold_count; i++) {
        struct reservation row = hold_now(s, &s->model.holds[i], open, count);
        explain_hold_row(s, &s->model.holds[i], &row, now);
    }
}

/* Brings the holds of a queue up to date, as a reserve or a release does it. */
static void advance(struct sim *s, int64_t queue_id, int64_t now)
{
    for (size_t i = 0; i < s->model.hold_count;) {
        struct mhold *hold = &s->model.holds[i];
        struct reservation *v = &hold->row;
        bool first = is_first(&s->model, hold);
        if (v->queue_id != queue_id) {
            i++;
            continue;
        }
        if (v->state == RESERVATION_ACTIVE && v->expires_at <= now) {
            hold_remove(&s->model, hold);
            continue;
        }
        if (v->state == RESERVATION_WAITING && first)
            v->state = RESERVATION_DRAINING;
        if (v->state == RESERVATION_DRAINING && model_busy(&s->model, queue_id) == 0) {
            v->state = RESERVATION_ACTIVE;
            v->granted_at = now;
            v->expires_at = now + v->ttl_us;
        }
        if (v->state != RESERVATION_ACTIVE && v->wait_until <= now) {
            hold_remove(&s->model, hold);
            continue;
        }
        i++;
    }
}

static void explain_reserve(struct sim *s, const struct node *node, struct command *c,
                            int64_t now)
{
    struct mqueue *q = model_queue_named(s, c->reserve.queue);
    struct reservation *rows = NULL, row = c->reserve.out;
    size_t count = 0;
    expect_result(s, c, 0);
    if (s->cut) { /* which one is it? */
        int r = store_reservations(sim_store(s), 0, &s->arena, &rows, &count);
        sim_must(s, r == 0, "read", "reservations cannot be read: %d", r);
        row.id = 0;
        for (size_t i = 0; i < count; i++)
            if (!model_hold(&s->model, rows[i].id))
                row = rows[i];
        if (row.id == 0)
            return; /* it was over at once */
    }
    struct reservation v = { .id = row.id,
                             .queue_id = model_queue_id(s, q),
                             .owner_id = c->reserve.direct ? node->owner_id : 0,
                             .state = RESERVATION_WAITING,
                             .created_at = now,
                             .wait_until = now + c->reserve.wait_us,
                             .ttl_us = c->reserve.ttl_us };
    hold_add(s, &v, c->reserve.direct);
    advance(s, v.queue_id, now);
    const struct mhold *hold = model_hold(&s->model, v.id);
    int want = hold ? hold->row.state : RESERVATION_EXPIRED;
    sim_must(s, s->cut || row.state == want, "reserve",
             "reservation %lld is %d, and the answer says %d", (long long)v.id, want,
             row.state);
}

void explain_hold(struct sim *s, const struct node *node, struct command *c, int64_t now)
{
    if (c->op == OP_RESERVE) {
        explain_reserve(s, node, c, now);
        return;
    }
    bool release = c->op == OP_RELEASE;
    struct mhold *hold = model_hold(&s->model, release ? c->release.reservation_id
                                                       : c->renew.reservation_id);
    bool open =
        hold && !(hold->row.state == RESERVATION_ACTIVE && hold->row.expires_at <= now);
    if (!release && open && hold->row.state != RESERVATION_ACTIVE)
        open = false; /* not granted yet: nothing to renew */
    expect_result(s, c, open ? 0 : -HF_CONFLICT);
    if (!open)
        return;
    if (release) {
        int64_t queue_id = hold->row.queue_id;
        hold_remove(&s->model, hold);
        advance(s, queue_id, now);
    } else {
        hold->row.expires_at =
            now + (c->renew.ttl_us ? c->renew.ttl_us : hold->row.ttl_us);
    }
}
