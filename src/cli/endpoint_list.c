/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint_list.c -- endpoints list: those of a project, or of all projects.
 *
 * The API lists the endpoints of one project.  Who wants to know which of them fail does
 * not want to ask for each, so without --project every project is asked for a page, and
 * the pages become one: ids are the order of each and of all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/endpoints.h"
#include "cli/schedules.h"

#define NO_ENDPOINTS                                                                     \
    "No endpoints here. Make one: holdfast endpoints add NAME URL --every 5m"

enum { DEFAULT_ITEMS = 50, LIMIT_ITEMS = 1000, LIMIT_ALL = 1000 * 1000 };

/* ---- for people ---- */

static const char *state_text(struct cli *cli, struct slice endpoint)
{
    bool failing = member_is(endpoint, "status", "active") &&
                   member_int(endpoint, "failuresInRow") > 0;
    return failing ? "failing" : member(cli, endpoint, "status");
}

static int print_list(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID",   "NAME", "PROJECT", "WHEN", "STATE",
                                          "NEXT", "LAST", "ANSWER",  NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice endpoint;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &endpoint)) {
        table_text(&table, member(cli, endpoint, "id"));
        table_text(&table, member(cli, endpoint, "name"));
        table_text(&table, member(cli, endpoint, "project"));
        table_text(&table, schedule_when_text(cli, endpoint));
        table_text(&table, state_text(cli, endpoint));
        table_time(&table, member(cli, endpoint, "nextFireAt"));
        table_time(&table, member(cli, endpoint, "lastStartedAt"));
        table_text(&table, member(cli, endpoint, "lastStatus"));
    }
    return table_print_page(cli, &table, answer, NO_ENDPOINTS);
}

/* ---- of all projects ---- */

struct all {
    struct item {
        int64_t id;
        struct slice json; /* in the command's arena */
    } * list;
    size_t count, room;
    int64_t last; /* of a project that has more: nothing behind it can be told yet */
};

static int add_item(struct cli *cli, struct all *all, struct slice json)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : DEFAULT_ITEMS;
        if (room > LIMIT_ALL)
            return cli_refuse(cli, "There are too many endpoints; name a --project.");
        struct item *grown = realloc(all->list, room * sizeof(*grown));
        if (!grown)
            return -HF_NOMEM;
        all->list = grown;
        all->room = room;
    }
    struct slice copy = arena_dup(&cli->arena, json);
    if (!copy.p)
        return -HF_NOMEM;
    all->list[all->count++] = (struct item){ member_int(json, "id"), copy };
    return 0;
}

static struct ask ask_for_page(struct cli *cli, const char *project)
{
    struct ask ask = ask_for("GET", "projects/%s/endpoints", project);
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return ask;
}

static int add_page(struct cli *cli, struct all *all, const char *project)
{
    cleanup(buf_release) struct buf answer;
    struct ask ask = ask_for_page(cli, project);
    struct slice page = { 0 }, item;

    int r = cli_ask(cli, &ask, &answer, &page);
    if (r == -HF_NOT_FOUND) { /* it was deleted meanwhile */
        cli->error = (struct error){ 0 };
        return 0;
    }
    if (r < 0)
        return r;
    struct json_iter it = json_iter(member_raw(page, "items"));
    while (r == 0 && json_array_next(&it, &item))
        r = add_item(cli, all, item);
    int64_t last = member_int(page, "nextCursor");
    if (last != 0 && (all->last == 0 || last < all->last))
        all->last = last;
    return r;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct item *)a)->id, y = ((const struct item *)b)->id;
    return (x > y) - (x < y);
}

/* As the API would answer, had it such a list. */
static int write_page(struct all *all, int64_t limit, struct buf *out, struct slice *ret)
{
    struct json_writer w = json_writer(out);
    size_t n = 0;

    if (all->count > 0)
        qsort(all->list, all->count, sizeof(*all->list), by_id);
    json_begin_object(&w);
    json_key(&w, "items");
    json_begin_array(&w);
    for (; n < all->count && n < (size_t)limit; n++) {
        if (all->last != 0 && all->list[n].id > all->last)
            break;
        json_raw(&w, all->list[n].json);
    }
    json_end_array(&w);
    bool more = n < all->count || all->last != 0;
    json_put_id(&w, "nextCursor", more && n > 0 ? all->list[n - 1].id : 0);
    json_end_object(&w);
    return buf_end(out, ret);
}

static int add_projects(struct cli *cli, struct all *all)
{
    cleanup(buf_release) struct buf answer;
    struct ask ask = ask_for("GET", "projects");
    struct slice projects = { 0 }, project;

    int r = cli_ask(cli, &ask, &answer, &projects);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(member_raw(projects, "items"));
    while (r == 0 && json_array_next(&it, &project))
        r = add_page(cli, all, member(cli, project, "name"));
    return r;
}

static int list_all(struct cli *cli)
{
    cleanup(buf_release) struct buf out;
    struct all all = { 0 };
    struct slice page = { 0 };
    int64_t limit = DEFAULT_ITEMS;

    buf_init(&out, CLI_ANSWER_BYTES);
    int r = cli_number(cli, "limit", 1, LIMIT_ITEMS, &limit);
    if (r == 0)
        r = add_projects(cli, &all);
    if (r == 0)
        r = write_page(&all, limit, &out, &page);
    free(all.list);
    if (r == 0 && cli->json)
        print_json(page);
    return r < 0 || cli->json ? r : print_list(cli, page);
}

int endpoint_list(struct cli *cli)
{
    const char *project = cli_option(cli, "project");

    if (!project)
        return list_all(cli);
    int r = cli_name(cli, "project", project);
    if (r < 0)
        return r;
    struct ask ask = ask_for_page(cli, project);
    return cli_ask_and_print(cli, &ask, print_list);
}
