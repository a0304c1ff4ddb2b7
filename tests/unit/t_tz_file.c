/* test: wrap=calloc,malloc */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Zone files made for the purpose: the versions of the format, rules in every form, and
 * damage of every kind, which is an error with a sentence and never a crash. */
#include "base/calendar.h"
#include "base/text.h"
#include "tzif.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static int allocations_left = -1; /* -1: no limit */

static bool may_allocate(void)
{
    if (allocations_left > 0)
        allocations_left--;
    else if (allocations_left == 0)
        return false;
    return true;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__wrap_malloc(size_t size)
{
    return may_allocate() ? __real_malloc(size) : NULL;
}

static int64_t utc(const char *text)
{
    int64_t us;
    check_ok(time_parse(slice_of(text), &us));
    return us / US_PER_S;
}

/* ---- versions ---- */

static const int64_t two_times[] = { 1000000, 2000000 };
static const uint8_t two_kinds[] = { 1, 0 };
static const struct tzif two = {
    .version = '2',
    .times = two_times,
    .kind_of = two_kinds,
    .time_count = 2,
    .kinds = { { 3600, false, 0 }, { 7200, true, 2 } },
    .kind_count = 2,
    .words = SLICE_INIT("ABCDE\0"), /* the second is the end of the first */
    .footer = "",
};

TEST(a_file_of_the_first_version_is_read_from_its_only_block)
{
    struct tzif file = two;
    file.version = '\0';
    file.footer = NULL;
    struct tz *tz = tzif_read(tzif_make(&file));

    check_int(tz_at(tz, 999999).offset_s, 3600);
    check_int(tz_at(tz, 1000000).offset_s, 7200);
    check_str(tz_at(tz, 1000000).abbreviation, "CDE");
    check_int(tz_at(tz, 2000000).offset_s, 3600);
    check(tz_at(tz, 2000000).end_s == INT64_MAX);
    tz_free(tz);
}

TEST(the_second_block_has_times_the_first_cannot)
{
    const int64_t far[] = { -INT64_C(10000000000), INT64_C(10000000000) };
    struct tzif file = two;
    file.times = far;
    for (int version = '2'; version <= '4'; version++) {
        file.version = (char)version;
        struct tz *tz = tzif_read(tzif_make(&file));
        check_int(tz_at(tz, far[0] - 1).offset_s, 3600);
        check_int(tz_at(tz, 0).offset_s, 7200);
        check(tz_at(tz, 0).is_dst);
        check(tz_at(tz, 0).start_s == far[0] && tz_at(tz, 0).end_s == far[1]);
        tz_free(tz);
    }
}

TEST(an_empty_last_line_leaves_things_as_they_are)
{
    struct tz *tz = tzif_read(tzif_make(&two));

    check_int(tz_at(tz, utc("9000-07-01T00:00:00Z")).offset_s, 3600);
    tz_free(tz);
}

/* ---- rules ---- */

static const struct {
    const char *rule, *utc, *abbreviation;
    int32_t offset_s;
} rules[] = {
    { "UTC0", "2026-07-01T00:00:00Z", "UTC", 0 },
    { "<+03>-3", "2026-07-01T00:00:00Z", "+03", 10800 },
    { "<-0330>3:30", "2026-07-01T00:00:00Z", "-0330", -12600 },
    { "ABC-1:02:03", "2026-07-01T00:00:00Z", "ABC", 3723 },
    { "ABC+24:59:59", "2026-07-01T00:00:00Z", "ABC", -89999 },
    /* Germany's; the times are one second on either side. */
    { "CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T00:59:59Z", "CET", 3600 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00Z", "CEST", 7200 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T00:59:59Z", "CEST", 7200 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T01:00:00Z", "CET", 3600 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", "0050-07-01T00:00:00Z", "CEST", 7200 },
    { "CET-1CEST,M3.5.0,M10.5.0/3", "1450-12-01T00:00:00Z", "CET", 3600 },
    /* The south: summer is over the new year. */
    { "AAA-10BBB,M10.1.0,M4.1.0/3", "2026-01-01T00:00:00Z", "BBB", 39600 },
    { "AAA-10BBB,M10.1.0,M4.1.0/3", "2026-07-01T00:00:00Z", "AAA", 36000 },
    /* Half an hour, and "summer" that is less than winter. */
    { "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-01-01T00:00:00Z", "+11", 39600 },
    { "IST-1GMT0,M10.5.0,M3.5.0/1", "2026-01-01T00:00:00Z", "GMT", 0 },
    { "IST-1GMT0,M10.5.0,M3.5.0/1", "2026-07-01T00:00:00Z", "IST", 3600 },
    /* J60 is 1 March in every year; 59 is 29 February in leap years. */
    { "AAA0BBB,J60/0,J61/1", "2024-03-01T00:00:00Z", "BBB", 3600 },
    { "AAA0BBB,J60/0,J61/1", "2023-03-01T00:00:00Z", "BBB", 3600 },
    { "AAA0BBB,J60/0,J61/1", "2024-02-29T00:00:00Z", "AAA", 0 },
    { "AAA0BBB,59/0,60/1", "2024-02-29T00:00:00Z", "BBB", 3600 },
    { "AAA0BBB,59/0,60/1", "2023-03-01T00:00:00Z", "BBB", 3600 },
    { "AAA0BBB,J1/0,J59/1", "2023-02-27T23:59:59Z", "BBB", 3600 },
    /* Hours beyond a day: Greenland on a Saturday, and the far ends. */
    { "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T00:59:59Z", "-02", -7200 },
    { "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-03-29T01:00:00Z", "-01", -3600 },
    { "AAA0BBB,M1.2.0/-167,M1.2.0/167", "2026-01-04T01:00:00Z", "BBB", 3600 },
    { "AAA0BBB,M1.2.0/-167,M1.2.0/167", "2026-01-04T00:59:59Z", "AAA", 0 },
    { "AAA0BBB,M1.2.0/-167,M1.2.0/167", "2026-01-17T21:59:59Z", "BBB", 3600 },
    { "AAA0BBB,M1.2.0/-167,M1.2.0/167", "2026-01-17T22:00:00Z", "AAA", 0 },
    /* Summer time all year. */
    { "XXX3EDT4,0/0,J365/23", "2026-01-01T03:00:00Z", "EDT", -14400 },
    { "XXX3EDT4,0/0,J365/23", "2026-12-31T23:59:59Z", "EDT", -14400 },
    { "XXX3EDT4,0/0,J365/23", "2024-12-31T12:00:00Z", "EDT", -14400 },
    { "XXX3EDT4,0/0,J365/23", "3024-12-31T12:00:00Z", "EDT", -14400 },
};

TEST(a_rule_says_what_the_clocks_do_at_any_time)
{
    for (size_t i = 0; i < array_len(rules); i++) {
        struct tz *tz = tzif_read(tzif_of_rule(rules[i].rule));
        struct tz_period p = tz_at(tz, utc(rules[i].utc));
        if (p.offset_s != rules[i].offset_s ||
            strcmp(p.abbreviation, rules[i].abbreviation) != 0)
            fail("%s at %s: %d %s", rules[i].rule, rules[i].utc, p.offset_s,
                 p.abbreviation);
        tz_free(tz);
    }
}

/* Forward and back through the periods of 900 years. */
static size_t walk(const struct tz *tz)
{
    const int64_t end_s = utc("2900-01-01T00:00:00Z");
    struct tz_period p = tz_at(tz, utc("2000-01-01T00:00:00Z"));
    size_t changes = 0;

    for (; p.end_s < end_s; changes++) {
        struct tz_period next = tz_at(tz, p.end_s), back = tz_at(tz, p.end_s - 1);
        check(next.start_s == p.end_s && next.end_s > next.start_s);
        check(back.start_s == p.start_s && back.end_s == p.end_s);
        check(next.is_dst != p.is_dst);
        p = next;
    }
    return changes;
}

TEST(periods_follow_one_another_under_the_oddest_rule)
{
    static const struct {
        const char *rule;
        size_t changes;
    } odd[] = {
        { "CET-1CEST,M3.5.0,M10.5.0/3", 1800 },
        { "AAA-10BBB,M10.1.0,M4.1.0/3", 1800 },
        { "AAA0BBB,59/0,60/1", 1800 },
        { "XXX3EDT4,0/0,J365/23", 0 },  /* all year */
        { "XXX3EDT4,0/0,J365/100", 0 }, /* and longer */
        { "XXX4EDT,M7.1.0/0,M7.1.0/1", 0 },
        { "AAA0BBB,M1.1.0/-167,M12.5.0/167", 0 },
    };

    for (size_t i = 0; i < array_len(odd); i++) {
        struct tz *tz = tzif_read(tzif_of_rule(odd[i].rule));
        check_int(walk(tz), odd[i].changes);
        if (odd[i].changes == 0)
            check(tz_at(tz, 0).end_s == INT64_MAX && tz_at(tz, 0).is_dst);
        tz_free(tz);
    }
}

TEST(a_rule_holds_only_after_the_last_change_of_the_file)
{
    struct tzif file = two;
    file.footer = "AB-1CDE,M3.5.0,M10.5.0/3"; /* too short a name */
    struct tz *tz = NULL;
    check_err(tz_read(SLICE("X"), tzif_make(&file), NULL, &tz), -HF_INVALID);
    file.footer = "ABC-1CDE,M3.5.0,M10.5.0/3";
    tz = tzif_read(tzif_make(&file));
    check_int(tz_at(tz, utc("1960-07-01T00:00:00Z")).offset_s, 3600);
    check(tz_at(tz, 2000000).start_s == 2000000);
    check(tz_at(tz, 2000000).end_s == utc("1970-03-29T01:00:00Z"));
    check_int(tz_at(tz, utc("1970-07-01T00:00:00Z")).offset_s, 7200);
    tz_free(tz);
}

TEST(what_is_no_rule_is_refused)
{
    static const char *const bad[] = {
        "U",
        "UTC",
        "UTC+",
        "UTC25",
        "UTC0:60",
        "UTC0:00:60",
        "UTC0X",
        "UTC0 ",
        "<+03-3",
        "<+>3",
        "CET-1CEST",
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5,M10.5.0",
        "CET-1CEST,J0,J10",
        "CET-1CEST,J366,J10",
        "CET-1CEST,366,10",
        "CET-1CEST,1/168,10",
        "CET-1CEST,1/-168,10",
        "CET-1CEST,1/,10",
        "CET-1CEST,1,10,",
        "CET-1CEST,1,10 ",
        "CET-1CEST-1",
        ":CET",
        "ABCDEFGHIJKLMNOPQRSTUVW0",
        "CET99999999999999999999",
    };

    for (size_t i = 0; i < array_len(bad); i++) {
        struct error error = { 0 };
        struct tz *tz = NULL;
        if (tz_read(SLICE("X"), tzif_of_rule(bad[i]), &error, &tz) != -HF_INVALID)
            fail("\"%s\" was accepted", bad[i]);
        check(strstr(error.text, "its last line is no rule") && !tz);
    }
}

/* ---- damage ---- */

static void expect_damage(struct slice bytes, const char *part)
{
    struct error error = { 0 };
    struct tz *tz = NULL;

    check_err(tz_read(SLICE("Test/Zone"), bytes, &error, &tz), -HF_INVALID);
    if (!strstr(error.text, part))
        fail("\"%s\" does not say \"%s\"", error.text, part);
    check(strstr(error.text, "\"Test/Zone\" is no time zone that can be used: ") && !tz);
}

TEST(a_file_that_is_cut_anywhere_is_refused)
{
    struct slice bytes = tzif_make(&two);

    for (size_t n = 0; n < bytes.n; n++) {
        /* On the heap to its last byte, so that a byte read behind it is noticed. */
        char *copy = malloc(n ? n : 1);
        struct error error = { 0 };
        struct tz *tz = NULL;
        check(copy);
        memcpy(copy, bytes.p, n);
        check_err(tz_read(SLICE("X"), (struct slice){ copy, n }, &error, &tz),
                  -HF_INVALID);
        check(error.text[0] && !tz);
        free(copy);
    }
}

TEST(each_lie_in_a_file_has_its_sentence)
{
    const int64_t same[] = { 5, 5 }, back[] = { 6, 5 }, far[] = { 0, INT64_MAX };
    const uint8_t none[] = { 0, 2 };
    struct tzif file = two;

    file.times = same;
    expect_damage(tzif_make(&file), "not in order");
    file.times = back;
    expect_damage(tzif_make(&file), "not in order");
    file.times = far;
    expect_damage(tzif_make(&file), "not in any time");
    file = two;
    file.kind_of = none;
    expect_damage(tzif_make(&file), "a kind of local time that is not there");
    file = two;
    file.kinds[1].offset_s = 26 * 3600;
    expect_damage(tzif_make(&file), "an offset");
    file.kinds[1].offset_s = -26 * 3600;
    expect_damage(tzif_make(&file), "an offset");
    file = two;
    file.kinds[1].word = 6;
    expect_damage(tzif_make(&file), "an abbreviation is not there");
    file = two;
    file.words = SLICE("ABCDE");
    expect_damage(tzif_make(&file), "an abbreviation has no end");
    file.words = SLICE("ABCDEFGHIJKLMNOPQRSTUVW\0");
    expect_damage(tzif_make(&file), "an abbreviation has no end");
    file = two;
    file.leap_count = 1;
    expect_damage(tzif_make(&file), "leap seconds");
    file = two;
    file.kind_count = 0;
    file.time_count = 0;
    expect_damage(tzif_make(&file), "no kinds of local time");
    file = two;
    file.footer = NULL;
    expect_damage(tzif_make(&file), "its last line is missing");
    expect_damage(SLICE("# no zone"), "does not begin with TZif");
}

TEST(counts_beyond_the_file_are_no_reason_to_read_there)
{
    struct slice bytes = tzif_make(&two);
    size_t second = 0;

    for (size_t i = TZIF_HEADER_BYTES; i + 4 < bytes.n && !second; i++)
        if (memcmp(bytes.p + i, "TZif", 4) == 0)
            second = i;
    check(second > 0);
    for (size_t header = 0; header <= second; header += second)
        for (size_t at = header + 20; at < header + TZIF_HEADER_BYTES; at += 4) {
            char kept[4];
            memcpy(kept, bytes.p + at, 4);
            memset((char *)(uintptr_t)bytes.p + at, 0xff, 4);
            expect_damage(bytes, "cut off");
            memcpy((char *)(uintptr_t)bytes.p + at, kept, 4);
        }
}

TEST(without_memory_there_is_no_zone_and_nothing_is_lost)
{
    struct slice bytes = tzif_of_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    struct tz *tz = NULL;
    int n = 0;

    for (;; n++) {
        struct error error = { 0 };
        allocations_left = n;
        int r = tz_read(SLICE("X"), bytes, &error, &tz);
        allocations_left = -1;
        if (r == 0)
            break;
        check_err(r, -HF_NOMEM);
        check(!tz && error.text[0]);
    }
    check_int(n, 4);
    tz_free(tz);
    for (n = 0; n < 2; n++) {
        tz = NULL;
        allocations_left = n;
        int r = tz_load(NULL, SLICE("Europe/Berlin"), NULL, &tz);
        int s = tz_load("/nonexistent", SLICE("UTC"), NULL, &tz);
        allocations_left = -1;
        check_err(r, -HF_NOMEM);
        check_err(s, -HF_NOMEM);
        check(!tz);
    }
}
