/* SPDX-License-Identifier: Apache-2.0
 *
 * Every surface reads the same table, so the table is checked row by row; and
 * an error's sentence must be fit to send, whatever went into it. */
#include <limits.h>

#include "base/status.h"
#include "base/text.h"
#include "test.h"

static bool is_word(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c == '-' && c > name && c[1])))
            return false;
    return *name != '\0';
}

TEST(every_code_has_a_row_of_its_own)
{
    for (int code = 0; code <= HF_INTERNAL; code++) {
        const struct status *status = status_of(code);
        check_int(status->code, code);
        check(is_word(status->name));
        check(status->title[0] != '\0');
        for (int other = 0; other < code; other++)
            check(strcmp(status_of(other)->name, status->name) != 0);
    }
}

TEST(a_code_may_be_given_with_either_sign)
{
    for (int code = 0; code <= HF_INTERNAL; code++)
        check(status_of(-code) == status_of(code));
}

TEST(a_code_nobody_knows_is_a_defect)
{
    const struct status *defect = status_of(HF_INTERNAL);

    check(status_of(HF_INTERNAL + 1) == defect);
    check(status_of(-HF_INTERNAL - 1) == defect);
    check(status_of(INT_MAX) == defect);
    check(status_of(INT_MIN) == defect);
}

TEST(each_code_has_the_http_status_that_clients_rely_on)
{
    static const struct {
        int code, http;
    } expected[] = {
        { HF_OK, 200 },       { HF_NOMEM, 500 },        { HF_SYSTEM, 500 },
        { HF_INVALID, 400 },  { HF_TOO_LARGE, 413 },    { HF_NOT_FOUND, 404 },
        { HF_CONFLICT, 409 }, { HF_DUPLICATE, 409 },    { HF_MISMATCH, 422 },
        { HF_LATE, 409 },     { HF_TIMEOUT, 409 },      { HF_BUSY, 503 },
        { HF_CLOSED, 503 },   { HF_LOCKED, 503 },       { HF_READONLY, 503 },
        { HF_FULL, 503 },     { HF_IO, 503 },           { HF_CORRUPT, 500 },
        { HF_FOREIGN, 500 },  { HF_VERSION, 500 },      { HF_UNAVAILABLE, 503 },
        { HF_UNKNOWN, 503 },  { HF_UNAUTHORIZED, 401 }, { HF_FORBIDDEN, 403 },
        { HF_INTERNAL, 500 },
    };

    check_int(array_len(expected), HF_INTERNAL + 1);
    for (size_t i = 0; i < array_len(expected); i++)
        check_int(status_of(expected[i].code)->http, expected[i].http);
}

TEST(names_that_clients_compare_with_do_not_change)
{
    check_str(status_of(HF_UNKNOWN)->name, "outcome-unknown");
    check_str(status_of(HF_LATE)->name, "late-result");
    check_str(status_of(HF_TIMEOUT)->name, "reservation-timeout");
    check_str(status_of(HF_NOT_FOUND)->name, "not-found");
}

TEST(exit_codes_are_small_and_only_success_is_zero)
{
    check_int(status_of(HF_OK)->exit_code, 0);
    for (int code = 1; code <= HF_INTERNAL; code++) {
        check(status_of(code)->exit_code >= 2); /* 1 is an answer, no failure */
        check(status_of(code)->exit_code <= 10);
    }
    check_int(status_of(HF_INVALID)->exit_code, 2);
    check_int(status_of(HF_NOT_FOUND)->exit_code, 3);
    check_int(status_of(HF_UNKNOWN)->exit_code, 8);
}

TEST(an_error_carries_code_field_and_sentence)
{
    struct error error = { 0 };
    int r =
        error_set(&error, -HF_INVALID, "priority", "priority is %d; at most %d", 11, 9);

    check_int(r, -HF_INVALID);
    check_int(error.code, -HF_INVALID);
    check_str(error.field, "priority");
    check_str(error.text, "priority is 11; at most 9");
}

TEST(the_first_error_wins)
{
    struct error error = { 0 };

    check_int(error_set(&error, -HF_INVALID, NULL, "first"), -HF_INVALID);
    check_int(error_set(&error, -HF_IO, "field", "second"), -HF_IO);
    check_int(error.code, -HF_INVALID);
    check_str(error.field, "");
    check_str(error.text, "first");
}

TEST(without_an_error_to_fill_the_code_still_comes_back)
{
    check_int(error_set(NULL, -HF_BUSY, "field", "nobody reads %s", "this"), -HF_BUSY);
}

TEST(a_long_sentence_is_cut_between_characters)
{
    char longer[1200];

    /* Three-byte characters at each of the three possible phases. */
    for (size_t phase = 0; phase < 3; phase++) {
        struct error error = { 0 };
        memset(longer, 'x', phase);
        for (size_t at = phase; at + 3 < sizeof(longer); at += 3)
            memcpy(longer + at, "€", 4);
        check_int(error_set(&error, -HF_INVALID, longer, "%s", longer), -HF_INVALID);
        check(utf8_valid(slice_of(error.text)));
        check(utf8_valid(slice_of(error.field)));
        check(strlen(error.text) > sizeof(error.text) - 4);
        check(strlen(error.field) > sizeof(error.field) - 4);
        check(strchr(error.text, '?') == NULL);
    }
}

TEST(a_sentence_that_quotes_broken_bytes_is_still_utf8)
{
    struct error error = { 0 };

    check_int(error_set(&error, -HF_INVALID, "f\xFFx", "bad \xC0\xAF here \xE2\x82."),
              -HF_INVALID);
    check_str(error.text, "bad ?? here ??.");
    check_str(error.field, "f?x");
}
