/* SPDX-License-Identifier: Apache-2.0
 *
 * http_parse.c -- the head of a request. */
#include "http_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

int http_refuse(struct http_refusal *refusal, int status, const char *format, ...)
{
    va_list args;

    assert(status >= 400 && status <= 599);
    refusal->status = status;
    va_start(args, format);
    vsnprintf(refusal->text, sizeof(refusal->text), format, args);
    va_end(args);
    return -HF_INVALID;
}

/* ---- where the head ends ---- */

/* Judges byte `i`, knowing those before it.  True: the head ends with it. */
static bool scan_byte(struct http_scan *scan, const char *p, size_t i,
                      struct http_refusal *refusal)
{
    char c = p[i];
    bool after_cr = i > 0 && p[i - 1] == '\r';

    if (c == '\n') {
        if (!after_cr) {
            http_refuse(refusal, 400, "a line of the head ends with LF alone, not CRLF");
        } else if (scan->line == i - 1) {
            if (i > 1)
                return true;
            http_refuse(refusal, 400, "the request begins with an empty line");
        }
        scan->line = i + 1;
    } else if (after_cr) {
        http_refuse(refusal, 400, "there is a CR in the head that ends no line");
    } else if (((unsigned char)c < ' ' && c != '\t' && c != '\r') || c == 0x7f) {
        http_refuse(refusal, 400, "there is a control character in the head");
    } else if ((c == ' ' || c == '\t') && i == scan->line) {
        http_refuse(refusal, 400, "a line of the head begins with a space");
    }
    return false;
}

enum http_step http_head_scan(struct http_scan *scan, struct slice in,
                              size_t head_bytes_max, struct http_refusal *refusal)
{
    assert(scan->at <= in.n && scan->line <= scan->at);
    refusal->status = 0;
    for (size_t i = scan->at; i < in.n; i++) {
        if (i >= head_bytes_max) {
            bool one_line = scan->line == 0;
            http_refuse(refusal, one_line ? 414 : 431,
                        "the %s more than %zu bytes; that is too much",
                        one_line ? "request line has" : "headers have", head_bytes_max);
            return HTTP_REFUSED;
        }
        bool end = scan_byte(scan, in.p, i, refusal);
        scan->at = i + 1;
        if (end)
            return HTTP_DONE;
        if (refusal->status)
            return HTTP_REFUSED;
    }
    return HTTP_MORE;
}

/* ---- what it says ---- */

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_char(s.p[i]))
            return false;
    return s.n > 0;
}

static bool equal_word(struct slice s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static struct slice trim(struct slice s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct slice){ s.p + 1, s.n - 1 };
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* The next line of a head, without its CRLF; what is left begins behind it. */
static struct slice next_line(struct slice *rest)
{
    const char *end = memchr(rest->p, '\r', rest->n);

    assert(end && end + 1 < rest->p + rest->n && end[1] == '\n'); /* it was scanned */
    struct slice line = { rest->p, (size_t)(end - rest->p) };
    rest->n -= line.n + 2;
    rest->p = end + 2;
    return line;
}

static int parse_version(struct slice version, int *ret_minor,
                         struct http_refusal *refusal)
{
    if (version.n != 8 || memcmp(version.p, "HTTP/", 5) != 0 || version.p[6] != '.' ||
        version.p[5] < '0' || version.p[5] > '9' || version.p[7] < '0' ||
        version.p[7] > '9')
        return http_refuse(refusal, 400,
                           "the first line is not METHOD TARGET HTTP/1.1 with one space "
                           "between the three");
    if (version.p[5] != '1' || version.p[7] > '1')
        return http_refuse(refusal, 505,
                           "this server speaks HTTP/1.1 and HTTP/1.0, not HTTP/%c.%c",
                           version.p[5], version.p[7]);
    *ret_minor = version.p[7] - '0';
    return 0;
}

static int parse_method(struct slice name, enum http_method *ret,
                        struct http_refusal *refusal)
{
    if (!is_token(name))
        return http_refuse(refusal, 400, "the method is not a word");
    for (int method = HTTP_GET; method <= HTTP_OPTIONS; method++) {
        if (slice_equal(name, slice_of(http_method_name((enum http_method)method)))) {
            *ret = (enum http_method)method;
            return 0;
        }
    }
    return http_refuse(refusal, 501, "the method %.*s is not one this server knows",
                       (int)(name.n < 32 ? name.n : 32), name.p);
}

static int parse_request_line(struct slice line, struct arena *arena,
                              struct http_head *head, struct http_refusal *refusal)
{
    const char *first = memchr(line.p, ' ', line.n);
    const char *last = memrchr(line.p, ' ', line.n);
    const char *end = line.p + line.n;

    if (!first || last - first < 2)
        return http_refuse(refusal, 400,
                           "the first line is not METHOD TARGET HTTP/1.1 with one space "
                           "between the three");
    /* The version first: another one may have another grammar. */
    struct slice version = { last + 1, (size_t)(end - last - 1) };
    int r = parse_version(version, &head->minor, refusal);
    if (r == 0)
        r = parse_method((struct slice){ line.p, (size_t)(first - line.p) },
                         &head->method, refusal);
    if (r == 0)
        r = http_target_parse((struct slice){ first + 1, (size_t)(last - first - 1) },
                              arena, head, refusal);
    return r;
}

static int parse_header(struct slice line, struct http_pair *ret,
                        struct http_refusal *refusal)
{
    const char *colon = memchr(line.p, ':', line.n);

    if (!colon)
        return http_refuse(refusal, 400, "a header has no colon");
    struct slice name = { line.p, (size_t)(colon - line.p) };
    if (!is_token(name))
        return http_refuse(refusal, 400,
                           "a header's name is empty, or has a space or another "
                           "character in it that a name may not have");
    size_t value = name.n + 1;
    ret->name = name;
    ret->value = trim((struct slice){ line.p + value, line.n - value });
    return 0;
}

/* ---- what it means ---- */

static int take_length(struct slice value, struct http_head *head,
                       struct http_refusal *refusal)
{
    if (head->has_length)
        return http_refuse(refusal, 400, "there is more than one Content-Length");
    head->has_length = true;
    if (value.n == 0)
        return http_refuse(refusal, 400, "Content-Length is empty");
    for (size_t i = 0; i < value.n; i++)
        if (value.p[i] < '0' || value.p[i] > '9')
            return http_refuse(refusal, 400, "Content-Length is not a plain number");
    /* 18 digits fit into 64 bits, and nobody sends that much. */
    if (value.n > 18)
        return http_refuse(refusal, 413, "Content-Length is larger than any body may be");
    for (size_t i = 0; i < value.n; i++)
        head->content_length = head->content_length * 10 + (uint64_t)(value.p[i] - '0');
    return 0;
}

static int take_coding(struct slice value, struct http_head *head,
                       struct http_refusal *refusal)
{
    if (head->chunked)
        return http_refuse(refusal, 400, "there is more than one Transfer-Encoding");
    if (head->minor == 0)
        return http_refuse(refusal, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (!equal_word(value, "chunked"))
        return http_refuse(refusal, 501,
                           "the Transfer-Encoding is not one this server knows; it knows "
                           "\"chunked\"");
    head->chunked = true;
    return 0;
}

static int take_host(struct slice value, bool *seen, struct http_head *head,
                     struct http_refusal *refusal)
{
    if (*seen)
        return http_refuse(refusal, 400, "there is more than one Host");
    *seen = true;
    if (!http_host_valid(value))
        return http_refuse(refusal, 400, "Host is not NAME or NAME:PORT");
    /* Two hosts in one request are two readings of it. */
    if (head->host.p &&
        !(head->host.n == value.n && strncasecmp(head->host.p, value.p, value.n) == 0))
        return http_refuse(refusal, 400, "Host is not the host in the target");
    head->host = value;
    return 0;
}

static void take_connection(struct slice value, struct http_head *head, bool *close)
{
    while (value.n > 0) {
        const char *comma = memchr(value.p, ',', value.n);
        size_t n = comma ? (size_t)(comma - value.p) : value.n;
        struct slice word = trim((struct slice){ value.p, n });
        if (equal_word(word, "close"))
            *close = true;
        if (equal_word(word, "keep-alive"))
            head->keep_alive = true;
        size_t used = comma ? n + 1 : n;
        value = (struct slice){ value.p + used, value.n - used };
    }
}

static int take_expect(struct slice value, struct http_head *head,
                       struct http_refusal *refusal)
{
    if (head->minor == 0)
        return 0; /* it did not exist then */
    if (!equal_word(value, "100-continue"))
        return http_refuse(refusal, 417, "Expect is not \"100-continue\"");
    head->expects_continue = true;
    return 0;
}

static int take_meaning(struct http_head *head, struct http_refusal *refusal)
{
    bool host = false, close = false;
    int r = 0;

    head->keep_alive = head->minor >= 1;
    for (size_t i = 0; i < head->header_count && r == 0; i++) {
        struct slice name = head->headers[i].name, value = head->headers[i].value;
        if (equal_word(name, "content-length"))
            r = take_length(value, head, refusal);
        else if (equal_word(name, "transfer-encoding"))
            r = take_coding(value, head, refusal);
        else if (equal_word(name, "host"))
            r = take_host(value, &host, head, refusal);
        else if (equal_word(name, "connection"))
            take_connection(value, head, &close);
        else if (equal_word(name, "expect"))
            r = take_expect(value, head, refusal);
    }
    if (r < 0)
        return r;
    if (close)
        head->keep_alive = false;
    if (head->chunked && head->has_length)
        return http_refuse(refusal, 400,
                           "there is a Content-Length beside a Transfer-Encoding");
    if (!host && head->minor >= 1)
        return http_refuse(refusal, 400, "there is no Host");
    return 0;
}

int http_head_parse(struct slice head, size_t headers_max, struct arena *arena,
                    struct http_head *ret, struct http_refusal *refusal)
{
    struct http_head parsed = { 0 };
    struct slice rest = arena_dup(arena, head);

    if (!rest.p)
        return -HF_NOMEM;
    int r = parse_request_line(next_line(&rest), arena, &parsed, refusal);
    if (r < 0)
        return r;
    size_t lines = 0;
    for (size_t i = 0; i < rest.n; i++)
        lines += rest.p[i] == '\n';
    assert(lines > 0);
    if (lines - 1 > headers_max)
        return http_refuse(refusal, 431, "there are more than %zu headers", headers_max);
    parsed.headers = arena_array(arena, struct http_pair, lines - 1);
    if (!parsed.headers)
        return -HF_NOMEM;
    for (struct slice line = next_line(&rest); line.n > 0; line = next_line(&rest)) {
        r = parse_header(line, &parsed.headers[parsed.header_count++], refusal);
        if (r < 0)
            return r;
    }
    assert(rest.n == 0 && parsed.header_count == lines - 1);
    r = take_meaning(&parsed, refusal);
    if (r == 0)
        *ret = parsed;
    return r;
}
