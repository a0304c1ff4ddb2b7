/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress and the result are found whatever the pieces are in which the lines
 * come. */
#include "exec/stdout_lines.h"
#include "test.h"

/* Reads `text` in pieces of `step` bytes. */
static struct slice read_in_steps(struct stdout_lines *lines, struct slice text,
                                  size_t step, bool *too_large)
{
    stdout_lines_init(lines);
    for (size_t at = 0; at < text.n; at += step) {
        size_t n = text.n - at < step ? text.n - at : step;
        stdout_lines_add(lines, (struct slice){ text.p + at, n });
    }
    return stdout_lines_end(lines, too_large);
}

TEST(the_last_line_is_the_result_if_it_is_JSON)
{
    static const struct {
        const char *text, *result;
    } cases[] = {
        { "", NULL },
        { "\n\n", NULL },
        { "{}", "{}" },
        { "{}\n", "{}" },
        { "{}\r\n", "{}" },
        { "first\n  {\"a\": 1}  \n\n \t\n", "{\"a\": 1}" },
        { "{}\nlast", NULL },
        { "42\n", "42" },
        { "\"text\"\n", "\"text\"" },
        { "nul\n", NULL },
        { "{}{}\n", NULL },
        { "[1]\n::progress 100 done\n", "[1]" },
        { "[1]\n::progress what\n", "[1]" },
        { "[1]\n::progression\n", "[1]" },
        { "\xff\n", NULL },
    };
    struct stdout_lines lines;
    bool too_large;

    for (size_t i = 0; i < array_len(cases); i++)
        for (size_t step = 1; step <= 8; step++) {
            struct slice text = slice_of(cases[i].text);
            check_slice(read_in_steps(&lines, text, step, &too_large), cases[i].result);
            check(!too_large);
            stdout_lines_release(&lines);
        }
}

TEST(progress_is_a_number_to_100_and_perhaps_a_text)
{
    static const struct {
        const char *text;
        int percent;
        const char *words;
    } cases[] = {
        { "::progress 40 half of it\n", 40, "half of it" },
        { "::progress 0\n", 0, "" },
        { "::progress 100 \n", 100, "" },
        { "::progress 7  two spaces", 7, " two spaces" },
        { "::progress 10 a\n::progress 20 b\r\nno\n", 20, "b" },
        { "::progress 10 a\n::progress 101 b\n", 10, "a" },
        { "::progress 10 a\n::progress -1 b\n", 10, "a" },
        { "::progress 10 a\n::progress 20b\n", 10, "a" },
        { "::progress 10 a\n::progress 1000 b\n", 10, "a" },
        { "::progress 10 a\n ::progress 20 b\n", 10, "a" },
        { "::progress 50 caf\xe9\n", 50, "" },
        { "::progress\n", -1, "" },
        { "progress 1\n", -1, "" },
    };
    struct stdout_lines lines;
    bool too_large;

    for (size_t i = 0; i < array_len(cases); i++)
        for (size_t step = 1; step <= 30; step += 3) {
            (void)read_in_steps(&lines, slice_of(cases[i].text), step, &too_large);
            check_int(lines.percent, cases[i].percent);
            struct slice words = { lines.text, lines.text_bytes };
            check_slice(words, cases[i].words);
            stdout_lines_release(&lines);
        }
}

TEST(a_long_text_of_progress_is_cut_between_characters)
{
    char text[2000] = "::progress 1 x";
    struct stdout_lines lines;
    bool too_large;

    for (size_t i = 14; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    (void)read_in_steps(&lines, (struct slice){ text, 1998 }, 100, &too_large);
    check_int(lines.percent, 1);
    check_int(lines.text_bytes, LIMIT_PROGRESS_BYTES - 1);
    stdout_lines_release(&lines);
}

TEST(a_result_may_have_a_mebibyte_and_more_is_told)
{
    enum { MOST = LIMIT_RESULT_BYTES };
    static char text[MOST + 16];
    struct stdout_lines lines;
    bool too_large;

    memset(text, 'x', sizeof(text));
    text[0] = text[MOST - 1] = '"';
    text[MOST] = '\n';
    struct slice result =
        read_in_steps(&lines, (struct slice){ text, MOST + 1 }, 32768, &too_large);
    check_int(result.n, MOST);
    check(!too_large);
    stdout_lines_release(&lines);

    text[MOST - 1] = 'x';
    text[MOST] = '"';
    result = read_in_steps(&lines, (struct slice){ text, MOST + 1 }, 32768, &too_large);
    check_slice(result, NULL);
    check(too_large);
    stdout_lines_release(&lines);

    text[0] = 'x'; /* long, but it was never JSON */
    result = read_in_steps(&lines, (struct slice){ text, MOST + 1 }, 32768, &too_large);
    check_slice(result, NULL);
    check(!too_large);
    stdout_lines_release(&lines);

    /* What came before does not count. */
    text[0] = '"';
    memcpy(text + MOST + 1, "\n{}\n", 4);
    result = read_in_steps(&lines, (struct slice){ text, MOST + 5 }, 32768, &too_large);
    check_slice(result, "{}");
    check(!too_large);
    stdout_lines_release(&lines);
}
