/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes: a sentence, or words that stay the same when each is written in
 * single quotes and split again. */
#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "exec/argv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void quote(struct buf *buf, const char *word)
{
    buf_byte(buf, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_text(buf, "'\\''");
        else
            buf_byte(buf, *word);
    }
    buf_text(buf, "' ");
}

static void split_again(char **words, size_t count)
{
    struct arena arena;
    struct buf buf;
    struct slice text;
    char **again;
    size_t n;

    arena_init(&arena, 4096, 16 << 20);
    buf_init(&buf, LIMIT_ARGV_BYTES);
    for (size_t i = 0; i < count; i++)
        quote(&buf, words[i]);
    if (buf_end(&buf, &text) == 0) {
        assert(argv_split(text, &arena, NULL, &again, &n) == 0 && n == count);
        for (size_t i = 0; i < count; i++)
            assert(strcmp(words[i], again[i]) == 0);
    }
    buf_release(&buf);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct error error = { 0 };
    char **words;
    size_t count;

    arena_init(&arena, 4096, 16 << 20);
    if (argv_split((struct slice){ (const char *)data, size }, &arena, &error, &words,
                   &count) == 0)
        split_again(words, count);
    else
        assert(error.code < 0 && error.text[0]);
    arena_release(&arena);
    return 0;
}
