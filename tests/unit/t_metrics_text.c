/* SPDX-License-Identifier: Apache-2.0
 *
 * Prometheus' text format, byte for byte; requests by route; the process in figures. */
#include "api/metrics_text.h"

#include "api/call.h"
#include "api/http_figures.h"
#include "base/process.h"
#include "test.h"

static struct buf out;
static struct metrics m = { .out = &out };

static void begin(void)
{
    buf_init(&out, 1 << 20);
}

static void check_written(const char *want)
{
    struct slice text = { 0 };
    check_ok(buf_end(&out, &text));
    check_slice(text, want);
    buf_release(&out);
}

static void check_has(struct slice text, const char *part)
{
    if (!memmem(text.p, text.n, part, strlen(part)))
        fail("\"%s\" is not in:\n%.*s", part, (int)text.n, text.p);
}

TEST(a_family_has_its_help_its_type_and_its_series)
{
    begin();
    metrics_family(&m, "a_total", METRIC_COUNTER, "Help.");
    metrics_int(&m, 7, NULL);
    metrics_int(&m, -8, LABELS("x", "1", "y", "2"));
    metrics_family(&m, "b_seconds", METRIC_GAUGE, "More.");
    metrics_seconds(&m, 1500000, NULL);
    metrics_seconds(&m, -1, NULL);
    check_written("# HELP a_total Help.\n# TYPE a_total counter\na_total 7\n"
                  "a_total{x=\"1\",y=\"2\"} -8\n"
                  "# HELP b_seconds More.\n# TYPE b_seconds gauge\nb_seconds 1.500000\n"
                  "b_seconds -0.000001\n");
}

TEST(what_is_in_a_label_stays_in_it)
{
    begin();
    metrics_family(&m, "a", METRIC_GAUGE, "Help.");
    metrics_int(&m, 1, LABELS("x", "q\"uo\\te\nd"));
    check_written("# HELP a Help.\n# TYPE a gauge\na{x=\"q\\\"uo\\\\te\\nd\"} 1\n");
}

TEST(buckets_of_a_histogram_add_up)
{
    struct histogram h = { 0 };
    struct slice text = { 0 };
    histogram_add(&h, histogram_sizes, 1);
    histogram_add(&h, histogram_sizes, 2);
    histogram_add(&h, histogram_sizes, 9000);
    begin();
    metrics_family(&m, "a", METRIC_HISTOGRAM, "Help.");
    metrics_histogram(&m, &h, histogram_sizes, LABELS("x", "y"));
    check_ok(buf_end(&out, &text));
    check_has(text, "a_bucket{x=\"y\",le=\"1\"} 1\na_bucket{x=\"y\",le=\"2\"} 2\n");
    check_has(text, "a_bucket{x=\"y\",le=\"5000\"} 2\na_bucket{x=\"y\",le=\"+Inf\"} 3\n"
                    "a_sum{x=\"y\"} 9003\na_count{x=\"y\"} 3\n");
    buf_reset(&out);
    metrics_histogram(&m, &(struct histogram){ .counts = { 1 }, .sum = 90 },
                      histogram_times, NULL);
    check_ok(buf_end(&out, &text));
    check_has(text, "a_bucket{le=\"0.0001\"} 1\n");
    check_has(text, "a_bucket{le=\"86400\"} 1\n");
    check_has(text, "a_sum 0.000090\na_count 1\n");
    buf_release(&out);
}

/* A route that answers with everything there is must not write past its row. */
TEST(statuses_of_a_route_are_bounded)
{
    struct http_figures *figures = NULL;
    struct slice text = { 0 };
    check_ok(http_figures_new(&figures));
    for (int status = 200; status < 300; status++)
        http_figures_count(figures, route_at(0), status, 1000);
    http_figures_count(figures, NULL, 404, 1000);
    begin();
    http_figures_write(figures, &m);
    check_ok(buf_end(&out, &text));
    check_has(text, "route=\"(none)\",status=\"404\"} 1\n");
    check_has(text, "status=\"200\"} 1\n");
    check_has(text, "status=\"(other)\"} 77\n");
    buf_release(&out);
    http_figures_free(figures);
}

TEST(the_process_is_in_figures)
{
    struct process_figures p;
    process_figures(&p);
    check(p.resident_bytes > 100 << 10 && p.virtual_bytes >= p.resident_bytes);
    check(p.open_fds >= 3 && p.max_fds >= p.open_fds);
    check(p.threads >= 1 && p.cpu_us >= 0);
    check(p.started_at > INT64_C(1500000000) * US_PER_S);
}
