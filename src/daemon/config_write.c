/* SPDX-License-Identifier: Apache-2.0
 *
 * config_write.c -- what is made from the table: sample file, manual, JSON. */
#include <stdio.h>

#include "base/json_write.h"
#include "daemon/config.h"

enum { COLUMNS = 88, VALUE_BYTES = 64 << 10 };

/* The value of a row in an object, in a buffer that is used again and again. */
static struct slice value_of(const struct knob *knob, const void *object, struct buf *buf)
{
    struct slice text = { 0 };

    buf_reset(buf);
    knob_show(knob, object, buf);
    return buf_end(buf, &text) == 0 ? text : SLICE("");
}

static struct slice range_of(const struct knob *knob, struct buf *buf)
{
    struct slice text = { 0 };

    buf_reset(buf);
    if (knob->type != KNOB_TEXT)
        knob_show_range(knob, buf);
    return buf_end(buf, &text) == 0 ? text : SLICE("");
}

/* An object with every default, for rows of the server and the engine. */
static struct config *defaults(void)
{
    struct config *config = new(struct config);

    for (size_t i = 0; config && i < config_settings(); i++)
        knob_default(config_setting(i), (void *)config_object(config, i));
    return config;
}

/* ---- the sample ---- */

/* A comment, broken between words. */
static void put_comment(struct buf *buf, const char *text)
{
    size_t column = 1;

    buf_text(buf, "#");
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column + 1 + n > COLUMNS) {
            buf_text(buf, "\n#");
            column = 1;
        }
        buf_byte(buf, ' ');
        buf_add(buf, (struct slice){ text, n });
        column += 1 + n;
        text += n + strspn(text + n, " ");
    }
    buf_byte(buf, '\n');
}

/* What a row is for, and what is acceptable. */
static void put_help(struct buf *buf, const char *lead, const struct knob *knob)
{
    char text[600];
    struct buf scratch;

    buf_init(&scratch, VALUE_BYTES);
    struct slice range = range_of(knob, &scratch);
    snprintf(text, sizeof(text), "%s%s%s%.*s%s", lead, knob->help, range.n ? " (" : "",
             (int)range.n, range.p, range.n ? ")." : ".");
    if (!lead[0] && text[0] >= 'a' && text[0] <= 'z')
        text[0] = (char)(text[0] - 'a' + 'A');
    put_comment(buf, text);
    buf_release(&scratch);
}

/* A list of what a section may hold, then an example of it. */
static void put_section(struct buf *buf, enum config_section kind, const char *example)
{
    const struct section_row *row = config_section_row(kind);
    char lead[64];

    buf_printf(buf, "\n# ---- [%s %s] ----\n", row->word, row->argument);
    buf_printf(buf, "# %s.\n#\n", row->help);
    for (size_t i = 0; i < row->key_count; i++) {
        snprintf(lead, sizeof(lead), "%s: ", row->keys[i].name);
        put_help(buf, lead, &row->keys[i]);
    }
    buf_text(buf, example);
}

void config_write_sample(struct buf *buf)
{
    struct config *config = defaults();
    struct buf scratch;

    buf_init(&scratch, VALUE_BYTES);
    buf_text(
        buf,
        "# Holdfast's configuration, with every setting at its default.\n"
        "#\n"
        "# Lines that begin with # are comments; remove it to set what the line\n"
        "# says.  A flag (--set NAME=VALUE) or a variable (HOLDFAST_NAME) goes\n"
        "# before what stands here; \"holdfast config\" shows what holds and why.\n");
    for (size_t i = 0; config && i < config_settings(); i++) {
        const struct knob *knob = config_setting(i);
        struct slice value = value_of(knob, config_object(config, i), &scratch);
        buf_byte(buf, '\n');
        put_help(buf, "", knob);
        buf_printf(buf, "#%s =%s%.*s\n", knob->name, value.n ? " " : "", (int)value.n,
                   value.p);
    }
    put_section(buf, SECTION_QUEUE,
                "#[queue scrape]\n#stale_after_ms = 300000\n"
                "#[queue extract]\n#stale_after_ms = 900000\n"
                "#[queue crawl]\n#slots = 6\n#stale_after_ms = 1800000\n");
    put_section(buf, SECTION_COMMAND,
                "#[command crawl]\n#argv = /usr/local/bin/crawl --json\n#queue = crawl\n"
                "#max_execution_time_ms = 1800000\n");
    buf_release(&scratch);
    config_free(config);
}

/* ---- the manual ---- */

static void put_row(struct buf *buf, const struct knob *knob, struct slice initial,
                    bool reload)
{
    struct buf scratch;

    buf_init(&scratch, VALUE_BYTES);
    struct slice range = range_of(knob, &scratch);
    buf_printf(buf, "| `%s` | %s%.*s%s | %.*s | ", knob->name, initial.n ? "`" : "",
               (int)initial.n, initial.p, initial.n ? "`" : "", (int)range.n, range.p);
    if (reload)
        buf_text(buf, knob->is & KNOB_RELOAD ? "reload | " : "restart | ");
    buf_printf(buf, "%s |\n", knob->help);
    buf_release(&scratch);
}

void config_write_manual(struct buf *buf)
{
    struct config *config = defaults();
    struct buf scratch;

    buf_init(&scratch, VALUE_BYTES);
    buf_text(buf,
             "## Settings\n\n| name | default | acceptable | a change needs | what it "
             "is for |\n|---|---|---|---|---|\n");
    for (size_t i = 0; config && i < config_settings(); i++)
        put_row(buf, config_setting(i),
                value_of(config_setting(i), config_object(config, i), &scratch), true);
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++) {
        const struct section_row *row = config_section_row((enum config_section)kind);
        char *item = calloc(1, row->item_bytes);
        buf_printf(buf,
                   "\n## [%s %s]\n\n%s.\n\n| key | default | acceptable | what it is "
                   "for |\n|---|---|---|---|\n",
                   row->word, row->argument, row->help);
        for (size_t i = 0; item && i < row->key_count; i++) {
            knob_default(&row->keys[i], item);
            put_row(buf, &row->keys[i], value_of(&row->keys[i], item, &scratch), false);
        }
        free(item);
    }
    buf_release(&scratch);
    config_free(config);
}

/* ---- JSON ---- */

static void put_value(struct json_writer *w, const char *key, const struct knob *knob,
                      const void *object, struct buf *scratch)
{
    struct slice value = value_of(knob, object, scratch);

    if (knob_unset(knob, object))
        json_put_null(w, key);
    else if (knob->type == KNOB_NUMBER || knob->type == KNOB_FLAG)
        json_put_raw(w, key, value);
    else
        json_put_str(w, key, value);
}

static void put_sections(struct json_writer *w, const struct config *config,
                         enum config_section kind, struct buf *scratch)
{
    const struct section_row *row = config_section_row(kind);

    json_begin_array(w);
    for (size_t i = 0; i < config_section_count(config, kind); i++) {
        const char *item = config_section_item(config, kind, i);
        const struct section_source *source = config_section_source(config, kind, i);
        json_begin_object(w);
        json_put_text(w, "name", item);
        json_put_int(w, "line", source->line);
        for (size_t k = 0; k < row->key_count; k++)
            if (source->key_lines[k] > 0)
                put_value(w, row->keys[k].name, &row->keys[k], item, scratch);
        json_end_object(w);
    }
    json_end_array(w);
}

void config_write_json(const struct config *config, struct buf *buf)
{
    struct json_writer w = json_writer(buf);
    struct buf scratch;
    struct slice source;

    buf_init(&scratch, VALUE_BYTES);
    json_begin_object(&w);
    json_put_str(&w, "file", config->file[0] ? slice_of(config->file) : slice_of(NULL));
    json_key(&w, "settings");
    json_begin_array(&w);
    for (size_t i = 0; i < config_settings(); i++) {
        const struct knob *knob = config_setting(i);
        json_begin_object(&w);
        json_put_text(&w, "name", knob->name);
        put_value(&w, "value", knob, config_object(config, i), &scratch);
        buf_reset(&scratch);
        config_show_source(config, i, &scratch);
        if (buf_end(&scratch, &source) == 0)
            json_put_str(&w, "source", source);
        json_put_bool(&w, "reload", knob->is & KNOB_RELOAD);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_key(&w, "queues");
    put_sections(&w, config, SECTION_QUEUE, &scratch);
    json_key(&w, "commands");
    put_sections(&w, config, SECTION_COMMAND, &scratch);
    json_end_object(&w);
    json_finish(&w);
    buf_release(&scratch);
}
