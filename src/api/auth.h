/* SPDX-License-Identifier: Apache-2.0
 *
 * auth.h -- who calls, and what they may do.
 *
 * Roles are a ladder but for one rung: a worker may claim and report, which a
 * producer may not, and neither may do what an operator does.
 *
 *   viewer    looks
 *   producer  looks, enqueues, cancels and changes jobs
 *   worker    looks, claims, beats, reports
 *   operator  all of that, queues, retries, reservations, recoveries
 *   admin     tokens as well
 *
 * Threads: the loop's. */
#pragma once

#include "base/status.h"
#include "net/http_server.h"

enum role {
    ROLE_NONE, /* anybody, without a token */
    ROLE_VIEWER,
    ROLE_PRODUCER,
    ROLE_WORKER,
    ROLE_OPERATOR,
    ROLE_ADMIN
};

struct identity {
    enum role role;
    int64_t token_id;   /* 0: the configuration's, or none was asked for */
    int64_t project_id; /* 0: not bound */
    char project[101];  /* "" */
};

struct auth;
struct http_server;
struct route;
struct token_cache;

/* `token` may be NULL or "": then only tokens of the store are good.  `open`: no token
 * is asked for; one that is known still says what its bearer may do.  `allowed_hosts`
 * and `tokens` are borrowed. */
must_check int auth_new(const char *token, bool open, const char *allowed_hosts,
                        const struct token_cache *tokens, struct error *error,
                        struct auth **ret);
void auth_free(struct auth *auth);

/* Who sends this request, and may they call this route?  `route` may be NULL: then
 * whether they may see that there is none.  Host and Origin are checked first, so
 * that a web page cannot drive a server on this machine.  0, -HF_UNAUTHORIZED,
 * -HF_FORBIDDEN with a sentence; -HF_BUSY while the tokens have not been read.
 * `server` (may be NULL) knows the addresses we listen on. */
must_check int auth_check(struct auth *auth, const struct http_request *request,
                          const struct http_server *server, const struct route *route,
                          struct identity *ret, struct error *error);

const char *role_name(enum role role);

/* Whether `has` may do what asks for `needs`. */
bool role_may(enum role has, enum role needs);
