/* SPDX-License-Identifier: Apache-2.0
 *
 * store_explain.c -- what a waiting job stands behind, and who could take it. */
#include "store/store.h"

int store_ready_before(struct store *store, const struct job *job, size_t most,
                       size_t *ret)
{
    struct db_rows rows;
    size_t n = 0;
    int r = db_query(store->db, SQL_READY_HEAD,
                     (struct db_value[]){ db_int(job->queue_id), db_int(job->class),
                                          db_int(job->lane), db_int((int64_t)most) },
                     1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && db_get_int(&rows, 0) != job->id)
        n++;
    db_done(&rows);
    if (r < 0)
        return r;
    *ret = n;
    return 0;
}

int store_executors(struct store *store, struct slice kind, struct executors *ret)
{
    struct db_value value = db_text(kind);
    struct db_rows rows;
    int r = db_query(store->db, SQL_EXECUTORS, &value, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        *ret = (struct executors){ .nodes = db_get_int(&rows, 0),
                                   .workers = db_get_int(&rows, 1),
                                   .nodes_of_kind = db_get_int(&rows, 2) };
    db_done(&rows);
    return r < 0 ? r : 0;
}

int store_key_holder(struct store *store, const struct job *job, int64_t *ret_id,
                     int *ret_state)
{
    if (!job->unique_key.p)
        return -HF_NOT_FOUND;
    struct db_value values[] = { db_int(job->project_id), db_text(job->unique_key) };
    struct db_rows rows;
    int r = db_query(store->db, SQL_KEY_HOLDER, values, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        *ret_id = db_get_int(&rows, 0);
        *ret_state = (int)db_get_int(&rows, 1);
    }
    db_done(&rows);
    return r < 0 ? r : r == 0 ? -HF_NOT_FOUND : 0;
}
