/* SPDX-License-Identifier: Apache-2.0
 *
 * log_stderr.c */
#include "daemon/log_stderr.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"

static void write_event(struct log *log, enum level level, const char *event,
                        const struct log_field *fields)
{
    const struct log_stderr *self = (const struct log_stderr *)log;
    struct buf line;
    struct slice text;

    buf_init(&line, LIMIT_LOG_LINE_BYTES);
    (self->json ? log_line_json : log_line)(&line, clock_wall_us(&clock_system), level,
                                            event, fields);
    if (buf_end(&line, &text) == 0)
        (void)!write(STDERR_FILENO, text.p, text.n);
    buf_release(&line);
}

void log_stderr_init(struct log_stderr *log, enum level least, bool json)
{
    *log = (struct log_stderr){ .log = { .least = least, .event = write_event },
                                .json = json };
}

void log_stderr_set(struct log_stderr *log, enum level least, bool json)
{
    atomic_store(&log->log.least, least);
    atomic_store(&log->json, json);
}
