/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h -- where to listen, as a person writes it.
 *
 *   127.0.0.1:7420   [::1]:7420   localhost:7420   0.0.0.0:7420
 *   unix:/run/holdfast/api.sock
 *
 * Port 0 lets the system choose.  A name is looked up once, and must mean one
 * machine: its first address is taken, IPv4 before IPv6.
 *
 * Threads: no state; any thread. */
#pragma once

#include <sys/socket.h>

#include "base/base.h"
#include "base/status.h"

struct address {
    struct sockaddr_storage sock;
    socklen_t sock_bytes;
};

/* 0, or -HF_INVALID with a sentence that quotes `text`. */
must_check int address_parse(const char *text, struct error *error, struct address *ret);

/* The same as far as it can be told without looking up a name: for reading a
 * configuration, which may be meant for another machine. */
must_check int address_check(const char *text, struct error *error);

/* Whether only programs on this machine can reach it: loopback, or a Unix
 * socket.  Decides whether a server may run without tokens. */
bool address_is_local(const struct address *address);

bool address_is_unix(const struct address *address);

/* The address for people, in the form above.  Returns `out`. */
enum { ADDRESS_TEXT_BYTES = 128 };
char *address_text(const struct address *address, char out[ADDRESS_TEXT_BYTES]);
