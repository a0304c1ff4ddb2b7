/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c -- finds the subcommand, reads its options, opens the store, runs it. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli.h"
#include "exec/supervisor.h"

static int help(struct cli *cli);

static int version(struct cli *cli)
{
    printf(cli->json ? "{\"version\":\"%s\"}\n" : "holdfast %s\n", hf_version());
    return 0;
}

static const struct subcommand own_commands[] = {
    { "help", "[COMMAND]", "explain a command, or list them all", 0, 1, .storeless = true,
      .run = help },
    { "version", "", "print the version", 0, 0, .storeless = true, .run = version },
    { 0 },
};

static const struct subcommand *const families[] = { job_commands, queue_commands,
                                                     store_commands, server_commands,
                                                     own_commands };

static const struct cli_option common_options[] = {
    { "db", "FILE|postgres://...", "the store (HOLDFAST_DB, or holdfast.db)" },
    { "json", NULL, "print JSON, for programs" },
    { "help", NULL, "explain the command" },
};

/* ---- help ---- */

static void list_option(const struct cli_option *option)
{
    char text[80];
    snprintf(text, sizeof(text), "--%s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    printf("  %-32s %s\n", text, option->help);
}

/* All options of a command: its own, those of the configuration, the common ones. */
enum { ALL_OPTIONS = 2 * CLI_OPTIONS + array_len(common_options) };
static size_t list_options(const struct subcommand *c, struct cli_option *out)
{
    size_t n = 0;
    for (const struct cli_option *o = c->options; o && o->name; o++) {
        assert(n < CLI_OPTIONS);
        out[n++] = *o;
    }
    if (c->configured)
        n += cli_config_options(out + n);
    for (size_t i = 0; i < array_len(common_options); i++)
        out[n++] = common_options[i];
    return n;
}

static void list_common(void)
{
    for (size_t i = 0; i < array_len(common_options); i++)
        list_option(&common_options[i]);
}

static void explain_all(void)
{
    printf("Usage: holdfast COMMAND [OPTION...] [ARGUMENT...]\n\nCommands:\n");
    for (size_t f = 0; f < array_len(families); f++)
        for (const struct subcommand *c = families[f]; c->name; c++)
            printf("  %-12s %s\n", c->name, c->summary);
    printf("\nOptions of every command:\n");
    list_common();
    printf(
        "\nExit codes: 0 done; 1 the answer is no; 2 not acceptable; 3 no such thing;\n"
        "4 not in this state; 5 waited in vain; 6 not now, try again; 7 no store to\n"
        "work with; 8 done or not done, nobody knows; 9 a defect, or the machine;\n"
        "10 not allowed.\n");
}

static int explain(const struct subcommand *c)
{
    printf("Usage: holdfast %s [OPTION...]%s%s\n\n  %s\n\nOptions:\n", c->name,
           c->arguments[0] ? " " : "", c->arguments, c->summary);
    struct cli_option options[ALL_OPTIONS];
    size_t count = list_options(c, options);
    for (size_t i = 0; i < count; i++)
        list_option(&options[i]);
    return 0;
}

static const struct subcommand *find(const char *name)
{
    for (size_t f = 0; f < array_len(families); f++)
        for (const struct subcommand *c = families[f]; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

static int help(struct cli *cli)
{
    if (cli->arg_count == 0) {
        explain_all();
        return 0;
    }
    const struct subcommand *c = find(cli->args[0]);
    return c ? explain(c)
             : cli_refuse(cli, "There is no command %s; \"holdfast help\" lists them.",
                          cli->args[0]);
}

/* ---- options ---- */

int cli_refuse(struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli->error = (struct hf_error){ .code = -HF_INVALID };
    vsnprintf(cli->error.text, sizeof(cli->error.text), format, args);
    va_end(args);
    return -HF_INVALID;
}

const char *cli_option(const struct cli *cli, const char *name)
{
    for (int i = 0; cli->command->options[i].name; i++)
        if (strcmp(cli->command->options[i].name, name) == 0)
            return cli->values[i];
    assert(false && "the command has no such option");
    return NULL;
}

/* One option as it was given.  1 if it asks for help. */
static int take_option(struct cli *cli, const struct cli_option *option, size_t index,
                       const char *value)
{
    size_t own = 0;

    while (cli->command->options && cli->command->options[own].name)
        own++;
    if (strcmp(option->name, "db") == 0)
        cli->db = value;
    if (index < own)
        cli->values[index] = value ? value : "";
    else if (strcmp(option->name, "json") == 0)
        cli->json = true;
    else if (strcmp(option->name, "help") == 0)
        return 1;
    else if (cli->command->configured)
        return cli_config_take(cli, option, value ? value : "true");
    return 0;
}

static int count_arguments(struct cli *cli)
{
    const struct subcommand *c = cli->command;

    if (cli->arg_count < c->least)
        return cli_refuse(cli, "%s needs more than that: holdfast %s [OPTION...] %s",
                          c->name, c->name, c->arguments);
    if (cli->arg_count > c->most)
        return cli_refuse(
            cli, "\"%s\" is one argument too many: holdfast %s [OPTION...]%s%s",
            cli->args[c->most], c->name, c->arguments[0] ? " " : "", c->arguments);
    return 0;
}

/* 0; 1 if help was asked for. */
static int read_options(struct cli *cli, int argc, char **argv)
{
    struct cli_option list[ALL_OPTIONS];
    struct option options[ALL_OPTIONS + 1] = { 0 };
    size_t count = list_options(cli->command, list);
    int index = 0, c;

    for (size_t i = 0; i < count; i++)
        options[i] =
            (struct option){ .name = list[i].name, .has_arg = list[i].argument != NULL };
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", options, &index)) != -1) {
        if (c == ':')
            return cli_refuse(cli, "%s needs a value.", argv[optind - 1]);
        if (c != 0)
            return cli_refuse(
                cli, "%s is no option of \"holdfast %s\"; see \"holdfast help %s\".",
                argv[optind - 1], cli->command->name, cli->command->name);
        int r = take_option(cli, &list[index], (size_t)index, optarg);
        if (r != 0)
            return r;
    }
    cli->args = argv + optind;
    cli->arg_count = argc - optind;
    return count_arguments(cli);
}

/* ---- running ---- */

/* Goes on where the library's sentence about a missing store ends. */
static int suggest_store(struct cli *cli)
{
    size_t n = strlen(cli->error.text);

    if (n > 0 && cli->error.text[n - 1] == '.')
        n--;
    snprintf(cli->error.text + n, sizeof(cli->error.text) - n, "%s",
             "; name the store with --db or HOLDFAST_DB, or make one with "
             "\"holdfast enqueue\".");
    return -HF_NOT_FOUND;
}

/* A producer makes a store where there is none.  That is what enqueueing is for;
 * to all others, a name that was mistyped is told so. */
static int open_store(struct cli *cli)
{
    const struct subcommand *c = cli->command;
    struct hf_options options;

    hf_options_init(&options);
    options.db = cli->db;
    options.role = c->creates ? c->role : HF_READER;
    int r = hf_open(&options, &cli->error, &cli->hf);
    if (r == -HF_NOT_FOUND && !c->creates)
        return suggest_store(cli);
    if (r < 0 || options.role == c->role)
        return r;
    hf_close(cli->hf);
    options.role = c->role;
    return hf_open(&options, &cli->error, &cli->hf);
}

static int run(struct cli *cli)
{
    if (cli->command->storeless)
        return cli->command->run(cli);
    int r = open_store(cli);
    if (r < 0)
        return r;
    r = cli->command->run(cli);
    hf_close(cli->hf);
    return r;
}

static int complain(const struct cli *cli, int code)
{
    const char *text = cli->error.text[0] ? cli->error.text : hf_status_title(code);
    fprintf(stderr, "holdfast: %s\n", text);
    return status_of(code)->exit_code;
}

int main(int argc, char **argv)
{
    const char *db = getenv("HOLDFAST_DB");
    struct cli cli = { .db = db && db[0] ? db : "holdfast.db" };

    /* Not for people: the process a command runs under. */
    if (argc == 3 && strcmp(argv[1], "supervise") == 0)
        return supervisor_main(argv[2]);
    if (argc < 2) {
        explain_all();
        return status_of(-HF_INVALID)->exit_code;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    cli.command = find(name);
    if (!cli.command)
        return complain(&cli,
                        cli_refuse(&cli,
                                   "There is no command %s; \"holdfast help\" lists "
                                   "them.",
                                   name));
    int r = read_options(&cli, argc - 1, argv + 1);
    if (r == 1)
        return explain(cli.command);
    if (r == 0)
        r = run(&cli);
    if (r == 0 && fflush(stdout) != 0) {
        perror("holdfast: cannot write the answer");
        return status_of(-HF_SYSTEM)->exit_code;
    }
    return r < 0 ? complain(&cli, r) : r;
}
