/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.c -- finds what a subcommand with actions is to do, and checks what was given
 * to it, all from the table of its row. */
#include <stdio.h>

#include "base/knob.h"
#include "cli.h"

enum { ACTIONS_TEXT_BYTES = 300 };

/* "list, show and delete" */
static const char *all_actions(const struct action *actions, char out[ACTIONS_TEXT_BYTES])
{
    size_t n = 0;
    for (const struct action *a = actions; a->name && n < ACTIONS_TEXT_BYTES; a++)
        n += (size_t)snprintf(out + n, ACTIONS_TEXT_BYTES - n, "%s%s",
                              a == actions ? "" : (a[1].name ? ", " : " and "), a->name);
    return out;
}

static int unknown_action(struct cli *cli, const char *name)
{
    const struct subcommand *c = cli->command;
    struct slip slip = { .wrong = slice_of(name) };
    char all[ACTIONS_TEXT_BYTES];

    for (const struct action *a = c->actions; a->name; a++)
        slip_try(&slip, a->name);
    return cli_refuse(cli, "%s cannot \"%s\"%s%s%s; it can %s.", c->name, name,
                      slip.best ? " (did you mean " : "", slip.best ? slip.best : "",
                      slip.best ? "?)" : "", all_actions(c->actions, all));
}

static int check_options(struct cli *cli, const struct action *action)
{
    const struct cli_option *options = cli->command->options;

    for (size_t i = 0; options[i].name; i++) {
        char word[40];
        snprintf(word, sizeof(word), " %s ", options[i].name);
        if (cli->values[i] && !strstr(action->options, word))
            return cli_refuse(cli, "--%s is no option of \"holdfast %s %s\".",
                              options[i].name, cli->command->name, action->name);
    }
    return 0;
}

static int run_action(struct cli *cli, const struct action *action)
{
    const char *name = cli->command->name;
    int given = cli->arg_count > 0 ? cli->arg_count - 1 : 0;

    if (given < action->least || given > action->most)
        return cli_refuse(cli, "%s %s takes %s than that: holdfast %s %s%s%s", name,
                          action->name, given < action->least ? "more" : "less", name,
                          action->name, action->arguments[0] ? " " : "",
                          action->arguments);
    int r = check_options(cli, action);
    return r < 0 ? r : action->run(cli);
}

int cli_act(struct cli *cli)
{
    const struct action *actions = cli->command->actions;

    if (cli->arg_count == 0)
        return run_action(cli, &actions[0]);
    for (const struct action *a = actions; a->name; a++)
        if (strcmp(a->name, cli->args[0]) == 0)
            return run_action(cli, a);
    return unknown_action(cli, cli->args[0]);
}
