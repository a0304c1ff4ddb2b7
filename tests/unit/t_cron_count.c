/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting fire times against stepping through them: any expression, any zone, over
 * changes of the clocks, gaps of a day and times that never come. */
#include "base/cron.h"
#include "base/rng.h"
#include "test.h"

static const char *const zones[] = {
    "UTC",          "Europe/Berlin",     "America/New_York", "Australia/Lord_Howe",
    "Pacific/Apia", "Asia/Kathmandu",    "America/St_Johns", "Africa/Casablanca",
    "Asia/Gaza",    "America/Sao_Paulo", "Europe/Dublin",    "Antarctica/Troll",
    "Asia/Tehran",  "Pacific/Chatham",   "Pacific/Kwajalein"
};

static const char *const expressions[] = {
    "* * * * * *",  "*/7 * * * * *", "0 * * * *",     "*/15 * * * *", "30 2 * * *",
    "*/20 2 * * *", "0 0 * * *",     "59 23 31 12 *", "0 */3 * * *",  "15,45 1-3 * * *",
    "0 0 L * *",    "0 12 13 * fri", "0 3 * * 5#2",   "0 3 */2 * *",  "10-20 30 2 * * *",
    "0 0 29 2 *",   "5 0 1 1 *",     "* 2 * * sun",   "0 0 30 2 *",   "30 * * * *",
};

static int64_t step_through(const struct cron *cron, const struct tz *tz, int64_t after,
                            int64_t until)
{
    int64_t n = 0;
    while (cron_next(cron, tz, after, &after) && after <= until)
        n++;
    return n;
}

static struct tz *load(const char *name)
{
    struct error error = { 0 };
    struct tz *tz = NULL;
    if (tz_load(NULL, slice_of(name), &error, &tz) < 0)
        fail("%s", error.text);
    return tz;
}

static void compare(const char *text, const struct tz *tz, int64_t after, int64_t until)
{
    struct error error = { 0 };
    struct cron cron;
    if (cron_parse(slice_of(text), &error, &cron) < 0)
        fail("%s", error.text);
    int64_t counted = cron_count(&cron, tz, after, until);
    int64_t stepped = step_through(&cron, tz, after, until);
    if (counted != stepped)
        fail("%s in %s: %lld counted, %lld stepped in (%lld, %lld]", text, tz_name(tz),
             (long long)counted, (long long)stepped, (long long)after, (long long)until);
}

TEST(counting_agrees_with_stepping)
{
    struct rng rng;
    rng_seed(&rng, 17);
    for (size_t z = 0; z < array_len(zones); z++) {
        struct tz *tz = load(zones[z]);
        for (size_t e = 0; e < array_len(expressions); e++)
            for (int i = 0; i < test_many(12); i++) {
                /* Frequent ones over hours, rare ones over years. */
                int64_t spans[] = { 3 * 3600, 40 * 3600, 500 * 86400 };
                int64_t span = spans[e < 2 ? 0 : e < 4 ? 1 : 2] * US_PER_S;
                int64_t after = (int64_t)rng_below(&rng, 60ull * 366 * 86400) * US_PER_S +
                                (int64_t)rng_below(&rng, 3) * 500000;
                int64_t until = after + (int64_t)rng_below(&rng, (uint64_t)span);
                compare(expressions[e], tz, after, until);
            }
        tz_free(tz);
    }
}

/* Each change of clocks from 1990 on, seen from just before and from its midst. */
TEST(counting_agrees_with_stepping_around_every_change_of_the_clocks)
{
    for (size_t z = 1; z < array_len(zones); z++) {
        struct tz *tz = load(zones[z]);
        int64_t at = 631152000;
        for (int i = 0; i < test_many(80); i++) {
            at = tz_at(tz, at).end_s;
            if (at > INT64_C(4102444800))
                break;
            for (size_t e = 1; e < array_len(expressions) - 1; e++) {
                int64_t around = e < 4 ? 4 * 3600 : 30 * 3600;
                compare(expressions[e], tz, (at - around) * US_PER_S,
                        (at + around) * US_PER_S);
                compare(expressions[e], tz, (at - 1) * US_PER_S, at * US_PER_S);
                compare(expressions[e], tz, at * US_PER_S, (at + 5400) * US_PER_S);
            }
        }
        tz_free(tz);
    }
}

TEST(a_century_of_seconds_is_counted_at_once)
{
    struct cron cron;
    check_ok(cron_parse(SLICE("* * * * * *"), NULL, &cron));
    struct tz *tz = load("Europe/Berlin");
    int64_t from = INT64_C(1700000000);
    check_int(cron_count(&cron, tz, from * US_PER_S, (from + 3155760000) * US_PER_S),
              INT64_C(3155760000)); /* real time has no gaps */
    check_int(cron_count(&cron, tz, from * US_PER_S, from * US_PER_S), 0);
    check_int(cron_count(&cron, tz, from * US_PER_S, from * US_PER_S - 1), 0);
    tz_free(tz);
}
