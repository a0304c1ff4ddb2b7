/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_beat.c -- remote workers: who they are, that they live, what they work on.
 *
 * A session is one process of a worker.  Its beat renews one lease, for all its
 * runs.  It also says what it works on: a run it has not named twice in a row
 * was lost by it (its thread died, its answer never came), and fails as a
 * crash long before its deadline. */
#include "base/limits.h"
#include "engine/engine.h"

enum { MISSED_BEATS_MAX = 2 };

/* ---- who a session is ---- */

static struct slice session_of(const struct command *c)
{
    switch (c->op) {
    case OP_COMPLETE:
        return c->complete.owner_id ? (struct slice){ 0 } : c->complete.session;
    case OP_FAIL:
        return c->fail.owner_id ? (struct slice){ 0 } : c->fail.session;
    case OP_PROGRESS:
        return c->progress.owner_id ? (struct slice){ 0 } : c->progress.session;
    case OP_CLAIM:
        return c->claim.session;
    case OP_BEAT:
        return c->beat.session;
    case OP_WORKER:
        return c->worker.session;
    default:
        return (struct slice){ 0 };
    }
}

static struct session_owner *find_session(struct tx *tx, struct slice name)
{
    struct session_owner key = { .name = name };
    if (tx->session_count == 0)
        return NULL;
    return bsearch(&key, tx->sessions, tx->session_count, sizeof(key), session_by_name);
}

int load_sessions(struct tx *tx, struct command **commands, size_t count)
{
    struct session_owner *list =
        arena_array(&tx->store->arena, struct session_owner, count + 1);
    size_t n = 0, distinct = 0;
    tx->sessions = list;
    tx->session_count = 0;
    if (!list)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        if (session_of(commands[i]).p)
            list[n++].name = session_of(commands[i]);
    if (n == 0)
        return 0;
    qsort(list, n, sizeof(*list), session_by_name);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || session_by_name(&list[i], &list[distinct - 1]) != 0)
            list[distinct++] = list[i];
    int r = store_sessions(tx->store, list, distinct);
    tx->session_count = r < 0 ? 0 : distinct;
    return r;
}

int owner_of_session(struct tx *tx, struct slice session, int64_t *ret)
{
    const struct session_owner *known = session.p ? find_session(tx, session) : NULL;
    if (!known || known->owner_id == 0)
        return -HF_NOT_FOUND;
    *ret = known->owner_id;
    return 0;
}

static int register_session(struct tx *tx, const struct owner *who, int64_t *ret)
{
    struct owner owner = { .id = store_id(tx->store),
                           .type = OWNER_REMOTE,
                           .name = who->name.p ? who->name : who->session,
                           .session = who->session,
                           .host = who->host,
                           .pid = who->pid,
                           .lease_until = tx->now + tx->engine->settings.lease_us };
    bool inserted = false;
    if (owner.id == 0)
        return tx->store->failed;
    int r = store_owner_insert(tx->store, &owner, &inserted);
    if (r < 0)
        return r;
    if (!inserted) /* another node was quicker: its row counts, in the second pass */
        return store_fail(tx->store, -HF_CONFLICT);
    *ret = owner.id;
    return 0;
}

int ensure_session(struct tx *tx, const struct owner *who, int64_t *ret)
{
    struct owner owner;
    struct session_owner *known = find_session(tx, who->session);
    assert(known);
    if (known->owner_id != 0) {
        *ret = known->owner_id;
        return 0;
    }
    int r = store_owner_by_session(tx->store, who->session, &tx->store->arena, &owner);
    if (r == 0 && owner.state == OWNER_ALIVE) {
        known->owner_id = owner.id; /* made by another node a moment ago */
    } else if (r == 0) {
        /* Judged dead, and here again: its old runs stay resolved. */
        int64_t n = db_run(tx->store->db, SQL_OWNER_FREE_SESSION,
                           (struct db_value[]){ db_int(owner.id) }, 1);
        r = n < 0 ? store_fail(tx->store, (int)n) : -HF_NOT_FOUND;
    }
    if (r == -HF_NOT_FOUND)
        r = register_session(tx, who, &known->owner_id);
    if (r == 0)
        *ret = known->owner_id;
    return r;
}

static bool is_named(const struct command *c, int64_t job_id)
{
    for (size_t i = 0; i < c->beat.run_count; i++)
        if (c->beat.runs[i] == job_id)
            return true;
    return false;
}

static void lose_run(struct tx *tx, struct job_row *row)
{
    struct ending ending = {
        .event = ON_CRASH,
        .crash_counts = true,
        .error = { .type = ERROR_CRASH,
                   .message =
                       SLICE("The worker no longer knows of this run: it was missing "
                             "from two beats in a row.") }
    };
    finish_job(tx, row, &ending);
}

static void count_beat(struct tx *tx, struct command *c, struct job_row *row)
{
    int missed = is_named(c, row->job.id) ? 0 : row->run.missed_beats + 1;
    if (missed >= MISSED_BEATS_MAX)
        lose_run(tx, row);
    else if (missed != row->run.missed_beats)
        store_post(tx->store, SQL_RUN_MISSED,
                   (struct db_value[]){ db_int(row->job.id), db_int(missed) });
    row->run.missed_beats = missed; /* for a second beat in the same pile */
}

/* Goes through the session's open runs: those it lost, those it should stop. */
static int review_runs(struct tx *tx, struct command *c, int64_t owner_id)
{
    struct id_list open;
    struct job_row *rows = NULL;
    size_t count = 0;
    int r = store_open_runs(tx->store, owner_id, 0, LIMIT_BEAT_RUNS, &tx->store->arena,
                            &open);
    if (r == 0)
        r = store_jobs_load(tx->store, open.ids, open.count, &rows, &count);
    if (r < 0)
        return r;
    int64_t *cancel = arena_array(&c->arena, int64_t, count + 1);
    if (!cancel)
        return store_fail(tx->store, -HF_NOMEM);
    c->beat.out_cancel = cancel;
    for (size_t i = 0; i < count; i++) {
        struct job_row *row = tx_loaded(tx, rows[i].job.id);
        if (!row)
            row = &rows[i];
        if (row->run.finished_at != 0 || !job_state_busy(row->job.state))
            continue;
        if (row->job.state == JOB_CANCELLING)
            cancel[c->beat.out_cancel_count++] = row->job.id;
        if (c->beat.runs)
            count_beat(tx, c, row);
    }
    return tx->store->failed;
}

int apply_beat(struct tx *tx, struct command *c)
{
    int64_t owner_id = 0;
    c->beat.out_cancel = NULL;
    c->beat.out_cancel_count = 0;
    if (tx->engine->producer)
        return error_set(&c->error, -HF_INVALID, NULL,
                         "This handle is a producer; only a scheduler hears beats.");
    struct owner who = { .session = c->beat.session,
                         .name = c->beat.worker,
                         .host = c->beat.host,
                         .pid = c->beat.pid };
    int r = ensure_session(tx, &who, &owner_id);
    if (r == 0)
        r = store_owner_beat(tx->store, owner_id, tx->now + tx->engine->settings.lease_us,
                             &c->beat.out_command);
    if (r < 0)
        return r;
    tx->engine->totals.work.locks_extended += c->beat.run_count;
    return review_runs(tx, c, owner_id);
}

/* ---- what an operator asks of it ---- */

int apply_worker(struct tx *tx, struct command *c)
{
    static const char *const events[] = { "worker.run", "worker.quiet", "worker.stop" };
    int64_t owner_id = 0;
    bool told = false;
    assert(c->worker.command >= 0 && c->worker.command < (int)array_len(events));
    int r = owner_of_session(tx, c->worker.session, &owner_id);
    if (r == 0)
        r = store_owner_command(tx->store, owner_id, c->worker.command, &told);
    if (r == -HF_NOT_FOUND || (r == 0 && !told))
        return error_set(&c->error, -HF_NOT_FOUND, NULL,
                         "There is no live worker with the session %.*s.",
                         (int)c->worker.session.n, c->worker.session.p);
    if (r == 0)
        tell_event(tx, &(struct event){ .type = slice_of(events[c->worker.command]),
                                        .owner_id = owner_id });
    return r;
}
