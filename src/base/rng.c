/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.c -- xoshiro256** (Blackman and Vigna), seeded through splitmix64, as
 * their authors recommend: small, fast, and good enough for any simulation. */
#include "rng.h"

#include <errno.h>
#include <sys/random.h>

static uint64_t rotate_left(uint64_t x, int by)
{
    assert(by > 0 && by < 64);
    return x << by | x >> (64 - by);
}

/* Turns a counter into well mixed words, so that seeds 1 and 2 have nothing in
 * common. */
static uint64_t splitmix(uint64_t *counter)
{
    uint64_t z = *counter += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    assert(rng);
    for (size_t i = 0; i < array_len(rng->s); i++)
        rng->s[i] = splitmix(&seed);
    /* splitmix is a permutation: four different counters, at most one zero. */
    assert(rng->s[0] | rng->s[1]);
}

int rng_seed_system(struct rng *rng)
{
    uint64_t seed;
    int r = rng_system_bytes(&seed, sizeof(seed));

    if (r == 0)
        rng_seed(rng, seed);
    return r;
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    assert(s[0] | s[1] | s[2] | s[3]); /* else it was never seeded */
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t end)
{
    assert(end > 0);
    /* The lowest 2^64 mod `end` values would make some answers likelier. */
    uint64_t skip = -end % end;
    uint64_t draw = rng_next(rng);
    while (draw < skip)
        draw = rng_next(rng);
    return draw % end;
}

int64_t rng_between(struct rng *rng, int64_t least, int64_t most)
{
    assert(least <= most);
    uint64_t span = (uint64_t)most - (uint64_t)least;
    uint64_t offset = span == UINT64_MAX ? rng_next(rng) : rng_below(rng, span + 1);
    return (int64_t)((uint64_t)least + offset);
}

bool rng_one_in(struct rng *rng, uint64_t times)
{
    assert(times > 0);
    return rng_below(rng, times) == 0;
}

int rng_system_bytes(void *out, size_t n)
{
    char *p = out;

    assert(out || n == 0);
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -HF_SYSTEM;
        p += got;
        n -= (size_t)got;
    }
    return 0;
}
