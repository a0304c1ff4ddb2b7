/* SPDX-License-Identifier: Apache-2.0
 *
 * server_private.h -- the server as its own files see it: server.c starts it and is
 * told by the node, server_stop.c ends it, server_reload.c reads the configuration
 * again.
 *
 * Threads: the loop's. */
#pragma once

#include <event2/event.h>
#include <limits.h>

#include "api/api.h"
#include "base/lockfile.h"
#include "daemon/commands.h"
#include "daemon/log_stderr.h"
#include "daemon/server.h"
#include "daemon/watchdog.h"
#include "exec/runner.h"
#include "exec/webhook_sender.h"
#include "net/http_server.h"
#include "net/tls.h"

enum { SIGNALS = 3 };

struct server {
    struct config *config;
    const struct config_input *input;
    struct log_stderr log;
    struct event_base *loop;
    struct event *signals[SIGNALS];
    struct event *draining;
    struct watchdog watchdog;
    char state_dir[PATH_MAX]; /* without links: others compare it with theirs */
    struct lockfile *state_lock;
    struct address_policy *policy;
    struct commands *commands; /* in use */
    struct commands *waiting;  /* of a reload, until the engine has them */
    bool reload_again;         /* asked for meanwhile */
    struct runner *runner;
    struct webhook_sender *sender;
    struct node *node;
    struct api *api;
    struct tls *tls;
    struct http_server *http;

    enum { SERVING, DRAINING, HANDING_OVER, LEAVING } phase;
    int64_t until_us;   /* of the phase, monotonic */
    bool recovered;     /* the recovery of this start is through */
    int64_t open_files; /* the soft limit we were given */
    bool quiet;         /* the node has said that it starts nothing more */
    int result;
    struct error error;
};

static inline struct log *log_of(struct server *server)
{
    return &server->log.log;
}

/* SIGTERM or SIGINT: the first begins a stop, the next one ends it at once. */
void server_stop(struct server *server, const char *signal);
/* To be called by the timer `draining`. */
void server_stop_step(struct server *server);

/* SIGHUP. */
void server_reload(struct server *server);
