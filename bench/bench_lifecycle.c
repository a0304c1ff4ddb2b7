/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_lifecycle -- enqueue, claim, finish, through holdfast.h with 1, 8, 64
 * and 256 threads, beside the bare loop in the same rounds.
 *
 * N threads enqueue, each waiting until its job is on disk before it makes the
 * next; N workers execute handlers that do nothing.  Commands that arrive
 * during a commit share the next one, and one commit may enqueue some jobs, begin
 * others and finish others still.  The GROUP THAT FORMED is counted in the bare
 * loop's terms, three commits for so many lifecycles, and the bare loop at that
 * very group is what the rate is compared with.  One thread is compared with the
 * bare loop at group 1, whatever formed.
 *
 * On a machine that others use too, rates depend on who gets how many turns.  So
 * processor time per lifecycle stands beside them: of the bare loop, of the
 * committer's thread (what bounds the rate where there are cores enough), and of
 * all threads together.
 *
 *   bench_lifecycle [ROUNDS [PERCENT [THREADS]]]   sizes in percent of the usual */
#include <stdatomic.h>

#include "bare.h"
#include "producers.h"

static atomic_int executed;
static int percent = 100;

static int handle(struct hf_run *run, void *arg)
{
    (void)run;
    (void)arg;
    atomic_fetch_add_explicit(&executed, 1, memory_order_relaxed);
    return 0;
}

static struct hf *open_with(const char *path, int threads)
{
    struct hf_handler handlers[] = { { .kind = "bench", .handle = handle } };
    struct hf_options options;
    struct hf_error error;
    struct hf *hf = NULL;
    hf_options_init(&options);
    options.db = path;
    options.handlers = handlers;
    options.handler_count = 1;
    options.slots = threads;
    if (hf_open(&options, &error, &hf) < 0)
        bench_die(path, error.text);
    if (hf_start(hf, threads) < 0 || hf_wait_ready(hf, -1) < 0)
        bench_die(path, "cannot start workers");
    return hf;
}

struct outcome {
    double rate, group;
    double committer_us, all_us; /* processor time each */
};

static struct outcome engine_lifecycles(int threads, int total)
{
    const char *path = bench_file();
    struct hf *hf = open_with(path, threads);

    atomic_store(&executed, 0);
    struct tally before = tally_of(hf), after;
    double cpu = bench_cpu(CLOCK_PROCESS_CPUTIME_ID), start = bench_now();
    int made = produce_all(hf, threads, total);
    while (atomic_load(&executed) < made)
        bench_sleep_us(100);
    do
        after = tally_of(hf);
    while (after.completions - before.completions < (uint64_t)made);
    double seconds = bench_now() - start;
    cpu = bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    hf_close(hf);
    bench_drop_file(path);
    return (struct outcome){ made / seconds,
                             3.0 * made / (double)(after.commits - before.commits),
                             (after.cpu - before.cpu) * 1e6 / made, cpu * 1e6 / made };
}

static int sized(int total)
{
    return total * percent / 100;
}

static void bare_table(int rounds)
{
    static const int groups[] = { 1, 10, 100, 1000 },
                     totals[] = { 3000, 12000, 30000, 30000 };
    struct bench_series rates[array_len(groups)] = { 0 };
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < array_len(groups); i++)
            bench_add(&rates[i], bare_lifecycles(groups[i], sized(totals[i]), NULL));
    for (size_t i = 0; i < array_len(groups); i++)
        printf("bare loop, groups of %4d: %8.0f lifecycles/s\n", groups[i],
               bench_median(&rates[i]));
    fflush(stdout);
}

static void compare(int threads, int total, int rounds)
{
    struct bench_series rate = { 0 }, group = { 0 }, bare = { 0 };
    struct bench_series committer_us = { 0 }, all_us = { 0 }, bare_us = { 0 };
    for (int round = 0; round < rounds; round++) {
        struct outcome o = engine_lifecycles(threads, sized(total));
        int formed = threads == 1 ? 1 : (int)(o.group + 0.5);
        bench_add(&rate, o.rate);
        bench_add(&group, o.group);
        bench_add(&committer_us, o.committer_us);
        bench_add(&all_us, o.all_us);
        double cpu = 0;
        bench_add(&bare, bare_lifecycles(formed, sized(total), &cpu));
        bench_add(&bare_us, cpu * 1e6 / sized(total));
    }
    printf("%3d threads: %8.0f lifecycles/s, groups of %.1f formed; bare loop at %s: "
           "%8.0f\n",
           threads, bench_median(&rate), bench_median(&group),
           threads == 1 ? "1" : "that group", bench_median(&bare));
    printf("             processor time each: bare loop %.1f us, committer %.1f us "
           "(%.2f), all threads %.1f us\n",
           bench_median(&bare_us), bench_median(&committer_us),
           bench_ratio(&bare_us, &committer_us), bench_median(&all_us));
    bench_verdict(bench_ratio(&rate, &bare), 0.8);
}

int main(int argc, char **argv)
{
    static const int threads[] = { 1, 8, 64, PRODUCERS_MAX };
    static const int totals[] = { 3000, 16000, 48000, 51200 };
    int rounds = bench_arg(argc, argv, 1, BENCH_ROUNDS);
    percent = bench_arg(argc, argv, 2, 100);
    if (rounds > BENCH_ROUNDS_MAX)
        rounds = BENCH_ROUNDS_MAX;
    int only = bench_arg(argc, argv, 3, 0);
    bench_machine();
    if (only == 0)
        bare_table(rounds);
    for (size_t i = 0; i < array_len(threads); i++)
        if (only == 0 || only == threads[i])
            compare(threads[i], totals[i], rounds);
    return 0;
}
