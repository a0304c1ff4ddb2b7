/* SPDX-License-Identifier: Apache-2.0
 *
 * db_postgres.c -- PostgreSQL.  The driver is on its way; opening says so. */
#include "db_driver.h"

static int pg_open(const struct db_options *options, struct error *error, struct db **ret)
{
    (void)options;
    (void)ret;
    return error_set(error, -HF_UNAVAILABLE, NULL, "PostgreSQL is not supported yet");
}

const struct db_driver db_postgres_driver = { .engine = DB_POSTGRES, .open = pg_open };
