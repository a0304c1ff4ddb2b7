/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations: a hold pauses dispatch, is granted when the queue has drained,
 * and always ends; the queue itself is never changed by it. */
#include "acts.h"

static int try_reserve(struct world *w, const char *holder, int64_t ttl_us,
                       int64_t wait_us, struct reservation *ret)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("default");
    c->reserve.holder = slice_of(holder);
    c->reserve.ttl_us = ttl_us;
    c->reserve.wait_us = wait_us;
    int r = world_apply(w, c);
    if (r == 0 && ret)
        *ret = c->reserve.out;
    command_free(c);
    return r;
}

static struct reservation reserve(struct world *w, const char *holder)
{
    struct reservation v = { 0 };
    check_ok(try_reserve(w, holder, 60 * US_PER_S, 30 * US_PER_S, &v));
    return v;
}

static int release(struct world *w, int64_t id, const char *holder)
{
    struct command *c = command_new(OP_RELEASE);
    c->release.reservation_id = id;
    c->release.holder = slice_of(holder);
    int r = act(w, c);
    return r;
}

static int renew(struct world *w, int64_t id, const char *holder, int64_t ttl_us)
{
    struct command *c = command_new(OP_RENEW);
    c->renew.reservation_id = id;
    c->renew.holder = slice_of(holder);
    c->renew.ttl_us = ttl_us;
    return act(w, c);
}

static struct reservation hold(struct world *w, int64_t id)
{
    struct reservation v;
    check_ok(store_reservation_get(w->engine->store, id, &w->arena, &v));
    return v;
}

TEST(an_idle_queue_is_granted_at_once_and_gives_out_nothing_meanwhile)
{
    struct world w;
    world_begin(&w);
    int64_t job = enqueue_kind(&w, "k");
    struct reservation v = reserve(&w, "gpu");
    check_int(v.state, RESERVATION_ACTIVE);
    check_int(v.expires_at, w.wall + 60 * US_PER_S);
    check_int(claim_one(&w, "s"), 0);
    struct new_job other = job_of_kind("k");
    other.queue = SLICE("other");
    int64_t free_job = enqueue(&w, other);
    check_int(claim_one(&w, "s"), free_job); /* other queues go on */
    check_ok(release(&w, v.id, "gpu"));
    check_int(hold(&w, v.id).state, RESERVATION_RELEASED);
    check_int(claim_one(&w, "s"), job);
    check(!queue_named(&w, "default")->paused); /* the queue was never changed */
    world_end(&w);
}

TEST(running_jobs_go_on_and_the_grant_follows_the_last_of_them)
{
    struct world w;
    world_begin(&w);
    int64_t a = enqueue_kind(&w, "k"), b = enqueue_kind(&w, "k"),
            c = enqueue_kind(&w, "k");
    check_int(claim_one(&w, "s"), a);
    check_int(claim_one(&w, "s"), b);
    struct reservation v = reserve(&w, "gpu");
    check_int(v.state, RESERVATION_DRAINING);
    check_int(claim_one(&w, "s"), 0);
    check_ok(complete(&w, "s", a));
    check_int(hold(&w, v.id).state, RESERVATION_DRAINING);
    check_ok(fail_run(&w, "s", b, ERROR_PERMANENT, NULL));
    check_int(hold(&w, v.id).state, RESERVATION_ACTIVE);
    check_int(claim_one(&w, "s"), 0);
    check_int(state_of(&w, c), JOB_QUEUED);
    check_ok(release(&w, v.id, NULL)); /* an operator */
    world_end(&w);
}

TEST(further_ones_wait_in_line_and_follow_each_other)
{
    struct world w;
    world_begin(&w);
    struct reservation first = reserve(&w, "a"), second = reserve(&w, "b"),
                       third = reserve(&w, "c");
    check_int(first.state, RESERVATION_ACTIVE);
    check_int(second.state, RESERVATION_WAITING);
    check_int(third.state, RESERVATION_WAITING);
    check_ok(release(&w, second.id, "b")); /* leaves the line */
    check_int(hold(&w, first.id).state, RESERVATION_ACTIVE);
    check_int(hold(&w, third.id).state, RESERVATION_WAITING);
    check_ok(release(&w, first.id, "a"));
    check_int(hold(&w, third.id).state, RESERVATION_ACTIVE);
    check_ok(release(&w, third.id, "c"));
    world_end(&w);
}

TEST(one_that_is_not_granted_in_its_time_expires)
{
    struct world w;
    world_begin(&w);
    int64_t job = enqueue_kind(&w, "k"), next = enqueue_kind(&w, "k");
    check_int(claim_one(&w, "s"), job);
    struct reservation v = reserve(&w, "gpu");
    world_pass(&w, 29 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_DRAINING);
    world_pass(&w, 2 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_EXPIRED);
    check(hold(&w, v.id).reason.n > 0);
    check_int(claim_one(&w, "s"), next);
    world_end(&w);
}

TEST(a_grant_ends_with_its_time_unless_its_holder_renews_it)
{
    struct world w;
    world_begin(&w);
    int64_t job = enqueue_kind(&w, "k");
    struct reservation v = reserve(&w, "gpu");
    world_pass(&w, 50 * US_PER_S);
    check_err(renew(&w, v.id, "somebody", 0), -HF_CONFLICT);
    check_ok(renew(&w, v.id, "gpu", 0));
    check_int(hold(&w, v.id).expires_at, w.wall + 60 * US_PER_S);
    world_pass(&w, 59 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_ACTIVE);
    check_int(claim_one(&w, "s"), 0);
    world_pass(&w, 2 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_EXPIRED);
    check_int(claim_one(&w, "s"), job);
    check_err(renew(&w, v.id, "gpu", 0), -HF_CONFLICT);
    check_err(release(&w, v.id, "gpu"), -HF_CONFLICT);
    world_end(&w);
}

TEST(an_outside_holder_keeps_its_hold_over_a_crash_until_it_expires)
{
    struct world w;
    world_begin(&w);
    enqueue_kind(&w, "k");
    struct reservation v = reserve(&w, "gpu");
    world_crash(&w);
    world_open(&w);
    check_int(hold(&w, v.id).state, RESERVATION_ACTIVE);
    check_int(claim_one(&w, "s"), 0);
    world_pass(&w, 61 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_EXPIRED);
    world_end(&w);
}

TEST(a_hold_that_a_pile_grants_binds_the_claims_of_the_same_pile)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "k";
    w.kind_count = w.capacity = 1;
    world_open(&w);
    struct reservation first = reserve(&w, "gone"), second = reserve(&w, "gpu");
    check_int(second.state, RESERVATION_WAITING);
    enqueue_kind(&w, "k");
    /* The first one's node died, and another node has expired its hold. */
    char script[200];
    snprintf(script, sizeof(script),
             "UPDATE reservations SET state = 5, ended_at = created_at WHERE id = %lld",
             (long long)first.id);
    run_sql(&w, script);
    enqueue_kind(&w, "k"); /* any pile */
    check_int(hold(&w, second.id).state, RESERVATION_ACTIVE);
    check_int(w.started_count, 0);
    check_ok(release(&w, second.id, "gpu"));
    check_int(w.started_count, 1);
    world_end(&w);
}

TEST(what_makes_no_sense_is_refused_by_name)
{
    struct world w;
    world_begin(&w);
    check_err(try_reserve(&w, "a", 601 * US_PER_S, 0, NULL), -HF_INVALID);
    check_str(w.error.field, "ttlMs");
    check_err(try_reserve(&w, "a", US_PER_S, 601 * US_PER_S, NULL), -HF_INVALID);
    check_str(w.error.field, "waitMs");
    check_err(release(&w, 999999, "a"), -HF_NOT_FOUND);
    check_err(renew(&w, 999999, "a", 0), -HF_NOT_FOUND);
    struct reservation v = reserve(&w, "a");
    check_err(release(&w, v.id, "b"), -HF_CONFLICT);
    check_ok(release(&w, v.id, "a"));
    check_err(release(&w, v.id, "a"), -HF_CONFLICT);
    world_end(&w);
}
