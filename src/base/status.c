/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c -- one row per error code, and the sentence that goes with it. */
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "text.h"

/* Indexed by code, so the order is that of enum hf_status.  A name is what
 * other programs compare with: it never changes once released. */
static const struct status table[] = {
    { HF_OK, "ok", 200, 0, "Done" },
    { HF_NOMEM, "no-memory", 500, 9, "Out of memory" },
    { HF_SYSTEM, "system", 500, 9, "A system call failed" },
    { HF_INVALID, "invalid", 400, 2, "Not acceptable" },
    { HF_TOO_LARGE, "too-large", 413, 2, "Over a limit" },
    { HF_NOT_FOUND, "not-found", 404, 3, "No such thing" },
    { HF_CONFLICT, "conflict", 409, 4, "Not possible in this state" },
    { HF_DUPLICATE, "duplicate", 409, 4, "Another live job holds this unique key" },
    { HF_MISMATCH, "idempotency-mismatch", 422, 4,
      "Idempotency key used before with another body" },
    { HF_LATE, "late-result", 409, 4, "The run is no longer yours" },
    { HF_TIMEOUT, "reservation-timeout", 409, 5, "Waited in vain" },
    { HF_BUSY, "busy", 503, 6, "Too much is under way" },
    { HF_CLOSED, "closed", 503, 6, "Shutting down" },
    { HF_LOCKED, "locked", 503, 6, "Another scheduler has this store open" },
    { HF_READONLY, "read-only", 503, 6, "The store cannot be written" },
    { HF_FULL, "disk-full", 503, 6, "No space left for the store" },
    { HF_IO, "io-error", 503, 6, "The store's disk fails" },
    { HF_CORRUPT, "corrupt", 500, 7, "The store is damaged" },
    { HF_FOREIGN, "foreign", 500, 7, "Not a Holdfast store" },
    { HF_VERSION, "version", 500, 7, "The store has another schema version" },
    { HF_UNAVAILABLE, "unavailable", 503, 6, "The database cannot be reached" },
    { HF_UNKNOWN, "outcome-unknown", 503, 8, "Done or not done, nobody knows" },
    { HF_UNAUTHORIZED, "unauthorized", 401, 10, "Who are you?" },
    { HF_FORBIDDEN, "forbidden", 403, 10, "Not allowed" },
    { HF_INTERNAL, "internal", 500, 9, "A defect in Holdfast" },
};

static_assert(array_len(table) == HF_INTERNAL + 1, "every code has its row");

const struct status *status_of(int code)
{
    /* Widened first: the negative of INT_MIN is no int. */
    int64_t index = code < 0 ? -(int64_t)code : code;

    if (index > HF_INTERNAL)
        index = HF_INTERNAL;
    assert(table[index].code == index);
    return &table[index];
}

/* Copies what fits of a text that may have been cut, or may quote bytes of
 * anyone's making: each byte that is no part of a whole character becomes '?',
 * except at the end, where half a character is dropped. */
static void copy_whole_characters(char *to, size_t room, const char *from)
{
    size_t length = strnlen(from, room - 1);
    size_t used = 0;

    assert(room > 0);
    for (size_t at = 0; at < length;) {
        size_t step = utf8_step(from + at, length - at);
        if (step == 0 && utf8_is_cut(from + at, length - at))
            break;
        if (step == 0)
            to[used++] = '?';
        else
            memcpy(to + used, from + at, step);
        used += step;
        at += step ? step : 1;
    }
    assert(used < room);
    to[used] = '\0';
}

int status_of_errno(int number)
{
    switch (number) {
    case ENOMEM:
        return -HF_NOMEM;
    case ENOSPC:
    case EDQUOT:
        return -HF_FULL;
    case EACCES:
    case EPERM:
    case EROFS:
        return -HF_READONLY;
    case ELOOP:
        return -HF_INVALID;
    default:
        return -HF_SYSTEM;
    }
}

int error_set(struct error *error, int code, const char *field, const char *format, ...)
{
    assert(code < 0);
    assert(format);
    if (!error || error->code)
        return code;

    char text[sizeof(error->text)];
    va_list args;
    va_start(args, format);
    int written = vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    error->code = code;
    copy_whole_characters(error->field, sizeof(error->field), field ? field : "");
    copy_whole_characters(error->text, sizeof(error->text),
                          written < 0 ? status_of(code)->title : text);
    return code;
}
