/* SPDX-License-Identifier: Apache-2.0
 *
 * http_world.h -- an HTTP server in a thread of its own, and clients on real sockets.
 *
 * The server's program has a few routes by the first part of the path:
 *   hello   200 "hello"                  echo    the body, or ?text=
 *   later   held until the test answers  stream  begun, then held
 *   small   as echo, bodies to 16 bytes  locked  401 by the head alone
 *   big     8 MiB                        flood   a stream that never ends by itself
 * Everything of the loop is touched in its thread only: world_call(). */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "net/address.h"
#include "net/http_server.h"
#include "net/loop_mail.h"
#include "net/tls.h"
#include "test.h"

enum { BIG_BYTES = 8 << 20, FLOOD_PIECE_BYTES = 8 << 10 };

struct world {
    struct event_base *base;
    struct http_server *server;
    struct loop_mail *mail;
    pthread_t thread;
    struct tls *tls;
    char *big;

    /* The loop's. */
    struct http_request *held[16];
    size_t held_count;

    /* Anyone's. */
    atomic_int handled, gone, done, drained, stopped;
    atomic_int last_status, last_gone;
    atomic_size_t flooded; /* bytes that a flood could get rid of */
};

/* ---- the program ---- */

static inline void world_hold(struct world *world, struct http_request *request)
{
    check(world->held_count < array_len(world->held));
    world->held[world->held_count++] = request;
}

/* The request that is held, and is held no longer. */
static inline struct http_request *world_held(struct world *world)
{
    check(world->held_count > 0);
    return world->held[--world->held_count];
}

static inline void world_on_gone(struct http_request *request)
{
    struct world *world = request->user;
    atomic_fetch_add(&world->gone, 1);
}

static inline void world_flood(struct http_request *request)
{
    static const char piece[FLOOD_PIECE_BYTES];
    struct world *world = request->user;

    while (http_stream_write(request, (struct slice){ piece, sizeof(piece) }) == 0)
        atomic_fetch_add(&world->flooded, sizeof(piece));
}

static inline void world_on_drained(struct http_request *request)
{
    struct world *world = request->user;
    atomic_fetch_add(&world->drained, 1);
    world_flood(request);
}

static inline void world_say(struct http_request *request, int status, struct slice text)
{
    http_answer(request, &(struct http_answer){
                             .status = status, .type = "text/plain", .body = text });
}

static inline bool world_is(const struct http_request *request, const char *route)
{
    return request->head.part_count > 0 &&
           slice_equal(request->head.parts[0], slice_of(route));
}

static inline void world_on_head(void *user, struct http_request *request)
{
    (void)user;
    if (world_is(request, "small"))
        request->body_bytes_max = 16;
    if (world_is(request, "echo"))
        request->body_bytes_max = 2 * BIG_BYTES;
    if (world_is(request, "locked"))
        world_say(request, 401, SLICE("locked\n"));
}

static inline void world_begin_stream(struct world *world, struct http_request *request)
{
    http_stream_begin(
        request, &(struct http_answer){ .status = 200, .type = "text/event-stream" });
    world_hold(world, request);
}

static inline void world_on_request(void *user, struct http_request *request)
{
    struct world *world = user;

    atomic_fetch_add(&world->handled, 1);
    request->user = world;
    request->on_gone = world_on_gone;
    if (world_is(request, "hello")) {
        world_say(request, 200, SLICE("hello"));
    } else if (world_is(request, "echo") || world_is(request, "small")) {
        struct slice text =
            http_pair_find(request->head.query, request->head.query_count, "text");
        world_say(request, 200, text.p ? text : request->body);
    } else if (world_is(request, "later")) {
        world_hold(world, request);
    } else if (world_is(request, "stream")) {
        world_begin_stream(world, request);
    } else if (world_is(request, "flood")) {
        request->on_drained = world_on_drained;
        world_begin_stream(world, request);
        world_flood(request);
    } else if (world_is(request, "big")) {
        world_say(request, 200, (struct slice){ world->big, BIG_BYTES });
    } else if (world_is(request, "peer")) {
        world_say(request, 200, slice_of(request->peer));
    } else if (world_is(request, "empty")) {
        world_say(request, 204, SLICE(""));
    } else {
        world_say(request, 404, SLICE("nothing here"));
    }
}

static inline void world_on_done(void *user, const struct http_request *request,
                                 const struct http_outcome *outcome)
{
    struct world *world = user;

    check(request->arena && outcome->took_us >= 0);
    atomic_store(&world->last_status, outcome->status);
    atomic_store(&world->last_gone, outcome->gone);
    atomic_fetch_add(&world->done, 1);
}

static inline void world_on_stopped(void *user)
{
    struct world *world = user;
    atomic_fetch_add(&world->stopped, 1);
}

/* ---- the loop's thread ---- */

struct world_call {
    struct mail mail;
    void (*function)(struct world *world, void *arg);
    void *arg;
    sem_t returned;
};

static inline void world_on_mail(void *user, struct mail *mail)
{
    struct world_call *call = (struct world_call *)mail;

    call->function(user, call->arg);
    sem_post(&call->returned);
}

/* Calls `function` in the loop's thread, and returns when it has returned. */
static inline void world_call(struct world *world,
                              void (*function)(struct world *world, void *arg), void *arg)
{
    struct world_call call = { .function = function, .arg = arg };

    sem_init(&call.returned, 0, 0);
    check_ok(mailbox_put(loop_mail_box(world->mail), &call.mail));
    while (sem_wait(&call.returned) < 0)
        check_int(errno, EINTR);
    sem_destroy(&call.returned);
}

static inline void *world_run(void *arg)
{
    struct world *world = arg;
    event_base_dispatch(world->base);
    return NULL;
}

/* Starts a server on `address`, with `limits` (zeroes are the defaults). */
static inline void world_start(struct world *world, const char *address,
                               struct http_limits limits)
{
    struct error error = { 0 };

    world->base = event_base_new();
    world->big = calloc(1, BIG_BYTES);
    check(world->base && world->big);
    check_ok(loop_mail_new(world->base, 16, world_on_mail, world, &world->mail));
    struct http_config config = {
        .base = world->base,
        .clock = &clock_system,
        .limits = limits,
        .program = { world, world_on_head, world_on_request, world_on_done },
    };
    check_ok(http_server_new(&config, &world->server));
    if (http_server_listen(world->server, address, world->tls, 0, &error) < 0)
        fail("%s", error.text);
    check_ok(pthread_create(&world->thread, NULL, world_run, world));
}

static inline void world_start_tcp(struct world *world, struct http_limits limits)
{
    world_start(world, "127.0.0.1:0", limits);
}

static inline void world_quit(struct world *world, void *arg)
{
    (void)arg;
    http_server_free(world->server);
    /* Whatever the program still had, it answers; nobody hears it. */
    while (world->held_count > 0) {
        struct http_request *request = world_held(world);
        if (world_is(request, "later"))
            world_say(request, 200, SLICE("too late"));
        else
            http_stream_end(request, true);
    }
    event_base_loopbreak(world->base);
}

/* Ends it; good for cleanup(). */
static inline void world_end(struct world *world)
{
    if (!world->base)
        return;
    world_call(world, world_quit, NULL);
    pthread_join(world->thread, NULL);
    loop_mail_free(world->mail);
    event_base_free(world->base);
    tls_free(world->tls);
    free(world->big);
}

static inline void world_get_stats(struct world *world, void *arg)
{
    http_server_stats(world->server, arg);
}

static inline struct http_stats world_stats(struct world *world)
{
    struct http_stats stats;
    world_call(world, world_get_stats, &stats);
    return stats;
}

struct world_count {
    atomic_int *count;
    int least;
};

static inline bool world_has_counted(void *arg)
{
    struct world_count *wanted = arg;
    return atomic_load(wanted->count) >= wanted->least;
}

static inline void world_wait(atomic_int *count, int least)
{
    struct world_count wanted = { count, least };
    if (!test_wait(world_has_counted, &wanted, 30000))
        fail("waited in vain for a count of %d; it is %d", least, atomic_load(count));
}

struct world_condition {
    struct world *world;
    bool (*is)(const struct http_stats *stats);
};

static inline bool world_stats_are(void *arg)
{
    struct world_condition *wanted = arg;
    struct http_stats stats = world_stats(wanted->world);
    return wanted->is(&stats);
}

/* Waits until the figures are as `is` says. */
static inline void world_wait_stats(struct world *world,
                                    bool (*is)(const struct http_stats *stats))
{
    struct world_condition wanted = { world, is };
    check(test_wait(world_stats_are, &wanted, 30000));
}

static inline void world_answer_held(struct world *world, void *arg)
{
    world_say(world_held(world), 200, slice_of(arg));
}

/* ---- clients ---- */

static inline int client_connect(struct world *world)
{
    struct address address;
    struct error error = { 0 };

    check_ok(address_parse(http_server_address(world->server, 0), &error, &address));
    int fd = socket(address.sock.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0);
    check_ok(connect(fd, (struct sockaddr *)&address.sock, address.sock_bytes));
    return fd;
}

static inline void client_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static inline void client_send_slice(int fd, struct slice bytes)
{
    while (bytes.n > 0) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n < 0)
            fail("send: %s", strerror(errno));
        bytes = (struct slice){ bytes.p + n, bytes.n - (size_t)n };
    }
}

static inline void client_send(int fd, const char *text)
{
    client_send_slice(fd, slice_of(text));
}

/* Reads up to the end of the connection, orderly or not; a zero is behind it. */
static inline void client_read_all(int fd, struct buf *ret)
{
    for (;;) {
        char *space = buf_space(ret, 65536);
        check(space);
        ssize_t n = recv(fd, space, 65536, 0);
        if (n <= 0) {
            *space = '\0';
            return;
        }
        buf_advance(ret, (size_t)n);
    }
}

/* Reads until what has come ends with `end`. */
static inline void client_read_until(int fd, struct buf *ret, const char *end)
{
    size_t length = strlen(end);

    while (ret->n < length || memcmp(ret->p + ret->n - length, end, length) != 0) {
        char byte;
        ssize_t n = recv(fd, &byte, 1, 0);
        if (n != 1)
            fail("the connection ended; what came was:\n%.*s", (int)ret->n,
                 ret->p ? ret->p : "");
        buf_byte(ret, byte);
        check(!ret->failed);
    }
}

struct answer {
    int status;
    struct buf head;
    struct buf body;
};

static inline void answer_release(struct answer *answer)
{
    buf_release(&answer->head);
    buf_release(&answer->body);
}

/* The value of a header, in memory that is kept until the test ends; or NULL. */
static inline const char *answer_header(const struct answer *answer, const char *name)
{
    char needle[64];
    static char value[256];

    snprintf(needle, sizeof(needle), "\r\n%s: ", name);
    const char *found = strstr(answer->head.p, needle);
    if (!found)
        return NULL;
    found += strlen(needle);
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(found, "\r"), found);
    return value;
}

/* Reads one answer with a Content-Length; none for HEAD. */
static inline void client_read_answer(int fd, bool is_head, struct answer *ret)
{
    answer_release(ret);
    buf_init(&ret->head, 1 << 20);
    buf_init(&ret->body, 2 * BIG_BYTES);
    client_read_until(fd, &ret->head, "\r\n\r\n");
    check_int(sscanf(ret->head.p, "HTTP/1.1 %d ", &ret->status), 1);
    const char *length = answer_header(ret, "Content-Length");
    size_t left = length && !is_head ? strtoul(length, NULL, 10) : 0;
    while (left > 0) {
        char *space = buf_space(&ret->body, left);
        check(space);
        ssize_t n = recv(fd, space, left, 0);
        check(n > 0);
        buf_advance(&ret->body, (size_t)n);
        left -= (size_t)n;
    }
}

static inline void client_expect(int fd, int status, const char *body)
{
    cleanup(answer_release) struct answer answer = { 0 };

    client_read_answer(fd, false, &answer);
    check_int(answer.status, status);
    check_str(answer.body.p ? answer.body.p : "", body);
}

/* The server is alive: a new connection is served. */
static inline void check_alive(struct world *world)
{
    cleanup(client_close) int fd = client_connect(world);

    client_send(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect(fd, 200, "hello");
}
