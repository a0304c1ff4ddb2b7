/* bench: libs=libcurl */
/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_http_jobs -- 10,000 jobs of kind http against a local server, 256 at once,
 * beside a bare libcurl multi loop that makes the same requests and forgets them.
 *
 * GET uses kept connections on both sides; POST a new one for each request on both
 * sides, since a kept one may repeat it (net/http_client.h).
 *
 *   bench_http_jobs [ROUNDS [THOUSANDS]]   3; 10 */
#include <curl/curl.h>

#include "api.h"
#include "responder.h"

enum { AT_ONCE = 256 };

static int count;

/* ---- bare ---- */

static size_t swallow(char *data, size_t size, size_t n, void *arg)
{
    (void)data, (void)arg;
    return size * n;
}

static void prepare(CURL *easy, const char *url, bool post)
{
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, swallow);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    if (post) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, bench_payload);
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    }
}

static double bare(const struct responder *to, bool post, struct bench_series *cpu)
{
    char url[100];
    CURLM *multi = curl_multi_init();
    int begun = 0, done = 0, running = 0, left = 0;
    double start = bench_now(), used = bench_cpu(CLOCK_PROCESS_CPUTIME_ID);

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/job", to->port);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)AT_ONCE);
    for (; begun < AT_ONCE; begun++) {
        CURL *easy = curl_easy_init();
        prepare(easy, url, post);
        curl_multi_add_handle(multi, easy);
    }
    while (done < count) {
        curl_multi_perform(multi, &running);
        for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));) {
            CURL *easy = m->easy_handle;
            if (m->data.result != CURLE_OK)
                bench_die("bare", curl_easy_strerror(m->data.result));
            curl_multi_remove_handle(multi, easy);
            done++;
            if (begun++ < count)
                curl_multi_add_handle(multi, easy);
            else
                curl_easy_cleanup(easy);
        }
        if (done < count)
            curl_multi_poll(multi, NULL, 0, 100, NULL);
    }
    double took = bench_now() - start;
    bench_add(cpu, (bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - used) * 1e6 / count);
    curl_multi_cleanup(multi);
    return count / took;
}

/* ---- jobs ---- */

static void enqueue(const struct load_server *server, const struct responder *to,
                    bool post)
{
    enum { BATCH = 1000 };
    size_t room = BATCH * 400;
    char *body = malloc(room);
    if (!body)
        bench_die("batch", "no memory");
    for (int made = 0; made < count; made += BATCH) {
        size_t n = (size_t)snprintf(body, room, "{\"jobs\":[");
        for (int i = 0; i < BATCH; i++)
            n += (size_t)snprintf(body + n, room - n,
                                  "%s{\"kind\":\"http\",\"payload\":{\"url\":\"http://"
                                  "127.0.0.1:%d/job\",\"method\":\"%s\"%s%s}}",
                                  i ? "," : "", to->port, post ? "POST" : "GET",
                                  post ? ",\"body\":" : "", post ? bench_payload : "");
        n += (size_t)snprintf(body + n, room - n, "]}");
        api_call(server, "POST", "/jobs/batch", body, n);
    }
    free(body);
}

static double jobs(const char *self, const struct responder *to, bool post,
                   struct bench_series *cpu)
{
    const char *db = bench_file();
    struct load_server server = load_holdfast(self, db);
    char slots[40];
    snprintf(slots, sizeof(slots), "{\"slots\":%d}", AT_ONCE);
    api_text(&server, "PATCH", "/queues/default", slots);
    api_text(&server, "POST", "/queues/default/pause", "{}");
    enqueue(&server, to, post);
    double used = load_cpu(&server), start = bench_now();
    api_text(&server, "POST", "/queues/default/resume", "{}");
    while (api_number(api_text(&server, "GET", "/queues/default", ""), "completed") <
           count)
        bench_sleep_us(10000);
    double took = bench_now() - start;
    bench_add(cpu, (load_cpu(&server) - used) * 1e6 / count);
    load_stop(&server);
    bench_drop_file(db);
    return count / took;
}

static void compare(const char *self, bool post, int rounds)
{
    struct responder to = responder_start();
    struct bench_series ours = { 0 }, theirs = { 0 }, our_cpu = { 0 }, their_cpu = { 0 };
    for (int round = 0; round < rounds; round++) {
        bench_add(&ours, jobs(self, &to, post, &our_cpu));
        bench_add(&theirs, bare(&to, post, &their_cpu));
    }
    responder_stop(&to);
    printf("%d http jobs, %s, %d at once: %.0f/s; bare libcurl: %.0f/s\n", count,
           post ? "POST" : "GET", AT_ONCE, bench_median(&ours), bench_median(&theirs));
    bench_verdict(bench_ratio(&ours, &theirs), 0.7);
    printf("             processor time for each: the server %.0f us, bare %.0f us; "
           "ratio %.2f\n",
           bench_median(&our_cpu), bench_median(&their_cpu),
           bench_ratio(&their_cpu, &our_cpu));
}

int main(int argc, char **argv)
{
    int rounds = bench_arg(argc, argv, 1, BENCH_ROUNDS);
    struct rlimit files;
    count = bench_arg(argc, argv, 2, 10) * 1000;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)!setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_machine();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    compare(argv[0], false, rounds);
    compare(argv[0], true, rounds);
    return 0;
}
