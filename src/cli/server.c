/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c -- commands about the server itself: its configuration. */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "daemon/server.h"

/* ---- the flags of the configuration ---- */

enum { FLAG_NAME_BYTES = 40, OUTPUT_BYTES = 4 << 20 };

/* worker_listen is --worker-listen. */
static const char *flag_of(const struct knob *knob, char out[FLAG_NAME_BYTES])
{
    snprintf(out, FLAG_NAME_BYTES, "%s", knob->name);
    for (char *at = out; *at; at++)
        if (*at == '_')
            *at = '-';
    return out;
}

size_t cli_config_options(struct cli_option *out)
{
    static char names[CLI_OPTIONS][FLAG_NAME_BYTES]; /* getopt keeps pointers */
    size_t n = 0;

    out[n++] = (struct cli_option){ "config", "FILE",
                                    "the configuration file (HOLDFAST_CONFIG)" };
    out[n++] =
        (struct cli_option){ "set", "NAME=VALUE", "any setting; as often as you like" };
    for (size_t i = 0; i < config_settings(); i++) {
        const struct knob *knob = config_setting(i);
        if (!(knob->is & KNOB_NAMED) || strcmp(knob->name, "db") == 0)
            continue; /* among the common ones */
        assert(n < CLI_OPTIONS);
        out[n] =
            (struct cli_option){ .name = flag_of(knob, names[n]),
                                 .argument = knob->type == KNOB_FLAG ? NULL : "VALUE",
                                 .help = knob->help };
        n++;
    }
    return n;
}

/* The setting and the name of a flag, which live as long as the program. */
static bool find_flag(const char *option, const char *value, struct config_flag *ret)
{
    static char flags[CLI_OPTIONS][FLAG_NAME_BYTES + 2];
    char name[FLAG_NAME_BYTES];
    size_t n = 0;

    for (size_t i = 0; i < config_settings(); i++) {
        const struct knob *knob = config_setting(i);
        if (!(knob->is & KNOB_NAMED))
            continue;
        assert(n < CLI_OPTIONS);
        if (strcmp(flag_of(knob, name), option) == 0) {
            snprintf(flags[n], sizeof(flags[n]), "--%s", name);
            *ret = (struct config_flag){ flags[n], knob->name, value };
            return true;
        }
        n++;
    }
    return false;
}

int cli_config_take(struct cli *cli, const struct cli_option *option, const char *value)
{
    if (strcmp(option->name, "config") == 0) {
        cli->config_file = value;
        return 0;
    }
    if (cli->flag_count >= CLI_FLAGS)
        return cli_refuse(cli, "There are over %d settings among the flags; use a file.",
                          CLI_FLAGS);
    struct config_flag *flag = &cli->flags[cli->flag_count++];
    if (strcmp(option->name, "set") == 0) {
        *flag = (struct config_flag){ "--set", NULL, value };
        return 0;
    }
    bool found = find_flag(option->name, value, flag);
    assert(found);
    return found ? 0 : -HF_INTERNAL;
}

static struct config_input cli_config_input(const struct cli *cli)
{
    return (struct config_input){
        .file = cli->config_file,
        .environment = environ,
        .flags = cli->flags,
        .flag_count = cli->flag_count,
        .init = getpid() == 1,
    };
}

int cli_config_load(struct cli *cli, struct config **ret)
{
    const struct config_input input = cli_config_input(cli);
    struct config_problems *problems = new(struct config_problems);

    if (!problems)
        return -HF_NOMEM;
    int r = config_load(&input, problems, ret);
    size_t told = problems->count < CONFIG_PROBLEMS ? problems->count : CONFIG_PROBLEMS;
    for (size_t i = 0; r < 0 && problems->count > 1 && i < told; i++)
        fprintf(stderr, "holdfast: %s\n", problems->items[i].text);
    if (r < 0 && problems->count > 1)
        cli_refuse(cli, "The configuration has %zu problems%s.", problems->count,
                   problems->count > told ? ", of which these are the first" : "");
    else if (r < 0)
        cli_refuse(cli, "%s", problems->items[0].text);
    free(problems);
    return r;
}

/* ---- config ---- */

static const struct cli_option config_options[] = {
    { "sample", NULL, "print a sample file with every setting, explained" },
    { "manual", NULL, "print the tables of the manual, in Markdown" },
    { 0 },
};

/* Name, value, source; a long value pushes its source to the right, uncut. */
static void print_setting(const char *name, const char *value, const char *source)
{
    printf("%-28s %-32s %s\n", name, value, source);
}

static int print_sections(const struct config *config, enum config_section kind,
                          struct buf *value)
{
    const struct section_row *row = config_section_row(kind);
    int r = 0;

    for (size_t i = 0; i < config_section_count(config, kind); i++) {
        const char *item = config_section_item(config, kind, i);
        const struct section_source *source = config_section_source(config, kind, i);
        printf("\n[%s %s]\n", row->word, item);
        for (size_t k = 0; r == 0 && k < row->key_count; k++) {
            char place[LIMIT_PATH_BYTES + 20];
            struct slice text;
            if (source->key_lines[k] == 0)
                continue;
            buf_reset(value);
            knob_show(&row->keys[k], item, value);
            snprintf(place, sizeof(place), "%s:%d", config->file, source->key_lines[k]);
            r = buf_end(value, &text);
            if (r == 0)
                print_setting(row->keys[k].name, text.p, place);
        }
    }
    return r;
}

static int print_config(const struct config *config)
{
    struct buf value, source;
    int r = 0;

    buf_init(&value, OUTPUT_BYTES);
    buf_init(&source, OUTPUT_BYTES);
    print_setting("NAME", "VALUE", "SOURCE");
    for (size_t i = 0; r == 0 && i < config_settings(); i++) {
        struct slice value_text, source_text = { 0 };
        buf_reset(&value);
        buf_reset(&source);
        knob_show(config_setting(i), config_object(config, i), &value);
        config_show_source(config, i, &source);
        r = buf_end(&value, &value_text);
        if (r == 0)
            r = buf_end(&source, &source_text);
        if (r == 0)
            print_setting(config_setting(i)->name, value_text.n ? value_text.p : "-",
                          source_text.p);
    }
    for (int kind = 0; r == 0 && kind < CONFIG_SECTION_KINDS; kind++)
        r = print_sections(config, (enum config_section)kind, &value);
    buf_release(&value);
    buf_release(&source);
    return r;
}

static int print_text(void (*write)(struct buf *buf))
{
    struct buf buf;
    struct slice text;

    buf_init(&buf, OUTPUT_BYTES);
    write(&buf);
    int r = buf_end(&buf, &text);
    if (r == 0)
        fwrite(text.p, 1, text.n, stdout);
    buf_release(&buf);
    return r;
}

static int config(struct cli *cli)
{
    struct config *loaded = NULL;
    struct buf buf;

    if (cli_option(cli, "sample"))
        return print_text(config_write_sample);
    if (cli_option(cli, "manual"))
        return print_text(config_write_manual);
    int r = cli_config_load(cli, &loaded);
    if (r < 0)
        return r;
    if (cli->json) {
        buf_init(&buf, OUTPUT_BYTES);
        config_write_json(loaded, &buf);
        r = print_json_buf(&buf);
    } else {
        r = print_config(loaded);
    }
    config_free(loaded);
    return r;
}

/* ---- serve ---- */

static int serve(struct cli *cli)
{
    struct config *config = NULL;
    struct error error = { 0 };
    const struct config_input input = cli_config_input(cli);

    if (cli->arg_count > 0)
        return cli_refuse(cli, "serve takes no arguments; settings are flags.");
    int r = cli_config_load(cli, &config);
    if (r < 0)
        return r;
    r = server_run(config, &input, &error);
    if (r < 0)
        cli_refuse(cli, "%s", error.text);
    return r;
}

/* clang-format off */
const struct subcommand server_commands[] = {
    { "serve", "", "run the server: API, workers, recovery", 0, 0,
      .configured = true, .run = serve },
    { "config", "", "show every setting of the server with where it comes from", 0, 0,
      .configured = true, .options = config_options, .run = config },
    { 0 },
};
/* clang-format on */
