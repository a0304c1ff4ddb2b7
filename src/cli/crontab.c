/* SPDX-License-Identifier: Apache-2.0
 *
 * crontab.c -- takes a line of a crontab apart. */
#include "cli/crontab.h"

#include "base/text.h"

enum { FIELDS = 5 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct slice trim(struct slice text)
{
    while (text.n > 0 && is_blank(text.p[0])) {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && (is_blank(text.p[text.n - 1]) || text.p[text.n - 1] == '\r'))
        text.n--;
    return text;
}

/* The next word of `text`, which begins behind it then. */
static struct slice take_word(struct slice *text)
{
    struct slice word = { text->p, 0 };

    while (word.n < text->n && !is_blank(text->p[word.n]))
        word.n++;
    *text = trim((struct slice){ text->p + word.n, text->n - word.n });
    return word;
}

/* The configuration takes no control characters, and what it cannot take keeps a server
 * from starting: so such a line is refused here, not there. */
static bool is_text(struct slice line)
{
    bool clean = line.n == 0 || utf8_valid(line);
    for (size_t i = 0; i < line.n; i++)
        clean = clean && ((unsigned char)line.p[i] >= 0x20 || line.p[i] == '\t') &&
                line.p[i] != 0x7f;
    return clean;
}

/* ---- variables ---- */

static struct slice unquote(struct slice text)
{
    bool quoted = text.n >= 2 && (text.p[0] == '"' || text.p[0] == '\'') &&
                  text.p[text.n - 1] == text.p[0];
    return quoted ? (struct slice){ text.p + 1, text.n - 2 } : text;
}

/* NAME=VALUE, as cron has it: the name may be quoted, blanks around = do not count. */
static bool read_variable(struct slice line, struct crontab_line *ret)
{
    size_t n = 0;

    if (line.p[0] == '"' || line.p[0] == '\'') {
        const char *end = memchr(line.p + 1, line.p[0], line.n - 1);
        if (!end)
            return false;
        n = (size_t)(end - line.p) + 1;
    } else {
        while (n < line.n && line.p[n] != '=' && !is_blank(line.p[n]))
            n++;
    }
    struct slice name = unquote((struct slice){ line.p, n });
    struct slice rest = trim((struct slice){ line.p + n, line.n - n });
    if (name.n == 0 || rest.n == 0 || rest.p[0] != '=')
        return false;
    ret->type = CRONTAB_VARIABLE;
    ret->name = name;
    ret->value = unquote(trim((struct slice){ rest.p + 1, rest.n - 1 }));
    return true;
}

/* ---- entries ---- */

static int read_when(struct slice *rest, struct arena *arena, struct error *error,
                     struct slice *ret)
{
    if (rest->p[0] == '@') {
        *ret = take_word(rest);
        return 0;
    }
    char *text = arena_alloc(arena, rest->n + 1), *end = text;
    if (!text)
        return -HF_NOMEM;
    for (int i = 0; i < FIELDS; i++) {
        struct slice word = take_word(rest);
        if (word.n == 0)
            return error_set(error, -HF_INVALID, NULL,
                             "There are %d fields for the time; five must stand before "
                             "the command.",
                             i);
        if (i > 0)
            *end++ = ' ';
        memcpy(end, word.p, word.n);
        end += word.n;
    }
    *ret = (struct slice){ text, (size_t)(end - text) };
    return 0;
}

static int read_command(struct slice text, struct arena *arena, struct error *error,
                        struct slice *ret)
{
    char *out = arena_alloc(arena, text.n + 1);
    size_t n = 0;

    if (!out)
        return -HF_NOMEM;
    for (size_t i = 0; i < text.n; i++) {
        bool escaped = text.p[i] == '\\' && i + 1 < text.n && text.p[i + 1] == '%';
        if (text.p[i] == '%')
            return error_set(error, -HF_INVALID, NULL,
                             "A %% that has no backslash before it ends the command, and "
                             "what follows is its standard input; put that into a script "
                             "(or write \\%% if the sign itself is meant).");
        if (escaped)
            i++;
        out[n++] = text.p[i];
    }
    *ret = (struct slice){ out, n };
    return 0;
}

static int read_entry(struct slice line, bool has_user, struct arena *arena,
                      struct error *error, struct crontab_line *ret)
{
    struct slice rest = line;

    ret->type = CRONTAB_ENTRY;
    int r = read_when(&rest, arena, error, &ret->when);
    if (r < 0)
        return r;
    if (has_user && rest.n > 0)
        ret->user = take_word(&rest);
    if (rest.n == 0)
        return error_set(error, -HF_INVALID, NULL, "There is no command%s.",
                         has_user ? "; the lines have a user before it, as you said with "
                                    "--user-column"
                                  : "");
    return read_command(rest, arena, error, &ret->command);
}

int crontab_read(struct slice line, bool has_user, struct arena *arena,
                 struct error *error, struct crontab_line *ret)
{
    *ret = (struct crontab_line){ .type = CRONTAB_BLANK };
    line = trim(line);
    if (!is_text(line))
        return error_set(error, -HF_INVALID, NULL,
                         "The line has bytes that are no text; it must be UTF-8 without "
                         "control characters. Put what needs them into a script.");
    if (line.n == 0)
        return 0;
    if (line.p[0] == '#') {
        ret->type = CRONTAB_COMMENT;
        return 0;
    }
    return read_variable(line, ret) ? 0 : read_entry(line, has_user, arena, error, ret);
}
