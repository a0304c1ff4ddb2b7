/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c -- finds the subcommand, reads its options, finds who answers, runs it. */
#include <getopt.h>
#include <stdio.h>

#include "base/knob.h"
#include "base/limits.h"
#include "cli.h"
#include "exec/supervisor.h"

static const struct subcommand *const families[] = {
    job_commands,     many_commands,    queue_commands,    reserve_commands,
    event_commands,   cron_commands,    schedule_commands, endpoint_commands,
    webhook_commands, project_commands, store_commands,    server_commands,
    help_commands
};

const struct subcommand *subcommand_at(size_t i)
{
    for (size_t f = 0; f < array_len(families); f++)
        for (const struct subcommand *c = families[f]; c->name; c++)
            if (i-- == 0)
                return c;
    return NULL;
}

const struct subcommand *subcommand_find(const char *name)
{
    const struct subcommand *c = NULL;
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

/* ---- options ---- */

static const struct cli_option common_options[] = {
    { "db", "FILE|postgres://...", "the store itself, with or without a server", 0 },
    { "url", "URL", "the server: http://HOST:PORT or unix:PATH", 0 },
    { "json", NULL, "print JSON, for programs", 0 },
    { "help", NULL, "explain the command", 0 },
};

static bool takes(const struct subcommand *c, const struct cli_option *option)
{
    if (strcmp(option->name, "db") == 0)
        return c->place == ANYWHERE || c->place == STORE || c->configured;
    if (strcmp(option->name, "url") == 0)
        return c->place == ANYWHERE || c->place == SERVER;
    return true;
}

size_t subcommand_options(const struct subcommand *c, struct cli_option *out)
{
    size_t n = 0;
    for (const struct cli_option *o = c->options; o && o->name; o++) {
        assert(n < CLI_OPTIONS);
        out[n++] = *o;
    }
    if (c->configured)
        n += cli_config_options(out + n);
    const size_t own = n;
    for (size_t i = 0; i < array_len(common_options); i++) {
        if (!takes(c, &common_options[i]))
            continue;
        for (size_t k = 0; k < own; k++) /* the first would hide the other */
            assert(strcmp(out[k].name, common_options[i].name) != 0);
        out[n++] = common_options[i];
    }
    assert(n <= ALL_OPTIONS);
    return n;
}

/* One more value of an option that may have many. */
static int take_another(struct cli *cli, const char **values, const char *value)
{
    struct buf buf;
    struct slice text;

    buf_init(&buf, LIMIT_BODY_BYTES);
    buf_printf(&buf, "%s\n%s", *values, value);
    int r = buf_end(&buf, &text);
    if (r == 0)
        text = arena_dup(&cli->arena, text);
    buf_release(&buf);
    if (r < 0 || !text.p)
        return cli_refuse(cli, "There is too much on the command line.");
    *values = text.p;
    return 0;
}

/* One option as it was given.  1 if it asks for help. */
static int take_option(struct cli *cli, const struct cli_option *option, size_t index,
                       const char *value)
{
    size_t own = 0;

    while (cli->command->options && cli->command->options[own].name)
        own++;
    if (index < own && option->many && cli->values[index])
        return take_another(cli, &cli->values[index], value);
    if (index < own) {
        cli->values[index] = value ? value : "";
        return 0;
    }
    if (strcmp(option->name, "json") == 0)
        cli->json = true;
    else if (strcmp(option->name, "help") == 0)
        return 1;
    else if (cli->command->configured)
        return cli_config_take(cli, option, value ? value : "true");
    else if (strcmp(option->name, "db") == 0)
        cli->db = value;
    else
        cli->url = value;
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
    if (cli->db && cli->url)
        return cli_refuse(cli, "--db names a store and --url a server; give one.");
    return 0;
}

/* What getopt wants: long options, and the letters of those that have one. */
static void describe(const struct cli_option *list, size_t count, struct option *options,
                     char *letters)
{
    *letters++ = ':';
    for (size_t i = 0; i < count; i++) {
        options[i] =
            (struct option){ .name = list[i].name, .has_arg = list[i].argument != NULL };
        if (list[i].letter)
            *letters++ = list[i].letter;
        if (list[i].letter && list[i].argument)
            *letters++ = ':';
    }
    *letters = '\0';
}

/* 0; 1 if help was asked for. */
static int read_options(struct cli *cli, int argc, char **argv)
{
    struct cli_option list[ALL_OPTIONS];
    struct option options[ALL_OPTIONS + 1] = { 0 };
    char letters[2 * ALL_OPTIONS + 2];
    size_t count = subcommand_options(cli->command, list);
    int index = 0, c;

    describe(list, count, options, letters);
    opterr = 0;
    while ((c = getopt_long(argc, argv, letters, options, &index)) != -1) {
        if (c == ':')
            return cli_refuse(cli, "%s needs a value.", argv[optind - 1]);
        if (c == '?')
            return cli_refuse(
                cli, "%s is no option of \"holdfast %s\"; see \"holdfast help %s\".",
                argv[optind - 1], cli->command->name, cli->command->name);
        for (size_t i = 0; c != 0 && i < count; i++)
            if (list[i].letter == c)
                index = (int)i;
        int r = take_option(cli, &list[index], (size_t)index, optarg);
        if (r != 0)
            return r;
    }
    cli->args = argv + optind;
    cli->arg_count = argc - optind;
    return count_arguments(cli);
}

/* ---- who answers ---- */

/* A variable that is set to something. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static int open_hf(struct cli *cli, enum hf_role role)
{
    struct hf_options options;
    struct hf_error why;

    hf_options_init(&options);
    options.db = cli->store;
    options.role = role;
    int r = hf_open(&options, &why, &cli->hf);
    return r < 0 ? cli_fail(cli, r, "%s", why.text) : 0;
}

/* Goes on where the library's sentence about a missing store ends. */
static int suggest_store(struct cli *cli)
{
    size_t n = strlen(cli->error.text);

    if (n > 0 && cli->error.text[n - 1] == '.')
        n--;
    snprintf(cli->error.text + n, sizeof(cli->error.text) - n, "%s",
             "; name the store with --db or HOLDFAST_DB, or make one with "
             "\"holdfast serve\".");
    return -HF_NOT_FOUND;
}

/* A producer makes a store where there is none.  That is what enqueueing is for;
 * to all others, a name that was mistyped is told so. */
static int open_store(struct cli *cli)
{
    const struct subcommand *c = cli->command;

    int r = open_hf(cli, c->creates ? c->role : HF_READER);
    if (r == -HF_NOT_FOUND && !c->creates)
        return suggest_store(cli);
    if (r < 0 || c->creates || c->role == HF_READER)
        return r;
    hf_close(cli->hf);
    cli->hf = NULL;
    return open_hf(cli, c->role);
}

/* The one rule of where a subcommand works: see cli.h. */
int cli_open(struct cli *cli)
{
    const char *db = cli->db, *url = cli->url;

    if (cli->door || cli->hf)
        return 0;
    if (!db && !url)
        url = variable("HOLDFAST_URL");
    if (cli->command->place == STORE) {
        cli->store = db ? db : variable("HOLDFAST_DB");
        if (!cli->store)
            cli->store = "holdfast.db";
        return open_store(cli);
    }
    if (!db && !url && cli->command->place == ANYWHERE)
        db = variable("HOLDFAST_DB");
    if (!db)
        return door_to_server(url ? url : "http://127.0.0.1:7420",
                              variable("HOLDFAST_TOKEN"), &cli->error, &cli->door);
    cli->store = db;
    int r = open_store(cli);
    return r < 0 ? r : door_to_store(cli->hf, &cli->error, &cli->door);
}

static int run(struct cli *cli)
{
    int r = cli->command->place == STORE ? cli_open(cli) : 0;
    if (r == 0)
        r = cli->command->run(cli);
    door_close(cli->door);
    hf_close(cli->hf);
    return r;
}

static int complain(const struct cli *cli, int code)
{
    const char *text = cli->error.text[0] ? cli->error.text : hf_status_title(code);
    fprintf(stderr, "holdfast: %s\n", text);
    return status_of(code)->exit_code;
}

static int unknown_command(struct cli *cli, const char *name)
{
    struct slip slip = { .wrong = slice_of(name) };
    const struct subcommand *c = NULL;

    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++)
        slip_try(&slip, c->name);
    if (slip.best)
        return cli_refuse(cli, "There is no command %s; did you mean %s?", name,
                          slip.best);
    return cli_refuse(cli, "There is no command %s; \"holdfast help\" lists them.", name);
}

int main(int argc, char **argv)
{
    struct cli cli = { 0 };

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
    cli.command = subcommand_find(name);
    if (!cli.command)
        return complain(&cli, unknown_command(&cli, name));
    arena_init(&cli.arena, 64 << 10, CLI_ANSWER_BYTES);
    int r = read_options(&cli, argc - 1, argv + 1);
    if (r == 1) {
        explain_command(cli.command);
        r = 0;
    } else if (r == 0) {
        r = run(&cli);
    }
    arena_release(&cli.arena);
    if (r >= 0 && fflush(stdout) != 0) {
        perror("holdfast: cannot write the answer");
        return status_of(-HF_SYSTEM)->exit_code;
    }
    return r < 0 ? complain(&cli, r) : r;
}
