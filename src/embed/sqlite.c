/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite.c -- a job inside the application's own transaction.
 *
 * There is no handle and no thread here: the rules of enqueueing are applied
 * to the application's connection, between a savepoint and its release, so that
 * a refusal leaves its transaction as it was.  The engine they are given is only
 * a place for the settings: it has no owner and claims nothing. */
#include "base/limits.h"
#include "embed/handle.h"
#include "embed/job.h"

static int enqueue_here(struct engine *engine, struct command *command, struct error *why)
{
    struct store *store = engine->store;
    struct tx tx = { .engine = engine, .store = store, .now = store->now };

    int r = subscriptions_know(&tx);
    if (r == 0)
        r = store_savepoint(store);
    if (r < 0)
        return error_set(why, r, NULL, "The store cannot be written: %s.",
                         db_error(store->db));
    r = apply_enqueue(&tx, command);
    if (r == 0)
        r = store_savepoint_keep(store);
    if (r == 0)
        return 0;
    if (command->error.code)
        *why = command->error;
    else
        error_set(why, r, NULL, "The store refused this job: %s.", db_error(store->db));
    return store_savepoint_undo(store) < 0 ? -HF_INTERNAL : r;
}

int hf_enqueue_sqlite(struct sqlite3 *db, const struct hf_new_job *job,
                      struct hf_error *error, struct hf_enqueued *ret)
{
    struct error why = { 0 };
    struct engine engine = { .producer = true,
                             .clock = &clock_system,
                             .next_due = INT64_MAX,
                             .next_expiry = INT64_MAX };
    struct new_job asked;
    struct enqueued made = { 0 };

    settings_default(&engine.settings);
    int r = db ? job_request_check(job, LIMIT_PAYLOAD_BYTES, &why)
               : error_set(&why, -HF_INVALID, "db", "There is no SQLite connection.");
    if (r == 0)
        r = store_borrow_sqlite(db, clock_wall_us(&clock_system), &why, &engine.store);
    if (r < 0)
        return give(error, &why, r);
    job_of_request(job, &asked);
    struct command *command = command_new(OP_ENQUEUE);
    if (command) {
        command->enqueue.jobs = &asked;
        command->enqueue.count = 1;
        command->enqueue.out = &made;
        r = enqueue_here(&engine, command, &why);
    } else {
        r = -HF_NOMEM;
    }
    command_free(command);
    store_close(engine.store);
    dispatch_release(&engine.dispatch);
    subscriptions_release(&engine.subscriptions);
    if (r < 0)
        return give(error, &why, r);
    if (ret)
        *ret = (struct hf_enqueued){ .id = made.id,
                                     .deduplicated = made.deduplicated,
                                     .state = made.state };
    return 0;
}
