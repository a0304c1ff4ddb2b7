/* SPDX-License-Identifier: Apache-2.0
 *
 * crontab_config.c -- writes [command] sections. */
#include "cli/crontab_config.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/limits.h"

/* The first line of what we write: only a file that begins with it is written over. */
#define MARK "; Made by holdfast schedules import crontab."

enum { PASSWD_BYTES = 4096 };

/* ---- variables ---- */

bool crontab_set(struct crontab_variables *variables, struct slice name,
                 struct slice value)
{
    size_t i = 0;
    while (i < variables->count && !slice_equal(variables->list[i].name, name))
        i++;
    if (i == CRONTAB_VARIABLES)
        return false;
    variables->list[i].name = name;
    variables->list[i].value = value;
    if (i == variables->count)
        variables->count++;
    return true;
}

struct slice crontab_variable(const struct crontab_variables *variables, const char *name,
                              const char *otherwise)
{
    for (size_t i = 0; i < variables->count; i++)
        if (slice_equal(variables->list[i].name, slice_of(name)))
            return variables->list[i].value;
    return slice_of(otherwise);
}

/* Those that are about cron itself are no business of the command's. */
static bool is_crons_own(struct slice name)
{
    static const char *const own[] = { "SHELL", "MAILTO", "MAILFROM", "CRON_TZ" };
    for (size_t i = 0; i < array_len(own); i++)
        if (slice_equal(name, slice_of(own[i])))
            return true;
    return false;
}

/* ---- values ---- */

/* In single quotes everything is as it is but a single quote. */
static void put_quoted(struct buf *buf, struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == '\'')
            buf_text(buf, "'\\''");
        else
            buf_byte(buf, text.p[i]);
}

/* A word of argv or environment: NAME=VALUE, or the value alone. */
static void put_word(struct buf *buf, struct slice name, struct slice value)
{
    buf_byte(buf, '\'');
    if (name.n > 0) {
        put_quoted(buf, name);
        buf_byte(buf, '=');
    }
    put_quoted(buf, value);
    buf_byte(buf, '\'');
}

/* A value that is no list of words: in double quotes, or a ; in it were a comment. */
static void put_value(struct buf *buf, const char *key, struct slice value)
{
    buf_printf(buf, "%s = \"", key);
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] == '"' || value.p[i] == '\\')
            buf_byte(buf, '\\');
        buf_byte(buf, value.p[i]);
    }
    buf_text(buf, "\"\n");
}

static void put_environment(struct buf *config, const struct crontab_variables *variables)
{
    bool any = false;
    for (size_t i = 0; i < variables->count; i++) {
        if (is_crons_own(variables->list[i].name))
            continue;
        buf_text(config, any ? " " : "environment = ");
        put_word(config, variables->list[i].name, variables->list[i].value);
        any = true;
    }
    if (any)
        buf_byte(config, '\n');
}

/* cron starts a command at home; whose that is, is known where the line names a user. */
static void put_home(struct buf *config, const struct crontab_line *entry,
                     const struct crontab_variables *variables)
{
    struct slice home = crontab_variable(variables, "HOME", NULL);
    char user[LIMIT_NAME_BYTES + 1], text[PASSWD_BYTES];
    struct passwd space, *known = NULL;

    if (!home.p && entry->user.p && entry->user.n <= LIMIT_NAME_BYTES) {
        snprintf(user, sizeof(user), "%.*s", (int)entry->user.n, entry->user.p);
        if (getpwnam_r(user, &space, text, sizeof(text), &known) == 0 && known)
            home = slice_of(known->pw_dir);
    }
    if (home.p)
        put_value(config, "directory", home);
}

/* ---- the text ---- */

void crontab_config_begin(struct buf *config)
{
    buf_text(config, MARK "\n");
}

void crontab_config_add(struct buf *config, int64_t line_number, const char *kind,
                        const struct crontab_line *entry,
                        const struct crontab_variables *variables)
{
    buf_printf(config, "\n; line %" PRId64 ": %.*s\n[command %s]\nargv = ", line_number,
               (int)entry->when.n, entry->when.p, kind);
    put_word(config, (struct slice){ 0 },
             crontab_variable(variables, "SHELL", "/bin/sh"));
    buf_text(config, " -c ");
    put_word(config, (struct slice){ 0 }, entry->command);
    buf_byte(config, '\n');
    if (entry->user.p)
        put_value(config, "user", entry->user);
    put_home(config, entry, variables);
    put_environment(config, variables);
}

/* ---- the file ---- */

static int refuse_path(const char *path, struct error *error)
{
    return error_set(error, status_of_errno(errno), NULL, "%.300s cannot be written: %s.",
                     path, strerror(errno));
}

/* It is not there: can it be made? */
static bool has_folder(const char *path)
{
    char folder[LIMIT_PATH_BYTES + 2]; /* with room for the dot */
    snprintf(folder, LIMIT_PATH_BYTES, "./%s", path);
    snprintf(strrchr(folder, '/') + 1, 2, ".");
    return access(path[0] == '/' ? folder + 2 : folder, W_OK | X_OK) == 0;
}

int crontab_config_check(const char *path, struct error *error)
{
    char first[sizeof(MARK)] = "";
    FILE *file = fopen(path, "re");

    if (!file && errno == ENOENT)
        return has_folder(path) ? 0 : refuse_path(path, error);
    bool ours = file && fgets(first, sizeof(first), file) && strcmp(first, MARK) == 0;
    if (file)
        fclose(file);
    if (!ours)
        return error_set(error, -HF_CONFLICT, NULL,
                         "%.300s is there already, and was not made by an import; name "
                         "another file with --config-out.",
                         path);
    return access(path, W_OK) == 0 ? 0 : refuse_path(path, error);
}

int crontab_config_write(struct slice config, const char *path, struct error *error)
{
    FILE *file = fopen(path, "we");
    bool good = file && fwrite(config.p, 1, config.n, file) == config.n;

    if (file && fclose(file) != 0)
        good = false;
    return good ? 0 : refuse_path(path, error);
}
