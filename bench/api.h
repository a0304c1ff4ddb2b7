/* SPDX-License-Identifier: Apache-2.0
 *
 * api.h -- one request to the server that is measured, and its answer. */
#pragma once

#include "load.h"

/* Sends a request below /api/v1 on a connection of its own; what it is answered, head
 * and body, stays until the next call.  Dies if it is not a success. */
static inline const char *api_call(const struct load_server *server, const char *method,
                                   const char *path, const char *body, size_t n)
{
    static char answer[1 << 20];
    char head[300];
    int fd = load_connect(server->port);
    int head_bytes = snprintf(head, sizeof(head),
                              "%s /api/v1%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: "
                              "close\r\nContent-Length: %zu\r\n\r\n",
                              method, path, n);
    if (write(fd, head, (size_t)head_bytes) != head_bytes)
        bench_die(path, strerror(errno));
    for (size_t sent = 0; sent < n;) {
        ssize_t k = write(fd, body + sent, n - sent);
        if (k <= 0)
            bench_die(path, strerror(errno));
        sent += (size_t)k;
    }
    size_t got = 0;
    ssize_t k;
    while ((k = read(fd, answer + got, sizeof(answer) - 1 - got)) > 0)
        got += (size_t)k;
    answer[got] = '\0';
    close(fd);
    if (strncmp(answer, "HTTP/1.1 2", 10) != 0)
        bench_die(path, answer);
    return answer;
}

static inline const char *api_text(const struct load_server *server, const char *method,
                                   const char *path, const char *body)
{
    return api_call(server, method, path, body, strlen(body));
}

/* A number in the last answer, behind "name":; -1 if it is not there. */
static inline int64_t api_number(const char *answer, const char *name)
{
    char key[100];
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(answer, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}
