/* SPDX-License-Identifier: Apache-2.0
 *
 * Zones: every one on this machine against the C library, what the clocks do around
 * their changes, and files that are none. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/calendar.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/tz.h"
#include "tzif.h"

static struct tz *load(const char *name)
{
    struct error error = { 0 };
    struct tz *tz = NULL;

    if (tz_load(NULL, slice_of(name), &error, &tz) < 0)
        fail("%s", error.text);
    return tz;
}

static int64_t utc(const char *text)
{
    int64_t us;
    check_ok(time_parse(slice_of(text), &us));
    return us / US_PER_S;
}

/* ---- against the C library ---- */

static struct {
    char names[2000][LIMIT_ZONE_BYTES + 1];
    size_t count;
} zones;

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + strlen(TZ_DIR) + 1;
    char magic[4] = "";

    (void)st, (void)ftw;
    /* posix/ is the same once more, right/ counts leap seconds.  Of a file that has
     * several names nftw() gives one. */
    if (type == FTW_F && strncmp(name, "posix/", 6) != 0 &&
        strncmp(name, "right/", 6) != 0) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, magic, 4) == 4 && memcmp(magic, "TZif", 4) == 0) {
            check(zones.count < array_len(zones.names));
            check(strlen(name) <= LIMIT_ZONE_BYTES);
            strcpy(zones.names[zones.count++], name);
        }
        close(fd);
    }
    return 0;
}

static void find_zones(void)
{
    zones.count = 0;
    check(nftw(TZ_DIR, visit, 16, 0) == 0);
    check(zones.count > 300);
}

static void compare(const struct tz *tz, int64_t utc_s)
{
    time_t seconds = (time_t)utc_s;
    struct tz_period p = tz_at(tz, utc_s);
    struct tm tm;

    check(localtime_r(&seconds, &tm));
    if (tm.tm_gmtoff != p.offset_s || (tm.tm_isdst > 0) != p.is_dst ||
        strcmp(tm.tm_zone, p.abbreviation) != 0)
        fail("%s at %lld: %d %d %s, not %ld %d %s", tz_name(tz), (long long)utc_s,
             p.offset_s, p.is_dst, p.abbreviation, tm.tm_gmtoff, tm.tm_isdst, tm.tm_zone);
    check(p.start_s <= utc_s && utc_s < p.end_s);
}

/* Around each change up to 2500; on the way, that changes change something. */
static size_t compare_changes(const struct tz *tz)
{
    const int64_t end_s = utc("2500-01-01T00:00:00Z");
    struct tz_period p = tz_at(tz, utc("1800-01-01T00:00:00Z"));
    size_t count = 0;

    while (p.end_s < end_s) {
        for (int64_t by_s = -1; by_s <= 1; by_s++)
            compare(tz, p.end_s + by_s);
        struct tz_period next = tz_at(tz, p.end_s);
        check(next.start_s == p.end_s);
        check(next.offset_s != p.offset_s || next.is_dst != p.is_dst ||
              strcmp(next.abbreviation, p.abbreviation) != 0);
        p = next;
        count++;
    }
    return count;
}

TEST_SLOW(all_zones_of_this_machine_are_the_c_librarys, 600)
{
    const int64_t from_s = utc("1900-01-01T00:00:00Z"),
                  to_s = utc("2500-01-01T00:00:00Z");
    struct rng rng;
    size_t changes = 0, instants = 0;

    rng_seed(&rng, 7);
    find_zones();
    int share = test_many(1 << 20) < 1 << 20 ? 20 : 1;
    for (size_t i = 0; i < zones.count; i += (size_t)share) {
        struct tz *tz = load(zones.names[i]);
        check(setenv("TZ", zones.names[i], 1) == 0);
        tzset();
        changes += compare_changes(tz);
        for (int64_t t = from_s; t < to_s; t += 31 * SECONDS_PER_DAY, instants++)
            compare(tz, t + (int64_t)rng_below(&rng, 31 * SECONDS_PER_DAY));
        tz_free(tz);
    }
    check(unsetenv("TZ") == 0);
    tzset();
    test_note("%zu zones, %zu changes, %zu instants as in the C library", zones.count,
              changes, changes * 3 + instants);
}

TEST(the_rule_goes_on_for_ever)
{
    struct tz *tz = load("Europe/Berlin");
    const int64_t cycle_s = (int64_t)DAYS_IN_400_YEARS * SECONDS_PER_DAY;

    for (int64_t t = utc("2100-01-01T00:00:00Z"); t < utc("2500-01-01T00:00:00Z");
         t += 5 * SECONDS_PER_DAY) {
        struct tz_period now = tz_at(tz, t);
        for (int cycles = 1; cycles < 19; cycles += 17) {
            struct tz_period then = tz_at(tz, t + cycles * cycle_s);
            check(then.offset_s == now.offset_s && then.is_dst == now.is_dst);
            check(then.start_s == now.start_s + cycles * cycle_s);
            check(then.end_s == now.end_s + cycles * cycle_s);
        }
    }
    check_int(tz_at(tz, utc("9999-07-01T00:00:00Z")).offset_s, 7200);
    check_int(tz_at(tz, utc("9999-12-01T00:00:00Z")).offset_s, 3600);
    tz_free(tz);
}

TEST(times_before_the_first_change_are_local_mean_time)
{
    struct tz *tz = load("Europe/Berlin");
    struct tz_period p = tz_at(tz, utc("0000-01-01T00:00:00Z"));

    check_int(p.offset_s, 53 * 60 + 28);
    check_str(p.abbreviation, "LMT");
    check(p.start_s == INT64_MIN);
    tz_free(tz);
}

/* ---- from local time ---- */

/* A clock on the wall, and when it is reached; in seconds, by how much it was jumped
 * over. */
static const struct {
    const char *zone, *local, *utc;
    int64_t gap_s;
} reached[] = {
    { "UTC", "2026-06-01T12:00:00Z", "2026-06-01T12:00:00Z", 0 },
    { "Europe/Berlin", "2026-06-01T12:00:00Z", "2026-06-01T10:00:00Z", 0 },
    { "Europe/Berlin", "2026-03-29T01:59:59Z", "2026-03-29T00:59:59Z", 0 },
    { "Europe/Berlin", "2026-03-29T02:00:00Z", "2026-03-29T01:00:00Z", 3600 },
    { "Europe/Berlin", "2026-03-29T02:59:59Z", "2026-03-29T01:00:00Z", 3600 },
    { "Europe/Berlin", "2026-03-29T03:00:00Z", "2026-03-29T01:00:00Z", 0 },
    { "Europe/Berlin", "2026-10-25T02:00:00Z", "2026-10-25T00:00:00Z", 0 },
    { "Europe/Berlin", "2026-10-25T02:59:59Z", "2026-10-25T00:59:59Z", 0 },
    { "Europe/Berlin", "2026-10-25T03:00:00Z", "2026-10-25T02:00:00Z", 0 },
    { "Europe/Dublin", "2026-03-29T01:30:00Z", "2026-03-29T01:00:00Z", 3600 },
    { "Europe/Dublin", "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z", 0 },
    { "Australia/Lord_Howe", "2026-10-04T02:10:00Z", "2026-10-03T15:30:00Z", 1800 },
    { "Australia/Lord_Howe", "2026-04-05T01:40:00Z", "2026-04-04T14:40:00Z", 0 },
    { "America/Sao_Paulo", "2018-11-04T00:00:00Z", "2018-11-04T03:00:00Z", 3600 },
    { "Asia/Beirut", "2026-03-29T00:30:00Z", "2026-03-28T22:00:00Z", 3600 },
    { "Pacific/Apia", "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z", 86400 },
    { "Pacific/Apia", "2011-12-29T23:59:59Z", "2011-12-30T09:59:59Z", 0 },
    { "Pacific/Kwajalein", "1969-09-30T22:00:00Z", "1969-09-30T11:00:00Z", 0 },
    { "Europe/Berlin", "1893-04-01T00:03:00Z", "1893-03-31T23:06:32Z", 392 },
    { "Europe/Berlin", "2700-03-25T02:30:00Z", "2700-03-25T01:00:00Z", 3600 },
};

TEST(a_local_time_is_reached_when_the_clocks_first_show_it_or_pass_it)
{
    for (size_t i = 0; i < array_len(reached); i++) {
        struct tz *tz = load(reached[i].zone);
        struct tz_reached got = tz_reach(tz, utc(reached[i].local));
        if (got.utc_s != utc(reached[i].utc) || got.gap_s != reached[i].gap_s)
            fail("%s %s: %+lld seconds, gap %lld", reached[i].zone, reached[i].local,
                 (long long)(got.utc_s - utc(reached[i].utc)), (long long)got.gap_s);
        tz_free(tz);
    }
}

/* Second by second, by the definitions themselves. */
static void walk(const char *zone, const char *from, int64_t seconds)
{
    struct tz *tz = load(zone);
    const int64_t from_s = utc(from) - 3 * SECONDS_PER_DAY;
    int64_t latest_s = INT64_MIN;

    for (int64_t t = from_s; t < from_s + 3 * SECONDS_PER_DAY + seconds; t++) {
        int64_t local_s = t + tz_at(tz, t).offset_s, before_s = latest_s;
        if (local_s > latest_s)
            latest_s = local_s;
        if (t < from_s + 3 * SECONDS_PER_DAY)
            continue; /* what was shown before is not known here */
        check_int(tz_latest_local(tz, t), latest_s);
        struct tz_reached got = tz_reach(tz, latest_s);
        if (latest_s > before_s)
            check(got.utc_s == t && got.gap_s == 0);
        if (latest_s > before_s + 1) {
            got = tz_reach(tz, before_s + 1);
            check(got.utc_s == t && got.gap_s == latest_s - before_s - 1);
        }
    }
    tz_free(tz);
}

TEST(the_latest_local_time_stands_still_while_clocks_repeat_themselves)
{
    walk("Europe/Berlin", "2026-03-29T00:00:00Z", 7200);
    walk("Europe/Berlin", "2026-10-24T22:00:00Z", 5 * 3600);
    walk("Pacific/Apia", "2011-12-30T00:00:00Z", 86400);
    walk("Pacific/Kwajalein", "1969-09-30T00:00:00Z", 3 * 86400);
    walk("Australia/Lord_Howe", "2026-04-04T12:00:00Z", 86400);
    walk("Antarctica/Troll", "2026-10-24T12:00:00Z", 86400);
}

/* ---- by name ---- */

TEST(a_zone_is_called_by_components_of_letters_digits_and_a_few_marks)
{
    static const char *const good[] = {
        "UTC", "Europe/Berlin", "Etc/GMT+1", "GMT-0", "America/Argentina/Buenos_Aires",
        "a.b"
    };
    static const char *const bad[] = {
        "",
        "/",
        "/etc/passwd",
        "../x",
        "Europe/..",
        "Europe/../x",
        ".",
        "Europe/.",
        "Europe//Berlin",
        "Europe/",
        "Europe Berlin",
        "Z\xc3\xbcrich",
        "a\nb",
        ":UTC",
        "0123456789012345678901234567890123456789012345678901234567890123x",
    };

    for (size_t i = 0; i < array_len(good); i++)
        check(tz_name_valid(slice_of(good[i])));
    for (size_t i = 0; i < array_len(bad); i++) {
        struct error error = { 0 };
        struct tz *tz = NULL;
        check(!tz_name_valid(slice_of(bad[i])));
        check_err(tz_load(NULL, slice_of(bad[i]), &error, &tz), -HF_INVALID);
        check_str(error.field, "timeZone");
        check(strstr(error.text, "Europe/Berlin") && !tz);
    }
    check(!tz_name_valid(SLICE("UTC\0x")));
    check(!tz_name_valid((struct slice){ NULL, 0 }));
}

TEST(utc_needs_no_file_and_others_are_missed_by_name)
{
    static const char *const names[] = { "UTC", "Etc/UTC", "GMT" };
    struct error error = { 0 };
    struct tz *tz = NULL;

    for (size_t i = 0; i < array_len(names); i++) {
        check_ok(tz_load(test_dir(), slice_of(names[i]), NULL, &tz));
        check_int(tz_at(tz, 0).offset_s, 0);
        check_str(tz_at(tz, 0).abbreviation, i == 2 ? "GMT" : "UTC");
        check_str(tz_name(tz), names[i]);
        check(tz_at(tz, 0).end_s == INT64_MAX);
        tz_free(tz);
    }
    tz = NULL;
    check_err(tz_load(test_dir(), SLICE("Europe/Berlin"), &error, &tz), -HF_NOT_FOUND);
    check(strstr(error.text, "there is no time zone \"Europe/Berlin\" on this machine"));
    check(!tz);
    check_str(tz_name(tz_utc()), "UTC");
    check_int(tz_at(tz_utc(), utc("2026-07-01T00:00:00Z")).offset_s, 0);
    tz_free(NULL);
}

TEST(what_is_no_zone_file_is_told_so)
{
    static const struct {
        const char *name, *part;
    } bad[] = {
        { "Europe", "no plain file" },
        { "tzdata.zi", "does not begin with TZif" },
        { "right/UTC", "leap seconds" },
    };

    for (size_t i = 0; i < array_len(bad); i++) {
        struct error error = { 0 };
        struct tz *tz = NULL;
        check_err(tz_load(NULL, slice_of(bad[i].name), &error, &tz), -HF_INVALID);
        if (!strstr(error.text, bad[i].part))
            fail("%s", error.text);
    }
}

TEST(a_file_that_is_too_large_or_would_make_us_wait_is_refused)
{
    struct error error = { 0 };
    struct tz *tz = NULL;

    int fd = open(test_path("Large"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    check(fd >= 0 && ftruncate(fd, LIMIT_ZONE_FILE_BYTES + 1) == 0);
    close(fd);
    check_err(tz_load(test_dir(), SLICE("Large"), &error, &tz), -HF_INVALID);
    check(strstr(error.text, "too large"));
    check(mkfifo(test_path("Pipe"), 0644) == 0);
    check_err(tz_load(test_dir(), SLICE("Pipe"), NULL, &tz), -HF_INVALID);
    check(!tz);
}
