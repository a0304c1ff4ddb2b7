/* SPDX-License-Identifier: Apache-2.0
 *
 * pg_array.h -- a statement's values in PostgreSQL's binary form.
 *
 * Why it exists: a set of a thousand rows travels as one array per column
 * (int8[], text[], bytea[]), which the server unnests.  In binary form nothing
 * is escaped, NULL is a length of -1, and encoding costs one pass.
 *
 * The form of an array: number of dimensions (1), whether there are NULLs, the
 * element type, the number of elements, the first index (1), then each
 * element's length and bytes; all numbers 32 bits, big-endian.
 *
 * Knows the wire format, but not libpq. */
#pragma once

#include "db_sql.h"

/* More than this would have to lie in memory three times on its way. */
enum { PG_SET_BYTES_MAX = 256 << 20 };

/* The types that are sent and read, as pg_type numbers them. */
enum pg_oid {
    PG_BOOL = 16,
    PG_BYTEA = 17,
    PG_INT8 = 20,
    PG_INT2 = 21,
    PG_INT4 = 23,
    PG_TEXT = 25,
    PG_BYTEA_ARRAY = 1001,
    PG_TEXT_ARRAY = 1009,
    PG_INT8_ARRAY = 1016,
    PG_VARCHAR = 1043,
};

/* The arguments for libpq.  Zeroed to begin with; used again and again, so that
 * its memory is. */
struct pg_params {
    const char *values[DB_PARAMS_MAX];
    int lengths[DB_PARAMS_MAX];
    int formats[DB_PARAMS_MAX];
    unsigned int types[DB_PARAMS_MAX];
    uint64_t numbers[DB_PARAMS_MAX]; /* what values[] of integers point at */
    char *bytes;                     /* what values[] of arrays point at */
    size_t room;
    size_t total; /* bytes of all values together */
};

void pg_params_release(struct pg_params *p);

/* Encodes the values of `statement`, of a set as arrays.  Texts of a statement
 * that is none are not copied.  -HF_NOMEM or -HF_TOO_LARGE. */
must_check int pg_params_encode(struct pg_params *p, const struct db_statement *statement,
                                const struct db_value *values, size_t row_count);

/* Fills in `types` only, for preparing. */
void pg_params_types(struct pg_params *p, const struct db_statement *statement);

/* The integer of `n` (1, 2, 4 or 8) big-endian bytes. */
int64_t pg_decode_int(const char *bytes, int n);
