/* SPDX-License-Identifier: Apache-2.0
 *
 * projects.c -- namespaces: listed, shown, made, paused, deleted with what is in them. */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli.h"

enum { LOOK_LEAST_MS = 50, LOOK_MOST_MS = 1000 };

/* ---- listed and shown ---- */

static const char *state_text(struct slice project)
{
    return member_true(project, "deleting") ? "deleting"
           : member_true(project, "paused") ? "paused"
                                            : "active";
}

static int print_list(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID", "NAME", "STATE", "CREATED", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice project;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &project)) {
        table_text(&table, member(cli, project, "id"));
        table_text(&table, member(cli, project, "name"));
        table_text(&table, state_text(project));
        table_text(&table, member(cli, project, "createdAt"));
    }
    return table_print(&table); /* "default" is always there */
}

static int list(struct cli *cli)
{
    struct ask ask = ask_for("GET", "projects");
    return cli_ask_and_print(cli, &ask, print_list);
}

static void print_count(const char *name, struct slice holds, const char *member)
{
    bool all = member_true(holds, "allCounted");
    char text[40];
    snprintf(text, sizeof(text), "%s%" PRId64, all ? "" : "at least ",
             member_int(holds, member));
    print_field(name, text);
}

static int print_project(struct cli *cli, struct slice project)
{
    struct slice holds = member_raw(project, "holds");

    print_field("project", member(cli, project, "id"));
    print_field("name", member(cli, project, "name"));
    print_field("state", state_text(project));
    print_field("created", member(cli, project, "createdAt"));
    print_number("schedules", holds, "schedules");
    print_number("  are endpoints", holds, "endpoints");
    print_number("webhooks", holds, "webhooks");
    print_number("tokens", holds, "tokens");
    print_count("live jobs", holds, "liveJobs");
    print_count("finished jobs", holds, "finishedJobs");
    return 0;
}

/* An ask about the project that is named. */
static int ask_about(struct cli *cli, const char *method, const char *below,
                     struct ask *ret)
{
    int r = cli_name(cli, "project", cli->args[1]);
    if (r == 0)
        *ret = ask_for(method, "projects/%s%s", cli->args[1], below);
    return r;
}

static int show(struct cli *cli)
{
    struct ask ask;
    int r = ask_about(cli, "GET", "", &ask);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_project);
}

/* ---- made and paused ---- */

static int print_made(struct cli *cli, struct slice project)
{
    printf("Project %s (%s)\n", member(cli, project, "name"), member(cli, project, "id"));
    return 0;
}

static int add(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct ask ask = ask_for("POST", "projects");

    buf_init(&body, 64 << 10);
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    json_put_text(&w, "name", cli->args[1]);
    json_end_object(&w);
    int r = buf_end(&body, &ask.body);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_made);
}

/* Its schedules: jobs that are there are not held by it, which is easily thought. */
static int print_paused(struct cli *cli, struct slice project)
{
    struct slice holds = member_raw(project, "holds");
    int64_t count = member_int(holds, "schedules");

    printf(member_true(project, "paused")
               ? "%s is paused: %" PRId64 " schedules and endpoints make no jobs; jobs "
                 "that are there go on\n"
               : "%s goes on, with %" PRId64 " schedules and endpoints\n",
           member(cli, project, "name"), count);
    return 0;
}

static int pause_project(struct cli *cli)
{
    struct ask ask;
    int r = ask_about(cli, "POST", "/pause", &ask);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_paused);
}

static int resume_project(struct cli *cli)
{
    struct ask ask;
    int r = ask_about(cli, "POST", "/resume", &ask);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_paused);
}

/* ---- deleted ---- */

struct deletion {
    int64_t id;
    int64_t jobs;           /* at the beginning; 0: not known */
    int64_t live, finished; /* what is left */
    bool gone, kept;
};

static void note_holds(struct deletion *d, struct slice project)
{
    struct slice holds = member_raw(project, "holds");
    d->live = member_int(holds, "liveJobs");
    d->finished = member_int(holds, "finishedJobs");
    if (d->jobs == 0 && member_true(holds, "allCounted"))
        d->jobs = d->live + d->finished;
}

/* Another one of that name is not the one that was deleted. */
static int look(struct cli *cli, struct deletion *d)
{
    cleanup(buf_release) struct buf answer;
    struct ask ask = ask_for("GET", "projects/%s", cli->args[1]);
    struct slice project = { 0 };

    int r = cli_ask(cli, &ask, &answer, &project);
    if (r == -HF_NOT_FOUND) {
        cli->error = (struct error){ 0 };
        d->gone = true;
        return 0;
    }
    if (r < 0)
        return r;
    d->gone = member_int(project, "id") != d->id;
    d->kept = !d->gone && !member_true(project, "deleting");
    if (!d->gone)
        note_holds(d, project);
    return 0;
}

/* What lives is cancelled first, and deleted when it is over. */
static void show_progress(const struct deletion *d)
{
    int64_t left = d->live > 0 ? d->live : d->finished;
    progress_show(d->live > 0 ? "cancelling jobs" : "deleting jobs",
                  d->jobs > left ? d->jobs - left : 0, d->jobs);
}

static int wait_until_gone(struct cli *cli, struct deletion *d, int64_t wait_ms)
{
    int64_t end_us = clock_mono_us(&clock_system) + wait_ms * US_PER_MS;
    int pause_ms = LOOK_LEAST_MS;
    int r = look(cli, d);

    while (r == 0 && !d->gone && !d->kept && clock_mono_us(&clock_system) < end_us) {
        show_progress(d);
        poll(NULL, 0, pause_ms);
        pause_ms = 2 * pause_ms < LOOK_MOST_MS ? 2 * pause_ms : LOOK_MOST_MS;
        r = look(cli, d);
    }
    progress_end();
    return r;
}

static int tell_deletion(struct cli *cli, const struct deletion *d, int64_t wait_ms)
{
    if (d->kept)
        return cli_fail(cli, -HF_CONFLICT,
                        "%s was kept: something was put into it meanwhile. To delete "
                        "all of it, use --cascade.",
                        cli->args[1]);
    if (!d->gone && wait_ms > 0)
        return cli_fail(cli, -HF_TIMEOUT,
                        "%s is still being deleted after %" PRId64 " ms: %" PRId64
                        " live and %" PRId64 " finished jobs are left. It goes on by "
                        "itself; \"holdfast projects show %s\" tells how far it is.",
                        cli->args[1], wait_ms, d->live, d->finished, cli->args[1]);
    if (cli->json)
        printf("{\"deleted\":\"%s\",\"gone\":%s}\n", cli->args[1],
               d->gone ? "true" : "false");
    else
        printf(d->gone ? "Project %s is deleted.\n" : "Project %s is being deleted.\n",
               cli->args[1]);
    return 0;
}

static int delete (struct cli *cli)
{
    cleanup(buf_release) struct buf answer;
    struct slice project = { 0 };
    struct deletion d = { 0 };
    struct ask ask;
    int64_t wait_ms = INT_MAX;

    buf_init(&answer, CLI_ANSWER_BYTES);
    int r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    if (r == 0)
        r = ask_about(cli, "DELETE", "", &ask);
    if (r < 0)
        return r;
    ask_param(&ask, "cascade", cli_option(cli, "cascade") ? "true" : NULL);
    r = cli_ask(cli, &ask, &answer, &project);
    if (r == -HF_CONFLICT && strstr(cli->error.text, "cascade=true")) {
        size_t n = strlen(cli->error.text);
        snprintf(cli->error.text + n, sizeof(cli->error.text) - n,
                 " (Here that is --cascade.)");
    }
    if (r < 0)
        return r;
    d.id = member_int(project, "id");
    note_holds(&d, project);
    r = wait_until_gone(cli, &d, wait_ms);
    return r < 0 ? r : tell_deletion(cli, &d, wait_ms);
}

/* ---- the actions ---- */

/* clang-format off */
static const struct cli_option project_options[] = {
    { "cascade", NULL, "delete: with jobs, schedules, webhooks and tokens", 0 },
    { "wait-ms", "N", "delete: until it is gone; as long as it takes", 0 },
    { 0 },
};

static const struct action project_actions[] = {
    { "list", "", "all of them", 0, 0, "", list },
    { "show", "NAME", "one, with what is in it", 1, 1, "", show },
    { "add", "NAME", "make one", 1, 1, "", add },
    { "pause", "NAME", "its schedules and endpoints make no jobs", 1, 1, "", pause_project },
    { "resume", "NAME", "they go on", 1, 1, "", resume_project },
    { "delete", "NAME", "delete an empty one, or with --cascade all of it", 1, 1,
      " cascade wait-ms ", delete },
    { 0 },
};

const struct subcommand project_commands[] = {
    { "projects", "[ACTION [NAME]]", "namespaces: list, add, pause, delete, ...", 0, INT_MAX,
      .actions = project_actions, .note = "NAME is a project's name",
      .place = SERVER, .options = project_options, .run = cli_act },
    { 0 },
};
/* clang-format on */
