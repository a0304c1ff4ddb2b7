/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a policy, right and wrong: what the delays are, and that nothing
 * malformed is accepted. */
#include "engine/retry.h"
#include "test.h"

static int64_t delay_s(const char *policy, int index)
{
    return retry_delay_us(slice_of(policy), index, NULL) / US_PER_S;
}

TEST(the_last_entry_of_a_list_repeats)
{
    check_int(delay_s("60,300,900", 0), 60);
    check_int(delay_s("60,300,900", 2), 900);
    check_int(delay_s("60,300,900", 3), 900);
    check_int(delay_s("60,300,900", 1000000), 900);
    check_int(delay_s("7", 5), 7);
    check_int(delay_s("0", 0), 0);
}

TEST(an_exponential_delay_doubles_up_to_its_cap)
{
    static const int64_t expected[] = { 10, 20, 40, 80, 100, 100 };

    for (int i = 0; i < (int)array_len(expected); i++)
        check_int(delay_s("exp:10:100:0", i), expected[i]);
    check_int(delay_s("exp:10:100:0", 1 << 30), 100);
    check_int(delay_s("exp:1:2592000:0", 64), 2592000); /* no overflow on the way */
}

TEST(jitter_adds_up_to_its_percentage_and_a_seed_replays_it)
{
    struct slice policy = SLICE("exp:100:1000:20");
    struct rng rng, again;
    int64_t lowest = INT64_MAX, highest = 0;

    rng_seed(&rng, 42);
    rng_seed(&again, 42);
    for (int i = 0; i < 5000; i++) {
        int64_t delay = retry_delay_us(policy, 1, &rng);
        check(delay >= 200 * US_PER_S && delay <= 240 * US_PER_S);
        check_int(retry_delay_us(policy, 1, &again), delay);
        lowest = delay < lowest ? delay : lowest;
        highest = delay > highest ? delay : highest;
    }
    check(lowest < 201 * US_PER_S && highest > 239 * US_PER_S); /* all of the range */
}

TEST(a_policy_that_is_right_is_accepted)
{
    static const char *const right[] = {
        "0",
        "60,300,900",
        "2592000",
        "exp:1:1:0",
        "exp:10:3600:20",
        "exp:1:2592000:100",
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
        "007",
    };
    struct error error = { 0 };

    for (size_t i = 0; i < array_len(right); i++)
        check_ok(retry_policy_check(slice_of(right[i]), &error));
    check_int(error.code, 0);
}

TEST(a_malformed_policy_is_refused_and_waits_a_minute_where_it_is_stored)
{
    static const char *const wrong[] = {
        "",
        ",",
        "60,",
        ",60",
        "60,,300",
        " 60",
        "60 ",
        "60, 300",
        "-1",
        "+1",
        "1.5",
        "1e3",
        "soon",
        "60;300",
        "60:300",
        "2592001",
        "9999999999",
        "99999999999999999999",
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21",
        "exp",
        "exp:",
        "exp:10",
        "exp:10:100",
        "exp:10:100:",
        "exp:10:100:20:",
        "exp:10:100:20:1",
        "exp:0:100:20",
        "exp:50:20:0", /* a cap below the base */
        "exp:10:100:101",
        "exp:10,100,20",
        "EXP:10:100:20",
        "exp:-1:100:20",
        "exp::100:20",
        "exp:10:2592001:20",
        "60\n",
        "\xff",
    };
    for (size_t i = 0; i < array_len(wrong); i++) {
        struct error error = { 0 };
        if (retry_policy_check(slice_of(wrong[i]), &error) != -HF_INVALID)
            fail("\"%s\" was accepted", wrong[i]);
        check_str(error.field, "retryDelaysSeconds");
        check(strstr(error.text, "from 0 to 2592000") != NULL);
        check_int(retry_delay_us(slice_of(wrong[i]), 0, NULL), 60 * US_PER_S);
    }
}

TEST(a_nul_in_a_policy_is_refused)
{
    check_err(retry_policy_check((struct slice){ "60\0", 3 }, NULL), -HF_INVALID);
    check_err(retry_policy_check((struct slice){ NULL, 0 }, NULL), -HF_INVALID);
}
