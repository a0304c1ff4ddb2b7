/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_steps.c -- what may happen, and how often; accidents. */
#include "sim.h"

/* ---- time ---- */

static void time_passes(struct sim *s)
{
    sim_pass(s, rng_between(&s->rng, 1, once_in(s, 8) ? 4000 : 900) * US_PER_MS);
}

static void time_ticks(struct sim *s)
{
    sim_tick(s, sim_some_node(s));
}

static void clock_forward(struct sim *s)
{
    s->wall += rng_between(&s->rng, 1, once_in(s, 4) ? 200000 : 5000) * US_PER_MS;
    sim_settle(s, sim_some_node(s));
}

static void clock_backward(struct sim *s)
{
    if (s->postgres)
        return; /* there the database's clock counts, for all nodes the same */
    s->wall -= rng_between(&s->rng, 1, once_in(s, 4) ? 200000 : 5000) * US_PER_MS;
    sim_settle(s, sim_some_node(s));
}

/* The machine sleeps: the wall clock goes on, the monotonic one does not. */
static void suspend(struct sim *s)
{
    s->wall += rng_between(&s->rng, 1, once_in(s, 10) ? 3 * 86400 : 120) * US_PER_S;
    sim_settle(s, sim_some_node(s));
}

/* The process is not scheduled for a while; the world goes on. */
static void long_pause(struct sim *s)
{
    int64_t us = rng_between(&s->rng, 1, 40) * US_PER_S;
    s->wall += us;
    s->mono += us;
    sim_settle(s, sim_some_node(s));
}

/* ---- accidents ---- */

static void go_down_for_a_while(struct sim *s)
{
    int64_t us = once_in(s, 3)   ? 0
                 : once_in(s, 2) ? rng_between(&s->rng, 1, 3000) * US_PER_MS
                                 : rng_between(&s->rng, 1, 60) * US_PER_S;
    s->wall += us;
    s->mono += us;
    if (once_in(s, 10) && !s->postgres)
        s->wall += rng_between(&s->rng, -30, 30) * US_PER_S;
}

static void maybe_reconfigure(struct sim *s, struct node *node)
{
    if (!s->postgres && once_in(s, 6))
        node->settings.recovery_on_startup = !node->settings.recovery_on_startup;
    if (once_in(s, 8))
        node->settings.startup_throttle = (enum throttle_mode)pick(s, 3);
    if (once_in(s, 12))
        node->settings.recovery_action = once_in(s, 3) ? RECOVERY_FAIL : RECOVERY_RETRY;
    if (once_in(s, 12))
        node->settings.crash_limit = (int)rng_between(&s->rng, 1, 3);
    if (once_in(s, 6))
        node->kinds = 1 | (unsigned)pick(s, 1 << KINDS);
    if (once_in(s, 6))
        node->capacity = (size_t)rng_between(&s->rng, 1, 12);
}

static void maybe_reboot(struct sim *s, struct node *node)
{
    if (once_in(s, 6))
        sim_reboot(node);
}

/* A few ticks: the recovery begins, and may be interrupted again. */
static void recover_a_little(struct sim *s, struct node *node)
{
    for (int64_t n = pick(s, 9); n > 0; n--)
        sim_tick(s, node);
}

/* Another node that works, on PostgreSQL. */
static bool has_company(struct sim *s, const struct node *node)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (&s->nodes[i] != node && sim_is_up(s, &s->nodes[i]))
            return true;
    return false;
}

/* Not scheduled by its machine, or cut off; it does not know. */
static void freeze(struct sim *s)
{
    struct node *node = sim_some_node(s);
    if (!has_company(s, node))
        return;
    node->frozen_until = s->mono + rng_between(&s->rng, 1, 30) * US_PER_S;
    sim_say(s, "node %d is frozen", node->index);
}

static void come_up(struct sim *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        if (!s->nodes[i].engine)
            sim_open(s, &s->nodes[i]);
}

static void crash(struct sim *s)
{
    struct node *node = sim_some_node(s);
    if (has_company(s, node) && once_in(s, 2)) {
        sim_crash(s, node, CRASH_KEEP);
        sim_say(s, "node %d is down", node->index);
        return;
    }
    do {
        sim_crash(s, node, CRASH_KEEP);
        go_down_for_a_while(s);
        maybe_reboot(s, node);
        maybe_reconfigure(s, node);
        sim_open(s, node);
        recover_a_little(s, node);
    } while (once_in(s, 3));
}

static void restart(struct sim *s)
{
    struct node *node = sim_some_node(s);
    sim_close(s, node);
    go_down_for_a_while(s);
    maybe_reconfigure(s, node);
    sim_open(s, node);
    recover_a_little(s, node);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*run)(struct sim *s);
    int weight;
    bool always; /* a world without it stands still */
} ops[] = {
    { "enqueue", act_enqueue, 150, true },
    { "batch", act_batch, 20, false },
    { "request", act_request, 20, false },
    { "flood", act_flood, 1, false },
    { "claim", act_claim, 120, true },
    { "claim again", act_claim_again, 10, false },
    { "beat", act_beat, 25, false },
    { "progress", act_progress, 15, false },
    { "complete", act_complete, 90, true },
    { "fail", act_fail, 60, false },
    { "stray", act_stray, 12, false },
    { "die", act_die, 4, false },
    { "stall", act_stall, 5, false },
    { "handler", act_handler, 120, true },
    { "pile", act_pile, 40, false },
    { "cancel", op_cancel, 25, false },
    { "retry", op_retry, 25, false },
    { "change", op_change, 25, false },
    { "pause", op_pause, 10, false },
    { "limits", op_limits, 8, false },
    { "policy", op_policy, 4, false },
    { "project", op_project, 1, false },
    { "reserve", op_reserve, 8, false },
    { "release", op_release, 8, false },
    { "renew", op_renew, 4, false },
    { "time", time_passes, 120, true },
    { "tick", time_ticks, 40, false },
    { "forward", clock_forward, 2, false },
    { "backward", clock_backward, 2, false },
    { "suspend", suspend, 2, false },
    { "long pause", long_pause, 2, false },
    { "crash", crash, 4, false },
    { "restart", restart, 3, false },
    { "freeze", freeze, 4, false },
    { "come up", come_up, 10, true },
    { "power", disk_cut_pile, 4, false },
    { "power in a tick", disk_cut_tick, 3, false },
    { "disk error", disk_error_pile, 4, false },
    { "disk error in a tick", disk_error_tick, 3, false },
};

/* Each seed has a taste of its own: some things never happen in it, some often.
 * What is rare in a fair mixture is then the rule in some world. */
struct step *steps_make(uint64_t seed, size_t count)
{
    struct rng rng;
    uint64_t weights[array_len(ops)], sum = 0;
    struct step *steps = calloc(count + 1, sizeof(*steps));
    check(steps != NULL);
    rng_seed(&rng, seed * 2 + 1);
    for (size_t i = 0; i < array_len(ops); i++) {
        static const uint64_t tastes[] = { 0, 1, 2, 2, 2, 2, 2, 6 };
        uint64_t taste = ops[i].always ? 2 : tastes[rng_below(&rng, array_len(tastes))];
        weights[i] = (uint64_t)ops[i].weight * taste;
        sum += weights[i];
    }
    for (size_t k = 0; k < count; k++) {
        uint64_t dice = rng_below(&rng, sum);
        size_t i = 0;
        while (dice >= weights[i])
            dice -= weights[i++];
        steps[k] = (struct step){ .op = (int)i, .seed = rng_next(&rng) };
    }
    return steps;
}

void step_run(struct sim *s, const struct step *step)
{
    rng_seed(&s->rng, step->seed);
    sim_say(s, "-- %s", ops[step->op].name);
    ops[step->op].run(s);
}
