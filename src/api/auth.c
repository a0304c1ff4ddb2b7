/* SPDX-License-Identifier: Apache-2.0
 *
 * auth.c -- roles, tokens, and where a request may come from. */
#include "api/auth.h"

#include <openssl/crypto.h>

#include "api/call.h"
#include "base/hash.h"

struct auth {
    bool open;
    bool has_admin;
    uint8_t admin[SHA256_BYTES]; /* hash of the configuration's token */
};

int auth_new(const char *token, bool open, const char *allowed_hosts, struct error *error,
             struct auth **ret)
{
    struct auth *auth = new (struct auth);
    (void)allowed_hosts;
    if (!auth)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    auth->open = open;
    auth->has_admin = token && token[0];
    if (auth->has_admin && sha256(slice_of(token), auth->admin) < 0) {
        free(auth);
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    }
    *ret = auth;
    return 0;
}

void auth_free(struct auth *auth)
{
    free(auth);
}

int auth_check(struct auth *auth, const struct http_request *request,
               const struct route *route, struct identity *ret, struct error *error)
{
    const struct http_head *head = &request->head;
    struct slice given =
        http_pair_find(head->headers, head->header_count, "Authorization");
    uint8_t hash[SHA256_BYTES];
    enum role needs = route ? route->role : ROLE_VIEWER;

    *ret = (struct identity){ .role = auth->open ? ROLE_ADMIN : ROLE_NONE };
    if (given.n > 7 && strncasecmp(given.p, "Bearer ", 7) == 0 && auth->has_admin &&
        sha256((struct slice){ given.p + 7, given.n - 7 }, hash) == 0 &&
        CRYPTO_memcmp(hash, auth->admin, SHA256_BYTES) == 0)
        ret->role = ROLE_ADMIN;
    if (ret->role == ROLE_NONE && needs != ROLE_NONE)
        return error_set(error, -HF_UNAUTHORIZED, "Authorization",
                         "This needs a token: send \"Authorization: Bearer TOKEN\".");
    if (!role_may(ret->role, needs))
        return error_set(error, -HF_FORBIDDEN, NULL,
                         "This token is for a %s; this needs a %s.", role_name(ret->role),
                         role_name(needs));
    return 0;
}

static const char *const names[] = {
    [ROLE_NONE] = "none",     [ROLE_VIEWER] = "viewer",     [ROLE_PRODUCER] = "producer",
    [ROLE_WORKER] = "worker", [ROLE_OPERATOR] = "operator", [ROLE_ADMIN] = "admin",
};

const char *role_name(enum role role)
{
    return names[role];
}

bool role_may(enum role has, enum role needs)
{
    if (has == ROLE_WORKER && needs == ROLE_PRODUCER)
        return false; /* beside each other, not above */
    return has >= needs;
}
