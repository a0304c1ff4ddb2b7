/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_http -- `holdfast serve` over HTTP: durable enqueues by 64 keep-alive clients
 * beside 64 threads of the engine in this process, by one client, and in batches of
 * 1000; a cheap GET beside nginx; memory with a million jobs queued and with 2,000 idle
 * connections.
 *
 *   bench_http [ROUNDS [SECONDS [THOUSANDS]]]   3; 3 of each; 1000 jobs for memory */
#include "load.h"
#include "producers.h"

enum { CLIENTS = 64, IDLE = 2000, BATCH = 1000 };

static char *request(const char *method, const char *path, const char *body, size_t n,
                     size_t *ret)
{
    char *text = malloc(n + 300);
    if (!text)
        bench_die("request", "no memory");
    int head = snprintf(
        text, 300, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n",
        method, path, n);
    memcpy(text + head, body, n);
    *ret = (size_t)head + n;
    return text;
}

static struct load enqueues(const struct load_server *server, int clients, int batch,
                            double seconds)
{
    struct load load = {
        .port = server->port, .clients = clients, .seconds = seconds, .status = 201
    };
    size_t room = (size_t)(batch + 1) * 200, n = 0;
    char *body = malloc(room);
    if (!body)
        bench_die("batch", "no memory");
    if (batch > 1)
        n = (size_t)snprintf(body, room, "{\"jobs\":[");
    for (int i = 0; i < batch; i++)
        n += (size_t)snprintf(body + n, room - n, "%s{\"kind\":\"bench\",\"payload\":%s}",
                              i ? "," : "", bench_payload);
    if (batch > 1)
        n += (size_t)snprintf(body + n, room - n, "]}");
    load.request = request("POST", batch > 1 ? "/api/v1/jobs/batch" : "/api/v1/jobs",
                           body, n, &load.request_bytes);
    load_run(&load);
    free((void *)load.request);
    free(body);
    load.rate *= batch;
    return load;
}

static double threads_in_process(double seconds, struct bench_series *cpu)
{
    const char *path = bench_file();
    struct hf *hf = scheduler_on(path);
    double start = bench_now(), used = bench_cpu(CLOCK_PROCESS_CPUTIME_ID);
    int made = 0;
    while (bench_now() - start < seconds)
        made += produce_all(hf, CLIENTS, CLIENTS * 50);
    bench_add(cpu, (bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - used) * 1e6 / made);
    double rate = made / (bench_now() - start);
    hf_close(hf);
    bench_drop_file(path);
    return rate;
}

static void bench_enqueue(const char *self, int rounds, double seconds)
{
    struct bench_series http = { 0 }, threads = { 0 }, one = { 0 }, batches = { 0 };
    struct bench_series p50 = { 0 }, p99 = { 0 }, http_cpu = { 0 }, threads_cpu = { 0 };
    struct bench_series clients_cpu = { 0 };
    for (int round = 0; round < rounds; round++) {
        const char *db = bench_file();
        struct load_server server = load_holdfast(self, db);
        double used = load_cpu(&server), start = bench_now();
        double clients = bench_cpu(CLOCK_PROCESS_CPUTIME_ID);
        struct load load = enqueues(&server, CLIENTS, 1, seconds);
        double jobs = load.rate * (bench_now() - start);
        bench_add(&http_cpu, (load_cpu(&server) - used) * 1e6 / jobs);
        bench_add(&clients_cpu,
                  (bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - clients) * 1e6 / jobs);
        bench_add(&http, load.rate);
        bench_add(&p50, load.p50);
        bench_add(&p99, load.p99);
        bench_add(&threads, threads_in_process(seconds, &threads_cpu));
        bench_add(&one, enqueues(&server, 1, 1, seconds).rate);
        bench_add(&batches, enqueues(&server, 1, BATCH, seconds).rate);
        load_stop(&server);
        bench_drop_file(db);
    }
    printf("durable enqueue, %d keep-alive clients: %.0f/s (p50 %.1f ms, p99 %.1f); %d "
           "threads in process: %.0f/s\n",
           CLIENTS, bench_median(&http), bench_median(&p50), bench_median(&p99), CLIENTS,
           bench_median(&threads));
    bench_verdict(bench_ratio(&http, &threads), 0.6);
    printf("             processor time per job: the server %.1f us, in process %.1f us; "
           "ratio %.2f; the clients, on the same cores, %.1f us\n",
           bench_median(&http_cpu), bench_median(&threads_cpu),
           bench_ratio(&threads_cpu, &http_cpu), bench_median(&clients_cpu));
    printf("one client: %.0f/s; batches of %d: %.0f jobs/s\n", bench_median(&one), BATCH,
           bench_median(&batches));
}

/* ---- a cheap GET ---- */

static struct load_server start_nginx(void)
{
    static char conf[4300];
    char text[6000];
    struct load_server server = { .port = 20000 + getpid() % 20000 };
    snprintf(conf, sizeof(conf), "%s.nginx", bench_file());
    snprintf(text, sizeof(text),
             "daemon off; master_process off; pid %s.pid; error_log /dev/null; events "
             "{ worker_connections 1024; } http { access_log off; keepalive_requests "
             "100000000; server { listen 127.0.0.1:%d; location / { default_type "
             "application/json; return 200 '{\"status\":\"ok\"}'; } } }\n",
             conf, server.port);
    FILE *file = fopen(conf, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        bench_die(conf, "cannot be written");
    server.pid = fork();
    if (server.pid == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execl("/usr/sbin/nginx", "nginx", "-c", conf, NULL);
        _exit(127);
    }
    return server;
}

static struct load gets(const struct load_server *server, double seconds)
{
    struct load load = {
        .port = server->port, .clients = CLIENTS, .seconds = seconds, .status = 200
    };
    char *text = request("GET", "/healthz", "", 0, &load.request_bytes);
    load.request = text;
    load_run(&load);
    free(text);
    return load;
}

static void bench_get(const char *self, int rounds, double seconds)
{
    struct bench_series ours = { 0 }, theirs = { 0 };
    const char *db = bench_file();
    bool has_nginx = access("/usr/sbin/nginx", X_OK) == 0;
    struct load_server server = load_holdfast(self, db), nginx = { 0 };
    if (has_nginx)
        nginx = start_nginx();
    for (int round = 0; round < rounds; round++) {
        bench_add(&ours, gets(&server, seconds).rate);
        if (has_nginx)
            bench_add(&theirs, gets(&nginx, seconds).rate);
    }
    load_stop(&server);
    bench_drop_file(db);
    printf("GET /healthz, %d clients: %.0f/s", CLIENTS, bench_median(&ours));
    if (has_nginx) {
        load_stop(&nginx);
        printf("; nginx, one process, an answer of the same length: %.0f/s; ratio %.2f\n",
               bench_median(&theirs), bench_ratio(&ours, &theirs));
    } else {
        printf("; nginx is not installed\n");
    }
}

/* ---- memory ---- */

static void bench_memory(const char *self, int thousands)
{
    static int idle[IDLE];
    const char *db = bench_file();
    struct load_server server = load_holdfast(self, db);
    double empty = load_memory(&server), rate = 0, most = 0;
    double start = bench_now();
    int made = 0;
    while (made < thousands * 1000) {
        struct load load = enqueues(&server, 1, BATCH, 1);
        made += (int)load.rate;
        if (load_memory(&server) > most)
            most = load_memory(&server);
    }
    rate = made / (bench_now() - start);
    double queued = load_memory(&server);
    for (int i = 0; i < IDLE; i++)
        idle[i] = load_connect(server.port);
    struct load load = gets(&server, 1); /* they have been accepted before these */
    double connected = load_memory(&server);
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
    printf("memory: %.1f MiB at first; %.1f with %d jobs queued (%.1f at most; %.0f/s)   "
           "target: 128 MiB\n",
           empty, queued, made, most, rate);
    printf("memory: %.1f MiB more with %d idle connections, GETs meanwhile p99 %.1f ms   "
           "target: 64 MiB\n",
           connected - queued, IDLE, load.p99);
    load_stop(&server);
    bench_drop_file(db);
}

int main(int argc, char **argv)
{
    int rounds = bench_arg(argc, argv, 1, BENCH_ROUNDS);
    int seconds = bench_arg(argc, argv, 2, 3);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)!setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_machine();
    bench_enqueue(argv[0], rounds, seconds);
    bench_get(argv[0], rounds, seconds);
    bench_memory(argv[0], bench_arg(argc, argv, 3, 1000));
    return 0;
}
