/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.h -- random numbers that a seed replays.
 *
 * Why it exists: jitter, ids of sessions and the choices of a simulation must
 * come out the same again from the same seed, on every machine.  The state is
 * passed by parameter; there is no hidden generator.
 *
 * Two sources, not to be confused.  `struct rng` is fast and predictable from
 * its output: never for secrets.  rng_system_bytes() is the kernel's, for
 * tokens and for seeds.
 *
 * Threads: a `struct rng` belongs to one at a time. */
#pragma once

#include "base.h"

struct rng {
    uint64_t s[4]; /* never all zero */
};

/* Starts the sequence that belongs to `seed`; every seed is a good one. */
void rng_seed(struct rng *rng, uint64_t seed);

/* Starts a sequence that nobody else has.  0 or -HF_SYSTEM. */
must_check int rng_seed_system(struct rng *rng);

/* 64 random bits. */
uint64_t rng_next(struct rng *rng);

/* A number in [0, end), each as likely as the other.  `end` is not 0. */
uint64_t rng_below(struct rng *rng, uint64_t end);

/* A number in [least, most], both included. */
int64_t rng_between(struct rng *rng, int64_t least, int64_t most);

/* True once in `times` calls, in the long run.  `times` is not 0. */
bool rng_one_in(struct rng *rng, uint64_t times);

/* Fills `n` bytes from the kernel, fit for secrets.  0 or -HF_SYSTEM. */
must_check int rng_system_bytes(void *out, size_t n);
