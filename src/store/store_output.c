/* SPDX-License-Identifier: Apache-2.0
 *
 * store_output.c -- what commands printed. */
#include "store/store.h"

void store_output_insert(struct store *store, int64_t job_id, struct slice output)
{
    if (output.p)
        store_post(store, SQL_OUTPUT_INSERT,
                   (struct db_value[]){ db_int(job_id), db_text(output) });
}

int store_output_get(struct store *store, int64_t job_id, struct arena *arena,
                     struct slice *ret)
{
    struct db_value value = db_int(job_id);
    struct db_rows rows;
    int r = db_query(store->db, SQL_OUTPUT_GET, &value, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        *ret = arena_dup(arena, db_get_text(&rows, 0));
    db_done(&rows);
    if (r < 0)
        return r;
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}
