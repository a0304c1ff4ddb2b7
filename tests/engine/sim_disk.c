/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_disk.c -- the power is cut in the middle of something; the disk fails.
 *
 * Who was answered must find it done.  Who was not answered must find it done whole
 * or not at all: the rows tell which, and then it is explained as if it had been
 * answered. */
#include "sim.h"

#include <sqlite3.h>

/* What is going on when it happens. */
static void (*const acts[])(struct sim *) = {
    act_enqueue, act_batch, act_claim, act_complete, act_fail,   act_handler,
    op_cancel,   op_retry,  op_change, op_reserve,   op_release,
};

static bool gather_one(struct sim *s)
{
    s->gathering = true;
    acts[pick(s, (int64_t)array_len(acts))](s);
    s->gathering = false;
    return s->pile_count > 0;
}

static void let_go(struct sim *s)
{
    for (size_t i = 0; i < s->pile_count; i++)
        command_free(s->pile[i]);
    s->pile_count = 0;
}

/* The store could not do it: no word on whether it is done. */
static bool is_trouble(int result)
{
    switch (-result) {
    case HF_IO:
    case HF_UNKNOWN:
    case HF_FULL:
    case HF_BUSY:
    case HF_NOMEM:
    case HF_CORRUPT:
    case HF_INTERNAL:
    case HF_UNAVAILABLE:
    case HF_READONLY:
        return true;
    default:
        return false;
    }
}

static bool holds_changed(struct sim *s)
{
    struct reservation *rows = NULL;
    size_t count = 0;
    int r = store_reservations(sim_store(s), 0, &s->arena, &rows, &count);
    sim_must(s, r == 0, "read", "reservations cannot be read: %d", r);
    if (count != s->model.hold_count)
        return true;
    for (size_t i = 0; i < count; i++) {
        const struct mhold *hold = model_hold(&s->model, rows[i].id);
        if (!hold || hold->row.state != rows[i].state)
            return true;
    }
    return false;
}

static bool something_changed(struct sim *s)
{
    for (size_t i = 0; i < s->watch.row_count; i++)
        if (!model_same(s, &s->watch.rows[i]))
            return true;
    return holds_changed(s);
}

/* ---- the pile ---- */

static void explain_cut_pile(struct sim *s, struct node *node)
{
    /* What was touched and never was there is no loss. */
    compare_gone(s);
    s->watch.holds = true;
    sim_tell(s);
    if (s->cut && !something_changed(s)) {
        sim_say(s, "    it was not done");
        return;
    }
    explain_pile(s, node, s->cut_at, s->cut_second);
    compare_seen(s);
}

/* The engine is gone or not to be trusted: what is left of the disk is opened. */
static void come_up_again(struct sim *s, struct node *node, enum crash_loss loss,
                          void (*explain)(struct sim *s, struct node *node))
{
    bool power = loss != CRASH_KEEP;
    sim_crash(s, node, loss);
    if (power)
        sim_reboot(node);
    sim_open_and(s, node, explain);
    s->cut = false;
}

static enum crash_loss some_loss(struct sim *s)
{
    return (enum crash_loss)pick(s, 3);
}

void disk_cut_pile(struct sim *s)
{
    struct node *node = &s->nodes[0];
    if (!s->disk || !gather_one(s))
        return;
    struct engine *engine = node->engine;
    uint64_t second = engine->totals.second_passes;
    s->shared->saw[SAW_CUTS]++;
    s->cut_at = engine_now(engine);
    watch_begin(s);
    sim_link_pile(s);
    crash_disk_stop_after(s->disk, crash_disk_changes(s->disk) + 1 + (size_t)pick(s, 16));
    engine_apply(engine, s->pile[0]);
    s->cut_second = engine->totals.second_passes > second;
    s->cut = is_trouble(s->pile[0]->result);
    sim_must(s, !s->cut || crash_disk_stopped(s->disk), "trouble",
             "%s was answered with %s, and nothing is wrong with the disk",
             op_name(s->pile[0]->op), status_of(s->pile[0]->result)->name);
    sim_say(s, "the power is cut%s", s->cut ? ", nobody was answered" : "");
    s->asked[0].lost = s->asked[0].lost || s->cut;
    actors_hear(s, node);
    come_up_again(s, node, some_loss(s), explain_cut_pile);
    let_go(s);
}

/* ---- a tick ---- */

static void explain_cut_tick(struct sim *s, struct node *node)
{
    explain_time(s, node, s->cut_at, s->cut_ready);
}

void disk_cut_tick(struct sim *s)
{
    struct node *node = &s->nodes[0];
    if (!s->disk)
        return;
    s->shared->saw[SAW_CUTS]++;
    s->wall += 400 * US_PER_MS;
    s->mono += 400 * US_PER_MS;
    s->cut_at = engine_now(node->engine);
    watch_begin(s);
    sim_note_clock(s, node, s->cut_at);
    crash_disk_stop_after(s->disk, crash_disk_changes(s->disk) + 1 + (size_t)pick(s, 40));
    engine_tick(node->engine);
    s->cut_ready = node->engine->ready;
    s->cut = true;
    sim_say(s, "the power is cut");
    come_up_again(s, node, some_loss(s), explain_cut_tick);
}

/* ---- errors ---- */

static void make_trouble(struct sim *s)
{
    static const int codes[] = { SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR };
    enum crash_call call = (enum crash_call)pick(s, CRASH_CALLS);
    int code = call == CRASH_WRITE  ? codes[pick(s, (int64_t)array_len(codes))]
               : call == CRASH_SYNC ? SQLITE_IOERR_FSYNC
                                    : SQLITE_IOERR_READ;
    s->shared->saw[SAW_DISK_ERRORS]++;
    s->nodes[0].trouble_at = s->cut_at;
    crash_disk_fail(s->disk, call, 1 + (size_t)pick(s, 8), code, once_in(s, 4));
}

void disk_error_pile(struct sim *s)
{
    struct node *node = &s->nodes[0];
    if (!s->disk || !gather_one(s))
        return;
    struct engine *engine = node->engine;
    uint64_t second = engine->totals.second_passes;
    s->cut_at = engine_now(engine);
    watch_begin(s);
    sim_link_pile(s);
    make_trouble(s);
    engine_apply(engine, s->pile[0]);
    size_t failures = crash_disk_failures(s->disk);
    crash_disk_fail(s->disk, CRASH_READ, 0, 0, false);
    s->cut_second = engine->totals.second_passes > second;
    bool trouble = is_trouble(s->pile[0]->result);
    sim_must(s, !trouble || failures > 0, "trouble",
             "%s was answered with %s, and nothing is wrong with the disk",
             op_name(s->pile[0]->op), status_of(s->pile[0]->result)->name);
    s->asked[0].lost = s->asked[0].lost || trouble;
    actors_hear(s, node);
    if (engine->broken) {
        s->cut = trouble;
        come_up_again(s, node, CRASH_KEEP, explain_cut_pile);
    } else {
        watch_collect(s);
        sim_tell(s);
        if (!trouble)
            explain_pile(s, node, s->cut_at, s->cut_second);
        explain_owners(s, node, s->cut_at);
        compare_seen(s); /* refused: nothing was changed */
    }
    let_go(s);
}

void disk_error_tick(struct sim *s)
{
    struct node *node = &s->nodes[0];
    if (!s->disk)
        return;
    s->wall += 400 * US_PER_MS;
    s->mono += 400 * US_PER_MS;
    s->cut_at = engine_now(node->engine);
    watch_begin(s);
    sim_note_clock(s, node, s->cut_at);
    make_trouble(s);
    engine_tick(node->engine);
    crash_disk_fail(s->disk, CRASH_READ, 0, 0, false);
    s->cut_ready = node->engine->ready;
    if (node->engine->broken) {
        s->cut = true;
        come_up_again(s, node, CRASH_KEEP, explain_cut_tick);
    } else {
        watch_collect(s);
        explain_time(s, node, s->cut_at, s->cut_ready);
    }
}
