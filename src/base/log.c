/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c -- hands events on, and spells them. */
#include "log.h"

#include "text.h"

void log_fields(struct log *log, enum level level, const char *event,
                const struct log_field *fields)
{
    assert(event && fields);
    if (!log || level < log->least)
        return;
    assert(log->event);
    log->event(log, level, event, fields);
}

const char *level_name(enum level level)
{
    static const char *const names[] = { "debug", "info", "warn", "error" };

    assert((size_t)level < array_len(names));
    return names[level];
}

/* A value that every reader of logfmt takes as one word. */
static bool is_bare(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~' || strchr("\"\\=", text.p[i]))
            return false;
    return text.n > 0;
}

void log_line(struct buf *buf, int64_t time_us, enum level level, const char *event,
              const struct log_field *fields)
{
    char time[TIME_TEXT_BYTES];

    assert(event && fields);
    buf_printf(buf, "%s %s %s", time_text(time_us, time), level_name(level), event);
    for (const struct log_field *field = fields; field->key; field++) {
        buf_printf(buf, " %s=", field->key);
        if (field->type == LOG_INT)
            buf_int(buf, field->i);
        else if (is_bare(field->text))
            buf_add(buf, field->text);
        else
            buf_json(buf, field->text);
    }
    buf_byte(buf, '\n');
}

void log_line_json(struct buf *buf, int64_t time_us, enum level level, const char *event,
                   const struct log_field *fields)
{
    char time[TIME_TEXT_BYTES];

    assert(event && fields);
    buf_printf(buf,
               "{\"time\":\"%s\",\"level\":\"%s\",\"event\":", time_text(time_us, time),
               level_name(level));
    buf_json(buf, slice_of(event));
    for (const struct log_field *field = fields; field->key; field++) {
        buf_byte(buf, ',');
        buf_json(buf, slice_of(field->key));
        buf_byte(buf, ':');
        if (field->type == LOG_INT)
            buf_int(buf, field->i);
        else
            buf_json(buf, field->text);
    }
    buf_text(buf, "}\n");
}
