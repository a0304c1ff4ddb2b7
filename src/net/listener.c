/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.c -- bind, listen, and what may be wrong with either. */
#include "listener.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The kernel cuts it to net.core.somaxconn. */
enum { BACKLOG = 4096 };

static const struct sockaddr *sock_of(const struct address *address)
{
    return (const struct sockaddr *)&address->sock;
}

static const char *path_of(const struct address *address)
{
    assert(address_is_unix(address));
    return ((const struct sockaddr_un *)&address->sock)->sun_path;
}

static int set_error(const struct address *address, int code, struct error *error)
{
    char text[ADDRESS_TEXT_BYTES];

    address_text(address, text);
    switch (code) {
    case EADDRINUSE:
        return error_set(error, -HF_LOCKED, NULL,
                         "cannot listen on %s: another program does", text);
    case EACCES:
    case EPERM:
        return error_set(error, -HF_INVALID, NULL,
                         "cannot listen on %s: this user may not (ports below 1024 "
                         "and foreign folders need more rights)",
                         text);
    case EADDRNOTAVAIL:
        return error_set(error, -HF_INVALID, NULL,
                         "cannot listen on %s: it is no address of this machine", text);
    case EEXIST:
        return error_set(error, -HF_INVALID, NULL,
                         "cannot listen on %s: there is a file of that name that is no "
                         "socket",
                         text);
    case ENOENT:
    case ENOTDIR:
        return error_set(error, -HF_INVALID, NULL,
                         "cannot listen on %s: its folder does not exist", text);
    default:
        return error_set(error, -HF_SYSTEM, NULL, "cannot listen on %s: %s", text,
                         strerror(code));
    }
}

/* Whether nobody listens on the socket whose file stands at the path. */
static bool is_stale(const struct address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool stale =
        connect(fd, sock_of(address), address->sock_bytes) < 0 && errno == ECONNREFUSED;
    close(fd);
    return stale;
}

static int bind_unix(struct listener *listener, unsigned mode)
{
    const struct address *address = &listener->address;
    struct stat info;

    int r = bind(listener->fd, sock_of(address), address->sock_bytes);
    if (r < 0 && errno == EADDRINUSE) {
        bool is_socket = lstat(path_of(address), &info) == 0 && S_ISSOCK(info.st_mode);
        if (!is_socket || !is_stale(address)) {
            errno = is_socket ? EADDRINUSE : EEXIST;
            return -1;
        }
        unlink(path_of(address));
        r = bind(listener->fd, sock_of(address), address->sock_bytes);
    }
    if (r < 0)
        return r;
    if (lstat(path_of(address), &info) == 0) {
        listener->device = info.st_dev;
        listener->inode = info.st_ino;
    }
    /* Before listen(), so there is no moment at which too many may connect. */
    return chmod(path_of(address), mode);
}

static int bind_inet(struct listener *listener)
{
    struct address *address = &listener->address;

    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (bind(listener->fd, sock_of(address), address->sock_bytes) < 0)
        return -1;
    return getsockname(listener->fd, (struct sockaddr *)&address->sock,
                       &address->sock_bytes);
}

int listener_open(struct listener *listener, const struct address *address,
                  unsigned unix_mode, struct error *error)
{
    *listener = (struct listener){ .address = *address };
    listener->fd =
        socket(address->sock.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return set_error(address, errno, error);
    int r =
        address_is_unix(address) ? bind_unix(listener, unix_mode) : bind_inet(listener);
    if (r == 0)
        r = listen(listener->fd, BACKLOG);
    if (r < 0) {
        r = set_error(address, errno, error);
        listener_close(listener);
    }
    return r;
}

void listener_close(struct listener *listener)
{
    struct stat info;

    if (listener->fd < 0)
        return;
    if (listener->inode && lstat(path_of(&listener->address), &info) == 0 &&
        info.st_dev == listener->device && info.st_ino == listener->inode)
        unlink(path_of(&listener->address));
    close(listener->fd);
    listener->fd = -1;
}
