/* SPDX-License-Identifier: Apache-2.0
 *
 * argv.c -- one pass over the text, with the state of the quotes in its place:
 * each state is a function that reads on until its end. */
#include "argv.h"

#include "base/limits.h"

struct splitter {
    struct slice text;
    size_t at;          /* the next byte */
    char *out;          /* where the next byte of a word goes */
    size_t broken_at;   /* where what is wrong begins */
    const char *broken; /* what is wrong, NULL while nothing is */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

static bool more(const struct splitter *s)
{
    return !s->broken && s->at < s->text.n;
}

static void stop(struct splitter *s, size_t at, const char *why)
{
    assert(!s->broken);
    s->broken = why;
    s->broken_at = at;
}

static void read_single(struct splitter *s)
{
    size_t opened = s->at++;

    while (more(s) && s->text.p[s->at] != '\'')
        *s->out++ = s->text.p[s->at++];
    if (!more(s))
        stop(s, opened, "the single quote is never closed; write a second one");
    s->at++;
}

/* The byte behind a backslash, or both of them in double quotes. */
static void read_escape(struct splitter *s, bool quoted)
{
    if (s->at + 1 == s->text.n) {
        stop(s, s->at, "the backslash has nothing behind it; write \\\\ for one");
        return;
    }
    char next = s->text.p[s->at + 1];
    s->at += 2;
    if (next == '\n')
        return;
    if (quoted && !strchr("\"\\$`", next))
        *s->out++ = '\\';
    *s->out++ = next;
}

static void read_double(struct splitter *s)
{
    size_t opened = s->at++;

    while (more(s) && s->text.p[s->at] != '"') {
        if (s->text.p[s->at] == '\\' && s->at + 1 < s->text.n)
            read_escape(s, true);
        else
            *s->out++ = s->text.p[s->at++];
    }
    if (!more(s))
        stop(s, opened, "the double quote is never closed; write a second one");
    s->at++;
}

static void skip_space(struct splitter *s)
{
    for (;;) {
        if (more(s) && is_space(s->text.p[s->at]))
            s->at++;
        else if (s->at + 1 < s->text.n && s->text.p[s->at] == '\\' &&
                 s->text.p[s->at + 1] == '\n')
            s->at += 2;
        else
            return;
    }
}

/* One word, up to the space behind it. */
static char *read_word(struct splitter *s)
{
    char *word = s->out;

    while (more(s) && !is_space(s->text.p[s->at])) {
        char c = s->text.p[s->at];
        if (c == '\'')
            read_single(s);
        else if (c == '"')
            read_double(s);
        else if (c == '\\')
            read_escape(s, false);
        else
            *s->out++ = s->text.p[s->at++];
    }
    *s->out++ = '\0';
    return word;
}

int argv_split(struct slice text, struct arena *arena, struct error *error, char ***ret,
               size_t *ret_count)
{
    assert(arena && ret && ret_count);
    if (text.n > LIMIT_ARGV_BYTES)
        return error_set(error, -HF_TOO_LARGE, "argv",
                         "argv has %zu bytes; it may have up to %d", text.n,
                         LIMIT_ARGV_BYTES);
    if (text.n > 0 && memchr(text.p, '\0', text.n))
        return error_set(error, -HF_INVALID, "argv", "argv has a NUL byte in it");

    /* Every byte goes to at most one word, and each word needs a space before the
     * next: that bounds both. */
    char **words = arena_array(arena, char *, text.n / 2 + 2);
    char *bytes = arena_alloc(arena, text.n + 2);
    if (!words || !bytes)
        return -HF_NOMEM;
    struct splitter s = { .text = text, .out = bytes };
    size_t count = 0;
    for (skip_space(&s); more(&s); skip_space(&s))
        words[count++] = read_word(&s);
    assert(s.broken || s.out <= bytes + text.n + 1);
    if (s.broken)
        return error_set(error, -HF_INVALID, "argv", "argv, from byte %zu on: %s",
                         s.broken_at, s.broken);
    if (count == 0)
        return error_set(error, -HF_INVALID, "argv",
                         "argv is empty; it must name a program and its arguments");
    if (words[0][0] == '\0')
        return error_set(error, -HF_INVALID, "argv",
                         "argv begins with an empty word; it must name a program");
    *ret = words;
    *ret_count = count;
    return 0;
}
