/* SPDX-License-Identifier: Apache-2.0
 *
 * webhooks.c -- who is told of events: listed, shown, made, changed, paused, given a new
 * secret, deleted.
 *
 * A secret is printed where the API shows it: once, to whoever made it. */
#include "cli/webhooks.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "cli/headers.h"

/* ---- which one ---- */

struct search {
    int64_t id; /* of the first */
    size_t count;
};

/* Names are not unique, and the API does not look for them: all are looked through. */
static int search_page(struct cli *cli, const char *cursor, struct search *search,
                       const char **ret_cursor)
{
    cleanup(buf_release) struct buf answer;
    struct ask ask = ask_for("GET", "webhooks");
    struct slice page = { 0 }, hook;

    ask_param(&ask, "project", cli_option(cli, "project"));
    ask_param(&ask, "limit", "1000");
    ask_param(&ask, "cursor", cursor);
    int r = cli_ask(cli, &ask, &answer, &page);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(member_raw(page, "items"));
    while (json_array_next(&it, &hook))
        if (member_is(hook, "name", cli->args[1]) && search->count++ == 0)
            search->id = member_int(hook, "id");
    *ret_cursor = member(cli, page, "nextCursor");
    return 0;
}

static int search_all(struct cli *cli, struct search *search)
{
    const char *cursor = NULL;
    int r = 0;

    do
        r = search_page(cli, cursor, search, &cursor);
    while (r == 0 && cursor);
    return r;
}

static int find_by_name(struct cli *cli, int64_t *ret)
{
    struct search search = { 0 };

    int r = search_all(cli, &search);
    if (r < 0)
        return r;
    if (search.count == 0)
        return cli_fail(cli, -HF_NOT_FOUND,
                        "There is no webhook %s; \"holdfast webhooks\" lists them.",
                        cli->args[1]);
    if (search.count > 1)
        return cli_refuse(cli,
                          "%zu webhooks are called %s; give the id, which \"holdfast "
                          "webhooks\" tells.",
                          search.count, cli->args[1]);
    *ret = search.id;
    return 0;
}

int webhook_find(struct cli *cli, struct buf *answer, struct slice *ret)
{
    const char *text = cli->args[1];
    size_t digits = strspn(text, "0123456789");
    int64_t id = 0;
    int r = 0;

    buf_init(answer, CLI_ANSWER_BYTES);
    if (digits > 0 && !text[digits] && digits <= 18) {
        struct ask ask = ask_for("GET", "webhooks/%s", text);
        r = cli_ask(cli, &ask, answer, ret);
        if (r != -HF_NOT_FOUND)
            return r;
        buf_release(answer); /* it may be a name all the same */
    }
    r = find_by_name(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "webhooks/%" PRId64, id);
    return cli_ask(cli, &ask, answer, ret);
}

int webhook_find_id(struct cli *cli, int64_t *ret)
{
    cleanup(buf_release) struct buf answer;
    struct slice hook = { 0 };
    int r = webhook_find(cli, &answer, &hook);
    if (r == 0)
        *ret = member_int(hook, "id");
    return r;
}

/* ---- listed and shown ---- */

/* ["a","b"] as "a,b": nothing in it has to be escaped. */
static const char *joined(struct cli *cli, struct slice array)
{
    struct buf buf;
    struct slice item, text = { 0 };
    struct json_iter it = json_iter(array);

    buf_init(&buf, CLI_ANSWER_BYTES);
    for (size_t i = 0; json_array_next(&it, &item); i++)
        buf_printf(&buf, "%s%.*s", i ? "," : "", (int)item.n - 2, item.p + 1);
    if (buf_end(&buf, &text) == 0 && text.n > 0)
        text = arena_dup(&cli->arena, text);
    else
        text.p = NULL;
    buf_release(&buf);
    return text.p;
}

static const char *state_text(struct cli *cli, struct slice hook)
{
    bool failing =
        member_is(hook, "state", "active") && member_int(hook, "failuresInRow") > 0;
    return failing ? "failing" : member(cli, hook, "state");
}

static int print_list(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID",     "NAME",    "PROJECT",
                                          "STATE",  "WAITING", "LAST OK",
                                          "EVENTS", "URL",     NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice hook;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &hook)) {
        table_text(&table, member(cli, hook, "id"));
        table_text(&table, member(cli, hook, "name"));
        table_text(&table, member(cli, hook, "project"));
        table_text(&table, state_text(cli, hook));
        table_text(&table, member(cli, hook, "pendingCount"));
        table_time(&table, member(cli, hook, "lastSuccessAt"));
        table_text(&table, joined(cli, member_raw(hook, "events")));
        table_text(&table, member(cli, hook, "url"));
    }
    return table_print_page(cli, &table, answer,
                            "No webhooks here. Make one: holdfast webhooks add NAME URL "
                            "--events job.failed");
}

static int list(struct cli *cli)
{
    struct ask ask = ask_for("GET", "webhooks");
    ask_param(&ask, "project", cli_option(cli, "project"));
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return cli_ask_and_print(cli, &ask, print_list);
}

static int print_webhook(struct cli *cli, struct slice hook)
{
    const char *project = member(cli, hook, "project");

    print_field("webhook", member(cli, hook, "id"));
    print_field("name", member(cli, hook, "name"));
    print_field("project", project ? project : "(all)");
    print_field("url", member(cli, hook, "url"));
    print_field("events", joined(cli, member_raw(hook, "events")));
    print_field("headers", joined(cli, member_raw(hook, "headerNames")));
    print_number("timeout ms", hook, "timeoutMs");
    print_number("sent at once", hook, "inFlight");
    print_field("state", member(cli, hook, "state"));
    print_field("because", member(cli, hook, "stateReason"));
    print_number("waiting", hook, "pendingCount");
    print_number("failures in a row", hook, "failuresInRow");
    print_field("failing since", member(cli, hook, "failingSince"));
    print_field("last success", member(cli, hook, "lastSuccessAt"));
    print_field("last failure", member(cli, hook, "lastFailureAt"));
    print_field("last error", member(cli, hook, "lastError"));
    print_field("old secret until", member(cli, hook, "oldSecretUntil"));
    print_field("created", member(cli, hook, "createdAt"));
    print_field("changed", member(cli, hook, "changedAt"));
    return 0;
}

static int show(struct cli *cli)
{
    cleanup(buf_release) struct buf answer;
    struct slice hook = { 0 };
    int r = webhook_find(cli, &answer, &hook);
    if (r == 0 && cli->json)
        print_json(hook);
    return r < 0 || cli->json ? r : print_webhook(cli, hook);
}

/* ---- made and changed ---- */

static const struct cli_field fields[] = {
    { "events", "events", FIELD_LIST },
    { "timeout-ms", "timeoutMs", FIELD_NUMBER },
    { "in-flight", "inFlight", FIELD_NUMBER },
    { 0 },
};
static const struct cli_field new_fields[] = {
    { "project", "project", FIELD_TEXT },
    { "secret", "secret", FIELD_SECRET },
    { 0 },
};
static const struct cli_field set_fields[] = {
    { "to", "url", FIELD_TEXT },
    { "name", "name", FIELD_TEXT },
    { 0 },
};
static const struct cli_field rotate_fields[] = {
    { "secret", "secret", FIELD_SECRET },
    { "overlap-ms", "overlapMs", FIELD_NUMBER },
    { 0 },
};

static int print_changed(struct cli *cli, struct slice hook)
{
    const char *name = member(cli, hook, "name");
    const char *secret = member(cli, hook, "secret");

    print_line("Webhook %s (%s): %s", name ? name : "without a name",
               member(cli, hook, "id"), joined(cli, member_raw(hook, "events")));
    if (secret)
        printf("Its secret, which is not shown again: %s\n", secret);
    return 0;
}

/* The API takes a name twice.  Who asks for the same again by mistake would be told
 * everything twice from then on, and could not name either. */
static int check_name(struct cli *cli)
{
    struct search search = { 0 };
    int r = search_all(cli, &search);
    return r < 0 || search.count == 0
               ? r
               : cli_fail(cli, -HF_CONFLICT,
                          "There is a webhook %s already (%" PRId64 "); choose another "
                          "name, or change it: holdfast webhooks set %s",
                          cli->args[1], search.id, cli->args[1]);
}

static int add(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct ask ask = ask_for("POST", "webhooks");

    buf_init(&body, (size_t)8 << 20);
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    json_put_text(&w, "name", cli->args[1]);
    json_put_text(&w, "url", cli->args[2]);
    int r = cli_put_fields(cli, &w, fields, true);
    if (r == 0)
        r = cli_put_fields(cli, &w, new_fields, true);
    if (r == 0)
        r = cli_put_headers(cli, &w, false, (struct slice){ 0 });
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&body, &ask.body);
    if (r == 0)
        r = check_name(cli);
    return r < 0 ? r : cli_ask_and_print(cli, &ask, print_changed);
}

static int set(struct cli *cli)
{
    cleanup(buf_release) struct buf body, answer;
    struct slice hook = { 0 }, text = { 0 };

    buf_init(&body, (size_t)8 << 20);
    int r = webhook_find(cli, &answer, &hook);
    if (r < 0)
        return r;
    struct json_writer w = json_writer(&body);
    json_begin_object(&w);
    const size_t empty = body.n;
    r = cli_put_fields(cli, &w, fields, false);
    if (r == 0)
        r = cli_put_fields(cli, &w, set_fields, false);
    if (r == 0)
        r = cli_put_headers(cli, &w, false, member_raw(hook, "headerNames"));
    if (r == 0 && body.n == empty)
        r = cli_refuse(cli, "There is nothing to change; give --to, --events, --header, "
                            "--name, --timeout-ms or --in-flight.");
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&body, &text);
    if (r < 0)
        return r;
    struct ask ask = ask_for("PATCH", "webhooks/%" PRId64, member_int(hook, "id"));
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_changed);
}

static int rotate(struct cli *cli)
{
    cleanup(buf_release) struct buf body;
    struct slice text = { 0 };
    int64_t id = 0;

    int r = cli_write_fields(cli, rotate_fields, &body, &text);
    if (r == 0)
        r = webhook_find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "webhooks/%" PRId64 "/rotate", id);
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_changed);
}

/* ---- acts ---- */

static int print_state(struct cli *cli, struct slice hook)
{
    bool active = member_is(hook, "state", "active");
    const char *name = member(cli, hook, "name");

    print_line(active ? "%s goes on" : "%s is paused; it collects what happens meanwhile",
               name ? name : member(cli, hook, "id"));
    return 0;
}

static int pause_webhook(struct cli *cli)
{
    static const struct cli_field pause_fields[] = { { "reason", "reason", FIELD_TEXT },
                                                     { 0 } };
    cleanup(buf_release) struct buf body;
    struct slice text = { 0 };
    int64_t id = 0;

    int r = cli_write_fields(cli, pause_fields, &body, &text);
    if (r == 0)
        r = webhook_find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "webhooks/%" PRId64 "/pause", id);
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_state);
}

static int resume_webhook(struct cli *cli)
{
    int64_t id = 0;
    int r = webhook_find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "webhooks/%" PRId64 "/resume", id);
    return cli_ask_and_print(cli, &ask, print_state);
}

static int delete (struct cli *cli)
{
    int64_t id = 0;
    int r = webhook_find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("DELETE", "webhooks/%" PRId64, id);
    return cli_delete(cli, &ask, "Webhook", ", with its deliveries");
}

/* ---- the actions ---- */

/* clang-format off */
static const struct cli_option webhook_options[] = {
    { "project", "NAME", "only what is of this project; all", 0 },
    { "to", "URL", "set: send to this", 0 },
    { "events", "LIST", "which: job.failed,recovery.* or '*'", .many = true },
    { "header", "'NAME: VALUE'|@FILE", "sent along, never shown; 'NAME:' takes it away", .many = true },
    { "timeout-ms", "N", "how long one may take; 15000", 0 },
    { "in-flight", "N", "how many are sent at once; 1", 0 },
    { "name", "NAME", "set: call it this", 0 },
    { "secret", "TEXT|@FILE", "add, rotate: this one (whsec_...), not a new one", 0 },
    { "overlap-ms", "N", "rotate: so long the old one signs too; a day", 0 },
    { "reason", "TEXT", "pause: shown to whoever wonders", 0 },
    { "state", "WORD", "pending, delivered, failed; several: a,b", 0 },
    { "type", "WORD", "deliveries: of this type of event", 0 },
    { "created-after", "TIME", "resend-all: only newer ones", 0 },
    { "created-before", "TIME", "resend-all: only older ones", 0 },
    { "wait-ms", "N", "wait for the first try; test: 20000, resend: 0", 0 },
    { "limit", "N", "list, deliveries: how many, up to 1000; 50", 0 },
    { "cursor", "ID", "list, deliveries: go on where the last page ended", 0 },
    { 0 },
};

static const struct action webhook_actions[] = {
    { "list", "", "all of them, or those of --project", 0, 0, " project limit cursor ", list },
    { "show", "NAME", "everything about one, and how it fares", 1, 1, " project ", show },
    { "add", "NAME URL", "make one: --events; prints its secret", 2, 2,
      " project events header timeout-ms in-flight secret ", add },
    { "set", "NAME", "change what is given", 1, 1,
      " project to events header timeout-ms in-flight name ", set },
    { "test", "NAME", "send it a test, and tell how it went", 1, 1, " project wait-ms ", webhook_test },
    { "deliveries", "NAME", "what was sent to it, the latest first", 1, 1,
      " project state type limit cursor ", webhook_deliveries },
    { "delivery", "ID", "one of them: what is sent, and each try", 1, 1, "", webhook_delivery },
    { "resend", "ID...", "send deliveries again", 1, INT_MAX, " wait-ms ", webhook_resend },
    { "resend-all", "NAME", "send all of it again that failed, or of --state", 1, 1,
      " project state created-after created-before ", webhook_resend_all },
    { "rotate", "NAME", "give it a new secret, and print it", 1, 1,
      " project secret overlap-ms ", rotate },
    { "pause", "NAME", "send nothing, and collect", 1, 1, " project reason ", pause_webhook },
    { "resume", "NAME", "let it go on, also one that is disabled", 1, 1, " project ", resume_webhook },
    { "delete", "NAME", "delete it with its deliveries", 1, 1, " project ", delete },
    { 0 },
};

const struct subcommand webhook_commands[] = {
    { "webhooks", "[ACTION [NAME...]]", "who is told of events: list, add, test, deliveries, ...", 0, INT_MAX,
      .actions = webhook_actions, .note = "NAME is a webhook's name or id",
      .place = SERVER, .options = webhook_options, .run = cli_act },
    { 0 },
};
/* clang-format on */
