/* SPDX-License-Identifier: Apache-2.0
 *
 * pile.c -- applies a pile of commands in one transaction, and answers them.
 *
 * Take the whole pile, commit once, then answer all: a thousand clients share
 * one flush, one client pays one, and nobody hears of a success that is not on
 * disk (I1).  Before anything is claimed, the completions that have arrived meanwhile
 * join the pile: the slots that they free are there for the jobs that it makes, which
 * are then begun before they are written, and written once.  (If all that has arrived
 * did so, piles would grow, and everybody wait for more.)
 *
 * What can go wrong, and what is done:
 *
 *   a command is refused          it has changed nothing; its neighbours go on
 *   a statement fails             the pile is applied again with a savepoint per
 *                                 command, so that the bad one fails alone
 *   the connection is lost        nothing was committed: reconnect, apply again
 *   the answer to COMMIT is lost  reconnect, look for the pile's number in our
 *                                 owner's row: in, or not in and applied again;
 *                                 still out of reach: answered as unknown, and
 *                                 found out before anything else is begun
 *   the disk fails in COMMIT      unknown, and the store is not trusted any more */
#include <stdio.h>
#include <time.h>

#include "base/limits.h"
#include "engine/schedule/endpoint.h"

struct pile {
    struct command *commands[LIMIT_PILE_COMMANDS];
    size_t count;
};

/* Completions and claims are not here: they are applied by the set. */
static int (*const ops[OPS])(struct tx *tx, struct command *command) = {
    [OP_ENQUEUE] = apply_enqueue,
    [OP_FAIL] = apply_fail,
    [OP_PROGRESS] = apply_progress,
    [OP_CANCEL] = apply_cancel,
    [OP_CHANGE] = apply_change,
    [OP_RETRY] = apply_retry,
    [OP_QUEUE] = apply_queue,
    [OP_PROJECT] = apply_project,
    [OP_BEAT] = apply_beat,
    [OP_RESERVE] = apply_reserve,
    [OP_RELEASE] = apply_release,
    [OP_RENEW] = apply_renew,
    [OP_WORKER] = apply_worker,
    [OP_TOKEN] = apply_token,
    [OP_TOKEN_DROP] = apply_token_drop,
    [OP_SCHEDULE] = apply_schedule,
    [OP_SCHEDULE_DROP] = apply_schedule_drop,
    [OP_TRIGGER] = apply_trigger,
    [OP_WEBHOOK] = apply_webhook,
    [OP_WEBHOOK_DROP] = apply_webhook_drop,
    [OP_WEBHOOK_TEST] = apply_webhook_test,
    [OP_DELIVERIES] = apply_deliveries,
    [OP_DELIVERED] = apply_delivered,
    [OP_RESEND] = apply_resend,
};

/* ---- the rows of a pile ---- */

static int64_t job_of(const struct command *c)
{
    switch (c->op) {
    case OP_FAIL:
        return c->fail.job_id;
    case OP_PROGRESS:
        return c->progress.job_id;
    case OP_CANCEL:
        return c->cancel.job_id;
    case OP_CHANGE:
        return c->change.job_id;
    default:
        return 0;
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Loads all jobs that the pile's commands name, in one go. */
static int load_rows(struct tx *tx, struct command **commands, size_t count)
{
    int64_t *ids = arena_array(&tx->store->arena, int64_t, count + 1);
    size_t n = 0, distinct = 0;
    if (!ids)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        if (job_of(commands[i]) > 0)
            ids[n++] = job_of(commands[i]);
    tx->rows = NULL;
    tx->row_count = 0;
    if (n == 0)
        return 0;
    qsort(ids, n, sizeof(*ids), by_value);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[distinct++] = ids[i];
    return store_jobs_load(tx->store, ids, distinct, &tx->rows, &tx->row_count);
}

static int row_by_id(const void *key, const void *row)
{
    int64_t x = *(const int64_t *)key, y = ((const struct job_row *)row)->job.id;
    return (x > y) - (x < y);
}

struct job_row *tx_loaded(struct tx *tx, int64_t id)
{
    if (tx->row_count == 0)
        return NULL;
    return bsearch(&id, tx->rows, tx->row_count, sizeof(*tx->rows), row_by_id);
}

struct job_row *tx_job(struct tx *tx, int64_t id, int *ret_code)
{
    struct job_row *row = tx_loaded(tx, id);
    if (row)
        return row;
    size_t count = 0;
    *ret_code = store_jobs_load(tx->store, &id, 1, &row, &count);
    if (*ret_code < 0)
        return NULL;
    if (count == 0) {
        *ret_code = -HF_NOT_FOUND;
        return NULL;
    }
    return row;
}

/* ---- one transaction ---- */

static int run_completions(struct tx *tx, struct command **commands, size_t count)
{
    struct command **list = arena_array(&tx->store->arena, struct command *, count + 1);
    size_t n = 0;
    if (!list)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        if (commands[i]->op == OP_COMPLETE)
            list[n++] = commands[i];
    return n ? apply_completions(tx, list, n) : 0;
}

/* The duty that cancels expired jobs may be late; a claim may not start one.  If
 * there are more than a bite, nothing is claimed until it has caught up. */
static int open_gates_in_time(struct tx *tx, struct command **commands, size_t count)
{
    int64_t more = 0;
    tx->gate_count = 0;
    if (!tx->engine->producer && tx->engine->next_expiry <= tx->now)
        more = expire_some(tx);
    if (more != 0)
        return more < 0 ? (int)more : 0;
    return open_gates(tx, commands, count);
}

static int run_claims(struct tx *tx, struct command **commands, size_t count)
{
    int r = open_gates_in_time(tx, commands, count);
    for (size_t i = 0; i < count && r == 0; i++) {
        struct command *c = commands[i];
        if (c->op != OP_CLAIM)
            continue;
        c->error = (struct error){ 0 };
        c->result = apply_claim(tx, c);
        r = tx->store->failed;
    }
    return r;
}

/* New jobs may be begun before they are written, if nobody looks for them until then:
 * what expires and what is held is looked for in the store. */
static bool leaves_fresh(const struct tx *tx)
{
    const struct engine *engine = tx->engine;
    return takes_fresh(engine) && !tx->alone && !engine->holds &&
           engine->next_expiry > tx->now;
}

/* All but the claims. */
static int make_changes(struct tx *tx, struct command **commands, size_t count)
{
    int r = load_sessions(tx, commands, count);
    if (r == 0)
        r = run_completions(tx, commands, count);
    if (r == 0)
        r = load_rows(tx, commands, count);
    for (size_t i = 0; i < count && r == 0; i++) {
        struct command *c = commands[i];
        if (!ops[c->op])
            continue;
        c->error = (struct error){ 0 };
        c->result = ops[c->op](tx, c);
        r = tx->store->failed;
    }
    if (r == 0)
        r = leaves_fresh(tx) ? store_flush_but_fresh(tx->store) : store_flush(tx->store);
    return r;
}

int pile_run(struct tx *tx, struct command **commands, size_t count)
{
    int r = make_changes(tx, commands, count);
    return r < 0 ? r : run_claims(tx, commands, count);
}

/* Claims for this node and holds that may be granted now: they belong to no
 * command, and come last, when all that the pile freed or made is there. */
static int run_afterwards(struct tx *tx)
{
    int r = 0;
    if (tx->engine->holds) {
        r = reservation_tick(tx) < 0 ? tx->store->failed : 0;
        if (r == 0) /* a queue may be held now that was not when its gate was passed */
            r = open_gates_in_time(tx, NULL, 0);
    }
    if (r == 0)
        r = claim_for_node(tx);
    return r < 0 ? r : store_flush(tx->store);
}

/* Our number in our own row: proof of the commit, and of our being alive. */
static int sign(struct engine *engine)
{
    if (engine->owner_id == 0 || db_engine(engine->store->db) == DB_SQLITE)
        return 0;
    int64_t id = 0;
    int r = store_int(
        engine->store, SQL_OWNER_PILE,
        (struct db_value[]){ db_int(engine->owner_id), db_int(engine->pile) }, 0, &id);
    if (r < 0)
        return r;
    return id ? 0 : store_fail(engine->store, -HF_LATE);
}

static struct tx tx_of(struct engine *engine, int64_t now)
{
    return (struct tx){ .engine = engine, .store = engine->store, .now = now };
}

/* Is our last pile in?  1, 0 or negative.  FOR UPDATE waits until the backend of the
 * connection that was lost is done with the row. */
static int ask_for_pile(struct engine *engine, bool *ret_alive)
{
    struct db_value id = db_int(engine->owner_id);
    struct db_rows rows;
    int64_t pile = -1, state = 0;
    int r = store_begin(engine->store, engine_now(engine));
    if (r < 0)
        return r;
    r = db_query(engine->store->db, SQL_OWNER_PILE_GET, &id, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        pile = db_get_int(&rows, 0);
        state = db_get_int(&rows, 1);
    }
    db_done(&rows);
    store_rollback(engine->store);
    if (r <= 0)
        return r < 0 ? r : -HF_UNKNOWN;
    *ret_alive = state == OWNER_ALIVE;
    return pile == engine->pile;
}

/* Settles what a lost answer has left open: else a run that was claimed would be
 * begun by nobody, and a slot that was freed be taken for ever.  If we were judged
 * dead meanwhile, what we claimed is others' to resolve. */
static int settle(struct engine *engine)
{
    bool alive = false;
    int in = engine->owner_id != 0 ? ask_for_pile(engine, &alive) : 0;
    if (in < 0)
        return in == -HF_UNKNOWN ? -HF_UNAVAILABLE : in;
    engine->unsure = false;
    if (in == 1 && alive)
        notes_publish(engine);
    else
        notes_drop(engine);
    return 0;
}

static int begin_looking(struct engine *engine, struct tx *tx)
{
    engine_step(engine);
    int r = engine->unsure ? settle(engine) : 0;
    int64_t now = engine_now(engine);
    if (r == 0)
        r = store_begin(engine->store, now);
    if (r == 0)
        *tx = tx_of(engine, now);
    return r;
}

static int begin(struct engine *engine, struct tx *tx)
{
    int r = begin_looking(engine, tx);
    if (r < 0)
        return r;
    engine->pile++;
    r = sign(engine);
    return r < 0 ? r : subscriptions_know(tx);
}

static int commit(struct engine *engine, int r)
{
    if (r == 0 && engine->news_count > 0)
        r = endpoints_settle(engine);
    if (r == 0) {
        int64_t start = clock_mono_us(engine->clock);
        r = store_commit(engine->store);
        engine->commit_us = clock_mono_us(engine->clock) - start;
        histogram_add_time(&engine->totals.commit_time, engine->commit_us);
    } else {
        store_rollback(engine->store);
    }
    if (r < 0) {
        engine_missed(engine, r);
        subscriptions_doubt(&engine->subscriptions);
    }
    if (r == 0)
        notes_publish(engine);
    else if (r != -HF_UNKNOWN && !engine->unsure)
        notes_drop(engine); /* after -HF_UNKNOWN it is found out first */
    return r;
}

/* Those who have just completed a run.  What is loaded for them is their own: the pile's
 * claims need its sessions; but the rows that it has loaded may not be true any more. */
static int join(struct tx *tx, struct pile *pile)
{
    const struct latecomers *late = &tx->engine->latecomers;
    struct command **behind = pile->commands + pile->count;
    struct tx theirs = tx_of(tx->engine, tx->now);
    size_t n =
        late->take ? late->take(late->arg, behind, LIMIT_PILE_COMMANDS - pile->count) : 0;
    pile->count += n;
    tx->row_count = 0;
    return n > 0 ? make_changes(&theirs, behind, n) : 0;
}

static int first_pass(struct engine *engine, struct pile *pile)
{
    struct tx tx;
    int r = begin(engine, &tx);
    if (r == 0)
        r = make_changes(&tx, pile->commands, pile->count);
    if (r == 0)
        r = join(&tx, pile);
    if (r == 0)
        r = run_claims(&tx, pile->commands, pile->count);
    if (r == 0)
        r = run_afterwards(&tx);
    return commit(engine, r);
}

static int undo(struct tx *tx, struct notes_mark mark)
{
    notes_undo(tx->engine, mark);
    subscriptions_doubt(&tx->engine->subscriptions);
    int r = store_savepoint_undo(tx->store);
    return r < 0 ? r : subscriptions_know(tx);
}

/* One command behind a savepoint.  0 if the transaction can go on. */
static int run_alone(struct tx *tx, struct command **command)
{
    struct notes_mark mark = notes_mark(tx->engine);
    engine_step(tx->engine);
    int r = store_savepoint(tx->store);
    if (r < 0)
        return r;
    tx->alone = true;
    tx->undo = false;
    r = pile_run(tx, command, 1);
    if (r == 0 && tx->undo)
        return undo(tx, mark);
    if (r == 0)
        r = store_savepoint_keep(tx->store);
    if (r == 0)
        return 0;
    if (r == -HF_UNAVAILABLE || r == -HF_IO || r == -HF_LATE)
        return r;
    (*command)->result =
        error_set(&(*command)->error, r, NULL, "The store refused this command: %s.",
                  db_error(tx->store->db));
    return undo(tx, mark);
}

static int second_pass(struct engine *engine, struct pile *pile)
{
    struct tx tx;
    int r = begin(engine, &tx);
    engine->totals.second_passes++;
    for (size_t i = 0; i < pile->count && r == 0; i++)
        r = run_alone(&tx, &pile->commands[i]);
    return commit(engine, r);
}

/* ---- when the database goes away ---- */

/* How long a pile waits for the database to come back.  Well below a lease: a node
 * that cannot renew must get to know it in time. */
#define PATIENCE_US (5 * US_PER_S)

int engine_reconnect(struct engine *engine, int64_t patience_us)
{
    bool real = engine->clock->real;
    int64_t until = clock_mono_us(engine->clock) + patience_us;
    int r = db_reconnect(engine->store->db);
    while (r < 0 && real && clock_mono_us(engine->clock) < until) {
        nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
        engine_step(engine);
        r = db_reconnect(engine->store->db);
    }
    if (r < 0)
        return r;
    engine->judge_from = engine_now(engine) + engine->settings.lease_us;
    if (engine->away == -HF_UNAVAILABLE)
        engine_set_away(engine, 0);
    return 0;
}

/* After a lost answer: 1 the pile is in, 0 it is not, negative: unknown. */
static int look_up_pile(struct engine *engine)
{
    bool alive = false;
    if (engine->owner_id == 0 || engine_reconnect(engine, PATIENCE_US) < 0)
        return -HF_UNKNOWN;
    int in = ask_for_pile(engine, &alive);
    return in < 0 ? -HF_UNKNOWN : in;
}

static int apply_once(struct engine *engine, struct pile *pile)
{
    int r = first_pass(engine, pile);
    /* What is too much for one statement, or for memory, may fit one by one. */
    if (r == -HF_CONFLICT || r == -HF_BUSY || r == -HF_INTERNAL || r == -HF_NOMEM ||
        r == -HF_TOO_LARGE || r == -HF_CORRUPT)
        r = second_pass(engine, pile);
    return r;
}

static int resolve_unknown(struct engine *engine)
{
    if (db_engine(engine->store->db) == DB_SQLITE) {
        engine->broken = -HF_IO; /* the disk lied or failed: reopen, then recover */
        notes_drop(engine);
        return -HF_UNKNOWN;
    }
    int in = look_up_pile(engine);
    if (in < 0)
        engine->unsure = true;
    else if (in == 1)
        notes_publish(engine);
    else
        notes_drop(engine);
    return in < 0 ? -HF_UNKNOWN : in == 1 ? 0 : -HF_UNAVAILABLE;
}

static int apply_with_patience(struct engine *engine, struct pile *pile)
{
    int r = -HF_UNAVAILABLE;
    for (int round = 0; round < 3; round++) {
        r = apply_once(engine, pile);
        if (r == -HF_UNKNOWN)
            r = resolve_unknown(engine);
        if (r == -HF_LATE)
            r = engine_reborn(engine) < 0 ? -HF_UNAVAILABLE : -HF_BUSY;
        else if (r != -HF_UNAVAILABLE || engine_reconnect(engine, PATIENCE_US) < 0)
            break;
    }
    return r;
}

/* ---- answers ---- */

static void fail_all(struct engine *engine, const struct pile *pile, int r)
{
    for (size_t i = 0; i < pile->count; i++) {
        struct command *c = pile->commands[i];
        c->error = (struct error){ 0 };
        c->result =
            r == -HF_UNKNOWN
                ? error_set(
                      &c->error, r, NULL,
                      "The connection was lost during COMMIT: it is not known whether "
                      "this %s was done. Look before you repeat it.",
                      op_name(c->op))
                : error_set(&c->error, r, NULL,
                            "The store cannot take this %s now: %s. Nothing was changed.",
                            op_name(c->op),
                            engine->broken
                                ? "its disk failed, and it must be opened again"
                                : db_error(engine->store->db));
    }
}

static void answer(const struct pile *pile)
{
    for (size_t i = 0; i < pile->count; i++)
        if (pile->commands[i]->done)
            pile->commands[i]->done(pile->commands[i], pile->commands[i]->done_arg);
}

void engine_apply(struct engine *engine, struct command *list)
{
    struct pile pile;
    while (list) {
        pile.count = 0;
        for (; list && pile.count < LIMIT_PILE_COMMANDS; pile.count++) {
            pile.commands[pile.count] = list;
            list = (struct command *)list->mail.next;
        }
        int r = engine->broken ? engine->broken : apply_with_patience(engine, &pile);
        if (r < 0)
            fail_all(engine, &pile, r);
        engine->totals.piles++;
        engine->totals.commands += pile.count;
        histogram_add(&engine->totals.pile_size, histogram_sizes, (int64_t)pile.count);
        if (pile.count > engine->totals.largest_pile)
            engine->totals.largest_pile = pile.count;
        answer(&pile);
    }
}

int64_t engine_duty(struct engine *engine, int64_t (*work)(struct tx *tx, void *arg),
                    void *arg)
{
    struct tx tx;
    int64_t done = 0;
    if (engine->broken)
        return engine->broken;
    int r = begin(engine, &tx);
    if (r == 0) {
        done = work(&tx, arg);
        r = done < 0 ? (int)done : engine->store->failed;
    }
    r = commit(engine, r);
    if (r == -HF_UNKNOWN)
        r = resolve_unknown(engine);
    return r < 0 ? r : done;
}

int64_t engine_look(struct engine *engine, int64_t (*work)(struct tx *tx, void *arg),
                    void *arg)
{
    struct tx tx;
    int64_t done = 0;
    if (engine->broken)
        return engine->broken;
    int r = begin_looking(engine, &tx);
    if (r == 0) {
        done = work(&tx, arg);
        r = done < 0 ? (int)done : engine->store->failed;
    }
    store_end_looking(engine->store);
    engine_missed(engine, r);
    return r < 0 ? r : done;
}
