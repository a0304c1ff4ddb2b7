/* SPDX-License-Identifier: Apache-2.0
 *
 * A buffer's promises: all or nothing, at most its cap, and the first failure
 * is the one that is told. */
/* test: wrap=realloc */
#include <limits.h>

#include "base/buf.h"
#include "test.h"

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

static bool out_of_memory;

void *__wrap_realloc(void *p, size_t n)
{
    return out_of_memory ? NULL : __real_realloc(p, n);
}

static const char *built(struct buf *buf)
{
    struct slice text;

    check_ok(buf_end(buf, &text));
    check_int(strlen(text.p), text.n); /* the NUL is behind it */
    return text.p;
}

TEST(an_empty_buffer_is_empty_but_not_absent)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 10);
    check_str(built(&buf), "");
}

TEST(appends_stand_one_behind_the_other)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 1000);
    buf_text(&buf, "a");
    buf_byte(&buf, 'b');
    buf_add(&buf, (struct slice){ "cdX", 2 });
    buf_add(&buf, (struct slice){ NULL, 0 });
    buf_int(&buf, -42);
    buf_printf(&buf, "[%s|%03d]", "e", 7);
    buf_hex(&buf, SLICE("\x00\xFF\x1a"));
    check_str(built(&buf), "abcd-42[e|007]00ff1a");
}

TEST(numbers_are_written_to_the_last_digit)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 1000);
    buf_int(&buf, INT64_MIN);
    buf_byte(&buf, ' ');
    buf_int(&buf, INT64_MAX);
    check_str(built(&buf), "-9223372036854775808 9223372036854775807");
}

TEST(bytes_may_be_any_bytes)
{
    cleanup(buf_release) struct buf buf;
    struct slice all;
    char bytes[256];

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    buf_init(&buf, 256);
    buf_add(&buf, (struct slice){ bytes, 256 });
    check_ok(buf_end(&buf, &all));
    check(slice_equal(all, (struct slice){ bytes, 256 }));
}

TEST(the_cap_is_the_most_it_holds)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 5);
    buf_text(&buf, "12345");
    check_str(built(&buf), "12345");
    buf_text(&buf, "");
    check_str(built(&buf), "12345");
    buf_byte(&buf, '6');
    check_err(buf_end(&buf, &text), -HF_TOO_LARGE);
}

TEST(an_append_that_does_not_fit_appends_nothing)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 5);
    buf_text(&buf, "123");
    buf_text(&buf, "456");
    check_int(buf.n, 3);
    buf_printf(&buf, "%d", 4); /* would fit, but the failure sticks */
    buf_hex(&buf, SLICE("1"));
    buf_byte(&buf, '4');
    check_int(buf.n, 3);
    check(buf_space(&buf, 1) == NULL);
}

TEST(a_reset_buffer_forgets_its_failure_and_its_bytes)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 5);
    buf_text(&buf, "123");
    buf_text(&buf, "456");
    buf_reset(&buf);
    check_str(built(&buf), "");
    buf_text(&buf, "789");
    check_str(built(&buf), "789");
}

TEST(a_released_buffer_can_be_used_again_under_the_same_cap)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 3);
    buf_text(&buf, "123");
    buf_release(&buf);
    check_str(built(&buf), "");
    buf_text(&buf, "abc");
    check_str(built(&buf), "abc");
    buf_byte(&buf, 'd');
    check_int(buf.failed, -HF_TOO_LARGE);
}

TEST(no_memory_is_told_at_the_end_and_what_was_there_is_still_whole)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 1 << 20);
    buf_text(&buf, "kept");
    out_of_memory = true;
    while (!buf.failed)
        buf_text(&buf, "more and more");
    out_of_memory = false;
    buf_text(&buf, "too late");
    check_err(buf_end(&buf, &text), -HF_NOMEM);
    check(memcmp(buf.p, "keptmore", 8) == 0);
    check_int((buf.n - 4) % strlen("more and more"), 0);
}

TEST(the_first_failure_is_the_one_that_is_told)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 1000);
    out_of_memory = true;
    buf_text(&buf, "x");
    out_of_memory = false;
    for (int i = 0; i < 2000; i++)
        buf_byte(&buf, 'x');
    check_err(buf_end(&buf, &text), -HF_NOMEM);
}

TEST(building_byte_by_byte_takes_few_allocations)
{
    cleanup(buf_release) struct buf buf;
    int moves = 0;
    size_t room = 0;

    buf_init(&buf, 1 << 20);
    for (int i = 0; i < 1 << 20; i++) {
        buf_byte(&buf, 'x');
        moves += buf.room != room;
        room = buf.room;
    }
    check_int(buf.failed, 0);
    check(moves <= 14);
    check_int(room, (1 << 20) + 1); /* never beyond the cap */
}

TEST(a_long_printf_is_written_whole)
{
    cleanup(buf_release) struct buf buf;
    char word[3000];

    memset(word, 'w', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    buf_init(&buf, 10000);
    buf_printf(&buf, "<%s>%d", word, 1);
    check_int(buf.n, sizeof(word) - 1 + 3);
    check_int(strlen(built(&buf)), buf.n);
}

static const char *as_json(struct buf *buf, struct slice text)
{
    buf_reset(buf);
    buf_json(buf, text);
    return built(buf);
}

TEST(json_strings_escape_what_json_wants_escaped_and_nothing_else)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 1000);
    check_str(as_json(&buf, SLICE("")), "\"\"");
    check_str(as_json(&buf, (struct slice){ NULL, 0 }), "\"\"");
    check_str(as_json(&buf, SLICE("plain / €😀\x7F")), "\"plain / €😀\x7F\"");
    check_str(as_json(&buf, SLICE("\"\\\b\f\n\r\t")), "\"\\\"\\\\\\b\\f\\n\\r\\t\"");
    check_str(as_json(&buf, SLICE("a\0b\x1f")), "\"a\\u0000b\\u001f\"");
    check_str(as_json(&buf, SLICE("\n")), "\"\\n\"");
}

TEST(json_strings_replace_bytes_that_are_not_utf8)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 1000);
    check_str(as_json(&buf, SLICE("a\xFFz")), "\"a\xEF\xBF\xBDz\"");
    check_str(as_json(&buf, SLICE("\xE2\x82")), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_str(as_json(&buf, SLICE("\xED\xA0\x80")),
              "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(space_is_filled_by_the_caller_and_taken_as_far_as_it_was)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 1000);
    buf_text(&buf, "ab");
    char *space = buf_space(&buf, 500);
    memset(space, 'x', 500);
    buf_advance(&buf, 3);
    check_str(built(&buf), "abxxx");
    check(buf_space(&buf, 996) == NULL);
}

TEST(consumed_bytes_are_gone_and_the_rest_moves_up)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 6);
    buf_text(&buf, "abcdef");
    buf_consume(&buf, 0);
    check_str(built(&buf), "abcdef");
    buf_consume(&buf, 4);
    check_str(built(&buf), "ef");
    buf_text(&buf, "1234"); /* room again */
    check_str(built(&buf), "ef1234");
    buf_consume(&buf, 6);
    check_str(built(&buf), "");
}
