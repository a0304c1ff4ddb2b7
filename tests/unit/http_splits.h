/* SPDX-License-Identifier: Apache-2.0
 *
 * http_splits.h -- reads requests from bytes that come in pieces.
 *
 * What is read may not depend on where the pieces were cut: the tests and the
 * fuzzer read the same bytes in several ways and compare what came out, as one
 * text that says everything. */
#pragma once

#include "net/http_parse.h"

enum { SPLIT_HEAD_BYTES = 512, SPLIT_HEADERS = 8, SPLIT_BODY_BYTES = 64 };

static inline void split_tell_pairs(struct buf *told, const char *what,
                                    const struct http_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_printf(told, " %s ", what);
        buf_json(told, pairs[i].name);
        buf_json(told, pairs[i].value);
    }
}

static inline void split_tell_head(struct buf *told, const struct http_head *head)
{
    buf_printf(told, "%s 1.%d", http_method_name(head->method), head->minor);
    for (size_t i = 0; i < head->part_count; i++) {
        buf_text(told, " part ");
        buf_json(told, head->parts[i]);
    }
    split_tell_pairs(told, "param", head->query, head->query_count);
    split_tell_pairs(told, "header", head->headers, head->header_count);
    buf_text(told, " host ");
    buf_json(told, head->host);
    buf_printf(told, "%s%s%s length %llu\n", head->chunked ? " chunked" : "",
               head->expects_continue ? " expects" : "", head->keep_alive ? " keep" : "",
               (unsigned long long)head->content_length);
}

/* A sender of bytes: `piece` of them at a time, in a buffer that is exactly as long
 * as what was sent, so that a sanitizer sees a read behind it. */
struct split {
    struct slice all;
    size_t sent;
    size_t piece;
    char *copy; /* of what was sent since the last request's end */
    size_t from;
};

static inline bool split_more(struct split *split)
{
    if (split->sent == split->all.n)
        return false;
    size_t left = split->all.n - split->sent;
    split->sent += split->piece < left ? split->piece : left;
    return true;
}

static inline struct slice split_copy(struct split *split)
{
    size_t n = split->sent - split->from;

    free(split->copy);
    split->copy = malloc(n ? n : 1);
    if (!split->copy)
        abort();
    memcpy(split->copy, split->all.p + split->from, n);
    return (struct slice){ split->copy, n };
}

static inline enum http_step split_read_head(struct split *split, struct arena *arena,
                                             struct http_head *head,
                                             struct http_refusal *refusal)
{
    struct http_scan scan = { 0 };

    for (;;) {
        struct slice in = split_copy(split);
        enum http_step step = http_head_scan(&scan, in, SPLIT_HEAD_BYTES, refusal);
        if (step == HTTP_DONE) {
            in.n = scan.at;
            split->from += scan.at;
            int r = http_head_parse(in, SPLIT_HEADERS, arena, head, refusal);
            return r < 0 ? HTTP_REFUSED : HTTP_DONE;
        }
        if (step == HTTP_REFUSED || !split_more(split))
            return step;
    }
}

static inline enum http_step split_read_body(struct split *split,
                                             const struct http_head *head,
                                             struct buf *out,
                                             struct http_refusal *refusal)
{
    struct http_body body;
    enum http_step step = http_body_init(&body, head, SPLIT_BODY_BYTES, refusal);

    while (step == HTTP_MORE) {
        size_t used = 0;
        step = http_body_feed(&body, split_copy(split), out, &used, refusal);
        assert(step == HTTP_REFUSED || used <= split->sent - split->from);
        split->from += used;
        if (step == HTTP_MORE && !split_more(split))
            break;
    }
    return step;
}

/* Tells in `told` every request there is in `all`, and how it ends. */
static inline void split_read(struct slice all, size_t piece, struct buf *told)
{
    struct split split = { .all = all, .piece = piece };
    struct http_refusal refusal = { 0 };
    enum http_step step;

    do {
        struct arena arena;
        struct http_head head = { 0 };
        struct buf body;
        arena_init(&arena, 4096, 1 << 20);
        buf_init(&body, SPLIT_BODY_BYTES);
        step = split_read_head(&split, &arena, &head, &refusal);
        if (step == HTTP_DONE) {
            split_tell_head(told, &head);
            step = split_read_body(&split, &head, &body, &refusal);
            if (step == HTTP_DONE) {
                buf_json(told, (struct slice){ body.p ? body.p : "", body.n });
                buf_byte(told, '\n');
            }
        }
        buf_release(&body);
        arena_release(&arena);
    } while (step == HTTP_DONE && (split.from < split.sent || split_more(&split)));
    if (step == HTTP_REFUSED)
        buf_printf(told, "refused %d %s\n", refusal.status, refusal.text);
    if (step == HTTP_MORE)
        buf_text(told, "more\n");
    free(split.copy);
}
