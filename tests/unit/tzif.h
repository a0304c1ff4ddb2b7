/* SPDX-License-Identifier: Apache-2.0
 *
 * tzif.h -- makes zone files, also bad ones. */
#pragma once

#include "base/buf.h"
#include "base/tz.h"
#include "test.h"

/* What a file says.  Counts that are wrong on purpose are patched in afterwards. */
struct tzif {
    char version; /* '2'; 0 is the first */
    const int64_t *times;
    const uint8_t *kind_of;
    size_t time_count;
    struct {
        int32_t offset_s;
        bool is_dst;
        uint8_t word; /* where in `words` */
    } kinds[4];
    size_t kind_count;
    struct slice words; /* each ended by NUL */
    size_t leap_count;
    const char *footer; /* NULL: none, not even an empty line */
};

enum { TZIF_HEADER_BYTES = 44, TZIF_AT_LEAP = 28, TZIF_AT_TIME = 32, TZIF_AT_KIND = 36 };

static inline void tzif_number(struct buf *buf, int64_t value, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;)
        buf_byte(buf, (char)(value >> (8 * i)));
}

static inline void tzif_block(struct buf *buf, const struct tzif *file, size_t time_bytes)
{
    static const char nothing[15];

    buf_text(buf, "TZif");
    buf_byte(buf, file->version);
    buf_add(buf, (struct slice){ nothing, sizeof(nothing) });
    tzif_number(buf, 0, 4);
    tzif_number(buf, 0, 4);
    tzif_number(buf, (int64_t)file->leap_count, 4);
    tzif_number(buf, (int64_t)file->time_count, 4);
    tzif_number(buf, (int64_t)file->kind_count, 4);
    tzif_number(buf, (int64_t)file->words.n, 4);
    for (size_t i = 0; i < file->time_count; i++)
        tzif_number(buf, file->times[i], time_bytes);
    for (size_t i = 0; i < file->time_count; i++)
        buf_byte(buf, (char)file->kind_of[i]);
    for (size_t i = 0; i < file->kind_count; i++) {
        tzif_number(buf, file->kinds[i].offset_s, 4);
        buf_byte(buf, file->kinds[i].is_dst);
        buf_byte(buf, (char)file->kinds[i].word);
    }
    buf_add(buf, file->words);
    for (size_t i = 0; i < file->leap_count; i++) {
        tzif_number(buf, 78796800 + (int64_t)i, time_bytes);
        tzif_number(buf, (int64_t)i + 1, 4);
    }
}

/* The bytes live until the test ends. */
static inline struct slice tzif_make(const struct tzif *file)
{
    static struct buf buf;
    struct slice bytes;

    buf_release(&buf);
    buf_init(&buf, 1 << 20);
    tzif_block(&buf, file, 4);
    if (file->version >= '2')
        tzif_block(&buf, file, 8);
    if (file->footer)
        buf_printf(&buf, "\n%s\n", file->footer);
    check_ok(buf_end(&buf, &bytes));
    return bytes;
}

/* A file without any change, whose last line is `footer`. */
static inline struct slice tzif_of_rule(const char *footer)
{
    return tzif_make(&(struct tzif){ .version = '3',
                                     .kinds = { { 0, false, 0 } },
                                     .kind_count = 1,
                                     .words = SLICE("LMT\0"),
                                     .footer = footer });
}

static inline struct tz *tzif_read(struct slice bytes)
{
    struct error error = { 0 };
    struct tz *tz = NULL;

    if (tz_read(SLICE("Test/Zone"), bytes, &error, &tz) < 0)
        fail("%s", error.text);
    return tz;
}
