/* SPDX-License-Identifier: Apache-2.0
 *
 * json_write.h -- writes JSON, with the commas in the right places.
 *
 * A writer appends to a buf, so nothing can fail visibly until the end:
 *
 *   struct json_writer w = json_writer(&buf);
 *   json_begin_object(&w);
 *   json_put_id(&w, "id", job->id);
 *   json_key(&w, "payload");
 *   json_raw(&w, job->payload);
 *   json_end_object(&w);
 *   json_finish(&w);
 *   r = buf_end(&buf, &text);
 *
 * What is misplaced (a value without its key, a bracket too many) is a defect
 * of the caller and asserted.
 *
 * An absent slice is written as null, so optional texts need no branch.
 *
 * Threads: as the buf. */
#pragma once

#include "base.h"
#include "buf.h"

struct json_writer {
    struct buf *buf;
    bool comma;       /* something stands before at this level */
    bool keyed;       /* a key waits for its value */
    int depth;        /* open arrays and objects, up to 63 */
    uint64_t objects; /* bit `depth`: that level is an object */
};

/* A writer of one value, behind what is in `buf` already. */
struct json_writer json_writer(struct buf *buf);

/* Asserts that exactly one whole value was written. */
void json_finish(const struct json_writer *w);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);

/* A key; a value must follow. */
void json_key(struct json_writer *w, const char *key);
void json_key_slice(struct json_writer *w, struct slice key);

/* Values: at the top, in an array, or behind a key. */
void json_str(struct json_writer *w, struct slice text); /* see buf_json() */
void json_int(struct json_writer *w, int64_t n);
void json_bool(struct json_writer *w, bool b);
/* A value that is JSON already: a payload, byte for byte. */
void json_raw(struct json_writer *w, struct slice json);
/* An id: a string of decimal digits, since many readers round numbers.  0 is
 * "not there", and null. */
void json_id(struct json_writer *w, int64_t id);
/* A time as RFC 3339; 0 is "not there", and null. */
void json_time(struct json_writer *w, int64_t time_us);

/* A key and its value in one line. */
void json_put_str(struct json_writer *w, const char *key, struct slice text);
void json_put_text(struct json_writer *w, const char *key, const char *text);
void json_put_int(struct json_writer *w, const char *key, int64_t n);
void json_put_bool(struct json_writer *w, const char *key, bool b);
void json_put_raw(struct json_writer *w, const char *key, struct slice json);
void json_put_id(struct json_writer *w, const char *key, int64_t id);
void json_put_time(struct json_writer *w, const char *key, int64_t time_us);
void json_put_null(struct json_writer *w, const char *key);
