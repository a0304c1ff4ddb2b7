/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_webhooks -- what webhooks cost, and how fast they are sent.
 *
 * COST: lifecycles through holdfast.h with 64 threads, with and without one webhook
 * that subscribes to every event of a job: three events and three deliveries more for
 * each job.  Nothing is sent here, it is what the jobs pay.
 *
 * RATE: the real server sends what has piled up to a local receiver, one at a time and
 * 64 at a time, each reported and on disk in the end.
 *
 *   bench_webhooks [ROUNDS [THOUSANDS]]   3; 20 of each */
#include <stdatomic.h>

#include "api.h"
#include "producers.h"
#include "responder.h"

enum { THREADS = 64 };

static atomic_int executed;

/* ---- what jobs pay ---- */

static int handle(struct hf_run *run, void *arg)
{
    (void)run, (void)arg;
    atomic_fetch_add_explicit(&executed, 1, memory_order_relaxed);
    return 0;
}

static void subscribe(struct hf *hf)
{
    struct error why = { 0 };
    struct command *c = command_begin(hf, OP_WEBHOOK, &why);
    if (!c)
        bench_die("webhook", why.text);
    c->webhook.edit =
        (struct webhook_edit){ .set = WEBHOOK_SET_URL | WEBHOOK_SET_EVENTS |
                                      WEBHOOK_SET_SECRET,
                               .with = { .url = SLICE("http://127.0.0.1:1/"),
                                         .events = SLICE("[\"job.*\"]"),
                                         .secret = SLICE("0123456789abcdef01234567") } };
    if (command_run(hf, c, &why) < 0)
        bench_die("webhook", why.text);
    command_drop(&c);
}

struct outcome {
    double rate, committer_us;
};

static struct outcome lifecycles(bool subscribed, int total)
{
    struct hf_handler handlers[] = { { .kind = "bench", .handle = handle } };
    const char *path = bench_file();
    struct hf_options options;
    struct hf_error error;
    struct hf *hf = NULL;

    hf_options_init(&options);
    options.db = path;
    options.handlers = handlers;
    options.handler_count = 1;
    options.slots = THREADS;
    if (hf_open(&options, &error, &hf) < 0)
        bench_die(path, error.text);
    if (hf_start(hf, THREADS) < 0 || hf_wait_ready(hf, -1) < 0)
        bench_die(path, "cannot start workers");
    if (subscribed)
        subscribe(hf);
    atomic_store(&executed, 0);
    struct tally before = tally_of(hf), after;
    double start = bench_now();
    int made = produce_all(hf, THREADS, total);
    while (atomic_load(&executed) < made)
        bench_sleep_us(100);
    do
        after = tally_of(hf);
    while (after.completions - before.completions < (uint64_t)made);
    double seconds = bench_now() - start;
    hf_close(hf);
    bench_drop_file(path);
    return (struct outcome){ made / seconds, (after.cpu - before.cpu) * 1e6 / made };
}

static void bench_cost(int rounds, int total)
{
    struct bench_series with = { 0 }, without = { 0 }, with_us = { 0 },
                        without_us = { 0 };
    for (int round = 0; round < rounds; round++) {
        struct outcome plain = lifecycles(false, total), told = lifecycles(true, total);
        bench_add(&without, plain.rate);
        bench_add(&without_us, plain.committer_us);
        bench_add(&with, told.rate);
        bench_add(&with_us, told.committer_us);
    }
    printf(
        "%d threads, one webhook for every event of a job: %.0f lifecycles/s; without: "
        "%.0f; ratio %.2f\n",
        THREADS, bench_median(&with), bench_median(&without),
        bench_ratio(&with, &without));
    printf("             the committer's processor time each: %.1f us and %.1f us; ratio "
           "%.2f\n",
           bench_median(&with_us), bench_median(&without_us),
           bench_ratio(&without_us, &with_us));
}

/* ---- how fast they are sent ---- */

static void pile_up(const struct load_server *server, int total)
{
    enum { BATCH = 1000 };
    char *body = malloc(BATCH * 40);
    if (!body)
        bench_die("batch", "no memory");
    for (int made = 0; made < total; made += BATCH) {
        size_t n = (size_t)snprintf(body, 40, "{\"jobs\":[");
        for (int i = 0; i < BATCH; i++)
            n += (size_t)snprintf(body + n, 40, "%s{\"kind\":\"bench\"}", i ? "," : "");
        n += (size_t)snprintf(body + n, 40, "]}");
        api_call(server, "POST", "/jobs/batch", body, n);
    }
    free(body);
}

static double deliveries(const char *self, int at_once, int total,
                         struct bench_series *cpu)
{
    const char *db = bench_file();
    struct responder to = responder_start();
    struct load_server server = load_holdfast(self, db);
    char body[300], path[100];

    snprintf(body, sizeof(body),
             "{\"url\":\"http://127.0.0.1:%d/\",\"events\":[\"job.enqueued\"],"
             "\"inFlight\":%d}",
             to.port, at_once);
    const char *answer = api_text(&server, "POST", "/webhooks", body);
    const char *id = strstr(answer, "\"id\":\"");
    int64_t webhook = id ? strtoll(id + 6, NULL, 10) : 0;
    snprintf(path, sizeof(path), "/webhooks/%lld/pause", (long long)webhook);
    api_text(&server, "POST", path, "{}");
    pile_up(&server, total);
    double used = load_cpu(&server), start = bench_now();
    snprintf(path, sizeof(path), "/webhooks/%lld/resume", (long long)webhook);
    api_text(&server, "POST", path, "{}");
    snprintf(path, sizeof(path), "/webhooks/%lld", (long long)webhook);
    while (*to.count < total)
        bench_sleep_us(1000);
    while (api_number(api_text(&server, "GET", path, ""), "pendingCount") > 0)
        bench_sleep_us(10000);
    double took = bench_now() - start;
    bench_add(cpu, (load_cpu(&server) - used) * 1e6 / total);
    if (*to.count != total)
        printf("             %d requests for %d deliveries\n", *to.count, total);
    load_stop(&server);
    responder_stop(&to);
    bench_drop_file(db);
    return total / took;
}

static void bench_rate(const char *self, int at_once, int rounds, int total)
{
    struct bench_series rate = { 0 }, cpu = { 0 };
    for (int round = 0; round < rounds; round++)
        bench_add(&rate, deliveries(self, at_once, total, &cpu));
    printf("%d deliveries to a local receiver, %d at a time: %.0f/s, processor time of "
           "the server %.0f us each\n",
           total, at_once, bench_median(&rate), bench_median(&cpu));
}

int main(int argc, char **argv)
{
    int rounds = bench_arg(argc, argv, 1, BENCH_ROUNDS);
    int total = bench_arg(argc, argv, 2, 20) * 1000;
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_machine();
    bench_cost(rounds, total);
    bench_rate(argv[0], 1, rounds, total);
    bench_rate(argv[0], 64, rounds, total);
    return 0;
}
