/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h -- two hashes, for two kinds of trust.
 *
 * SHA-256 is for what an adversary may try to collide or invert: stored
 * tokens, and the body that belongs to an idempotency key.  hash64 is for
 * tables in memory: fast, and seeded, so that nobody outside can choose keys
 * that all fall into one bucket.  hash64 is never stored: its values may change
 * from one version to the next.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 2 * SHA256_BYTES + 1 };

/* The digest of `bytes`.  0, or -HF_NOMEM. */
must_check int sha256(struct slice bytes, uint8_t ret[SHA256_BYTES]);

/* The same as 64 small hexadecimal digits and a NUL. */
must_check int sha256_hex(struct slice bytes, char ret[SHA256_HEX_BYTES]);

/* A number that spreads well in all its 64 bits. */
uint64_t hash64(uint64_t seed, struct slice bytes);

/* The same for a number that is the key itself, such as an id. */
uint64_t hash64_int(uint64_t seed, uint64_t n);

/* True if the two are the same bytes, in a time that depends on their lengths
 * only: for comparing secrets. */
bool secret_equal(struct slice a, struct slice b);
