/* SPDX-License-Identifier: Apache-2.0 */
#include "store/schema.h"

#include <stdio.h>

#include "migrations.h"

static const char FORMAT[] = "holdfast";

int store_schema_version(void)
{
    return migrations[array_len(migrations) - 1].version;
}

/* -1: an empty database; -HF_FOREIGN...: not ours; otherwise the version. */
static int read_version(struct store *store, int *ret)
{
    struct db_rows rows;
    int64_t tables = 0, meta = 0;
    int r = db_query(store->db, SQL_META_TABLES, NULL, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        tables = db_get_int(&rows, 0);
        meta = db_get_int(&rows, 1);
    }
    db_done(&rows);
    if (r < 0)
        return r;
    if (tables == 0) {
        *ret = -1;
        return 0;
    }
    if (meta == 0)
        return -HF_FOREIGN;

    struct slice format = { 0 }, version = { 0 };
    r = store_meta_get(store, "format", &format);
    if (r == 0)
        r = store_meta_get(store, "schema", &version);
    if (r < 0 || !slice_equal(format, slice_of(FORMAT)))
        return r == -HF_UNAVAILABLE || r == -HF_NOMEM || r == -HF_BUSY ? r : -HF_FOREIGN;
    *ret = 0;
    for (size_t i = 0; i < version.n; i++)
        *ret = *ret * 10 + (version.p[i] - '0');
    return 0;
}

/* PostgreSQL: the tables live in a schema of their own, beside the
 * application's. */
static int have_schema(struct store *store)
{
    int64_t missing = 0;
    int r = store_int(store, SQL_META_SCHEMA, NULL, 0, &missing);
    if (r == 0 && missing)
        r = db_script(store->db, "{postgres:CREATE SCHEMA holdfast}");
    return r;
}

/* All that is missing, in one go: nobody ever meets a store that is half way. */
static int apply_migrations(struct store *store)
{
    int from = -1, r = read_version(store, &from);
    if (r == 0)
        r = have_schema(store);
    for (size_t i = 0; i < array_len(migrations) && r == 0; i++) {
        char number[12];
        if (migrations[i].version <= from)
            continue;
        snprintf(number, sizeof(number), "%d", migrations[i].version);
        r = db_script(store->db, migrations[i].sql);
        if (r == 0)
            r = store_meta_set(store, "format", slice_of(FORMAT));
        if (r == 0)
            r = store_meta_set(store, "schema", slice_of(number));
    }
    return r;
}

static int migrate(struct store *store)
{
    int r = store_begin(store, 0);
    if (r < 0)
        return r;
    /* Another process may be quicker: wait for it, and look again inside.  SQLite
     * has one writer at a time anyway. */
    r = db_script(store->db, "{postgres:SELECT pg_advisory_xact_lock(482065737)}");
    if (r == 0)
        r = apply_migrations(store);
    if (r == 0)
        return store_commit(store);
    store_rollback(store);
    return r;
}

static int refuse_version(int found, const char *url, struct error *error)
{
    int ours = store_schema_version();
    if (found > ours)
        return error_set(
            error, -HF_VERSION, NULL,
            "%s has schema version %d and this program knows %d: it was written "
            "by a newer Holdfast. Use that version, or a backup from before.",
            url, found, ours);
    return error_set(error, -HF_VERSION, NULL,
                     "%s has schema version %d and this program needs %d. Start the "
                     "scheduler once: it brings the store up to date.",
                     url, found, ours);
}

int schema_prepare(struct store *store, const char *url, struct error *error)
{
    int version = 0, ours = store_schema_version();
    int r = read_version(store, &version);
    if (r == -HF_FOREIGN)
        return error_set(
            error, r, NULL,
            "%s is a database of something else: it has tables, but no Holdfast "
            "store. Name another file or schema.",
            url);
    if (r < 0)
        return error_set(error, r, NULL, "%s cannot be read: %s.", url,
                         db_error(store->db));
    if (version == ours)
        return 0;
    if (version > ours || (version >= 0 && store->role != STORE_SCHEDULER))
        return refuse_version(version, url, error);
    if (store->role == STORE_READER)
        return error_set(error, -HF_NOT_FOUND, NULL, "%s holds no Holdfast store yet.",
                         url);
    r = migrate(store);
    if (r < 0)
        return error_set(error, r, NULL, "%s cannot be made a Holdfast store: %s.", url,
                         db_error(store->db));
    return 0;
}

int schema_accept(struct store *store, struct error *error)
{
    int version = 0;
    int r = read_version(store, &version);
    if (r < 0 || version < 0)
        return error_set(
            error, r < 0 ? r : -HF_FOREIGN, NULL,
            "The main database of this handle is not a Holdfast store. Open the "
            "store's file itself, and attach others to it.");
    if (version != store_schema_version())
        return refuse_version(version, "The main database of this handle", error);
    int64_t synchronous = 0, wal = 0;
    r = store_int(store, SQL_SYNCHRONOUS, NULL, 0, &synchronous);
    if (r == 0)
        r = store_int(store, SQL_JOURNAL_MODE, NULL, 0, &wal);
    if (r < 0)
        return error_set(error, r, NULL, "The handle cannot be read: %s.",
                         db_error(store->db));
    if (synchronous < 2 || !wal)
        return error_set(
            error, -HF_INVALID, NULL,
            "This handle does not write durably: run PRAGMA journal_mode=WAL and "
            "PRAGMA synchronous=FULL on it, or a job could be lost after it was "
            "acknowledged.");
    return 0;
}

int store_meta_get(struct store *store, const char *name, struct slice *ret)
{
    struct db_rows rows;
    struct slice value = { 0 };
    int r = db_query(store->db, SQL_META_GET,
                     (struct db_value[]){ db_text(slice_of(name)) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        value = arena_dup(&store->arena, db_get_text(&rows, 0));
    db_done(&rows);
    if (r < 0)
        return r;
    if (r == 0)
        return -HF_NOT_FOUND;
    if (!value.p)
        return -HF_NOMEM;
    *ret = value;
    return 0;
}

int store_meta_set(struct store *store, const char *name, struct slice value)
{
    int64_t r = db_run(store->db, SQL_META_SET,
                       (struct db_value[]){ db_text(slice_of(name)), db_text(value) }, 1);
    return r < 0 ? (int)r : 0;
}
