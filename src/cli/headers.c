/* SPDX-License-Identifier: Apache-2.0
 *
 * headers.c -- --header and --secret-header, together with those that are there. */
#include "cli/headers.h"

#include <stdio.h>
#include <strings.h>

#include "base/limits.h"
#include "base/text.h"

struct headers {
    struct header {
        struct slice name, value; /* no value: it is to be taken away */
        bool secret;
    } list[LIMIT_HEADERS];
    size_t count;
    bool given;
};

static struct slice trim(const char *p, size_t n)
{
    for (; n > 0 && strchr(" \t\r", *p); n--)
        p++;
    while (n > 0 && strchr(" \t\r", p[n - 1]))
        n--;
    return (struct slice){ p, n };
}

/* One line.  What is wrong with it is told without its value, which may be a secret. */
static int take_line(struct cli *cli, const char *option, struct slice line,
                     struct headers *headers)
{
    const char *colon = memchr(line.p, ':', line.n);
    struct header header = { .secret = option[0] == 's' };

    if (line.n == 0)
        return 0;
    if (!colon)
        return cli_refuse(cli,
                          "--%s must be 'NAME: VALUE', such as 'X-Team: blue', or @FILE "
                          "with one in each line; there is no colon in it.",
                          option);
    header.name = trim(line.p, (size_t)(colon - line.p));
    if (!http_token_valid(header.name))
        return cli_refuse(cli, "--%s: \"%.*s\" is no header's name; X-Team is one.",
                          option, (int)(header.name.n < 60 ? header.name.n : 60),
                          header.name.p);
    header.value = trim(colon + 1, line.n - (size_t)(colon + 1 - line.p));
    if (headers->count == LIMIT_HEADERS)
        return cli_refuse(cli, "There are more than %d headers.", LIMIT_HEADERS);
    headers->list[headers->count++] = header;
    return 0;
}

static int take_lines(struct cli *cli, const char *option, const char *text,
                      struct headers *headers)
{
    int r = 0;
    while (r == 0 && *text) {
        size_t n = strcspn(text, "\n");
        r = take_line(cli, option, trim(text, n), headers);
        text += n + (text[n] == '\n');
    }
    return r;
}

/* What was given is lines, and each may be a file of lines. */
static int take_option(struct cli *cli, const char *option, struct headers *headers)
{
    const char *all = cli_option(cli, option);
    int r = 0;

    if (all)
        headers->given = true;
    while (r == 0 && all && *all) {
        const char *text = NULL;
        size_t n = strcspn(all, "\n");
        struct slice one = arena_dup(&cli->arena, (struct slice){ all, n });
        if (!one.p)
            return -HF_NOMEM;
        r = cli_text_or_file(cli, option, one.p, &text);
        size_t before = headers->count;
        if (r == 0)
            r = take_lines(cli, option, text, headers);
        /* Nothing by mistake is not '', which takes all of them away. */
        if (r == 0 && one.p[0] == '@' && headers->count == before)
            r = cli_refuse(cli, "--%s: there is no header in %s; 'X-Team: blue' is one.",
                           option, one.p + 1);
        all += n + (all[n] == '\n');
    }
    return r;
}

/* ---- those that are there ---- */

/* `key` is the JSON of a name. */
static bool is_named(const struct headers *headers, struct slice key)
{
    for (size_t i = 0; i < headers->count; i++) {
        struct slice name = headers->list[i].name;
        if (name.n == key.n - 2 && strncasecmp(name.p, key.p + 1, name.n) == 0)
            return true;
    }
    return false;
}

static void keep_values(struct json_writer *w, const struct headers *headers,
                        struct slice there)
{
    struct slice key, value;
    struct json_iter it = json_iter(there);
    while (json_object_next(&it, &key, &value))
        if (!is_named(headers, key)) {
            json_key_slice(w, (struct slice){ key.p + 1, key.n - 2 });
            json_raw(w, value);
        }
}

static int check_names(struct cli *cli, const struct headers *headers, struct slice there)
{
    struct slice key;
    struct json_iter it = json_iter(there);
    while (json_array_next(&it, &key))
        if (!is_named(headers, key))
            return cli_refuse(cli,
                              "There is a header %.*s too, whose value is not shown and "
                              "would be lost; give it again as well, or take it away "
                              "with --header '%.*s:'.",
                              (int)key.n - 2, key.p + 1, (int)key.n - 2, key.p + 1);
    return 0;
}

/* ---- all of it ---- */

static void put_header(struct json_writer *w, const struct header *header)
{
    if (header->value.n == 0)
        return;
    json_key_slice(w, header->name);
    if (!header->secret) {
        json_str(w, header->value);
        return;
    }
    json_begin_object(w);
    json_put_str(w, "value", header->value);
    json_put_bool(w, "secret", true);
    json_end_object(w);
}

int cli_put_headers(struct cli *cli, struct json_writer *w, bool secrets,
                    struct slice there)
{
    struct headers headers = { 0 };

    int r = take_option(cli, "header", &headers);
    if (r == 0 && secrets)
        r = take_option(cli, "secret-header", &headers);
    if (r < 0 || !headers.given)
        return r;
    json_key(w, "headers");
    json_begin_object(w);
    if (headers.count > 0 && there.p && json_kind_of(there) == JSON_KIND_OBJECT)
        keep_values(w, &headers, there);
    else if (headers.count > 0 && there.p)
        r = check_names(cli, &headers, there);
    for (size_t i = 0; i < headers.count; i++)
        put_header(w, &headers.list[i]);
    json_end_object(w);
    return r;
}
