/* SPDX-License-Identifier: Apache-2.0
 *
 * http_server.c -- listens, accepts, and knows how to stop. */
#include "http_server.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "http_core.h"
#include "listener.h"

enum {
    ACCEPTS_AT_ONCE = 64,     /* before connections that are there have a turn */
    ACCEPT_PAUSE_MS = 100,    /* when there are no descriptors left */
    DEFAULT_UNIX_MODE = 0600, /* whoever can connect can do everything */
};

struct listening {
    STAILQ_ENTRY(listening) link;
    struct http_server *server;
    struct listener listener;
    struct tls *tls;
    struct event io;
    struct event pause; /* ends a pause */
    char text[ADDRESS_TEXT_BYTES];
};

/* ---- limits ---- */

static void set_defaults(struct http_limits *limits)
{
    /* A cookie jar and a token fit twice; a proxy's own limit is 8 or 16 KiB. */
    if (!limits->head_bytes_max)
        limits->head_bytes_max = 32 << 10;
    if (!limits->headers_max)
        limits->headers_max = LIMIT_HEADERS;
    if (!limits->body_bytes_max)
        limits->body_bytes_max = LIMIT_BODY_BYTES;
    /* The largest event with a payload fits. */
    if (!limits->out_bytes_max)
        limits->out_bytes_max = LIMIT_BODY_BYTES;
    /* Below the usual hard limit of descriptors, with room for the rest. */
    if (!limits->connections_max)
        limits->connections_max = 10000;
    if (!limits->head_timeout_us)
        limits->head_timeout_us = 10 * US_PER_S;
    /* The largest batch by a line of 10 Mbit/s. */
    if (!limits->body_timeout_us)
        limits->body_timeout_us = 60 * US_PER_S;
    /* Longer than the 60 s for which usual proxies and clients keep one. */
    if (!limits->idle_timeout_us)
        limits->idle_timeout_us = 75 * US_PER_S;
    if (!limits->send_timeout_us)
        limits->send_timeout_us = 30 * US_PER_S;
}

/* ---- accepting ---- */

static void take_connection(struct listening *listening, int fd,
                            const struct address *peer)
{
    struct http_server *server = listening->server;
    struct http_refusal refusal;

    server->stats.connections_total++;
    if (server->stats.connections < server->config.limits.connections_max) {
        if (conn_new(server, fd, peer, listening->tls, NULL) < 0)
            server->stats.accept_failures_total++;
        return;
    }
    server->stats.connections_over++;
    /* A TLS handshake is too much work to say no. */
    if (listening->tls || server->turned_away >= HTTP_TURNED_AWAY_MAX) {
        close(fd);
        return;
    }
    http_refuse(&refusal, 503, "there are too many connections to this server (%zu)",
                server->config.limits.connections_max);
    if (conn_new(server, fd, peer, NULL, &refusal) < 0)
        server->stats.accept_failures_total++;
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct listening *listening = arg;

    (void)what;
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        struct address peer = { .sock_bytes = sizeof(peer.sock) };
        int client = accept4(fd, (struct sockaddr *)&peer.sock, &peer.sock_bytes,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0) {
            take_connection(listening, client, &peer);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR)
            continue; /* that one went away while it waited */
        if (errno != EAGAIN) {
            /* No descriptors, no memory: the loop would spin on it. */
            listening->server->stats.accept_failures_total++;
            event_del(&listening->io);
            event_add(&listening->pause,
                      &(struct timeval){ .tv_usec = ACCEPT_PAUSE_MS * US_PER_MS });
        }
        return;
    }
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
    struct listening *listening = arg;

    (void)fd, (void)what;
    event_add(&listening->io, NULL);
}

static int start_listening(struct listening *listening)
{
    struct event_base *base = listening->server->config.base;

    if (event_assign(&listening->io, base, listening->listener.fd, EV_READ | EV_PERSIST,
                     on_accept, listening) < 0 ||
        event_assign(&listening->pause, base, -1, 0, on_pause_over, listening) < 0 ||
        event_add(&listening->io, NULL) < 0)
        return -HF_NOMEM;
    return 0;
}

int http_server_listen(struct http_server *server, const char *address, struct tls *tls,
                       unsigned unix_mode, struct error *error)
{
    struct address parsed;

    assert(!server->stopping);
    int r = address_parse(address, error, &parsed);
    if (r < 0)
        return r;
    struct listening *listening = new (struct listening);
    if (!listening)
        return error_set(error, -HF_NOMEM, NULL, "there is no memory to listen");
    listening->server = server;
    listening->tls = tls;
    r = listener_open(&listening->listener, &parsed,
                      unix_mode ? unix_mode : DEFAULT_UNIX_MODE, error);
    if (r == 0) {
        r = start_listening(listening);
        if (r < 0) {
            error_set(error, r, NULL, "there is no memory to listen on %s", address);
            listener_close(&listening->listener);
        }
    }
    if (r < 0) {
        free(listening);
        return r;
    }
    address_text(&listening->listener.address, listening->text);
    STAILQ_INSERT_TAIL(&server->listeners, listening, link);
    return 0;
}

const char *http_server_address(const struct http_server *server, size_t index)
{
    struct listening *listening;

    STAILQ_FOREACH(listening, &server->listeners, link)
    if (index-- == 0)
        return listening->text;
    return NULL;
}

static void stop_listening(struct http_server *server)
{
    struct listening *listening;

    STAILQ_FOREACH(listening, &server->listeners, link)
    {
        event_del(&listening->io);
        event_del(&listening->pause);
        listener_close(&listening->listener);
    }
}

/* ---- life ---- */

static void close_all(struct http_server *server)
{
    while (!LIST_EMPTY(&server->conns))
        conn_free(LIST_FIRST(&server->conns));
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *server = arg;
    void (*on_stopped)(void *) = server->on_stopped;

    (void)fd, (void)what;
    server->on_stopped = NULL;
    close_all(server);
    event_del(&server->stop_timer); /* the last connection has just rung it again */
    if (on_stopped)
        on_stopped(server->config.program.user);
}

int http_server_new(const struct http_config *config, struct http_server **ret)
{
    assert(config->base && config->clock && config->program.on_request && ret);

    struct http_server *server = new (struct http_server);
    if (!server)
        return -HF_NOMEM;
    server->config = *config;
    set_defaults(&server->config.limits);
    STAILQ_INIT(&server->listeners);
    LIST_INIT(&server->conns);
    LIST_INIT(&server->exchanges);
    LIST_INIT(&server->spares);
    if (event_assign(&server->stop_timer, config->base, -1, 0, on_stop_timer, server) <
        0) {
        free(server);
        return -HF_NOMEM;
    }
    *ret = server;
    return 0;
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    stop_listening(server);
    server->stopping = true;
    server->on_stopped = NULL;
    close_all(server);
    event_del(&server->stop_timer);
    exchange_release_all(server);
    while (!STAILQ_EMPTY(&server->listeners)) {
        struct listening *listening = STAILQ_FIRST(&server->listeners);
        STAILQ_REMOVE_HEAD(&server->listeners, link);
        free(listening);
    }
    free(server);
}

void server_conn_gone(struct http_server *server)
{
    if (server->stopping && LIST_EMPTY(&server->conns) && server->on_stopped)
        event_active(&server->stop_timer, EV_TIMEOUT, 0);
}

static void no_matter(void *user)
{
    (void)user;
}

void http_server_stop(struct http_server *server, int64_t grace_us,
                      void (*on_stopped)(void *user))
{
    int64_t deadline_us = server_now_us(server) + grace_us;
    struct http_conn *conn;

    assert(grace_us >= 0);
    if (!server->stopping) {
        server->stopping = true;
        server->stop_deadline_us = INT64_MAX;
        stop_listening(server);
        LIST_FOREACH(conn, &server->conns, link)
        event_active(&conn->io, EV_TIMEOUT, 0); /* those that wait will end */
    }
    if (on_stopped || !server->on_stopped)
        server->on_stopped = on_stopped ? on_stopped : no_matter;
    if (deadline_us < server->stop_deadline_us) {
        server->stop_deadline_us = deadline_us;
        struct timeval grace = { grace_us / US_PER_S, grace_us % US_PER_S };
        event_add(&server->stop_timer, &grace);
    }
    server_conn_gone(server);
}

void http_server_stats(const struct http_server *server, struct http_stats *ret)
{
    *ret = server->stats;
}
