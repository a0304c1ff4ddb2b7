/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c -- the unit of work: buffers, ids, transactions. */
#include "store/store.h"

#include <stdio.h>

#include "store/schema.h"

static const struct db_sql statements[SQL_COUNT] = {
#define SQL(name, params, text) [SQL_##name] = { #name, params, text },
#include "store/sql.def"
#undef SQL
};

/* The statements that are buffered, in the order in which a flush writes them.
 * A failed job must give up its unique key before its retry takes it, so
 * updates come before inserts; a run follows its job, and tells of its progress
 * before it ends.  Those that update one row by its id are keyed: PostgreSQL
 * applies one of two rows with the same key in a set, so the first is written
 * before the second is posted.  Those that must each change a row are exact: else
 * somebody believed what is no longer so, and the pile is applied with more care. */
static const struct {
    enum sql sql;
    int width;
    bool keyed, exact;
} buffered[] = {
    { SQL_RUN_PROGRESS, 3, true },       { SQL_JOB_COMPLETE, 3, true, true },
    { SQL_RUN_COMPLETE, 4, true, true }, { SQL_RUN_FINISH, 7, true },
    { SQL_JOB_UPDATE, 13, true },        { SQL_JOB_INSERT, 28, false },
    { SQL_PAYLOAD_INSERT, 2, false },    { SQL_RUN_INSERT, 7, false },
    { SQL_RUN_INSERT_FAILED, 9, false }, { SQL_RUN_ATTENTION, 2, true },
    { SQL_RUN_MISSED, 2, true },         { SQL_RUN_OWNER, 2, true },
    { SQL_RECLASS_SET, 2, true },        { SQL_KIND_INSERT, 2, false },
    { SQL_EVENT_INSERT, 8, false },      { SQL_COUNTER_ADD, 11, false },
    { SQL_OUTPUT_INSERT, 2, false },     { SQL_SCHEDULE_ADVANCE, 11, true },
    { SQL_FIRE_INSERT, 8, false },       { SQL_DELIVERY_INSERT, 7, false },
    { SQL_DELIVERY_TAKE, 3, true },      { SQL_DELIVERY_REPORT, 8, true },
    { SQL_DELIVERY_AGAIN, 2, true },
};
static_assert(array_len(buffered) <= STORE_BUFFERS, "more buffers than room");

int store_fail(struct store *store, int r)
{
    assert(r <= 0);
    if (r < 0 && store->failed == 0)
        store->failed = r;
    return r;
}

static struct store *store_make(struct db *db, enum store_role role)
{
    struct store *store = new(struct store);
    if (!store)
        return NULL;
    store->db = db;
    store->role = role;
    store->queues_stale = true;
    store->id_block = STORE_ID_BLOCK_LEAST;
    store->id_block_most = STORE_ID_BLOCK;
    arena_init(&store->arena, 64 << 10, STORE_ARENA_BYTES);
    return store;
}

int store_open(const struct store_options *options, struct error *error,
               struct store **ret)
{
    struct db *db = NULL;
    int r = db_open(&(struct db_options){ .url = options->url,
                                          .sql = statements,
                                          .sql_count = SQL_COUNT,
                                          .read_only = options->role == STORE_READER,
                                          .create = options->role != STORE_READER,
                                          .busy_ms = options->busy_ms,
                                          .vfs = options->vfs,
                                          .schema = "holdfast" },
                    error, &db);
    if (r < 0)
        return r;

    struct store *store = store_make(db, options->role);
    if (!store) {
        db_close(db);
        return error_set(error, -HF_NOMEM, NULL, "No memory to open %s.", options->url);
    }
    r = schema_prepare(store, options->url, error);
    if (r < 0) {
        store_close(store);
        return r;
    }
    *ret = store;
    return 0;
}

int store_borrow_sqlite(void *handle, int64_t now, struct error *error,
                        struct store **ret)
{
    struct db *db = NULL;
    int r = db_borrow_sqlite(handle, statements, SQL_COUNT, &db);
    if (r < 0)
        return error_set(error, r, NULL,
                         r == -HF_INVALID
                             ? "This SQLite handle has no transaction under way; "
                               "run BEGIN IMMEDIATE first."
                             : "No memory to enqueue.");
    struct store *store = store_make(db, STORE_PRODUCER);
    if (!store) {
        db_close(db);
        return error_set(error, -HF_NOMEM, NULL, "No memory to enqueue.");
    }
    store->id_block = store->id_block_most =
        1; /* the application's transaction may be long: take what is
                            needed and no more */
    store->open = true;
    store->now = now;
    store->transactions++;
    r = schema_accept(store, error);
    if (r < 0) {
        store_close(store);
        return r;
    }
    *ret = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < STORE_BUFFERS; i++)
        free(store->buffers[i].values);
    for (size_t i = 0; i < store->queue_count; i++)
        free(store->queues[i]);
    free(store->fresh);
    free(store->queues);
    free(store->projects);
    db_close(store->db);
    arena_release(&store->arena);
    free(store);
}

static int buffer_index(enum sql sql)
{
    for (size_t i = 0; i < array_len(buffered); i++)
        if (buffered[i].sql == sql)
            return (int)i;
    assert(0 && "statement is not buffered");
    return -1;
}

/* True if a row of this key may be in the buffer already.  Ids come in blocks, so
 * their low bits tell apart what a pile holds; a false alarm costs a flush. */
static bool seen_before(struct row_buffer *buffer, struct db_value key)
{
    assert(key.type == DB_INT);
    uint64_t bit = (uint64_t)key.i % STORE_KEY_BITS;
    uint64_t *word = &buffer->seen[bit / 64], mask = UINT64_C(1) << (bit % 64);
    bool seen = (*word & mask) != 0;
    *word |= mask;
    return seen;
}

static void empty(struct row_buffer *buffer)
{
    if (buffer->count > 0)
        memset(buffer->seen, 0, sizeof(buffer->seen));
    buffer->count = 0;
}

void store_post(struct store *store, enum sql sql, const struct db_value *values)
{
    assert(store->open);
    int i = buffer_index(sql);
    size_t width = (size_t)buffered[i].width;
    struct row_buffer *buffer = &store->buffers[i];

    if (buffered[i].keyed && seen_before(buffer, values[0])) {
        if (store_flush(store) < 0)
            return;
        (void)seen_before(buffer, values[0]);
    }
    if (buffer->count == buffer->capacity) {
        size_t capacity = buffer->capacity ? 2 * buffer->capacity : 16;
        void *grown = realloc(buffer->values, capacity * width * sizeof(*values));
        if (!grown) {
            store_fail(store, -HF_NOMEM);
            return;
        }
        buffer->values = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->values + buffer->count * width, values, width * sizeof(*values));
    buffer->count++;
}

static void drop_buffers(struct store *store)
{
    for (size_t i = 0; i < STORE_BUFFERS; i++)
        empty(&store->buffers[i]);
    store->fresh_count = 0;
}

int store_flush(struct store *store)
{
    store_post_fresh(store);
    return store_flush_but_fresh(store);
}

/* PostgreSQL is not waited for: there, what must change has been locked. */
static int write_buffer(struct store *store, size_t i)
{
    const struct row_buffer *buffer = &store->buffers[i];
    int sql = (int)buffered[i].sql;
    if (!buffered[i].exact || db_engine(store->db) != DB_SQLITE)
        return db_post(store->db, sql, buffer->values, buffer->count);
    int64_t changed = db_run(store->db, sql, buffer->values, buffer->count);
    if (changed < 0)
        return (int)changed;
    return changed == (int64_t)buffer->count ? 0 : -HF_CONFLICT;
}

int store_flush_but_fresh(struct store *store)
{
    assert(store->open);
    if (store->failed == 0 && store->arena.failed)
        store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < array_len(buffered) && store->failed == 0; i++) {
        if (store->buffers[i].count > 0)
            store_fail(store, write_buffer(store, i));
        empty(&store->buffers[i]);
    }
    return store->failed;
}

static void forget_counts(struct store *store)
{
    for (struct queue_entry *q = store->dirty; q; q = q->next_dirty) {
        memset(q->delta, 0, sizeof(q->delta));
        q->dirty = false;
    }
    store->dirty = NULL;
}

static void post_counts(struct store *store)
{
    for (struct queue_entry *q = store->dirty; q; q = q->next_dirty) {
        struct db_value v[2 + COUNTERS] = { db_int(store->shard), db_int(q->queue.id) };
        for (int c = 0; c < COUNTERS; c++)
            v[2 + c] = db_int(q->delta[c]);
        store_post(store, SQL_COUNTER_ADD, v);
    }
    forget_counts(store);
}

static void end(struct store *store)
{
    store->open = false;
    store->failed = 0;
    store->ids_fresh = false;
    drop_buffers(store);
    arena_reset(&store->arena);
}

int store_begin(struct store *store, int64_t now)
{
    assert(!store->open);
    int r = db_begin(store->db);
    if (r < 0)
        return r;
    store->open = true;
    store->failed = 0;
    store->now = now;
    store->transactions++;
    return 0;
}

int store_commit(struct store *store)
{
    assert(store->open);
    post_counts(store);
    int r = store_flush(store);
    if (r == 0)
        r = db_commit(store->db);
    if (r < 0) {
        store_rollback(store);
        return r;
    }
    end(store);
    return 0;
}

/* What this transaction learnt or reserved may not be in the store: forget it. */
static void distrust(struct store *store)
{
    if (store->ids_fresh)
        store->id_next = store->id_count = 0;
    forget_counts(store);
    store->queues_stale = true;
    store->project_count = 0;
}

void store_rollback(struct store *store)
{
    if (!store->open)
        return;
    db_rollback(store->db);
    distrust(store);
    end(store);
}

void store_end_looking(struct store *store)
{
    if (!store->open)
        return;
    assert(!store->dirty && !store->ids_fresh);
    db_rollback(store->db);
    end(store);
}

int store_savepoint(struct store *store)
{
    post_counts(store); /* what came before must not be undone with what follows */
    int r = store_flush(store);
    return r < 0 ? r : db_savepoint(store->db);
}

int store_savepoint_keep(struct store *store)
{
    post_counts(store);
    int r = store_flush(store);
    return r < 0 ? r : db_savepoint_keep(store->db);
}

int store_savepoint_undo(struct store *store)
{
    drop_buffers(store);
    distrust(store);
    store->failed = 0;
    store->arena.failed = false;
    return db_savepoint_undo(store->db);
}

static int reserve_ids(struct store *store)
{
    struct db_rows rows;
    int n = 0;
    int r = db_query(store->db, SQL_IDS_RESERVE,
                     (struct db_value[]){ db_int(store->id_block) }, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < STORE_ID_BLOCK)
        store->ids[n++] = db_get_int(&rows, 0);
    db_done(&rows);
    if (r < 0)
        return r;
    if (n == 1) /* SQLite gives the first of a contiguous block */
        for (; n < store->id_block; n++)
            store->ids[n] = store->ids[0] + n;
    store->id_next = 0;
    store->id_count = n;
    store->ids_fresh = true;
    if (n != store->id_block)
        return -HF_CORRUPT;
    /* Who makes one job leaves no large hole; who makes many asks less often. */
    if (store->id_block < store->id_block_most)
        store->id_block *= 2;
    return 0;
}

int64_t store_id(struct store *store)
{
    assert(store->open);
    if (store->id_next == store->id_count && store_fail(store, reserve_ids(store)) < 0)
        return 0;
    return store->ids[store->id_next++];
}

int store_int(struct store *store, enum sql sql, const struct db_value *values,
              int64_t none, int64_t *ret)
{
    struct db_rows rows;
    int64_t found = none;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    if (r >= 0)
        r = db_next(&rows);
    if (r > 0 && !db_is_null(&rows, 0))
        found = db_get_int(&rows, 0);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = found;
    return 0;
}
