/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 against published digests; hash64 against what a hash table and an
 * adversary would notice. */
#include <stdio.h>

#include "base/hash.h"
#include "base/rng.h"
#include "test.h"

static const char *digest(struct slice bytes)
{
    static char hex[SHA256_HEX_BYTES];

    check_ok(sha256_hex(bytes, hex));
    return hex;
}

TEST(sha256_gives_the_published_digests)
{
    static char million[1000000];

    check_str(digest(SLICE("")),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_str(digest((struct slice){ NULL, 0 }),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_str(digest(SLICE("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_str(digest(SLICE("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', sizeof(million));
    check_str(digest((struct slice){ million, sizeof(million) }),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(the_raw_digest_and_its_spelling_agree)
{
    uint8_t raw[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    check_ok(sha256(SLICE("abc"), raw));
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)raw[i]);
    check_str(hex, digest(SLICE("abc")));
}

TEST(equal_bytes_and_seeds_give_equal_hashes_wherever_they_stand)
{
    char bytes[64 + 8];

    for (size_t shift = 0; shift < 8; shift++) {
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes + shift, "some bytes, more than a few words of them", 41);
        check(hash64(5, (struct slice){ bytes + shift, 41 }) ==
              hash64(5, SLICE("some bytes, more than a few words of them")));
    }
}

TEST(length_is_part_of_what_is_hashed)
{
    static const char zeros[40];

    for (size_t a = 0; a < sizeof(zeros); a++)
        for (size_t b = 0; b < a; b++)
            check(hash64(1, (struct slice){ zeros, a }) !=
                  hash64(1, (struct slice){ zeros, b }));
}

/* The share of output bits that change when one input bit does: a half, if the
 * hash is good, for each input bit. */
TEST(one_bit_of_the_key_changes_half_of_the_hash)
{
    struct rng rng;

    rng_seed(&rng, 1);
    for (size_t bit = 0; bit < 20 * 8; bit++) {
        int changed = 0;
        for (int round = 0; round < 200; round++) {
            char key[20];
            for (size_t i = 0; i < sizeof(key); i++)
                key[i] = (char)rng_next(&rng);
            uint64_t seed = rng_next(&rng);
            uint64_t before = hash64(seed, (struct slice){ key, sizeof(key) });
            key[bit / 8] ^= (char)(1 << bit % 8);
            changed += __builtin_popcountll(
                before ^ hash64(seed, (struct slice){ key, sizeof(key) }));
        }
        check(changed > 200 * 28 && changed < 200 * 36);
    }
}

TEST(keys_in_a_row_fill_a_table_evenly)
{
    enum { BUCKETS = 1024, KEYS = 64 * BUCKETS };
    static int low[BUCKETS], high[BUCKETS], text[BUCKETS];

    for (uint64_t id = 0; id < KEYS; id++) {
        char key[32];
        int n = snprintf(key, sizeof(key), "source-%llu", (unsigned long long)id);
        low[hash64_int(9, id) % BUCKETS]++;
        high[hash64_int(9, id << 20) >> 54]++;
        text[hash64(9, (struct slice){ key, (size_t)n }) % BUCKETS]++;
    }
    for (int i = 0; i < BUCKETS; i++) {
        check(low[i] > 20 && low[i] < 120);
        check(high[i] > 20 && high[i] < 120);
        check(text[i] > 20 && text[i] < 120);
    }
}

TEST(no_pair_of_keys_collides_under_many_seeds)
{
    /* Differences in the top bits that a fixed multiplier would cancel. */
    uint64_t a[2] = { 0, 0 }, b[2] = { UINT64_C(1) << 63, UINT64_C(1) << 63 | 1u << 31 };
    int collisions = 0;

    for (uint64_t seed = 0; seed < 1000; seed++) {
        for (int shift = 0; shift < 64; shift++) {
            b[1] = UINT64_C(1) << 63 | UINT64_C(1) << shift;
            collisions += hash64(seed, (struct slice){ (char *)a, 16 }) ==
                          hash64(seed, (struct slice){ (char *)b, 16 });
        }
    }
    check_int(collisions, 0);
}

TEST(another_seed_is_another_hash)
{
    check(hash64(1, SLICE("key")) != hash64(2, SLICE("key")));
    check(hash64_int(1, 77) != hash64_int(2, 77));
    check(hash64(0, SLICE("")) != hash64(1, SLICE("")));
}

TEST(secrets_are_equal_only_byte_for_byte)
{
    check(secret_equal(SLICE("token"), SLICE("token")));
    check(!secret_equal(SLICE("token"), SLICE("tokem")));
    check(!secret_equal(SLICE("token"), SLICE("toke")));
    check(!secret_equal(SLICE("toke"), SLICE("token")));
    check(!secret_equal(SLICE("token"), SLICE("")));
    check(secret_equal(SLICE(""), (struct slice){ NULL, 0 }));
}
