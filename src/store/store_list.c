/* SPDX-License-Identifier: Apache-2.0
 *
 * store_list.c -- jobs in pages, for people. */
#include "store/store.h"

int store_jobs_list(struct store *store, const struct job_filter *filter,
                    struct arena *arena, struct job_row **ret, size_t *ret_count)
{
    struct job_row *list = arena_array(arena, struct job_row, filter->limit + 1);
    struct db_rows rows;
    size_t n = 0;

    if (!list)
        return -HF_NOMEM;
    enum sql sql = job_state_busy(filter->state) ? SQL_JOB_LIST_BUSY : SQL_JOB_LIST;
    int r =
        db_query(store->db, (int)sql,
                 (struct db_value[]){ db_int(filter->before ? filter->before : INT64_MAX),
                                      db_int(filter->state), db_int(filter->queue_id),
                                      db_text(filter->kind.p ? filter->kind : SLICE("")),
                                      db_int((int64_t)filter->limit) },
                 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < filter->limit);
        store_read_job(&rows, 0, arena, &list[n].job);
        store_read_run(&rows, JOB_COLUMN_COUNT, arena, &list[n].run);
        n++;
    }
    db_done(&rows);
    if (r < 0)
        return r;
    *ret = list;
    *ret_count = n;
    return arena_end(arena);
}
