/* SPDX-License-Identifier: Apache-2.0
 *
 * api_private.h -- what the files of the API share. */
#pragma once

#include "api/api.h"
#include "api/auth.h"
#include "api/claims.h"
#include "api/token_cache.h"
#include "api/waiters.h"

struct api {
    struct api_options options;
    struct node *node;
    struct http_server *server; /* NULL until it listens */
    bool stopping;
    struct auth *auth;
    struct token_cache *tokens;
    struct http_figures *http_figures;
    struct waiters waiters;
    struct claim_line claims;
    struct streams *streams; /* of events */
    struct buf scratch;      /* of an answer while it is written; empty otherwise */
};
