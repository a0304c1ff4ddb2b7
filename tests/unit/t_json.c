/* SPDX-License-Identifier: Apache-2.0
 *
 * What is JSON and what is not, and that reading it gives what was written. */
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "json_corpus.h"
#include "test.h"

static int check_text(struct slice text)
{
    return json_check(text, LIMIT_JSON_DEPTH, NULL);
}

TEST(valid_documents_are_accepted)
{
    for (size_t i = 0; i < array_len(valid_json); i++)
        if (check_text(slice_of(valid_json[i])) != 0)
            fail("refused: %s", valid_json[i]);
}

TEST(invalid_documents_are_refused)
{
    for (size_t i = 0; i < array_len(invalid_json); i++)
        if (check_text(slice_of(invalid_json[i])) != -HF_INVALID)
            fail("accepted: %s", invalid_json[i]);
}

TEST(a_nul_byte_is_nowhere_json)
{
    check_err(check_text(SLICE("\0")), -HF_INVALID);
    check_err(check_text(SLICE("1\0")), -HF_INVALID);
    check_err(check_text(SLICE("\"a\0b\"")), -HF_INVALID);
    check_err(check_text(SLICE("[1\0]")), -HF_INVALID);
    check_err(check_text(SLICE("\"\\\0\"")), -HF_INVALID);
    check_err(check_text((struct slice){ NULL, 0 }), -HF_INVALID);
}

TEST(every_proper_prefix_of_a_document_is_refused_without_reading_beyond)
{
    const char text[] =
        "{\"a\":[1.5e-3,true,null,\"\\uD83D\\uDE00é\"],\"b\":{\"c\":false}}";

    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        /* Its own block, so that a sanitizer sees a byte too many. */
        char *copy = malloc(n + 1);
        memcpy(copy, text, n);
        copy = realloc(copy, n ? n : 1);
        check_err(check_text((struct slice){ copy, n }), -HF_INVALID);
        free(copy);
    }
    check_ok(check_text(slice_of(text)));
}

TEST(nesting_is_allowed_up_to_the_limit_and_not_one_deeper)
{
    char text[2 * (LIMIT_JSON_DEPTH + 1)];

    for (int depth = 1; depth <= LIMIT_JSON_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        struct slice nested = { text, 2 * (size_t)depth };
        check_err(check_text(nested), depth <= LIMIT_JSON_DEPTH ? 0 : -HF_INVALID);
        if (depth > 1 && depth <= LIMIT_JSON_DEPTH) {
            check_ok(json_check(nested, depth, NULL));
            check_err(json_check(nested, depth - 1, NULL), -HF_INVALID);
        }
    }
    check_ok(
        json_check(SLICE("[[],[],{\"a\":1}]"), 2, NULL)); /* side by side is not deep */
    check_ok(json_check(SLICE("1"), 1, NULL));
}

TEST(a_million_brackets_do_not_break_the_stack)
{
    size_t n = 1000000;
    char *text = malloc(n);

    memset(text, '[', n);
    check_err(check_text((struct slice){ text, n }), -HF_INVALID);
    for (size_t i = 0; i < n - 5; i += 5)
        memcpy(text + i, "{\"\":[", 5);
    check_err(check_text((struct slice){ text, n }), -HF_INVALID);
    free(text);
}

TEST(the_sentence_says_which_byte_and_why)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        { "", "not valid JSON at byte 0: the text ends too early" },
        { "[1,]", "not valid JSON at byte 3: a value must begin here" },
        { "{\"a\" 1}", "not valid JSON at byte 5: a colon must follow a key" },
        { "{a:1}", "not valid JSON at byte 1: a key in double quotes" },
        { "[1 2]", "not valid JSON at byte 3: a comma or a closing bracket" },
        { "{\"a\":1]", "not valid JSON at byte 6: a comma or a closing brace" },
        { "{} x", "not valid JSON at byte 3: one value is enough" },
        { "012", "not valid JSON at byte 1: a number has no leading zeros" },
        { "1.x", "not valid JSON at byte 2: a digit must stand here" },
        { "\"ab\\q\"", "not valid JSON at byte 3: this is no escape" },
        { "\"\\uD800\"", "not valid JSON at byte 1: half of a surrogate pair" },
        { "\"a\nb\"", "not valid JSON at byte 2: a control character" },
        { "\"a\xFF\"", "not valid JSON at byte 2: this is not UTF-8" },
        { "\"abc", "not valid JSON at byte 4: the text ends inside a string" },
        { "[[[]]]", "not valid JSON at byte 2: it is nested too deep" },
    };

    for (size_t i = 0; i < array_len(cases); i++) {
        struct error error = { 0 };
        check_err(json_check(slice_of(cases[i].text), 2, &error), -HF_INVALID);
        error.text[strlen(cases[i].sentence)] = '\0';
        check_str(error.text, cases[i].sentence);
    }
}

TEST(kinds_are_told_apart)
{
    check_int(json_kind_of(SLICE(" null")), JSON_KIND_NULL);
    check_int(json_kind_of(SLICE("true")), JSON_KIND_BOOL);
    check_int(json_kind_of(SLICE("false")), JSON_KIND_BOOL);
    check_int(json_kind_of(SLICE("-1")), JSON_KIND_NUMBER);
    check_int(json_kind_of(SLICE("0")), JSON_KIND_NUMBER);
    check_int(json_kind_of(SLICE("\"\"")), JSON_KIND_STRING);
    check_int(json_kind_of(SLICE("\n[]")), JSON_KIND_ARRAY);
    check_int(json_kind_of(SLICE("{}")), JSON_KIND_OBJECT);
    check_str(json_kind_name(JSON_KIND_OBJECT), "an object");
}

static bool equals(struct slice got, const char *want)
{
    return slice_equal(got, slice_of(want));
}

TEST(an_objects_members_come_in_order_and_raw)
{
    struct slice text =
        SLICE(" { \"a\" : 0.10000 , \"b\\\"}\":\"x,\\\"]\" ,\"c\":[ {\"}\":1} , 2 ],"
              "\"d\":{ } } ");
    struct slice key, value;

    check_ok(check_text(text));
    struct json_iter it = json_iter(text);
    check(json_object_next(&it, &key, &value));
    check(equals(key, "\"a\"") && equals(value, "0.10000"));
    check(json_object_next(&it, &key, &value));
    check(equals(key, "\"b\\\"}\"") && equals(value, "\"x,\\\"]\""));
    check(json_object_next(&it, &key, &value));
    check(equals(key, "\"c\"") && equals(value, "[ {\"}\":1} , 2 ]"));
    check(json_object_next(&it, &key, &value));
    check(equals(key, "\"d\"") && equals(value, "{ }"));
    check(!json_object_next(&it, &key, &value));
    check(!json_object_next(&it, &key, &value));
}

TEST(an_arrays_elements_come_in_order_and_raw)
{
    struct slice text = SLICE("[1,\"]\" , [ ],{\"a\":[1,2]}\n,null]"), value;
    const char *const want[] = { "1", "\"]\"", "[ ]", "{\"a\":[1,2]}", "null" };

    check_ok(check_text(text));
    struct json_iter it = json_iter(text);
    for (size_t i = 0; i < array_len(want); i++) {
        check(json_array_next(&it, &value));
        check_slice(value, want[i]);
    }
    check(!json_array_next(&it, &value));
    it = json_iter(SLICE(" [ ] "));
    check(!json_array_next(&it, &value));
    it = json_iter(SLICE("{ }"));
    check(!json_object_next(&it, &value, &value));
}

TEST(a_value_is_kept_byte_for_byte)
{
    /* What other libraries change: digits, order, doubles, escapes, space. */
    const char *payload = "{\"z\":0.1,\"a\":1.0,\"a\":1e2, \"e\":\"\\u00e9\\/\",\"n\":-0,"
                          "\"big\":123456789012345678901234567890}";
    char text[256];

    snprintf(text, sizeof(text), "{\"kind\":\"k\",\"payload\":  %s  ,\"x\":1}", payload);
    check_ok(check_text(slice_of(text)));
    check_slice(json_find(slice_of(text), SLICE("payload")), payload);
    check_slice(json_trim(SLICE(" \r\n\t[ 1 ]\n ")), "[ 1 ]");
}

TEST(the_last_of_equal_keys_is_found_and_a_missing_one_is_absent)
{
    struct slice text = SLICE("{\"a\":1,\"\\u0061\":2,\"b\":3}");

    check_slice(json_find(text, SLICE("a")), "2");
    check_slice(json_find(text, SLICE("b")), "3");
    check(json_find(text, SLICE("c")).p == NULL);
    check(json_find(text, SLICE("")).p == NULL);
}

TEST(strings_are_compared_as_what_they_mean)
{
    check(json_string_is(SLICE("\"abc\""), SLICE("abc")));
    check(json_string_is(SLICE("\"\\u0061b\\u0063\""), SLICE("abc")));
    check(json_string_is(SLICE("\"\\uD83D\\uDE00\""), SLICE("😀")));
    check(json_string_is(SLICE("\"\""), SLICE("")));
    check(json_string_is(SLICE("\"\\u0000\""), SLICE("\0")));
    check(!json_string_is(SLICE("\"abc\""), SLICE("ab")));
    check(!json_string_is(SLICE("\"ab\""), SLICE("abc")));
    check(!json_string_is(SLICE("\"abd\""), SLICE("abc")));
    check(!json_string_is(SLICE("\"\""), SLICE("\0")));
    check(json_string_same(SLICE("\"a/\\n\""), SLICE("\"\\u0061\\/\\u000A\"")));
    check(!json_string_same(SLICE("\"a\""), SLICE("\"ab\"")));
    check(!json_string_same(SLICE("\"ab\""), SLICE("\"a\"")));
    check(json_string_same(SLICE("\"\""), SLICE("\"\"")));
}

TEST(a_string_is_not_compared_beyond_the_text)
{
    char *two = malloc(2); /* a block of its own, for a sanitizer to guard */

    memcpy(two, "ab", 2);
    check(!json_string_is(SLICE("\"abc\""), (struct slice){ two, 2 }));
    check(!json_string_is(SLICE("\"ab\\u20AC\""), (struct slice){ two, 2 }));
    check(json_string_is(SLICE("\"ab\""), (struct slice){ two, 2 }));
    free(two);
}

TEST(strings_are_decoded)
{
    cleanup(arena_release) struct arena arena;
    struct slice text;

    arena_init(&arena, 4096, 1 << 20);
    check_ok(json_decode(SLICE("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), &arena, &text));
    check_slice(text, "\"\\/\b\f\n\r\t");
    check_ok(
        json_decode(SLICE("\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00é\""), &arena, &text));
    check_slice(text, "Aé€😀é");
    check_ok(json_decode(SLICE("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\\uDBFF\\uDFFF\""),
                         &arena, &text));
    check_slice(text, "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF4\x8F\xBF\xBF");
    check_ok(json_decode(SLICE(" \"\" "), &arena, &text));
    check(text.p && text.n == 0);
    check_int(text.p[0], 0);
}

TEST(a_nul_is_kept_in_a_payload_and_refused_in_a_text)
{
    cleanup(arena_release) struct arena arena;
    struct slice text = { "untouched", 9 };

    arena_init(&arena, 4096, 1 << 20);
    check_ok(check_text(SLICE("\"a\\u0000b\"")));
    check_err(json_decode(SLICE("\"a\\u0000b\""), &arena, &text), -HF_INVALID);
    check_slice(text, "untouched");
}

TEST(no_memory_for_a_string_is_told)
{
    cleanup(arena_release) struct arena arena;
    struct slice text;
    struct error error = { 0 };

    arena_init(&arena, 64, 64);
    while (arena_alloc(&arena, 1))
        continue;
    check_err(json_decode(SLICE("\"abc\""), &arena, &text), -HF_NOMEM);
    check_err(json_get_text(SLICE("\"abc\""), "f", 10, &arena, &error, &text), -HF_NOMEM);
}

static const char *const job_fields[] = { "kind", "queue", "payload" };

TEST(our_own_documents_have_known_fields_once)
{
    struct slice values[3];
    struct error error = { 0 };

    check_ok(json_fields(SLICE("{\"payload\":{\"kind\":1},\"k\\u0069nd\":\"a\"}"),
                         job_fields, 3, values, &error));
    check_slice(values[0], "\"a\"");
    check(values[1].p == NULL);
    check_slice(values[2], "{\"kind\":1}");
    check_ok(json_fields(SLICE("{}"), job_fields, 3, values, &error));
    check(values[0].p == NULL && values[2].p == NULL);
    check_ok(json_fields(SLICE("{\"kind\":null}"), job_fields, 3, values, &error));
    check_slice(values[0], "null");
}

TEST(an_unknown_field_is_named)
{
    struct slice values[3];
    struct error error = { 0 };

    check_err(
        json_fields(SLICE("{\"kind\":1,\"prioritty\":2}"), job_fields, 3, values, &error),
        -HF_INVALID);
    check_str(error.field, "prioritty");
    check_str(error.text, "the field \"prioritty\" is unknown here");
}

TEST(a_field_given_twice_is_refused_however_it_is_spelt)
{
    struct slice values[3];
    struct error error = { 0 };

    check_err(json_fields(SLICE("{\"kind\":1,\"\\u006bind\":1}"), job_fields, 3, values,
                          &error),
              -HF_INVALID);
    check(strstr(error.text, "given twice") != NULL);
    error = (struct error){ 0 };
    check_err(
        json_fields(SLICE("{\"kind\":null,\"kind\":1}"), job_fields, 3, values, &error),
        -HF_INVALID);
    check_str(error.field, "kind");
}

TEST(what_is_no_object_has_no_fields)
{
    struct slice values[3];
    struct error error = { 0 };

    check_err(json_fields(SLICE("[1]"), job_fields, 3, values, &error), -HF_INVALID);
    check_str(error.text, "the document is an array; it must be an object");
}

TEST(a_long_unknown_field_still_makes_a_good_sentence)
{
    char text[2000] = "{\"x";
    struct slice values[3];
    struct error error = { 0 };

    for (size_t n = 3; n < 1500; n += 3)
        memcpy(text + n, "€", 4);
    memcpy(text + strlen(text), "\":1}", 5);
    check_ok(check_text(slice_of(text)));
    check_err(json_fields(slice_of(text), job_fields, 3, values, &error), -HF_INVALID);
    check(strlen(error.text) < 200 && strlen(error.field) > 50);
}

TEST(the_users_keys_are_counted_and_must_differ)
{
    struct error error = { 0 };

    check_ok(json_check_keys(SLICE("{}"), "metadata", 2, NULL));
    check_ok(json_check_keys(SLICE("{\"a\":1,\"b\":1}"), "metadata", 2, NULL));
    check_err(json_check_keys(SLICE("{\"a\":1,\"b\":1,\"c\":1}"), "metadata", 2, &error),
              -HF_INVALID);
    check_str(error.text, "metadata has too many entries; it may have up to 2");
    error = (struct error){ 0 };
    check_err(
        json_check_keys(SLICE("{\"a\":1,\"b\":2,\"\\u0061\":3}"), "metadata", 9, &error),
        -HF_INVALID);
    check_str(error.text, "metadata has the key \"\\u0061\" twice");
    check_str(error.field, "metadata");
    check_err(json_check_keys(SLICE("3"), "metadata", 9, NULL), -HF_INVALID);
}

static int64_t int_of(const char *text)
{
    int64_t n = -777;

    check_ok(json_get_int(slice_of(text), "n", INT64_MIN, INT64_MAX, NULL, &n));
    return n;
}

TEST(whole_numbers_are_read_exactly_to_the_ends_of_64_bits)
{
    check_int(int_of("0"), 0);
    check_int(int_of("-0"), 0);
    check_int(int_of(" 42 "), 42);
    check_int(int_of("-42"), -42);
    check_int(int_of("9007199254740993"), INT64_C(9007199254740993));
    check_int(int_of("9223372036854775807"), INT64_MAX);
    check_int(int_of("-9223372036854775808"), INT64_MIN);
}

TEST(what_is_no_whole_number_of_64_bits_is_refused)
{
    static const char *const bad[] = {
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "1.0",
        "1e2",
        "1E0",
        "-1.5",
        "0.0",
        "\"1\"",
        "true",
        "null",
        "[1]",
        "{}",
        "18446744073709551617",
        "123456789012345678901234567890123456789012345678901234567890",
    };

    for (size_t i = 0; i < array_len(bad); i++) {
        int64_t n = 5;
        struct error error = { 0 };
        check_err(json_get_int(slice_of(bad[i]), "n", INT64_MIN, INT64_MAX, &error, &n),
                  -HF_INVALID);
        check_int(n, 5);
        check_str(error.field, "n");
    }
}

TEST(a_number_out_of_range_is_told_the_range)
{
    struct error error = { 0 };
    int64_t n = 5;

    check_ok(json_get_int(SLICE("1"), "priority", 1, 9, &error, &n));
    check_ok(json_get_int(SLICE("9"), "priority", 1, 9, &error, &n));
    check_int(n, 9);
    check_err(json_get_int(SLICE("0"), "priority", 1, 9, NULL, &n), -HF_INVALID);
    check_err(json_get_int(SLICE("10"), "priority", 1, 9, &error, &n), -HF_INVALID);
    check_str(error.text, "priority is 10; it must be a whole number from 1 to 9");
    check_int(n, 9);
    error = (struct error){ 0 };
    check_err(json_get_int(SLICE("\"high\""), "priority", 1, 9, &error, &n), -HF_INVALID);
    check_str(error.text, "priority is a string; it must be a number");
    error = (struct error){ 0 };
    check_err(json_get_int((struct slice){ NULL, 0 }, "priority", 1, 9, &error, &n),
              -HF_INVALID);
    check_str(error.text, "priority is missing; it must be a number");
}

TEST(truth_is_read_and_nothing_stands_for_it)
{
    bool b = false;

    check_ok(json_get_bool(SLICE(" true"), "b", NULL, &b));
    check(b);
    check_ok(json_get_bool(SLICE("false"), "b", NULL, &b));
    check(!b);
    check_err(json_get_bool(SLICE("1"), "b", NULL, &b), -HF_INVALID);
    check_err(json_get_bool(SLICE("\"true\""), "b", NULL, &b), -HF_INVALID);
    check_err(json_get_bool(SLICE("null"), "b", NULL, &b), -HF_INVALID);
}

TEST(a_text_has_a_limit_in_bytes_as_decoded)
{
    cleanup(arena_release) struct arena arena;
    struct slice text = { "kept", 4 };
    struct error error = { 0 };

    arena_init(&arena, 4096, 1 << 20);
    check_ok(
        json_get_text(SLICE("\"\\u20AC\\u20AC\""), "holder", 6, &arena, &error, &text));
    check_slice(text, "€€");
    check_err(json_get_text(SLICE("\"€€\""), "holder", 5, &arena, &error, &text),
              -HF_INVALID);
    check_str(error.text, "holder has 6 bytes; it may have up to 5");
    error = (struct error){ 0 };
    check_err(json_get_text(SLICE("\"\\u0000\""), "holder", 5, &arena, &error, &text),
              -HF_INVALID);
    check_str(error.text, "holder has a NUL character in it (\\u0000)");
    check_err(json_get_text(SLICE("12"), "holder", 5, &arena, NULL, &text), -HF_INVALID);
    check_slice(text, "€€");
}

TEST(a_name_is_a_name)
{
    cleanup(arena_release) struct arena arena;
    struct slice name;
    struct error error = { 0 };

    arena_init(&arena, 4096, 1 << 20);
    check_ok(json_get_name(SLICE("\"crawl\\u002D1\""), "queue", &arena, &error, &name));
    check_slice(name, "crawl-1");
    check_err(json_get_name(SLICE("\"a b\""), "queue", &arena, &error, &name),
              -HF_INVALID);
    check_str(error.text,
              "queue is \"a b\"; it must have 1 to 100 characters out of letters, "
              "digits, '.', '_' and '-'");
    check_err(json_get_name(SLICE("\"\""), "queue", &arena, NULL, &name), -HF_INVALID);
    check_slice(name, "crawl-1");
}

TEST(a_time_is_rfc_3339)
{
    int64_t us = 7;
    struct error error = { 0 };

    check_ok(json_get_time(SLICE("\"1970-01-01T00:00:01Z\""), "runAt", &error, &us));
    check_int(us, US_PER_S);
    check_err(json_get_time(SLICE("\"tomorrow\""), "runAt", &error, &us), -HF_INVALID);
    check_str(error.text,
              "runAt is \"tomorrow\"; it must be a time such as 2026-08-01T12:34:56Z");
    check_err(json_get_time(SLICE("12"), "runAt", NULL, &us), -HF_INVALID);
    check_err(json_get_time(SLICE("\"\""), "runAt", NULL, &us), -HF_INVALID);
    check_int(us, US_PER_S);
}
