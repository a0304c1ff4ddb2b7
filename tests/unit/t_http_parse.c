/* SPDX-License-Identifier: Apache-2.0
 *
 * What is a request and what is not, as tables. */
#include "http_splits.h"
#include "test.h"

/* Reads the first request of `text` and returns the status it is refused with,
 * 0 if it is one, -1 if it is not complete. */
static int read_request(struct slice text, struct arena *arena, struct http_head *head,
                        struct buf *body, struct http_refusal *refusal)
{
    struct split split = { .all = text, .piece = SIZE_MAX / 2 };
    enum http_step step = split_read_head(&split, arena, head, refusal);

    if (step == HTTP_DONE)
        step = split_read_body(&split, head, body, refusal);
    free(split.copy);
    return step == HTTP_REFUSED ? refusal->status : step == HTTP_DONE ? 0 : -1;
}

static int status_of_request(struct slice text)
{
    struct http_head head = { 0 };
    struct http_refusal refusal = { 0 };
    cleanup(arena_release) struct arena arena;
    cleanup(buf_release) struct buf body;

    arena_init(&arena, 4096, 1 << 20);
    buf_init(&body, SPLIT_BODY_BYTES);
    return read_request(text, &arena, &head, &body, &refusal);
}

struct row {
    int status;
    struct slice text;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = status_of_request(rows[i].text);
        if (status != rows[i].status)
            fail("row %zu is %d, not %d:\n%.*s", i, status, rows[i].status,
                 (int)rows[i].text.n, rows[i].text.p);
    }
}

#define ROW(status, text)                                                                \
    {                                                                                    \
        status,                                                                          \
        {                                                                                \
            (text), sizeof(text) - 1                                                     \
        }                                                                                \
    }
#define H "Host: a\r\n"

TEST(a_first_line_has_three_words_and_one_space_between_them)
{
    static const struct row rows[] = {
        ROW(0, "GET / HTTP/1.1\r\n" H "\r\n"),
        ROW(0, "OPTIONS * HTTP/1.1\r\n" H "\r\n"),
        ROW(-1, "GET / HTTP/1.1\r\n" H "\r"),
        ROW(-1, ""),
        ROW(400, "GET  / HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /  HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET / x HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET\t/ HTTP/1.1\r\n" H "\r\n"),
        ROW(400, " GET / HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "\r\nGET / HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /\r\n" H "\r\n"),
        ROW(400, "GET HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1 \r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1\r\n" H "\r\n"),
        ROW(400, "GET / http/1.1\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1x\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/+1.1\r\n" H "\r\n"),
        ROW(400, "G(T / HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET * HTTP/1.1\r\n" H "\r\n"),
        ROW(501, "get / HTTP/1.1\r\n" H "\r\n"),
        ROW(501, "TRACE / HTTP/1.1\r\n" H "\r\n"),
        ROW(501, "CONNECT a:1 HTTP/1.1\r\n" H "\r\n"),
        ROW(505, "GET / HTTP/2.0\r\n" H "\r\n"),
        ROW(505, "GET / HTTP/1.2\r\n" H "\r\n"),
        ROW(505, "GET / HTTP/0.9\r\n" H "\r\n"),
        ROW(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    };
    check_rows(rows, array_len(rows));
}

TEST(lines_end_with_crlf_and_nothing_else)
{
    static const struct row rows[] = {
        ROW(400, "GET / HTTP/1.1\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H "\n"),
        ROW(400, "GET / HTTP/1.1\r" H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nX: a\rb\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nX: a\r\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nX: a\0b\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nX: a\x7f\r\n" H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nX: a\x1b[0m\r\n" H "\r\n"),
        ROW(400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), /* TLS */
        ROW(0, "GET / HTTP/1.1\r\nX: a\tb\xc3\xa4\r\n" H "\r\n"),
    };
    check_rows(rows, array_len(rows));
}

TEST(a_header_is_a_name_a_colon_and_a_value)
{
    static const struct row rows[] = {
        ROW(400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H ": a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H "X\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n"),  /* folded */
        ROW(400, "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n"), /* folded */
        ROW(400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H "X(y): a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H "X\xc3\xa4: a\r\n\r\n"),
        ROW(0, "GET / HTTP/1.1\r\n" H "X:\r\n\r\n"),
        ROW(0, "GET / HTTP/1.1\r\n" H "X:a:b \t\r\n\r\n"),
        ROW(0, "GET / HTTP/1.1\r\n" H "a:\r\nb:\r\nc:\r\nd:\r\ne:\r\nf:\r\ng:\r\n\r\n"),
        ROW(431, "GET / HTTP/1.1\r\n" H
                 "a:\r\nb:\r\nc:\r\nd:\r\ne:\r\nf:\r\ng:\r\nh:\r\n\r\n"),
    };
    check_rows(rows, array_len(rows));
}

TEST(there_is_one_host)
{
    static const struct row rows[] = {
        ROW(400, "GET / HTTP/1.1\r\n\r\n"),
        ROW(0, "GET / HTTP/1.0\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\n" H "host: b\r\n\r\n"),
        ROW(400, "GET / HTTP/1.0\r\n" H H "\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a:\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a:+1\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: []:80\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: [g::1]\r\n\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n"),
        ROW(0, "GET / HTTP/1.1\r\nHost: [::1]:7420\r\n\r\n"),
        ROW(0, "GET / HTTP/1.1\r\nHost: a-b.example:65535\r\n\r\n"),
        ROW(0, "GET http://A/ HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET http://b/ HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET http:// HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET http://u@a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET ftp://a/ HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET a/ HTTP/1.1\r\n" H "\r\n"),
    };
    check_rows(rows, array_len(rows));
}

#define POST "POST / HTTP/1.1\r\n" H

TEST(a_body_is_framed_in_one_way)
{
    static const struct row rows[] = {
        ROW(0, POST "Content-Length: 5\r\n\r\nhello"),
        ROW(0, POST "Content-Length:  05 \r\n\r\nhello"),
        ROW(-1, POST "Content-Length: 5\r\n\r\nhell"),
        ROW(0, POST "\r\n"),
        ROW(400, POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        ROW(400, POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
        ROW(400, POST "Content-Length: 5, 5\r\n\r\nhello"),
        ROW(400, POST "Content-Length: +5\r\n\r\nhello"),
        ROW(400, POST "Content-Length: -5\r\n\r\nhello"),
        ROW(400, POST "Content-Length: 0x5\r\n\r\nhello"),
        ROW(400, POST "Content-Length: 5.0\r\n\r\nhello"),
        ROW(400, POST "Content-Length: 1 2\r\n\r\nhello"),
        ROW(400, POST "Content-Length:\r\n\r\nhello"),
        ROW(413, POST "Content-Length: 65\r\n\r\nhello"),
        ROW(413, POST "Content-Length: 18446744073709551621\r\n\r\nhello"),
        ROW(413, POST "Content-Length: 99999999999999999999999999\r\n\r\nhello"),
        ROW(400, POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ROW(400, POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        ROW(400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "0\r\n\r\n"),
        ROW(501, POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        ROW(501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ROW(501, POST "Transfer-Encoding: identity\r\n\r\n"),
        ROW(501, POST "Transfer-Encoding:\r\n\r\n"),
        ROW(501, POST "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n"),
        ROW(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ROW(417, POST "Expect: a-miracle\r\nContent-Length: 5\r\n\r\nhello"),
        ROW(0, POST "Expect: 100-Continue\r\nContent-Length: 5\r\n\r\nhello"),
    };
    check_rows(rows, array_len(rows));
}

#define CHUNKED POST "Transfer-Encoding: Chunked\r\n\r\n"

TEST(chunks_are_read_to_the_letter)
{
    static const struct row rows[] = {
        ROW(0, CHUNKED "5\r\nhello\r\n0\r\n\r\n"),
        ROW(0, CHUNKED "5;a=b\r\nhello\r\n000;x\r\nT: v\r\nU:\r\n\r\n"),
        ROW(0, CHUNKED "1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n"),
        ROW(-1, CHUNKED "5\r\nhello\r\n0\r\n"),
        ROW(-1, CHUNKED "5\r\nhello\r\n0\r\n\r"),
        ROW(400, CHUNKED "\r\nhello\r\n"),
        ROW(400, CHUNKED "g\r\n"),
        ROW(400, CHUNKED "+5\r\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED " 5\r\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "5 \r\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "5\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "5\rhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "5\r\nhello!\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "5\r\nhello\n0\r\n\r\n"),
        ROW(400, CHUNKED "5\r\nhello0\r\n\r\n"),
        ROW(400, CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "0\r\n\n"),
        ROW(400, CHUNKED "0\r\n\rx"),
        ROW(400, CHUNKED "0\r\nT : v\r\n\r\n"),
        ROW(400, CHUNKED "0\r\n: v\r\n\r\n"),
        ROW(400, CHUNKED "0\r\nT: v\r\n folded\r\n\r\n"),
        ROW(400, CHUNKED "0\r\nT: v\n\r\n"),
        ROW(400, CHUNKED "0\r\nT\r\n\r\n"),
        ROW(400, CHUNKED "0000000000000005\r\nhello\r\n0\r\n\r\n"),
        ROW(400, CHUNKED "10000000000000000\r\n"),
        ROW(413, CHUNKED "fffffffffffffff\r\n"),
        ROW(413, CHUNKED "41\r\n"),
        ROW(413, CHUNKED "1\r\na\r\n40\r\n"),
    };
    check_rows(rows, array_len(rows));
}

TEST(a_target_is_printable_and_its_encoding_is_sound)
{
    static const struct row rows[] = {
        ROW(400, "GET /%zz HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /%4 HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /a%4/b HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /% HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /%00 HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /%0a HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /%ff HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /?a=%ff HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /?a=%00 HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /?a=% HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /?%=a HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /a#b HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n"),
        ROW(400, "GET /<a> HTTP/1.1\r\n" H "\r\n"),
        ROW(0, "GET /%C3%A4?a=%0A HTTP/1.1\r\n" H "\r\n"),
        ROW(414, "GET /1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/"
                 "26/27/28/29/30/31/32/33 HTTP/1.1\r\n" H "\r\n"),
    };
    check_rows(rows, array_len(rows));
}

TEST(a_head_that_is_too_long_is_refused_by_what_is_too_long)
{
    char text[SPLIT_HEAD_BYTES + 64];

    memset(text, 'a', sizeof(text));
    memcpy(text, "GET /", 5);
    check_int(status_of_request((struct slice){ text, SPLIT_HEAD_BYTES }), -1);
    check_int(status_of_request((struct slice){ text, SPLIT_HEAD_BYTES + 1 }), 414);
    memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
    check_int(status_of_request((struct slice){ text, SPLIT_HEAD_BYTES }), -1);
    check_int(status_of_request((struct slice){ text, SPLIT_HEAD_BYTES + 1 }), 431);
    memcpy(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ", 28);
    memcpy(text + SPLIT_HEAD_BYTES - 4, "\r\n\r\n", 4);
    check_int(status_of_request((struct slice){ text, SPLIT_HEAD_BYTES }), 0);
}

TEST(what_is_dropped_of_a_chunked_body_is_bounded)
{
    static const char *const begins[] = { CHUNKED "5;", CHUNKED "0\r\n",
                                          CHUNKED "0\r\nT: " };

    for (size_t i = 0; i < array_len(begins); i++) {
        cleanup(buf_release) struct buf text;
        buf_init(&text, 1 << 20);
        buf_text(&text, begins[i]);
        for (int n = 0; n < HTTP_IGNORED_BYTES_MAX - 8; n++)
            buf_byte(&text, 'a');
        check_int(status_of_request((struct slice){ text.p, text.n }), -1);
        for (int n = 0; n < 16; n++)
            buf_byte(&text, 'a');
        check_int(status_of_request((struct slice){ text.p, text.n }), 431);
    }
}

struct parsed {
    struct arena arena;
    struct http_head head;
    struct buf body;
    struct http_refusal refusal;
};

static void parsed_release(struct parsed *parsed)
{
    arena_release(&parsed->arena);
    buf_release(&parsed->body);
}

static void parse(struct parsed *parsed, const char *text)
{
    arena_init(&parsed->arena, 4096, 1 << 20);
    buf_init(&parsed->body, SPLIT_BODY_BYTES);
    check_int(read_request(slice_of(text), &parsed->arena, &parsed->head, &parsed->body,
                           &parsed->refusal),
              0);
}

TEST(a_path_is_cut_into_parts_before_it_is_decoded)
{
    cleanup(parsed_release) struct parsed p = { 0 };

    parse(&p, "GET /api/v1/q%2Fx/4%32+/?a HTTP/1.1\r\n" H "\r\n");
    check_slice(p.head.target, "/api/v1/q%2Fx/4%32+/?a");
    check_slice(p.head.path, "/api/v1/q%2Fx/4%32+/");
    check_int(p.head.part_count, 5);
    check_slice(p.head.parts[0], "api");
    check_slice(p.head.parts[2], "q/x");
    check_slice(p.head.parts[3], "42+");
    check_slice(p.head.parts[4], "");
}

TEST(the_root_has_no_parts)
{
    cleanup(parsed_release) struct parsed p = { 0 };

    parse(&p, "GET http://a?x=1 HTTP/1.1\r\n" H "\r\n");
    check_slice(p.head.path, "/");
    check_int(p.head.part_count, 0);
    check_int(p.head.query_count, 1);
    check_slice(p.head.host, "a");
}

TEST(a_query_is_pairs_in_the_order_sent)
{
    cleanup(parsed_release) struct parsed p = { 0 };

    parse(&p, "GET /?a=1+2&&b&%61=%26%3D&=x&c=d=e& HTTP/1.1\r\n" H "\r\n");
    check_int(p.head.query_count, 5);
    check_slice(p.head.query[0].name, "a");
    check_slice(p.head.query[0].value, "1 2");
    check_slice(p.head.query[1].name, "b");
    check_slice(p.head.query[1].value, "");
    check_slice(p.head.query[2].name, "a");
    check_slice(p.head.query[2].value, "&=");
    check_slice(p.head.query[3].name, "");
    check_slice(p.head.query[4].value, "d=e");
    check_slice(http_pair_find(p.head.query, p.head.query_count, "a"), "1 2");
    check_slice(http_pair_find(p.head.query, p.head.query_count, "z"), NULL);
}

TEST(a_header_is_found_whatever_its_capitals)
{
    cleanup(parsed_release) struct parsed p = { 0 };

    parse(&p,
          "POST / HTTP/1.1\r\n" H "X-Two:\t one , two \r\nContent-Length: 2\r\n\r\nhi");
    check_slice(http_pair_find(p.head.headers, p.head.header_count, "x-tWO"),
                "one , two");
    check_int(p.head.content_length, 2);
    check_int(p.body.n, 2);
}

TEST(trailers_and_extensions_are_dropped_and_chunks_joined)
{
    cleanup(parsed_release) struct parsed p = { 0 };

    parse(&p, CHUNKED "3;a=\"b\"\r\nhel\r\n2\r\nlo\r\n0\r\nHost: evil\r\n\r\n");
    check(slice_equal((struct slice){ p.body.p, p.body.n }, SLICE("hello")));
    check_slice(p.head.host, "a");
    check_int(p.head.header_count, 2);
}

TEST(a_connection_is_kept_as_its_version_and_its_words_say)
{
    static const struct {
        bool keep;
        const char *text;
    } rows[] = {
        { true, "GET / HTTP/1.1\r\n" H "\r\n" },
        { false, "GET / HTTP/1.1\r\n" H "Connection: Close\r\n\r\n" },
        { false, "GET / HTTP/1.1\r\n" H "Connection: x , close,y\r\n\r\n" },
        { false,
          "GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\nConnection: close\r\n\r\n" },
        { true, "GET / HTTP/1.1\r\n" H "Connection: closed\r\n\r\n" },
        { false, "GET / HTTP/1.0\r\n\r\n" },
        { true, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" },
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup(parsed_release) struct parsed p = { 0 };
        parse(&p, rows[i].text);
        check_int(p.head.keep_alive, rows[i].keep);
    }
}

TEST(the_same_is_read_wherever_the_bytes_are_cut)
{
    static const char *const texts[] = {
        "GET /a%20b?c=d HTTP/1.1\r\n" H "X: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        POST "Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost : a\r\n\r\n",
        CHUNKED "5;a=b\r\nhello\r\n0\r\nT: v\r\n\r\nOPTIONS * HTTP/1.1\r\n" H "\r\n",
        CHUNKED "5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n" H "\n",
        CHUNKED "5\r\nhelloo\r\n",
        POST "Content-Length: 64\r\n\r\n0123456789",
        "GET / HTTP/1.1\rX\n",
    };

    for (size_t i = 0; i < array_len(texts); i++) {
        cleanup(buf_release) struct buf whole;
        buf_init(&whole, 1 << 20);
        split_read(slice_of(texts[i]), SIZE_MAX / 2, &whole);
        check(whole.n > 0 && !whole.failed);
        for (size_t piece = 1; piece < strlen(texts[i]); piece++) {
            cleanup(buf_release) struct buf told;
            buf_init(&told, 1 << 20);
            split_read(slice_of(texts[i]), piece, &told);
            check_str(told.p, whole.p);
        }
    }
}
