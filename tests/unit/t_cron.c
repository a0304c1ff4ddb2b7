/* SPDX-License-Identifier: Apache-2.0
 *
 * Cron expressions: what they mean, what is refused and in which words, and when they
 * fire, above all where clocks change. */
#include "base/limits.h"
#include "crons.h"

/* ---- what fields mean ---- */

/* The bits of `from` to `to`, every `step`. */
static uint64_t bits(int from, int to, int step)
{
    uint64_t set = 0;
    for (int i = from; i <= to; i += step)
        set |= UINT64_C(1) << i;
    return set;
}

TEST(values_ranges_steps_and_lists_are_sets)
{
    struct cron c = parse("0,30 9-17 1-31/10 */3 1-5");
    check(c.seconds == 1);
    check(c.minutes == (bits(0, 0, 1) | bits(30, 30, 1)));
    check(c.hours == bits(9, 17, 1));
    check(c.days == bits(1, 31, 10));
    check(c.months == bits(1, 12, 3));
    check(c.weekdays == bits(1, 5, 1));

    c = parse("5/10 20/1 28/2,3 10/1 3/3");
    check(c.minutes == bits(5, 59, 10));
    check(c.hours == bits(20, 23, 1));
    check(c.days == (bits(28, 31, 2) | bits(3, 3, 1)));
    check(c.months == bits(10, 12, 1));
    check(c.weekdays == (bits(3, 3, 1) | bits(6, 6, 1)));

    c = parse("*/60 */24 */31 */12 */7");
    check(c.minutes == 1 && c.hours == 1 && c.days == 2 && c.months == 2);
    check(c.weekdays == 1);
    c = parse("* * * * *");
    check(c.minutes == bits(0, 59, 1) && c.hours == bits(0, 23, 1));
    check(c.days == bits(1, 31, 1) && c.months == bits(1, 12, 1));
    check(c.weekdays == bits(0, 6, 1));
}

TEST(a_sixth_field_in_front_is_seconds)
{
    struct cron c = parse("*/15 0-1 * * * *");
    check(c.seconds == bits(0, 59, 15));
    check(c.minutes == bits(0, 1, 1));
    check(!c.is_fixed);
    check(parse("* 30 2 * * *").is_fixed); /* seconds do not decide */
}

TEST(names_are_in_any_case_and_sunday_is_0_and_7)
{
    check(parse("* * * jan,FEB,Dec *").months == (bits(1, 2, 1) | bits(12, 12, 1)));
    check(parse("* * * mar-nov/2 *").months == bits(3, 11, 2));
    check(parse("* * * * sun,WED,Sat").weekdays == (1 | 1 << 3 | 1 << 6));
    check(parse("* * * * 7").weekdays == 1);
    check(parse("* * * * 0").weekdays == 1);
    check(parse("* * * * 5-7").weekdays == (1 | bits(5, 6, 1)));
    check(parse("* * * * fri-sun").weekdays == (1 | bits(5, 6, 1)));
    check(parse("* * * * mon-sun").weekdays == bits(0, 6, 1));
    check(parse("* * * * sun-sun").weekdays == 1);
    check(parse("* * * * sun-tue").weekdays == bits(0, 2, 1));
    check(parse("* * * * 0-7").weekdays == bits(0, 6, 1));
    check(parse("* * * * 7/2").weekdays == 1);
}

TEST(last_and_nth_days_are_kept_apart)
{
    struct cron c = parse("0 0 L,l-3,15 * *");
    check(c.days == bits(15, 15, 1));
    check(c.days_to_last == (1 | 1 << 3));
    c = parse("0 0 * * 5L,monl,fri#2,1#1,7#5,7L");
    check(c.weekdays == 0);
    check(c.weekdays_last == (1 << 5 | 1 << 1 | 1));
    check(c.weekdays_nth[0] == 1 << 1 && c.weekdays_nth[1] == 1 << 5);
    check(c.weekdays_nth[4] == 1);
}

TEST(what_begins_with_a_star_is_no_restriction_and_no_fixed_time)
{
    static const struct {
        const char *text;
        bool any_day, any_weekday, is_fixed;
    } rows[] = {
        { "0 0 * * *", true, true, true },     { "0 0 */2 * *", true, true, true },
        { "0 0 1 * */2", false, true, true },  { "0 0 1-31 * 0-6", false, false, true },
        { "0 * * * *", true, true, false },    { "* 0 * * *", true, true, false },
        { "*/5 2 * * *", true, true, false },  { "0 */2 * * *", true, true, false },
        { "0 0-23 * * *", true, true, true },  { "0 *,2 * * *", true, true, false },
        { "0 2,*/3 * * *", true, true, true }, { "0 0 *,1 * 1", true, false, true },
        { "@hourly", true, true, false },      { "@daily", true, true, true },
    };

    for (size_t i = 0; i < array_len(rows); i++) {
        struct cron c = parse(rows[i].text);
        if (c.any_day != rows[i].any_day || c.any_weekday != rows[i].any_weekday ||
            c.is_fixed != rows[i].is_fixed)
            fail("%s: %d %d %d", rows[i].text, c.any_day, c.any_weekday, c.is_fixed);
    }
}

TEST(short_names_are_short_for_fields)
{
    static const char *const rows[][2] = {
        { "@hourly", "0 * * * *" },         { "@daily", "0 0 * * *" },
        { "@midnight", "0 0 * * *" },       { "@weekly", "0 0 * * 0" },
        { "@monthly", "0 0 1 * *" },        { "@yearly", "0 0 1 1 *" },
        { "@annually", "0 0 1 1 *" },       { "  @DAILY\t", "0 0 * * *" },
        { " \t0  0\t1 1 * ", "0 0 1 1 *" },
    };

    for (size_t i = 0; i < array_len(rows); i++) {
        struct cron a = parse(rows[i][0]), b = parse(rows[i][1]);
        check(memcmp(&a, &b, sizeof(a)) == 0);
    }
}

/* ---- what is refused ---- */

static const char *const refused[][2] = {
    { "60 * * * *", "cron: the minute \"60\" is outside 0 to 59" },
    { "60 * * * * *", "cron: the second \"60\" is outside 0 to 59" },
    { "0 24 * * *", "cron: the hour \"24\" is outside 0 to 23" },
    { "0 1-25 * * *", "cron: the hour \"1-25\" is outside 0 to 23" },
    { "0 1,2,25 * * *", "cron: the hour \"25\" is outside 0 to 23" },
    { "0 0 0 * *", "cron: the day of month \"0\" is outside 1 to 31" },
    { "0 0 32 * *", "cron: the day of month \"32\" is outside 1 to 31" },
    { "0 0 1 13 *", "cron: the month \"13\" is outside 1 to 12" },
    { "0 0 1 0 *", "cron: the month \"0\" is outside 1 to 12" },
    { "0 0 * * 8", "cron: the day of week \"8\" is outside 0 to 7" },
    { "99999999999999999999 * * * *", "is outside 0 to 59" },
    { "0 22-2 * * *", "cron: the hour \"22-2\" runs backwards; write 22-23,0-2" },
    { "0 0 25-5 * *", "runs backwards; write 25-31,1-5" },
    { "0 0 * * fri-mon",
      "cron: the day of week \"fri-mon\" runs backwards; write 5-6,0-1" },
    { "0 0 * * 6-0", "runs backwards; write 6-7" },
    { "0 0 * * 7-2", "runs backwards; write 0-2" },
    { "*/0 * * * *", "cron: the minute \"*/0\" needs a step from 1 to 60 behind the /" },
    { "*/61 * * * *", "needs a step from 1 to 60" },
    { "0 */ * * *", "needs a step from 1 to 24" },
    { "0 0 */x * *", "needs a step from 1 to 31" },
    { "0 0 * */13 *", "needs a step from 1 to 12" },
    { "0 0 * * */8", "needs a step from 1 to 7" },
    { "0 0 ? * 1", "cron: the day of month \"?\" is written \"*\" here: there is no ?" },
    { "0 0 * * ?", "cron: the day of week \"?\" is written \"*\" here: there is no ?" },
    { "0 0 15W * *", "nearest working day" },
    { "0 0 lw * *", "nearest working day" },
    { "0 0 L-0 * *", "needs 1 to 30 days behind the -" },
    { "0 0 L-31 * *", "needs 1 to 30 days behind the -" },
    { "0 0 L/2 * *", "goes on behind the L" },
    { "0 0 * * L", "cron: the day of week \"L\" is not understood" },
    { "0 0 * * 5L/2", "goes on behind the L" },
    { "0 0 * * 5L-6L", "goes on behind the L" },
    { "0 0 * * 1-5L", "is not understood" },
    { "0 0 * * 5#0", "needs a number from 1 to 5 behind the #" },
    { "0 0 * * 5#6", "needs a number from 1 to 5 behind the #" },
    { "0 0 * * 5#", "needs a number from 1 to 5 behind the #" },
    { "0 0 * * 5#2-6#2", "needs a number from 1 to 5 behind the #" },
    { "0 L * * *", "cron: the hour \"L\" is not understood; it takes *, 0 to 23" },
    { "jan * * * *", "cron: the minute \"jan\" is not understood" },
    { "* * * foo *", "it takes *, 1 to 12 or jan to dec" },
    { "* * * january *", "cron: the month \"january\" is not understood" },
    { "* * * * -1", "is not understood" },
    { "1- * * * *", "cron: the minute \"1-\" is not understood" },
    { "1-2-3 * * * *", "is not understood" },
    { "** * * * *", "is not understood" },
    { "*-5 * * * *", "is not understood" },
    { "1.5 * * * *", "is not understood" },
    { ",1 * * * *", "cron: the minute \",1\" has a comma with nothing beside it" },
    { "1, * * * *", "has a comma with nothing beside it" },
    { "1,,2 * * * *", "has a comma with nothing beside it" },
    { ", * * * *", "has a comma with nothing beside it" },
    { "", "cron: the expression has 0 fields; it takes 5 (minute, hour" },
    { "  \t ", "has 0 fields" },
    { "@", "cron: \"@\" is unknown" },
    { "* * * *", "has 4 fields; it takes 5" },
    { "5", "has 1 field; it takes 5" },
    { "0 0 0 1 1 * 2030", "has 7 fields; it takes 5" },
    { "@reboot", "cron: \"@reboot\" is no time" },
    { "@every 5m", "has 2 fields" },
    { "@every", "an interval is everyMs" },
    { "@fortnightly", "\"@fortnightly\" is unknown; there are @hourly, @daily" },
    { "\xc3\xa9 * * * *", "cron: byte 1 of the expression is no letter" },
    { "* * * *\n*", "cron: byte 8 of the expression is no letter" },
};

TEST(each_refusal_names_the_field_its_text_and_what_would_be_right)
{
    for (size_t i = 0; i < array_len(refused); i++) {
        struct error error = { 0 };
        struct cron cron = { .minutes = 7 };
        if (cron_parse(slice_of(refused[i][0]), &error, &cron) != -HF_INVALID)
            fail("\"%s\" was accepted", refused[i][0]);
        if (!strstr(error.text, refused[i][1]))
            fail("\"%s\": %s", refused[i][0], error.text);
        check_str(error.field, "cron");
        check(cron.minutes == 7); /* untouched */
    }
    struct cron cron;
    check_err(cron_parse(SLICE("* * * *\0*"), NULL, &cron), -HF_INVALID);
}

TEST(an_expression_is_of_at_most_500_bytes)
{
    char text[LIMIT_CRON_BYTES + 2];
    struct error error = { 0 };
    struct cron cron;

    memset(text, ' ', sizeof(text));
    memcpy(text, "0 0 * * *", 9);
    check_ok(cron_parse((struct slice){ text, LIMIT_CRON_BYTES }, NULL, &cron));
    check_err(cron_parse((struct slice){ text, LIMIT_CRON_BYTES + 1 }, &error, &cron),
              -HF_TOO_LARGE);
    check(strstr(error.text, "has 501 bytes; it may have 500"));
    memset(text, '1', LIMIT_CRON_BYTES);
    memcpy(text + 490, " * * * *  ", 10);
    error = (struct error){ 0 };
    check_err(cron_parse((struct slice){ text, LIMIT_CRON_BYTES }, &error, &cron),
              -HF_INVALID);
    check(strlen(error.text) < 120);
}

/* ---- when they fire ---- */

TEST(a_fire_is_strictly_after)
{
    static const struct story stories[] = {
        { "0 12 * * *", "UTC", "2026-01-01T11:59:59.999999", { "2026-01-01T12:00" } },
        { "0 12 * * *", "UTC", "2026-01-01T12:00:00", { "2026-01-02T12:00" } },
        { "0 12 * * *", "UTC", "2026-01-01T12:00:00.000001", { "2026-01-02T12:00" } },
        { "* * * * * *", "UTC", "2026-01-01T12:00:00.5", { "2026-01-01T12:00:01" } },
        { "* * * * * *",
          "UTC",
          "1969-12-31T23:59:58.5",
          { "1969-12-31T23:59:59", "1970-01-01T00:00", "1970-01-01T00:00:01" } },
        { "59 59 23 31 12 *",
          "UTC",
          "2025-12-31T23:59:58",
          { "2025-12-31T23:59:59", "2026-12-31T23:59:59" } },
        { "*/20 5/30 * * * *",
          "UTC",
          "2026-01-01T00:35:20",
          { "2026-01-01T00:35:40", "2026-01-01T01:05" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(days_follow_vixies_rule)
{
    static const struct story stories[] = {
        /* Both restricted: either. */
        { "0 0 13 * 5",
          "UTC",
          "2026-02-01T00:00",
          { "2026-02-06T00:00", "2026-02-13T00:00", "2026-02-20T00:00",
            "2026-02-27T00:00", "2026-03-06T00:00", "2026-03-13T00:00" } },
        { "0 0 1 * 1-5",
          "UTC",
          "2026-01-31T00:00",
          { "2026-02-01T00:00", "2026-02-02T00:00" } },
        /* One begins with a star: both.  14 and 28 are */
        { "0 0 */13 * 6",
          "UTC",
          "2026-01-31T12:00",
          { "2026-02-14T00:00", "2026-03-14T00:00", "2026-06-27T00:00" } },
        { "0 0 1 * */2",
          "UTC",
          "2026-01-01T12:00",
          { "2026-02-01T00:00", "2026-03-01T00:00", "2026-08-01T00:00" } },
        { "0 0 29 2 1",
          "UTC",
          "2027-03-01T00:00",
          { "2028-02-07T00:00", "2028-02-14T00:00", "2028-02-21T00:00",
            "2028-02-28T00:00", "2028-02-29T00:00", "2029-02-05T00:00" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(last_days_and_nth_weekdays_are_of_their_month)
{
    static const struct story stories[] = {
        { "0 0 L * *",
          "UTC",
          "2027-12-31T00:00",
          { "2028-01-31T00:00", "2028-02-29T00:00", "2028-03-31T00:00",
            "2028-04-30T00:00" } },
        { "0 0 L-3 2 *",
          "UTC",
          "2026-01-01T00:00",
          { "2026-02-25T00:00", "2027-02-25T00:00", "2028-02-26T00:00" } },
        { "0 0 L-30 * *",
          "UTC",
          "2026-01-02T00:00",
          { "2026-03-01T00:00", "2026-05-01T00:00" } },
        { "0 0 * * 5L",
          "UTC",
          "2026-01-01T00:00",
          { "2026-01-30T00:00", "2026-02-27T00:00", "2026-03-27T00:00",
            "2026-04-24T00:00" } },
        { "0 0 * * tue#2",
          "UTC",
          "2026-01-01T00:00",
          { "2026-01-13T00:00", "2026-02-10T00:00", "2026-03-10T00:00" } },
        { "0 0 * * 1#5",
          "UTC",
          "2026-01-01T00:00",
          { "2026-03-30T00:00", "2026-06-29T00:00", "2026-08-31T00:00" } },
        { "0 0 * * 0#1,0L",
          "UTC",
          "2026-01-01T00:00",
          { "2026-01-04T00:00", "2026-01-25T00:00", "2026-02-01T00:00" } },
        { "0 0 L * 1#1",
          "UTC",
          "2026-01-01T00:00",
          { "2026-01-05T00:00", "2026-01-31T00:00", "2026-02-02T00:00" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(rare_days_are_found_and_days_that_never_come_are_told)
{
    static const struct story stories[] = {
        { "0 0 29 2 *",
          "UTC",
          "2095-01-01T00:00",
          { "2096-02-29T00:00", "2104-02-29T00:00" } },
        /* 29 February on a Sunday: 28 years apart, 40 over a century. */
        { "0 0 29 2 */7",
          "UTC",
          "2060-01-01T00:00",
          { "2060-02-29T00:00", "2088-02-29T00:00", "2128-02-29T00:00" } },
        { "0 0 */28 2 0#5",
          "UTC",
          "2060-01-01T00:00",
          { "2060-02-29T00:00", "2088-02-29T00:00", "2128-02-29T00:00" } },
        { "0 0 30 2 *", "UTC", "2026-01-01T00:00", { "never" } },
        { "0 0 31 4,6,9,11 *", "Europe/Berlin", "2026-01-01T00:00", { "never" } },
        { "* * 31 2 *", "Europe/Berlin", "2026-01-01T00:00", { "never" } },
        { "0 0 L-29 2 *", "UTC", "2026-01-01T00:00", { "never" } },
        { "0 0 30 2 1", "UTC", "2026-01-01T00:00", { "2026-02-02T00:00" } },
        { "0 0 31 12 *", "UTC", "9999-12-30T00:00", { "9999-12-31T00:00", "never" } },
        { "0 0 * * *",
          "America/New_York",
          "9999-12-31T04:00",
          { "9999-12-31T05:00", "never" } },
        { "*/30 * * * *",
          "Asia/Tokyo",
          "9999-12-31T23:00",
          { "9999-12-31T23:30", "never" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(any_time_may_be_asked_about)
{
    struct cron cron = parse("0 0 * * *");
    int64_t at_us = 0;

    check(cron_next(&cron, tz_utc(), INT64_MIN, &at_us));
    check(at_us == LEAST_TIME_US);
    check(!cron_next(&cron, tz_utc(), INT64_MAX, &at_us));
    check(!cron_next(&cron, tz_utc(), LIMIT_TIME_US, &at_us));
}
