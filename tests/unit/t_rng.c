/* SPDX-License-Identifier: Apache-2.0
 *
 * A seed is a promise: the same numbers, on every machine, in every release,
 * or a failing simulation could not be replayed. */
/* test: wrap=getrandom */
#include <errno.h>
#include <sys/types.h>

#include "base/rng.h"
#include "test.h"

ssize_t __real_getrandom(void *out, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags);

static enum { KERNEL_WELL, KERNEL_STINGY, KERNEL_BROKEN } kernel;
static int calls;

ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags)
{
    calls++;
    if (kernel == KERNEL_BROKEN) {
        errno = ENOSYS;
        return -1;
    }
    if (kernel == KERNEL_STINGY && calls % 2) {
        errno = EINTR;
        return -1;
    }
    return __real_getrandom(out, kernel == KERNEL_STINGY && n > 3 ? 3 : n, flags);
}

TEST(a_seed_gives_the_same_numbers_for_ever)
{
    /* Worked out apart from this code, from the authors' definition. */
    static const uint64_t of_seed_42[] = {
        UINT64_C(0x15780b2e0c2ec716),
        UINT64_C(0x6104d9866d113a7e),
        UINT64_C(0xae17533239e499a1),
        UINT64_C(0xecb8ad4703b360a1),
    };
    struct rng rng;

    rng_seed(&rng, 42);
    for (size_t i = 0; i < array_len(of_seed_42); i++)
        check(rng_next(&rng) == of_seed_42[i]);
}

TEST(neighbouring_seeds_have_nothing_in_common)
{
    struct rng a, b;
    int same_bits = 0;

    rng_seed(&a, 0);
    rng_seed(&b, 1);
    for (int i = 0; i < 1000; i++)
        same_bits += __builtin_popcountll(~(rng_next(&a) ^ rng_next(&b)));
    check(same_bits > 31000 && same_bits < 33000);
}

TEST(every_bit_is_set_half_of_the_time)
{
    struct rng rng;
    int set[64] = { 0 };

    rng_seed(&rng, 7);
    for (int i = 0; i < 100000; i++) {
        uint64_t draw = rng_next(&rng);
        for (int bit = 0; bit < 64; bit++)
            set[bit] += (int)(draw >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++)
        check(set[bit] > 49000 && set[bit] < 51000);
}

TEST(numbers_below_an_end_are_evenly_spread)
{
    struct rng rng;
    int seen[7] = { 0 };

    rng_seed(&rng, 1);
    for (int i = 0; i < 70000; i++)
        seen[rng_below(&rng, 7)]++;
    for (size_t i = 0; i < array_len(seen); i++)
        check(seen[i] > 9500 && seen[i] < 10500);
    check_int(rng_below(&rng, 1), 0);
}

TEST(an_end_that_does_not_divide_two_to_the_64_is_not_skewed)
{
    /* Three quarters of the range: a bare remainder would give numbers of the
     * lower third twice as often. */
    const uint64_t end = UINT64_C(3) << 62;
    struct rng rng;
    int lower = 0;

    rng_seed(&rng, 3);
    for (int i = 0; i < 30000; i++) {
        uint64_t draw = rng_below(&rng, end);
        check(draw < end);
        lower += draw < end / 3;
    }
    check(lower > 9500 && lower < 10500);
}

TEST(both_ends_of_a_range_are_in_it)
{
    struct rng rng;
    bool least = false, most = false;

    rng_seed(&rng, 9);
    for (int i = 0; i < 1000; i++) {
        int64_t draw = rng_between(&rng, -2, 2);
        check(draw >= -2 && draw <= 2);
        least |= draw == -2;
        most |= draw == 2;
    }
    check(least && most);
    check_int(rng_between(&rng, 5, 5), 5);
    check_int(rng_between(&rng, INT64_MIN, INT64_MIN), INT64_MIN);
    bool negative = false, positive = false;
    for (int i = 0; i < 100; i++) {
        int64_t draw = rng_between(&rng, INT64_MIN, INT64_MAX);
        negative |= draw < 0;
        positive |= draw > 0;
    }
    check(negative && positive);
}

TEST(one_in_ten_is_about_one_in_ten)
{
    struct rng rng;
    int hits = 0;

    rng_seed(&rng, 11);
    for (int i = 0; i < 100000; i++)
        hits += rng_one_in(&rng, 10);
    check(hits > 9500 && hits < 10500);
    check(rng_one_in(&rng, 1));
}

TEST(two_processes_do_not_share_a_sequence)
{
    struct rng a, b;

    check_ok(rng_seed_system(&a));
    check_ok(rng_seed_system(&b));
    check(rng_next(&a) != rng_next(&b));
}

TEST(a_kernel_that_gives_little_at_a_time_is_asked_again)
{
    unsigned char bytes[64] = { 0 };
    int zeros = 0;

    kernel = KERNEL_STINGY;
    check_ok(rng_system_bytes(bytes, sizeof(bytes) - 1));
    check_int(bytes[63], 0); /* not one too many */
    for (size_t i = 0; i < 63; i++)
        zeros += bytes[i] == 0;
    check(zeros < 8);
    check_ok(rng_system_bytes(NULL, 0));
}

TEST(without_the_kernels_randomness_nothing_is_seeded)
{
    struct rng rng = { { 1, 2, 3, 4 } };

    kernel = KERNEL_BROKEN;
    check_err(rng_seed_system(&rng), -HF_SYSTEM);
    check_int(rng.s[0], 1);
}
