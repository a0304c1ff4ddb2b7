/* SPDX-License-Identifier: Apache-2.0
 *
 * store_look.c -- looking, for readers. */
#include "store/store.h"

int store_look(struct store *store, int (*look)(struct store *store, void *arg),
               void *arg, struct error *error)
{
    int r = 0;

    for (int round = 0; round < 2; round++) {
        r = store_begin(store, 0);
        if (r == 0)
            r = look(store, arg);
        if (r == 0)
            r = store_commit(store);
        store_rollback(store);
        bool gone = r == -HF_UNAVAILABLE || r == -HF_UNKNOWN;
        if (round > 0 || !gone || db_reconnect(store->db) < 0)
            break;
    }
    if (r == -HF_UNKNOWN)
        r = -HF_UNAVAILABLE; /* nothing was to be done */
    if (r < 0 && r != -HF_NOT_FOUND && error->code == 0)
        error_set(error, r, NULL, "The store cannot be read: %s.", db_error(store->db));
    return r;
}
