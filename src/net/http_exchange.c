/* SPDX-License-Identifier: Apache-2.0
 *
 * http_exchange.c -- the life of a request.
 *
 * Its memory is kept for the next one, so that an ordinary request allocates
 * nothing; a few are kept by the server, not one by each idle connection. */
#include "base/limits.h"
#include "http_core.h"

/* A request with its headers and a small answer fits into one block. */
enum {
    ARENA_BLOCK_BYTES = 8 << 10,
    SPARE_BODY_BYTES = 64 << 10,
    SPARE_BUF_BYTES = 16 << 10,
};

struct exchange *exchange_new(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    struct exchange *exchange = LIST_FIRST(&server->spares);

    if (exchange) {
        LIST_REMOVE(exchange, link);
        server->spare_count--;
    } else {
        exchange = new (struct exchange);
        if (!exchange)
            return NULL;
        /* A batch in full size is read, checked and turned into commands here. */
        arena_init(&exchange->arena, ARENA_BLOCK_BYTES, 8 * LIMIT_BATCH_BODY_BYTES);
        buf_init(&exchange->body, LIMIT_BODY_BYTES); /* until the head says more */
    }
    exchange->server = server;
    exchange->conn = conn;
    exchange->request.arena = &exchange->arena;
    exchange->request.body = SLICE("");
    LIST_INSERT_HEAD(&server->exchanges, exchange, link);
    return exchange;
}

static void exchange_free(struct exchange *exchange)
{
    arena_release(&exchange->arena);
    buf_release(&exchange->body);
    free(exchange);
}

/* As new, but with one block of the arena and a body's buffer of ordinary size. */
static void exchange_clear(struct exchange *exchange)
{
    struct arena arena = exchange->arena;
    struct buf body = exchange->body;

    arena_reset(&arena);
    if (body.room > SPARE_BODY_BYTES)
        buf_release(&body);
    else
        buf_reset(&body);
    *exchange = (struct exchange){ .arena = arena, .body = body };
}

static void tell_done(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    struct http_outcome outcome = {
        .status = exchange->status,
        .out_bytes = exchange->out_bytes,
        .gone = exchange->gone,
    };

    if (!exchange->shown || !server->config.program.on_done)
        return;
    outcome.took_us = server_now_us(server) - exchange->request.start_us;
    server->config.program.on_done(server->config.program.user, &exchange->request,
                                   &outcome);
}

void exchange_end(struct exchange *exchange)
{
    struct http_server *server = exchange->server;

    if (exchange->conn) {
        assert(exchange->conn->exchange == exchange || !exchange->conn->exchange);
        exchange->conn->exchange = NULL;
    }
    if (!server) {
        exchange_free(exchange);
        return;
    }
    tell_done(exchange);
    LIST_REMOVE(exchange, link);
    if (exchange->under_way)
        server->stats.requests_under_way--;
    if (server->spare_count >= HTTP_SPARE_EXCHANGES) {
        exchange_free(exchange);
        return;
    }
    exchange_clear(exchange);
    LIST_INSERT_HEAD(&server->spares, exchange, link);
    server->spare_count++;
}

void exchange_cut(struct exchange *exchange)
{
    bool told = exchange->gone;

    exchange->conn = NULL;
    exchange->gone = true;
    exchange->wants_room = false;
    if (!exchange->under_way) {
        /* Never handed over: nobody else will end it. */
        exchange->status = 400;
        exchange_end(exchange);
    } else if (!told && exchange->request.on_gone) {
        exchange->request.on_gone(&exchange->request);
    }
}

void spare_take(struct buf *spare, struct buf *buf)
{
    if (buf->p || !spare->p)
        return;
    assert(spare->cap == buf->cap);
    *buf = *spare;
    *spare = (struct buf){ .cap = buf->cap };
}

void spare_give(struct buf *spare, struct buf *buf)
{
    if (!spare->p && buf->p && buf->room <= SPARE_BUF_BYTES) {
        buf_reset(buf);
        *spare = *buf;
        *buf = (struct buf){ .cap = spare->cap };
    } else {
        buf_release(buf);
    }
}

void exchange_release_all(struct http_server *server)
{
    struct exchange *exchange;

    buf_release(&server->spare_in);
    buf_release(&server->spare_out);
    while ((exchange = LIST_FIRST(&server->spares))) {
        LIST_REMOVE(exchange, link);
        exchange_free(exchange);
    }
    while ((exchange = LIST_FIRST(&server->exchanges))) {
        LIST_REMOVE(exchange, link);
        exchange->server = NULL;
    }
}
