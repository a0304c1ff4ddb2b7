/* SPDX-License-Identifier: Apache-2.0
 *
 * A server to be called, on the loop of the test itself: what it does with a request
 * is what the path says.  It is not strict; it plays the other end, good and bad.
 *
 *   /echo            200, the request as it came, head and body
 *   /status/NNN      that status, with Retry-After: 7
 *   /bytes/N         200 with N bytes
 *   /binary          200 with bytes that are no text
 *   /empty           204
 *   /redirect/N      302 to /redirect/N-1, and 200 at 0
 *   /loop            302 to itself
 *   /move/NNN/URL    that status, with the URL as Location
 *   /endless         200, and a body without end
 *   /heads, /interim a head without end; interim responses without end
 *   /hang, /stall    nothing at all; a head and nothing more
 *   /close, /half    hangs up at once; in the middle of the body
 *   /garbage         bytes that are no HTTP
 *   /once            200 to the first request of a connection, hangs up on the second */
#pragma once

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/base.h"
#include "test.h"

struct peer {
    struct event_base *base;
    struct evconnlistener *listener;
    /* NULL, or how to talk on a connection other than in the clear. */
    struct bufferevent *(*talk)(struct event_base *base, evutil_socket_t fd);
    int port;
    int requests, connections, open;               /* all so far; all so far; now */
    char last[16384];                              /* the last request, as it came */
    void (*heard)(void *arg, const char *request); /* NULL, or called for each */
    void *heard_arg;
};

struct peer_conn {
    struct peer *peer;
    const char *before, *after; /* sent around 1024 zeros, whenever there is room */
    int64_t left;               /* bytes of a body still to be sent */
    bool closing;
    int requests;
};

static inline void peer_close(struct bufferevent *bev, struct peer_conn *c)
{
    c->peer->open--;
    bufferevent_free(bev);
    free(c);
}

static inline void peer_say(struct bufferevent *bev, const char *text)
{
    check_int(bufferevent_write(bev, text, strlen(text)), 0);
}

static inline void peer_answer(struct bufferevent *bev, const char *status,
                               const char *headers, struct slice body)
{
    evbuffer_add_printf(bufferevent_get_output(bev),
                        "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status, body.n,
                        headers);
    check_int(bufferevent_write(bev, body.p, body.n), 0);
}

static inline bool peer_misbehave(struct bufferevent *bev, struct peer_conn *c,
                                  const char *path)
{
    const char *endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    if (strcmp(path, "/endless") == 0) {
        peer_say(bev, endless);
        c->before = "400\r\n", c->after = "\r\n";
    } else if (strcmp(path, "/heads") == 0) {
        peer_say(bev, "HTTP/1.1 200 OK\r\n");
        c->before = "X-", c->after = ": y\r\n";
    } else if (strcmp(path, "/interim") == 0) {
        c->before = "HTTP/1.1 100 Continue\r\nX: ", c->after = "\r\n\r\n";
    } else if (strcmp(path, "/stall") == 0) {
        peer_say(bev, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nstalled");
    } else if (strcmp(path, "/half") == 0) {
        peer_say(bev, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        c->closing = true;
    } else if (strcmp(path, "/garbage") == 0) {
        peer_say(bev, "\x16\x03\x01 220 mail.example.com ESMTP\r\n\r\n");
        c->closing = true;
    } else if (strcmp(path, "/close") == 0) {
        c->closing = true;
    } else {
        return strcmp(path, "/hang") == 0;
    }
    return true;
}

static inline void peer_redirect(struct bufferevent *bev, const char *status,
                                 const char *location)
{
    char headers[8192];

    snprintf(headers, sizeof(headers), "Location: %s\r\n", location);
    peer_answer(bev, status, headers, SLICE("elsewhere"));
}

static inline void peer_behave(struct bufferevent *bev, struct peer_conn *c,
                               const char *path)
{
    char status[64], location[64];
    int n;

    if (sscanf(path, "/redirect/%d", &n) == 1 && n > 0) {
        snprintf(location, sizeof(location), "/redirect/%d", n - 1);
        peer_redirect(bev, "302 Found", location);
    } else if (sscanf(path, "/move/%d/", &n) == 1) {
        snprintf(status, sizeof(status), "%d Moved", n);
        peer_redirect(bev, status, path + 10);
    } else if (sscanf(path, "/status/%d", &n) == 1) {
        snprintf(status, sizeof(status), "%d Some Words", n);
        peer_answer(bev, status, "Retry-After: 7\r\n", slice_of(path));
    } else if (sscanf(path, "/bytes/%d", &n) == 1) {
        evbuffer_add_printf(bufferevent_get_output(bev),
                            "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n);
        c->left = n;
    } else if (strcmp(path, "/loop") == 0) {
        peer_redirect(bev, "302 Found", path);
    } else if (strcmp(path, "/binary") == 0) {
        peer_answer(bev, "200 OK", "", SLICE("\0\xff\xfe binary"));
    } else if (strcmp(path, "/empty") == 0) {
        peer_say(bev, "HTTP/1.1 204 No Content\r\n\r\n");
    } else if (strcmp(path, "/once") == 0 && c->requests > 1) {
        c->closing = true;
    } else {
        peer_answer(bev, "200 OK",
                    "Content-Type: text/plain\r\nX-Two: a\r\nx-two:  b \r\n",
                    slice_of(c->peer->last));
    }
}

/* Sends what is still to be sent, a piece at a time, as the other end takes it. */
static inline void peer_wrote(struct bufferevent *bev, void *arg)
{
    static const char zeros[16384] = { 0 };
    struct peer_conn *c = arg;

    if (c->closing) {
        peer_close(bev, c);
    } else if (c->before) {
        evbuffer_add_printf(bufferevent_get_output(bev), "%s%01024d%s", c->before, 0,
                            c->after);
    } else if (c->left > 0) {
        size_t n = c->left < (int64_t)sizeof(zeros) ? (size_t)c->left : sizeof(zeros);
        c->left -= (int64_t)n;
        bufferevent_write(bev, zeros, n);
    }
}

static inline void peer_event(struct bufferevent *bev, short what, void *arg)
{
    if (!(what & BEV_EVENT_CONNECTED)) /* TLS: the handshake is done */
        peer_close(bev, arg);
}

/* The bytes of a whole request at the front of `text`, or 0. */
static inline size_t peer_request_bytes(const char *text, size_t n)
{
    const char *end = memmem(text, n, "\r\n\r\n", 4);
    const char *length = memmem(text, n, "\r\nContent-Length: ", 18);
    size_t whole = end ? (size_t)(end - text) + 4 : 0;

    if (end && length && length < end)
        whole += (size_t)atol(length + 18);
    return whole <= n ? whole : 0;
}

static inline void peer_read(struct bufferevent *bev, void *arg)
{
    struct peer_conn *c = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    char path[4096] = "";
    const char *text = (const char *)evbuffer_pullup(in, -1);
    size_t whole = text ? peer_request_bytes(text, evbuffer_get_length(in)) : 0;

    if (whole == 0)
        return;
    memset(c->peer->last, 0, sizeof(c->peer->last));
    evbuffer_copyout(in, c->peer->last,
                     whole < sizeof(c->peer->last) ? whole : sizeof(c->peer->last) - 1);
    evbuffer_drain(in, whole);
    c->peer->requests++;
    c->requests++;
    if (c->peer->heard)
        c->peer->heard(c->peer->heard_arg, c->peer->last);
    sscanf(c->peer->last, "%*s %4095s", path);
    if (!peer_misbehave(bev, c, path))
        peer_behave(bev, c, path);
    /* What was said is followed up when it has gone out; here nothing was. */
    if (evbuffer_get_length(bufferevent_get_output(bev)) == 0)
        bufferevent_trigger(bev, EV_WRITE, BEV_TRIG_IGNORE_WATERMARKS);
}

static inline void peer_accept(struct evconnlistener *listener, evutil_socket_t fd,
                               struct sockaddr *address, int length, void *arg)
{
    struct peer *peer = arg;
    struct peer_conn *c = new(struct peer_conn);
    struct bufferevent *bev =
        peer->talk ? peer->talk(peer->base, fd)
                   : bufferevent_socket_new(peer->base, fd, BEV_OPT_CLOSE_ON_FREE);

    (void)listener, (void)address, (void)length;
    check(c && bev);
    c->peer = peer;
    peer->connections++;
    peer->open++;
    bufferevent_setcb(bev, peer_read, peer_wrote, peer_event, c);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
}

/* Listens on any port of 127.0.0.1, or of ::1. */
static inline void peer_begin(struct peer *peer, struct event_base *base, bool v6)
{
    struct sockaddr_in a4 = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    struct sockaddr_in6 bound = { 0 };
    socklen_t length = sizeof(bound);

    *peer = (struct peer){ .base = base };
    peer->listener = evconnlistener_new_bind(
        base, peer_accept, peer, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 1024,
        v6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4,
        v6 ? sizeof(a6) : sizeof(a4));
    check(peer->listener != NULL);
    check_int(getsockname(evconnlistener_get_fd(peer->listener),
                          (struct sockaddr *)&bound, &length),
              0);
    peer->port = ntohs(bound.sin6_port); /* at the same place in both */
}

/* Connections that are still open notice that their clients are gone. */
static inline void peer_end(struct peer *peer)
{
    evconnlistener_free(peer->listener);
    while (peer->open > 0)
        check_int(event_base_loop(peer->base, EVLOOP_ONCE), 0);
}
