/* SPDX-License-Identifier: Apache-2.0
 *
 * store_queue.c -- queues, their counts and their gates.
 *
 * Queues are few and asked for with every job, so the store remembers them.
 * Other processes change them too: the memory is refreshed by
 * store_queues_reload(), and what must be exact (a pause, a limit, a hold) is
 * read through the gate, in the claim's own transaction. */
#include "store/store.h"

#include <stdio.h>

static void copy_text(char *to, size_t size, struct slice from)
{
    size_t n = from.n < size ? from.n : size - 1;
    if (n > 0)
        memcpy(to, from.p, n);
    to[n] = '\0';
}

static int64_t int_or(struct db_rows *rows, int column, int64_t none)
{
    return db_is_null(rows, column) ? none : db_get_int(rows, column);
}

static void read_queue(struct db_rows *rows, struct queue *q)
{
    q->id = db_get_int(rows, 0);
    copy_text(q->name, sizeof(q->name), db_get_text(rows, 1));
    q->created_at = db_get_int(rows, 2);
    q->paused = db_get_int(rows, 3) != 0;
    q->paused_at = db_get_int(rows, 4);
    copy_text(q->paused_reason, sizeof(q->paused_reason), db_get_text(rows, 5));
    q->slots = int_or(rows, 6, -1);
    q->concurrency = db_get_int(rows, 7);
    q->stale_after_us = int_or(rows, 8, -1);
    q->max_retries = int_or(rows, 9, -1);
    copy_text(q->retry_delays, sizeof(q->retry_delays), db_get_text(rows, 10));
    q->on_crash = (int)int_or(rows, 11, -1);
    q->max_execution_us = int_or(rows, 12, -1);
    copy_text(q->fixed, sizeof(q->fixed), db_get_text(rows, 13));
}

static size_t position_of(const struct store *store, int64_t id)
{
    size_t low = 0, high = store->queue_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store->queues[middle]->queue.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct queue_entry *find(const struct store *store, int64_t id)
{
    size_t i = position_of(store, id);
    if (i < store->queue_count && store->queues[i]->queue.id == id)
        return store->queues[i];
    return NULL;
}

/* Puts a queue as read into the memory; entries keep their address. */
static struct queue_entry *remember(struct store *store, const struct queue *queue)
{
    struct queue_entry *entry = find(store, queue->id);
    if (entry) {
        entry->queue = *queue;
        return entry;
    }
    if (store->queue_count == store->queue_capacity) {
        size_t capacity = store->queue_capacity ? 2 * store->queue_capacity : 16;
        void *grown = realloc(store->queues, capacity * sizeof(struct queue_entry *));
        if (!grown)
            return NULL;
        store->queues = grown;
        store->queue_capacity = capacity;
    }
    entry = new(struct queue_entry);
    if (!entry)
        return NULL;
    entry->queue = *queue;
    size_t at = position_of(store, queue->id);
    memmove(store->queues + at + 1, store->queues + at,
            (store->queue_count - at) * sizeof(struct queue_entry *));
    store->queues[at] = entry;
    store->queue_count++;
    return entry;
}

static int read_into_memory(struct store *store, enum sql sql,
                            const struct db_value *values, struct queue_entry **ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct queue queue;
        read_queue(&rows, &queue);
        struct queue_entry *entry = remember(store, &queue);
        if (!entry)
            r = -HF_NOMEM;
        else if (ret)
            *ret = entry;
    }
    db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}

int store_queues_reload(struct store *store)
{
    /* After a rollback a remembered queue may not exist: it is found by its name
     * only if it is still there. */
    for (size_t i = 0; i < store->queue_count; i++)
        store->queues[i]->queue.name[0] = '\0';
    int r = read_into_memory(store, SQL_QUEUE_ALL, NULL, NULL);
    if (r == 0)
        store->queues_stale = false;
    return r;
}

static struct queue_entry *find_by_name(const struct store *store, struct slice name)
{
    for (size_t i = 0; i < store->queue_count; i++) {
        struct queue_entry *entry = store->queues[i];
        if (strlen(entry->queue.name) == name.n &&
            memcmp(entry->queue.name, name.p, name.n) == 0)
            return entry;
    }
    return NULL;
}

static int create_queue(struct store *store, struct slice name)
{
    int64_t id = store_id(store), made = 0;
    if (id == 0)
        return store->failed;
    return store_int(store, SQL_QUEUE_INSERT,
                     (struct db_value[]){ db_int(id), db_text(name), db_int(store->now) },
                     0, &made);
}

int store_queue(struct store *store, struct slice name, bool create,
                struct queue_entry **ret)
{
    if (store->queues_stale) {
        int r = store_queues_reload(store);
        if (r < 0)
            return r;
    }
    struct queue_entry *entry = find_by_name(store, name);
    for (int round = 0; !entry && round < 2; round++) {
        struct db_value value = db_text(name);
        int r = read_into_memory(store, SQL_QUEUE_BY_NAME, &value, &entry);
        if (r == 0 && !entry && create && round == 0)
            r = create_queue(store, name);
        if (r < 0)
            return r;
    }
    if (!entry)
        return -HF_NOT_FOUND;
    *ret = entry;
    return 0;
}

struct queue_entry *store_queue_by_id(struct store *store, int64_t id)
{
    struct queue_entry *entry = find(store, id);
    if (entry && !store->queues_stale)
        return entry;
    if (store_queues_reload(store) < 0)
        return NULL;
    return find(store, id);
}

int store_queue_update(struct store *store, struct queue_entry *entry)
{
    const struct queue *q = &entry->queue;
    struct slice reason = { q->paused_reason[0] ? q->paused_reason : NULL,
                            strlen(q->paused_reason) };
    struct slice delays = { q->retry_delays[0] ? q->retry_delays : NULL,
                            strlen(q->retry_delays) };
    struct slice fixed = { q->fixed[0] ? q->fixed : NULL, strlen(q->fixed) };
    int64_t r = db_run(
        store->db, SQL_QUEUE_UPDATE,
        (struct db_value[]){
            db_int(q->id), db_int(q->paused), db_int_or_null(q->paused_at, 0),
            db_text(reason), db_int_or_null(q->slots, -1), db_int(q->concurrency),
            db_int_or_null(q->stale_after_us, -1), db_int_or_null(q->max_retries, -1),
            db_text(delays), db_int_or_null(q->on_crash, -1),
            db_int_or_null(q->max_execution_us, -1), db_text(fixed) },
        1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

int store_queue_oldest(struct store *store, int64_t queue_id, int64_t *ret)
{
    return store_int(store, SQL_QUEUE_OLDEST, (struct db_value[]){ db_int(queue_id) }, 0,
                     ret);
}

/* ---- counts ---- */

void store_count(struct store *store, int64_t queue_id, enum counter counter, int64_t by)
{
    struct queue_entry *entry = store_queue_by_id(store, queue_id);
    if (!entry) {
        store_fail(store, -HF_CORRUPT);
        return;
    }
    entry->delta[counter] += by;
    if (!entry->dirty) {
        entry->dirty = true;
        entry->next_dirty = store->dirty;
        store->dirty = entry;
    }
}

void store_count_move(struct store *store, int64_t queue_id, int from_state, int to_state)
{
    if (from_state == to_state)
        return;
    store_count(store, queue_id, (enum counter)(COUNT_ACCEPTED + from_state), -1);
    store_count(store, queue_id, (enum counter)(COUNT_ACCEPTED + to_state), 1);
}

static int read_counts(struct store *store, enum sql sql, const struct db_value *values,
                       struct arena *arena, struct queue_counts **ret, size_t *ret_count)
{
    struct db_rows rows;
    struct queue_counts *counts = NULL;
    size_t count = 0, capacity = 0;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            struct queue_counts *grown = arena_alloc(arena, capacity * sizeof(*grown));
            if (!grown) {
                r = -HF_NOMEM;
                break;
            }
            if (count > 0)
                memcpy(grown, counts, count * sizeof(*grown));
            counts = grown;
        }
        counts[count].queue_id = db_get_int(&rows, 0);
        for (int c = 0; c < COUNTERS; c++)
            counts[count].count[c] = db_get_int(&rows, 1 + c);
        count++;
    }
    db_done(&rows);
    if (r < 0)
        return r;
    *ret = counts;
    *ret_count = count;
    return 0;
}

int store_counts(struct store *store, struct arena *arena, struct queue_counts **ret,
                 size_t *ret_count)
{
    return read_counts(store, SQL_COUNTER_SUM, NULL, arena, ret, ret_count);
}

int store_counts_take(struct store *store, struct arena *arena, struct queue_counts **ret,
                      size_t *ret_count)
{
    int64_t shard = 0;
    *ret_count = 0;
    int r = store_int(store, SQL_COUNTER_ORPHAN, NULL, 0, &shard);
    if (r < 0 || shard == 0)
        return r;
    return store_fail(store, read_counts(store, SQL_COUNTER_FOLD,
                                         (struct db_value[]){ db_int(shard) }, arena, ret,
                                         ret_count));
}

/* ---- gates ---- */

/* The lock is a statement of its own: a snapshot taken before the lock was
 * granted would not see what its last holder committed. */
static int lock_gates(struct store *store, const struct gate *gates, size_t count,
                      bool exclusive, struct db_value *values)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (gates[i].exclusive == exclusive)
            values[n++] = db_int(gates[i].queue_id);
    return n ? db_post(store->db, exclusive ? SQL_GATE_EXCLUSIVE : SQL_GATE_SHARED,
                       values, n)
             : 0;
}

static struct gate *find_gate(struct gate *gates, size_t count, int64_t queue_id)
{
    for (size_t i = 0; i < count; i++)
        if (gates[i].queue_id == queue_id)
            return &gates[i];
    return NULL;
}

int store_gates(struct store *store, struct gate *gates, size_t count)
{
    struct db_value *values = arena_array(&store->arena, struct db_value, count + 1);
    if (!values)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 1; i < count; i++)
        assert(gates[i - 1].queue_id < gates[i].queue_id);
    /* New jobs are queued, and a gate counts those that run. */
    int r = store_flush_but_fresh(store);
    /* SQLite's write lock, which we hold, is gate enough. */
    if (r == 0 && db_engine(store->db) == DB_POSTGRES)
        r = lock_gates(store, gates, count, false, values);
    if (r == 0 && db_engine(store->db) == DB_POSTGRES)
        r = lock_gates(store, gates, count, true, values);
    if (r < 0)
        return store_fail(store, r);

    for (size_t i = 0; i < count; i++)
        values[i] = db_int(gates[i].queue_id);
    struct db_rows rows;
    r = db_query(store->db, SQL_GATE_READ, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct gate *gate = find_gate(gates, count, db_get_int(&rows, 0));
        assert(gate);
        gate->known = true;
        gate->paused = db_get_int(&rows, 1) != 0;
        gate->concurrency = db_get_int(&rows, 2);
        gate->busy = db_get_int(&rows, 3);
        gate->reservation_id = db_get_int(&rows, 4);
        gate->held_job_id = db_get_int(&rows, 5);
    }
    db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}
