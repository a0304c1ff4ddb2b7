/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_slow_flush -- 64 threads enqueue, each waiting for its job to be on a disk
 * that needs 2 ms for a flush, beside a bare loop that inserts in groups of 64.
 *
 * The flush is defined here, and stands in the place of libc's: it waits and does
 * nothing.  So what is measured is how well commands share a commit.
 *
 *   bench_slow_flush [ROUNDS [PERCENT]]   sizes in percent of the usual */
#include "bare.h"
#include "producers.h"

enum { THREADS = 64, FLUSH_US = 2000 };

static int flushes;

int fdatasync(int fd)
{
    (void)fd;
    __atomic_fetch_add(&flushes, 1, __ATOMIC_RELAXED);
    bench_sleep_us(FLUSH_US);
    return 0;
}

static double engine_enqueues(int total, struct bench_series *groups)
{
    const char *path = bench_file();
    struct hf *hf = scheduler_on(path);
    struct tally before = tally_of(hf);
    double start = bench_now();
    int made = produce_all(hf, THREADS, total);
    double rate = made / (bench_now() - start);
    bench_add(groups, made / (double)(tally_of(hf).commits - before.commits));
    hf_close(hf);
    bench_drop_file(path);
    return rate;
}

static double bare_enqueues(int total)
{
    struct bare b;
    const char *path = bench_file();
    bare_open(&b, path, THREADS);
    double start = bench_now();
    for (int made = 0; made < total; made += THREADS)
        bare_enqueue(&b, THREADS, bench_payload, INT64_C(1800000000000000) + made);
    double rate = total / (bench_now() - start);
    bare_close(&b);
    bench_drop_file(path);
    return rate;
}

int main(int argc, char **argv)
{
    struct bench_series engine = { 0 }, bare = { 0 }, groups = { 0 };
    int rounds = bench_arg(argc, argv, 1, 5);
    int total = THREADS * (500 * bench_arg(argc, argv, 2, 100) / 100);
    bench_machine();
    for (int round = 0; round < rounds && round < BENCH_ROUNDS_MAX; round++) {
        bench_add(&engine, engine_enqueues(total, &groups));
        bench_add(&bare, bare_enqueues(total));
    }
    if (flushes == 0)
        bench_die("fdatasync", "was not called: the flush was not slow");
    printf("a flush of %d us, %d threads: %8.0f enqueues/s, groups of %.1f formed; bare "
           "loop in groups of %d: %8.0f\n",
           FLUSH_US, THREADS, bench_median(&engine), bench_median(&groups), THREADS,
           bench_median(&bare));
    bench_verdict(bench_ratio(&engine, &bare), 0.8);
    return 0;
}
