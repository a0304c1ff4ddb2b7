/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c -- /metrics: what there is, what this node does, what it costs.
 *
 * A reader gathers what stands in the store; the rest is at hand.  A store that
 * cannot be read is a figure, too: the answer then lacks the jobs and says so, since
 * a scrape that fails tells nobody why.  docs/METRICS.md lists every name, and a test
 * holds it to the answer. */
#include "api/metrics_text.h"

#include <stddef.h>

#include "api/call.h"
#include "api/http_figures.h"
#include "base/limits.h"
#include "base/process.h"
#include "engine/recovery/recovery.h"
#include "store/webhooks.h"

enum { PENDING_LOOKED_AT = 10000 };

/* ---- gathered in the reader's thread ---- */

struct queue_line {
    char name[LIMIT_NAME_BYTES + 1];
    bool paused;
    int64_t count[COUNTERS];
};

struct scrape {
    struct look look; /* first */
    struct call *call;
    struct arena arena;
    struct queue_line *queues; /* the oldest, then one for all others */
    size_t queue_count;
    int64_t overdue_at; /* deadline of the run that is over it the longest; 0 */
    int64_t pending;    /* deliveries; at most PENDING_LOOKED_AT */
    int64_t pending_since;
};

static const struct queue_counts *counts_of(const struct queue_counts *list, size_t count,
                                            int64_t queue_id)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].queue_id == queue_id)
            return &list[i];
    return NULL;
}

/* Names of queues are users' to choose, so their number is bounded.  The oldest have
 * series of their own and keep them: a series that moved would not be monotone. */
static void add_queue(struct scrape *scrape, const struct queue *queue,
                      const struct queue_counts *counts)
{
    bool own = scrape->queue_count < LIMIT_METRIC_QUEUES;
    struct queue_line *line = &scrape->queues[scrape->queue_count];
    if (own) {
        scrape->queue_count++;
        memcpy(line->name, queue->name, sizeof(line->name));
        line->paused = queue->paused;
    } else {
        memcpy(line->name, "(other)", sizeof("(other)"));
        line->paused = line->paused || queue->paused;
    }
    for (int c = 0; counts && c < COUNTERS; c++)
        line->count[c] += counts->count[c];
}

static int gather(struct store *store, struct look *look)
{
    struct scrape *scrape = (struct scrape *)look;
    struct queue_counts *counts = NULL;
    size_t count = 0;
    int64_t overdue_at = 0;

    arena_reset(&scrape->arena);
    scrape->queue_count = 0;
    int64_t now = clock_wall_us(scrape->call->api->options.clock);
    scrape->queues =
        arena_array(&scrape->arena, struct queue_line, LIMIT_METRIC_QUEUES + 1);
    int r = scrape->queues ? store_queues_reload(store) : -HF_NOMEM;
    if (r == 0)
        r = store_counts(store, &scrape->arena, &counts, &count);
    if (r == 0)
        r = store_run_overdue(store, now, &overdue_at);
    if (r == 0)
        r = store_deliveries_pending(store, PENDING_LOOKED_AT, &scrape->pending,
                                     &scrape->pending_since);
    if (r < 0)
        return r;
    memset(scrape->queues, 0, (LIMIT_METRIC_QUEUES + 1) * sizeof(*scrape->queues));
    for (size_t i = 0; i < store->queue_count; i++) {
        const struct queue *queue = &store->queues[i]->queue;
        if (queue->name[0])
            add_queue(scrape, queue, counts_of(counts, count, queue->id));
    }
    if (scrape->queues[LIMIT_METRIC_QUEUES].name[0])
        scrape->queue_count++;
    scrape->overdue_at = overdue_at;
    return 0;
}

/* ---- written in the loop's thread ---- */

static void write_count(struct metrics *m, const struct scrape *scrape, const char *name,
                        enum counter counter, const char *help)
{
    metrics_family(m, name, METRIC_COUNTER, help);
    for (size_t i = 0; i < scrape->queue_count; i++)
        metrics_int(m, scrape->queues[i].count[counter],
                    LABELS("queue", scrape->queues[i].name));
}

static void write_jobs(struct metrics *m, const struct scrape *scrape, int64_t now)
{
    metrics_family(m, "holdfast_jobs", METRIC_GAUGE, "Jobs by queue and state.");
    for (size_t i = 0; i < scrape->queue_count; i++)
        for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
            metrics_int(
                m, scrape->queues[i].count[COUNT_ACCEPTED + state],
                LABELS("queue", scrape->queues[i].name, "state", job_state_name(state)));
    write_count(m, scrape, "holdfast_jobs_accepted_total", COUNT_ACCEPTED,
                "Jobs ever accepted, retries included.");
    write_count(m, scrape, "holdfast_jobs_pruned_total", COUNT_PRUNED,
                "Jobs that retention has removed.");
    metrics_family(m, "holdfast_queue_paused", METRIC_GAUGE, "1 while it is paused.");
    for (size_t i = 0; i < scrape->queue_count; i++)
        metrics_int(m, scrape->queues[i].paused, LABELS("queue", scrape->queues[i].name));
    metrics_family(m, "holdfast_oldest_overdue_run_age_seconds", METRIC_GAUGE,
                   "Since the deadline of the run that is over it the longest; 0: none.");
    metrics_seconds(m, scrape->overdue_at ? now - scrape->overdue_at : 0, NULL);
    metrics_family(m, "holdfast_deliveries_pending", METRIC_GAUGE,
                   "Deliveries to webhooks that are on their way; counted to 10,000.");
    metrics_int(m, scrape->pending, NULL);
    metrics_family(m, "holdfast_oldest_pending_delivery_age_seconds", METRIC_GAUGE,
                   "Since the event of the oldest of those; 0: none.");
    metrics_seconds(m, scrape->pending_since ? now - scrape->pending_since : 0, NULL);
}

/* The plain counters of the engine. */
#define TOTAL(name, field, help)                                                         \
    {                                                                                    \
        name, offsetof(struct engine_totals, field), help                                \
    }
static const struct {
    const char *name;
    size_t offset;
    const char *help;
} totals[] = {
    TOTAL("holdfast_jobs_enqueued_total", work.enqueued,
          "Jobs enqueued through this node."),
    TOTAL("holdfast_runs_started_total", work.claims,
          "Runs started, on this node or claimed through it."),
    TOTAL("holdfast_retries_total", work.retries, "Retries made."),
    TOTAL("holdfast_run_timeouts_total", work.timeouts,
          "Runs that were failed because their deadline had passed."),
    TOTAL("holdfast_stale_runs_total", work.stale,
          "Warnings about runs older than their queue's stale_after_ms."),
    TOTAL("holdfast_late_results_total", work.late_results,
          "Results refused because their run had ended, kept as events."),
    TOTAL("holdfast_endpoint_duplicate_starts_total", work.duplicate_starts,
          "Endpoints that started again within 5 seconds of their last start."),
    TOTAL("holdfast_owners_died_total", work.reaped_owners,
          "Nodes and workers judged dead."),
    TOTAL("holdfast_node_lease_lost_total", rebirths,
          "Times this node was judged dead by another, or could not prove otherwise."),
    TOTAL("holdfast_clock_jumps_total", jumps, "Jumps of the clock, and suspends."),
    TOTAL("holdfast_recovered_jobs_total", recovered, "Jobs that recoveries resolved."),
    TOTAL("holdfast_sweeps_total", sweeps, "Sweeps for runs without a live owner."),
    TOTAL("holdfast_zombies_swept_total", swept, "Runs that sweeps found and failed."),
    TOTAL("holdfast_commands_total", commands, "Commands applied."),
    TOTAL("holdfast_deliveries_total", work.deliveries,
          "Deliveries to webhooks that were written through this node."),
    TOTAL("holdfast_deliveries_failed_total", work.deliveries_lost,
          "Deliveries that have failed for good."),
    TOTAL("holdfast_webhooks_paused_total", work.webhooks_paused,
          "Webhooks that were paused because they kept failing."),
    TOTAL("holdfast_webhooks_disabled_total", work.webhooks_disabled,
          "Webhooks whose receiver said that it is gone."),
    TOTAL("holdfast_batches_reapplied_total", second_passes,
          "Batches applied a second time, command by command, after one of them failed."),
};

static void write_tries(struct metrics *m, const struct engine_work *work)
{
    metrics_family(m, "holdfast_delivery_tries_total", METRIC_COUNTER,
                   "Tries to deliver an event to a webhook, by outcome.");
    metrics_int(m, (int64_t)work->delivered, LABELS("outcome", "delivered"));
    metrics_int(m, (int64_t)work->delivery_failures, LABELS("outcome", "failed"));
    metrics_family(m, "holdfast_delivery_seconds", METRIC_HISTOGRAM,
                   "From the start of a try to its end.");
    metrics_histogram(m, &work->delivery_time, histogram_times, NULL);
}

static void write_totals(struct metrics *m, const struct engine_totals *t)
{
    for (size_t i = 0; i < array_len(totals); i++) {
        uint64_t value;
        memcpy(&value, (const char *)t + totals[i].offset, sizeof(value));
        metrics_family(m, totals[i].name, METRIC_COUNTER, totals[i].help);
        metrics_int(m, (int64_t)value, NULL);
    }
    metrics_family(m, "holdfast_runs_failed_total", METRIC_COUNTER,
                   "Runs that failed, by the type of their error.");
    for (int type = ERROR_NONE + 1; type <= ERROR_TYPE_MAX; type++)
        metrics_int(m, (int64_t)t->work.failures_by[type],
                    LABELS("type", error_type_name(type)));
    metrics_family(m, "holdfast_recoveries_total", METRIC_COUNTER,
                   "Recoveries that came to their end, by occasion.");
    for (int type = RECOVERY_START; type <= RECOVERY_MANUAL; type++)
        metrics_int(m, (int64_t)t->recoveries[type],
                    LABELS("type", recovery_type_name(type)));
}

/* A run is a lock on its job: nobody else may execute it until it ends. */
static void write_locks(struct metrics *m, const struct engine_work *w)
{
    const struct {
        const char *action;
        uint64_t count;
    } rows[] = { { "taken", w->claims },
                 { "extended", w->locks_extended },
                 { "released", w->completions + w->locks_released },
                 { "expired", w->locks_expired } };
    metrics_family(m, "holdfast_locks_total", METRIC_COUNTER,
                   "Runs begun, kept by their owner's beat, ended, and ended because "
                   "their time or their owner's was over.");
    for (size_t i = 0; i < array_len(rows); i++)
        metrics_int(m, (int64_t)rows[i].count, LABELS("action", rows[i].action));
}

static void write_fires(struct metrics *m, const struct engine_work *w)
{
    metrics_family(m, "holdfast_fires_total", METRIC_COUNTER,
                   "Fire times of schedules that this node dealt with, by outcome.");
    for (int outcome = FIRE_RAN; outcome <= FIRE_MISSED; outcome++)
        metrics_int(m, (int64_t)w->fires[outcome],
                    LABELS("outcome", fire_outcome_name(outcome)));
    metrics_family(m, "holdfast_fire_lateness_seconds", METRIC_HISTOGRAM,
                   "From a fire time to when its job was made.");
    metrics_histogram(m, &w->fire_lateness, histogram_times, NULL);
}

/* No histograms: a hundred kinds times all buckets would be too much to keep. */
static void write_kinds(struct metrics *m, struct node *node)
{
    struct kind_total kinds[KIND_PLACES];
    size_t count = node_kinds(node, kinds);

    metrics_family(m, "holdfast_kind_runs_total", METRIC_COUNTER,
                   "Runs that have ended, by kind and outcome.");
    for (size_t i = 0; i < count; i++)
        for (int o = 0; o < RUN_OUTCOMES; o++)
            metrics_int(m, (int64_t)kinds[i].runs[o],
                        LABELS("kind", kinds[i].kind, "outcome",
                               job_state_name(JOB_COMPLETED + o)));
    metrics_family(m, "holdfast_kind_run_seconds_total", METRIC_COUNTER,
                   "What those runs took, from their start to their end.");
    for (size_t i = 0; i < count; i++)
        for (int o = 0; o < RUN_OUTCOMES; o++)
            metrics_seconds(m, kinds[i].ran_us[o],
                            LABELS("kind", kinds[i].kind, "outcome",
                                   job_state_name(JOB_COMPLETED + o)));
}

static void write_histograms(struct metrics *m, const struct engine_totals *t)
{
    metrics_family(m, "holdfast_queue_wait_seconds", METRIC_HISTOGRAM,
                   "From when a job was due to its start.");
    metrics_histogram(m, &t->work.waited, histogram_times, NULL);
    metrics_family(m, "holdfast_run_seconds", METRIC_HISTOGRAM,
                   "From the start of a run to its end, by outcome.");
    for (int i = 0; i < RUN_OUTCOMES; i++)
        metrics_histogram(m, &t->work.ran[i], histogram_times,
                          LABELS("outcome", job_state_name(JOB_COMPLETED + i)));
    metrics_family(m, "holdfast_recovery_seconds", METRIC_HISTOGRAM,
                   "From the beginning of a recovery to its end.");
    metrics_histogram(m, &t->recovery_time, histogram_times, NULL);
    metrics_family(m, "holdfast_commit_seconds", METRIC_HISTOGRAM,
                   "What a COMMIT of the store took.");
    metrics_histogram(m, &t->commit_time, histogram_times, NULL);
    metrics_family(m, "holdfast_batch_commands", METRIC_HISTOGRAM,
                   "Commands that shared one transaction.");
    metrics_histogram(m, &t->pile_size, histogram_sizes, NULL);
}

static void write_gauge(struct metrics *m, const char *name, int64_t value,
                        const char *help)
{
    metrics_family(m, name, METRIC_GAUGE, help);
    metrics_int(m, value, NULL);
}

static void write_node(struct metrics *m, const struct node_status *s, int64_t now)
{
    write_gauge(m, "holdfast_ready", s->ready && !s->broken && !s->away,
                "1: workers may start.");
    write_gauge(m, "holdfast_store_writable", !s->broken && !s->away,
                "1: the store takes what is written; 0: it did not, and is tried again.");
    write_gauge(m, "holdfast_recovering", s->recovering, "1: a recovery is under way.");
    write_gauge(m, "holdfast_throttled", s->throttled_until > now,
                "1: old work is held back after a start that recovered something.");
    write_gauge(m, "holdfast_node_runs", (int64_t)s->run_count,
                "Runs that this node executes now.");
    metrics_family(m, "holdfast_lease_seconds", METRIC_GAUGE,
                   "What is left of this node's lease; 0 where it needs none.");
    metrics_seconds(m, s->lease_until > 0 ? s->lease_until - now : 0, NULL);
}

static void write_server(struct metrics *m, const struct http_stats *s)
{
    static const struct {
        const char *name;
        size_t offset;
        const char *help;
    } rows[] = {
        { "holdfast_http_connections_accepted_total",
          offsetof(struct http_stats, connections_total), "Connections accepted." },
        { "holdfast_http_connections_refused_total",
          offsetof(struct http_stats, connections_over),
          "Connections turned away, for there were too many." },
        { "holdfast_http_refused_total", offsetof(struct http_stats, refused_total),
          "Requests refused before they got to a route: no acceptable HTTP." },
        { "holdfast_http_timeouts_total", offsetof(struct http_stats, timeouts_total),
          "Connections that were too slow." },
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        uint64_t value;
        memcpy(&value, (const char *)s + rows[i].offset, sizeof(value));
        metrics_family(m, rows[i].name, METRIC_COUNTER, rows[i].help);
        metrics_int(m, (int64_t)value, NULL);
    }
    write_gauge(m, "holdfast_http_connections", (int64_t)s->connections,
                "Connections open now.");
    write_gauge(m, "holdfast_http_requests_under_way", (int64_t)s->requests_under_way,
                "Requests that are not answered yet, this one included.");
}

/* Named as every Prometheus client names them. */
static void write_process(struct metrics *m)
{
    struct process_figures p;
    process_figures(&p);
    metrics_family(m, "process_cpu_seconds_total", METRIC_COUNTER,
                   "Processor time, user and system.");
    metrics_seconds(m, p.cpu_us, NULL);
    write_gauge(m, "process_resident_memory_bytes", p.resident_bytes,
                "Memory that is in use.");
    write_gauge(m, "process_virtual_memory_bytes", p.virtual_bytes,
                "Memory that is mapped.");
    write_gauge(m, "process_open_fds", p.open_fds, "Open file descriptors.");
    write_gauge(m, "process_max_fds", p.max_fds, "How many may be open.");
    write_gauge(m, "process_threads", p.threads, "Threads.");
    metrics_family(m, "process_start_time_seconds", METRIC_GAUGE,
                   "When the process started, since 1970.");
    metrics_seconds(m, p.started_at, NULL);
}

static void write_all(struct metrics *m, const struct scrape *scrape)
{
    const struct api *api = scrape->call->api;
    int64_t now = clock_wall_us(api->options.clock);
    struct node_status status;
    struct http_stats stats = { 0 };

    node_status(api->node, &status);
    if (api->server)
        http_server_stats(api->server, &stats);
    metrics_family(m, "holdfast_build_info", METRIC_GAUGE, "1, with the version.");
    metrics_int(m, 1, LABELS("version", api->options.version));
    write_gauge(m, "holdfast_store_up", scrape->look.result == 0,
                "1: the store could be read for this answer; 0: jobs are missing here.");
    if (scrape->look.result == 0)
        write_jobs(m, scrape, now);
    write_node(m, &status, now);
    write_totals(m, &status.totals);
    write_tries(m, &status.totals.work);
    write_locks(m, &status.totals.work);
    write_fires(m, &status.totals.work);
    write_kinds(m, api->node);
    write_histograms(m, &status.totals);
    http_figures_write(api->http_figures, m);
    write_server(m, &stats);
    write_process(m);
}

static void answer(struct scrape *scrape)
{
    struct call *call = scrape->call;
    struct slice text = { 0 };
    struct buf out;
    struct metrics m = { .out = &out };

    buf_init(&out, (size_t)8 << 20);
    write_all(&m, scrape);
    arena_release(&scrape->arena); /* the scrape itself is the call's */
    int r = buf_end(&out, &text);
    if (r == 0)
        http_answer(call->request, &(struct http_answer){
                                       .status = 200,
                                       .type = "text/plain; version=0.0.4; charset=utf-8",
                                       .body = text });
    else
        call_refuse_with(call, r, NULL, "There is no memory left; try again.");
    buf_release(&out);
}

static void gathered(struct look *look)
{
    answer((struct scrape *)look);
}

static void get_metrics(struct call *call)
{
    struct scrape *scrape = arena_new(call->arena, struct scrape);
    if (!scrape) {
        call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left; try again.");
        return;
    }
    *scrape =
        (struct scrape){ .look = { .ask = gather, .done = gathered }, .call = call };
    arena_init(&scrape->arena, 4096, (size_t)16 << 20);
    int r = node_look(call->api->node, READER_LONG, &scrape->look);
    if (r == 0)
        return;
    scrape->look.result = r; /* too many look already: the rest is still worth it */
    answer(scrape);
}

const struct route metrics_routes[] = {
    { HTTP_GET, "/metrics", ROLE_VIEWER, get_metrics, BODY_NONE, true },
    { 0 },
};
