/* SPDX-License-Identifier: Apache-2.0
 *
 * help.c -- what the table of subcommands says about itself: help, completions,
 * version. */
#include <stdio.h>

#include "cli.h"

/* ---- help ---- */

static void list_option(const struct cli_option *option)
{
    char text[80], letter[] = "-x, ";
    letter[1] = option->letter;
    snprintf(text, sizeof(text), "%s--%s%s%s", option->letter ? letter : "", option->name,
             option->argument ? " " : "", option->argument ? option->argument : "");
    printf("  %-28s %s\n", text, option->help);
}

void explain_all(void)
{
    const struct subcommand *c = NULL;

    printf("Usage: holdfast COMMAND [OPTION...] [ARGUMENT...]\n\nCommands:\n");
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++)
        printf("  %-12s %s\n", c->name, c->summary);
    printf(
        "\nWho answers: the store named by --db FILE or postgres://..., else the server\n"
        "named by --url http://HOST:PORT or unix:PATH, else HOLDFAST_URL, else the store\n"
        "HOLDFAST_DB, else the server at http://127.0.0.1:7420. A token goes into\n"
        "HOLDFAST_TOKEN. Every command has --json and --help.\n"
        "\nBegin with: holdfast serve, and in another terminal: holdfast enqueue hello\n"
        "\nExit codes: 0 done; 1 the answer is no; 2 not acceptable; 3 no such thing;\n"
        "4 not in this state; 5 waited in vain; 6 not now, try again; 7 no store to\n"
        "work with; 8 done or not done, nobody knows; 9 a defect, or the machine;\n"
        "10 not allowed.\n");
}

static void explain_actions(const struct subcommand *c)
{
    printf("\nActions (without one, %s; %s):\n", c->actions[0].name, c->note);
    for (const struct action *a = c->actions; a->name; a++) {
        char text[40];
        snprintf(text, sizeof(text), "%s %s", a->name, a->arguments);
        printf("  %-28s %s\n", text, a->summary);
    }
}

void explain_command(const struct subcommand *c)
{
    static const char *const places[] = {
        [NOWHERE] = "",
        [ANYWHERE] = "\nAsks the server, or the store itself with --db.\n",
        [SERVER] = "\nAsks the server.\n",
        [STORE] = "\nWorks on the store itself: --db, HOLDFAST_DB, or holdfast.db.\n",
    };
    struct cli_option options[ALL_OPTIONS];
    size_t count = subcommand_options(c, options);

    printf("Usage: holdfast %s [OPTION...]%s%s\n\n  %s\n", c->name,
           c->arguments[0] ? " " : "", c->arguments, c->summary);
    if (c->actions)
        explain_actions(c);
    printf("\nOptions:\n");
    for (size_t i = 0; i < count; i++)
        list_option(&options[i]);
    printf("%s", places[c->place]);
}

static int help(struct cli *cli)
{
    if (cli->arg_count == 0) {
        explain_all();
        return 0;
    }
    const struct subcommand *c = subcommand_find(cli->args[0]);
    if (!c)
        return cli_refuse(cli, "There is no command %s; \"holdfast help\" lists them.",
                          cli->args[0]);
    explain_command(c);
    return 0;
}

static int version(struct cli *cli)
{
    printf(cli->json ? "{\"version\":\"%s\"}\n" : "holdfast %s\n", hf_version());
    return 0;
}

/* ---- completions ---- */

/* In single quotes, for a shell: ' becomes '\''. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
    putchar('\'');
}

static void print_names(const char *separator)
{
    const struct subcommand *c = NULL;
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++)
        printf("%s%s", i ? separator : "", c->name);
}

static void print_actions(const struct subcommand *c)
{
    for (const struct action *a = c->actions; a && a->name; a++)
        printf("%s%s", a == c->actions ? "" : " ", a->name);
}

static void complete_bash(void)
{
    const struct subcommand *c = NULL;

    printf("# bash completion for holdfast: eval \"$(holdfast completions bash)\"\n"
           "_holdfast() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local words=\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        words='");
    print_names(" ");
    printf(
        "'\n    else\n        case $before in\n"
        "        --db|--file|--config|--config-out) COMPREPLY=($(compgen -f -- \"$word\")); return "
        ";;\n"
        "        esac\n        case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++) {
        struct cli_option options[ALL_OPTIONS];
        size_t count = subcommand_options(c, options);
        printf("        %s) words='", c->name);
        print_actions(c);
        for (size_t k = 0; k < count; k++)
            printf("%s--%s", k || c->actions ? " " : "", options[k].name);
        printf("' ;;\n");
    }
    printf("        esac\n    fi\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "}\n"
           "complete -o default -F _holdfast holdfast\n");
}

static void complete_zsh(void)
{
    const struct subcommand *c = NULL;

    printf(
        "#compdef holdfast\n"
        "# zsh completion for holdfast: a file called _holdfast in a folder of $fpath\n"
        "_holdfast() {\n"
        "    local -a commands\n"
        "    commands=(\n");
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++) {
        char text[200];
        snprintf(text, sizeof(text), "%s:%s", c->name, c->summary);
        printf("        ");
        print_quoted(text);
        printf("\n");
    }
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    case $words[2] in\n");
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++) {
        struct cli_option options[ALL_OPTIONS];
        size_t count = subcommand_options(c, options);
        printf("    %s) compadd -- ", c->name);
        print_actions(c);
        for (size_t k = 0; k < count; k++)
            printf(" --%s", options[k].name);
        printf(" ;;\n");
    }
    printf("    esac\n    _files\n}\n_holdfast \"$@\"\n");
}

static void complete_fish(void)
{
    const struct subcommand *c = NULL;

    printf("# fish completion for holdfast: holdfast completions fish | source\n"
           "complete -c holdfast -f\n");
    for (size_t i = 0; (c = subcommand_at(i)) != NULL; i++) {
        struct cli_option options[ALL_OPTIONS];
        size_t count = subcommand_options(c, options);
        printf("complete -c holdfast -n __fish_use_subcommand -a %s -d ", c->name);
        print_quoted(c->summary);
        printf("\n");
        if (c->actions) {
            printf("complete -c holdfast -n '__fish_seen_subcommand_from %s' -a '",
                   c->name);
            print_actions(c);
            printf("'\n");
        }
        for (size_t k = 0; k < count; k++) {
            printf("complete -c holdfast -n '__fish_seen_subcommand_from %s' -l %s%s -d ",
                   c->name, options[k].name, options[k].argument ? " -r -F" : "");
            print_quoted(options[k].help);
            printf("\n");
        }
    }
}

static int completions(struct cli *cli)
{
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = { { "bash", complete_bash },
                   { "zsh", complete_zsh },
                   { "fish", complete_fish } };

    for (size_t i = 0; i < array_len(shells); i++)
        if (strcmp(shells[i].shell, cli->args[0]) == 0) {
            shells[i].print();
            return 0;
        }
    return cli_refuse(cli,
                      "\"%s\" is no shell that is known here; bash, zsh and fish are.",
                      cli->args[0]);
}

/* clang-format off */
const struct subcommand help_commands[] = {
    { "completions", "bash|zsh|fish", "print what a shell needs to complete commands", 1, 1,
      .run = completions },
    { "help", "[COMMAND]", "explain a command, or list them all", 0, 1, .run = help },
    { "version", "", "print the version", 0, 0, .run = version },
    { 0 },
};
/* clang-format on */
