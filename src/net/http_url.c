/* SPDX-License-Identifier: Apache-2.0
 *
 * http_url.c -- the target of a request: its path in parts, its query in pairs.
 *
 * Parts are cut before they are decoded, so that a slash sent as %2F stays
 * inside its part and no two spellings of a path reach different routes. */
#include <strings.h>

#include "base/text.h"
#include "http_parse.h"

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static struct slice slice_cut(struct slice s, size_t from, size_t to)
{
    assert(from <= to && to <= s.n);
    return (struct slice){ s.p + from, to - from };
}

static size_t slice_find(struct slice s, char c)
{
    const char *found = s.n ? memchr(s.p, c, s.n) : NULL;
    return found ? (size_t)(found - s.p) : s.n;
}

enum where { IN_PATH, IN_QUERY };

/* Undoes percent-encoding.  What comes out is text: later floors put it into
 * sentences, logs and statements. */
static int decode(struct slice in, enum where where, struct arena *arena,
                  struct slice *ret, struct http_refusal *refusal)
{
    const char *place = where == IN_PATH ? "path" : "query";
    char *out = arena_alloc(arena, in.n + 1);
    size_t n = 0;

    if (!out)
        return -HF_NOMEM;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            int high = i + 1 < in.n ? hex_digit(in.p[i + 1]) : -1;
            int low = i + 2 < in.n ? hex_digit(in.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return http_refuse(refusal, 400,
                                   "a %% in the %s is not followed by two hexadecimal "
                                   "digits",
                                   place);
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && where == IN_QUERY) {
            c = ' ';
        }
        out[n++] = c;
    }
    struct slice text = { out, n };
    if (!utf8_valid(text))
        return http_refuse(refusal, 400, "the %s is not UTF-8 without NUL", place);
    for (size_t i = 0; where == IN_PATH && i < n; i++)
        if ((unsigned char)out[i] < ' ' || out[i] == 0x7f)
            return http_refuse(refusal, 400, "the path has a control character in it");
    *ret = text;
    return 0;
}

static int parse_path(struct arena *arena, struct http_head *head,
                      struct http_refusal *refusal)
{
    struct slice rest = slice_cut(head->path, 1, head->path.n);

    assert(head->path.p[0] == '/');
    if (rest.n == 0)
        return 0;
    head->parts = arena_array(arena, struct slice, HTTP_PARTS_MAX);
    if (!head->parts)
        return -HF_NOMEM;
    for (bool more = true; more;) {
        size_t end = slice_find(rest, '/');
        if (head->part_count == HTTP_PARTS_MAX)
            return http_refuse(refusal, 414, "the path has more than %d parts",
                               HTTP_PARTS_MAX);
        int r = decode(slice_cut(rest, 0, end), IN_PATH, arena,
                       &head->parts[head->part_count++], refusal);
        if (r < 0)
            return r;
        more = end < rest.n;
        if (more)
            rest = slice_cut(rest, end + 1, rest.n);
    }
    return 0;
}

static int parse_query(struct slice query, struct arena *arena, struct http_head *head,
                       struct http_refusal *refusal)
{
    if (query.n == 0)
        return 0;
    head->query = arena_array(arena, struct http_pair, HTTP_PARAMS_MAX);
    if (!head->query)
        return -HF_NOMEM;
    while (query.n > 0) {
        size_t end = slice_find(query, '&');
        struct slice param = slice_cut(query, 0, end);
        query = slice_cut(query, end < query.n ? end + 1 : end, query.n);
        if (param.n == 0)
            continue; /* "a=1&&b=2", as forms send it */
        if (head->query_count == HTTP_PARAMS_MAX)
            return http_refuse(refusal, 414, "the query has more than %d parameters",
                               HTTP_PARAMS_MAX);
        struct http_pair *pair = &head->query[head->query_count++];
        size_t equals = slice_find(param, '=');
        size_t value = equals < param.n ? equals + 1 : equals;
        int r =
            decode(slice_cut(param, 0, equals), IN_QUERY, arena, &pair->name, refusal);
        if (r == 0)
            r = decode(slice_cut(param, value, param.n), IN_QUERY, arena, &pair->value,
                       refusal);
        if (r < 0)
            return r;
    }
    return 0;
}

bool http_host_valid(struct slice host)
{
    size_t name = 0;

    if (host.n > 0 && host.p[0] == '[') {
        size_t end = slice_find(host, ']');
        if (end == host.n || end < 3)
            return false;
        for (size_t i = 1; i < end; i++)
            if (hex_digit(host.p[i]) < 0 && host.p[i] != ':' && host.p[i] != '.')
                return false;
        name = end + 1;
    } else {
        while (name < host.n && (is_alnum(host.p[name]) || strchr("-._~", host.p[name])))
            name++;
    }
    if (name == 0)
        return false;
    if (name == host.n)
        return true;
    if (host.p[name] != ':' || host.n - name - 1 > 5)
        return false;
    for (size_t i = name + 1; i < host.n; i++)
        if (host.p[i] < '0' || host.p[i] > '9')
            return false;
    return host.n > name + 1;
}

/* "http://host/path", as clients send it that take us for a proxy: what it says
 * of the host counts.  Leaves in `target` what is behind the host. */
static int parse_absolute(struct slice *target, struct http_head *head,
                          struct http_refusal *refusal)
{
    size_t scheme = strncasecmp(target->p, "http://", 7) == 0    ? 7
                    : strncasecmp(target->p, "https://", 8) == 0 ? 8
                                                                 : 0;
    if (scheme == 0)
        return http_refuse(refusal, 400,
                           "the target is neither a path that begins with / nor an http "
                           "address");
    size_t end = scheme;
    while (end < target->n && target->p[end] != '/' && target->p[end] != '?')
        end++;
    head->host = slice_cut(*target, scheme, end);
    if (!http_host_valid(head->host))
        return http_refuse(refusal, 400, "the host in the target is not valid");
    *target = slice_cut(*target, end, target->n);
    return 0;
}

int http_target_parse(struct slice target, struct arena *arena, struct http_head *head,
                      struct http_refusal *refusal)
{
    int r;

    assert(target.n > 0 && target.p[target.n] == ' '); /* so strncasecmp() stops there */
    head->target = target;
    for (size_t i = 0; i < target.n; i++)
        if (target.p[i] <= ' ' || target.p[i] >= 0x7f || strchr("\"<>#", target.p[i]))
            return http_refuse(refusal, 400,
                               "the target has a character in it that must be "
                               "percent-encoded");
    if (head->method == HTTP_OPTIONS && slice_equal(target, SLICE("*"))) {
        head->path = target;
        return 0;
    }
    if (target.p[0] != '/') {
        r = parse_absolute(&target, head, refusal);
        if (r < 0)
            return r;
    }
    size_t path = slice_find(target, '?');
    head->path = path ? slice_cut(target, 0, path) : SLICE("/");
    r = parse_path(arena, head, refusal);
    if (r < 0 || path == target.n)
        return r;
    return parse_query(slice_cut(target, path + 1, target.n), arena, head, refusal);
}
