/* SPDX-License-Identifier: Apache-2.0
 *
 * schedules.c -- schedules: listed, shown, paused, triggered, previewed, deleted. */
#include "cli/schedules.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

/* ---- which one ---- */

static bool is_id(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && !text[digits] && digits <= 18;
}

static int find_by_name(struct cli *cli, const char *what, const char *name,
                        struct buf *answer, struct slice *ret)
{
    struct ask ask = ask_for("GET", "schedules");
    struct slice all = { 0 }, item, found = { 0 };
    size_t count = 0;

    int r = cli_name(cli, what, name);
    if (r < 0)
        return r;
    ask_param(&ask, "name", name);
    ask_param(&ask, "project", cli_option(cli, "project"));
    r = cli_ask(cli, &ask, answer, &all);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(member_raw(all, "items"));
    for (; json_array_next(&it, &item); count++)
        found = item;
    if (count == 0)
        return cli_fail(cli, -HF_NOT_FOUND, "There is no %s %s.", what, name);
    if (count > 1)
        return cli_refuse(cli,
                          "There are several called %s, in several projects; name "
                          "the project with --project, or give the %s's id.",
                          name, what);
    *ret = found;
    return 0;
}

int schedule_find(struct cli *cli, const char *what, const char *text, struct buf *answer,
                  struct slice *ret)
{
    buf_init(answer, CLI_ANSWER_BYTES);
    if (is_id(text)) {
        struct ask ask = ask_for("GET", "schedules/%s", text);
        int r = cli_ask(cli, &ask, answer, ret);
        if (r != -HF_NOT_FOUND)
            return r;
        buf_release(answer); /* it may be a name all the same */
    }
    return find_by_name(cli, what, text, answer, ret);
}

/* Its id: what others are asked with. */
static int find_id(struct cli *cli, int64_t *ret)
{
    cleanup(buf_release) struct buf answer;
    struct slice schedule = { 0 };
    int r = schedule_find(cli, "schedule", cli->args[1], &answer, &schedule);
    if (r == 0)
        *ret = member_int(schedule, "id");
    return r;
}

/* ---- for people ---- */

/* "90s", "5m": in the largest unit that it is whole in. */
static const char *interval_text(struct cli *cli, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {
        { 86400000, "d" }, { 3600000, "h" }, { 60000, "m" }, { 1000, "s" }, { 1, "ms" }
    };
    char text[40];
    size_t i = 0;
    while (ms % units[i].ms)
        i++;
    snprintf(text, sizeof(text), "every %" PRId64 "%s", ms / units[i].ms, units[i].unit);
    return arena_dup(&cli->arena, slice_of(text)).p;
}

const char *schedule_when_text(struct cli *cli, struct slice schedule)
{
    const char *cron = member(cli, schedule, "cron");
    int64_t every_ms = member_int(schedule, "everyMs");
    return cron ? cron : every_ms > 0 ? interval_text(cli, every_ms) : "by hand";
}

static int print_list(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID",   "NAME",  "PROJECT", "WHEN", "ZONE",
                                          "KIND", "STATE", "NEXT",    "LAST", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice schedule;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &schedule)) {
        table_text(&table, member(cli, schedule, "id"));
        table_text(&table, member(cli, schedule, "name"));
        table_text(&table, member(cli, schedule, "project"));
        table_text(&table, schedule_when_text(cli, schedule));
        table_text(&table, member(cli, schedule, "timeZone"));
        table_text(&table, member(cli, schedule, "kind"));
        table_text(&table, member(cli, schedule, "status"));
        table_time(&table, member(cli, schedule, "nextFireAt"));
        table_time(&table, member(cli, schedule, "lastFireAt"));
    }
    return table_print_page(cli, &table, answer,
                            "No schedules here. Make one: holdfast schedules add NAME "
                            "--kind KIND --cron '0 3 * * *'");
}

static int list(struct cli *cli)
{
    struct ask ask = ask_for("GET", "schedules");
    ask_param(&ask, "project", cli_option(cli, "project"));
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return cli_ask_and_print(cli, &ask, print_list);
}

static void print_job_template(struct cli *cli, struct slice s)
{
    print_field("kind", member(cli, s, "kind"));
    print_field("queue", member(cli, s, "queue"));
    print_field("payload", member(cli, s, "payload"));
    print_field("metadata", member(cli, s, "metadata"));
    print_field("unique key", member(cli, s, "uniqueKey"));
    print_number("priority", s, "priority");
    print_number("max retries", s, "maxRetries");
    print_field("retry delays", member(cli, s, "retryDelaysSeconds"));
    print_number("deadline ms", s, "maxExecutionTimeMs");
    print_number("expires after ms", s, "expireMs");
    print_field("on crash", member(cli, s, "onCrash"));
}

void schedule_print_shared(struct cli *cli, struct slice s)
{
    print_field("name", member(cli, s, "name"));
    print_field("project", member(cli, s, "project"));
    print_field("state", member(cli, s, "status"));
    print_field("problem", member(cli, s, "problem"));
    print_field("paused until", member(cli, s, "pausedUntil"));
    print_field("paused because", member(cli, s, "pausedReason"));
    print_field("paused with",
                member_true(s, "pausedWithProject") ? "its project" : NULL);
    print_field("when", schedule_when_text(cli, s));
    print_field("zone", member(cli, s, "timeZone"));
    print_field("starts", member(cli, s, "startAt"));
    print_field("ends", member(cli, s, "endAt"));
    print_number("jitter ms", s, "jitterMs");
    print_field("overlap", member(cli, s, "overlap"));
    print_field("misfire", member(cli, s, "misfire"));
    print_field("next fire", member(cli, s, "nextFireAt"));
    print_field("last fire", member(cli, s, "lastFireAt"));
    print_number("last job", s, "lastJobId");
    print_number("fire times so far", s, "fireCount");
    print_job_template(cli, s);
    print_field("created", member(cli, s, "createdAt"));
    print_field("changed", member(cli, s, "changedAt"));
}

static int show(struct cli *cli)
{
    cleanup(buf_release) struct buf answer;
    struct slice schedule = { 0 };
    int r = schedule_find(cli, "schedule", cli->args[1], &answer, &schedule);
    if (r == 0 && cli->json)
        print_json(schedule);
    if (r < 0 || cli->json)
        return r;
    print_field("schedule", member(cli, schedule, "id"));
    schedule_print_shared(cli, schedule);
    if (member_raw(schedule, "endpointId").p)
        printf("%-18s yes: see \"holdfast endpoints show %s\"\n", "endpoint",
               member(cli, schedule, "id"));
    return 0;
}

/* ---- acts ---- */

int schedule_print_paused(struct cli *cli, struct slice s)
{
    const char *until = member(cli, s, "pausedUntil"), *name = member(cli, s, "name");

    if (!member_true(s, "paused"))
        printf("%s goes on\n", name);
    else if (member_true(s, "pausedWithProject"))
        printf("%s is paused, with its project\n", name);
    else
        printf("%s is paused%s%s\n", name, until ? " until " : "", until ? until : "");
    return 0;
}

int schedule_write_pause(struct cli *cli, struct buf *body, struct slice *ret)
{
    static const struct cli_field fields[] = {
        { "reason", "reason", FIELD_TEXT },
        { "until", "until", FIELD_TEXT },
        { 0 },
    };
    return cli_write_fields(cli, fields, body, ret);
}

static int pause_schedule(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct slice text = { 0 };
    int64_t id = 0;

    int r = schedule_write_pause(cli, &body, &text);
    if (r == 0)
        r = find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "schedules/%" PRId64 "/pause", id);
    ask.body = text;
    return cli_ask_and_print(cli, &ask, schedule_print_paused);
}

static int resume_schedule(struct cli *cli)
{
    int64_t id = 0;
    int r = find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "schedules/%" PRId64 "/resume", id);
    return cli_ask_and_print(cli, &ask, schedule_print_paused);
}

static int print_triggered(struct cli *cli, struct slice job)
{
    printf("%s\n", member(cli, job, "id"));
    return 0;
}

static int trigger(struct cli *cli)
{
    int64_t id = 0;
    int r = find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "schedules/%" PRId64 "/trigger", id);
    return cli_ask_and_print(cli, &ask, print_triggered);
}

static int delete (struct cli *cli)
{
    int64_t id = 0;
    int r = find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("DELETE", "schedules/%" PRId64, id);
    return cli_delete(cli, &ask, "Schedule", "; jobs that it made go on");
}

/* ---- times ---- */

static int print_preview(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "LOCAL", "UTC", NULL };
    struct json_iter it = json_iter(member_raw(answer, "times"));
    struct slice time;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &time)) {
        table_text(&table, member(cli, time, "local"));
        table_text(&table, member(cli, time, "at"));
    }
    if (table.count > table.columns)
        return table_print(&table);
    buf_release(&table.cells);
    printf("It never fires again by itself.\n");
    return 0;
}

/* Of an expression that is only tried. */
static int preview_given(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct ask ask = ask_for("POST", "schedules/preview");

    buf_init(&body, 64 << 10);
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    cli_put_text(cli, &w, "cron", "cron");
    cli_put_text(cli, &w, "tz", "timeZone");
    cli_put_text(cli, &w, "start-at", "startAt");
    cli_put_text(cli, &w, "end-at", "endAt");
    cli_put_text(cli, &w, "from", "from");
    int r = cli_put_every(cli, &w);
    if (r == 0)
        r = cli_put_number(cli, &w, "count", "count");
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&body, &ask.body);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_preview);
}

static int preview(struct cli *cli)
{
    bool given = cli_option(cli, "cron") || cli_option(cli, "every");
    int64_t id = 0;

    if (given == (cli->arg_count > 1))
        return cli_refuse(cli, "preview takes a schedule, or --cron or --every to try: "
                               "one of the two.");
    if (given)
        return preview_given(cli);
    if (cli_option(cli, "tz") || cli_option(cli, "start-at") || cli_option(cli, "end-at"))
        return cli_refuse(cli, "--tz, --start-at and --end-at are for --cron and "
                               "--every; a schedule has its own.");
    int r = find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "schedules/%" PRId64 "/preview", id);
    ask_param(&ask, "count", cli_option(cli, "count"));
    ask_param(&ask, "from", cli_option(cli, "from"));
    return cli_ask_and_print(cli, &ask, print_preview);
}

static int print_fires(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "FIRE TIME", "LAST", "COUNT",      "STATE",
                                          "REASON",    "JOB",  "DEALT WITH", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice fire;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &fire)) {
        bool range = member_int(fire, "count") > 1;
        table_text(&table, member(cli, fire, "fireAt"));
        table_text(&table, range ? member(cli, fire, "lastAt") : NULL);
        table_int(&table, member_int(fire, "count"));
        table_text(&table, member(cli, fire, "outcome"));
        table_text(&table, member(cli, fire, "reason"));
        table_text(&table, member(cli, fire, "jobId"));
        table_text(&table, member(cli, fire, "at"));
    }
    return table_print_page(cli, &table, answer, "None of its times has come so far.");
}

static int fires(struct cli *cli)
{
    int64_t id = 0;
    int r = find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "schedules/%" PRId64 "/fires", id);
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return cli_ask_and_print(cli, &ask, print_fires);
}

/* ---- the actions ---- */

/* clang-format off */
static const struct cli_option schedule_options[] = {
    { "project", "NAME", "the project; default for a new one", 0 },
    { "cron", "EXPR", "when: five fields, six with seconds, or @daily", 0 },
    { "every", "TIME", "instead of --cron: 90s, 5m, 12h, 1d", 0 },
    { "tz", "ZONE", "the time zone of --cron, as Europe/Berlin; UTC", 0 },
    { "start-at", "TIME", "no fire times before it", 0 },
    { "end-at", "TIME", "no fire times after it", 0 },
    { "jitter-ms", "N", "each job waits for up to this long, by chance", 0 },
    { "overlap", "WORD", "while one of its jobs is live: skip or queue", 0 },
    { "misfire", "WORD", "what passed while down: once, skip or all", 0 },
    { "name", "NAME", "set: call it this", 0 },
    { "kind", "NAME", "what its jobs do", 0 },
    { "queue", "NAME", "of its jobs", 0 },
    { "payload", "JSON", "of its jobs", 0 },
    { "metadata", "JSON", "of its jobs: an object of strings", 0 },
    { "unique-key", "TEXT", "of its jobs", 0 },
    { "priority", "N", "of its jobs: 9 is first, 1 is last", 0 },
    { "max-retries", "N", "of its jobs: 0 to 100", 0 },
    { "retry-delays", "LIST", "of its jobs: seconds, as 60,300,900", 0 },
    { "max-execution-time-ms", "N", "of its jobs: the deadline of a run", 0 },
    { "expire-ms", "N", "cancel a job that nobody starts for so long", 0 },
    { "on-crash", "WORD", "of its jobs: retry or fail", 0 },
    { "paused", NULL, "add, import: it fires once it is resumed", 0 },
    { "reason", "TEXT", "pause: shown to whoever wonders", 0 },
    { "until", "TIME", "pause: it goes on by itself then", 0 },
    { "count", "N", "preview: how many times; 10", 'n' },
    { "from", "TIME", "preview: times after this one; now", 0 },
    { "limit", "N", "list, fires: how many, up to 1000; 50", 0 },
    { "cursor", "ID", "list, fires: go on where the last page ended", 0 },
    { "user-column", NULL, "import: lines name a user, as /etc/crontab has it", 0 },
    { "prefix", "NAME", "import: what the names begin with; cron.", 0 },
    { "config-out", "FILE", "import: write the commands to this file", 0 },
    { "dry-run", NULL, "import: only tell what would be done", 0 },
    { 0 },
};

#define JOB_OPTIONS                                                                      \
    " cron every tz start-at end-at jitter-ms overlap misfire kind queue payload "       \
    "metadata unique-key priority max-retries retry-delays max-execution-time-ms "       \
    "expire-ms on-crash "

static const struct action schedule_actions[] = {
    { "list", "", "all of them, or those of --project", 0, 0,
      " project limit cursor ", list },
    { "show", "NAME", "everything about one", 1, 1, " project ", show },
    { "add", "NAME", "make one: --kind, and --cron or --every", 1, 1,
      " project paused " JOB_OPTIONS, schedule_add },
    { "set", "NAME", "change what is given; '' puts the default back", 1, 1,
      " project name " JOB_OPTIONS, schedule_set },
    { "pause", "NAME", "skip its fire times, until --until or resume", 1, 1,
      " project reason until ", pause_schedule },
    { "resume", "NAME", "let it go on", 1, 1, " project ", resume_schedule },
    { "trigger", "NAME", "make its job now, and print the job's id", 1, 1,
      " project ", trigger },
    { "preview", "[NAME]", "when it fires next; or --cron, --every to try", 0, 1,
      " project cron every tz start-at end-at count from ", preview },
    { "fires", "NAME", "what became of its fire times", 1, 1,
      " project limit cursor ", fires },
    { "delete", "NAME", "delete it; jobs that it made go on", 1, 1, " project ", delete },
    { "import", "crontab FILE|-", "make schedules and commands of a crontab", 2, 2,
      " project paused tz user-column prefix config-out dry-run ", schedule_import },
    { 0 },
};
const struct subcommand schedule_commands[] = {
    { "schedules", "[ACTION [NAME]]", "what makes jobs by itself: list, add, pause, trigger, ...", 0, INT_MAX,
      .actions = schedule_actions, .note = "NAME is a schedule's name or id",
      .place = SERVER, .options = schedule_options, .run = cli_act },
    { 0 },
};
/* clang-format on */
