/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h -- one event, one line, to whoever wants to hear it.
 *
 * Why it exists: a library may not print.  Code that has something to tell
 * gets a `struct log *`; the daemon's writes to standard error, an embedding
 * program's goes where it likes, a test's collects, and NULL is silence.
 *
 * An event has a level, a name that does not change from release to release
 * (people search for it), and fields:
 *
 *   log_event(log, LEVEL_WARN, "lease_lost", log_int("job", id),
 *             log_text("owner", owner));
 *
 * which reads, through log_line():
 *
 *   2026-08-01T12:34:56.789Z warn lease_lost job=42 owner="node 3"
 *
 * Secrets are never fields.  Only daemon and cli log above LEVEL_DEBUG what is
 * not an event of the engine.
 *
 * Threads: as the sink allows; the standard ones write a line with one call. */
#pragma once

#include "base.h"
#include "buf.h"

enum level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR };

/* Build with the makers below. */
struct log_field {
    const char *key; /* [a-z_]+; NULL ends a list */
    enum { LOG_INT, LOG_TEXT } type;
    int64_t i;
    struct slice text; /* borrowed; absent is an empty value */
};

/* Embed it first in a sink of your own. */
struct log {
    _Atomic enum level least; /* what is below is not even built; may change any time */
    /* Gets every event from `least` on.  Fields end with a NULL key. */
    void (*event)(struct log *log, enum level level, const char *event,
                  const struct log_field *fields);
};

static inline struct log_field log_int(const char *key, int64_t i)
{
    return (struct log_field){ .key = key, .type = LOG_INT, .i = i };
}
static inline struct log_field log_slice(const char *key, struct slice text)
{
    return (struct log_field){ .key = key, .type = LOG_TEXT, .text = text };
}
static inline struct log_field log_text(const char *key, const char *text)
{
    return log_slice(key, slice_of(text));
}

/* Tells `log`, which may be NULL, an event with any number of fields. */
#ifdef __cppcheck__ /* it does not know __VA_OPT__ */
#define log_event(log, level, ...) ((void)(log), (void)(level))
#else
#define log_event(log, level, event, ...)                                                \
    log_fields((log), (level), (event),                                                  \
               (const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ .key = NULL } })
#endif
void log_fields(struct log *log, enum level level, const char *event,
                const struct log_field *fields);

/* "debug", "info", "warn", "error". */
const char *level_name(enum level level);

/* Appends the event as logfmt, or as one JSON object, and a newline.  Neither
 * can be made to span two lines, whatever the fields hold. */
void log_line(struct buf *buf, int64_t time_us, enum level level, const char *event,
              const struct log_field *fields);
void log_line_json(struct buf *buf, int64_t time_us, enum level level, const char *event,
                   const struct log_field *fields);
