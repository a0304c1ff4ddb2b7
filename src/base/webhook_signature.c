/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_signature.c -- HMAC and base64 by OpenSSL; what is base64 is decided here,
 * because OpenSSL's decoder is lenient. */
#include "webhook_signature.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>

#include "hash.h"

static const char prefix[] = "whsec_";

/* ---- secrets ---- */

/* How many bytes the text stands for; 0 if it is no base64, padding included. */
static size_t base64_bytes(struct slice text)
{
    size_t padding = 0;

    if (text.n % 4 != 0)
        return 0;
    while (padding < 2 && padding < text.n && text.p[text.n - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < text.n - padding; i++) {
        char c = text.p[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
              (c >= '0' && c <= '9') || c == '+' || c == '/'))
            return 0;
    }
    return text.n / 4 * 3 - padding;
}

int webhook_secret_parse(struct slice text, struct error *error,
                         uint8_t ret[LIMIT_WEBHOOK_SECRET_BYTES], size_t *ret_bytes)
{
    uint8_t all[LIMIT_WEBHOOK_SECRET_BYTES + 2]; /* the padding is written as zeros */
    size_t before = sizeof(prefix) - 1;
    bool marked = text.n > before && memcmp(text.p, prefix, before) == 0;
    struct slice rest =
        marked ? (struct slice){ text.p + before, text.n - before } : (struct slice){ 0 };
    size_t bytes = base64_bytes(rest);

    if (bytes < LEAST_WEBHOOK_SECRET_BYTES || bytes > LIMIT_WEBHOOK_SECRET_BYTES)
        return error_set(error, -HF_INVALID, "secret",
                         "secret must be whsec_ and the base64, with its padding, of %d "
                         "to %d bytes.",
                         LEAST_WEBHOOK_SECRET_BYTES, LIMIT_WEBHOOK_SECRET_BYTES);
    int n = EVP_DecodeBlock(all, (const unsigned char *)rest.p, (int)rest.n);
    assert(n >= 0 && (size_t)n >= bytes && (size_t)n <= sizeof(all));
    memcpy(ret, all, bytes);
    OPENSSL_cleanse(all, sizeof(all));
    *ret_bytes = bytes;
    return 0;
}

char *webhook_secret_text(struct slice secret, char out[WEBHOOK_SECRET_TEXT_BYTES])
{
    assert(secret.n > 0 && secret.n <= LIMIT_WEBHOOK_SECRET_BYTES);
    memcpy(out, prefix, sizeof(prefix));
    EVP_EncodeBlock((unsigned char *)out + sizeof(prefix) - 1,
                    (const unsigned char *)secret.p, (int)secret.n);
    return out;
}

/* ---- signatures ---- */

static bool update(EVP_MAC_CTX *mac, struct slice bytes)
{
    return EVP_MAC_update(mac, (const unsigned char *)bytes.p, bytes.n) == 1;
}

/* Writes "v1," and the signature; false without memory. */
static bool sign_once(EVP_MAC_CTX *mac, struct slice secret, struct slice head,
                      struct slice body, char *out)
{
    uint8_t digest[SHA256_BYTES];
    size_t n = 0;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){ "SHA256" }, 0),
        OSSL_PARAM_construct_end(),
    };

    if (EVP_MAC_init(mac, (const unsigned char *)secret.p, secret.n, params) != 1 ||
        !update(mac, head) || !update(mac, body) ||
        EVP_MAC_final(mac, digest, &n, sizeof(digest)) != 1)
        return false;
    assert(n == sizeof(digest));
    memcpy(out, "v1,", 3);
    EVP_EncodeBlock((unsigned char *)out + 3, digest, sizeof(digest));
    return true;
}

int webhook_sign(struct slice secret, struct slice old, struct slice id,
                 int64_t timestamp_s, struct slice body,
                 char out[WEBHOOK_SIGNATURE_BYTES])
{
    char head[128];
    int n =
        snprintf(head, sizeof(head), "%.*s.%" PRId64 ".", (int)id.n, id.p, timestamp_s);

    assert(secret.n > 0 && n > 0 && (size_t)n < sizeof(head));
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
    EVP_MAC_CTX *mac = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    struct slice start = { head, (size_t)n };
    bool ok = mac && sign_once(mac, secret, start, body, out);
    if (ok && old.p) {
        size_t first = strlen(out);
        out[first] = ' ';
        ok = sign_once(mac, old, start, body, out + first + 1);
    }
    EVP_MAC_CTX_free(mac);
    EVP_MAC_free(hmac);
    return ok ? 0 : -HF_NOMEM;
}
