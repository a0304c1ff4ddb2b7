/* SPDX-License-Identifier: Apache-2.0
 *
 * news.c -- copies of what the hooks were told. */
#include "node/news.h"

/* A turn starts at most as many runs as there are slots; their payloads are
 * bounded by what one transaction may hold. */
#define NEWS_BYTES ((size_t)1 << 30)

struct news *news_new(void)
{
    struct news *news = new (struct news);
    if (!news)
        return NULL;
    arena_init(&news->arena, 4096, NEWS_BYTES);
    news->end = &news->first;
    return news;
}

void news_free(struct news *news)
{
    if (!news)
        return;
    arena_release(&news->arena);
    free(news);
}

static struct news_item *append(struct news *news, int type)
{
    struct news_item *item = arena_array(&news->arena, struct news_item, 1);
    if (!item)
        return NULL;
    *item = (struct news_item){ .type = type };
    *news->end = item;
    news->end = &item->next;
    return item;
}

static struct slice copy(struct news *news, struct slice text)
{
    return arena_dup(&news->arena, text);
}

bool news_add_started(struct news *news, const struct started *run)
{
    struct news_item *item = append(news, NEWS_STARTED);
    if (!item)
        return false;
    struct job *job = &item->started.job;
    item->started = *run;
    job->kind = copy(news, job->kind);
    job->payload = copy(news, job->payload);
    job->metadata = copy(news, job->metadata);
    job->unique_key = copy(news, job->unique_key);
    job->external_id = copy(news, job->external_id);
    return arena_end(&news->arena) == 0;
}

bool news_add_stop(struct news *news, int64_t job_id, int type)
{
    struct news_item *item = append(news, NEWS_STOP);
    if (!item)
        return false;
    item->stop.job_id = job_id;
    item->stop.type = type;
    return true;
}

bool news_add_told(struct news *news, const struct event *event, const char *queue,
                   const char *project)
{
    struct news_item *item = append(news, NEWS_TOLD);
    if (!item)
        return false;
    item->told.event = *event;
    item->told.event.type = copy(news, event->type);
    item->told.event.data = copy(news, event->data);
    item->told.queue = copy(news, slice_of(queue)).p;
    item->told.project = copy(news, slice_of(project)).p;
    return arena_end(&news->arena) == 0;
}

void news_add_ready(struct news *news, int64_t queue_id, const char *queue)
{
    for (size_t i = 0; i < news->ready_count; i++)
        if (news->ready_ids[i] == queue_id)
            return;
    const char *name =
        news->ready_count < NEWS_QUEUES ? copy(news, slice_of(queue)).p : NULL;
    if (!name) { /* more than fit: whoever waits looks */
        news->ready_all = true;
        return;
    }
    news->ready_ids[news->ready_count] = queue_id;
    news->ready[news->ready_count++] = name;
}
