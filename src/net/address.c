/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c -- HOST:PORT or unix:PATH into what bind() wants, and back. */
#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>

#define EXPECTED "it should be HOST:PORT, [IPV6]:PORT or unix:PATH"

static int parse_unix(const char *text, const char *path, struct error *error,
                      struct address *ret)
{
    struct sockaddr_un sock = { .sun_family = AF_UNIX };
    size_t length = strlen(path);

    if (length == 0)
        return error_set(error, -HF_INVALID, NULL,
                         "the address \"%s\" has no path behind \"unix:\"", text);
    if (length >= sizeof(sock.sun_path))
        return error_set(error, -HF_INVALID, NULL,
                         "the path in the address \"%s\" has %zu bytes; a Unix socket's "
                         "may have at most %zu",
                         text, length, sizeof(sock.sun_path) - 1);
    memcpy(sock.sun_path, path, length + 1);
    memcpy(&ret->sock, &sock, sizeof(sock));
    ret->sock_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return 0;
}

/* Digits only, so that "7420 " and "+7420" are not taken for what they resemble. */
static bool port_valid(const char *port)
{
    long n = 0;

    if (!*port || strlen(port) > 5)
        return false;
    for (; *port; port++) {
        if (*port < '0' || *port > '9')
            return false;
        n = n * 10 + (*port - '0');
    }
    return n <= 65535;
}

static int resolve(const char *text, const char *host, const char *port,
                   struct error *error, struct address *ret)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int r = EAI_NONAME;

    /* IPv4 first, so that "localhost" means the same on every machine. */
    for (size_t i = 0; r != 0 && i < 2; i++) {
        hints.ai_family = i == 0 ? AF_INET : AF_INET6;
        r = getaddrinfo(host, port, &hints, &found);
    }
    if (r != 0)
        return error_set(error, -HF_INVALID, NULL,
                         "the host in the address \"%s\" is not known (%s)", text,
                         gai_strerror(r));
    assert(found && found->ai_addrlen <= sizeof(ret->sock));
    memcpy(&ret->sock, found->ai_addr, found->ai_addrlen);
    ret->sock_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

enum { HOST_BYTES = 256 };

/* HOST:PORT or [HOST]:PORT taken apart; nothing is looked up. */
static int split_host(const char *text, struct error *error, char host[HOST_BYTES],
                      const char **ret_port)
{
    const char *colon = strrchr(text, ':');

    if (!colon)
        return error_set(error, -HF_INVALID, NULL,
                         "the address \"%s\" has no port; " EXPECTED, text);
    if (!port_valid(colon + 1))
        return error_set(error, -HF_INVALID, NULL,
                         "the port in the address \"%s\" is not a number from 0 to 65535",
                         text);
    const char *from = text;
    size_t length = (size_t)(colon - text);
    bool bracketed = length >= 2 && from[0] == '[' && from[length - 1] == ']';
    if (bracketed) {
        from++;
        length -= 2;
    }
    if (length == 0)
        return error_set(error, -HF_INVALID, NULL,
                         "the address \"%s\" has no host; write 0.0.0.0 or [::] for all "
                         "addresses of this machine",
                         text);
    /* Without brackets nobody can tell where an IPv6 address ends. */
    if (length >= HOST_BYTES || (!bracketed && memchr(from, ':', length)))
        return error_set(error, -HF_INVALID, NULL,
                         "the address \"%s\" is not one to listen on; " EXPECTED, text);
    memcpy(host, from, length);
    host[length] = '\0';
    *ret_port = colon + 1;
    return 0;
}

int address_check(const char *text, struct error *error)
{
    struct address unused = { 0 };
    char host[HOST_BYTES];
    const char *port = NULL;

    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text, text + 5, error, &unused);
    return split_host(text, error, host, &port);
}

int address_parse(const char *text, struct error *error, struct address *ret)
{
    struct address address = { 0 };
    char host[HOST_BYTES];
    const char *port = NULL;
    int r;

    assert(text && ret);
    if (strncmp(text, "unix:", 5) == 0) {
        r = parse_unix(text, text + 5, error, &address);
    } else {
        r = split_host(text, error, host, &port);
        if (r == 0)
            r = resolve(text, host, port, error, &address);
    }
    if (r == 0)
        *ret = address;
    return r;
}

bool address_is_unix(const struct address *address)
{
    return address->sock.ss_family == AF_UNIX;
}

bool address_is_local(const struct address *address)
{
    if (address_is_unix(address))
        return true;
    if (address->sock.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &address->sock, sizeof(in));
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sock.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &address->sock, sizeof(in6));
        return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) && in6.sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

char *address_text(const struct address *address, char out[ADDRESS_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (address_is_unix(address)) {
        struct sockaddr_un un;
        memcpy(&un, &address->sock, sizeof(un));
        snprintf(out, ADDRESS_TEXT_BYTES, "unix:%s", un.sun_path);
    } else if (address->sock.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &address->sock, sizeof(in));
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(in.sin_port));
    } else if (address->sock.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &address->sock, sizeof(in6));
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(in6.sin6_port));
    } else {
        snprintf(out, ADDRESS_TEXT_BYTES, "?");
    }
    return out;
}
