/* SPDX-License-Identifier: Apache-2.0
 *
 * A row reads, shows and compares its member, whatever its type and width. */
#include "base/knob.h"
#include "test.h"

struct thing {
    int64_t wide;
    int narrow;
    bool flag;
    int64_t word, mode, maybe, seconds;
    char text[8], optional[8], url[100], secret[20];
};

static const char *const words[] = { "unused", "one", "two", "three" };

static int check_even(const struct knob *knob, struct slice value, struct error *error)
{
    return value.n % 2 == 0
               ? 0
               : error_set(error, -HF_INVALID, knob->name, "%s is odd.", knob->name);
}

#define AT(member) KNOB_AT(struct thing, member)
static const struct knob wide = { "wide",         KNOB_NUMBER,   AT(wide),
                                  .unit = 1000,   .least = 1000, .most = 9000,
                                  .initial = 5000 };
static const struct knob narrow = { "narrow",  KNOB_NUMBER, AT(narrow),
                                    .unit = 1, .least = -5, .most = 5 };
static const struct knob flag = { "flag", KNOB_FLAG, AT(flag), .initial = 1, .most = 1 };
static const struct knob word = { "word",    KNOB_WORD,    AT(word),      .least = 1,
                                  .most = 3, .initial = 2, .words = words };
static const struct knob mode = { "mode",    KNOB_OCTAL,   AT(mode),
                                  .unit = 1, .most = 0777, .initial = 0600 };
static const struct knob maybe = {
    "maybe",   KNOB_NUMBER, KNOB_OPTIONAL,        AT(maybe),
    .unit = 1, .most = 9,   .initial = KNOB_UNSET
};
static const struct knob seconds = { "seconds", KNOB_NUMBER, AT(seconds),
                                     .unit = US_PER_S, .most = 60 * US_PER_S };
static const struct knob text = { "text", KNOB_TEXT, AT(text), .text = "abc" };
static const struct knob optional = { "optional", KNOB_TEXT, KNOB_OPTIONAL, AT(optional),
                                      .check = check_even };
static const struct knob url = { "url", KNOB_TEXT, KNOB_URL, AT(url), .text = "x" };
static const struct knob secret = { "secret", KNOB_TEXT, KNOB_SECRET | KNOB_OPTIONAL,
                                    AT(secret) };

static const struct knob *const all[] = { &wide,     &narrow, &flag,    &word,
                                          &mode,     &maybe,  &seconds, &text,
                                          &optional, &url,    &secret };

static struct thing defaults(void)
{
    struct thing thing;
    memset(&thing, 0xa5, sizeof(thing));
    for (size_t i = 0; i < array_len(all); i++)
        knob_default(all[i], &thing);
    return thing;
}

static void check_shown(const struct knob *knob, const struct thing *thing,
                        const char *want)
{
    struct buf buf;
    struct slice got;
    buf_init(&buf, 1000);
    knob_show(knob, thing, &buf);
    check_ok(buf_end(&buf, &got));
    check_slice(got, want);
    buf_release(&buf);
}

static void check_reads(const struct knob *knob, const char *in, const char *out)
{
    struct thing thing = defaults();
    struct error error = { 0 };
    if (knob_read(knob, slice_of(in), &thing, &error) < 0)
        fail("%s", error.text);
    check_shown(knob, &thing, out);
    check_ok(knob_check(knob, &thing, &error));
}

static void check_refuses(const struct knob *knob, const char *in, const char *sentence)
{
    struct thing thing = defaults(), before = defaults();
    struct error error = { 0 };
    check_err(knob_read(knob, slice_of(in), &thing, &error), -HF_INVALID);
    check_str(error.text, sentence);
    check_str(error.field, knob->name);
    check(knob_equal(knob, &thing, &before));
}

TEST(each_row_gives_its_default)
{
    struct thing thing = defaults();

    check_int(thing.wide, 5000);
    check_int(thing.narrow, 0);
    check(thing.flag);
    check_int(thing.maybe, KNOB_UNSET);
    check_str(thing.text, "abc");
    check_shown(&wide, &thing, "5");
    check_shown(&word, &thing, "two");
    check_shown(&mode, &thing, "0600");
    check_shown(&maybe, &thing, "");
    check(knob_unset(&maybe, &thing) && knob_unset(&optional, &thing));
    check(!knob_unset(&text, &thing) && !knob_unset(&wide, &thing));
}

TEST(values_are_read_as_people_write_them)
{
    check_reads(&wide, "1", "1");
    check_reads(&wide, "9", "9");
    check_reads(&wide, "007", "7");
    check_reads(&narrow, "-5", "-5");
    check_reads(&flag, "false", "false");
    check_reads(&flag, "no", "false");
    check_reads(&flag, "off", "false");
    check_reads(&flag, "0", "false");
    check_reads(&flag, "true", "true");
    check_reads(&flag, "yes", "true");
    check_reads(&flag, "on", "true");
    check_reads(&flag, "1", "true");
    check_reads(&word, "one", "one");
    check_reads(&word, "three", "three");
    check_reads(&mode, "640", "0640");
    check_reads(&mode, "0777", "0777");
    check_reads(&maybe, "0", "0");
    check_reads(&seconds, "1.5", "1.5");
    check_reads(&seconds, "1.0", "1");
    check_reads(&seconds, "0.000001", "0.000001");
    check_reads(&text, "1234567", "1234567");
    check_reads(&text, "a\tb", "a\tb"); /* as in a command */
    check_reads(&optional, "", "");
    check_reads(&secret, "hush", "(set)");
}

TEST(what_is_no_value_is_refused_with_what_would_be_one)
{
    check_refuses(&wide, "0", "wide is 0; it must be between 1 and 9.");
    check_refuses(&wide, "10", "wide is 10; it must be between 1 and 9.");
    check_refuses(&wide, "99999999999999999999",
                  "wide is 99999999999999999999; it must be between 1 and 9.");
    check_refuses(&wide, "-9223372036854775808",
                  "wide is -9223372036854775808; it must be between 1 and 9.");
    check_refuses(&wide, "", "wide is \"\"; it must be a whole number between 1 and 9.");
    check_refuses(&wide, "5.5",
                  "wide is \"5.5\"; it must be a whole number between 1 and 9.");
    check_refuses(&wide, "5s",
                  "wide is \"5s\"; it must be a whole number between 1 and 9.");
    check_refuses(&wide, "+5",
                  "wide is \"+5\"; it must be a whole number between 1 and 9.");
    check_refuses(&seconds, "1.",
                  "seconds is \"1.\"; it must be a number between 0 and 60.");
    check_refuses(&seconds, "60.000001",
                  "seconds is 60.000001; it must be between 0 and 60.");
    check_refuses(&mode, "0800",
                  "mode is \"0800\"; it must be an octal number between 0000 and 0777.");
    check_refuses(&mode, "1000", "mode is 1000; it must be between 0000 and 0777.");
    check_refuses(&flag, "maybe", "flag is \"maybe\"; it must be true or false.");
    check_refuses(&word, "unused", "word is \"unused\"; it must be one, two or three.");
    check_refuses(&word, "One", "word is \"One\"; it must be one, two or three.");
    check_refuses(&text, "",
                  "text is empty; give it a value, or leave it out for its default.");
    check_refuses(&text, "12345678", "text has 8 bytes; it may have up to 7.");
    check_refuses(&text, "a\x01z",
                  "text holds bytes that are no text; it must be UTF-8 without control "
                  "characters.");
    check_refuses(&text, "\xff",
                  "text holds bytes that are no text; it must be UTF-8 without control "
                  "characters.");
    check_refuses(&optional, "abc", "optional is odd.");
}

TEST(a_member_set_by_other_means_is_checked_too)
{
    struct thing thing = defaults();
    struct error error = { 0 };

    thing.word = 4;
    check_err(knob_check(&word, &thing, &error), -HF_INVALID);
    thing.maybe = 10;
    check_err(knob_check(&maybe, &thing, NULL), -HF_INVALID);
    memset(thing.text, 'x', sizeof(thing.text)); /* no NUL */
    check_err(knob_check(&text, &thing, NULL), -HF_INVALID);
}

TEST(equal_means_equal_values)
{
    struct thing a = defaults(), b = defaults();

    strcpy(b.text, "abc");
    b.text[5] = 'z'; /* behind its end */
    check(knob_equal(&text, &a, &b));
    b.text[0] = 'z';
    check(!knob_equal(&text, &a, &b));
    b.narrow = 1;
    check(!knob_equal(&narrow, &a, &b));
    knob_copy(&narrow, &b, &a);
    knob_copy(&text, &b, &a);
    check(knob_equal(&narrow, &a, &b) && knob_equal(&text, &a, &b));
}

TEST(a_password_in_an_address_is_not_shown)
{
    check_reads(&url, "holdfast.db", "holdfast.db");
    check_reads(&url, "postgres://me@host/db", "postgres://me@host/db");
    check_reads(&url, "postgres://me:hush@host/db", "postgres://me:***@host/db");
    check_reads(&url, "postgres://me:hu:sh@host:5432/db",
                "postgres://me:***@host:5432/db");
    check_reads(&url, "postgres://me:hu@sh@host/db", "postgres://me:***@host/db");
    check_reads(&url, "postgres:///db?host=/tmp&password=hush&x=1",
                "postgres:///db?host=/tmp&password=***&x=1");
    check_reads(&url, "postgres://h/db?password=a&sslpassword=b",
                "postgres://h/db?password=***&sslpassword=***");
    check_reads(&url, "postgres://host:5432/db", "postgres://host:5432/db");
}

static void check_slip(const char *wrong, const char *best)
{
    static const char *const names[] = {
        "listen", "worker_listen", "slots", "db", "lease_ms", "startup_burst_limit"
    };
    struct slip slip = { .wrong = slice_of(wrong) };

    for (size_t i = 0; i < array_len(names); i++)
        slip_try(&slip, names[i]);
    check_str(slip.best, best);
}

TEST(a_slip_is_told_from_nonsense)
{
    check_slip("lsten", "listen");
    check_slip("litsen", "listen");
    check_slip("Listen", "listen");
    check_slip("worker-listen", "worker_listen");
    check_slip("leaseMs", "lease_ms");
    check_slip("slot", "slots");
    check_slip("startup_bust_limti", "startup_burst_limit");
    check_slip("frobnicate", NULL);
    check_slip("port", NULL);
    check_slip("service_host", NULL);
    check_slip("", NULL);
    check_slip("a_name_that_is_longer_than_any_that_a_setting_could_ever_have", NULL);
}
