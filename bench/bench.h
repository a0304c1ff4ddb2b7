/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h -- what every benchmark needs: a clock, a place for its files, the
 * machine's name, medians.
 *
 * The figures of one machine at one moment mean little; the RATIO of two loops
 * that took turns in the same minutes means something.  So every benchmark runs
 * in rounds, each round runs all that is compared, one right after the other, and
 * what is printed are medians over the rounds.  Nothing is asserted: the target
 * stands at the end of its line. */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/base.h"

enum { BENCH_ROUNDS = 3, BENCH_ROUNDS_MAX = 64 };

/* A hundred bytes, as a small job would have. */
static const char bench_payload[] =
    "{\"url\":\"https://example.com/some/page/with/a/path.html\",\"depth\":300,"
    "\"tags\":[\"alpha\",\"beta\",\"gamma\"]}";
static_assert(sizeof(bench_payload) == 101, "a hundred bytes");

static inline _Noreturn void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of processor time: CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID.
 * What others do on the machine at the same time hardly changes these. */
static inline double bench_cpu(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void bench_sleep_us(int64_t us)
{
    nanosleep(
        &(struct timespec){ .tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000 },
        NULL);
}

/* Every benchmark says what it ran on. */
static inline void bench_machine(void)
{
    struct utsname u;
    double load[1] = { 0 };
    uname(&u);
    (void)!getloadavg(load, 1);
    printf("machine: %s %s, %ld cores, SQLite %s, load %.1f at the start\n", u.sysname,
           u.machine, sysconf(_SC_NPROCESSORS_ONLN), sqlite3_libversion(), load[0]);
    if (load[0] > (double)sysconf(_SC_NPROCESSORS_ONLN) / 2)
        printf(
            "         others work here too: rates, and what is met by them, mean little; "
            "go by processor time\n");
    fflush(stdout);
}

/* The argument of that number, or the default. */
static inline int bench_arg(int argc, char **argv, int number, int otherwise)
{
    int given = argc > number ? (int)strtol(argv[number], NULL, 10) : 0;
    return given > 0 ? given : otherwise;
}

/* ---- files ---- */

static char bench_folder[4096];
static pid_t bench_owner; /* a child leaves the folder alone */

static inline int bench_remove_entry(const char *path, const struct stat *st, int type,
                                     struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static inline void bench_clean_up(void)
{
    if (getpid() == bench_owner)
        nftw(bench_folder, bench_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of a new database file; all of them are gone at the end. */
static inline const char *bench_file(void)
{
    static char paths[64][4200];
    static int next;
    if (!bench_folder[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(bench_folder, sizeof(bench_folder), "%.4000s/hf-bench.XXXXXX",
                 base ? base : "/tmp");
        if (!mkdtemp(bench_folder))
            bench_die(bench_folder, "cannot be made");
        bench_owner = getpid();
        atexit(bench_clean_up);
    }
    char *path = paths[next % 64];
    snprintf(path, sizeof(paths[0]), "%s/%d.db", bench_folder, next++);
    return path;
}

/* Frees the disk early, where a database is large or there are many. */
static inline void bench_drop_file(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-lock" };
    for (size_t i = 0; i < array_len(suffixes); i++) {
        char name[4300];
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

/* ---- rounds ---- */

struct bench_series {
    double values[BENCH_ROUNDS_MAX];
    int count;
};

static inline void bench_add(struct bench_series *s, double value)
{
    assert(s->count < BENCH_ROUNDS_MAX);
    s->values[s->count++] = value;
}

static inline int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(const struct bench_series *s)
{
    double sorted[BENCH_ROUNDS_MAX];
    if (s->count == 0)
        return 0;
    memcpy(sorted, s->values, sizeof(sorted));
    qsort(sorted, (size_t)s->count, sizeof(*sorted), bench_by_value);
    int middle = s->count / 2;
    return s->count % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/* The median of the rounds' own ratios: what disturbed one round disturbed both. */
static inline double bench_ratio(const struct bench_series *a,
                                 const struct bench_series *b)
{
    struct bench_series ratios = { .count = 0 };
    assert(a->count == b->count);
    for (int i = 0; i < a->count; i++)
        bench_add(&ratios, b->values[i] > 0 ? a->values[i] / b->values[i] : 0);
    return bench_median(&ratios);
}

/* The last word of each comparison: a ratio that should be reached, or a measure
 * that should stay below. */
static inline void bench_verdict(double ratio, double target)
{
    printf("             ratio %.2f, target %.2f: %s\n", ratio, target,
           ratio >= target ? "met" : "missed");
    fflush(stdout);
}

static inline void bench_limit(const char *what, double value, double limit)
{
    printf("             %s %.1f, target below %.0f: %s\n", what, value, limit,
           value < limit ? "met" : "missed");
    fflush(stdout);
}

/* The value below which `share` of the sorted values lie. */
static inline double bench_quantile(const double *sorted, size_t count, double share)
{
    if (count == 0)
        return 0;
    size_t at = (size_t)((double)count * share);
    return sorted[at < count ? at : count - 1];
}

/* ---- what the kernel knows ---- */

/* A number behind a word in a file of /proc; -1 if it cannot be read. */
static inline int64_t bench_proc(const char *path, const char *word)
{
    char line[256];
    int64_t value = -1;
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    while (value < 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, word, strlen(word)) == 0)
            value = strtoll(line + strlen(word), NULL, 10);
    fclose(f);
    return value;
}

static inline int64_t bench_rss_kib(void)
{
    return bench_proc("/proc/self/status", "VmRSS:");
}

static inline int64_t bench_write_calls(void)
{
    return bench_proc("/proc/self/io", "syscw:");
}
