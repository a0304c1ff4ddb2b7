/* SPDX-License-Identifier: Apache-2.0
 *
 * explain_private.h -- what the files of explain share. */
#pragma once

#include "engine/explain/explain.h"

struct explaining {
    struct store *store;
    struct arena *arena;
    const struct explain_context *context;
    struct explanation *out;
    struct executors who;
};

/* One more reason; the format is a whole sentence. */
void explain_add(struct explaining *x, const char *code, int64_t until,
                 const char *format, ...) printf_like(4, 5);
void explain_summary(struct explaining *x, const char *format, ...) printf_like(2, 3);

/* What is missing behind somebody's words for a sentence: "." or "". */
const char *explain_stop(struct slice words);

/* explain_over.c: completed, failed, cancelled. */
must_check int explain_over(struct explaining *x);
