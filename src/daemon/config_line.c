/* SPDX-License-Identifier: Apache-2.0
 *
 * config_line.c -- takes a line of the configuration file apart. */
#include "daemon/config_line.h"

#include "base/text.h"

/* What is quoted of a line that cannot be read. */
enum { QUOTED_BYTES = 60 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_comment(char c)
{
    return c == ';' || c == '#';
}

static struct slice trim(struct slice text)
{
    while (text.n > 0 && is_blank(text.p[0])) {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    return text;
}

/* What is behind the first `n` bytes. */
static struct slice behind(struct slice text, size_t n)
{
    assert(n <= text.n);
    return (struct slice){ text.p + n, text.n - n };
}

static int quoted_bytes(struct slice text)
{
    return (int)utf8_fit(text, QUOTED_BYTES);
}

static int read_section(struct slice line, struct error *error, struct config_line *ret)
{
    const char *end = memchr(line.p, ']', line.n);

    if (!end)
        return error_set(error, -HF_INVALID, NULL,
                         "the section \"%.*s\" has no ] at its end.", quoted_bytes(line),
                         line.p);
    struct slice inner = trim((struct slice){ line.p + 1, (size_t)(end - line.p) - 1 });
    struct slice rest = trim(behind(line, (size_t)(end - line.p) + 1));
    if (rest.n > 0 && !is_comment(rest.p[0]))
        return error_set(error, -HF_INVALID, NULL,
                         "\"%.*s\" stands behind the section; its keys go on lines of "
                         "their own below it.",
                         quoted_bytes(rest), rest.p);
    size_t n = 0;
    while (n < inner.n && !is_blank(inner.p[n]))
        n++;
    *ret = (struct config_line){ LINE_SECTION, { inner.p, n }, trim(behind(inner, n)) };
    return 0;
}

int config_line_read(struct slice line, struct error *error, struct config_line *ret)
{
    if (!utf8_valid(line))
        return error_set(error, -HF_INVALID, NULL,
                         "the line holds bytes that are no UTF-8 text.");
    line = trim(line);
    if (line.n == 0 || is_comment(line.p[0])) {
        *ret = (struct config_line){ .type = LINE_EMPTY };
        return 0;
    }
    if (line.p[0] == '[')
        return read_section(line, error, ret);
    const char *equals = memchr(line.p, '=', line.n);
    if (!equals || equals == line.p)
        return error_set(error, -HF_INVALID, NULL,
                         "\"%.*s\" is neither NAME = VALUE nor a [section] nor a "
                         "comment, which begins with ; or #.",
                         quoted_bytes(line), line.p);
    size_t n = (size_t)(equals - line.p);
    *ret = (struct config_line){ LINE_KEY, trim((struct slice){ line.p, n }),
                                 trim(behind(line, n + 1)) };
    return 0;
}

/* ---- values ---- */

/* Up to a comment, which a blank or nothing stands before. */
static struct slice without_comment(struct slice value)
{
    for (size_t i = 0; i < value.n; i++)
        if (is_comment(value.p[i]) && (i == 0 || is_blank(value.p[i - 1])))
            return trim((struct slice){ value.p, i });
    return trim(value);
}

/* The same, past what is quoted as a shell quotes. */
static struct slice words_without_comment(struct slice value)
{
    char quote = '\0';

    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        if (c == '\\' && quote != '\'')
            i++;
        else if (quote && c == quote)
            quote = '\0';
        else if (!quote && (c == '"' || c == '\''))
            quote = c;
        else if (!quote && is_comment(c) && (i == 0 || is_blank(value.p[i - 1])))
            return trim((struct slice){ value.p, i });
    }
    return trim(value);
}

/* A value between quotes. */
static int read_quoted(struct slice value, struct buf *buf, struct error *error,
                       struct slice *ret)
{
    size_t i = 1;

    buf_reset(buf);
    for (; i < value.n && value.p[i] != '"'; i++) {
        if (value.p[i] == '\\' && i + 1 < value.n &&
            (value.p[i + 1] == '"' || value.p[i + 1] == '\\'))
            i++;
        buf_byte(buf, value.p[i]);
    }
    if (i >= value.n)
        return error_set(error, -HF_INVALID, NULL, "the value has no \" at its end.");
    struct slice rest = trim(behind(value, i + 1));
    if (rest.n > 0 && !is_comment(rest.p[0]))
        return error_set(error, -HF_INVALID, NULL,
                         "\"%.*s\" stands behind the value's closing quote; write \\\" "
                         "for a quote within it.",
                         quoted_bytes(rest), rest.p);
    int r = buf_end(buf, ret);
    return r == 0 ? 0
                  : error_set(error, r, NULL, "there is no memory to read the value.");
}

int config_value_read(struct slice value, bool words, struct buf *buf,
                      struct error *error, struct slice *ret)
{
    if (!words && value.n > 0 && value.p[0] == '"')
        return read_quoted(value, buf, error, ret);
    *ret = words ? words_without_comment(value) : without_comment(value);
    return 0;
}
