/* SPDX-License-Identifier: Apache-2.0
 *
 * http_body.c -- takes the frame off a body: a length, or chunks.
 *
 *   CHUNK_SIZE -> [CHUNK_EXTENSION ->] CHUNK_SIZE_LF -> CHUNK_DATA -> CHUNK_DATA_CR
 *       ^                                  | (size 0)                      |
 *       +--------------------------------- | ------------- CHUNK_DATA_LF <-+
 *                                          v
 *   TRAILER_START -> TRAILER_NAME -> TRAILER_VALUE -> TRAILER_LF -> TRAILER_START
 *       +-> CHUNK_LAST_LF -> BODY_END */
#include "base/text.h"
#include "http_parse.h"

static void refuse_size(const struct http_body *body, struct http_refusal *refusal)
{
    http_refuse(refusal, 413, "the body has more than %zu bytes; that is too much here",
                body->bytes_max);
}

enum http_step http_body_init(struct http_body *body, const struct http_head *head,
                              size_t bytes_max, struct http_refusal *refusal)
{
    *body = (struct http_body){ .bytes_max = bytes_max };
    if (head->chunked) {
        body->state = CHUNK_SIZE;
        return HTTP_MORE;
    }
    body->state = BODY_LENGTH;
    body->left = head->content_length;
    if (body->left > bytes_max) {
        refuse_size(body, refusal);
        return HTTP_REFUSED;
    }
    if (body->left > 0)
        return HTTP_MORE;
    body->state = BODY_END;
    return HTTP_DONE;
}

static bool is_visible(char c)
{
    return (unsigned char)c >= ' ' && c != 0x7f;
}

static void take_size_byte(struct http_body *body, char c, struct http_refusal *refusal)
{
    int digit = hex_digit(c);

    if (digit >= 0 && body->digits < 15) {
        body->left = body->left * 16 + (uint64_t)digit;
        body->digits++;
    } else if (digit >= 0) {
        http_refuse(refusal, 400, "the size of a chunk has too many digits");
    } else if (body->digits > 0 && c == ';') {
        body->state = CHUNK_EXTENSION;
    } else if (body->digits > 0 && c == '\r') {
        body->state = CHUNK_SIZE_LF;
    } else {
        http_refuse(refusal, 400, "the size of a chunk is not a hexadecimal number");
    }
}

/* A byte of what is read and dropped: until CR, then on to `next`. */
static void take_ignored_byte(struct http_body *body, char c, int next,
                              struct http_refusal *refusal)
{
    if (c == '\r')
        body->state = next;
    else if (!is_visible(c) && c != '\t')
        http_refuse(refusal, 400,
                    "there is a control character among the chunks or behind them");
    else if (++body->ignored > HTTP_IGNORED_BYTES_MAX)
        http_refuse(refusal, 431,
                    "the extensions of chunks and the trailers have more than %d bytes",
                    HTTP_IGNORED_BYTES_MAX);
}

/* Between two pieces of data: the same line end everywhere. */
static void expect_byte(struct http_body *body, char c, char wanted, int next,
                        struct http_refusal *refusal)
{
    if (c == wanted)
        body->state = next;
    else
        http_refuse(refusal, 400,
                    "CRLF is missing behind a chunk, its size or a trailer");
}

static bool is_name_char(char c)
{
    return is_visible(c) && (unsigned char)c < 0x7f && !strchr(" \"(),/:;<=>?@[\\]{}", c);
}

static void take_trailer_byte(struct http_body *body, char c,
                              struct http_refusal *refusal)
{
    if (body->state == TRAILER_START && c == '\r') {
        body->state = CHUNK_LAST_LF;
    } else if (body->state == TRAILER_NAME && c == ':') {
        body->state = TRAILER_VALUE;
    } else if (!is_name_char(c)) {
        http_refuse(refusal, 400,
                    "a trailer's name is empty, or has a character in it "
                    "that a name may not have");
    } else {
        body->state = TRAILER_NAME;
        take_ignored_byte(body, c, TRAILER_NAME, refusal);
    }
}

static void take_byte(struct http_body *body, char c, const struct buf *out,
                      struct http_refusal *refusal)
{
    switch (body->state) {
    case CHUNK_SIZE:
        take_size_byte(body, c, refusal);
        break;
    case CHUNK_EXTENSION:
        take_ignored_byte(body, c, CHUNK_SIZE_LF, refusal);
        break;
    case CHUNK_SIZE_LF:
        expect_byte(body, c, '\n', body->left ? CHUNK_DATA : TRAILER_START, refusal);
        if (!refusal->status && body->left > body->bytes_max - out->n)
            refuse_size(body, refusal);
        break;
    case CHUNK_DATA_CR:
        expect_byte(body, c, '\r', CHUNK_DATA_LF, refusal);
        break;
    case CHUNK_DATA_LF:
        body->digits = 0;
        expect_byte(body, c, '\n', CHUNK_SIZE, refusal);
        break;
    case TRAILER_START:
    case TRAILER_NAME:
        take_trailer_byte(body, c, refusal);
        break;
    case TRAILER_VALUE:
        take_ignored_byte(body, c, TRAILER_LF, refusal);
        break;
    case TRAILER_LF:
        expect_byte(body, c, '\n', TRAILER_START, refusal);
        break;
    case CHUNK_LAST_LF:
        expect_byte(body, c, '\n', BODY_END, refusal);
        break;
    case BODY_LENGTH:
    case CHUNK_DATA:
    case BODY_END:
        assert(false); /* these are not read byte by byte */
    }
}

/* As much of the data as is there.  Its end changes the state. */
static size_t take_data(struct http_body *body, struct slice in, struct buf *out)
{
    size_t n = in.n < body->left ? in.n : (size_t)body->left;

    buf_add(out, (struct slice){ in.p, n });
    body->left -= n;
    if (body->left == 0)
        body->state = body->state == CHUNK_DATA ? CHUNK_DATA_CR : BODY_END;
    return n;
}

enum http_step http_body_feed(struct http_body *body, struct slice in, struct buf *out,
                              size_t *used, struct http_refusal *refusal)
{
    size_t at = 0;

    refusal->status = 0;
    while (at < in.n && body->state != BODY_END) {
        if (body->state == BODY_LENGTH || body->state == CHUNK_DATA)
            at += take_data(body, (struct slice){ in.p + at, in.n - at }, out);
        else
            take_byte(body, in.p[at++], out, refusal);
        if (refusal->status)
            return HTTP_REFUSED;
    }
    *used = at;
    return body->state == BODY_END ? HTTP_DONE : HTTP_MORE;
}
