/* SPDX-License-Identifier: Apache-2.0
 *
 * http_response.c -- a response as JSON, whatever bytes it is made of. */
#include "exec/http_response.h"

#include <openssl/evp.h>
#include <strings.h>

#include "base/json_write.h"
#include "base/text.h"

/* Each is compared with those before it, so there is an end to them. */
enum { HEADERS_KEPT = 200 };

/* The length of the text at the front, if a cut may have left a part of a character
 * behind it; false if it is no text. */
static bool text_length(struct slice body, bool cut, size_t *ret)
{
    for (size_t part = 0; part <= (cut ? 3 : 0) && part <= body.n; part++) {
        struct slice text = { body.p, body.n - part };
        if (utf8_valid(text) && (part == 0 || utf8_is_cut(text.p + text.n, part))) {
            *ret = text.n;
            return true;
        }
    }
    return false;
}

static void put_base64(struct json_writer *w, struct slice body, struct buf *scratch)
{
    buf_reset(scratch);
    unsigned char *out = (unsigned char *)buf_space(scratch, 4 * ((body.n + 2) / 3) + 1);

    json_put_str(w, "bodyEncoding", SLICE("base64"));
    if (!out) {
        w->buf->failed = scratch->failed;
        json_put_null(w, "body");
        return;
    }
    int n = EVP_EncodeBlock(out, (const unsigned char *)body.p, (int)body.n);
    json_put_str(w, "body", (struct slice){ (char *)out, (size_t)n });
}

static void put_body(struct json_writer *w, const struct fetch_answer *answer, size_t max,
                     struct buf *scratch)
{
    struct slice body = { answer->body.p, answer->body.n < max ? answer->body.n : max };
    bool cut = answer->cut || body.n < answer->body.n;

    if (text_length(body, cut, &body.n))
        json_put_str(w, "body", body);
    else
        put_base64(w, body, scratch);
    json_put_bool(w, "truncated", cut);
}

static bool same_name(struct slice a, struct slice b)
{
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* The values of the header at `first` and of those behind it with the same name. */
static void put_header(struct json_writer *w, const struct fetch_header *headers,
                       size_t first, size_t count, struct buf *scratch)
{
    struct slice text;

    buf_reset(scratch);
    for (size_t i = 0; i < headers[first].name.n; i++) {
        char c = headers[first].name.p[i];
        buf_byte(scratch, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
    }
    if (buf_end(scratch, &text) == 0)
        json_key_slice(w, text);
    else
        json_key(w, "");
    buf_reset(scratch);
    for (size_t i = first; i < count; i++) {
        if (!same_name(headers[i].name, headers[first].name))
            continue;
        if (i > first)
            buf_text(scratch, ", ");
        buf_add(scratch, headers[i].value);
    }
    if (buf_end(scratch, &text) < 0)
        w->buf->failed = scratch->failed;
    json_str(w, scratch->failed ? SLICE("") : text);
}

static void put_headers(struct json_writer *w, const struct fetch_answer *answer,
                        struct buf *scratch)
{
    size_t count =
        answer->header_count < HEADERS_KEPT ? answer->header_count : HEADERS_KEPT;

    json_key(w, "headers");
    json_begin_object(w);
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (!same_name(answer->headers[first].name, answer->headers[i].name))
            first++;
        if (first == i)
            put_header(w, answer->headers, i, count, scratch);
    }
    json_end_object(w);
}

static void write_response(struct buf *buf, const struct fetch_answer *answer,
                           size_t body_max, bool with_headers, struct buf *scratch)
{
    struct json_writer w = json_writer(buf);

    json_begin_object(&w);
    if (answer->status) {
        json_put_int(&w, "status", answer->status);
        if (with_headers)
            put_headers(&w, answer, scratch);
        put_body(&w, answer, body_max, scratch);
    }
    json_put_int(&w, "durationMs", answer->duration_us / US_PER_MS);
    if (answer->redirects)
        json_put_int(&w, "redirects", answer->redirects);
    if (answer->address[0])
        json_put_text(&w, "address", answer->address);
    json_end_object(&w);
    json_finish(&w);
}

struct slice http_response_json(const struct fetch_answer *answer, size_t bytes_max,
                                struct arena *arena)
{
    cleanup(buf_release) struct buf buf, scratch;
    struct slice text = { 0 };
    size_t body_max = answer->body.n;
    bool headers = true;

    assert(bytes_max >= 1024);
    buf_init(&buf, bytes_max);
    buf_init(&scratch, 4 * (LIMIT_OUTPUT_BYTES + LIMIT_FETCH_HEAD_BYTES));
    for (;;) {
        write_response(&buf, answer, body_max, headers, &scratch);
        if (buf_end(&buf, &text) == 0)
            return arena_dup(arena, text);
        if (buf.failed != -HF_TOO_LARGE || (body_max == 0 && !headers))
            return (struct slice){ 0 };
        /* Half the body again and again; then go without the headers. */
        headers = headers && body_max > 0;
        body_max /= 2;
        buf_reset(&buf);
    }
}
