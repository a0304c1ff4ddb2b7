/* SPDX-License-Identifier: Apache-2.0
 *
 * door.c -- asking, whoever answers. */
#include "cli/door.h"

#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

void door_close(struct door *door)
{
    if (door)
        door->kind->close(door);
}

void ask_param(struct ask *ask, const char *name, const char *value)
{
    assert(ask->param_count < ASK_PARAMS);
    if (value)
        ask->params[ask->param_count++] = (struct ask_param){ name, value };
}

struct ask ask_for(const char *method, const char *path, ...)
{
    struct ask ask = { .method = method };
    va_list args;

    va_start(args, path);
    int n = vsnprintf(ask.path, sizeof(ask.path), path, args);
    va_end(args);
    assert(n > 0 && (size_t)n < sizeof(ask.path)); /* names are short */
    (void)n;
    return ask;
}

int cli_ask(struct cli *cli, const struct ask *ask, struct buf *answer, struct slice *ret)
{
    buf_init(answer, CLI_ANSWER_BYTES);
    int r = cli_open(cli);
    if (r == 0)
        r = cli->door->kind->ask(cli->door, ask, &cli->error, answer);
    return r < 0 ? r : buf_end(answer, ret);
}

int cli_follow(struct cli *cli, const struct ask *ask, door_event *event, void *arg)
{
    int r = cli_open(cli);
    return r < 0 ? r : cli->door->kind->follow(cli->door, ask, &cli->error, event, arg);
}

int cli_ask_and_print(struct cli *cli, const struct ask *ask,
                      int (*print)(struct cli *cli, struct slice answer))
{
    cleanup(buf_release) struct buf answer;
    struct slice text = { 0 };

    int r = cli_ask(cli, ask, &answer, &text);
    if (r < 0)
        return r;
    if (!cli->json)
        return print(cli, text);
    print_json(text);
    return 0;
}

int cli_delete(struct cli *cli, const struct ask *ask, const char *what,
               const char *behind)
{
    cleanup(buf_release) struct buf answer;
    struct slice nothing = { 0 };
    const char *id = strrchr(ask->path, '/') + 1;

    int r = cli_ask(cli, ask, &answer, &nothing);
    if (r == 0 && cli->json)
        printf("{\"deleted\":\"%s\"}\n", id);
    else if (r == 0)
        printf("%s %s is deleted%s.\n", what, id, behind);
    return r;
}

struct slice member_raw(struct slice object, const char *name)
{
    struct slice value = json_kind_of(object) == JSON_KIND_OBJECT
                             ? json_find(object, slice_of(name))
                             : (struct slice){ 0 };
    bool there = value.p && json_kind_of(value) != JSON_KIND_NULL;
    return there ? value : (struct slice){ 0 };
}

const char *member(struct cli *cli, struct slice object, const char *name)
{
    struct slice value = member_raw(object, name), text = { 0 };

    if (!value.p)
        return NULL;
    if (json_kind_of(value) != JSON_KIND_STRING)
        return arena_dup(&cli->arena, value).p;
    return json_decode(value, &cli->arena, &text) == 0 ? text.p : "?";
}

/* Ids are strings, counts are numbers. */
int64_t member_int(struct slice object, const char *name)
{
    struct slice value = member_raw(object, name);
    char digits[24];
    bool quoted = value.p && value.p[0] == '"';

    snprintf(digits, sizeof(digits), "%.*s", (int)(value.n < 23 ? value.n : 23),
             value.p ? value.p : "");
    return strtoll(digits + quoted, NULL, 10);
}

bool member_is(struct slice object, const char *name, const char *text)
{
    struct slice value = member_raw(object, name);
    return value.p && json_kind_of(value) == JSON_KIND_STRING &&
           json_string_is(value, slice_of(text));
}

bool member_true(struct slice object, const char *name)
{
    struct slice value = member_raw(object, name);
    return value.p && json_kind_of(value) == JSON_KIND_BOOL && value.p[0] == 't';
}
