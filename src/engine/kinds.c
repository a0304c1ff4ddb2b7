/* SPDX-License-Identifier: Apache-2.0
 *
 * kinds.c -- which kinds nodes execute themselves.
 *
 * The class of a job (for a node, for remote workers) leads the ready index, so
 * that no claim wades through jobs it cannot run.  It follows from the list of
 * kinds that living nodes keep in the store; the insert looks there.  When the
 * list changes, waiting jobs are classed anew in small steps. */
#include "base/limits.h"
#include "engine/engine.h"

enum { RECLASS_JOBS = 500 };

struct registration {
    const char *const *kinds;
    size_t count;
};

static int64_t write_kinds(struct tx *tx, void *arg)
{
    struct registration *reg = arg;
    int64_t owner = tx->engine->owner_id;
    for (size_t i = 0; i < reg->count; i++)
        store_post(tx->store, SQL_KIND_INSERT,
                   (struct db_value[]){ db_text(slice_of(reg->kinds[i])), db_int(owner) });
    int r = store_flush(tx->store);
    if (r < 0)
        return r;
    /* Kinds that no living node executes any more belong to remote workers. */
    int64_t n = db_run(tx->store->db, SQL_KIND_DELETE_OTHERS,
                       (struct db_value[]){ db_int(owner) }, 1);
    int64_t foreign = 0;
    if (n >= 0)
        n = store_int(tx->store, SQL_KIND_FOREIGN, (struct db_value[]){ db_int(owner) }, 0,
                      &foreign);
    tx->engine->kinds_differ = foreign > 0;
    return n < 0 ? store_fail(tx->store, (int)n) : 0;
}

int kinds_register(struct engine *engine, const char *const *kinds, size_t count)
{
    struct registration reg = { kinds, count };
    int64_t r = engine_duty(engine, write_kinds, &reg);
    engine->reclass = (struct reclass){ .under_way = true };
    return r < 0 ? (int)r : 0;
}

static void reclass_one(struct tx *tx, int64_t id, int64_t is, int64_t should)
{
    if (is != should)
        store_post(tx->store, SQL_RECLASS_SET,
                   (struct db_value[]){ db_int(id), db_int(should) });
}

/* Returns the rows looked at. */
static int64_t ready_chunk(struct tx *tx, struct reclass *at, int64_t queue_id)
{
    struct db_rows rows;
    int64_t n = 0, *ids = arena_array(&tx->store->arena, int64_t, 2 * RECLASS_JOBS);
    if (!ids)
        return store_fail(tx->store, -HF_NOMEM);
    int r = db_query(tx->store->db, SQL_RECLASS_READY,
                     (struct db_value[]){ db_int(queue_id), db_int(at->class),
                                          db_int(at->priority ? at->priority
                                                              : LIMIT_PRIORITY + 1),
                                          db_int(at->position), db_int(at->id),
                                          db_int(RECLASS_JOBS) },
                     1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        ids[2 * n] = at->id = db_get_int(&rows, 0);
        at->priority = db_get_int(&rows, 1);
        at->position = db_get_int(&rows, 2);
        ids[2 * n + 1] = db_get_int(&rows, 3);
        n++;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(tx->store, r);
    for (int64_t i = 0; i < n; i++)
        reclass_one(tx, ids[2 * i], at->class, ids[2 * i + 1]);
    return n;
}

static int64_t scheduled_chunk(struct tx *tx, struct reclass *at)
{
    struct db_rows rows;
    int64_t n = 0, *ids = arena_array(&tx->store->arena, int64_t, 3 * RECLASS_JOBS);
    if (!ids)
        return store_fail(tx->store, -HF_NOMEM);
    int r = db_query(tx->store->db, SQL_RECLASS_SCHEDULED,
                     (struct db_value[]){ db_int(at->position), db_int(at->id),
                                          db_int(RECLASS_JOBS) },
                     1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        ids[3 * n] = at->id = db_get_int(&rows, 0);
        at->position = db_get_int(&rows, 1);
        ids[3 * n + 1] = db_get_int(&rows, 2);
        ids[3 * n + 2] = db_get_int(&rows, 3);
        n++;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(tx->store, r);
    for (int64_t i = 0; i < n; i++)
        reclass_one(tx, ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]);
    return n;
}

static int64_t chunk(struct tx *tx, void *arg)
{
    struct reclass *at = arg;
    if (at->queue >= tx->store->queue_count)
        return scheduled_chunk(tx, at);
    return ready_chunk(tx, at, tx->store->queues[at->queue]->queue.id);
}

int kinds_step(struct engine *engine)
{
    struct reclass *at = &engine->reclass;
    struct reclass before = *at;
    int64_t n = engine_duty(engine, chunk, at);
    if (n < 0) {
        *at = before;
        return (int)n;
    }
    if (n == RECLASS_JOBS)
        return 1;
    if (at->queue >= engine->store->queue_count) {
        at->under_way = false;
        return 0;
    }
    struct reclass next = { .under_way = true, .queue = before.queue, .class = CLASS_NODE };
    if (before.class == CLASS_NODE) {
        next.queue++;
        next.class = CLASS_REMOTE;
    }
    *at = next;
    return 1;
}
