/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a request ends up: redirects, what goes along with them, and addresses it
 * must not reach, whichever way it is led there. */
#include "http_call.h"
#include "test.h"

/* ---- redirects ---- */

TEST(redirects_are_followed_as_often_as_allowed)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.redirects_max = 5;
    call_get(&c, "/redirect/5");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 200);
    check_int(c.redirects, 5);
    check_int(c.peer.requests, 6);
    check(strstr(c.body, "GET /redirect/0 ") != NULL); /* only the last one's body */
    check(strstr(c.headers, "Location") == NULL);
    call_get(&c, "/redirect/6");
    check_int(c.end, FETCH_REDIRECTS);
    check(strstr(c.text, "more than 5 redirects") != NULL);
    check_int(c.peer.requests, 12);
    call_end(&c);
}

TEST(a_redirect_is_an_answer_when_none_may_be_followed)
{
    struct call c;

    call_begin(&c, NULL);
    call_get(&c, "/redirect/1");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 302);
    check_str(c.body, "elsewhere");
    c.request.redirects_max = 5;
    call_get(&c, "/status/302"); /* without a Location */
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 302);
    call_end(&c);
}

TEST(a_loop_of_redirects_comes_to_an_end)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.redirects_max = LIMIT_REDIRECTS;
    call_get(&c, "/loop");
    check_int(c.end, FETCH_REDIRECTS);
    check_int(c.redirects, LIMIT_REDIRECTS);
    check_int(c.peer.requests, LIMIT_REDIRECTS + 1);
    call_end(&c);
}

TEST(the_method_changes_as_browsers_change_it)
{
    static const struct {
        const char *method, *path, *after;
        bool body;
    } rows[] = {
        { "POST", "/move/301//echo", "GET /echo ", false },
        { "POST", "/move/302//echo", "GET /echo ", false },
        { "POST", "/move/303//echo", "GET /echo ", false },
        { "POST", "/move/307//echo", "POST /echo ", true },
        { "POST", "/move/308//echo", "POST /echo ", true },
        { "PUT", "/move/301//echo", "PUT /echo ", true },
        { "PUT", "/move/302//echo", "PUT /echo ", true },
        { "PUT", "/move/303//echo", "GET /echo ", false },
        { "DELETE", "/move/303//echo", "GET /echo ", false },
    };
    struct fetch_header header = { SLICE("Content-Type"), SLICE("text/x-test"), false };
    struct call c;

    call_begin(&c, NULL);
    c.request.redirects_max = 1;
    c.request.headers = &header;
    c.request.header_count = 1;
    c.request.body = SLICE("the body");
    for (size_t i = 0; i < array_len(rows); i++) {
        c.request.method = slice_of(rows[i].method);
        call_get(&c, rows[i].path);
        if (c.status != 200 || !call_sent(&c, rows[i].after) ||
            call_sent(&c, "the body") != rows[i].body ||
            call_sent(&c, "text/x-test") != rows[i].body ||
            call_sent(&c, "Content-Length") != rows[i].body)
            fail("%s %s: %d, then %s", rows[i].method, rows[i].path, c.status,
                 c.peer.last);
    }
    c.request.method = SLICE("HEAD");
    c.request.body = (struct slice){ 0 };
    call_get(&c, "/move/303//echo");
    check(call_sent(&c, "HEAD /echo "));
    call_end(&c);
}

TEST(a_redirect_to_something_that_is_not_http_is_refused)
{
    static const char *const places[] = { "ftp://127.0.0.1/", "file:///etc/passwd",
                                          "gopher://127.0.0.1:70/", "dict://127.0.0.1/" };
    struct call c;

    call_begin(&c, NULL);
    c.request.redirects_max = 5;
    for (size_t i = 0; i < array_len(places); i++) {
        char path[100];
        snprintf(path, sizeof(path), "/move/302/%s", places[i]);
        call_get(&c, path);
        check_int(c.end, FETCH_REFUSED);
        check(strstr(c.text, "redirects to where requests do not go") != NULL);
    }
    call_end(&c);
}

/* ---- secrets ---- */

static struct fetch_header secrets[] = {
    { SLICE("Authorization"), SLICE("Bearer one"), false },
    { SLICE("cookie"), SLICE("two=2"), false },
    { SLICE("Proxy-Authorization"), SLICE("three"), false },
    { SLICE("X-Api-Key"), SLICE("four"), true },
    { SLICE("Host"), SLICE("five.example.com"), false },
    { SLICE("X-Plain"), SLICE("six"), false },
};

static int secrets_sent(struct call *c)
{
    static const char *const parts[] = { "Bearer one", "two=2", "three", "four",
                                         "five.example.com" };
    int n = 0;

    for (size_t i = 0; i < array_len(parts); i++)
        n += call_sent(c, parts[i]);
    return n;
}

TEST(secrets_go_to_the_first_origin_only)
{
    struct call c;
    struct peer other;
    char path[200];

    call_begin(&c, NULL);
    peer_begin(&other, c.base, false); /* another port is another origin */
    c.request.redirects_max = 5;
    c.request.headers = secrets;
    c.request.header_count = array_len(secrets);
    call_get(&c, "/redirect/1");
    check_int(secrets_sent(&c), 5); /* the same origin */

    snprintf(path, sizeof(path), "/move/307/http://127.0.0.1:%d/echo", other.port);
    call_get(&c, path);
    check_int(c.status, 200);
    check(strstr(other.last, "X-Plain: six") != NULL);
    memcpy(c.peer.last, other.last, sizeof(other.last));
    check_int(secrets_sent(&c), 0);

    /* Nor at the next hop, which stays where it is. */
    snprintf(path, sizeof(path), "/move/307/http://127.0.0.1:%d/redirect/1", other.port);
    call_get(&c, path);
    check_int(c.redirects, 2);
    memcpy(c.peer.last, other.last, sizeof(other.last));
    check(call_sent(&c, "GET /redirect/0 "));
    check_int(secrets_sent(&c), 0);

    /* And not when it leads back: who redirects chooses what is called. */
    snprintf(path, sizeof(path), "/move/307/http://127.0.0.1:%d/move/307/%s", other.port,
             "http://127.0.0.1");
    snprintf(path + strlen(path), 40, ":%d/echo", c.peer.port);
    call_get(&c, path);
    check_int(c.redirects, 2);
    check(call_sent(&c, "GET /echo "));
    check_int(secrets_sent(&c), 0);
    check(call_sent(&c, "X-Plain: six"));

    /* Another name for the same machine is another host. */
    snprintf(path, sizeof(path), "/move/302/http://localhost:%d/echo", c.peer.port);
    call_get(&c, path);
    check(call_sent(&c, "GET /echo "));
    check_int(secrets_sent(&c), 0);
    peer_end(&other);
    call_end(&c);
}

/* ---- addresses ---- */

static void check_denied(struct call *c, const char *url)
{
    int before = c->peer.requests;

    call_url(c, url);
    if (c->end != FETCH_REFUSED)
        fail("%s ended as %d: %s", url, c->end, c->text);
    check(strstr(c->text, "The address ") != NULL);
    check_str(c->address, "");
    check_int(c->peer.requests, before);
}

TEST(metadata_is_out_of_reach_in_every_spelling)
{
    static const char *const urls[] = {
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://0xa9.0xfe.43518/",
        "http://169.254.43518/",
        "http://169.16689662/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://user:password@169.254.169.254:80/",
        "http://127.0.0.1@169.254.169.254/",
        "http://169.254.169.254#@127.0.0.1/",
        "http://%31%36%39.254.169.254/",
        "http://169.254.169.254:80@169.254.169.254/",
        "HTTP://0XA9FEA9FE/",
        "http://0xa9.0376.169.254/",
        "http://0000000251.254.169.254/",
        "http://[0:0:0:0:0:FFFF:A9FE:A9FE]/",
        "http://[::169.254.169.254]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[fe80::1%25lo]/",
        "http://[FD00:EC2:0::254]/",
        "http://100.100.100.200/",
    };
    struct call c;

    call_begin(&c, NULL);
    for (size_t i = 0; i < array_len(urls); i++)
        check_denied(&c, urls[i]);
    call_end(&c);
}

/* Spellings that some resolvers take for an address, and some do not: nothing may be
 * connected to either way. */
TEST(what_may_be_a_spelling_of_a_denied_address_reaches_nothing)
{
    static const char *const hosts[] = { "127.0.0.1.",
                                         "localhost.",
                                         "127.0.0.1..",
                                         "127%2e0.0.1",
                                         "127.0.0.1%00",
                                         "0x7f.0.0.0x1.",
                                         "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1",
                                         "4294967296",
                                         "00000000000000000177.1",
                                         "[::ffff:127.0.0.1%25lo]" };
    struct call c;
    char url[100];

    call_begin(&c, "127.0.0.0/8, ::1");
    for (size_t i = 0; i < array_len(hosts); i++) {
        struct error error = { 0 };
        snprintf(url, sizeof(url), "http://%s:%d/echo", hosts[i], c.peer.port);
        c.request.url = slice_of(url);
        c.ended = false;
        if (http_client_start(c.client, &c.request, call_done, &c, &error, &c.fetch) < 0)
            continue;
        call_wait(&c);
        if (c.end == FETCH_ANSWERED)
            fail("%s was answered", hosts[i]);
    }
    check_int(c.peer.connections, 0);
    call_end(&c);
}

TEST(a_denied_network_is_out_of_reach_by_number_and_by_name)
{
    static const char *const hosts[] = { "127.0.0.1", "2130706433",         "0x7f.1",
                                         "127.1",     "0177.0.0.1",         "0",
                                         "0.0.0.0",   "[::ffff:127.0.0.1]", "[::1]",
                                         "localhost" };
    struct call c;
    char url[100];

    call_begin(&c, "127.0.0.0/8, ::1");
    for (size_t i = 0; i < array_len(hosts); i++) {
        snprintf(url, sizeof(url), "http://%s:%d/echo", hosts[i], c.peer.port);
        check_denied(&c, url);
    }
    check_int(c.peer.connections, 0);
    call_end(&c);
}

TEST(a_redirect_to_a_denied_address_is_refused)
{
    static const char *const places[] = {
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "//169.254.169.254/",
        "https://[::ffff:a9fe:a9fe]/",
        "http://good.example@169.254.169.254/",
    };
    struct call c;

    call_begin(&c, NULL);
    c.request.redirects_max = 5;
    for (size_t i = 0; i < array_len(places); i++) {
        char path[100];
        snprintf(path, sizeof(path), "/move/302/%s", places[i]);
        call_get(&c, path);
        check_int(c.end, FETCH_REFUSED);
        check_int(c.redirects, 1);
    }
    call_end(&c);
}

TEST(of_a_names_addresses_those_that_are_allowed_are_used)
{
    struct call c;
    char url[100];

    call_begin(&c, "::1");
    snprintf(url, sizeof(url), "http://localhost:%d/echo", c.peer.port);
    call_url(&c, url);
    check_int(c.end, FETCH_ANSWERED);
    check_str(c.address, "127.0.0.1");
    call_end(&c);
}

TEST(the_environment_names_no_proxy_for_us)
{
    struct call c;
    char proxy[100];

    call_begin(&c, NULL);
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", c.peer.port);
    check_int(setenv("http_proxy", proxy, 1), 0);
    check_int(setenv("all_proxy", proxy, 1), 0);
    check_denied(&c, "http://169.254.169.254/");
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    call_end(&c);
}
