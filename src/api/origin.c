/* SPDX-License-Identifier: Apache-2.0
 *
 * origin.c -- Host, Origin and Sec-Fetch-Site. */
#include "api/origin.h"

#include <arpa/inet.h>
#include <strings.h>

static bool same(struct slice a, struct slice b)
{
    assert((a.p || a.n == 0) && (b.p || b.n == 0));
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

/* "[::1]:7420" and "localhost:7420" without their ports. */
static struct slice without_port(struct slice host)
{
    size_t n = host.n;
    while (n > 0 && host.p[n - 1] >= '0' && host.p[n - 1] <= '9')
        n--;
    bool port = n > 0 && host.p[n - 1] == ':';
    bool bare_v6 = port && memchr(host.p, ':', n - 1) && host.p[0] != '[';
    return port && !bare_v6 ? (struct slice){ host.p, n - 1 } : host;
}

/* The address that a host is written as; AF_UNSPEC if it is a name. */
static int literal_of(struct slice host, uint8_t ret[16])
{
    char text[64];
    bool brackets = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (brackets)
        host = (struct slice){ host.p + 1, host.n - 2 };
    if (host.n == 0 || host.n >= sizeof(text))
        return AF_UNSPEC;
    memcpy(text, host.p, host.n);
    text[host.n] = '\0';
    if (!brackets && inet_pton(AF_INET, text, ret) == 1)
        return AF_INET;
    return brackets && inet_pton(AF_INET6, text, ret) == 1 ? AF_INET6 : AF_UNSPEC;
}

static bool is_loopback(struct slice host)
{
    uint8_t address[16] = { 0 };
    static const uint8_t one[16] = { [15] = 1 };
    switch (literal_of(host, address)) {
    case AF_INET:
        return address[0] == 127;
    case AF_INET6:
        return memcmp(address, one, sizeof(one)) == 0;
    default:
        return same(host, SLICE("localhost"));
    }
}

/* Who listens everywhere has every address of the machine; a page's own name is no
 * address. */
static bool is_ours(struct slice host, const struct http_server *server)
{
    static const uint8_t any[16] = { 0 };
    uint8_t address[16] = { 0 }, own[16];
    const char *text = NULL;
    bool literal = literal_of(host, address) != AF_UNSPEC;
    for (size_t i = 0; server && (text = http_server_address(server, i)); i++) {
        struct slice listens = without_port(slice_of(text));
        memset(own, 0, sizeof(own));
        if (same(host, listens) || (literal && literal_of(listens, own) != AF_UNSPEC &&
                                    memcmp(own, any, sizeof(any)) == 0))
            return true;
    }
    return false;
}

static bool is_allowed(struct slice whole, struct slice host, const char *list)
{
    for (const char *p = list ? list : ""; *p;) {
        size_t n = strcspn(p, ", ");
        struct slice item = { p, n };
        if (n > 0 && (same(item, whole) || same(item, host)))
            return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

static struct slice header(const struct http_request *request, const char *name)
{
    return http_pair_find(request->head.headers, request->head.header_count, name);
}

static int shown(struct slice text)
{
    return (int)(text.n < 100 ? text.n : 100);
}

/* The page's own site, or one that leads here by a link. */
static bool is_foreign(const struct http_request *request, struct slice host)
{
    struct slice origin = header(request, "Origin");
    struct slice site = header(request, "Sec-Fetch-Site");
    struct slice mode = header(request, "Sec-Fetch-Mode");
    if (origin.p) {
        size_t scheme = origin.n > 8 && strncasecmp(origin.p, "https://", 8) == 0  ? 8
                        : origin.n > 7 && strncasecmp(origin.p, "http://", 7) == 0 ? 7
                                                                                   : 0;
        if (scheme == 0 ||
            !same((struct slice){ origin.p + scheme, origin.n - scheme }, host))
            return true;
    }
    bool other = same(site, SLICE("cross-site")) || same(site, SLICE("same-site"));
    return other && !same(mode, SLICE("navigate"));
}

int origin_check(const struct http_request *request, const struct http_server *server,
                 const char *allowed_hosts, struct error *error)
{
    struct slice whole = request->head.host;
    struct slice host = without_port(whole);
    if (strcmp(request->peer, "unix") == 0)
        return 0;
    /* Browsers always say whom they mean; HTTP/1.0 need not. */
    if (whole.p && !is_loopback(host) && !is_ours(host, server) &&
        !is_allowed(whole, host, allowed_hosts))
        return error_set(error, -HF_FORBIDDEN, "Host",
                         "This server is not called %.*s; if it should be, add the name "
                         "to allowed_hosts.",
                         shown(host), host.p);
    if (is_foreign(request, whole))
        return error_set(error, -HF_FORBIDDEN, "Origin",
                         "This request comes from a page of another site, which may "
                         "neither read nor change anything here.");
    return 0;
}
