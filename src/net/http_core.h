/* SPDX-License-Identifier: Apache-2.0
 *
 * http_core.h -- what the files of the HTTP server share; nobody else's business.
 *
 *   server ──has──► connections ──one at a time──► exchange (a request, its answer)
 *
 * A connection belongs to the loop and may vanish at any moment; an exchange
 * belongs to the program from the moment it is shown to it until it is answered.
 * So the two only point at each other, and either pointer may be NULL. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

#include "address.h"
#include "base/buf.h"
#include "http_parse.h"
#include "http_server.h"
#include "wire.h"

enum {
    HTTP_OUT_HIGH_BYTES = 64 << 10, /* no further request is begun above this */
    HTTP_ANSWER_BYTES_MAX = 256 << 20,
    HTTP_SPARE_EXCHANGES = 64,    /* kept for the next requests, with their memory */
    HTTP_TURNED_AWAY_MAX = 64,    /* connections being told 503 at the same time */
    HTTP_LINGER_BYTES = 16 << 20, /* read and dropped so that a refusal is heard */
    HTTP_LINGER_MS = 2000,
};

/* A request and its answer. */
struct exchange {
    struct http_request request; /* first: the program has its address */
    LIST_ENTRY(exchange) link;   /* among the server's */
    struct http_server *server;  /* NULL once it is freed */
    struct http_conn *conn;      /* NULL once it is closed */
    struct arena arena;
    struct buf body;
    bool shown;      /* on_head or on_request has been called */
    bool whole;      /* all of the request was read */
    bool under_way;  /* on_request has been called */
    bool streaming;  /* http_stream_begin() has been called */
    bool chunked;    /* and it is framed */
    bool wants_room; /* a piece was refused; on_drained is due */
    bool gone;       /* the client has hung up, and the program was told */
    int status;
    uint64_t out_bytes;
};

struct http_conn {
    LIST_ENTRY(http_conn) link;
    struct http_server *server;
    struct exchange *exchange; /* from the end of the head to the answer */
    struct wire wire;
    struct event io;
    struct event timer;
    enum {
        CONN_HEAD,   /* waits for a request, or is in its head */
        CONN_BODY,   /* is in a body */
        CONN_BUSY,   /* the program has the request */
        CONN_FLUSH,  /* sends what is left, then ends */
        CONN_LINGER, /* has said all, and lets the other side hear it */
        CONN_END,    /* to be freed */
    } state;
    bool pumping;     /* conn_pump() is at work: it will see to everything */
    bool readable;    /* as far as we know; see conn_pump() */
    bool writable;    /* as far as we know */
    bool eof;         /* nothing more will come in */
    bool hung_up;     /* nor, probably, be heard */
    bool begun;       /* the deadline of the head is running */
    bool turned_away; /* one too many */
    struct http_scan scan;
    struct http_body body;
    struct buf in;
    size_t in_at; /* what is before it was used */
    struct buf out;
    size_t out_at;             /* what is before it was sent */
    size_t out_since;          /* bytes sent since send_deadline_us was set */
    size_t lingered;           /* bytes dropped */
    int64_t state_deadline_us; /* 0: none */
    int64_t send_deadline_us;  /* 0: none */
    int64_t armed_us;          /* when the timer fires; 0: not armed */
    bool peer_is_local;
    char peer[ADDRESS_TEXT_BYTES];
};

struct listening;

struct http_server {
    struct http_config config; /* every limit is set */
    STAILQ_HEAD(listening_list, listening) listeners;
    LIST_HEAD(conn_list, http_conn) conns;
    LIST_HEAD(exchange_list, exchange) exchanges; /* those the program has seen */
    LIST_HEAD(spare_list, exchange) spares;
    size_t spare_count;
    struct buf spare_in, spare_out; /* see spare_take() */
    size_t turned_away;
    struct http_stats stats;
    bool stopping;
    void (*on_stopped)(void *user);
    int64_t stop_deadline_us;
    struct event stop_timer;
    int64_t date_s; /* the second that `date` spells */
    char date[32];
};

/* ---- http_exchange.c ---- */

/* A new one for `conn`, or NULL when there is no memory. */
struct exchange *exchange_new(struct http_conn *conn);

/* Ends it: tells on_done if it was shown, and keeps or frees its memory. */
void exchange_end(struct exchange *exchange);

/* The connection is gone: tells the program, if it has it, and ends it otherwise. */
void exchange_cut(struct exchange *exchange);

/* The server is about to be freed: exchanges that the program still has are
 * on their own from now on. */
void exchange_release_all(struct http_server *server);

/* The memory that the last connection had no more use for is the next one's, one for
 * what is read and one for what is sent: it is warm, and need not be asked for.  Gives
 * `buf` that of `spare`, if it has none and there is some. */
void spare_take(struct buf *spare, struct buf *buf);

/* Empties `buf`, and keeps its memory in `spare` if that is free and it is not large. */
void spare_give(struct buf *spare, struct buf *buf);

/* ---- http_answer.c ---- */

/* Appends a refusal by the layer itself, and says that the connection ends. */
void answer_refusal(struct http_server *server, struct buf *out,
                    const struct http_refusal *refusal, bool without_body);

/* ---- http_conn.c ---- */

/* A connection on `fd`, which it owns.  If `turned_away` is not NULL, that is all it
 * will hear.  0 or -HF_NOMEM; then `fd` is closed. */
must_check int conn_new(struct http_server *server, int fd, const struct address *peer,
                        struct tls *tls, const struct http_refusal *turned_away);

/* Closes and frees it. */
void conn_free(struct http_conn *conn);

/* The exchange has been answered; `keep` the connection for the next. */
void conn_answered(struct http_conn *conn, bool keep);

/* Something is to be sent, or was decided: acts on it, at the latest when the
 * loop has the word again. */
void conn_kick(struct http_conn *conn);

/* Bytes that wait to be sent. */
static inline size_t conn_pending(const struct http_conn *conn)
{
    return conn->out.n - conn->out_at;
}

/* ---- http_server.c ---- */

/* A connection was freed. */
void server_conn_gone(struct http_server *server);

static inline int64_t server_now_us(const struct http_server *server)
{
    return clock_mono_us(server->config.clock);
}
