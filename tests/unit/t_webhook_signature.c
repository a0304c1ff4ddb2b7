/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets and signatures of webhooks, held to vectors that other implementations
 * made; tests/e2e/t_webhooks.mjs lets one of them verify what the server sends. */
#include "base/webhook_signature.h"

#include "test.h"

/* One byte too many, and two. */
static const char bytes_65[] =
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1"
    "Njc4OTo7PD0+P0A=";
static const char bytes_66[] =
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1"
    "Njc4OTo7PD0+P0BB";

static uint8_t secret[LIMIT_WEBHOOK_SECRET_BYTES];
static size_t secret_bytes;

static struct slice parsed(const char *text)
{
    struct error error = { 0 };

    if (webhook_secret_parse(slice_of(text), &error, secret, &secret_bytes) < 0)
        fail("%s: %s", text, error.text);
    return (struct slice){ (const char *)secret, secret_bytes };
}

/* The bytes 0, 1, 2, ... */
static struct slice counted(size_t n)
{
    static uint8_t bytes[LIMIT_WEBHOOK_SECRET_BYTES + 2];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    return (struct slice){ (const char *)bytes, n };
}

TEST(the_signature_of_the_specifications_example_is_the_one_it_shows)
{
    char out[WEBHOOK_SIGNATURE_BYTES];

    check_ok(webhook_sign(parsed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
                          (struct slice){ 0 }, SLICE("msg_p5jXN8AQM9LWM0D4loKWxJek"),
                          1614265330, SLICE("{\"test\": 2432232314}"), out));
    check_str(out, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(an_empty_body_is_signed_too)
{
    char out[WEBHOOK_SIGNATURE_BYTES];

    check_ok(webhook_sign(counted(64), (struct slice){ 0 }, SLICE("42"), 1700000000,
                          SLICE(""), out));
    check_str(out, "v1,YajCgZs0FJxR15BN8bvzbqd+ot2ef/EOLeMpg134WgE=");
}

TEST(while_a_secret_is_replaced_both_sign_with_a_space_between)
{
    char out[WEBHOOK_SIGNATURE_BYTES];

    check_ok(webhook_sign(counted(24), counted(64), SLICE("42"), 1700000000,
                          SLICE("{\"type\":\"job.failed\"}"), out));
    check_str(out, "v1,V+BZahOhY+ioxnk2l5lrmw7dGY5iJjsS5DGEwEUsWEo= "
                   "v1,d1jqJ0SM9WYEp9b7hO1hV+qVAO/R3AGgJef4CyzKPxE=");
    check_int(strlen(out) + 1, WEBHOOK_SIGNATURE_BYTES);
}

TEST(a_secret_is_read_and_written_the_same_way_at_every_length)
{
    char text[WEBHOOK_SECRET_TEXT_BYTES];

    for (size_t n = LEAST_WEBHOOK_SECRET_BYTES; n <= LIMIT_WEBHOOK_SECRET_BYTES; n++) {
        struct slice bytes = counted(n);
        webhook_secret_text(bytes, text);
        check(slice_equal(parsed(text), bytes));
    }
    check_int(strlen(text) + 1, WEBHOOK_SECRET_TEXT_BYTES);
    check_str(webhook_secret_text(counted(25), text),
              "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA==");
}

TEST(what_is_no_secret_is_refused_with_a_sentence_that_does_not_show_it)
{
    static const char *const wrong[] = {
        "",
        "whsec_",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", /* not marked */
        "WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=",   /* 23 bytes */
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA", /* no padding */
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXG===",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREh=UFRYX",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMU FRYX",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY-", /* base64url */
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\n",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\n\n\n\n",
        bytes_65,
        bytes_66,
    };

    for (size_t i = 0; i < array_len(wrong); i++) {
        struct error error = { 0 };
        size_t n = 7;
        if (webhook_secret_parse(slice_of(wrong[i]), &error, secret, &n) != -HF_INVALID)
            fail("\"%s\" was taken", wrong[i]);
        check_int(n, 7);
        check_str(error.field, "secret");
        check(strstr(error.text, "24 to 64 bytes") && !strstr(error.text, "AAEC"));
    }
    check_err(webhook_secret_parse((struct slice){ 0 }, NULL, secret, &secret_bytes),
              -HF_INVALID);
}
