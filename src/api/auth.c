/* SPDX-License-Identifier: Apache-2.0
 *
 * auth.c -- from a token to what it may do. */
#include "api/auth.h"

#include <openssl/crypto.h>
#include <strings.h>

#include "api/call.h"
#include "api/origin.h"
#include "api/token_cache.h"
#include "base/hash.h"
#include "base/limits.h"

struct auth {
    bool open;
    bool has_admin;
    uint8_t admin[SHA256_BYTES]; /* hash of the configuration's token */
    const char *allowed_hosts;
    const struct token_cache *tokens;
};

int auth_new(const char *token, bool open, const char *allowed_hosts,
             const struct token_cache *tokens, struct error *error, struct auth **ret)
{
    struct auth *auth = new (struct auth);
    if (!auth)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    auth->open = open;
    auth->allowed_hosts = allowed_hosts;
    auth->tokens = tokens;
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

/* The token of "Bearer TOKEN"; absent if there is none. */
static struct slice token_of(const struct http_head *head)
{
    struct slice given =
        http_pair_find(head->headers, head->header_count, "Authorization");
    if (given.n <= 7 || strncasecmp(given.p, "Bearer ", 7) != 0)
        return (struct slice){ 0 };
    return (struct slice){ given.p + 7, given.n - 7 };
}

/* Whose token it is; the role stays ROLE_NONE if it is nobody's. */
static int identify(const struct auth *auth, struct slice token, struct identity *ret)
{
    uint8_t hash[SHA256_BYTES];
    int r = sha256(token, hash);
    if (r < 0)
        return r;
    const struct cached_token *known = token_cache_find(auth->tokens, hash);
    if (auth->has_admin && CRYPTO_memcmp(hash, auth->admin, SHA256_BYTES) == 0) {
        ret->role = ROLE_ADMIN;
    } else if (known) {
        ret->role = (enum role)known->role;
        ret->token_id = known->id;
        ret->project_id = known->project_id;
        memcpy(ret->project, known->project, sizeof(ret->project));
    }
    return 0;
}

static int may(const struct identity *who, const struct route *route, struct error *error)
{
    enum role needs = route ? route->role : ROLE_VIEWER;
    if (!role_may(who->role, needs))
        return error_set(error, -HF_FORBIDDEN, NULL,
                         "This token has the role %s; this needs the role %s.",
                         role_name(who->role), role_name(needs));
    if (route && route->unbound && who->project_id)
        return error_set(error, -HF_FORBIDDEN, NULL,
                         "This token is bound to the project %s; this is about all "
                         "projects, and needs one that is not bound.",
                         who->project);
    return 0;
}

int auth_check(struct auth *auth, const struct http_request *request,
               const struct http_server *server, const struct route *route,
               struct identity *ret, struct error *error)
{
    struct slice token = token_of(&request->head);
    int r = origin_check(request, server, auth->allowed_hosts, error);

    *ret = (struct identity){ .role = ROLE_NONE };
    if (r == 0 && token.p)
        r = identify(auth, token, ret);
    if (r < 0)
        return error_set(error, r, NULL, "%s.", status_of(r)->title);
    if (route && route->role == ROLE_NONE)
        return 0;
    if (ret->role == ROLE_NONE && auth->open)
        ret->role = ROLE_ADMIN;
    if (ret->role != ROLE_NONE)
        return may(ret, route, error);
    if (token.p && !token_cache_is_read(auth->tokens))
        return error_set(error, -HF_BUSY, NULL,
                         "The server is starting, and has not read its tokens yet; try "
                         "again in a moment.");
    return error_set(error, -HF_UNAUTHORIZED, "Authorization",
                     token.p ? "This token is not known; it may have been deleted."
                             : "This needs a token: send \"Authorization: Bearer "
                               "TOKEN\".");
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
