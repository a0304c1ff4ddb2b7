/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON of a new job: any payload within its size and depth, and metadata
 * that is a small object of strings. */
#include "base/buf.h"
#include "base/limits.h"
#include "engine/command.h"
#include "test.h"

static int look(struct slice payload, struct slice metadata, size_t payload_max,
                struct error *error)
{
    struct new_job job;

    new_job_init(&job);
    job.kind = SLICE("crawl");
    job.payload = payload;
    job.metadata = metadata;
    return new_job_check(&job, payload_max, error);
}

static const struct slice absent = { NULL, 0 };

static void check_payload(struct slice payload, int code, const char *part)
{
    struct error error = { 0 };

    check_err(look(payload, absent, LIMIT_PAYLOAD_BYTES, &error), code);
    check_int(error.code, code);
    if (code == 0)
        return;
    check_str(error.field, "payload");
    if (!strstr(error.text, part))
        fail("\"%s\" is not in: %s", part, error.text);
}

static void check_metadata(struct slice metadata, int code, const char *part)
{
    struct error error = { 0 };

    check_err(look(absent, metadata, LIMIT_PAYLOAD_BYTES, &error), code);
    check_int(error.code, code);
    if (code == 0)
        return;
    check_str(error.field, "metadata");
    check(strstr(error.text, "metadata") != NULL);
    if (!strstr(error.text, part))
        fail("\"%s\" is not in: %s", part, error.text);
}

/* ---- payload ---- */

TEST(any_json_value_is_a_payload)
{
    static const char *const right[] = {
        "null",
        "true",
        "0",
        "-1.5e300",
        "\"\"",
        "[]",
        "{}",
        " {\"a\": [1, 2]} \n",
        "\"\\u0000\"",
        "{\"a\":1,\"a\":2}",
        "123456789012345678901234567890",
    };
    for (size_t i = 0; i < array_len(right); i++)
        check_payload(slice_of(right[i]), 0, NULL);
    check_payload(absent, 0, NULL);
}

TEST(what_is_not_json_is_no_payload)
{
    static const char *const wrong[] = {
        "",      " ",        "{",       "}",   "[1,]",  "{\"a\":}",
        "{a:1}", "'a'",      "01",      "nul", "nulls", "1 2",
        "\"a",   "\"\xff\"", "\"\\x\"", "NaN", "+1",    "\xef\xbb\xbf{}",
        "// a",  "\"\n\"",
    };
    for (size_t i = 0; i < array_len(wrong); i++)
        check_payload(slice_of(wrong[i]), -HF_INVALID,
                      "payload is not valid JSON at byte");
    check_payload((struct slice){ "1\0", 2 }, -HF_INVALID, "byte 1");
    check_payload((struct slice){ "\"\0\"", 3 }, -HF_INVALID, "byte 1");
}

static struct slice nested(char *out, size_t depth)
{
    memset(out, '[', depth);
    memset(out + depth, ']', depth);
    return (struct slice){ out, 2 * depth };
}

TEST(a_payload_is_nested_at_most_64_deep)
{
    static char text[2 * 100000];

    check_payload(nested(text, 64), 0, NULL);
    check_payload(nested(text, 65), -HF_INVALID, "nested at most 64 deep");
    check_payload(nested(text, 100000), -HF_INVALID, "nested at most 64 deep");
}

TEST(a_payload_may_fill_its_limit_and_not_more)
{
    static char text[LIMIT_PAYLOAD_BYTES + 1];
    struct error error = { 0 };

    memset(text, 'a', sizeof(text));
    text[0] = text[LIMIT_PAYLOAD_BYTES - 1] = '"';
    check_payload((struct slice){ text, LIMIT_PAYLOAD_BYTES }, 0, NULL);
    check_payload((struct slice){ text, LIMIT_PAYLOAD_BYTES + 1 }, -HF_TOO_LARGE,
                  "payload has 1048577 bytes; it may have up to 1048576.");
    /* The operator's limit is the one that counts. */
    check_ok(look(SLICE("[1,2]"), absent, 5, NULL));
    check_err(look(SLICE("[1,2]"), absent, 4, &error), -HF_TOO_LARGE);
    check_str(error.text, "payload has 5 bytes; it may have up to 4.");
    check_ok(look(absent, absent, 1, NULL));
}

/* ---- metadata ---- */

TEST(metadata_is_an_object_of_strings)
{
    static const char *const wrong[] = { "null", "true", "1", "\"a\"", "[]", "[\"a\"]" };
    static const char *const wrong_values[] = { "null", "true", "1",
                                                "[]",   "{}",   "{\"b\":\"c\"}" };
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 1000);
    check_metadata(SLICE("{}"), 0, NULL);
    check_metadata(SLICE("{\"tenant\": \"acme\", \"note\": \"\"}"), 0, NULL);
    check_metadata(SLICE("{\"\xe2\x82\xac\":\"\\u20ac\"}"), 0, NULL);
    for (size_t i = 0; i < array_len(wrong); i++)
        check_metadata(slice_of(wrong[i]), -HF_INVALID, "object");
    for (size_t i = 0; i < array_len(wrong_values); i++) {
        buf_reset(&buf);
        buf_printf(&buf, "{\"a\":\"b\",\"key\":%s}", wrong_values[i]);
        check_ok(buf_end(&buf, &text));
        check_metadata(text, -HF_INVALID, "\"key\" is ");
    }
}

TEST(metadata_that_is_not_json_is_refused)
{
    check_metadata(SLICE(""), -HF_INVALID, "not valid JSON at byte 0");
    check_metadata(SLICE("{\"a\":\"b\""), -HF_INVALID, "not valid JSON");
    check_metadata(SLICE("{\"a\":\"b\"}x"), -HF_INVALID, "not valid JSON at byte 9");
}

TEST(metadata_has_each_key_once)
{
    check_metadata(SLICE("{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}"), -HF_INVALID, "twice");
    check_metadata(SLICE("{\"a\":\"1\",\"\\u0061\":\"2\"}"), -HF_INVALID, "twice");
}

/* An object with `entries` entries, whose keys and values have so many bytes. */
static struct slice entries(struct buf *buf, int entries, int key_bytes, int value_bytes)
{
    struct slice text;

    buf_reset(buf);
    buf_byte(buf, '{');
    for (int i = 0; i < entries; i++) {
        buf_printf(buf, "%s\"%0*d\":\"", i ? "," : "", key_bytes, i);
        for (int n = 0; n < value_bytes; n++)
            buf_byte(buf, 'v');
        buf_byte(buf, '"');
    }
    buf_byte(buf, '}');
    check_ok(buf_end(buf, &text));
    return text;
}

TEST(metadata_stays_within_its_limits)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 100000);
    check_metadata(entries(&buf, 32, 10, 10), 0, NULL);
    check_metadata(entries(&buf, 33, 10, 10), -HF_INVALID, "up to 32");
    check_metadata(entries(&buf, 1, 100, 500), 0, NULL);
    check_metadata(entries(&buf, 1, 101, 1), -HF_INVALID, "1 to 100 bytes");
    check_metadata(entries(&buf, 1, 1, 501), -HF_INVALID, "0 to 500 bytes");
    check_metadata(SLICE("{\"\":\"a\"}"), -HF_INVALID, "1 to 100 bytes");
}

TEST(metadata_as_a_whole_has_at_most_4096_bytes)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 100000);
    text = entries(&buf, 8, 6, 499); /* 8 * (6 + 499 + 5) + 7 + 2 = 4089 */
    check_int(text.n, 4089);
    check_metadata(text, 0, NULL);
    buf_text(&buf, "       "); /* white space is text, too */
    check_ok(buf_end(&buf, &text));
    check_int(text.n, LIMIT_METADATA_BYTES);
    check_metadata(text, 0, NULL);
    buf_byte(&buf, ' ');
    check_ok(buf_end(&buf, &text));
    check_metadata(text, -HF_TOO_LARGE,
                   "metadata has 4097 bytes; it may have up to 4096");
}

TEST(lengths_in_metadata_count_decoded_bytes)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    for (int units = 500; units <= 501; units++) {
        buf_init(&buf, 10000);
        buf_text(&buf, "{\"a\":\"");
        for (int i = 0; i < units; i++)
            buf_text(&buf, i % 10 ? "a" : "\\u0041"); /* six bytes for one */
        buf_text(&buf, "\"}");
        check_ok(buf_end(&buf, &text));
        check_metadata(text, units == 500 ? 0 : -HF_INVALID, "0 to 500 bytes");
        buf_release(&buf);
    }
}

TEST(a_nul_in_metadata_is_refused)
{
    check_metadata(SLICE("{\"a\":\"b\\u0000c\"}"), -HF_INVALID, "without NUL");
    check_metadata(SLICE("{\"a\\u0000\":\"b\"}"), -HF_INVALID, "without NUL");
}

/* ---- commands ---- */

TEST(every_op_has_a_name_of_its_own)
{
    for (int op = 0; op < OPS; op++) {
        check(op_name((enum op)op)[0] != '\0');
        for (int other = 0; other < op; other++)
            check(strcmp(op_name((enum op)op), op_name((enum op)other)) != 0);
    }
    check_str(op_name(OP_ENQUEUE), "enqueue");
    check_str(op_name(OP_RENEW), "renew");
}

TEST(a_command_owns_what_is_put_into_its_arena)
{
    struct command *command = command_new(OP_CLAIM);

    check(command != NULL);
    check_int(command->op, OP_CLAIM);
    check_int(command->result, 0);
    check_int(command->error.code, 0);
    check(command->done == NULL);
    check_slice(arena_dup(&command->arena, SLICE("payload")), "payload");
    /* A batch of the largest body, as it was sent. */
    check(arena_alloc(&command->arena, LIMIT_BATCH_BODY_BYTES) != NULL);
    check_ok(arena_end(&command->arena));
    command_free(command);
    command_free(NULL);
}
