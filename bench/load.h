/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h -- keep-alive HTTP clients on one epoll, and the programs they call.
 *
 * Each client sends its request, waits for the whole answer, and sends it again.  The
 * generator is one thread, so that it takes one core at most. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench.h"

enum { LOAD_CLIENTS_MAX = 4096, LOAD_ANSWER_BYTES = 1 << 20 };

/* ---- the program that is called ---- */

struct load_server {
    pid_t pid;
    int port;
};

/* Starts a program and returns what it prints first, a line, in `line`. */
static inline pid_t load_spawn(const char *const argv[], char *line, size_t room)
{
    int ends[2];
    if (pipe(ends) < 0)
        bench_die("pipe", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* whichever way the benchmark ends */
        dup2(ends[1], STDOUT_FILENO);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0;
    while (n + 1 < room && read(ends[0], line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    close(ends[0]);
    return pid;
}

/* `holdfast serve` on a new store beside this program. */
static inline struct load_server load_holdfast(const char *self, const char *db)
{
    char program[4096], line[1024], state[4300];
    const char *slash = strrchr(self, '/');
    snprintf(program, sizeof(program), "%.*s../holdfast",
             slash ? (int)(slash - self) + 1 : 0, self);
    snprintf(state, sizeof(state), "state_dir=%s.d", db);
    const char *argv[] = { program,    "serve",       "--db",  db,
                           "--listen", "127.0.0.1:0", "--set", "worker_listen=off",
                           "--set",    state,         NULL };
    pid_t pid = load_spawn(argv, line, sizeof(line));
    const char *port = strstr(line, "http://127.0.0.1:");
    if (!port)
        bench_die(program, "does not listen");
    return (struct load_server){ pid, (int)strtol(port + 17, NULL, 10) };
}

static inline void load_stop(struct load_server *server)
{
    kill(server->pid, SIGTERM);
    waitpid(server->pid, NULL, 0);
}

/* Resident memory in MiB. */
static inline double load_memory(const struct load_server *server)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", server->pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return kib / 1024;
}

/* Seconds of processor time that it has used. */
static inline double load_cpu(const struct load_server *server)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", server->pid);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof(text), file) && strrchr(text, ')'))
        (void)sscanf(strrchr(text, ')') + 2,
                     "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                     &system);
    if (file)
        fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* ---- clients ---- */

static inline int load_connect(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    for (int i = 0; i < 200; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            bench_die("socket", strerror(errno));
        if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
            return fd;
        }
        close(fd);
        bench_sleep_us(10000); /* nginx is told of, not waited for */
    }
    bench_die("connect", strerror(errno));
}

struct load_client {
    int fd;
    size_t got;
    double sent;
    char answer[8192];
};

struct load {
    int port, clients;
    const char *request;
    size_t request_bytes;
    double seconds;
    int status;            /* that every answer must have */
    double rate, p50, p99; /* out: answers a second, milliseconds */
};

static inline void load_send(const struct load *load, struct load_client *c)
{
    size_t sent = 0;
    c->got = 0;
    c->sent = bench_now();
    while (sent < load->request_bytes) {
        ssize_t n = write(c->fd, load->request + sent, load->request_bytes - sent);
        if (n <= 0)
            bench_die("write", strerror(errno));
        sent += (size_t)n;
    }
}

/* True when the whole answer is there. */
static inline bool load_receive(const struct load *load, struct load_client *c)
{
    ssize_t n = read(c->fd, c->answer + c->got, sizeof(c->answer) - 1 - c->got);
    if (n <= 0)
        bench_die("read", n < 0 ? strerror(errno) : "the server hung up");
    c->got += (size_t)n;
    c->answer[c->got] = '\0';
    const char *body = strstr(c->answer, "\r\n\r\n");
    const char *length = strcasestr(c->answer, "\r\nContent-Length: ");
    if (!body || !length)
        return false;
    size_t whole =
        (size_t)(body + 4 - c->answer) + (size_t)strtoull(length + 18, NULL, 10);
    if (whole >= sizeof(c->answer)) { /* a long one: counted, not kept */
        size_t left = whole - c->got;
        while (left > 0) {
            char scratch[65536];
            n = read(c->fd, scratch, left < sizeof(scratch) ? left : sizeof(scratch));
            if (n <= 0)
                bench_die("read", "the server hung up");
            left -= (size_t)n;
        }
    } else if (c->got < whole) {
        return false;
    }
    if (strtol(c->answer + 9, NULL, 10) != load->status)
        bench_die("an answer was not as it should be", c->answer);
    return true;
}

static inline void load_run(struct load *load)
{
    enum { WAITS = 1 << 20 };
    static double waits[WAITS];
    static struct load_client clients[LOAD_CLIENTS_MAX];
    size_t count = 0;
    int loop = epoll_create1(EPOLL_CLOEXEC);

    assert(load->clients <= LOAD_CLIENTS_MAX);
    for (int i = 0; i < load->clients; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = &clients[i] } };
        clients[i].fd = load_connect(load->port);
        epoll_ctl(loop, EPOLL_CTL_ADD, clients[i].fd, &event);
    }
    double start = bench_now(), end = start + load->seconds, now = start;
    for (int i = 0; i < load->clients; i++)
        load_send(load, &clients[i]);
    while (now < end) {
        struct epoll_event events[256];
        int n = epoll_wait(loop, events, array_len(events), 1000);
        for (int i = 0; i < n; i++) {
            struct load_client *c = events[i].data.ptr;
            if (!load_receive(load, c))
                continue;
            now = bench_now();
            waits[count++ % WAITS] = now - c->sent;
            load_send(load, c);
        }
        now = bench_now();
    }
    for (int i = 0; i < load->clients; i++)
        close(clients[i].fd);
    close(loop);
    size_t kept = count < WAITS ? count : WAITS;
    qsort(waits, kept, sizeof(*waits), bench_by_value);
    load->rate = (double)count / (now - start);
    load->p50 = kept ? waits[kept / 2] * 1e3 : 0;
    load->p99 = kept ? waits[kept * 99 / 100] * 1e3 : 0;
}
