/* SPDX-License-Identifier: Apache-2.0
 *
 * server_stop.c -- from a signal to the end, in phases:
 *
 *   SERVING ──signal──► DRAINING      nothing is claimed; what runs is waited for, and
 *                                     deliveries of webhooks for two seconds
 *     ──idle, or grace──► HANDING_OVER  HTTP requests are aborted as interrupted, and
 *                                     commands are asked to end if so configured
 *     ──idle, or time──► LEAVING      the API's clients get their last answers
 *     ──gone, or time──► the loop ends, the node is closed (server.c)
 *
 * A second signal goes to the end from wherever it is.  That loses nothing: closing
 * the node hands over what it still has, in one transaction. */
#include "daemon/notify.h"
#include "daemon/server_private.h"

enum { POLL_MS = 50 };

#define LAST_WORDS_US (2 * US_PER_S)
#define REPORT_US (5 * US_PER_S) /* for outcomes to get to the disk */

static int64_t mono_now(void)
{
    return clock_mono_us(&clock_system);
}

static bool leaves_commands(const struct server *server)
{
    return server->config->server.shutdown_commands == COMMANDS_LEAVE;
}

/* Whether something runs, or may still be told to, that is worth waiting for. */
static bool is_busy(const struct server *server)
{
    size_t left = leaves_commands(server) ? runner_commands(server->runner) : 0;
    return !server->quiet || runner_busy(server->runner) > left ||
           webhook_sender_busy(server->sender) > 0;
}

static bool phase_is_over(const struct server *server)
{
    struct http_stats stats;
    if (mono_now() >= server->until_us)
        return true;
    if (server->phase != LEAVING)
        return !is_busy(server);
    http_server_stats(server->http, &stats);
    return stats.connections == 0;
}

static void hand_over(struct server *server)
{
    bool stop = !leaves_commands(server);
    /* Commands have their own grace between SIGTERM and SIGKILL. */
    int64_t grace_us = stop ? commands_longest_grace_us(server->commands) : 0;

    server->phase = HANDING_OVER;
    server->until_us = mono_now() + grace_us + REPORT_US;
    log_event(log_of(server), LEVEL_INFO, "handing_over",
              log_int("running", (int64_t)runner_busy(server->runner)),
              log_int("commands", (int64_t)runner_commands(server->runner)),
              log_text("commands_are", stop ? "stopped" : "left"));
    runner_hand_over(server->runner, stop);
}

static void say_goodbye(struct server *server)
{
    server->phase = LEAVING;
    server->until_us = mono_now() + LAST_WORDS_US;
    http_server_stop(server->http, LAST_WORDS_US, NULL);
}

void server_stop_step(struct server *server)
{
    if (server->phase == DRAINING && phase_is_over(server))
        hand_over(server);
    if (server->phase == HANDING_OVER && phase_is_over(server))
        say_goodbye(server);
    if (server->phase == LEAVING && phase_is_over(server))
        event_base_loopbreak(server->loop);
}

static void begin(struct server *server, const char *signal)
{
    const struct timeval often = { 0, POLL_MS * 1000 };

    log_event(log_of(server), LEVEL_INFO, "stopping", log_text("signal", signal),
              log_int("running", (int64_t)runner_busy(server->runner)));
    notify_service("STOPPING=1\nSTATUS=Stopping");
    server->phase = DRAINING;
    server->until_us = mono_now() + server->config->engine.shutdown_grace_us;
    api_stopping(server->api);
    webhook_sender_stop(server->sender);
    /* turned() says when it holds.  If it cannot be told, the time decides. */
    if (node_set_capacity(server->node, 0) < 0)
        log_event(log_of(server), LEVEL_ERROR, "claims_not_stopped");
    event_add(server->draining, &often);
}

void server_stop(struct server *server, const char *signal)
{
    if (server->phase == SERVING) {
        begin(server, signal);
        return;
    }
    log_event(log_of(server), LEVEL_WARN, "stopping_at_once", log_text("signal", signal),
              log_int("running", (int64_t)runner_busy(server->runner)));
    if (server->phase == DRAINING)
        hand_over(server);
    event_base_loopbreak(server->loop);
}
