/* SPDX-License-Identifier: Apache-2.0
 *
 * input.c -- what people type, as far as it must be understood here.
 *
 * Most of it goes on to the API as it is, whose sentences are better than any that
 * could be said twice. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/text.h"
#include "cli.h"

static int set_error(struct cli *cli, int code, const char *format, va_list args)
{
    cli->error = (struct error){ .code = code };
    vsnprintf(cli->error.text, sizeof(cli->error.text), format, args);
    return code;
}

int cli_fail(struct cli *cli, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_error(cli, code, format, args);
    va_end(args);
    return code;
}

int cli_refuse(struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_error(cli, -HF_INVALID, format, args);
    va_end(args);
    return -HF_INVALID;
}

const char *cli_option(const struct cli *cli, const char *name)
{
    for (int i = 0; cli->command->options[i].name; i++)
        if (strcmp(cli->command->options[i].name, name) == 0)
            return cli->values[i];
    assert(false && "the command has no such option");
    return NULL;
}

/* Digits, perhaps with a sign, and nothing else. */
static bool parse(const char *text, int64_t *ret)
{
    char *end = NULL;
    bool digits = text[0] == '-' ? text[1] >= '0' && text[1] <= '9'
                                 : text[0] >= '0' && text[0] <= '9';
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (!digits || *end || errno)
        return false;
    *ret = n;
    return true;
}

int cli_number(struct cli *cli, const char *name, int64_t least, int64_t most,
               int64_t *ret)
{
    const char *text = cli_option(cli, name);
    int64_t n = 0;

    if (!text)
        return 0;
    if (!parse(text, &n) || n < least || n > most)
        return cli_refuse(cli,
                          "--%s is \"%s\"; it must be a whole number between %" PRId64
                          " and %" PRId64 ".",
                          name, text, least, most);
    *ret = n;
    return 0;
}

int cli_id(struct cli *cli, const char *what, const char *text, int64_t *ret)
{
    int64_t id = 0;

    if (!parse(text, &id) || id <= 0)
        return cli_refuse(cli, "\"%s\" is no %s's id: ids are positive whole numbers.",
                          text, what);
    *ret = id;
    return 0;
}

int cli_name(struct cli *cli, const char *what, const char *text)
{
    if (name_valid(slice_of(text)))
        return 0;
    return cli_refuse(cli,
                      "\"%s\" is no %s's name; it must have 1 to 100 of the "
                      "characters A-Z a-z 0-9 . _ -",
                      text, what);
}

/* ---- options as fields ---- */

int cli_put_number(struct cli *cli, struct json_writer *w, const char *option,
                   const char *field)
{
    int64_t n = 0;
    int r = cli_number(cli, option, INT64_MIN, INT64_MAX, &n);
    if (r == 0 && cli_option(cli, option))
        json_put_int(w, field, n);
    return r;
}

void cli_put_text(struct cli *cli, struct json_writer *w, const char *option,
                  const char *field)
{
    const char *text = cli_option(cli, option);
    if (text)
        json_put_text(w, field, text);
}

int cli_put_json(struct cli *cli, struct json_writer *w, const char *field,
                 struct slice json)
{
    struct error error = { 0 };
    if (json_check(json, LIMIT_JSON_DEPTH, &error) < 0)
        return cli_refuse(cli, "%s is not valid JSON: %s", field, error.text);
    json_put_raw(w, field, json_trim(json));
    return 0;
}

int cli_put_delays(struct cli *cli, struct json_writer *w)
{
    const char *text = cli_option(cli, "retry-delays");
    struct buf list;
    struct slice json;

    if (!text)
        return 0;
    buf_init(&list, LIMIT_TEXT_BYTES);
    buf_printf(&list, "[%s]", text);
    int r = buf_end(&list, &json);
    if (r < 0 || json_check(json, 1, NULL) < 0)
        r = cli_refuse(
            cli, "--retry-delays is \"%s\"; it must be seconds, such as 60,300,900.",
            text);
    else
        json_put_raw(w, "retryDelaysSeconds", json);
    buf_release(&list);
    return r;
}
