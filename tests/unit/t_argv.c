/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of the configuration becomes words as a shell would have it: shown by
 * examples, and by asking a shell. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/rng.h"
#include "exec/argv.h"
#include "test.h"

static struct arena arena;

static int split(struct slice text, struct error *error, char ***ret, size_t *ret_count)
{
    arena_release(&arena);
    arena_init(&arena, 4096, 4 << 20);
    return argv_split(text, &arena, error, ret, ret_count);
}

/* The words, each in brackets. */
static const char *bracketed(const char *text)
{
    static char out[4096];
    char **words;
    size_t count, n = 0;
    struct error error = { 0 };

    if (split(slice_of(text), &error, &words, &count) < 0)
        return "(refused)";
    check(words[count] == NULL);
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(out + n, sizeof(out) - n, "[%s]", words[i]);
    return out;
}

TEST(words_are_split_as_a_shell_splits_them)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "/usr/local/bin/crawl --json", "[/usr/local/bin/crawl][--json]" },
        { "  a \t b\n", "[a][b]" },
        { "a 'b c' d", "[a][b c][d]" },
        { "a \"b c\" d", "[a][b c][d]" },
        { "a\\ b", "[a b]" },
        { "a'b'\"c\"d", "[abcd]" },
        { "a '' \"\"", "[a][][]" },
        { "a '\\'", "[a][\\]" },
        { "a \"\\a\\\"\\\\\\$\\`\"", "[a][\\a\"\\$`]" },
        { "a \\a\\'\\\"\\\\", "[a][a'\"\\]" },
        { "a b\\\nc \\\n d", "[a][bc][d]" },
        { "a \"b\\\nc\" 'd\\\ne'", "[a][bc][d\\\ne]" },
        { "caf\xc3\xa9 \xe2\x82\xac", "[caf\xc3\xa9][\xe2\x82\xac]" },
    };

    for (size_t i = 0; i < array_len(cases); i++)
        check_str(bracketed(cases[i].text), cases[i].words);
}

TEST(nothing_is_expanded)
{
    check_str(bracketed("a $HOME ~ * [x] `id` $(id) #no ; | & < > (b) {c,d} !e"),
              "[a][$HOME][~][*][[x]][`id`][$(id)][#no][;][|][&][<][>][(b)][{c,d}][!e]");
}

TEST(what_cannot_be_split_is_refused_with_its_place)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        { "a 'b", "argv, from byte 2 on: the single quote is never closed" },
        { "a b \"c d", "argv, from byte 4 on: the double quote is never closed" },
        { "a \"b\\", "argv, from byte 2 on: the double quote is never closed" },
        { "a \"b\\\"", "argv, from byte 2 on: the double quote is never closed" },
        { "a b\\", "argv, from byte 3 on: the backslash has nothing behind it" },
        { "", "argv is empty; it must name a program" },
        { " \t\n", "argv is empty; it must name a program" },
        { "'' a", "argv begins with an empty word" },
    };
    char **words = NULL;
    size_t count = 7;

    for (size_t i = 0; i < array_len(cases); i++) {
        struct error error = { 0 };
        check_err(split(slice_of(cases[i].text), &error, &words, &count), -HF_INVALID);
        if (strncmp(error.text, cases[i].sentence, strlen(cases[i].sentence)) != 0)
            fail("%s: %s", cases[i].text, error.text);
        check_str(error.field, "argv");
    }
    check(words == NULL && count == 7);

    struct error error = { 0 };
    check_err(split(SLICE("a\0b"), &error, &words, &count), -HF_INVALID);
    check_str(error.text, "argv has a NUL byte in it");
}

TEST(a_line_may_be_long_but_not_endless)
{
    static char text[LIMIT_ARGV_BYTES + 1];
    char **words;
    size_t count;
    struct error error = { 0 };

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 2 ? ' ' : 'x';
    check_ok(split((struct slice){ text, LIMIT_ARGV_BYTES }, &error, &words, &count));
    check_int(count, LIMIT_ARGV_BYTES / 2);
    check_err(split((struct slice){ text, sizeof(text) }, &error, &words, &count),
              -HF_TOO_LARGE);
}

/* What a shell makes of it: each word and a NUL; -1 if it refuses. */
static ssize_t ask_shell(const char *text, char *out, size_t room)
{
    char script[512];
    snprintf(script, sizeof(script), "set -- %s\nfor w; do printf '%%s\\0' \"$w\"; done",
             text);
    int up[2];
    check_int(pipe(up), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        dup2(up[1], 1);
        close(2);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(up[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(up[0], out + n, room - n)) > 0)
        n += (size_t)got;
    close(up[0]);
    int status;
    check_int(waitpid(pid, &status, 0), pid);
    return status == 0 ? (ssize_t)n : -1;
}

TEST(a_shell_agrees)
{
    static const char letters[] = "ab'\"\\ \t'\"\\ ";
    struct rng rng;
    rng_seed(&rng, 4);
    int agreed = 0;

    for (int round = 0; round < 300; round++) {
        char text[32] = "x ";
        size_t n = 2 + rng_below(&rng, 16);
        for (size_t i = 2; i < n; i++)
            text[i] = letters[rng_below(&rng, sizeof(letters) - 1)];
        text[n] = '\0';

        char theirs[256];
        ssize_t expected = ask_shell(text, theirs, sizeof(theirs));
        char **words;
        size_t count;
        /* Of a line that we refuse, a shell would have wanted more. */
        if (split(slice_of(text), NULL, &words, &count) < 0)
            continue;
        size_t at = 0;
        for (size_t i = 0; i < count; at += strlen(words[i++]) + 1)
            if ((ssize_t)at >= expected || strcmp(theirs + at, words[i]) != 0)
                fail("<<%s>>: word %zu is \"%s\" here", text, i, words[i]);
        check_int(at, expected);
        agreed++;
    }
    check(agreed > 50);
}
