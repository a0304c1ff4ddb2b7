/* SPDX-License-Identifier: Apache-2.0
 *
 * configs.h -- loads configurations from texts, for the tests of src/daemon. */
#pragma once

#include <stdio.h>

#include "daemon/config.h"
#include "test.h"

/* What a test gives; all optional. */
struct given {
    const char *file; /* the text; it becomes holdfast.conf in the test's folder */
    const char *const *environment;
    const struct config_flag *flags;
    size_t flag_count;
    bool init;
};

static inline void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    check(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static inline struct config_problems *problems_new(void)
{
    struct config_problems *problems = new(struct config_problems);
    check(problems);
    return problems;
}

static inline int load(const struct given *given, struct config_problems *problems,
                       struct config **ret)
{
    const struct config_input input = {
        .file = given->file ? test_path("holdfast.conf") : NULL,
        .environment = (char *const *)given->environment,
        .flags = given->flags,
        .flag_count = given->flag_count,
        .init = given->init,
    };

    if (given->file)
        write_file(input.file, given->file);
    return config_load(&input, problems, ret);
}

/* The configuration; the test fails with the problem if there is one. */
static inline struct config *load_good(const struct given *given)
{
    struct config_problems *problems = problems_new();
    struct config *config = NULL;

    if (load(given, problems, &config) < 0)
        fail("%s", problems->items[0].text);
    free(problems);
    return config;
}

static inline struct config *load_text(const char *text)
{
    return load_good(&(struct given){ .file = text });
}

/* The text must have exactly this one problem; `line` 0: without a place in front. */
static inline void check_problem(const struct given *given, const char *sentence)
{
    struct config_problems *problems = problems_new();
    struct config *config = NULL;
    const char *path = test_path("holdfast.conf");

    int r = load(given, problems, &config);
    if (r == 0)
        fail("taken, but expected: %s", sentence);
    const char *text = problems->items[0].text;
    if (strncmp(text, path, strlen(path)) == 0)
        text += strlen(path);
    check_str(text, sentence);
    check_int(problems->count, 1);
    check_int(r, problems->items[0].code);
    check(!config);
    free(problems);
}

/* The place of a setting in the table. */
static inline size_t setting(const char *name)
{
    for (size_t i = 0; i < config_settings(); i++)
        if (strcmp(config_setting(i)->name, name) == 0)
            return i;
    fail("there is no setting %s", name);
}

/* What `show` appends, as a string of the caller's to free. */
static inline char *text_of(struct buf *buf)
{
    struct slice text;
    check_ok(buf_end(buf, &text));
    char *copy = strdup(text.p);
    check(copy);
    buf_release(buf);
    return copy;
}

static inline char *value_of(const struct config *config, const char *name)
{
    struct buf buf;
    buf_init(&buf, 1 << 16);
    knob_show(config_setting(setting(name)), config_object(config, setting(name)), &buf);
    return text_of(&buf);
}

static inline char *source_of(const struct config *config, const char *name)
{
    struct buf buf;
    buf_init(&buf, 1 << 16);
    config_show_source(config, setting(name), &buf);
    return text_of(&buf);
}

#define check_setting(config, name, value, source)                                       \
    do {                                                                                 \
        char *got_value = value_of(config, name), *got_source = source_of(config, name); \
        check_str(got_value, value);                                                     \
        check_str(got_source, source);                                                   \
        free(got_value);                                                                 \
        free(got_source);                                                                \
    } while (0)
