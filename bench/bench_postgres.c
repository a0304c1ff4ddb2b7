/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_postgres -- lifecycles on PostgreSQL: one engine beside the set-based bare
 * loop, then two engines at once, in two processes.
 *
 * The engine is driven pile by pile (piles.h), in groups of 100 and of 1000.
 * Processor time is printed for both sides, because on a machine whose cores are
 * all busy it is what two engines compete for.
 *
 *   bench_postgres [ROUNDS [PERCENT]] */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "piles.h"
#include "postgres.h"

enum { NODES = 2 };

static int percent = 100;

struct usage {
    double client, server; /* seconds */
};

static struct usage usage_now(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (struct usage){ .client =
                               (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                               (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6,
                           .server = bench_server_cpu() };
}

static void add_usage(struct bench_series *client, struct bench_series *server,
                      struct usage before, struct usage after, int lifecycles)
{
    bench_add(client, (after.client - before.client) / lifecycles * 1e6);
    bench_add(server, (after.server - before.server) / lifecycles * 1e6);
}

struct side {
    struct bench_series rate, client, server; /* microseconds per lifecycle */
};

static void run_bare(struct side *side, int group, int total)
{
    struct bare_pg b;
    const char *url = bench_database();
    bare_pg_open(&b, url, group);
    struct usage before = usage_now(RUSAGE_SELF);
    bench_add(&side->rate, bare_pg_lifecycles(&b, group, total, bench_payload));
    add_usage(&side->client, &side->server, before, usage_now(RUSAGE_SELF), total);
    bare_pg_close(&b);
    bench_drop_database(url);
}

static void run_engine(struct side *side, int group, int total)
{
    struct piles p;
    const char *url = bench_database();
    piles_open(&p, url, group);
    piles_lifecycles(&p, group, group); /* statements are prepared, the queue is there */
    struct usage before = usage_now(RUSAGE_SELF);
    bench_add(&side->rate, piles_lifecycles(&p, group, total));
    add_usage(&side->client, &side->server, before, usage_now(RUSAGE_SELF), total);
    piles_close(&p);
    bench_drop_database(url);
}

/* ---- two at once ---- */

/* Seen by all processes. */
struct shared {
    struct {
        int done;
        double seconds;
    } node[NODES];
};

/* A node in a process of its own: opens, says so, waits for the word, and works. */
static _Noreturn void be_node(const char *url, struct shared *shared, int number,
                              int group, int total, int say, int hear)
{
    struct piles p;
    char byte = 0;
    piles_open(&p, url, group);
    piles_lifecycles(&p, group, group);
    if (write(say, &byte, 1) != 1 || read(hear, &byte, 1) != 0)
        _exit(1);
    double start = bench_now();
    for (int made = 0; made < total; made += group) {
        piles_enqueue(&p, group);
        shared->node[number].done += (int)piles_claim(&p, group);
        piles_complete(&p);
    }
    shared->node[number].seconds = bench_now() - start;
    piles_close(&p);
    _exit(0);
}

static void run_two(struct side *side, int group, int total)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ready[2], go[2], status = 0, done = 0;
    char byte;
    const char *url = bench_database();
    if (shared == MAP_FAILED || pipe(ready) < 0 || pipe(go) < 0)
        bench_die("two engines", "no memory");
    fflush(stdout);
    struct usage before = usage_now(RUSAGE_CHILDREN);
    for (int i = 0; i < NODES; i++) {
        if (fork() == 0) {
            close(go[1]);
            be_node(url, shared, i, group, total / NODES, ready[1], go[0]);
        }
        if (read(ready[0], &byte, 1) != 1) /* one after the other: the first migrates */
            bench_die("two engines", "one does not start");
    }
    close(go[1]); /* the word: both read the end of the pipe */
    for (int i = 0; i < NODES; i++)
        if (wait(&status) < 0 || status != 0)
            bench_die("two engines", "one failed");
    double seconds = 0;
    for (int i = 0; i < NODES; i++) {
        done += shared->node[i].done;
        if (shared->node[i].seconds > seconds)
            seconds = shared->node[i].seconds;
    }
    bench_add(&side->rate, done / seconds);
    add_usage(&side->client, &side->server, before, usage_now(RUSAGE_CHILDREN), done);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    munmap(shared, sizeof(*shared));
    bench_drop_database(url);
}

/* ---- the table ---- */

static void print_side(const char *name, int group, const struct side *side)
{
    printf(
        "%s, groups of %4d: %8.0f lifecycles/s; processor %.0f us here, %.0f us in the "
        "server, each",
        name, group, bench_median(&side->rate), bench_median(&side->client),
        bench_median(&side->server));
}

static void compare(int group, int total, int rounds)
{
    struct side bare = { 0 }, one = { 0 }, two = { 0 };
    for (int round = 0; round < rounds; round++) {
        run_bare(&bare, group, total);
        run_engine(&one, group, total);
        run_two(&two, group, 2 * total);
    }
    print_side("bare loop  ", group, &bare);
    printf("\n");
    print_side("one engine ", group, &one);
    printf("\n");
    bench_verdict(bench_ratio(&one.rate, &bare.rate), 0.6);
    print_side("two engines", group, &two);
    printf("; ratio to one %.2f\n", bench_ratio(&two.rate, &one.rate));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rounds = bench_arg(argc, argv, 1, BENCH_ROUNDS);
    percent = bench_arg(argc, argv, 2, 100);
    if (rounds > BENCH_ROUNDS_MAX)
        rounds = BENCH_ROUNDS_MAX;
    bench_machine();
    if (!bench_server())
        return 0;
    compare(100, 10000 * percent / 100, rounds);
    compare(1000, 20000 * percent / 100, rounds);
    return 0;
}
