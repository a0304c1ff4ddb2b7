/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_lifecycle -- enqueue, claim, finish, through holdfast.h with 1, 8, 64
 * and 256 threads, beside the bare loop in the same run.
 *
 * N threads enqueue, each waiting until its job is on disk before it makes the
 * next; N workers execute handlers that do nothing.  Commands that arrive
 * during a commit share the next one: the group that formed is printed, and the
 * bare loop at that very group is what the rate is compared with. */
#include <pthread.h>
#include <stdatomic.h>

#include "bare.h"
#include "engine/holdfast_handle.h"

static const char payload[] =
    "{\"url\":\"https://example.com/some/page/with/a/path\",\"depth\":3,\"tag\":\"0123456789\"}";

static atomic_int executed;

static int handle(struct hf_run *run, void *arg)
{
    (void)run;
    (void)arg;
    atomic_fetch_add(&executed, 1);
    return 0;
}

struct producer {
    struct hf *hf;
    int count;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    struct hf_new_job job = { .kind = "bench", .payload = payload };
    struct hf_error error;
    for (int i = 0; i < p->count; i++)
        if (hf_enqueue(p->hf, &job, &error, NULL) < 0)
            bench_die("enqueue", error.text);
    return NULL;
}

struct outcome {
    double rate, group;
};

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 200 * 1000 }, NULL);
}

static struct outcome engine_lifecycles(const char *url, int threads, int total)
{
    struct hf_handler handlers[] = { { .kind = "bench", .handle = handle } };
    struct hf_options options;
    struct hf_error error;
    struct hf *hf;
    pthread_t ids[256];
    struct producer p = { .count = total / threads };

    hf_options_init(&options);
    options.db = url;
    options.handlers = handlers;
    options.handler_count = 1;
    options.slots = threads;
    if (hf_open(&options, &error, &hf) < 0)
        bench_die(url, error.text);
    if (hf_start(hf, threads) < 0)
        bench_die(url, "cannot start workers");
    while (!hf->engine->ready)
        pause_briefly();
    p.hf = hf;
    atomic_store(&executed, 0);
    uint64_t piles = hf->engine->totals.piles;
    double start = bench_now();
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, produce, &p);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    int made = p.count * threads;
    while (atomic_load(&executed) < made ||
           hf->engine->totals.completions < (uint64_t)made)
        pause_briefly();
    double seconds = bench_now() - start;
    piles = hf->engine->totals.piles - piles;
    hf_close(hf);
    return (struct outcome){ made / seconds, 3.0 * made / (double)piles };
}

int main(void)
{
    char folder[] = "/tmp/hf-bench.XXXXXX";
    if (!mkdtemp(folder))
        bench_die("mkdtemp", "failed");
    bench_machine();
    int files = 0;
    static const int groups[] = { 1, 10, 100, 1000 };
    for (size_t i = 0; i < array_len(groups); i++) {
        int total = groups[i] < 10 ? 4000 : groups[i] < 100 ? 20000 : 60000;
        printf("bare loop, groups of %4d: %8.0f lifecycles/s\n", groups[i],
               bare_lifecycles(bench_path(folder, files++), groups[i], total, payload));
        fflush(stdout);
    }
    static const int threads[] = { 1, 8, 64, 256 };
    for (size_t i = 0; i < array_len(threads); i++) {
        int total = threads[i] == 1 ? 6000 : threads[i] == 8 ? 24000 : 76800;
        struct outcome o =
            engine_lifecycles(bench_path(folder, files++), threads[i], total);
        int group = o.group < 1.5 || threads[i] == 1 ? 1 : (int)(o.group + 0.5);
        double bare = bare_lifecycles(bench_path(folder, files++), group,
                                      group < 10 ? 6000 : 60000, payload);
        printf("%3d threads: %8.0f lifecycles/s, groups of %.1f formed; bare loop at %d: "
               "%8.0f; ratio %.2f\n",
               threads[i], o.rate, o.group, group, bare, o.rate / bare);
        fflush(stdout);
    }
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? 0 : 1;
}
