/* SPDX-License-Identifier: Apache-2.0
 *
 * Two implementations that know nothing of each other must agree: random
 * documents, and the same with random damage, are given to ours and to
 * jansson.  A failure prints the seed's text; the seed is fixed, so it comes
 * again. */
/* test: libs=jansson */
#include "json_oracle.h"

#include "base/rng.h"
#include "test.h"

enum { ROUNDS = 20000, DEPTH = 6 };

static void pick(struct buf *buf, struct rng *rng, const char *const *words, size_t count)
{
    buf_text(buf, words[rng_below(rng, count)]);
}

static void make_space(struct buf *buf, struct rng *rng)
{
    static const char *const spaces[] = { "",   "",   "",   "",        " ",
                                          "\n", "\t", "\r", " \r\n\t " };

    pick(buf, rng, spaces, array_len(spaces));
}

static void make_string(struct buf *buf, struct rng *rng)
{
    static const char *const parts[] = {
        "a",       "key",     "\\n",    "\\\"",    "\\\\",           "\\/",
        "\\u0041", "\\u00e9", "\\b",    "\\u20AC", "\\uD83D\\uDE00", "\\udbff\\udfff",
        "é",       "€",       "😀",      "\x7F",    "\\u0000",        "\\uFFFF",
        "\\u0800", "\\t\\r",  "{[,:]}", " ",       "\xEF\xBF\xBD",   "0",
    };

    buf_byte(buf, '"');
    for (uint64_t n = rng_below(rng, 5); n > 0; n--)
        pick(buf, rng, parts, array_len(parts));
    buf_byte(buf, '"');
}

static void make_number(struct buf *buf, struct rng *rng)
{
    static const char *const numbers[] = {
        "0",
        "-0",
        "0.0",
        "1e5",
        "1E-5",
        "-1.25e+3",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1e400",
        "-1e400",
        "1e-400",
        "0.1",
        "1.0",
        "9007199254740993",
        "0e0",
        "1e999999999999",
    };

    if (rng_one_in(rng, 2))
        pick(buf, rng, numbers, array_len(numbers));
    else
        buf_int(buf, (int64_t)rng_next(rng) >> rng_below(rng, 64));
}

static void make_value(struct buf *buf, struct rng *rng, int depth)
{
    static const char *const words[] = { "true", "false", "null" };
    uint64_t choice = rng_below(rng, depth > 0 ? 6 : 3);
    bool object = choice == 5;

    make_space(buf, rng);
    if (choice == 0) {
        make_string(buf, rng);
    } else if (choice == 1) {
        make_number(buf, rng);
    } else if (choice == 2) {
        pick(buf, rng, words, array_len(words));
    } else {
        buf_byte(buf, object ? '{' : '[');
        for (uint64_t n = rng_below(rng, 4), i = 0; i < n; i++) {
            make_space(buf, rng);
            if (i > 0)
                buf_byte(buf, ',');
            make_space(buf, rng);
            if (object) {
                make_string(buf, rng);
                make_space(buf, rng);
                buf_byte(buf, ':');
            }
            make_value(buf, rng, depth - 1);
        }
        make_space(buf, rng);
        buf_byte(buf, object ? '}' : ']');
    }
    make_space(buf, rng);
}

/* One small damage: a byte lost, changed, doubled or put in. */
static void damage(struct buf *buf, struct rng *rng)
{
    static const char likely[] =
        "\"\\{}[],:0123456789-+.eEutnfalsr \n\t\x01\x7F\x80\xBF\xC3"
        "\xE2\xED\xA0\xF0\xF4\x90\xFF/*'";
    char byte = likely[rng_below(rng, sizeof(likely))]; /* its NUL too */
    size_t at = buf->n ? rng_below(rng, buf->n) : 0;

    switch (buf->n ? rng_below(rng, 5) : 3) {
    case 0: /* lost */
        memmove(buf->p + at, buf->p + at + 1, buf->n - at);
        buf->n--;
        return;
    case 1: /* changed */
        buf->p[at] = byte;
        return;
    case 2: /* cut off */
        buf->n = at;
        buf->p[at] = '\0';
        return;
    case 3: /* put in */
        break;
    default: /* doubled */
        byte = buf->p[at];
    }
    buf_byte(buf, byte);
    memmove(buf->p + at + 1, buf->p + at, buf->n - 1 - at);
    buf->p[at] = byte;
}

static void agree(const struct buf *buf)
{
    const char *why = oracle_compare((struct slice){ buf->p, buf->n });

    if (why)
        fail("%s: %.*s", why, (int)buf->n, buf->p);
}

TEST(random_documents_are_accepted_and_read_as_jansson_reads_them)
{
    cleanup(buf_release) struct buf buf;
    struct rng rng;

    buf_init(&buf, 1 << 20);
    rng_seed(&rng, 1);
    for (int round = 0; round < ROUNDS; round++) {
        buf_reset(&buf);
        make_value(&buf, &rng, DEPTH);
        check_ok(json_check((struct slice){ buf.p, buf.n }, LIMIT_JSON_DEPTH, NULL));
        agree(&buf);
    }
}

TEST(damaged_documents_are_judged_as_jansson_judges_them)
{
    cleanup(buf_release) struct buf buf;
    struct rng rng;
    int refused = 0;

    buf_init(&buf, 1 << 20);
    rng_seed(&rng, 2);
    for (int round = 0; round < ROUNDS; round++) {
        buf_reset(&buf);
        make_value(&buf, &rng, 3);
        for (uint64_t n = 1 + rng_below(&rng, 3); n > 0; n--)
            damage(&buf, &rng);
        refused +=
            json_check((struct slice){ buf.p, buf.n }, LIMIT_JSON_DEPTH, NULL) != 0;
        agree(&buf);
    }
    /* Else the damage is not what this test is about. */
    check(refused > ROUNDS / 4 && refused < ROUNDS);
}

TEST(every_text_of_up_to_four_telling_bytes_is_judged_alike)
{
    static const char bytes[] = "\"\\{}[],:019-+.eu tn\n\x01\xC3\xA9";
    const size_t count = sizeof(bytes); /* NUL included */
    char text[4];

    for (size_t n = 0; n <= 4; n++) {
        size_t all = 1;
        for (size_t i = 0; i < n; i++)
            all *= count;
        for (size_t k = 0; k < all; k++) {
            size_t rest = k;
            for (size_t i = 0; i < n; i++, rest /= count)
                text[i] = bytes[rest % count];
            const char *why = oracle_compare((struct slice){ text, n });
            if (why)
                fail("%s: %.*s", why, (int)n, text);
        }
    }
}

TEST(the_known_differences_are_the_ones_we_say)
{
    static const char *const only_ours[] = { "9223372036854775808",
                                             "-9223372036854775809", "1e400",
                                             "{\"\\u0000\":1}" };

    for (size_t i = 0; i < array_len(only_ours); i++) {
        struct slice text = slice_of(only_ours[i]);
        check_ok(json_check(text, LIMIT_JSON_DEPTH, NULL));
        check(json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) == NULL);
    }
}
