/* SPDX-License-Identifier: Apache-2.0
 *
 * http_figures.c -- a row per route, the last one for requests without. */
#include "api/http_figures.h"

#include <stdio.h>

#include "api/call.h"

/* More than a route ever answers with; the rest is counted as one. */
enum { STATUSES = 24, OTHER_STATUS = 0 };

struct route_figures {
    struct {
        int status;
        uint64_t count;
    } answers[STATUSES];
    size_t answer_count;
    struct histogram took;
};

struct http_figures {
    size_t count; /* of routes */
    struct route_figures *routes;
};

int http_figures_new(struct http_figures **ret)
{
    struct http_figures *figures = new (struct http_figures);
    if (!figures)
        return -HF_NOMEM;
    figures->count = route_index(NULL);
    figures->routes = calloc(figures->count + 1, sizeof(*figures->routes));
    if (!figures->routes) {
        free(figures);
        return -HF_NOMEM;
    }
    *ret = figures;
    return 0;
}

void http_figures_free(struct http_figures *figures)
{
    if (!figures)
        return;
    free(figures->routes);
    free(figures);
}

void http_figures_count(struct http_figures *figures, const struct route *route,
                        int status, int64_t took_us)
{
    struct route_figures *row = &figures->routes[route_index(route)];
    size_t i = 0;
    while (i < row->answer_count && row->answers[i].status != status)
        i++;
    if (i == STATUSES)
        row->answers[--i].status = OTHER_STATUS;
    else if (i == row->answer_count)
        row->answers[row->answer_count++].status = status;
    row->answers[i].count++;
    histogram_add_time(&row->took, took_us);
}

struct series {
    const char *method;
    char route[160];
};

static struct series series_of(const struct http_figures *figures, size_t i)
{
    const struct route *route = i < figures->count ? route_at(i) : NULL;
    struct series s = { .method = route ? http_method_name(route->method) : "(any)" };
    snprintf(s.route, sizeof(s.route), "%s%s",
             route && route->path[0] != '/' ? "/api/v1/" : "",
             route ? route->path : "(none)");
    return s;
}

void http_figures_write(const struct http_figures *figures, struct metrics *m)
{
    metrics_family(m, "holdfast_http_requests_total", METRIC_COUNTER,
                   "Requests answered, by route and status.");
    for (size_t i = 0; i <= figures->count; i++) {
        const struct route_figures *row = &figures->routes[i];
        struct series s = series_of(figures, i);
        for (size_t k = 0; k < row->answer_count; k++) {
            char status[12] = "(other)";
            if (row->answers[k].status != OTHER_STATUS)
                snprintf(status, sizeof(status), "%d", row->answers[k].status);
            metrics_int(m, (int64_t)row->answers[k].count,
                        LABELS("method", s.method, "route", s.route, "status", status));
        }
    }
    metrics_family(m, "holdfast_http_request_seconds", METRIC_HISTOGRAM,
                   "From a request's head to its answer, by route; waiting included.");
    for (size_t i = 0; i <= figures->count; i++) {
        struct series s = series_of(figures, i);
        if (figures->routes[i].answer_count > 0)
            metrics_histogram(m, &figures->routes[i].took, histogram_times,
                              LABELS("method", s.method, "route", s.route));
    }
}
