/* SPDX-License-Identifier: Apache-2.0
 *
 * notify.c -- one datagram. */
#include "daemon/notify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_service(const char *format, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char text[1024];
    va_list args;

    if (!path || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof(address.sun_path))
        return;
    size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* Linux's names without a file */
        address.sun_path[0] = '\0';
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (n > 0)
        (void)!sendto(fd, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1,
                      MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    close(fd);
}

int64_t notify_watchdog_us(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!text || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    long long us = strtoll(text, NULL, 10);
    return us > 0 ? us : 0;
}
