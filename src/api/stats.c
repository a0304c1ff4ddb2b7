/* SPDX-License-Identifier: Apache-2.0
 *
 * stats.c -- the whole service in one answer: what there is, what this node did. */
#include "api/call.h"

#include <stdio.h>

/* Sums over all queues. */
static void put_jobs(struct json_writer *w, const struct queue_counts *list, size_t count)
{
    int64_t sum[COUNTERS] = { 0 }, live = 0, terminal = 0;

    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < COUNTERS; c++)
            sum[c] += list[i].count[c];
    json_key(w, "counts");
    json_begin_object(w);
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++) {
        int64_t n = sum[COUNT_ACCEPTED + state];
        json_put_int(w, job_state_name(state), n);
        live += job_state_live(state) ? n : 0;
        terminal += job_state_terminal(state) ? n : 0;
    }
    json_end_object(w);
    json_key(w, "totals"); /* accepted = live + terminal + pruned */
    json_begin_object(w);
    json_put_int(w, "accepted", sum[COUNT_ACCEPTED]);
    json_put_int(w, "live", live);
    json_put_int(w, "terminal", terminal);
    json_put_int(w, "pruned", sum[COUNT_PRUNED]);
    json_end_object(w);
}

/* Thousandths, so that a slow service does not show 0; a number without exponent. */
static void put_thousandths(struct json_writer *w, const char *key, uint64_t n)
{
    char text[40];
    snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(n / 1000),
             (unsigned long long)(n % 1000));
    json_put_raw(w, key, slice_of(text));
}

static void put_rate(struct json_writer *w, const char *key, uint64_t count,
                     int64_t uptime_us)
{
    int64_t ms = uptime_us / US_PER_MS;
    put_thousandths(w, key, ms > 0 ? count * 1000000 / (uint64_t)ms : 0);
}

static void put_mean(struct json_writer *w, const char *key, const struct histogram *h,
                     int64_t thousandths)
{
    uint64_t count = 0;
    for (size_t i = 0; i < array_len(h->counts); i++)
        count += h->counts[i];
    put_thousandths(w, key, count > 0 ? (uint64_t)(h->sum * thousandths) / count : 0);
}

static void put_node(struct json_writer *w, const struct node_status *s, size_t waiting,
                     int64_t now)
{
    const struct engine_totals *t = &s->totals;
    const struct engine_work *work = &t->work;
    int64_t uptime = now > s->started_at ? now - s->started_at : 0;

    json_key(w, "node");
    json_begin_object(w);
    json_put_id(w, "ownerId", s->owner_id);
    json_put_time(w, "startedAt", s->started_at);
    json_put_int(w, "uptimeMs", uptime / US_PER_MS);
    json_put_bool(w, "ready", s->ready);
    json_put_bool(w, "recovering", s->recovering);
    json_put_time(w, "throttledUntil", s->throttled_until > now ? s->throttled_until : 0);
    json_put_int(w, "running", (int64_t)s->run_count);
    json_put_int(w, "waitingClaims", (int64_t)waiting);
    json_put_int(w, "started", (int64_t)work->claims);
    json_put_int(w, "completed", (int64_t)work->completions);
    json_put_int(w, "failed", (int64_t)work->failures);
    json_put_int(w, "retried", (int64_t)work->retries);
    json_put_int(w, "lateResults", (int64_t)work->late_results);
    json_put_int(w, "commits", (int64_t)t->piles);
    json_put_int(w, "commands", (int64_t)t->commands);
    json_put_int(w, "largestBatch", (int64_t)t->largest_pile);
    put_mean(w, "meanBatch", &t->pile_size, 1000);
    put_mean(w, "meanCommitMs", &t->commit_time, 1); /* microseconds */
    json_key(w, "perSecond");                        /* since the start */
    json_begin_object(w);
    put_rate(w, "started", work->claims, uptime);
    put_rate(w, "completed", work->completions, uptime);
    put_rate(w, "failed", work->failures, uptime);
    put_rate(w, "commits", t->piles, uptime);
    json_end_object(w);
    json_end_object(w);
}

static int show_stats(struct store *store, struct show *show, struct json_writer *w)
{
    const struct api *api = show->call->api;
    struct queue_counts *list = NULL;
    struct node_status status;
    size_t count = 0;
    int r = store_counts(store, &show->arena, &list, &count);
    if (r < 0)
        return r;
    node_status(api->node, &status);
    json_begin_object(w);
    json_put_text(w, "version", api->options.version);
    put_jobs(w, list, count);
    put_node(w, &status, (size_t)show->id, clock_wall_us(api->options.clock));
    json_end_object(w);
    return 0;
}

static void get_stats(struct call *call)
{
    if (call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, (int64_t)call->api->claims.count, NULL, show_stats);
}

const struct route stats_routes[] = {
    { HTTP_GET, "stats", ROLE_VIEWER, get_stats, BODY_NONE, true },
    { 0 },
};
