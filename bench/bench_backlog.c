/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_backlog -- claims from a store with a million jobs queued and a million
 * finished, beside the same with ten thousand of each; payloads of three sizes;
 * the memory of a process that has the large store open.
 *
 * Both stores are open at once and take turns, ten claims of a hundred jobs each;
 * what was claimed is completed, and as many are enqueued, so that the backlog
 * stays.  Only the claims are timed, with their commits; their processor time stands
 * beside, for machines that others use too.
 *
 *   bench_backlog [ROUNDS [PERCENT]]    20 rounds; the backlog in percent of a million */
#include <sys/wait.h>

#include "fill.h"

enum { GROUP = 100, CLAIMS = 10, SMALL = 10000 };

static const char *filled_store(int64_t jobs)
{
    const char *path = bench_file();
    sqlite3 *db = NULL;
    int64_t queue = fill_begin(path, &db);
    /* Who came first is finished first.  The other way round the runs of what is
     * claimed go between those that are there, and in the small store only until its
     * first ten thousand are claimed: after that, two different things are compared. */
    fill_jobs(db, queue, 1000000, 1000000 + jobs, JOB_COMPLETED);
    fill_jobs(db, queue, 10000000, 10000000 + jobs, JOB_QUEUED);
    fill_end(db);
    return path;
}

/* Claimed jobs per second, and per second of processor time. */
struct speed {
    double rate, cpu_rate;
};

static struct speed claim_some(struct piles *p)
{
    double seconds = 0, cpu = 0;
    int claimed = 0;
    for (int i = 0; i < CLAIMS; i++) {
        double start = bench_now(), cpu_start = bench_cpu(CLOCK_THREAD_CPUTIME_ID);
        claimed += (int)piles_claim(p, GROUP);
        seconds += bench_now() - start;
        cpu += bench_cpu(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
        piles_complete(p);
        piles_enqueue(p, GROUP);
    }
    return (struct speed){ claimed / seconds, claimed / cpu };
}

struct speeds {
    struct bench_series rate, cpu_rate;
};

static void add_speed(struct speeds *s, struct speed speed)
{
    bench_add(&s->rate, speed.rate);
    bench_add(&s->cpu_rate, speed.cpu_rate);
}

static void compare(const char *small_path, const char *large_path, int64_t large_jobs,
                    int rounds)
{
    struct piles small, large;
    struct speeds with_small = { 0 }, with_large = { 0 };
    piles_open(&small, small_path, GROUP);
    piles_open(&large, large_path, GROUP);
    claim_some(&small); /* the caches are filled */
    claim_some(&large);
    for (int round = 0; round < rounds; round++) {
        add_speed(&with_small, claim_some(&small));
        add_speed(&with_large, claim_some(&large));
    }
    printf("claims of %d, %d queued and %d finished: %8.0f jobs/s; %lld of each: %8.0f\n",
           GROUP, SMALL, SMALL, bench_median(&with_small.rate), (long long)large_jobs,
           bench_median(&with_large.rate));
    printf("             processor time each: %.2f us and %.2f us (%.2f)\n",
           1e6 / bench_median(&with_small.cpu_rate),
           1e6 / bench_median(&with_large.cpu_rate),
           bench_ratio(&with_large.cpu_rate, &with_small.cpu_rate));
    bench_verdict(bench_ratio(&with_large.rate, &with_small.rate), 0.9);
    piles_close(&small);
    piles_close(&large);
}

/* In a process of its own, so that it holds nothing else. */
static void measure_memory(const char *path)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct piles p;
        piles_open(&p, path, GROUP);
        for (int i = 0; i < 5; i++)
            claim_some(&p);
        bench_limit("memory of the process that has it open, MiB:",
                    (double)bench_rss_kib() / 1024, 64);
        piles_close(&p);
        _exit(0);
    }
    if (waitpid(child, &status, 0) < 0 || status != 0)
        bench_die("memory", "could not be measured");
}

static void payload_of(size_t bytes)
{
    struct piles p;
    const char *path = bench_file();
    char *payload = malloc(bytes + 1);
    if (!payload)
        bench_die("payload", "no memory");
    memset(payload, 'x', bytes);
    payload[0] = payload[bytes - 1] = '"';
    payload[bytes] = '\0';
    piles_open(&p, path, GROUP);
    p.job.payload = (struct slice){ payload, bytes };
    for (int i = 0; i < 5; i++)
        piles_enqueue(&p, GROUP);
    struct bench_series claims = { 0 }, lives = { 0 };
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        bench_add(&claims, claim_some(&p).rate);
        bench_add(&lives, piles_lifecycles(&p, GROUP, 10 * GROUP));
    }
    printf("payloads of %6zu bytes: %8.0f jobs claimed/s, %8.0f lifecycles/s\n", bytes,
           bench_median(&claims), bench_median(&lives));
    fflush(stdout);
    piles_close(&p);
    bench_drop_file(path);
    free(payload);
}

int main(int argc, char **argv)
{
    int rounds = bench_arg(argc, argv, 1, 20);
    int64_t jobs = INT64_C(10000) * bench_arg(argc, argv, 2, 100);
    bench_machine();
    const char *small = filled_store(SMALL), *large = filled_store(jobs);
    compare(small, large, jobs, rounds < BENCH_ROUNDS_MAX ? rounds : BENCH_ROUNDS_MAX);
    measure_memory(large);
    bench_drop_file(small);
    bench_drop_file(large);
    payload_of(100);
    payload_of(4096);
    payload_of(65536);
    return 0;
}
