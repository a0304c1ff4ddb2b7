/* SPDX-License-Identifier: Apache-2.0
 *
 * many.c -- cancel, retry: of some jobs by their ids, or of all that a filter means.
 *
 * With a filter the jobs are looked up first and then acted upon one by one, so that
 * there is a number to confirm (--dry-run), a bar to watch, and a place where it
 * stopped.  Both acts may be asked for twice: whoever is interrupted starts again. */
#include <limits.h>
#include <stdio.h>

#include "cli.h"

enum { IDS_MAX = 10 * 1000 * 1000 };

/* What is done to each, and how it is told. */
struct act {
    const char *verb;                /* part of the path */
    const char *doing, *done;        /* "cancelling", "cancelled" */
    bool (*skips)(struct slice job); /* there is nothing to do about it */
    void (*tell)(int64_t id, struct cli *cli, struct slice answer);
};

static bool is_over(struct slice job)
{
    return member_is(job, "state", "completed") || member_is(job, "state", "failed") ||
           member_is(job, "state", "cancelled");
}

/* Retrying acts on a chain's last job, which is in the list itself if it is meant. */
static bool has_retry(struct slice job)
{
    return member_raw(job, "retriedBy").p != NULL;
}

static void tell_cancelled(int64_t id, struct cli *cli, struct slice answer)
{
    printf("%lld is %s\n", (long long)id, member(cli, answer, "state"));
}

static void tell_retried(int64_t id, struct cli *cli, struct slice answer)
{
    printf("%lld is tried as job %s\n", (long long)id, member(cli, answer, "id"));
}

static const struct act cancelling = { "cancel", "cancelling", "cancelled", is_over,
                                       tell_cancelled };
static const struct act retrying = { "retry", "retrying", "retried", has_retry,
                                     tell_retried };

/* ---- one ---- */

static int act_on(struct cli *cli, const struct act *act, int64_t id, bool quiet)
{
    cleanup(buf_release) struct buf body, answer;
    struct ask ask = ask_for("POST", "jobs/%lld/%s", (long long)id, act->verb);
    const char *reason = act == &cancelling ? cli_option(cli, "reason") : NULL;
    struct slice job = { 0 };

    buf_init(&answer, CLI_ANSWER_BYTES);
    buf_init(&body, 64 << 10);
    if (reason) {
        struct json_writer w = json_writer(&body);
        json_begin_object(&w);
        json_put_text(&w, "reason", reason);
        json_end_object(&w);
        int r = buf_end(&body, &ask.body);
        if (r < 0)
            return r;
    }
    int r = cli_ask(cli, &ask, &answer, &job);
    if (r == 0 && !quiet && cli->json)
        print_json(job);
    else if (r == 0 && !quiet)
        act->tell(id, cli, job);
    return r;
}

static int act_on_ids(struct cli *cli, const struct act *act)
{
    int r = 0;
    for (int i = 0; i < cli->arg_count && r == 0; i++) {
        int64_t id = 0;
        r = cli_id(cli, "job", cli->args[i], &id);
        if (r == 0)
            r = act_on(cli, act, id, false);
    }
    return r;
}

/* ---- many ---- */

struct ids {
    struct buf list; /* of int64_t */
    int64_t count, skipped;
};

/* The ids of one page; *ret_cursor is where the next begins, NULL behind the last. */
static int take_page(struct cli *cli, const struct act *act, const struct ask *ask,
                     struct ids *ids, const char **ret_cursor)
{
    cleanup(buf_release) struct buf answer;
    struct slice page = { 0 }, job;

    buf_init(&answer, CLI_ANSWER_BYTES);
    int r = cli_ask(cli, ask, &answer, &page);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(member_raw(page, "items"));
    while (json_array_next(&it, &job)) {
        int64_t id = member_int(job, "id");
        if (act->skips(job)) {
            ids->skipped++;
            continue;
        }
        buf_add(&ids->list, (struct slice){ (const char *)&id, sizeof(id) });
        ids->count++;
    }
    *ret_cursor = member(cli, page, "nextCursor");
    return 0;
}

static int find_all(struct cli *cli, const struct act *act, struct ids *ids)
{
    struct ask ask = ask_for("GET", "jobs");
    const char *cursor = NULL;
    struct slice all;
    size_t given = 0;

    buf_init(&ids->list, (size_t)IDS_MAX * sizeof(int64_t));
    int r = filter_params(cli, &ask, &given);
    if (r == 0 && given == 0)
        r = cli_refuse(cli,
                       "%s needs jobs' ids, or a filter such as --state failed --queue "
                       "NAME; see \"holdfast help %s\".",
                       cli->command->name, cli->command->name);
    ask_param(&ask, "limit", "1000");
    const size_t fixed = ask.param_count;
    do {
        ask.param_count = fixed;
        ask_param(&ask, "cursor", cursor);
        if (r == 0)
            r = take_page(cli, act, &ask, ids, &cursor);
        if (r == 0)
            progress_show("looking", ids->count, 0);
    } while (r == 0 && cursor);
    progress_end();
    return r < 0 ? r : buf_end(&ids->list, &all);
}

static void tell_counts(const struct cli *cli, const struct act *act,
                        const struct ids *ids, int64_t changed, bool dry)
{
    if (cli->json)
        printf("{\"matched\":%lld,\"changed\":%lld,\"skipped\":%lld,\"dryRun\":%s}\n",
               (long long)(ids->count + ids->skipped), (long long)changed,
               (long long)(ids->count + ids->skipped - (dry ? ids->count : changed)),
               dry ? "true" : "false");
    else if (dry)
        printf("%lld jobs would be %s, %lld are left alone; nothing was changed.\n",
               (long long)ids->count, act->done, (long long)ids->skipped);
    else
        printf("%lld jobs were %s, %lld were left alone.\n", (long long)changed,
               act->done, (long long)(ids->count + ids->skipped - changed));
}

/* A job that is no longer in the state it was found in is left alone. */
static int act_on_all(struct cli *cli, const struct act *act)
{
    bool dry = cli_option(cli, "dry-run") != NULL;
    struct ids ids = { 0 };
    int64_t changed = 0;

    int r = find_all(cli, act, &ids);
    for (int64_t i = 0; r == 0 && !dry && i < ids.count; i++) {
        int64_t id = 0;
        memcpy(&id, ids.list.p + i * (int64_t)sizeof(id), sizeof(id));
        r = act_on(cli, act, id, true);
        if (r == 0)
            changed++;
        else if (r == -HF_CONFLICT || r == -HF_NOT_FOUND || r == -HF_DUPLICATE)
            r = 0;
        if (r == 0)
            cli->error = (struct error){ 0 };
        progress_show(act->doing, i + 1, ids.count);
    }
    progress_end();
    if (r == 0 || changed > 0)
        tell_counts(cli, act, &ids, changed, dry);
    buf_release(&ids.list);
    return r;
}

static int act_on_them(struct cli *cli, const struct act *act)
{
    if (cli->arg_count == 0)
        return act_on_all(cli, act);
    for (size_t i = 0; cli->command->options[i].name; i++)
        if (cli->values[i] && strcmp(cli->command->options[i].name, "reason") != 0)
            return cli_refuse(cli,
                              "--%s is a filter, and %s is a job's id; give one kind.",
                              cli->command->options[i].name, cli->args[0]);
    return act_on_ids(cli, act);
}

static int cancel(struct cli *cli)
{
    return act_on_them(cli, &cancelling);
}

static int retry(struct cli *cli)
{
    return act_on_them(cli, &retrying);
}

static const struct cli_option cancel_options[] = {
    { "reason", "TEXT", "kept with the job", 0 },
    { "dry-run", NULL, "with a filter: count them, and change nothing", 0 },
    FILTER_OPTIONS,
    { 0 },
};

static const struct cli_option retry_options[] = {
    { "dry-run", NULL, "with a filter: count them, and change nothing", 0 },
    FILTER_OPTIONS,
    { 0 },
};

/* clang-format off */
const struct subcommand many_commands[] = {
    { "cancel", "[ID...]", "cancel jobs that wait or run, by id or by a filter", 0, INT_MAX,
      .place = ANYWHERE, .role = HF_PRODUCER, .options = cancel_options, .run = cancel },
    { "retry", "[ID...]", "try jobs again that are over, by id or by a filter", 0, INT_MAX,
      .place = ANYWHERE, .role = HF_PRODUCER, .options = retry_options, .run = retry },
    { 0 },
};
/* clang-format on */
