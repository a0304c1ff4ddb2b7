/* SPDX-License-Identifier: Apache-2.0
 *
 * http_conn.c -- one connection, from accept to close.
 *
 *   HEAD ──head──► BODY ──all of it──► BUSY ──answer──► HEAD
 *     │              │                   │ (not to be kept)
 *     └──refused─────┴──────────────► FLUSH ──all sent──► LINGER ──► END
 *
 * The socket is watched edge-triggered and for everything at once: the kernel
 * says when something changes, we remember what we know (readable, writable),
 * and conn_pump() does whatever can be done.  So nothing is ever registered
 * anew, and a client that hangs up is noticed in every state, also when we do
 * not read because enough is waiting already.
 *
 * Callbacks of the program are called from conn_pump() only, and conn_pump() by
 * the loop only: what the program calls (conn_answered, conn_kick) sends what can
 * be sent, and leaves the rest to the loop. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "http_core.h"

enum {
    TURNS_MAX = 32,       /* of one connection, before others have a turn */
    READ_BYTES = 4 << 10, /* an ordinary request */
    SENT_ENOUGH_BYTES = 64 << 10,
};

static const struct http_limits *limits_of(const struct http_conn *conn)
{
    return &conn->server->config.limits;
}

/* One byte more than a head may have, so that it can be seen to be too long. */
static size_t in_bytes_max(const struct http_conn *conn)
{
    return limits_of(conn)->head_bytes_max + 1;
}

static struct slice in_slice(const struct http_conn *conn)
{
    return (struct slice){ conn->in.p + conn->in_at, conn->in.n - conn->in_at };
}

static void set_deadline(struct http_conn *conn, int64_t after_us)
{
    conn->state_deadline_us = server_now_us(conn->server) + after_us;
}

/* From now on a request may be expected, or the rest of its head. */
static void await_head(struct http_conn *conn)
{
    set_deadline(conn, conn->begun ? limits_of(conn)->head_timeout_us
                                   : limits_of(conn)->idle_timeout_us);
}

/* ---- sending ---- */

/* What is left of it, and how long the client may take for that.  Who still takes an
 * answer is not idle: the time for the next request begins when it is through. */
static void after_sending(struct http_conn *conn, size_t sent)
{
    conn->out_since += sent;
    if (conn_pending(conn) == 0) {
        spare_give(&conn->server->spare_out, &conn->out);
        conn->out_at = 0;
        conn->send_deadline_us = 0;
        if (conn->state == CONN_HEAD && !conn->state_deadline_us)
            await_head(conn);
        return;
    }
    if (conn->state == CONN_HEAD)
        conn->state_deadline_us = 0;
    if (conn->out_at >= SENT_ENOUGH_BYTES && conn->out_at >= conn->out.n / 2) {
        buf_consume(&conn->out, conn->out_at);
        conn->out_at = 0;
    }
    if (!conn->send_deadline_us || conn->out_since >= SENT_ENOUGH_BYTES) {
        conn->send_deadline_us =
            server_now_us(conn->server) + limits_of(conn)->send_timeout_us;
        conn->out_since = 0;
    }
}

/* True if something was sent. */
static bool send_pending(struct http_conn *conn)
{
    size_t sent = 0;

    if (conn->out.failed)
        conn->state = CONN_END; /* no memory: half an answer is worse than none */
    while (conn->state != CONN_END && conn->writable && conn_pending(conn) > 0) {
        size_t n = 0;
        int r =
            wire_write(&conn->wire, conn->out.p + conn->out_at, conn_pending(conn), &n);
        if (r == -HF_BUSY)
            conn->writable = false;
        else if (r < 0)
            conn->state = CONN_END;
        conn->out_at += n;
        sent += n;
    }
    after_sending(conn, sent);
    return sent > 0;
}

/* ---- what is not acceptable ---- */

static void refuse(struct http_conn *conn, const struct http_refusal *refusal)
{
    struct exchange *exchange = conn->exchange;
    bool is_head = exchange && exchange->request.head.method == HTTP_HEAD;

    answer_refusal(conn->server, &conn->out, refusal, is_head);
    conn->server->stats.refused_total++;
    conn->state = CONN_FLUSH;
    conn->state_deadline_us = 0;
    if (exchange) {
        exchange->status = refusal->status;
        exchange_end(exchange);
    }
}

static void refuse_for_memory(struct http_conn *conn)
{
    struct http_refusal refusal;

    http_refuse(&refusal, 503, "there is no memory for this request now");
    refuse(conn, &refusal);
}

static void refuse_as_late(struct http_conn *conn)
{
    struct http_refusal refusal;

    http_refuse(&refusal, 408, "the %s of the request took too long to arrive",
                conn->state == CONN_HEAD ? "head" : "body");
    conn->server->stats.timeouts_total++;
    refuse(conn, &refusal);
}

/* ---- reading ---- */

/* Somebody who is still sending would be cut off before he can read why. */
static bool drop_input(struct http_conn *conn)
{
    char dropped[16 << 10];
    size_t n = 0;
    int r = wire_read(&conn->wire, dropped, sizeof(dropped), &n);

    if (r == -HF_BUSY) {
        conn->readable = false;
        return false;
    }
    conn->lingered += n;
    if (r < 0 || conn->lingered > HTTP_LINGER_BYTES)
        conn->state = CONN_END;
    return true;
}

static void took(struct http_conn *conn, size_t asked, size_t got)
{
    buf_advance(&conn->in, got);
    /* A socket that gave less than it could has no more, unless its end is behind. */
    if (!conn->wire.ssl && got < asked && !conn->hung_up)
        conn->readable = false;
    if (conn->state == CONN_HEAD && !conn->begun) {
        conn->begun = true;
        await_head(conn);
    }
}

/* Reads once, if there is reason and room.  True if that changed something. */
static bool fill(struct http_conn *conn)
{
    size_t waiting = in_slice(conn).n;

    if (!conn->readable || conn->eof || conn->state == CONN_FLUSH ||
        conn->state == CONN_END)
        return false;
    if (conn->state == CONN_LINGER)
        return drop_input(conn);
    if (waiting >= in_bytes_max(conn))
        return false;
    buf_consume(&conn->in, conn->in_at);
    conn->in_at = 0;
    spare_take(&conn->server->spare_in, &conn->in);
    size_t room = in_bytes_max(conn) - waiting;
    if (conn->state != CONN_BODY && room > READ_BYTES)
        room = READ_BYTES;
    char *to = buf_space(&conn->in, room);
    if (!to) {
        conn->state = CONN_END;
        return true;
    }
    size_t got = 0;
    int r = wire_read(&conn->wire, to, room, &got);
    if (r == 0)
        took(conn, room, got);
    else if (r == -HF_BUSY)
        conn->readable = false;
    else if (r == -HF_CLOSED)
        conn->eof = conn->hung_up = true;
    else
        conn->state = CONN_END;
    return r != -HF_BUSY;
}

/* ---- requests ---- */

static void hand_over(struct http_conn *conn)
{
    struct exchange *exchange = conn->exchange;
    struct http_server *server = conn->server;

    conn->state = CONN_BUSY;
    conn->state_deadline_us = 0;
    if (exchange->body.n > 0)
        exchange->request.body = (struct slice){ exchange->body.p, exchange->body.n };
    exchange->whole = true;
    exchange->under_way = true;
    server->stats.requests_total++;
    server->stats.requests_under_way++;
    server->config.program.on_request(server->config.program.user, &exchange->request);
}

static void begin_body(struct http_conn *conn)
{
    struct exchange *exchange = conn->exchange;
    struct http_refusal refusal = { 0 };

    switch (http_body_init(&conn->body, &exchange->request.head,
                           exchange->request.body_bytes_max, &refusal)) {
    case HTTP_REFUSED:
        refuse(conn, &refusal);
        break;
    case HTTP_DONE:
        hand_over(conn);
        break;
    case HTTP_MORE:
        exchange->body.cap = exchange->request.body_bytes_max;
        conn->state = CONN_BODY;
        set_deadline(conn, limits_of(conn)->body_timeout_us);
        if (exchange->request.head.expects_continue && in_slice(conn).n == 0)
            buf_text(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
        break;
    }
}

/* Makes the request out of the head that lies in `in`; not yet shown to anyone. */
static int read_head(struct http_conn *conn, struct exchange *exchange,
                     struct http_refusal *refusal)
{
    struct http_request *request = &exchange->request;
    struct slice head = { conn->in.p + conn->in_at, conn->scan.at };
    int r = http_head_parse(head, limits_of(conn)->headers_max, &exchange->arena,
                            &request->head, refusal);

    if (r < 0)
        return r;
    request->peer = arena_dup(&exchange->arena, slice_of(conn->peer)).p;
    request->peer_is_local = conn->peer_is_local;
    request->secure = conn->wire.ssl != NULL;
    request->start_us = server_now_us(conn->server);
    request->body_bytes_max = limits_of(conn)->body_bytes_max;
    exchange->whole = !request->head.chunked && request->head.content_length == 0;
    return request->peer ? 0 : -HF_NOMEM;
}

static void begin_request(struct http_conn *conn)
{
    const struct http_program *program = &conn->server->config.program;
    struct exchange *exchange = exchange_new(conn);
    struct http_refusal refusal = { 0 };

    if (!exchange) {
        refuse_for_memory(conn);
        return;
    }
    int r = read_head(conn, exchange, &refusal);
    conn->in_at += conn->scan.at;
    conn->scan = (struct http_scan){ 0 };
    if (r < 0) {
        exchange_end(exchange);
        if (r == -HF_NOMEM)
            refuse_for_memory(conn);
        else
            refuse(conn, &refusal);
        return;
    }
    conn->exchange = exchange;
    exchange->shown = true;
    if (program->on_head)
        program->on_head(program->user, &exchange->request);
    if (conn->exchange)
        begin_body(conn);
}

/* Nobody will send the rest. */
static void give_up(struct http_conn *conn)
{
    if (conn->exchange) {
        conn->exchange->gone = true;
        conn->exchange->status = 400;
        exchange_end(conn->exchange);
    }
    conn->state = conn_pending(conn) ? CONN_FLUSH : CONN_END;
}

static bool step_head(struct http_conn *conn)
{
    struct slice in = in_slice(conn);
    struct http_refusal refusal;

    if (conn_pending(conn) >= HTTP_OUT_HIGH_BYTES)
        return false; /* one who does not read is given nothing to read */
    if (in.n == 0) {
        if (!conn->eof && !conn->server->stopping)
            return false;
        give_up(conn);
        return true;
    }
    switch (http_head_scan(&conn->scan, in, limits_of(conn)->head_bytes_max, &refusal)) {
    case HTTP_REFUSED:
        refuse(conn, &refusal);
        return true;
    case HTTP_DONE:
        begin_request(conn);
        return true;
    case HTTP_MORE:
        break;
    }
    if (!conn->eof)
        return false;
    give_up(conn);
    return true;
}

static bool step_body(struct http_conn *conn)
{
    struct slice in = in_slice(conn);
    struct http_refusal refusal;
    size_t used = 0;

    if (in.n == 0) {
        if (!conn->eof)
            return false;
        give_up(conn);
        return true;
    }
    enum http_step step =
        http_body_feed(&conn->body, in, &conn->exchange->body, &used, &refusal);
    conn->in_at += used;
    if (step == HTTP_REFUSED)
        refuse(conn, &refusal);
    else if (conn->exchange->body.failed)
        refuse_for_memory(conn);
    else if (step == HTTP_DONE)
        hand_over(conn);
    return true;
}

static bool step_flush(struct http_conn *conn)
{
    if (conn_pending(conn) > 0)
        return false;
    conn->state = conn->eof ? CONN_END : CONN_LINGER;
    wire_finish(&conn->wire);
    set_deadline(conn, HTTP_LINGER_MS * US_PER_MS);
    return true;
}

/* Does what can be done with what is there.  True if that changed something. */
static bool step(struct http_conn *conn)
{
    switch (conn->state) {
    case CONN_HEAD:
        return step_head(conn);
    case CONN_BODY:
        return step_body(conn);
    case CONN_FLUSH:
        return step_flush(conn);
    case CONN_BUSY:
    case CONN_LINGER:
    case CONN_END:
        break;
    }
    return false;
}

/* Tells the program what it has asked to be told. */
static bool tell(struct http_conn *conn)
{
    struct exchange *exchange = conn->exchange;

    if (conn->state != CONN_BUSY)
        return false;
    if (conn->hung_up && !exchange->gone) {
        exchange->gone = true;
        if (exchange->request.on_gone)
            exchange->request.on_gone(&exchange->request);
        return true;
    }
    if (exchange->wants_room &&
        conn_pending(conn) <= limits_of(conn)->out_bytes_max / 2) {
        exchange->wants_room = false;
        if (exchange->request.on_drained)
            exchange->request.on_drained(&exchange->request);
        return true;
    }
    return false;
}

/* ---- the loop's side ---- */

/* A timer that fires too early looks again; so a deadline that moves on with
 * every request costs nothing. */
static void arm(struct http_conn *conn)
{
    int64_t next_us = conn->state_deadline_us;

    if (conn->send_deadline_us && (!next_us || conn->send_deadline_us < next_us))
        next_us = conn->send_deadline_us;
    if (!next_us || (conn->armed_us && conn->armed_us <= next_us))
        return;
    int64_t left_us = next_us - server_now_us(conn->server);
    if (left_us < 0)
        left_us = 0;
    struct timeval left = { left_us / US_PER_S, left_us % US_PER_S };
    event_add(&conn->timer, &left);
    conn->armed_us = next_us;
}

static void conn_pump(struct http_conn *conn)
{
    bool more = true;

    assert(!conn->pumping);
    conn->pumping = true;
    for (int turn = 0; more && conn->state != CONN_END && turn < TURNS_MAX; turn++) {
        more = fill(conn);
        more |= step(conn);
        /* Answers to requests that came together leave together. */
        if (!more || conn_pending(conn) >= HTTP_OUT_HIGH_BYTES)
            more |= send_pending(conn);
        more |= tell(conn);
    }
    conn->pumping = false;
    if (conn->state == CONN_END) {
        conn_free(conn);
        return;
    }
    if (more)
        event_active(&conn->io, EV_TIMEOUT, 0);
    /* One that only waits keeps no buffers: there may be thousands. */
    if ((conn->state == CONN_HEAD || conn->state == CONN_BUSY) && in_slice(conn).n == 0) {
        spare_give(&conn->server->spare_in, &conn->in);
        conn->in_at = 0;
    }
    arm(conn);
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *conn = arg;

    (void)fd;
    /* Under TLS either direction may have waited for the other. */
    if (what & (conn->wire.ssl ? EV_READ | EV_WRITE : EV_READ))
        conn->readable = true;
    if (what & (conn->wire.ssl ? EV_READ | EV_WRITE : EV_WRITE))
        conn->writable = true;
    if (what & EV_CLOSED)
        conn->hung_up = conn->readable = true;
    /* While we do not read, a reset shows as nothing but "readable". */
    if ((what & EV_READ) && in_slice(conn).n >= in_bytes_max(conn) &&
        wire_hung_up(&conn->wire))
        conn->hung_up = true;
    conn_pump(conn);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *conn = arg;
    int64_t now_us = server_now_us(conn->server);

    (void)fd, (void)what;
    conn->armed_us = 0;
    if (conn->send_deadline_us && now_us >= conn->send_deadline_us) {
        conn->server->stats.timeouts_total++;
        conn->state = CONN_END;
    } else if (conn->state_deadline_us && now_us >= conn->state_deadline_us) {
        bool silent = conn->state == CONN_HEAD && in_slice(conn).n == 0;
        conn->state_deadline_us = 0;
        if (silent || conn->state == CONN_LINGER)
            conn->state = CONN_END;
        else
            refuse_as_late(conn);
    }
    conn_pump(conn);
}

/* ---- what others call ---- */

void conn_kick(struct http_conn *conn)
{
    if (conn->pumping)
        return;
    send_pending(conn);
    event_active(&conn->io, EV_TIMEOUT, 0);
}

/* Answered, and nothing to do until the client says more: the usual case. */
static bool waits_only(const struct http_conn *conn)
{
    return conn->state == CONN_HEAD && conn_pending(conn) == 0 && !conn->readable &&
           !conn->eof && in_slice(conn).n == 0 && !conn->server->stopping;
}

void conn_answered(struct http_conn *conn, bool keep)
{
    assert(!conn->exchange);
    conn->state = keep ? CONN_HEAD : CONN_FLUSH;
    conn->begun = in_slice(conn).n > 0;
    conn->state_deadline_us = 0;
    if (keep)
        await_head(conn);
    if (conn->pumping)
        return;
    send_pending(conn);
    if (waits_only(conn))
        arm(conn);
    else
        event_active(&conn->io, EV_TIMEOUT, 0);
}

int conn_new(struct http_server *server, int fd, const struct address *peer,
             struct tls *tls, const struct http_refusal *turned_away)
{
    struct http_conn *conn = new (struct http_conn);

    if (!conn || wire_init(&conn->wire, fd, tls) < 0) {
        free(conn);
        close(fd);
        return -HF_NOMEM;
    }
    conn->server = server;
    buf_init(&conn->in, server->config.limits.head_bytes_max + 1);
    buf_init(&conn->out, HTTP_ANSWER_BYTES_MAX);
    conn->peer_is_local = address_is_local(peer);
    conn->begun = true;
    if (address_is_unix(peer)) {
        memcpy(conn->peer, "unix", sizeof("unix"));
    } else {
        address_text(peer, conn->peer);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    }
    LIST_INSERT_HEAD(&server->conns, conn, link);
    if (turned_away) {
        conn->turned_away = true;
        server->turned_away++;
        refuse(conn, turned_away);
    } else {
        server->stats.connections++;
        set_deadline(conn, server->config.limits.head_timeout_us);
    }
    struct event_base *base = server->config.base;
    short all = EV_READ | EV_WRITE | EV_CLOSED | EV_PERSIST;
    if (event_assign(&conn->io, base, fd, (short)(all | EV_ET), on_io, conn) < 0 ||
        event_assign(&conn->timer, base, -1, 0, on_timer, conn) < 0 ||
        event_add(&conn->io, NULL) < 0) {
        conn_free(conn);
        return -HF_NOMEM;
    }
    arm(conn);
    return 0;
}

void conn_free(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    struct exchange *exchange = conn->exchange;

    event_del(&conn->io);
    event_del(&conn->timer);
    LIST_REMOVE(conn, link);
    if (conn->turned_away)
        server->turned_away--;
    else
        server->stats.connections--;
    wire_release(&conn->wire);
    buf_release(&conn->in);
    buf_release(&conn->out);
    free(conn);
    if (exchange)
        exchange_cut(exchange);
    server_conn_gone(server);
}
