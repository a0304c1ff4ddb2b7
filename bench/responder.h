/* SPDX-License-Identifier: Apache-2.0
 *
 * responder.h -- a server to be called by what is measured: a process of its own that
 * answers every request with 200 and two bytes, kept alive, and counts them. */
#pragma once

#include <sys/mman.h>

#include "load.h"

struct responder {
    pid_t pid;
    int port;
    _Atomic int *count; /* requests so far; shared with it */
};

enum { RESPONDER_FDS = 8192, RESPONDER_BYTES = 16384 };

/* How much of `text` is a whole request; 0: none yet. */
static inline size_t responder_whole(const char *text, size_t n)
{
    const char *end = memmem(text, n, "\r\n\r\n", 4);
    const char *length = end ? strcasestr(text, "\r\nContent-Length: ") : NULL;
    size_t whole = end ? (size_t)(end - text) + 4 : 0;
    if (length && length < end)
        whole += (size_t)strtoull(length + 18, NULL, 10);
    return whole <= n ? whole : 0;
}

static inline void responder_read(struct responder *r, int fd, char *text, size_t *got)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: "
                                 "application/json\r\nContent-Length: 2\r\n\r\n{}";
    ssize_t n = read(fd, text + *got, RESPONDER_BYTES - 1 - *got);
    if (n <= 0) {
        *got = 0;
        close(fd);
        return;
    }
    *got += (size_t)n;
    text[*got] = '\0';
    size_t whole;
    while ((whole = responder_whole(text, *got)) > 0) {
        *got -= whole;
        memmove(text, text + whole, *got + 1);
        (*r->count)++;
        (void)!write(fd, answer, sizeof(answer) - 1);
    }
}

static inline _Noreturn void responder_serve(struct responder *r, int listener)
{
    static char text[RESPONDER_FDS][RESPONDER_BYTES];
    static size_t got[RESPONDER_FDS];
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data = { .fd = listener } };
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event events[256];
        int n = epoll_wait(loop, events, array_len(events), -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                responder_read(r, fd, text[fd], &got[fd]);
                continue;
            }
            while ((fd = accept(listener, NULL, NULL)) >= 0) {
                if (fd >= RESPONDER_FDS)
                    _exit(1);
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
                got[fd] = 0;
                event = (struct epoll_event){ .events = EPOLLIN, .data = { .fd = fd } };
                epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
}

/* Ends with this process. */
static inline struct responder responder_start(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof(at);
    struct responder r = { .count = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0) };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r.count == MAP_FAILED || bind(listener, (struct sockaddr *)&at, length) < 0 ||
        listen(listener, 4096) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &length) < 0)
        bench_die("responder", strerror(errno));
    r.port = ntohs(at.sin_port);
    r.pid = fork();
    if (r.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        responder_serve(&r, listener);
    }
    close(listener);
    return r;
}

static inline void responder_stop(struct responder *r)
{
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    munmap((void *)r->count, 4096);
}
