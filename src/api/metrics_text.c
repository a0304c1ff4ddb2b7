/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_text.c -- lines of Prometheus' text format. */
#include "api/metrics_text.h"

#include <stdio.h>

static const char *const type_names[] = {
    [METRIC_COUNTER] = "counter",
    [METRIC_GAUGE] = "gauge",
    [METRIC_HISTOGRAM] = "histogram",
};

void metrics_family(struct metrics *m, const char *name, enum metric_type type,
                    const char *help)
{
    m->name = name;
    buf_printf(m->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
               type_names[type]);
}

/* Ours need no escaping; what others name (a queue) may one day. */
static void add_label(struct buf *out, bool first, const char *name, const char *value)
{
    buf_text(out, first ? "{" : ",");
    buf_text(out, name);
    buf_text(out, "=\"");
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"')
            buf_byte(out, '\\');
        if (*p == '\n')
            buf_text(out, "\\n");
        else
            buf_byte(out, *p);
    }
    buf_byte(out, '"');
}

/* The beginning of a line: the name with its suffix, the labels, and `le` if it is a
 * bucket's. */
static void begin_line(struct metrics *m, const char *suffix, const char *const *labels,
                       const char *le)
{
    bool first = true;
    buf_text(m->out, m->name);
    buf_text(m->out, suffix);
    for (; labels && *labels; labels += 2, first = false)
        add_label(m->out, first, labels[0], labels[1]);
    if (le)
        add_label(m->out, first, "le", le);
    if (!first || le)
        buf_byte(m->out, '}');
    buf_byte(m->out, ' ');
}

static void add_seconds(struct buf *out, int64_t us)
{
    buf_printf(out, "%s%lld.%06lld", us < 0 ? "-" : "",
               (long long)(us < 0 ? -us : us) / US_PER_S,
               (long long)(us < 0 ? -us : us) % US_PER_S);
}

void metrics_int(struct metrics *m, int64_t value, const char *const *labels)
{
    begin_line(m, "", labels, NULL);
    buf_printf(m->out, "%lld\n", (long long)value);
}

void metrics_seconds(struct metrics *m, int64_t value_us, const char *const *labels)
{
    begin_line(m, "", labels, NULL);
    add_seconds(m->out, value_us);
    buf_byte(m->out, '\n');
}

static void add_bucket(struct metrics *m, const char *const *labels, const char *le,
                       uint64_t count)
{
    begin_line(m, "_bucket", labels, le);
    buf_printf(m->out, "%llu\n", (unsigned long long)count);
}

void metrics_histogram(struct metrics *m, const struct histogram *histogram,
                       const int64_t *bounds, const char *const *labels)
{
    bool times = bounds == histogram_times;
    uint64_t count = 0;
    char le[32];

    for (size_t i = 0; i < HISTOGRAM_BOUNDS && bounds[i]; i++) {
        count += histogram->counts[i];
        snprintf(le, sizeof(le), "%.10g",
                 times ? (double)bounds[i] / (double)US_PER_S : (double)bounds[i]);
        add_bucket(m, labels, le, count);
    }
    count += histogram->counts[HISTOGRAM_BOUNDS];
    add_bucket(m, labels, "+Inf", count);
    begin_line(m, "_sum", labels, NULL);
    if (times)
        add_seconds(m->out, histogram->sum);
    else
        buf_int(m->out, histogram->sum);
    buf_byte(m->out, '\n');
    begin_line(m, "_count", labels, NULL);
    buf_printf(m->out, "%llu\n", (unsigned long long)count);
}
