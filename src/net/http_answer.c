/* SPDX-License-Identifier: Apache-2.0
 *
 * http_answer.c -- how an answer is spelt, at once or in pieces. */
#include <stdio.h>
#include <time.h>

#include "http_core.h"

/* strftime() would spell the names in the locale's language. */
static const char *date_of(struct http_server *server)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t second = clock_wall_us(server->config.clock) / US_PER_S;

    if (second == server->date_s && server->date[0])
        return server->date;
    struct tm tm = { 0 };
    gmtime_r(&(time_t){ second }, &tm);
    snprintf(server->date, sizeof(server->date),
             "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday, tm.tm_mday,
             months + 3 * tm.tm_mon, (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min,
             tm.tm_sec);
    server->date_s = second;
    return server->date;
}

/* A value may hold what a user wrote; it may not begin another header. */
static void add_value(struct buf *out, struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        buf_byte(out, (unsigned char)c < ' ' || c == 0x7f ? ' ' : c);
    }
}

static void add_header(struct buf *out, struct slice name, struct slice value)
{
    buf_add(out, name);
    buf_text(out, ": ");
    add_value(out, value);
    buf_text(out, "\r\n");
}

static void begin_head(struct http_server *server, struct buf *out, int status)
{
    assert(status >= 200 && status <= 599);
    buf_text(out, "HTTP/1.1 ");
    buf_int(out, status);
    buf_byte(out, ' ');
    buf_text(out, http_status_phrase(status));
    buf_text(out, "\r\nDate: ");
    buf_text(out, date_of(server));
    buf_text(out, "\r\n");
}

static void add_length(struct buf *out, size_t n)
{
    buf_text(out, "Content-Length: ");
    buf_int(out, (int64_t)n);
    buf_text(out, "\r\n");
}

static bool status_has_body(int status)
{
    return status != 204 && status != 304;
}

void answer_refusal(struct http_server *server, struct buf *out,
                    const struct http_refusal *refusal, bool without_body)
{
    struct buf body;

    buf_init(&body, 4096);
    buf_text(&body, "{\"type\":\"about:blank\",\"title\":");
    buf_json(&body, slice_of(http_status_phrase(refusal->status)));
    buf_text(&body, ",\"status\":");
    buf_int(&body, refusal->status);
    buf_text(&body, ",\"detail\":");
    buf_json(&body, slice_of(refusal->text));
    buf_byte(&body, '}');

    begin_head(server, out, refusal->status);
    buf_text(out, "Content-Type: application/problem+json\r\n");
    if (refusal->status == 503)
        buf_text(out, "Retry-After: 1\r\n");
    add_length(out, body.n);
    buf_text(out, "Connection: close\r\n\r\n");
    if (!without_body)
        buf_add(out, (struct slice){ body.p, body.n });
    buf_release(&body);
}

static struct exchange *exchange_of(struct http_request *request)
{
    return (struct exchange *)request; /* it is its first member */
}

/* The head of an answer but for its last, empty line. */
static void add_head(struct exchange *exchange, const struct http_answer *answer,
                     bool keep)
{
    struct buf *out = &exchange->conn->out;

    begin_head(exchange->server, out, answer->status);
    if (answer->type)
        add_header(out, SLICE("Content-Type"), slice_of(answer->type));
    for (size_t i = 0; i < answer->header_count; i++)
        add_header(out, answer->headers[i].name, answer->headers[i].value);
    if (!keep)
        buf_text(out, "Connection: close\r\n");
    else if (exchange->request.head.minor == 0)
        buf_text(out, "Connection: keep-alive\r\n");
}

/* Whether the connection can go on afterwards.  A body that was not read would
 * be taken for the next request. */
static bool can_keep(const struct exchange *exchange)
{
    return exchange->request.head.keep_alive && exchange->whole &&
           !exchange->server->stopping;
}

void http_answer(struct http_request *request, const struct http_answer *answer)
{
    struct exchange *exchange = exchange_of(request);
    struct http_conn *conn = exchange->conn;
    bool is_head = request->head.method == HTTP_HEAD;
    bool keep = false;

    assert(!exchange->streaming);
    assert(exchange->under_way || (conn && conn->pumping)); /* else: on_head, too late */
    exchange->status = answer->status;
    exchange->out_bytes = is_head ? 0 : answer->body.n;
    if (conn) {
        keep = can_keep(exchange) && !answer->close;
        spare_take(&conn->server->spare_out, &conn->out);
        add_head(exchange, answer, keep);
        if (status_has_body(answer->status))
            add_length(&conn->out, answer->body.n);
        buf_text(&conn->out, "\r\n");
        if (!is_head && status_has_body(answer->status))
            buf_add(&conn->out, answer->body);
    }
    exchange_end(exchange);
    if (conn)
        conn_answered(conn, keep);
}

/* ---- streams ---- */

void http_stream_begin(struct http_request *request, const struct http_answer *head)
{
    struct exchange *exchange = exchange_of(request);
    struct http_conn *conn = exchange->conn;

    assert(!exchange->streaming && head->body.n == 0 && status_has_body(head->status));
    exchange->streaming = true;
    exchange->status = head->status;
    exchange->chunked = request->head.minor >= 1;
    if (!conn)
        return;
    if (!exchange->chunked || head->close)
        request->head.keep_alive = false; /* the end of the connection is its end */
    add_head(exchange, head, can_keep(exchange));
    if (exchange->chunked)
        buf_text(&conn->out, "Transfer-Encoding: chunked\r\n");
    buf_text(&conn->out, "\r\n");
    conn_kick(conn);
}

int http_stream_write(struct http_request *request, struct slice piece)
{
    struct exchange *exchange = exchange_of(request);
    struct http_conn *conn = exchange->conn;

    assert(exchange->streaming);
    if (!conn || conn->out.failed)
        return -HF_CLOSED;
    size_t most = exchange->server->config.limits.out_bytes_max;
    if (piece.n > most)
        return -HF_TOO_LARGE;
    if (piece.n > most - (conn_pending(conn) < most ? conn_pending(conn) : most)) {
        exchange->wants_room = true;
        conn_kick(conn); /* there may be room already that nobody has looked for */
        return -HF_BUSY;
    }
    /* An empty chunk would be the last one. */
    if (piece.n == 0 || request->head.method == HTTP_HEAD)
        return 0;
    if (exchange->chunked)
        buf_printf(&conn->out, "%zx\r\n", piece.n);
    buf_add(&conn->out, piece);
    if (exchange->chunked)
        buf_text(&conn->out, "\r\n");
    exchange->out_bytes += piece.n;
    conn_kick(conn);
    return 0;
}

void http_stream_end(struct http_request *request, bool complete)
{
    struct exchange *exchange = exchange_of(request);
    struct http_conn *conn = exchange->conn;
    bool keep = false;

    assert(exchange->streaming);
    if (conn) {
        keep = complete && can_keep(exchange);
        if (complete && exchange->chunked && request->head.method != HTTP_HEAD)
            buf_text(&conn->out, "0\r\n\r\n");
    }
    exchange_end(exchange);
    if (conn)
        conn_answered(conn, keep);
}
