/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c -- recover, recoveries, check: the store as a whole. */
#include <stdio.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "cli.h"

/* ---- recover ---- */

static const struct cli_option recover_options[] = {
    { "dry-run", NULL, "print what a restart would do, and change nothing" },
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
    int r = hf_recover_dry_run(cli->hf, list_item, &listing, &cli->error, &count);
    if (cli->json) {
        json_end_array(&listing.w);
        json_finish(&listing.w);
        return r < 0 ? r : print_json(&buf);
    }
    if (r == 0)
        r = table_print(&listing.table);
    if (r == 0)
        printf("A restart would resolve %lld jobs; nothing was changed.\n",
               (long long)count);
    return r;
}

/* What it did, line by line: a report is a flat object. */
static void print_report(const struct cli *cli, const struct hf_recovery *recovery)
{
    struct slice key, value, report = slice_of(recovery->report);
    char name[64], text[400];

    if (cli->json || !report.p) {
        printf("%s\n", report.p ? report.p : "null");
        return;
    }
    struct json_iter it = json_iter(report);
    while (json_object_next(&it, &key, &value)) {
        snprintf(name, sizeof(name), "%.*s", (int)key.n - 2, key.p + 1); /* no quotes */
        snprintf(text, sizeof(text), "%.*s", (int)value.n, value.p);
        print_field(name, text);
    }
}

/* Opened as a scheduler, which recovers by itself: wait until it has. */
static int recover_now(struct cli *cli)
{
    struct hf_recoveries *list = NULL;

    int r = hf_wait_ready(cli->hf, -1);
    if (r == 0)
        r = hf_list_recoveries(cli->hf, 1, &cli->error, &list);
    if (r != 0)
        return r;
    if (list->count > 0)
        print_report(cli, list->items[0]);
    hf_recoveries_free(list);
    return 0;
}

static int recover(struct cli *cli)
{
    if (cli_option(cli, "dry-run"))
        return dry_run(cli);
    struct hf_options options;
    struct hf *reader = cli->hf;

    hf_options_init(&options);
    options.db = cli->db;
    int r = hf_open(&options, &cli->error, &cli->hf);
    if (r == 0) {
        r = recover_now(cli);
        hf_close(cli->hf);
    }
    cli->hf = reader;
    return r;
}

/* ---- recoveries ---- */

static const struct cli_option recoveries_options[] = {
    { "limit", "N", "how many, up to 1000; 20" },
    { 0 },
};

static int print_recoveries_json(const struct hf_recoveries *list)
{
    struct buf buf;
    buf_init(&buf, (size_t)256 << 20);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_key(&w, "items");
    json_begin_array(&w);
    for (size_t i = 0; i < list->count; i++) {
        json_begin_object(&w);
        json_put_id(&w, "id", list->items[i]->id);
        json_put_text(&w, "type", list->items[i]->type);
        json_put_time(&w, "startedAt", list->items[i]->started_at_us);
        json_put_time(&w, "finishedAt", list->items[i]->finished_at_us);
        json_put_raw(&w, "report", slice_of(list->items[i]->report));
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    json_finish(&w);
    return print_json(&buf);
}

static int recoveries(struct cli *cli)
{
    struct hf_recoveries *list = NULL;
    int64_t limit = 20;

    int r = cli_number(cli, "limit", 1, LIMIT_PAGE_ITEMS, &limit);
    if (r == 0)
        r = hf_list_recoveries(cli->hf, (size_t)limit, &cli->error, &list);
    if (r != 0)
        return r;
    if (cli->json) {
        r = print_recoveries_json(list);
    } else {
        static const char *const titles[] = { "ID", "TYPE", "STARTED", "FINISHED", NULL };
        struct table table;
        table_init(&table, titles);
        for (size_t i = 0; i < list->count; i++) {
            table_int(&table, list->items[i]->id);
            table_text(&table, list->items[i]->type);
            table_time(&table, list->items[i]->started_at_us);
            table_time(&table, list->items[i]->finished_at_us);
        }
        r = table_print(&table);
        for (size_t i = 0; r == 0 && i < list->count; i++) {
            printf("\nrecovery           %lld\n", (long long)list->items[i]->id);
            print_report(cli, list->items[i]);
        }
    }
    hf_recoveries_free(list);
    return r;
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
    int r = hf_check(cli->hf, list_finding, &listing, &cli->error, &report);
    json_end_array(w);
    json_put_int(w, "jobs", report.jobs);
    json_put_int(w, "awaitingRecovery", report.awaiting);
    json_put_bool(w, "scheduler", report.scheduler);
    json_end_object(w);
    json_finish(w);
    if (r == 0 && cli->json)
        r = print_json(&buf);
    else if (r == 0)
        print_verdict(&report);
    buf_release(&buf);
    return r < 0 ? r : report.violations > 0 ? CLI_NO : 0;
}

/* clang-format off */
const struct subcommand store_commands[] = {
    { "check", "", "verify the invariants; exit code 1 if one is broken", 0, 0,
      .role = HF_READER, .run = check },
    { "recover", "", "resolve what a crash left, without a scheduler", 0, 0,
      .role = HF_READER, .options = recover_options, .run = recover },
    { "recoveries", "", "show what recoveries did", 0, 0,
      .role = HF_READER, .options = recoveries_options, .run = recoveries },
    { 0 },
};
/* clang-format on */
