/* SPDX-License-Identifier: Apache-2.0
 *
 * Cron where clocks change: the rule told as stories, and random expressions in random
 * zones against a clock that is watched minute by minute. */
#include <time.h>

#include "base/calendar.h"
#include "base/rng.h"
#include "crons.h"

/* ---- stories ---- */

TEST(a_fixed_time_in_a_gap_fires_once_at_its_end)
{
    static const struct story stories[] = {
        { "30 2 * * *",
          "Europe/Berlin",
          "2026-03-28T00:00",
          { "2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30" } },
        /* Several of its times are skipped, or one is at the end itself. */
        { "0,15,30,45 2 * * *",
          "Europe/Berlin",
          "2026-03-28T01:40",
          { "2026-03-28T01:45", "2026-03-29T01:00", "2026-03-30T00:00" } },
        { "0,30 2,3 * * *",
          "Europe/Berlin",
          "2026-03-28T02:20",
          { "2026-03-28T02:30", "2026-03-29T01:00", "2026-03-29T01:30",
            "2026-03-30T00:00" } },
        { "0 2 * * *",
          "Europe/Berlin",
          "2026-03-28T12:00",
          { "2026-03-29T01:00", "2026-03-30T00:00" } },
        { "0 3 * * *",
          "Europe/Berlin",
          "2026-03-28T12:00",
          { "2026-03-29T01:00", "2026-03-30T01:00" } },
        { "59 1 * * *",
          "Europe/Berlin",
          "2026-03-28T12:00",
          { "2026-03-29T00:59", "2026-03-29T23:59" } },
        /* From within the jump. */
        { "30 2 * * *",
          "Europe/Berlin",
          "2026-03-29T00:59:59.999999",
          { "2026-03-29T01:00" } },
        { "30 2 * * *", "Europe/Berlin", "2026-03-29T01:00", { "2026-03-30T00:30" } },
        /* On that day only. */
        { "30 2 29 3 *",
          "Europe/Berlin",
          "2026-01-01T00:00",
          { "2026-03-29T01:00", "2027-03-29T00:30" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(a_fixed_time_that_is_there_twice_fires_in_the_first_pass)
{
    static const struct story stories[] = {
        { "30 2 * * *",
          "Europe/Berlin",
          "2026-10-24T12:00",
          { "2026-10-25T00:30", "2026-10-26T01:30" } },
        { "0,30 1-3 * * *",
          "Europe/Berlin",
          "2026-10-24T12:00",
          { "2026-10-24T23:00", "2026-10-24T23:30", "2026-10-25T00:00",
            "2026-10-25T00:30", "2026-10-25T02:00", "2026-10-25T02:30",
            "2026-10-26T00:00" } },
        /* From within the second pass. */
        { "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", { "2026-10-26T01:30" } },
        { "30 3 * * *", "Europe/Berlin", "2026-10-25T01:10", { "2026-10-25T02:30" } },
        { "0 0-23 * * *",
          "Europe/Berlin",
          "2026-10-24T23:30",
          { "2026-10-25T00:00", "2026-10-25T02:00" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(all_others_follow_real_time)
{
    static const struct story stories[] = {
        { "*/30 * * * *",
          "Europe/Berlin",
          "2026-03-29T00:20",
          { "2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30" } },
        { "*/30 * * * *",
          "Europe/Berlin",
          "2026-10-25T00:20",
          { "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30",
            "2026-10-25T02:00" } },
        /* Its hour is not there, or is there twice. */
        { "*/30 2 * * *",
          "Europe/Berlin",
          "2026-03-28T01:20",
          { "2026-03-28T01:30", "2026-03-30T00:00" } },
        { "*/30 2 * * *",
          "Europe/Berlin",
          "2026-10-24T12:00",
          { "2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00",
            "2026-10-25T01:30", "2026-10-26T01:00" } },
        { "0 */2 * * *",
          "Europe/Berlin",
          "2026-03-28T22:30",
          { "2026-03-28T23:00", "2026-03-29T02:00" } },
        { "0 * * * *",
          "Europe/Berlin",
          "2026-10-24T23:30",
          { "2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(seconds_do_not_decide_what_is_a_fixed_time)
{
    static const struct story stories[] = {
        { "15 30 2 * * *",
          "Europe/Berlin",
          "2026-03-28T12:00",
          { "2026-03-29T01:00", "2026-03-30T00:30:15" } },
        { "*/30 30 2 * * *",
          "Europe/Berlin",
          "2026-03-28T12:00",
          { "2026-03-29T01:00", "2026-03-30T00:30", "2026-03-30T00:30:30" } },
        { "*/30 30 2 * * *",
          "Europe/Berlin",
          "2026-10-25T00:00",
          { "2026-10-25T00:30", "2026-10-25T00:30:30", "2026-10-26T01:30" } },
        { "0 * 2 * * *", "Europe/Berlin", "2026-03-28T12:00", { "2026-03-30T00:00" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(zones_that_change_at_odd_times_by_odd_amounts)
{
    static const struct story stories[] = {
        /* Midnight itself is skipped. */
        { "0 0 * * *",
          "America/Sao_Paulo",
          "2018-11-03T12:00",
          { "2018-11-04T03:00", "2018-11-05T02:00" } },
        { "@daily",
          "Asia/Beirut",
          "2026-03-28T12:00",
          { "2026-03-28T22:00", "2026-03-29T21:00" } },
        /* Midnight is there twice. */
        { "0 0 * * *",
          "America/Havana",
          "2026-10-31T12:00",
          { "2026-11-01T04:00", "2026-11-02T05:00" } },
        /* Half an hour. */
        { "10 2 * * *",
          "Australia/Lord_Howe",
          "2026-10-03T12:00",
          { "2026-10-03T15:30", "2026-10-04T15:10" } },
        { "40 1 * * *",
          "Australia/Lord_Howe",
          "2026-04-04T12:00",
          { "2026-04-04T14:40", "2026-04-05T15:10" } },
        /* Two hours. */
        { "30 1,2 * * *",
          "Antarctica/Troll",
          "2026-03-28T12:00",
          { "2026-03-29T01:00", "2026-03-29T23:30", "2026-03-30T00:30" } },
        /* Summer is the standard, winter less. */
        { "30 1 * * *",
          "Europe/Dublin",
          "2026-03-28T12:00",
          { "2026-03-29T01:00", "2026-03-30T00:30" } },
        { "30 1 * * *",
          "Europe/Dublin",
          "2026-10-24T12:00",
          { "2026-10-25T00:30", "2026-10-26T01:30" } },
        /* Seconds of local mean time. */
        { "0 12 * * *",
          "Europe/Berlin",
          "1893-03-30T12:00",
          { "1893-03-31T11:06:32", "1893-04-01T11:00" } },
        { "0 12 * * *",
          "Africa/Monrovia",
          "1972-01-06T00:00",
          { "1972-01-06T12:44:30", "1972-01-07T12:00" } },
        /* Beyond what files list: by their rule. */
        { "30 2 * * *",
          "Europe/Berlin",
          "2700-03-24T12:00",
          { "2700-03-25T01:00", "2700-03-26T00:30" } },
    };
    tell_all(stories, array_len(stories));
}

TEST(a_day_that_a_country_left_out_is_not_caught_up)
{
    static const struct story stories[] = {
        { "0 12 * * *",
          "Pacific/Apia",
          "2011-12-29T12:00",
          { "2011-12-29T22:00", "2011-12-30T22:00" } },
        { "0 0 * * *",
          "Pacific/Apia",
          "2011-12-29T00:00",
          { "2011-12-29T10:00", "2011-12-30T10:00", "2011-12-31T10:00" } },
        { "0 12 30 12 *", "Pacific/Apia", "2011-01-01T00:00", { "2012-12-29T22:00" } },
        { "0 12 * * 5",
          "Pacific/Apia",
          "2011-12-24T00:00",
          { "2012-01-05T22:00" } }, /* the Friday was the 30th */
        { "0 12 31 12 *",
          "Pacific/Kiritimati",
          "1993-06-01T00:00",
          { "1993-12-31T22:00", "1995-12-30T22:00" } },
        /* A day that was there twice, but for an hour. */
        { "0 12 * * *",
          "Pacific/Kwajalein",
          "1969-09-29T12:00",
          { "1969-09-30T01:00", "1969-10-02T00:00" } },
    };
    tell_all(stories, array_len(stories));
}

/* ---- against a clock that is watched ---- */

/* A field as a text and as a set, made at once by the plainest means. */
struct guess {
    char text[80];
    bool set[60];
};

static void add_item(struct rng *rng, int least, int most, struct guess *out)
{
    char item[24];
    int a = (int)rng_between(rng, least, most), b = (int)rng_between(rng, a, most);
    int step = (int)rng_between(rng, 1, most - least + 1);

    switch (rng_below(rng, 6)) {
    case 0:
        snprintf(item, sizeof(item), "*/%d", step);
        a = least, b = most;
        break;
    case 1:
        snprintf(item, sizeof(item), "%d-%d", a, b);
        step = 1;
        break;
    case 2:
        snprintf(item, sizeof(item), "%d-%d/%d", a, b, step);
        break;
    case 3:
        snprintf(item, sizeof(item), "%d/%d", a, step);
        b = most;
        break;
    default:
        snprintf(item, sizeof(item), "%d", a);
        b = a;
        break;
    }
    if (out->text[0])
        strcat(out->text, ",");
    strcat(out->text, item);
    for (int i = a; i <= b; i += step)
        out->set[i] = true;
}

static void make_field(struct rng *rng, int least, int most, int star_in_ten,
                       struct guess *out)
{
    *out = (struct guess){ 0 };
    if ((int)rng_below(rng, 10) < star_in_ten) {
        strcpy(out->text, "*");
        memset(out->set, true, sizeof(out->set));
        return;
    }
    for (uint64_t n = 1 + rng_below(rng, 3); n > 0; n--)
        add_item(rng, least, most, out);
}

struct guesses {
    struct guess minute, hour, day, month, weekday;
    char text[400];
};

static void make_expression(struct rng *rng, struct guesses *out)
{
    make_field(rng, 0, 59, 2, &out->minute);
    make_field(rng, 0, 23, 3, &out->hour);
    make_field(rng, 1, 31, 5, &out->day);
    make_field(rng, 1, 12, 8, &out->month);
    make_field(rng, 0, 6, 5, &out->weekday);
    snprintf(out->text, sizeof(out->text), "%s %s %s %s %s", out->minute.text,
             out->hour.text, out->day.text, out->month.text, out->weekday.text);
}

static bool shows(const struct guesses *g, int64_t local_s)
{
    time_t seconds = (time_t)local_s;
    struct tm tm;

    check(gmtime_r(&seconds, &tm));
    bool day = g->day.set[tm.tm_mday], weekday = g->weekday.set[tm.tm_wday];
    bool either = g->day.text[0] != '*' && g->weekday.text[0] != '*';
    return tm.tm_sec == 0 && g->minute.set[tm.tm_min] && g->hour.set[tm.tm_hour] &&
           g->month.set[tm.tm_mon + 1] && (either ? day || weekday : day && weekday);
}

/* Watches from three days before `from_s`, so that it knows what was shown. */
static void watch(const struct guesses *g, const struct tz *tz, int64_t from_s,
                  int64_t to_s, size_t *fires)
{
    struct cron cron = parse(g->text);
    bool is_fixed = g->minute.text[0] != '*' && g->hour.text[0] != '*';
    int64_t next_us, latest_s = INT64_MIN, start_s = from_s - 3 * SECONDS_PER_DAY;
    bool more = cron_next(&cron, tz, (from_s - 1) * US_PER_S, &next_us);

    for (int64_t t = start_s; t < to_s; t += 60) {
        int64_t local_s = t + tz_at(tz, t).offset_s;
        bool due = shows(g, local_s);
        if (is_fixed && local_s <= latest_s)
            due = false;
        if (is_fixed && latest_s > INT64_MIN && local_s - latest_s < SECONDS_PER_DAY)
            for (int64_t skipped = latest_s + 60; skipped < local_s; skipped += 60)
                due = due || shows(g, skipped);
        if (local_s > latest_s)
            latest_s = local_s;
        if (t < from_s)
            continue;
        if (due != (more && next_us == t * US_PER_S))
            fail("%s in %s: at %lld it %s, and next is %lld", g->text, tz_name(tz),
                 (long long)t, due ? "fires" : "does not fire",
                 more ? (long long)(next_us / US_PER_S) : -1);
        if (due) {
            more = cron_next(&cron, tz, t * US_PER_S, &next_us);
            (*fires)++;
        }
    }
}

TEST(random_expressions_fire_when_a_watched_clock_says_so)
{
    /* Times around which clocks change; all at whole minutes. */
    static const char *const places[][2] = {
        { "Europe/Berlin", "2026-03-29T01:00" },
        { "Europe/Berlin", "2026-10-25T01:00" },
        { "America/New_York", "2027-03-14T07:00" },
        { "America/Sao_Paulo", "2018-11-04T03:00" },
        { "America/Sao_Paulo", "2018-02-18T02:00" },
        { "Asia/Beirut", "2026-03-28T22:00" },
        { "Australia/Lord_Howe", "2026-04-04T15:00" },
        { "Australia/Lord_Howe", "2026-10-03T15:30" },
        { "Antarctica/Troll", "2026-03-29T01:00" },
        { "Europe/Dublin", "2026-10-25T01:00" },
        { "Pacific/Apia", "2011-12-30T10:00" },
        { "Pacific/Kwajalein", "1969-09-30T13:00" },
        { "Pacific/Kiritimati", "1994-12-31T10:00" },
        { "Africa/Casablanca", "2026-02-15T02:00" },
        { "Asia/Tehran", "2022-03-21T20:30" },
        { "UTC", "2028-02-28T12:00" },
    };
    struct rng rng;
    size_t fires = 0;
    int rounds = test_many(40);

    rng_seed(&rng, 11);
    for (size_t i = 0; i < array_len(places); i++) {
        struct tz *tz = load(places[i][0]);
        int64_t at_s = utc_us(places[i][1]) / US_PER_S;
        for (int n = 0; n < rounds; n++) {
            struct guesses g;
            make_expression(&rng, &g);
            watch(&g, tz, at_s - 2 * SECONDS_PER_DAY, at_s + 3 * SECONDS_PER_DAY, &fires);
        }
        tz_free(tz);
    }
    check(fires > 0);
    test_note("%zu fires of %zu expressions", fires, array_len(places) * (size_t)rounds);
}

TEST(a_year_of_seconds_has_a_fire_each)
{
    struct cron cron = parse("* * * * * *");
    struct tz *tz = load("Europe/Berlin");
    int64_t at_us = utc_us("2026-01-01T00:00"), seconds = test_many(366 * 86400);
    int64_t began_us = test_monotonic_us();

    for (int64_t i = 0; i < seconds; i++) {
        int64_t before_us = at_us;
        check(cron_next(&cron, tz, at_us, &at_us));
        check(at_us == before_us + US_PER_S);
    }
    test_note("%lld ns for the next of a schedule every second",
              (long long)((test_monotonic_us() - began_us) * 1000 / seconds));
    tz_free(tz);
}
