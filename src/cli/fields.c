/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c -- options as fields of what the API takes, by a table.
 *
 * Only the form is seen to here; what is acceptable, the API says. */
#include <errno.h>
#include <stdio.h>

#include "base/limits.h"
#include "cli.h"

/* ---- intervals ---- */

/* "90s" to milliseconds; false if it is none. */
static bool parse_interval(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {
        { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }
    };
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 10) /* in days, too, it fits */
        return false;
    for (size_t i = 0; i < array_len(units); i++)
        if (strcmp(text + digits, units[i].unit) == 0) {
            *ret_ms = strtoll(text, NULL, 10) * units[i].ms;
            return true;
        }
    return false;
}

int cli_put_every(struct cli *cli, struct json_writer *w)
{
    const char *text = cli_option(cli, "every");
    int64_t ms = 0;

    if (!text)
        return 0;
    if (!parse_interval(text, &ms))
        return cli_refuse(cli,
                          "--every is \"%s\"; it must be a number with a unit out of ms, "
                          "s, m, h and d, such as 90s.",
                          text);
    json_put_int(w, "everyMs", ms);
    return 0;
}

/* ---- lists ---- */

/* The next part, without blanks around it, of a text that is not empty. */
static struct slice next_part(const char **text)
{
    const char *start = *text + strspn(*text, " ");
    size_t n = strcspn(start, ",\n");

    *text = start[n] ? start + n + 1 : start + n;
    while (n > 0 && start[n - 1] == ' ')
        n--;
    return (struct slice){ start, n };
}

static bool is_number(struct slice part)
{
    return part.n > 0 && part.n < 10 && strspn(part.p, "0123456789") >= part.n &&
           (part.p[0] != '0' || part.n == 1);
}

static void put_list(struct json_writer *w, const char *field, const char *text)
{
    json_key(w, field);
    json_begin_array(w);
    while (*text) {
        struct slice part = next_part(&text);
        if (is_number(part))
            json_raw(w, part);
        else
            json_str(w, part);
    }
    json_end_array(w);
}

/* ---- texts out of files ---- */

static int read_all(FILE *file, struct buf *buf)
{
    for (size_t n = 1; n > 0 && !buf->failed;) {
        char *space = buf_space(buf, 65536);
        n = space ? fread(space, 1, 65536, file) : 0;
        buf_advance(buf, n);
    }
    return ferror(file) ? -HF_SYSTEM : 0;
}

int cli_text_or_file(struct cli *cli, const char *option, const char *text,
                     const char **ret)
{
    cleanup(buf_release) struct buf buf;
    struct slice all = { 0 };
    const char *path = text + 1;

    buf_init(&buf, LIMIT_BODY_BYTES + 65536);
    if (text[0] != '@') {
        *ret = text;
        return 0;
    }
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    int r = file ? read_all(file, &buf) : (int)-HF_NOT_FOUND;
    if (file && !standard)
        fclose(file);
    if (r < 0)
        return cli_fail(cli, r, "--%s: %s cannot be read: %m.", option, path);
    r = buf_end(&buf, &all);
    while (r == 0 && all.n > 0 && strchr("\r\n", all.p[all.n - 1]))
        all.n--;
    if (r == 0)
        all = arena_dup(&cli->arena, all);
    if (r < 0 || !all.p || strlen(all.p) != all.n)
        return cli_refuse(cli, "--%s: %s is no text of at most 2 MiB.", option, path);
    *ret = all.p;
    return 0;
}

/* Sent as it was typed, whichever it is. */
static int put_body(struct cli *cli, struct json_writer *w, const struct cli_field *field)
{
    const char *text = NULL;
    int r = cli_text_or_file(cli, field->option, cli_option(cli, field->option), &text);
    if (r < 0)
        return r;
    struct slice json = json_trim(slice_of(text));
    if (json.n > 0 && strchr("{[", json.p[0]) &&
        json_check(json, LIMIT_JSON_DEPTH, NULL) == 0)
        json_put_raw(w, field->field, json);
    else
        json_put_text(w, field->field, text);
    return 0;
}

static int put_secret(struct cli *cli, struct json_writer *w,
                      const struct cli_field *field)
{
    const char *text = NULL;
    int r = cli_text_or_file(cli, field->option, cli_option(cli, field->option), &text);
    if (r == 0)
        json_put_text(w, field->field, text);
    return r;
}

/* ---- all of them ---- */

static int put_field(struct cli *cli, struct json_writer *w,
                     const struct cli_field *field)
{
    const char *value = cli_option(cli, field->option);

    switch (field->type) {
    case FIELD_TEXT:
        json_put_text(w, field->field, value);
        return 0;
    case FIELD_NUMBER:
        return cli_put_number(cli, w, field->option, field->field);
    case FIELD_JSON:
        return cli_put_json(cli, w, field->field, slice_of(value));
    case FIELD_LIST:
        put_list(w, field->field, value);
        return 0;
    case FIELD_BODY:
        return put_body(cli, w, field);
    case FIELD_SECRET:
        return put_secret(cli, w, field);
    case FIELD_DELAYS:
        return cli_put_delays(cli, w);
    default:
        return cli_put_every(cli, w);
    }
}

int cli_put_fields(struct cli *cli, struct json_writer *w, const struct cli_field *fields,
                   bool is_new)
{
    int r = 0;
    for (; r == 0 && fields->option; fields++) {
        const char *value = cli_option(cli, fields->option);
        if (value && !value[0] && !is_new)
            json_put_null(w, fields->field);
        else if (value)
            r = put_field(cli, w, fields);
    }
    return r;
}

int cli_write_fields(struct cli *cli, const struct cli_field *fields, struct buf *body,
                     struct slice *ret)
{
    buf_init(body, 64 << 10);
    struct json_writer w = json_writer(body);
    json_begin_object(&w);
    int r = cli_put_fields(cli, &w, fields, true);
    json_end_object(&w);
    return r < 0 ? r : buf_end(body, ret);
}
