/* SPDX-License-Identifier: Apache-2.0
 *
 * pg_array.c -- sizes first, then one allocation, then the bytes. */
#include "pg_array.h"

#include <endian.h>

enum { ARRAY_HEADER_BYTES = 20, KEPT_BYTES_MAX = 1 << 20 };

void pg_params_release(struct pg_params *p)
{
    free(p->bytes);
    *p = (struct pg_params){ 0 };
}

int64_t pg_decode_int(const char *bytes, int n)
{
    uint64_t number = 0;

    assert(n == 1 || n == 2 || n == 4 || n == 8);
    /* The sign is in the first byte, and stays there through the shifts. */
    if ((signed char)bytes[0] < 0)
        number = UINT64_MAX;
    for (int i = 0; i < n; i++)
        number = number << 8 | (unsigned char)bytes[i];
    return (int64_t)number;
}

void pg_params_types(struct pg_params *p, const struct db_statement *statement)
{
    static const unsigned int single[] = {
        [DB_INT] = PG_INT8, [DB_TEXT] = PG_TEXT, [DB_BLOB] = PG_BYTEA
    };
    static const unsigned int array[] = {
        [DB_INT] = PG_INT8_ARRAY, [DB_TEXT] = PG_TEXT_ARRAY, [DB_BLOB] = PG_BYTEA_ARRAY
    };

    for (int i = 0; i < statement->param_count; i++) {
        unsigned char type = statement->types[i];
        p->types[i] = statement->is_set ? array[type] : single[type];
    }
}

static size_t element_bytes(const struct db_value *v)
{
    return v->type == DB_NULL ? 0 : v->type == DB_INT ? sizeof(uint64_t) : v->s.n;
}

static char *put32(char *to, uint32_t n)
{
    n = htobe32(n);
    memcpy(to, &n, sizeof(n));
    return to + sizeof(n);
}

static char *put_element(char *to, const struct db_value *v)
{
    if (v->type == DB_NULL)
        return put32(to, UINT32_MAX); /* a length of -1 */

    size_t n = element_bytes(v);
    to = put32(to, (uint32_t)n);
    if (v->type == DB_INT) {
        uint64_t number = htobe64((uint64_t)v->i);
        memcpy(to, &number, sizeof(number));
    } else if (n > 0) {
        memcpy(to, v->s.p, n);
    }
    return to + n;
}

/* Column `column` of the rows, at `to`.  Returns the end. */
static char *put_array(char *to, unsigned char type, const struct db_value *column,
                       size_t width, size_t row_count)
{
    static const uint32_t types[] = {
        [DB_INT] = PG_INT8, [DB_TEXT] = PG_TEXT, [DB_BLOB] = PG_BYTEA
    };
    char *has_null = to + 4;
    bool null = false;

    to = put32(to, 1);
    to = put32(to, 0);
    to = put32(to, types[type]);
    to = put32(to, (uint32_t)row_count);
    to = put32(to, 1);
    for (size_t row = 0; row < row_count; row++) {
        const struct db_value *v = &column[row * width];
        null |= v->type == DB_NULL;
        to = put_element(to, v);
    }
    put32(has_null, null);
    return to;
}

static int encode_set(struct pg_params *p, const struct db_statement *statement,
                      const struct db_value *values, size_t row_count)
{
    size_t width = (size_t)statement->param_count;
    size_t total = ARRAY_HEADER_BYTES * width;

    for (size_t i = 0; i < row_count * width && total <= PG_SET_BYTES_MAX; i++)
        total += sizeof(uint32_t) + element_bytes(&values[i]);
    if (total > PG_SET_BYTES_MAX)
        return -HF_TOO_LARGE;

    /* A large one is not kept for the next, which is likely to be small. */
    if (total > p->room || p->room > KEPT_BYTES_MAX) {
        char *bytes = realloc(p->bytes, total);
        if (!bytes)
            return -HF_NOMEM;
        p->bytes = bytes;
        p->room = total;
    }
    char *to = p->bytes;
    for (size_t i = 0; i < width; i++) {
        p->values[i] = to;
        to = put_array(to, statement->types[i], values + i, width, row_count);
        p->lengths[i] = (int)(to - p->values[i]);
        p->formats[i] = 1;
    }
    assert((size_t)(to - p->bytes) == total);
    p->total = total;
    return 0;
}

int pg_params_encode(struct pg_params *p, const struct db_statement *statement,
                     const struct db_value *values, size_t row_count)
{
    if (statement->is_set)
        return encode_set(p, statement, values, row_count);

    assert(row_count == 1);
    p->total = 0;
    for (int i = 0; i < statement->param_count; i++) {
        const struct db_value *v = &values[i];
        size_t n = element_bytes(v);
        if (n > PG_SET_BYTES_MAX - p->total)
            return -HF_TOO_LARGE;
        p->numbers[i] = htobe64((uint64_t)v->i);
        p->values[i] = v->type == DB_NULL  ? NULL
                       : v->type == DB_INT ? (const char *)&p->numbers[i]
                                           : v->s.p;
        p->lengths[i] = (int)n;
        p->formats[i] = 1;
        p->total += n;
    }
    return 0;
}
