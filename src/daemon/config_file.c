/* SPDX-License-Identifier: Apache-2.0
 *
 * config_file.c -- reads a configuration file, line by line.
 *
 * The keys of a section that cannot be taken are passed over with it: they would only
 * repeat what is told about the section. */
#include "daemon/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "daemon/config_line.h"

struct reader {
    struct config *config;
    struct config_problems *problems;
    struct buf value; /* where quoted values are taken apart */
    int line;
    /* Where we are: before all sections; in one; in one that cannot be taken. */
    enum { IN_SERVER, IN_SECTION, IN_NOTHING } in;
    enum config_section kind;
    char *item; /* the section's, in the configuration; NUL-ended name first */
    struct section_source *source;
};

void config_problem(struct config_problems *problems, int code, const char *field,
                    const char *format, ...)
{
    char text[sizeof(((struct error *)0)->text)];
    va_list args;

    va_start(args, format);
    int written = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (problems->count < CONFIG_PROBLEMS)
        error_set(&problems->items[problems->count], code, field, "%s",
                  written < 0 ? "The configuration cannot be read." : text);
    problems->count++;
}

static void complain(struct reader *r, int code, const char *field, const char *sentence)
{
    config_problem(r->problems, code, field, "%s:%d: %s", r->config->file, r->line,
                   sentence);
}

static void complain_of(struct reader *r, const struct error *why)
{
    complain(r, why->code, why->field, why->text);
}

/* ---- sections ---- */

static void *grown(void *items, size_t count, size_t bytes)
{
    return reallocarray(items, count + 1, bytes);
}

/* Room for one more section in the configuration; false if there is no memory. */
static bool add_section(struct reader *r)
{
    struct config *c = r->config;
    bool queue = r->kind == SECTION_QUEUE;
    size_t n = config_section_count(c, r->kind);
    struct section_source *sources =
        grown(queue ? c->queue_sources : c->command_sources, n, sizeof(*sources));

    if (!sources)
        return false;
    *(queue ? &c->queue_sources : &c->command_sources) = sources;
    if (queue) {
        struct queue_config *queues = grown(c->queues, n, sizeof(*queues));
        if (!queues)
            return false;
        c->queues = queues;
        c->queue_count++;
        r->item = (char *)&queues[n];
    } else {
        struct command_config *commands = grown(c->commands, n, sizeof(*commands));
        if (!commands)
            return false;
        c->commands = commands;
        c->command_count++;
        r->item = (char *)&commands[n];
    }
    r->source = &sources[n];
    return true;
}

static int line_of_section(const struct reader *r, struct slice name)
{
    for (size_t i = 0; i < config_section_count(r->config, r->kind); i++)
        if (slice_equal(name, slice_of(config_section_item(r->config, r->kind, i))))
            return config_section_source(r->config, r->kind, i)->line;
    return 0;
}

static bool find_section(struct reader *r, struct slice word)
{
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++)
        if (slice_equal(word, slice_of(config_section_row(kind)->word))) {
            r->kind = (enum config_section)kind;
            return true;
        }
    struct slip slip = { .wrong = word };
    char sentence[300];
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++)
        slip_try(&slip, config_section_row(kind)->word);
    snprintf(sentence, sizeof(sentence), "there is no section [%.*s]; %s%s%s",
             (int)utf8_fit(word, 60), word.p, slip.best ? "did you mean [" : "",
             slip.best ? slip.best : "sections are [queue NAME] and [command KIND]",
             slip.best ? "]?" : ".");
    complain(r, -HF_INVALID, NULL, sentence);
    return false;
}

/* Whether a section of this name can be taken; otherwise it is told why not. */
static bool check_section(struct reader *r, struct slice name)
{
    const struct section_row *row = config_section_row(r->kind);
    int quoted = (int)utf8_fit(name, LIMIT_NAME_BYTES), earlier = 0;
    char sentence[400] = "";

    if (!name_valid(name))
        snprintf(
            sentence, sizeof(sentence),
            "[%s %.*s] needs a name behind %s: 1 to %d letters, digits, dots, dashes "
            "and underscores.",
            row->word, quoted, name.p, row->word, LIMIT_NAME_BYTES);
    else if ((earlier = line_of_section(r, name)) > 0)
        snprintf(sentence, sizeof(sentence),
                 "[%s %.*s] stands already in line %d; one of them must go.", row->word,
                 quoted, name.p, earlier);
    else if (r->kind == SECTION_COMMAND && slice_equal(name, SLICE("http")))
        snprintf(sentence, sizeof(sentence),
                 "[command http] cannot be: jobs of kind http are requests, which the "
                 "server makes itself; choose another kind.");
    else if (config_section_count(r->config, r->kind) >= CONFIG_SECTIONS)
        snprintf(sentence, sizeof(sentence), "there are over %d [%s] sections.",
                 CONFIG_SECTIONS, row->word);
    if (!sentence[0])
        return true;
    complain(r, -HF_INVALID, NULL, sentence);
    return false;
}

static void begin_section(struct reader *r, const struct config_line *line)
{
    r->in = IN_NOTHING;
    if (!find_section(r, line->name) || !check_section(r, line->value))
        return;
    if (!add_section(r)) {
        complain(r, -HF_NOMEM, NULL, "there is no memory for this section.");
        return;
    }
    const struct section_row *row = config_section_row(r->kind);
    r->in = IN_SECTION;
    *r->source = (struct section_source){ .line = r->line };
    memset(r->item, 0, row->item_bytes);
    memcpy(r->item, line->value.p, line->value.n);
    for (size_t i = 0; i < row->key_count; i++)
        knob_default(&row->keys[i], r->item);
}

/* ---- keys ---- */

static bool is_setting(struct slice name)
{
    for (size_t i = 0; i < config_settings(); i++)
        if (slice_equal(name, slice_of(config_setting(i)->name)))
            return true;
    return false;
}

/* A name that is none in this section may be one of the server's, or a slip. */
static void complain_of_key(struct reader *r, struct slice name)
{
    const struct section_row *here = config_section_row(r->kind);
    struct slip slip = { .wrong = name };
    int quoted = (int)utf8_fit(name, 60);
    char sentence[300];

    for (size_t i = 0; i < here->key_count; i++)
        slip_try(&slip, here->keys[i].name);
    if (is_setting(name))
        snprintf(sentence, sizeof(sentence),
                 "%.*s is a setting of the whole server; it must stand before the first "
                 "section.",
                 quoted, name.p);
    else
        snprintf(sentence, sizeof(sentence), "a [%s] has no key %.*s%s%s%s", here->word,
                 quoted, name.p, slip.best ? "; did you mean " : "",
                 slip.best ? slip.best : "", slip.best ? "?" : ".");
    complain(r, -HF_INVALID, NULL, sentence);
}

/* A name that is no setting may be a section's, or a slip. */
static void complain_of_setting(struct reader *r, struct slice name)
{
    struct slip slip = { .wrong = name };
    int quoted = (int)utf8_fit(name, 60);
    char sentence[300];

    for (size_t i = 0; i < config_settings(); i++)
        slip_try(&slip, config_setting(i)->name);
    snprintf(sentence, sizeof(sentence), "there is no setting %.*s%s%s%s", quoted, name.p,
             slip.best ? "; did you mean " : "", slip.best ? slip.best : "",
             slip.best ? "?" : ".");
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++) {
        const struct section_row *row = config_section_row(kind);
        if (knob_find(row->keys, row->key_count, name))
            snprintf(sentence, sizeof(sentence),
                     "%.*s belongs into a section [%s %s]; before the first section "
                     "stand settings of the whole server.",
                     quoted, name.p, row->word, row->argument);
    }
    complain(r, -HF_INVALID, NULL, sentence);
}

/* The row of a key here, its object, and where to note its line.  NULL if there is
 * none of this name. */
static const struct knob *find_key(struct reader *r, struct slice name, void **ret_object,
                                   int **ret_line)
{
    if (r->in == IN_SECTION) {
        const struct section_row *row = config_section_row(r->kind);
        const struct knob *knob = knob_find(row->keys, row->key_count, name);
        *ret_object = r->item;
        *ret_line = knob ? &r->source->key_lines[knob - row->keys] : NULL;
        return knob;
    }
    for (size_t i = 0; i < config_settings(); i++)
        if (slice_equal(name, slice_of(config_setting(i)->name))) {
            *ret_object = (void *)config_object(r->config, i);
            r->config->sources[i].from = FROM_FILE;
            *ret_line = &r->config->sources[i].line;
            return config_setting(i);
        }
    return NULL;
}

static void take_key(struct reader *r, const struct config_line *line)
{
    void *object = NULL;
    int *where = NULL;
    char sentence[200];

    if (r->in == IN_NOTHING)
        return;
    const struct knob *knob = find_key(r, line->name, &object, &where);
    if (!knob) {
        if (r->in == IN_SECTION)
            complain_of_key(r, line->name);
        else
            complain_of_setting(r, line->name);
        return;
    }
    if (*where > 0) {
        snprintf(sentence, sizeof(sentence),
                 "%s stands already in line %d; one of them must go.", knob->name,
                 *where);
        complain(r, -HF_INVALID, knob->name, sentence);
        return;
    }
    *where = r->line;
    struct error why = { 0 };
    struct slice value;
    int done =
        config_value_read(line->value, knob->is & KNOB_WORDS, &r->value, &why, &value);
    if (done < 0)
        config_problem(r->problems, done, knob->name, "%s:%d: %s: %s", r->config->file,
                       r->line, knob->name, why.text);
    else if (knob_read(knob, value, object, &why) < 0)
        complain_of(r, &why);
}

/* ---- the file ---- */

static void take_line(struct reader *r, struct slice text)
{
    struct config_line line;
    struct error why = { 0 };
    char sentence[100];

    if (text.n > LIMIT_CONFIG_LINE_BYTES) {
        snprintf(sentence, sizeof(sentence),
                 "the line has %zu bytes; it may have up to %d.", text.n,
                 LIMIT_CONFIG_LINE_BYTES);
        complain(r, -HF_INVALID, NULL, sentence);
    } else if (config_line_read(text, &why, &line) < 0) {
        complain_of(r, &why);
    } else if (line.type == LINE_SECTION) {
        begin_section(r, &line);
    } else if (line.type == LINE_KEY) {
        take_key(r, &line);
    }
}

static void check_commands(struct reader *r)
{
    for (size_t i = 0; i < r->config->command_count; i++) {
        const struct section_source *source = &r->config->command_sources[i];
        char sentence[300];

        if (source->key_lines[0] > 0)
            continue;
        snprintf(sentence, sizeof(sentence),
                 "[command %s] has no argv; it must say which program to run, such as "
                 "argv = /usr/local/bin/%s.",
                 r->config->commands[i].name, r->config->commands[i].name);
        r->line = source->line;
        complain(r, -HF_INVALID, "argv", sentence);
    }
}

void config_text_read(struct config *config, struct slice text,
                      struct config_problems *problems)
{
    struct reader r = { .config = config, .problems = problems };

    buf_init(&r.value, LIMIT_CONFIG_LINE_BYTES);
    if (text.n >= 3 && memcmp(text.p, "\xEF\xBB\xBF", 3) == 0) /* some editors' mark */
        text = (struct slice){ text.p + 3, text.n - 3 };
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end ? (size_t)(end - text.p) : text.n;
        r.line++;
        take_line(&r, (struct slice){ text.p, n });
        n += end ? 1 : 0;
        text = (struct slice){ text.p + n, text.n - n };
    }
    check_commands(&r);
    buf_release(&r.value);
}

/* Everything up to its end, or one byte more than may be.  0 or -errno. */
static int read_all(int fd, struct buf *buf)
{
    for (;;) {
        char *space = buf_space(buf, 65536);
        if (!space)
            return -ENOMEM;
        ssize_t n = read(fd, space, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        buf_advance(buf, (size_t)n);
        if (n == 0 || buf->n > LIMIT_CONFIG_FILE_BYTES)
            return 0;
    }
}

void config_file_read(struct config *config, const char *path, const char *named_by,
                      struct config_problems *problems)
{
    struct buf buf;
    struct slice text;

    if (strlen(path) >= sizeof(config->file)) {
        config_problem(problems, -HF_INVALID, NULL,
                       "The path of the configuration file (%s) is too long: %zu bytes.",
                       named_by, strlen(path));
        return;
    }
    memcpy(config->file, path, strlen(path) + 1);
    buf_init(&buf, (size_t)2 * LIMIT_CONFIG_FILE_BYTES);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : read_all(fd, &buf);
    if (fd >= 0)
        close(fd);
    if (r < 0)
        config_problem(problems, r == -ENOENT ? -HF_NOT_FOUND : -HF_INVALID, NULL,
                       "The configuration file %s (%s) cannot be read: %s.", path,
                       named_by, strerror(-r));
    else if (buf.n > LIMIT_CONFIG_FILE_BYTES)
        config_problem(problems, -HF_INVALID, NULL,
                       "The configuration file %s (%s) has over %d bytes; is it the "
                       "right one?",
                       path, named_by, LIMIT_CONFIG_FILE_BYTES);
    else if (buf_end(&buf, &text) == 0)
        config_text_read(config, text, problems);
    buf_release(&buf);
}
