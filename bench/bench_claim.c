/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_claim -- how long a job waits for a worker that waits for it, over HTTP: 200
 * jobs a second are enqueued, four workers have a claim open each, and complete what
 * they are given.
 *
 * A job needs one commit to be enqueued and one to be claimed, and may wait for the one
 * under way; so the time from the request to the worker's answer is told in commits,
 * one being the median of an enqueue on an idle server.
 *
 *   bench_claim [SECONDS]   10 */
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

enum { WORKERS = 4, PER_SECOND = 200, WAITS_MAX = 100000 };

struct state {
    int port;
    atomic_bool over;
    pthread_mutex_t lock;
    double waits[WAITS_MAX]; /* milliseconds */
    size_t count;
};

/* Sends a request and returns the answer, whole; the connection stays. */
static const char *call(int fd, const char *path, const char *body, char *text,
                        size_t room)
{
    int n = snprintf(text, room,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
                     "%zu\r\n\r\n%s",
                     path, strlen(body), body);
    size_t got = 0;
    if (write(fd, text, (size_t)n) != n)
        bench_die("write", strerror(errno));
    for (;;) {
        ssize_t r = read(fd, text + got, room - 1 - got);
        if (r <= 0)
            bench_die(path, "the server hung up");
        got += (size_t)r;
        text[got] = '\0';
        const char *end = strstr(text, "\r\n\r\n");
        const char *length = strcasestr(text, "\r\nContent-Length: ");
        if (end && length &&
            got >= (size_t)(end + 4 - text) + strtoull(length + 18, NULL, 10))
            return text;
    }
}

static void *work(void *arg)
{
    struct state *s = arg;
    static atomic_int sessions;
    char text[16384], body[200], path[80];
    int fd = load_connect(s->port), session = atomic_fetch_add(&sessions, 1);

    while (!atomic_load(&s->over)) {
        snprintf(body, sizeof(body),
                 "{\"session\":\"w%d\",\"queues\":[\"q\"],\"waitMs\":500}", session);
        const char *answer = call(fd, "/api/v1/claim", body, text, sizeof(text));
        double now = bench_now();
        const char *sent = strstr(answer, "\"sent\":"), *id = strstr(answer, "\"id\":\"");
        if (!sent || !id)
            continue; /* nothing came while it waited */
        pthread_mutex_lock(&s->lock);
        if (s->count < WAITS_MAX)
            s->waits[s->count++] = (now - strtod(sent + 7, NULL)) * 1e3;
        pthread_mutex_unlock(&s->lock);
        snprintf(path, sizeof(path), "/api/v1/runs/%lld/complete",
                 strtoll(id + 6, NULL, 10));
        snprintf(body, sizeof(body), "{\"session\":\"w%d\"}", session);
        call(fd, path, body, text, sizeof(text));
    }
    close(fd);
    return NULL;
}

/* Enqueues so many a second for so long; each answer's time goes to `waits`. */
static void produce(int port, double seconds, const char *queue, double *waits,
                    size_t *count)
{
    char text[16384], body[200];
    int fd = load_connect(port);
    double start = bench_now();
    for (int i = 0; i < (int)(seconds * PER_SECOND); i++) {
        double due = start + i / (double)PER_SECOND, now = bench_now();
        if (due > now)
            bench_sleep_us((int64_t)((due - now) * 1e6));
        double sent = bench_now();
        snprintf(body, sizeof(body),
                 "{\"kind\":\"bench\",\"queue\":\"%s\",\"payload\":{\"sent\":%.6f}}",
                 queue, sent);
        call(fd, "/api/v1/jobs", body, text, sizeof(text));
        if (waits)
            waits[(*count)++] = (bench_now() - sent) * 1e3;
    }
    close(fd);
}

static double part(double *list, size_t count, int percent)
{
    qsort(list, count, sizeof(*list), bench_by_value);
    return count ? list[count * (size_t)percent / 100] : 0;
}

int main(int argc, char **argv)
{
    static struct state s = { .lock = PTHREAD_MUTEX_INITIALIZER };
    static double idle[WAITS_MAX];
    size_t count = 0;
    pthread_t workers[WORKERS];
    int seconds = bench_arg(argc, argv, 1, 10);

    signal(SIGPIPE, SIG_IGN);
    bench_machine();
    struct load_server server = load_holdfast(argv[0], bench_file());
    s.port = server.port;
    produce(s.port, 2, "other", idle, &count);
    double commit = part(idle, count, 50);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, &s) != 0)
            bench_die("pthread_create", "failed");
    produce(s.port, seconds, "q", NULL, NULL);
    bench_sleep_us(US_PER_S); /* what is still on its way */
    atomic_store(&s.over, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    load_stop(&server);
    double p50 = part(s.waits, s.count, 50), p99 = part(s.waits, s.count, 99);
    printf("an enqueue on an idle server: %.2f ms\n", commit);
    printf(
        "from an enqueue to a waiting worker at %d jobs/s: p50 %.2f ms (%.1f commits), "
        "p99 %.2f ms, of %zu   target: p50 3 commits\n",
        PER_SECOND, p50, p50 / commit, p99, s.count);
    return 0;
}
