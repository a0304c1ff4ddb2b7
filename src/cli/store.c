/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c -- recover, recoveries, check, backup: the store as a whole. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "cli.h"
#include "db/db.h"

/* ---- recover ---- */

static const struct cli_option recover_options[] = {
    { "dry-run", NULL, "print what a restart would do, and change nothing", 0 },
    { 0 },
};

struct listing {
    struct table table;
    struct json_writer w;
    bool json;
};

static void list_item(void *arg, const struct hf_recovery_item *item)
{
    struct listing *listing = arg;
    char ran[DURATION_TEXT_BYTES];
    struct json_writer *w = &listing->w;

    if (!listing->json) {
        table_int(&listing->table, item->job_id);
        table_text(&listing->table, item->queue);
        table_text(&listing->table, item->kind);
        table_text(&listing->table, hf_state_name(item->state));
        table_text(&listing->table,
                   duration_text(item->ran_ms < 0 ? -1 : item->ran_ms * US_PER_MS, ran));
        table_text(&listing->table, item->verdict);
        return;
    }
    json_begin_object(w);
    json_put_id(w, "job", item->job_id);
    json_put_text(w, "queue", item->queue);
    json_put_text(w, "kind", item->kind);
    json_put_text(w, "state", hf_state_name(item->state));
    json_put_int(w, "ranMs", item->ran_ms);
    json_put_text(w, "verdict", item->verdict);
    json_end_object(w);
}

static int dry_run(struct cli *cli)
{
    static const char *const titles[] = { "JOB", "QUEUE",   "KIND", "STATE",
                                          "RAN", "VERDICT", NULL };
    struct listing listing = { .json = cli->json };
    struct buf buf;
    int64_t count = 0;

    buf_init(&buf, (size_t)256 << 20);
    listing.w = json_writer(&buf);
    if (cli->json)
        json_begin_array(&listing.w);
    else
        table_init(&listing.table, titles);
    struct hf_error why = { 0 };
    int r = hf_recover_dry_run(cli->hf, list_item, &listing, &why, &count);
    if (r < 0)
        r = cli_fail(cli, r, "%s", why.text);
    if (cli->json) {
        json_end_array(&listing.w);
        json_finish(&listing.w);
        if (r == 0)
            return print_json_buf(&buf);
        buf_release(&buf);
        return r;
    }
    if (r == 0)
        r = table_print(&listing.table);
    if (r == 0)
        printf("A restart would resolve %lld jobs; nothing was changed.\n",
               (long long)count);
    return r;
}

/* What it did, line by line: a report is a flat object. */
static void print_report(struct cli *cli, struct slice report)
{
    struct json_iter it = json_iter(report);
    struct slice key, value, name;

    while (json_object_next(&it, &key, &value))
        if (json_decode(key, &cli->arena, &name) == 0)
            print_field(name.p, member(cli, report, name.p));
}

/* Opened as a scheduler, which recovers by itself: wait until it has. */
static int recover_now(struct cli *cli, struct hf *hf)
{
    struct hf_recoveries *list = NULL;
    struct hf_error why = { 0 };

    int r = hf_wait_ready(hf, -1);
    if (r == 0)
        r = hf_list_recoveries(hf, 1, &why, &list);
    if (r != 0)
        return cli_fail(cli, r, "%s", why.text);
    struct slice report = slice_of(list->count ? list->items[0]->report : NULL);
    if (cli->json)
        print_json(report.p ? report : SLICE("null"));
    else if (report.p)
        print_report(cli, report);
    hf_recoveries_free(list);
    return 0;
}

/* Records of commands that a server has left, where it keeps them by default.  Those may
 * still run, and only a server can ask them: to us they would be crashed, and their
 * retries would run beside them. */
static size_t commands_left(const char *store)
{
    char path[PATH_MAX];
    size_t count = 0;

    snprintf(path, sizeof(path), "%s.d/runs", store);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (const struct dirent *entry = NULL; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int recover(struct cli *cli)
{
    struct hf_options options;
    struct hf_error why;
    struct hf *hf = NULL;

    if (cli_option(cli, "dry-run"))
        return dry_run(cli);
    size_t left = commands_left(cli->store);
    if (left > 0)
        return cli_fail(
            cli, -HF_CONFLICT,
            "%s.d/runs has records of commands (%zu) that may still run; start "
            "\"holdfast serve\" on this store, which adopts those that live.",
            cli->store, left);
    hf_options_init(&options);
    options.db = cli->store;
    int r = hf_open(&options, &why, &hf);
    if (r < 0)
        return cli_fail(cli, r, "%s", why.text);
    r = recover_now(cli, hf);
    hf_close(hf);
    return r;
}

/* ---- recoveries ---- */

static const struct cli_option recoveries_options[] = {
    { "limit", "N", "how many, up to 1000; 20", 0 },
    { 0 },
};

static int print_recoveries(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID", "TYPE", "STARTED", "FINISHED", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice recovery;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &recovery)) {
        table_text(&table, member(cli, recovery, "id"));
        table_text(&table, member(cli, recovery, "type"));
        table_text(&table, member(cli, recovery, "startedAt"));
        table_text(&table, member(cli, recovery, "finishedAt"));
    }
    int r = table_print(&table);
    it = json_iter(member_raw(answer, "items"));
    while (r == 0 && json_array_next(&it, &recovery)) {
        struct slice report = member_raw(recovery, "report");
        printf("\n");
        print_field("recovery", member(cli, recovery, "id"));
        if (report.p)
            print_report(cli, report);
    }
    return r;
}

static int recoveries(struct cli *cli)
{
    struct ask ask = ask_for("GET", "recoveries");
    const char *limit = cli_option(cli, "limit");
    ask_param(&ask, "limit", limit ? limit : "20");
    return cli_ask_and_print(cli, &ask, print_recoveries);
}

/* ---- workers ---- */

static int print_workers(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID",   "NAME", "TYPE", "STATE",
                                          "HOST", "RUNS", "SEEN", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice worker;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &worker)) {
        table_text(&table, member(cli, worker, "id"));
        table_text(&table, member(cli, worker, "name"));
        table_text(&table, member(cli, worker, "type"));
        table_text(&table, member(cli, worker, "state"));
        table_text(&table, member(cli, worker, "host"));
        table_text(&table, member(cli, worker, "runs"));
        table_text(&table, member(cli, worker, "lastSeenAt"));
    }
    return table_print(&table);
}

static int workers(struct cli *cli)
{
    struct ask ask = ask_for("GET", "workers");
    return cli_ask_and_print(cli, &ask, print_workers);
}

/* ---- check ---- */

struct check_listing {
    struct json_writer w;
    bool json;
};

static void list_finding(void *arg, const struct hf_finding *finding)
{
    struct check_listing *listing = arg;
    struct json_writer *w = &listing->w;
    char name[16];

    snprintf(name, sizeof(name), finding->invariant ? "I%d" : "schema",
             finding->invariant);
    if (!listing->json) {
        print_field(name, finding->sentence);
        return;
    }
    json_begin_object(w);
    json_put_text(w, "invariant", name);
    json_put_id(w, "job", finding->job_id);
    json_put_id(w, "queue", finding->queue_id);
    json_put_id(w, "reservation", finding->reservation_id);
    json_put_text(w, "sentence", finding->sentence);
    json_end_object(w);
}

static void print_verdict(const struct hf_check_report *report)
{
    printf("%lld jobs looked at, %lld violations.\n", (long long)report->jobs,
           (long long)report->violations);
    if (report->awaiting > 0)
        printf("%lld await recovery, which is no violation: %s.\n",
               (long long)report->awaiting,
               report->scheduler ? "the scheduler is at it"
                                 : "the next start of a scheduler resolves them");
}

static int check(struct cli *cli)
{
    struct check_listing listing = { .json = cli->json };
    struct hf_check_report report = { 0 };
    struct buf buf;

    buf_init(&buf, (size_t)256 << 20);
    struct json_writer *w = &listing.w;
    *w = json_writer(&buf);
    json_begin_object(w);
    json_key(w, "violations");
    json_begin_array(w);
    struct hf_error why = { 0 };
    int r = hf_check(cli->hf, list_finding, &listing, &why, &report);
    if (r < 0)
        cli_fail(cli, r, "%s", why.text);
    json_end_array(w);
    json_put_int(w, "jobs", report.jobs);
    json_put_int(w, "awaitingRecovery", report.awaiting);
    json_put_bool(w, "scheduler", report.scheduler);
    json_end_object(w);
    json_finish(w);
    if (r == 0 && cli->json)
        r = print_json_buf(&buf);
    else if (r == 0)
        print_verdict(&report);
    buf_release(&buf);
    return r < 0 ? r : report.violations > 0 ? CLI_NO : 0;
}

/* ---- backup ---- */

static void on_copied(void *arg, int64_t done, int64_t total)
{
    (void)arg;
    progress_show("copying", done, total);
}

/* The reader that is open proves that it is a store, of this version. */
static int backup(struct cli *cli)
{
    int64_t bytes = 0;
    int r = db_backup(cli->store, cli->args[0], on_copied, NULL, &cli->error, &bytes);
    progress_end();
    if (r < 0)
        return r;
    if (cli->json)
        printf("{\"bytes\":%lld}\n", (long long)bytes);
    else
        printf("%lld bytes copied; the copy is a store of its own.\n", (long long)bytes);
    return 0;
}

/* clang-format off */
const struct subcommand store_commands[] = {
    { "workers", "", "list who executes jobs: nodes and remote workers", 0, 0,
      .place = SERVER, .run = workers },
    { "recoveries", "", "show what recoveries did", 0, 0,
      .place = ANYWHERE, .role = HF_READER, .options = recoveries_options, .run = recoveries },
    { "recover", "", "resolve what a crash left, without a scheduler", 0, 0,
      .place = STORE, .role = HF_READER, .options = recover_options, .run = recover },
    { "check", "", "verify the invariants; exit code 1 if one is broken", 0, 0,
      .place = STORE, .role = HF_READER, .run = check },
    { "backup", "FILE", "copy the store while it is in use (SQLite)", 1, 1,
      .place = STORE, .role = HF_READER, .run = backup },
    { 0 },
};
/* clang-format on */
