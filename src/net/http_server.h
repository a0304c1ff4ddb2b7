/* SPDX-License-Identifier: Apache-2.0
 *
 * http_server.h -- a strict HTTP/1.1 server in one event loop.
 *
 * Why it exists: a request that can be understood in two ways is refused, a
 * client that hangs up while it waits is noticed at once, and a client that is
 * slow, silent or many costs a bounded amount of memory and time.  No server
 * library that fits into our loop does all three.
 *
 * A request is handed to the program when all of it is there.  The program
 * answers it exactly once, now or later:
 *
 *   http_answer(request, &(struct http_answer){ .status = 200, .type = "text/plain",
 *                                               .body = text });
 *
 * or as a stream: http_stream_begin(), http_stream_write()..., http_stream_end().
 * Until it has answered (or ended the stream) the request is the program's,
 * with all that hangs on it, also when the client is gone and even when the
 * server has been freed; with the answer it is gone.
 *
 * One request of a connection is under way at a time; those sent behind it wait
 * unread, so answers are in order and pipelining is bounded.
 *
 * When the client hangs up, `on_gone` of the request is called, once and never
 * inside a call of the program's: nobody waits any more.  The request is still
 * to be answered; the answer is sent if the client has closed only its sending
 * half, and dropped otherwise.
 *
 * The layer answers by itself, with a problem+json body, what is no acceptable
 * request: 400, 408, 413, 414, 417, 431, 501, 505, and 503 over the limit of
 * connections.
 *
 * Threads: all of this, in the loop's thread.  Others send mail (loop_mail.h). */
#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "base/status.h"
#include "http.h"

struct event_base;
struct http_server;
struct tls;

/* Each has a default, taken where it is 0; see http_server.c for the reasons. */
struct http_limits {
    size_t head_bytes_max; /* request line and headers */
    size_t headers_max;
    size_t body_bytes_max; /* where on_head says nothing else */
    size_t out_bytes_max;  /* of a stream, waiting for a slow client */
    size_t connections_max;
    int64_t head_timeout_us; /* from the first byte to the end of the head */
    int64_t body_timeout_us; /* from there to the end of the body */
    int64_t idle_timeout_us; /* from one answer's last byte to a request */
    int64_t send_timeout_us; /* for a client to take 64 KiB, or what is left */
};

struct http_request {
    struct http_head head;
    struct slice body;   /* never absent */
    struct arena *arena; /* of the request; ends with it */
    const char *peer;    /* "192.0.2.7:51824", "[::1]:51824" or "unix" */
    bool peer_is_local;  /* loopback, or a Unix socket */
    bool secure;         /* came by TLS */
    int64_t start_us;    /* when the head was there; monotonic */

    /* For on_head to change. */
    size_t body_bytes_max;

    /* For the program to set; the callbacks may be NULL. */
    void *user;
    void (*on_gone)(struct http_request *request);
    void (*on_drained)(struct http_request *request); /* see http_stream_write() */
};

struct http_answer {
    int status;                      /* 200 to 599 */
    const char *type;                /* Content-Type; NULL for none */
    struct slice body;               /* copied; not sent for HEAD, 204 and 304 */
    const struct http_pair *headers; /* more of them; copied */
    size_t header_count;
    bool close; /* the connection, afterwards */
};

/* What became of a request, for logs and metrics. */
struct http_outcome {
    int status;         /* what was answered, also when nobody was there to hear it */
    uint64_t out_bytes; /* of the body */
    int64_t took_us;    /* since start_us */
    bool gone;          /* the client had hung up before the answer */
};

struct http_program {
    void *user;

    /* Optional.  The head is there and the body is not: may set
     * request->body_bytes_max for this route, and may answer before it returns
     * (401, 404, ...): then a body is not read, and the connection ends. */
    void (*on_head)(void *user, struct http_request *request);

    /* All of the request is there. */
    void (*on_request)(void *user, struct http_request *request);

    /* Optional.  Once for each request that was shown, when it is about to be
     * gone; also when the layer refused its body. */
    void (*on_done)(void *user, const struct http_request *request,
                    const struct http_outcome *outcome);
};

struct http_config {
    struct event_base *base;
    const struct clock *clock; /* for the Date header and durations */
    struct http_limits limits;
    struct http_program program;
};

/* A server that listens nowhere yet.  0 or -HF_NOMEM. */
must_check int http_server_new(const struct http_config *config,
                               struct http_server **ret);

/* Closes everything at once.  Requests that are still with the program are told
 * that the client is gone, and stay valid until they are answered.  NULL is fine. */
void http_server_free(struct http_server *server);

/* Listens on "HOST:PORT" or "unix:PATH" (see address.h) as well.  `tls` may be
 * NULL; it is borrowed until the server is freed.  `unix_mode` is the socket
 * file's (0: 0600).  0, or with a sentence: -HF_INVALID (the address),
 * -HF_LOCKED (someone listens there), -HF_SYSTEM, -HF_NOMEM. */
must_check int http_server_listen(struct http_server *server, const char *address,
                                  struct tls *tls, unsigned unix_mode,
                                  struct error *error);

/* The address of the `index`th listener, with the port that port 0 became:
 * "127.0.0.1:7420".  NULL behind the last.  Good until the server is freed. */
const char *http_server_address(const struct http_server *server, size_t index);

/* Stops accepting, closes connections that have no request under way, and the
 * others with their answers.  Calls `on_stopped` (may be NULL) from the loop
 * when none is left, at the latest after `grace_us`, when the rest is closed as
 * it is.  Streams do not end by themselves: end them first.  Calling it again
 * only shortens the grace. */
void http_server_stop(struct http_server *server, int64_t grace_us,
                      void (*on_stopped)(void *user));

/* Figures since the start. */
struct http_stats {
    size_t connections;         /* open now */
    size_t requests_under_way;  /* with the program now */
    uint64_t connections_total; /* accepted */
    uint64_t connections_over;  /* turned away with 503 */
    uint64_t requests_total;    /* handed to the program */
    uint64_t refused_total;     /* answered 4xx or 5xx by the layer */
    uint64_t timeouts_total;    /* connections a deadline ended, idle ones aside */
    uint64_t accept_failures_total;
};
void http_server_stats(const struct http_server *server, struct http_stats *ret);

/* Answers, and ends the request: it may not be touched again. */
void http_answer(struct http_request *request, const struct http_answer *answer);

/* Begins an answer whose body comes in pieces: chunked, or for HTTP/1.0 up to
 * the end of the connection.  `head->body` must be empty. */
void http_stream_begin(struct http_request *request, const struct http_answer *head);

/* A piece.  0; -HF_BUSY if it would not fit into the bounded buffer: nothing was
 * taken, and on_drained is called once when half of the buffer is free again;
 * -HF_CLOSED if the client is gone: end the stream.  A piece larger than the
 * whole buffer is -HF_TOO_LARGE. */
must_check int http_stream_write(struct http_request *request, struct slice piece);

/* Ends the stream and the request: it may not be touched again.  `complete`
 * false cuts the connection off, so that the client knows that there was more. */
void http_stream_end(struct http_request *request, bool complete);
