/* SPDX-License-Identifier: Apache-2.0
 *
 * input.c -- what people type, as numbers, times and words. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/text.h"
#include "cli.h"

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

int cli_time(struct cli *cli, const char *name, int64_t *ret_us)
{
    const char *text = cli_option(cli, name);

    if (!text)
        return 0;
    if (time_parse(slice_of(text), ret_us) < 0)
        return cli_refuse(cli,
                          "--%s is \"%s\"; it must be a time with its zone, such as "
                          "2026-08-01T14:30:00Z.",
                          name, text);
    return 0;
}

int cli_word(struct cli *cli, const char *name, const char *const *words, int *ret)
{
    const char *text = cli_option(cli, name);
    char list[200] = "";
    size_t n = 0;

    if (!text)
        return 0;
    for (int i = 0; words[i]; i++) {
        if (!words[i][0]) /* a number without a word */
            continue;
        if (strcmp(words[i], text) == 0) {
            *ret = i;
            return 0;
        }
        int written =
            snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", words[i]);
        n += written > 0 && (size_t)written < sizeof(list) - n ? (size_t)written : 0;
    }
    return cli_refuse(cli, "--%s is \"%s\"; it must be one of: %s.", name, text, list);
}

int cli_id(struct cli *cli, const char *text, int64_t *ret)
{
    int64_t id = 0;

    if (!parse(text, &id) || id <= 0)
        return cli_refuse(cli, "\"%s\" is no job's id: ids are positive whole numbers.",
                          text);
    *ret = id;
    return 0;
}
