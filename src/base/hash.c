/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c -- SHA-256 by OpenSSL, hash64 by ourselves. */
#include "hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

int sha256(struct slice bytes, uint8_t ret[SHA256_BYTES])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;

    assert(bytes.p || bytes.n == 0);
    /* A digest that every OpenSSL has fails for want of memory only. */
    if (EVP_Digest(bytes.p ? bytes.p : "", bytes.n, digest, &length, EVP_sha256(),
                   NULL) != 1)
        return -HF_NOMEM;
    assert(length == SHA256_BYTES);
    memcpy(ret, digest, SHA256_BYTES);
    return 0;
}

int sha256_hex(struct slice bytes, char ret[SHA256_HEX_BYTES])
{
    static const char digit[] = "0123456789abcdef";
    uint8_t digest[SHA256_BYTES];
    int r = sha256(bytes, digest);

    if (r < 0)
        return r;
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        ret[2 * i] = digit[digest[i] >> 4];
        ret[2 * i + 1] = digit[digest[i] & 15];
    }
    ret[SHA256_HEX_BYTES - 1] = '\0';
    return 0;
}

/* Both halves of the product, laid over each other: each bit of either factor
 * reaches every part of the result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The multiplier is made from the seed.  With a fixed one, two differences can
 * be chosen that cancel under every seed; with a secret one they cannot. */
static uint64_t key_of(uint64_t seed)
{
    return fold(seed ^ UINT64_C(0x8F1BBCDC5A827999), UINT64_C(0xD6E8FEB86659FD93)) | 1;
}

uint64_t hash64_int(uint64_t seed, uint64_t n)
{
    uint64_t key = key_of(seed);

    return fold(fold(n ^ key, key) ^ seed, UINT64_C(0x9E6C63D0876A9A47));
}

uint64_t hash64(uint64_t seed, struct slice bytes)
{
    uint64_t key = key_of(seed), h = key ^ bytes.n, word;
    size_t at = 0;

    assert(bytes.p || bytes.n == 0);
    for (; bytes.n - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, bytes.p + at, sizeof(word));
        h = fold(h ^ word, key);
    }
    if (at < bytes.n) {
        word = 0;
        memcpy(&word, bytes.p + at, bytes.n - at);
        h = fold(h ^ word, key);
    }
    return hash64_int(seed, h);
}

bool secret_equal(struct slice a, struct slice b)
{
    assert((a.p || a.n == 0) && (b.p || b.n == 0));
    return a.n == b.n && (a.n == 0 || CRYPTO_memcmp(a.p, b.p, a.n) == 0);
}
