/* SPDX-License-Identifier: Apache-2.0
 *
 * news.h -- what the engine decided during one turn, on its way to the loop.
 *
 * It is written in the committer's thread, by the engine's hooks, and read in
 * the loop's, once.  All it holds is a copy in its own arena. */
#pragma once

#include "node/node.h"

struct news_item {
    enum { NEWS_STARTED, NEWS_STOP, NEWS_TOLD } type;
    struct news_item *next;
    union {
        struct started started;
        struct {
            int64_t job_id;
            int type;
        } stop;
        struct {
            struct event event;
            const char *queue, *project;
        } told;
    };
};

enum { NEWS_QUEUES = 64 };

struct news {
    struct letter letter; /* first */
    struct arena arena;
    struct news_item *first, **end;
    const char *ready[NEWS_QUEUES]; /* queues that may have work for remote workers */
    int64_t ready_ids[NEWS_QUEUES];
    size_t ready_count;
    bool ready_all; /* more than fit */
    bool deliveries_due, webhooks_changed;
    bool turned;
    struct node_status status;
};

/* NULL if there is no memory. */
struct news *news_new(void);
void news_free(struct news *news);

/* Each false if there is no memory. */
must_check bool news_add_started(struct news *news, const struct started *run);
must_check bool news_add_stop(struct news *news, int64_t job_id, int type);
must_check bool news_add_told(struct news *news, const struct event *event,
                              const char *queue, const char *project);
void news_add_ready(struct news *news, int64_t queue_id, const char *queue);
