/* SPDX-License-Identifier: Apache-2.0
 *
 * heard.h -- what the log of a world said. */
#pragma once

#include "base/buf.h"
#include "world.h"

struct heard {
    struct log log; /* first: the callback casts */
    struct buf text;
};

static inline void heard_event(struct log *log, enum level level, const char *event,
                               const struct log_field *fields)
{
    log_line(&((struct heard *)log)->text, 0, level, event, fields);
}

static inline void heard_init(struct heard *heard)
{
    *heard = (struct heard){ .log = { LEVEL_DEBUG, heard_event } };
    buf_init(&heard->text, (size_t)16 << 20);
}

/* How many lines of the log hold `part`; *ret is the last one, in the arena. */
static inline int heard_lines(struct world *w, struct heard *heard, const char *part,
                              const char **ret)
{
    struct slice all = { 0 };
    int n = 0;
    check_ok(buf_end(&heard->text, &all));
    char *text = (char *)arena_dup(&w->arena, all).p;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        if (strstr(line, part)) {
            n++;
            if (ret)
                *ret = line;
        }
        line = end ? end + 1 : NULL;
    }
    return n;
}
