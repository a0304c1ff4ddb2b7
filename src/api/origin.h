/* SPDX-License-Identifier: Apache-2.0
 *
 * origin.h -- a web page of somebody else cannot drive this server.
 *
 * A browser on this machine reaches a server on loopback, whoever wrote the page.  Two
 * headers that a page cannot forge tell such requests apart:
 *
 *   Host     must be a name of ours: a loopback name, an address we listen on, or one of
 *            allowed_hosts.  A page whose own name was pointed at this machine (DNS
 *            rebinding) brings its own name here.
 *   Origin   if there is one, must be the Host itself; and a request that says it was
 *            made by another site's page (Sec-Fetch-Site) is refused, but for following
 *            a link.
 *
 * Over a Unix socket there are no browsers, and any Host is fine.
 *
 * Threads: the loop's. */
#pragma once

#include "net/http_server.h"

/* `server` may be NULL (then only loopback and `allowed_hosts`, which has commas between).
 * 0, or -HF_FORBIDDEN with a sentence. */
must_check int origin_check(const struct http_request *request,
                            const struct http_server *server, const char *allowed_hosts,
                            struct error *error);
