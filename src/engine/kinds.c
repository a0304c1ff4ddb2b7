/* SPDX-License-Identifier: Apache-2.0
 *
 * kinds.c -- which kinds nodes execute themselves.
 *
 * The class of a job (for a node, for remote workers) leads the ready index, so
 * that no claim wades through jobs it cannot run.  It follows from the list of
 * kinds that living nodes keep in the store; the insert looks there.  When the
 * list changes, waiting jobs are classed anew in small steps. */
#include "base/buf.h"
#include "base/limits.h"
#include "engine/engine.h"

enum { RECLASS_JOBS = 500 };
static const char RECLASS_NOTE[] = "reclass";

/* The kinds in the store as one text, to see whether they changed. */
static int list_kinds(struct tx *tx, struct slice *ret)
{
    struct db_rows rows;
    struct buf list;
    buf_init(&list, 1 << 20);
    int r = store_flush(tx->store);
    if (r == 0)
        r = db_query(tx->store->db, SQL_KIND_ALL, NULL, 1, &rows);
    if (r < 0)
        return store_fail(tx->store, r);
    while ((r = db_next(&rows)) > 0) {
        buf_add(&list, db_get_text(&rows, 0));
        buf_byte(&list, '\n');
    }
    db_done(&rows);
    struct slice text = { 0 };
    if (r == 0)
        r = buf_end(&list, &text);
    *ret = arena_dup(&tx->store->arena, text);
    buf_release(&list);
    return r < 0 ? store_fail(tx->store, r) : 0;
}

static int64_t write_kinds(struct tx *tx, void *arg)
{
    const struct engine *engine = tx->engine;
    struct db_value owner = db_int(tx->engine->owner_id);
    struct slice before = { 0 }, after = { 0 };
    int r = list_kinds(tx, &before);
    (void)arg;
    int64_t n = r == 0 ? db_run(tx->store->db, SQL_KIND_DELETE_OWN, &owner, 1) : 0;
    if (n < 0)
        return store_fail(tx->store, (int)n);
    for (size_t i = 0; i < engine->kind_count && r == 0; i++)
        store_post(tx->store, SQL_KIND_INSERT,
                   (struct db_value[]){ db_text(slice_of(engine->kinds[i])), owner });
    if (r == 0)
        r = store_flush(tx->store);
    /* Kinds that no living node executes any more belong to remote workers. */
    n = r == 0 ? db_run(tx->store->db, SQL_KIND_DELETE_OTHERS, &owner, 1) : 0;
    if (r == 0)
        r = n < 0 ? store_fail(tx->store, (int)n) : list_kinds(tx, &after);
    if (r == 0 && !slice_equal(before, after)) /* noted, so that a crash cannot lose it */
        r = store_meta_set(tx->store, RECLASS_NOTE, SLICE("pending"));
    struct slice note = { 0 };
    if (r == 0) {
        int found = store_meta_get(tx->store, RECLASS_NOTE, &note);
        tx->engine->reclass = (struct reclass){
            .under_way = found == 0 && slice_equal(note, SLICE("pending")),
            .priority = LIMIT_PRIORITY,
        };
    }
    return r < 0 ? store_fail(tx->store, r) : 0;
}

int kinds_register(struct engine *engine)
{
    int64_t r = engine_duty(engine, write_kinds, NULL);
    engine->kinds_changed = r < 0;
    return r < 0 ? (int)r : 0;
}

void kinds_free(struct engine *engine)
{
    for (size_t i = 0; i < engine->kind_count; i++)
        free(engine->kinds[i]);
    free(engine->kinds);
    engine->kinds = NULL;
    engine->kind_count = 0;
}

int kinds_set(struct engine *engine, const char *const *kinds, size_t count)
{
    char **copy = calloc(count + 1, sizeof(*copy));
    if (!copy)
        return -HF_NOMEM;
    for (size_t i = 0; i < count; i++)
        if (!(copy[i] = strdup(kinds[i]))) {
            while (i > 0)
                free(copy[--i]);
            free(copy);
            return -HF_NOMEM;
        }
    kinds_free(engine);
    engine->kinds = copy;
    engine->kind_count = count;
    return 0;
}

int engine_set_kinds(struct engine *engine, const char *const *kinds, size_t count,
                     const struct kind_policy *policies, size_t policy_count)
{
    int r = kinds_set(engine, kinds, count);
    if (r < 0)
        return r;
    engine->policies = policies;
    engine->policy_count = policy_count;
    engine->kinds_changed = true; /* written by the next tick, or the one after */
    engine->next_poll = 0;
    return 0;
}

/* Looks at up to `limit` jobs behind the cursor; both statements give id,
 * position, class, and the class it should be.  Returns how many. */
static int64_t look(struct tx *tx, struct reclass *at, enum sql sql,
                    const struct db_value *values, size_t limit)
{
    struct db_rows rows;
    int64_t n = 0;
    struct {
        int64_t id, class;
    } *wrong = arena_alloc(&tx->store->arena, limit * sizeof(*wrong));
    size_t wrongs = 0;
    if (!wrong)
        return store_fail(tx->store, -HF_NOMEM);
    int r = db_query(tx->store->db, (int)sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        at->id = db_get_int(&rows, 0);
        at->position = db_get_int(&rows, 1);
        int64_t should = db_get_int(&rows, 3);
        if (db_get_int(&rows, 2) != should) {
            wrong[wrongs].id = at->id;
            wrong[wrongs++].class = should;
        }
        n++;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(tx->store, r);
    for (size_t i = 0; i < wrongs; i++)
        store_post(tx->store, SQL_RECLASS_SET,
                   (struct db_value[]){ db_int(wrong[i].id), db_int(wrong[i].class) });
    return n;
}

/* To the next slice of the ready index: priority, lane, class, queue. */
static void next_slice(struct reclass *at)
{
    at->position = at->id = 0;
    if (--at->priority >= LEAST_PRIORITY)
        return;
    at->priority = LIMIT_PRIORITY;
    if (++at->lane <= LANE_RECOVERED)
        return;
    at->lane = LANE_NORMAL;
    if (++at->class <= CLASS_NODE)
        return;
    at->class = CLASS_REMOTE;
    at->queue++;
}

static int64_t chunk(struct tx *tx, void *arg)
{
    struct reclass *at = arg;
    int64_t left = RECLASS_JOBS, n = 0;
    while (left > 0 && at->queue < tx->store->queue_count) {
        n = look(tx, at, SQL_RECLASS_READY,
                 (struct db_value[]){ db_int(tx->store->queues[at->queue]->queue.id),
                                      db_int(at->class), db_int(at->lane),
                                      db_int(at->priority), db_int(at->position),
                                      db_int(at->id), db_int(left) },
                 (size_t)left);
        if (n < 0)
            return n;
        if (n < left)
            next_slice(at);
        left -= n;
    }
    if (left > 0) {
        n = look(
            tx, at, SQL_RECLASS_SCHEDULED,
            (struct db_value[]){ db_int(at->position), db_int(at->id), db_int(left) },
            (size_t)left);
        if (n >= 0 && n < left) {
            at->under_way = false;
            n = store_meta_set(tx->store, RECLASS_NOTE, SLICE("done"));
        }
    }
    return n < 0 ? n : 0;
}

int kinds_step(struct engine *engine)
{
    struct reclass before = engine->reclass;
    assert(before.under_way);
    int64_t r = engine_duty(engine, chunk, &engine->reclass);
    if (r < 0)
        engine->reclass = before;
    return r < 0 ? (int)r : engine->reclass.under_way;
}
