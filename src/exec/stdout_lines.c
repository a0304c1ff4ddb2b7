/* SPDX-License-Identifier: Apache-2.0
 *
 * stdout_lines.c -- cuts a stream into lines, and looks at each once. */
#include "stdout_lines.h"

#include "base/json.h"
#include "base/text.h"

void stdout_lines_init(struct stdout_lines *lines)
{
    *lines = (struct stdout_lines){ .percent = -1 };
    /* Room for a carriage return. */
    buf_init(&lines->line, LIMIT_RESULT_BYTES + 1);
    buf_init(&lines->last, LIMIT_RESULT_BYTES + 1);
}

void stdout_lines_release(struct stdout_lines *lines)
{
    buf_release(&lines->line);
    buf_release(&lines->last);
}

/* True if it is a line of progress, also a malformed one: that is no result. */
static bool take_progress(struct stdout_lines *lines, struct slice line)
{
    static const struct slice word = { "::progress", 10 };
    int percent = 0;
    size_t at = word.n;

    if (line.n < word.n || memcmp(line.p, word.p, word.n) != 0)
        return false;
    if (at == line.n || line.p[at++] != ' ')
        return true;
    size_t digits = at;
    while (at < line.n && at < digits + 3 && line.p[at] >= '0' && line.p[at] <= '9')
        percent = percent * 10 + (line.p[at++] - '0');
    if (at == digits || percent > 100 || (at < line.n && line.p[at] != ' '))
        return true;
    struct slice text = { "", 0 };
    if (at < line.n)
        text = (struct slice){ line.p + at + 1, line.n - at - 1 };
    if (!utf8_valid(text))
        text.n = 0;
    lines->percent = percent;
    lines->text_bytes = utf8_fit(text, sizeof(lines->text));
    memcpy(lines->text, text.p, lines->text_bytes);
    lines->reports++;
    return true;
}

static bool is_blank(struct slice line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] != ' ' && line.p[i] != '\t')
            return false;
    return true;
}

static void end_line(struct stdout_lines *lines)
{
    struct buf *line = &lines->line;

    if (line->n > 0 && line->p[line->n - 1] == '\r')
        line->p[--line->n] = '\0';
    struct slice text = { line->p ? line->p : "", line->n };
    if (line->failed || (!is_blank(text) && !take_progress(lines, text))) {
        struct buf other = lines->last;
        lines->last = *line;
        *line = other;
    }
    buf_reset(line);
}

void stdout_lines_add(struct stdout_lines *lines, struct slice bytes)
{
    while (bytes.n > 0) {
        const char *end = memchr(bytes.p, '\n', bytes.n);
        size_t n = end ? (size_t)(end - bytes.p) : bytes.n;
        buf_add(&lines->line, (struct slice){ bytes.p, n });
        if (end)
            end_line(lines);
        bytes.p += end ? n + 1 : n;
        bytes.n -= end ? n + 1 : n;
    }
}

struct slice stdout_lines_end(struct stdout_lines *lines, bool *ret_too_large)
{
    struct slice none = { NULL, 0 };

    end_line(lines);
    struct slice last = { lines->last.p ? lines->last.p : "", lines->last.n };
    bool too_long = lines->last.failed || last.n > LIMIT_RESULT_BYTES;
    /* A long line of plain text was never meant to be one. */
    *ret_too_large = too_long && last.n > 0 && strchr("{[\"", last.p[0]) != NULL;
    if (too_long || last.n == 0)
        return none;
    return json_check(last, LIMIT_JSON_DEPTH, NULL) == 0 ? json_trim(last) : none;
}
