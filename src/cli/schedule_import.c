/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_import.c -- a crontab becomes schedules, and a piece of configuration.
 *
 * Two halves, because the API takes no commands: the schedule says when, and makes jobs
 * of a kind; a [command] section says what jobs of that kind run.  Both are called by a
 * name that is made of the command, so that a line which comes again, or with another
 * time, is the same schedule.
 *
 * FAITHFUL.  As cron does it: a job starts whether or not the last one has ended
 * (overlap queue), what passed while nothing ran is not caught up (misfire skip), nothing
 * is tried again (0 retries), and the deadline is the longest there is.  Each can be
 * changed afterwards; a second import leaves that alone, and changes times only.
 *
 * A line that cannot be taken is told, and the others are. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "cli/crontab_config.h"
#include "cli/schedules.h"
#include "engine/schedule/schedule.h"

enum { SLUG_BYTES = 40, HASH_DIGITS = 6 };

enum result { CREATED, UPDATED, UNCHANGED, WOULD, REFUSED, OTHER, RESULTS };
static const char *const result_names[RESULTS] = {
    [CREATED] = "created",    [UPDATED] = "updated", [UNCHANGED] = "unchanged",
    [WOULD] = "would-import", [REFUSED] = "refused",
};

struct import {
    struct cli *cli;
    const char *project, *prefix, *zone;
    bool has_user, dry_run;
    int64_t line;
    struct crontab_variables variables;
    char (*names)[LIMIT_NAME_BYTES + 1]; /* that were given out */
    size_t name_count, name_room;
    int64_t counts[RESULTS];
    struct buf config, report;
    struct json_writer w; /* of the report, for programs */
};

/* ---- telling ---- */

static void tell(struct import *import, enum result result, const char *word,
                 const char *name, const char *detail)
{
    char title[40], text[1024];

    import->counts[result]++;
    if (!import->cli->json) {
        snprintf(title, sizeof(title), "%" PRId64 " %s", import->line, word);
        snprintf(text, sizeof(text), "%s%s%s", name ? name : "",
                 name && detail ? ": " : "", detail ? detail : "");
        print_field(title, text);
        return;
    }
    json_begin_object(&import->w);
    json_put_int(&import->w, "line", import->line);
    json_put_text(&import->w, "result", word);
    json_put_text(&import->w, "name", name);
    json_put_text(&import->w, "detail", detail);
    json_end_object(&import->w);
}

static void refuse(struct import *import, const char *name, const char *sentence)
{
    tell(import, REFUSED, result_names[REFUSED], name, sentence);
}

/* ---- names ---- */

/* The command in letters that a name may have, and some digits of its hash. */
static int make_name(struct import *import, const struct crontab_line *entry,
                     char out[LIMIT_NAME_BYTES + 1])
{
    char slug[SLUG_BYTES + 1], hash[SHA256_HEX_BYTES];
    cleanup(buf_release) struct buf whole;
    struct slice text = { 0 };
    size_t n = 0;

    buf_init(&whole, LIMIT_CONFIG_LINE_BYTES);
    buf_add(&whole, entry->user);
    buf_byte(&whole, '\n');
    buf_add(&whole, entry->command);
    int r = buf_end(&whole, &text);
    if (r == 0)
        r = sha256_hex(text, hash);
    if (r < 0)
        return r;
    for (size_t i = 0; i < entry->command.n && n < SLUG_BYTES; i++) {
        struct slice c = { entry->command.p + i, 1 };
        if (*c.p != '-' && name_valid(c))
            slug[n++] = *c.p;
        else if (n > 0 && slug[n - 1] != '-')
            slug[n++] = '-';
    }
    while (n > 0 && slug[n - 1] == '-')
        n--;
    snprintf(out, LIMIT_NAME_BYTES + 1, "%.40s%.*s%s%.*s", import->prefix, (int)n, slug,
             n ? "-" : "", HASH_DIGITS, hash);
    return 0;
}

static bool is_taken(const struct import *import, const char *name)
{
    for (size_t i = 0; i < import->name_count; i++)
        if (strcmp(import->names[i], name) == 0)
            return true;
    return false;
}

/* The same command at another time is another schedule: the second, the third, ... */
static int take_name(struct import *import, char name[LIMIT_NAME_BYTES + 1])
{
    char base[LIMIT_NAME_BYTES + 1];

    memcpy(base, name, sizeof(base));
    for (int i = 2; is_taken(import, name); i++)
        snprintf(name, LIMIT_NAME_BYTES + 1, "%.80s-%d", base, i);
    if (import->name_count == import->name_room) {
        size_t room = import->name_room ? 2 * import->name_room : 64;
        void *grown = realloc(import->names, room * sizeof(*import->names));
        if (!grown)
            return -HF_NOMEM;
        import->names = grown;
        import->name_room = room;
    }
    memcpy(import->names[import->name_count++], name, LIMIT_NAME_BYTES + 1);
    return 0;
}

/* ---- the schedule ---- */

static int write_new(struct import *import, const char *name, struct slice cron,
                     struct slice zone, struct buf *body, struct slice *ret)
{
    struct json_writer w = json_writer(body);
    json_begin_object(&w);
    json_put_text(&w, "name", name);
    if (import->project)
        json_put_text(&w, "project", import->project);
    json_put_text(&w, "kind", name);
    json_put_str(&w, "cron", cron);
    json_put_str(&w, "timeZone", zone);
    json_put_text(&w, "overlap", "queue");
    json_put_text(&w, "misfire", "skip");
    json_put_int(&w, "maxRetries", 0);
    json_put_int(&w, "maxExecutionTimeMs", LIMIT_DEADLINE_MS);
    json_put_bool(&w, "paused", cli_option(import->cli, "paused") != NULL);
    json_end_object(&w);
    return buf_end(body, ret);
}

static int write_times(struct slice cron, struct slice zone, struct buf *body,
                       struct slice *ret)
{
    struct json_writer w = json_writer(body);
    json_begin_object(&w);
    json_put_str(&w, "cron", cron);
    json_put_str(&w, "timeZone", zone);
    json_end_object(&w);
    return buf_end(body, ret);
}

static int ask_with(struct import *import, struct ask ask, struct slice body)
{
    cleanup(buf_release) struct buf answer;
    struct slice text = { 0 };

    ask.body = body;
    return cli_ask(import->cli, &ask, &answer, &text);
}

/* The schedule of this name, as it is; absent if there is none. */
static int look_up(struct import *import, const char *name, struct buf *answer,
                   struct slice *ret)
{
    struct ask ask = ask_for("GET", "schedules");
    struct slice all = { 0 };

    ask_param(&ask, "name", name);
    ask_param(&ask, "project", import->project ? import->project : "default");
    int r = cli_ask(import->cli, &ask, answer, &all);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(member_raw(all, "items"));
    if (!json_array_next(&it, ret))
        *ret = (struct slice){ 0 };
    return 0;
}

static int make_or_change(struct import *import, const char *name, struct slice cron,
                          struct slice zone, enum result *ret)
{
    cleanup(buf_release) struct buf answer, body;
    struct slice there = { 0 }, text = { 0 };

    buf_init(&body, 64 << 10);
    int r = look_up(import, name, &answer, &there);
    if (r < 0)
        return r;
    if (!there.p) {
        *ret = CREATED;
        r = write_new(import, name, cron, zone, &body, &text);
        return r < 0 ? r : ask_with(import, ask_for("POST", "schedules"), text);
    }
    if (!member_is(there, "kind", name))
        return cli_refuse(import->cli,
                          "There is a schedule %s already, which is no crontab's: its "
                          "jobs are of another kind; choose another --prefix.",
                          name);
    struct slice has_cron = member_raw(there, "cron");
    *ret = UNCHANGED;
    if (has_cron.p && json_string_is(has_cron, cron) &&
        json_string_is(member_raw(there, "timeZone"), zone))
        return 0;
    *ret = UPDATED;
    r = write_times(cron, zone, &body, &text);
    return r < 0
               ? r
               : ask_with(import,
                          ask_for("PATCH", "schedules/%" PRId64, member_int(there, "id")),
                          text);
}

/* ---- lines ---- */

/* As the server does it, so that a dry run refuses what it would. */
static int check_when(struct slice cron, struct slice zone, struct error *error)
{
    struct schedule_edit edit = { .set = EDIT_WHEN,
                                  .with = { .cron = cron, .time_zone = zone } };
    return schedule_edit_check(&edit, NULL, error);
}

/* What is wrong with this line alone; anything else ends the import. */
static bool is_of_the_line(int code)
{
    return code == -HF_INVALID || code == -HF_CONFLICT || code == -HF_TOO_LARGE;
}

static int import_entry(struct import *import, const struct crontab_line *entry)
{
    struct slice zone = crontab_variable(&import->variables, "CRON_TZ", import->zone);
    char name[LIMIT_NAME_BYTES + 1], detail[LIMIT_CRON_BYTES + LIMIT_ZONE_BYTES + 8];
    enum result result = WOULD;
    struct error error = { 0 };

    if (entry->command.n > LIMIT_CONFIG_LINE_BYTES / 2) {
        refuse(import, NULL,
               "The command is too long for a line of the configuration; "
               "put it into a script.");
        return 0;
    }
    if (check_when(entry->when, zone, &error) < 0) {
        refuse(import, NULL, error.text);
        return 0;
    }
    int r = make_name(import, entry, name);
    if (r == 0)
        r = take_name(import, name);
    if (r == 0 && !import->dry_run)
        r = make_or_change(import, name, entry->when, zone, &result);
    if (is_of_the_line(r)) {
        refuse(import, name, import->cli->error.text);
        import->cli->error = (struct error){ 0 };
        return 0;
    }
    if (r < 0)
        return r;
    snprintf(detail, sizeof(detail), "%.*s, %.*s", (int)entry->when.n, entry->when.p,
             (int)zone.n, zone.p);
    tell(import, result, result_names[result], name, detail);
    crontab_config_add(&import->config, import->line, name, entry, &import->variables);
    return 0;
}

static int keep_variable(struct import *import, const struct crontab_line *line)
{
    struct arena *arena = &import->cli->arena;
    struct slice name = arena_dup(arena, line->name);
    struct slice value = arena_dup(arena, line->value);
    bool mail = slice_equal(line->name, SLICE("MAILTO"));

    int r = arena_end(arena);
    if (r < 0)
        return r;
    if (crontab_set(&import->variables, name, value))
        tell(import, OTHER, "variable", NULL,
             mail ? "MAILTO is left out: what a command prints is kept with its job"
                  : name.p);
    else
        refuse(import, NULL, "There are over 100 variables; this one is left out.");
    return 0;
}

static int import_line(struct import *import, struct slice text)
{
    struct crontab_line line;
    struct error error = { 0 };

    import->line++;
    int r = crontab_read(text, import->has_user, &import->cli->arena, &error, &line);
    if (r == -HF_INVALID) {
        refuse(import, NULL, error.text);
        return 0;
    }
    if (r < 0)
        return r;
    switch (line.type) {
    case CRONTAB_VARIABLE:
        return keep_variable(import, &line);
    case CRONTAB_ENTRY:
        return import_entry(import, &line);
    default:
        tell(import, OTHER, line.type == CRONTAB_COMMENT ? "comment" : "blank", NULL,
             NULL);
        return 0;
    }
}

static int read_lines(struct import *import, FILE *file, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t n = 0;
    int r = 0;

    errno = 0;
    while (r == 0 && (n = getline(&text, &room, file)) >= 0) {
        if (n > 0 && text[n - 1] == '\n')
            n--;
        r = import_line(import, (struct slice){ text, (size_t)n });
        errno = 0;
    }
    if (r == 0 && errno)
        r = cli_fail(import->cli, -HF_SYSTEM, "%s cannot be read: %s.", path,
                     strerror(errno));
    free(text);
    return r;
}

/* ---- the whole ---- */

/* cron's clock is the machine's. */
static const char *machine_zone(struct cli *cli)
{
    static const char folder[] = "zoneinfo/";
    char target[LIMIT_PATH_BYTES];
    ssize_t n = readlink("/etc/localtime", target, sizeof(target) - 1);

    if (n <= 0)
        return "UTC";
    target[n] = '\0';
    const char *found = strstr(target, folder);
    struct slice name = slice_of(found ? found + sizeof(folder) - 1 : "UTC");
    return tz_name_valid(name) ? arena_dup(&cli->arena, name).p : "UTC";
}

static void print_summary(struct import *import, const char *path)
{
    const int64_t *n = import->counts;
    struct slice config = { 0 };

    if (import->dry_run)
        printf("\n%" PRId64 " would be imported, %" PRId64 " are refused; nothing was "
               "done.\n",
               n[WOULD], n[REFUSED]);
    else
        printf("\n%" PRId64 " created, %" PRId64 " updated, %" PRId64
               " unchanged, %" PRId64 " refused.\n",
               n[CREATED], n[UPDATED], n[UNCHANGED], n[REFUSED]);
    printf("As with cron, jobs start beside each other (overlap queue), are not caught\n"
           "up (misfire skip) and not tried again; \"holdfast schedules set NAME\" with\n"
           "--overlap, --misfire or --max-retries changes that.\n");
    if (path && !import->dry_run)
        printf("The commands are in %s: put them into the server's configuration.\n",
               path);
    else if (buf_end(&import->config, &config) == 0)
        printf("For the server's configuration:\n\n%s", config.p);
}

static int finish(struct import *import, const char *path)
{
    struct json_writer *w = &import->w;
    struct slice config = { 0 };
    int r = buf_end(&import->config, &config);

    if (r == 0 && path && !import->dry_run)
        r = crontab_config_write(config, path, &import->cli->error);
    if (r == 0 && !import->cli->json)
        print_summary(import, path);
    json_end_array(w);
    for (int i = CREATED; i <= REFUSED; i++)
        json_put_int(w, i == WOULD ? "wouldImport" : result_names[i], import->counts[i]);
    json_put_str(w, "config", config);
    json_end_object(w);
    if (r == 0 && import->cli->json)
        r = print_json_buf(&import->report);
    return r < 0 ? r : import->counts[REFUSED] > 0 ? CLI_NO : 0;
}

static int begin(struct cli *cli, struct import *import)
{
    const char *zone = cli_option(cli, "tz"), *prefix = cli_option(cli, "prefix");

    *import = (struct import){ .cli = cli,
                               .project = cli_option(cli, "project"),
                               .prefix = prefix ? prefix : "cron.",
                               .zone = zone ? zone : machine_zone(cli),
                               .has_user = cli_option(cli, "user-column") != NULL,
                               .dry_run = cli_option(cli, "dry-run") != NULL };
    buf_init(&import->config, LIMIT_CONFIG_FILE_BYTES);
    buf_init(&import->report, CLI_ANSWER_BYTES);
    crontab_config_begin(&import->config);
    import->w = json_writer(&import->report);
    json_begin_object(&import->w);
    json_key(&import->w, "lines");
    json_begin_array(&import->w);
    if (strcmp(cli->args[1], "crontab") != 0)
        return cli_refuse(cli, "schedules can import a crontab, not \"%s\".",
                          cli->args[1]);
    if (strlen(import->prefix) > 40 ||
        (import->prefix[0] && !name_valid(slice_of(import->prefix))))
        return cli_refuse(cli,
                          "--prefix is \"%s\"; it must have up to 40 of the "
                          "characters A-Z a-z 0-9 . _ -",
                          import->prefix);
    return 0;
}

int schedule_import(struct cli *cli)
{
    const char *path = cli->args[2], *config = cli_option(cli, "config-out");
    struct import *import = new (struct import);
    FILE *file = NULL;

    if (!import)
        return -HF_NOMEM;
    int r = begin(cli, import);
    if (r == 0 && config && !import->dry_run)
        r = crontab_config_check(config, &cli->error);
    if (r == 0) {
        file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
        if (!file)
            r = cli_fail(cli, errno == ENOENT ? -HF_NOT_FOUND : -HF_SYSTEM,
                         "%s cannot be read: %s.", path, strerror(errno));
    }
    if (r == 0)
        r = read_lines(import, file, path);
    if (r == 0)
        r = finish(import, config);
    if (file && file != stdin)
        fclose(file);
    buf_release(&import->config);
    buf_release(&import->report);
    free(import->names);
    free(import);
    return r;
}
