/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, UTF-8 and times: what is let in, what is kept out, and that what is
 * written can be read back. */
#include <time.h>

#include "base/limits.h"
#include "base/text.h"
#include "test.h"

TEST(a_name_is_letters_digits_dot_underscore_and_dash)
{
    char every[257] = { 0 };
    const char *allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    for (int byte = 0; byte < 256; byte++) {
        every[byte] = (char)byte;
        bool expected = byte != 0 && strchr(allowed, byte) != NULL;
        check(name_valid((struct slice){ every + byte, 1 }) == expected);
    }
    check(name_valid(SLICE("crawl.eu-1_b")));
    check(!name_valid(SLICE("a b")));
    check(!name_valid(SLICE("a\0b")));
    check(!name_valid(SLICE("größe")));
}

TEST(a_name_has_one_to_a_hundred_bytes)
{
    char name[LIMIT_NAME_BYTES + 1];

    memset(name, 'n', sizeof(name));
    check(!name_valid((struct slice){ name, 0 }));
    check(!name_valid((struct slice){ NULL, 0 }));
    check(name_valid((struct slice){ name, 1 }));
    check(name_valid((struct slice){ name, 100 }));
    check(!name_valid((struct slice){ name, 101 }));
}

/* Encodes as the definition has it, with no check at all, so that the oracle
 * shares nothing with the code under test. */
static size_t encode(uint32_t point, size_t length, char *out)
{
    static const uint8_t mark[] = { 0, 0, 0xC0, 0xE0, 0xF0 };

    for (size_t i = length; i-- > 1; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(length == 1 ? point : mark[length] | point);
    return length;
}

TEST(every_code_point_is_valid_in_its_shortest_form_only)
{
    static const uint32_t end_of_length[] = { 0, 0x80, 0x800, 0x10000, 0x200000 };
    char bytes[8];

    for (size_t length = 1; length <= 4; length++)
        for (uint32_t point = 0; point < end_of_length[length]; point++) {
            size_t n = encode(point, length, bytes);
            bool good = point >= end_of_length[length - 1] && point <= 0x10FFFF &&
                        !(point >= 0xD800 && point <= 0xDFFF);
            if (utf8_step(bytes, n) != (good ? n : 0)) {
                check_int(point, -1); /* names the culprit */
                return;
            }
        }
}

TEST(stray_and_missing_continuations_are_not_utf8)
{
    static const char *const bad[] = {
        "\x80",     "\xBF",      "a\x80",        "\xC3",          "\xC3(",
        "\xE2\x82", "\xE2(\xA1", "\xF0\x9F\x98", "\xF0\x9F\x98x", "\xF8\x88\x80\x80\x80",
        "\xFE",     "\xFF",      "\xC0\x80",     "\xED\xA0\x80",  "\xF4\x90\x80\x80"
    };

    for (size_t i = 0; i < array_len(bad); i++)
        check(!utf8_valid(slice_of(bad[i])));
    check(utf8_valid(SLICE("")));
    check(utf8_valid(SLICE("naïve € 😀 \x7F\x01")));
}

TEST(text_has_no_nul)
{
    check(!utf8_valid(SLICE("a\0b")));
    check(!utf8_valid(SLICE("\0")));
}

/* Every byte, at every place of texts of every length around eight. */
TEST(plain_text_ends_at_the_first_byte_that_does_not_stand_for_itself)
{
    enum { LONGEST = 19 };

    for (int byte = 0; byte < 256; byte++) {
        bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
        for (size_t n = 1; n <= LONGEST; n++) {
            char *text =
                malloc(n); /* of its size, so that valgrind sees what is beyond */
            check(text);
            for (size_t at = 0; at < n; at++) {
                memset(text, "a~ \x7f!#[]"[at % 8], n);
                text[at] = (char)byte;
                size_t end = text_plain((struct slice){ text, n }, 0);
                size_t behind = text_plain((struct slice){ text, n }, at + 1);
                if (end != (plain ? n : at) || behind != n)
                    fail("byte %d at %zu of %zu: %zu, %zu", byte, at, n, end, behind);
            }
            free(text);
        }
    }
    check_int(text_plain((struct slice){ NULL, 0 }, 0), 0);
}

TEST(a_cut_text_is_told_from_a_broken_one)
{
    check(utf8_is_cut("\xE2", 1));
    check(utf8_is_cut("\xE2\x82", 2));
    check(!utf8_is_cut("\xE2\x82\xAC", 3));
    check(!utf8_is_cut("\xE2(", 2));
    check(!utf8_is_cut("\xED\xA0", 2)); /* half a surrogate: never good */
    check(!utf8_is_cut("\x80", 1));
    check(!utf8_is_cut("a", 1));
    check(!utf8_is_cut("", 0));
}

TEST(fitting_never_cuts_a_character_and_never_gives_up_more_than_three_bytes)
{
    struct slice text = SLICE("aé€😀aé€😀");

    for (size_t max = 0; max <= text.n + 2; max++) {
        size_t fit = utf8_fit(text, max);
        check(fit <= max && fit <= text.n);
        check(fit + 3 >= (max < text.n ? max : text.n));
        check(utf8_valid((struct slice){ text.p, fit }));
    }
}

static const char *duration(int64_t us)
{
    static char out[DURATION_TEXT_BYTES];

    return duration_text(us, out);
}

TEST(durations_read_like_a_person_would_say_them)
{
    check_str(duration(-1), "unknown duration");
    check_str(duration(INT64_MIN), "unknown duration");
    check_str(duration(0), "0 seconds");
    check_str(duration(999999), "0 seconds");
    check_str(duration(US_PER_S), "1 second");
    check_str(duration(12 * US_PER_S), "12 seconds");
    check_str(duration(60 * US_PER_S - 1), "59 seconds");
    check_str(duration(60 * US_PER_S), "1.0 minutes");
    check_str(duration(192 * US_PER_S), "3.2 minutes");
    check_str(duration(3600 * US_PER_S - 4 * US_PER_S), "59.9 minutes");
    check_str(duration(3600 * US_PER_S - 1), "1.0 hours"); /* not 60.0 minutes */
    check_str(duration(3600 * US_PER_S), "1.0 hours");
    check_str(duration(73440 * US_PER_S), "20.4 hours");
    check_str(duration(1000 * 3600 * US_PER_S), "1000.0 hours");
    check_str(duration(INT64_MAX), "2562047788.0 hours");
}

static const char *shown(int64_t us)
{
    static char out[TIME_TEXT_BYTES];

    return time_text(us, out);
}

TEST(times_are_shown_in_utc_with_milliseconds)
{
    check_str(shown(0), "1970-01-01T00:00:00.000Z");
    check_str(shown(999), "1970-01-01T00:00:00.000Z");
    check_str(shown(-1), "1969-12-31T23:59:59.999Z");
    check_str(shown(INT64_C(951782400) * US_PER_S), "2000-02-29T00:00:00.000Z");
    check_str(shown(INT64_C(1785587696789000)), "2026-08-01T12:34:56.789Z");
    check_str(shown(INT64_C(4107542400) * US_PER_S), "2100-03-01T00:00:00.000Z");
}

TEST(a_time_beyond_the_calendar_is_shown_as_its_edge)
{
    check_str(shown(LEAST_TIME_US), "0000-01-01T00:00:00.000Z");
    check_str(shown(LIMIT_TIME_US), "9999-12-31T23:59:59.999Z");
    check_str(shown(INT64_MIN), "0000-01-01T00:00:00.000Z");
    check_str(shown(INT64_MAX), "9999-12-31T23:59:59.999Z");
}

static int64_t parsed(const char *text)
{
    int64_t us = -12345;

    return time_parse(slice_of(text), &us) == 0 ? us : INT64_MIN;
}

TEST(every_day_of_ten_thousand_years_is_written_and_read_alike)
{
    int64_t days = 0;

    for (int64_t us = LEAST_TIME_US; us <= LIMIT_TIME_US; us += US_PER_DAY, days++)
        if (parsed(shown(us + 1000)) != us + 1000) {
            check_str(shown(us), "read back");
            return;
        }
    check_int(days, 3652425); /* 25 times 400 years */
}

TEST(the_calendar_counts_days_as_the_c_library_does)
{
    for (int64_t day = -30000; day < 60000; day += 17) {
        time_t seconds = (time_t)(day * 86400);
        struct tm tm;
        char expected[64];
        gmtime_r(&seconds, &tm);
        strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        check_str(shown(day * US_PER_DAY), expected);
    }
}

TEST(offsets_and_fractions_are_understood)
{
    const int64_t noon = INT64_C(1785585600) * US_PER_S; /* 2026-08-01T12:00:00Z */

    check_int(parsed("2026-08-01T12:00:00Z"), noon);
    check_int(parsed("2026-08-01t12:00:00z"), noon);
    check_int(parsed("2026-08-01T14:00:00+02:00"), noon);
    check_int(parsed("2026-08-01T01:30:00-10:30"), noon);
    check_int(parsed("2026-08-02T11:59:00+23:59"), noon);
    check_int(parsed("2026-08-01T12:00:00-00:00"), noon);
    check_int(parsed("2026-08-01T12:00:00.5Z"), noon + 500000);
    check_int(parsed("2026-08-01T12:00:00.000001Z"), noon + 1);
    check_int(parsed("2026-08-01T12:00:00.0000019999999999999Z"), noon + 1);
    check_int(parsed("1969-12-31T23:59:59.9999999Z"), -1);
}

TEST(what_is_not_rfc_3339_is_refused)
{
    static const char *const bad[] = {
        "",
        "2026-08-01",
        "2026-08-01T12:00:00",
        "2026-08-01T12:00:00 ",
        "2026-08-01 12:00:00Z",
        " 2026-08-01T12:00:00Z",
        "2026-08-01T12:00:00Z ",
        "2026-08-01T12:00:00ZZ",
        "2026-8-1T12:00:00Z",
        "26-08-01T12:00:00Z",
        "12026-08-01T12:00:00Z",
        "+2026-08-01T12:00:00Z",
        "-026-08-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-08-00T12:00:00Z",
        "2026-08-32T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2100-02-29T12:00:00Z",
        "2026-08-01T24:00:00Z",
        "2026-08-01T12:60:00Z",
        "2016-12-31T23:59:60Z",
        "2026-08-01T12:00Z",
        "2026-08-01T12:00:0Z",
        "2026-08-01T12:00:00.Z",
        "2026-08-01T12:00:00,5Z",
        "2026-08-01T12:00:00.5",
        "2026-08-01T12:00:00+0200",
        "2026-08-01T12:00:00+02",
        "2026-08-01T12:00:00+24:00",
        "2026-08-01T12:00:00+02:60",
        "2026-08-01T12:00:00+02:00Z",
        "2026-08-01T12:00:00UTC",
        "2026-W31-6T12:00:00Z",
        "20260801T120000Z",
        "1785585600",
        "2026-08-01T12:00:00−02:00",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    };

    for (size_t i = 0; i < array_len(bad); i++)
        if (parsed(bad[i]) != INT64_MIN)
            check_str(bad[i], "refused");
}

TEST(leap_days_are_where_gregory_put_them)
{
    check(parsed("2000-02-29T00:00:00Z") != INT64_MIN);
    check(parsed("2024-02-29T00:00:00Z") != INT64_MIN);
    check(parsed("1900-02-29T00:00:00Z") == INT64_MIN);
    check(parsed("2023-02-29T00:00:00Z") == INT64_MIN);
    check(parsed("0000-02-29T00:00:00Z") != INT64_MIN);
}

TEST(a_failed_parse_leaves_the_result_alone)
{
    int64_t us = 42;

    check_int(time_parse(SLICE("2026-02-30T00:00:00Z"), &us), -HF_INVALID);
    check_int(time_parse((struct slice){ NULL, 0 }, &us), -HF_INVALID);
    check_int(us, 42);
}

TEST(a_nul_or_an_early_end_anywhere_is_refused)
{
    const char good[] = "2026-08-01T12:00:00.123+02:00";
    char text[sizeof(good)];
    int64_t us;

    for (size_t at = 0; at < sizeof(good) - 1; at++) {
        memcpy(text, good, sizeof(good));
        text[at] = '\0';
        check_int(time_parse((struct slice){ text, sizeof(good) - 1 }, &us), -HF_INVALID);
        check_int(time_parse((struct slice){ good, at }, &us), -HF_INVALID);
    }
}
