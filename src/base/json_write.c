/* SPDX-License-Identifier: Apache-2.0
 *
 * json_write.c -- commas, colons and brackets. */
#include "json_write.h"

#include "text.h"

enum { WRITER_DEPTH = 63 };

static bool in_object(const struct json_writer *w)
{
    assert(w->depth >= 0 && w->depth <= WRITER_DEPTH);
    return w->objects >> w->depth & 1;
}

struct json_writer json_writer(struct buf *buf)
{
    assert(buf);
    return (struct json_writer){ .buf = buf };
}

void json_finish(const struct json_writer *w)
{
    assert(w->depth == 0);
    assert(w->comma && !w->keyed);
}

/* Before each value: that one may stand here, and the comma it needs. */
static void begin_value(struct json_writer *w)
{
    assert(in_object(w) == w->keyed);
    assert(w->depth > 0 || !w->comma); /* one value at the top */
    if (w->comma && !w->keyed)
        buf_byte(w->buf, ',');
    w->comma = true;
    w->keyed = false;
}

static void begin_container(struct json_writer *w, bool object)
{
    begin_value(w);
    assert(w->depth < WRITER_DEPTH);
    buf_byte(w->buf, object ? '{' : '[');
    w->depth++;
    w->objects &= ~(UINT64_C(1) << w->depth);
    w->objects |= (uint64_t)object << w->depth;
    w->comma = false;
}

static void end_container(struct json_writer *w, bool object)
{
    assert(w->depth > 0 && !w->keyed);
    assert(in_object(w) == object);
    buf_byte(w->buf, object ? '}' : ']');
    w->depth--;
    w->comma = true;
}

void json_begin_object(struct json_writer *w)
{
    begin_container(w, true);
}

void json_end_object(struct json_writer *w)
{
    end_container(w, true);
}

void json_begin_array(struct json_writer *w)
{
    begin_container(w, false);
}

void json_end_array(struct json_writer *w)
{
    end_container(w, false);
}

void json_key_slice(struct json_writer *w, struct slice key)
{
    assert(in_object(w) && !w->keyed);
    if (w->comma)
        buf_byte(w->buf, ',');
    buf_json(w->buf, key);
    buf_byte(w->buf, ':');
    w->comma = true;
    w->keyed = true;
}

void json_key(struct json_writer *w, const char *key)
{
    assert(key);
    json_key_slice(w, slice_of(key));
}

void json_str(struct json_writer *w, struct slice text)
{
    begin_value(w);
    if (text.p)
        buf_json(w->buf, text);
    else
        buf_text(w->buf, "null");
}

void json_int(struct json_writer *w, int64_t n)
{
    begin_value(w);
    buf_int(w->buf, n);
}

void json_bool(struct json_writer *w, bool b)
{
    begin_value(w);
    buf_text(w->buf, b ? "true" : "false");
}

void json_raw(struct json_writer *w, struct slice json)
{
    assert(!json.p || json.n > 0);
    begin_value(w);
    buf_add(w->buf, json.p ? json : SLICE("null"));
}

void json_id(struct json_writer *w, int64_t id)
{
    begin_value(w);
    if (!id) {
        buf_text(w->buf, "null");
        return;
    }
    buf_byte(w->buf, '"');
    buf_int(w->buf, id);
    buf_byte(w->buf, '"');
}

void json_time(struct json_writer *w, int64_t time_us)
{
    char text[TIME_TEXT_BYTES];

    json_str(w, time_us ? slice_of(time_text(time_us, text)) : (struct slice){ NULL, 0 });
}

void json_put_str(struct json_writer *w, const char *key, struct slice text)
{
    json_key(w, key);
    json_str(w, text);
}

void json_put_text(struct json_writer *w, const char *key, const char *text)
{
    json_put_str(w, key, slice_of(text));
}

void json_put_int(struct json_writer *w, const char *key, int64_t n)
{
    json_key(w, key);
    json_int(w, n);
}

void json_put_bool(struct json_writer *w, const char *key, bool b)
{
    json_key(w, key);
    json_bool(w, b);
}

void json_put_raw(struct json_writer *w, const char *key, struct slice json)
{
    json_key(w, key);
    json_raw(w, json);
}

void json_put_id(struct json_writer *w, const char *key, int64_t id)
{
    json_key(w, key);
    json_id(w, id);
}

void json_put_time(struct json_writer *w, const char *key, int64_t time_us)
{
    json_key(w, key);
    json_time(w, time_us);
}

void json_put_null(struct json_writer *w, const char *key)
{
    json_put_raw(w, key, (struct slice){ NULL, 0 });
}
