/* SPDX-License-Identifier: Apache-2.0
 *
 * Malformed and ambiguous requests over real sockets: each is answered with its
 * status and the end of the connection, nothing behind it is ever executed, and
 * the server goes on. */
#include "http_world.h"

#define H "Host: a\r\n"
#define POST "POST /echo HTTP/1.1\r\n" H

/* What an attacker would like to have executed. */
#define SMUGGLED "GET /later HTTP/1.1\r\n" H "\r\n"

struct bad {
    const char *what;
    int status;
    struct slice text;
};

#define BAD(what, status, text)                                                          \
    {                                                                                    \
        what, status,                                                                    \
        {                                                                                \
            (text), sizeof(text) - 1                                                     \
        }                                                                                \
    }

static const struct bad corpus[] = {
    BAD("doubled Content-Length", 400,
        POST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n" SMUGGLED),
    BAD("two Content-Lengths", 400,
        POST "Content-Length: 3\r\nContent-Length: 0\r\n\r\nabc" SMUGGLED),
    BAD("list of Content-Lengths", 400, POST "Content-Length: 0, 0\r\n\r\n" SMUGGLED),
    BAD("signed Content-Length", 400, POST "Content-Length: +0\r\n\r\n" SMUGGLED),
    BAD("negative Content-Length", 400, POST "Content-Length: -1\r\n\r\n" SMUGGLED),
    BAD("hexadecimal Content-Length", 400, POST "Content-Length: 0x0\r\n\r\n" SMUGGLED),
    BAD("Content-Length of 2^64", 413,
        POST "Content-Length: 18446744073709551616\r\n\r\n" SMUGGLED),
    BAD("Content-Length over the limit", 413,
        POST "Content-Length: 99999999999\r\n\r\n" SMUGGLED),
    BAD("length and chunks", 400,
        POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("chunks and length", 400,
        POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("unknown Transfer-Encoding", 501,
        POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("Transfer-Encoding of two", 501,
        POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("Transfer-Encoding in HTTP/1.0", 400,
        "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("folded Transfer-Encoding", 400,
        POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("folded header", 400, "GET /hello HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n" SMUGGLED),
    BAD("bare LF", 400, "GET /hello HTTP/1.1\nHost: a\n\n" SMUGGLED),
    BAD("one bare LF", 400, "GET /hello HTTP/1.1\r\nHost: a\n\r\n" SMUGGLED),
    BAD("bare CR", 400, "GET /hello HTTP/1.1\r\nX: a\rHost: a\r\n\r\n" SMUGGLED),
    BAD("space before the colon", 400,
        "GET /hello HTTP/1.1\r\nHost : a\r\n\r\n" SMUGGLED),
    BAD("space before a header", 400, "GET /hello HTTP/1.1\r\n " H "\r\n" SMUGGLED),
    BAD("no Host", 400, "GET /hello HTTP/1.1\r\n\r\n" SMUGGLED),
    BAD("two Hosts", 400, "GET /hello HTTP/1.1\r\n" H H "\r\n" SMUGGLED),
    BAD("another host in the target", 400,
        "GET http://b/hello HTTP/1.1\r\n" H "\r\n" SMUGGLED),
    BAD("NUL in a header", 400, "GET /hello HTTP/1.1\r\n" H "X: a\0b\r\n\r\n" SMUGGLED),
    BAD("NUL in the target", 400, "GET /he\0llo HTTP/1.1\r\n" H "\r\n" SMUGGLED),
    BAD("encoded NUL", 400, "GET /%00 HTTP/1.1\r\n" H "\r\n" SMUGGLED),
    BAD("half an encoding", 400, "GET /%2 HTTP/1.1\r\n" H "\r\n" SMUGGLED),
    BAD("HTTP/2", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    BAD("HTTP/0.9", 400, "GET /hello\r\n\r\n" SMUGGLED),
    BAD("TLS on a plain port", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    BAD("unknown method", 501, "BREW /pot HTTP/1.1\r\n" H "\r\n" SMUGGLED),
    BAD("CONNECT", 501, "CONNECT a:443 HTTP/1.1\r\n" H "\r\n" SMUGGLED),
    BAD("unknown expectation", 417, POST "Expect: more\r\nContent-Length: 0\r\n\r\n"),
    BAD("chunk without a size", 400,
        POST "Transfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n" SMUGGLED),
    BAD("chunk with a signed size", 400,
        POST "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n" SMUGGLED),
    BAD("chunk with a huge size", 413,
        POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffff0\r\n" SMUGGLED),
    BAD("chunk that is longer than it says", 400,
        POST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n" SMUGGLED),
    BAD("LF in an extension", 400,
        POST "Transfer-Encoding: chunked\r\n\r\n0;a\n\r\n\r\n" SMUGGLED),
    BAD("LF behind the last chunk", 400,
        POST "Transfer-Encoding: chunked\r\n\r\n0\n\n" SMUGGLED),
};

/* Sends it, and reads what is said until the connection ends. */
static void check_refused(struct world *world, const struct bad *bad)
{
    cleanup(client_close) int fd = client_connect(world);
    cleanup(buf_release) struct buf all;
    char status_line[32];

    buf_init(&all, 1 << 20);
    client_send_slice(fd, bad->text);
    client_read_all(fd, &all);
    snprintf(status_line, sizeof(status_line), "HTTP/1.1 %d ", bad->status);
    if (all.n == 0 || strncmp(all.p, status_line, strlen(status_line)) != 0)
        fail("%s is not answered with %d:\n%.*s", bad->what, bad->status, (int)all.n,
             all.p ? all.p : "");
    if (!strstr(all.p, "\r\nConnection: close\r\n") || !strstr(all.p, "\"detail\":\"") ||
        strstr(all.p, "}HTTP/1.1 "))
        fail("%s is answered wrongly:\n%s", bad->what, all.p);
}

TEST(every_bad_request_is_refused_and_nothing_behind_it_is_done)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });

    for (size_t i = 0; i < array_len(corpus); i++) {
        check_refused(&world, &corpus[i]);
        check_alive(&world);
    }
    check_int(atomic_load(&world.handled), array_len(corpus)); /* the good ones */
    struct http_stats stats = world_stats(&world);
    check_int(stats.refused_total, array_len(corpus));
    test_note("%zu bad requests", array_len(corpus));
}

TEST(a_bad_request_behind_good_ones_does_not_harm_their_answers)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd,
                "GET /hello HTTP/1.1\r\n" H "\r\nGET /echo?text=b HTTP/1.1\r\n" H "\r\n"
                "GET /hello HTTP/1.1\r\nHost : a\r\n\r\n");
    client_expect(fd, 200, "hello");
    client_expect(fd, 200, "b");
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 400);
}

static void check_too_long(struct world *world, const char *begin, const char *filler,
                           int status)
{
    cleanup(client_close) int fd = client_connect(world);
    cleanup(buf_release) struct buf text;
    cleanup(answer_release) struct answer answer = { 0 };

    buf_init(&text, 1 << 20);
    buf_text(&text, begin);
    while (text.n < 100000)
        buf_text(&text, filler);
    client_send_slice(fd, (struct slice){ text.p, text.n });
    client_read_answer(fd, false, &answer);
    check_int(answer.status, status);
    check_alive(world);
}

TEST(huge_heads_are_refused)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });

    check_too_long(&world, "GET /", "a", 414);
    check_too_long(&world, "GET / HTTP/1.1\r\n" H "X: ", "a", 431);
    check_too_long(&world, "GET / HTTP/1.1\r\n" H, "X: y\r\n", 431);
    check_too_long(&world,
                   "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0;",
                   "a", 431);
}

TEST(many_small_headers_are_refused)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ .headers_max = 3 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "GET /hello HTTP/1.1\r\n" H "a:\r\nb:\r\n\r\n");
    client_expect(fd, 200, "hello");
    client_send(fd, "GET /hello HTTP/1.1\r\n" H "a:\r\nb:\r\nc:\r\n\r\n");
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 431);
}

TEST(a_body_that_is_refused_while_it_is_sent_is_refused_audibly)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    /* A client that sends all before it reads: were the connection closed at once,
     * the answer would be lost with it. */
    client_send(fd, "POST /small HTTP/1.1\r\n" H "Content-Length: 4194304\r\n\r\n");
    client_send_slice(fd, (struct slice){ world.big, 4 << 20 });
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 413);
}
