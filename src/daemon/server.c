/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c -- the parts, in the order they depend on each other. */
#include "daemon/server.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "api/api.h"
#include "base/lockfile.h"
#include "daemon/commands.h"
#include "daemon/log_stderr.h"
#include "daemon/notify.h"
#include "daemon/queues.h"
#include "exec/runner.h"
#include "net/address.h"
#include "net/http_server.h"
#include "net/tls.h"

enum { SIGNALS = 3, POLL_MS = 50 };

struct server {
    struct config *config;
    const struct config_input *input;
    struct log_stderr log;
    struct event_base *loop;
    struct event *signals[SIGNALS];
    struct event *watchdog, *draining;
    struct lockfile *state_lock;
    struct address_policy *policy;
    struct commands *commands;
    struct runner *runner;
    struct node *node;
    struct api *api;
    struct tls *tls;
    struct http_server *http;

    enum { SERVING, DRAINING, HANDING_OVER, LEAVING } phase;
    int64_t until_us; /* of the phase, monotonic */
    int result;
    struct error error;
};

static int64_t mono_now(void)
{
    return clock_mono_us(&clock_system);
}

static struct log *log_of(struct server *server)
{
    return &server->log.log;
}

/* ---- the node's calls ---- */

static void on_started(void *arg, const struct started *run)
{
    struct server *server = arg;
    runner_started(server->runner, run);
}

static void on_stop_run(void *arg, int64_t job_id, int type)
{
    struct server *server = arg;
    runner_stop_run(server->runner, job_id, type);
}

static void on_told(void *arg, const struct event *event, const char *queue,
                    const char *project)
{
    struct server *server = arg;
    if (server->api)
        api_told(server->api, event, queue, project);
}

static void on_ready(void *arg, const int64_t *queue_ids, size_t count)
{
    struct server *server = arg;
    if (server->api)
        api_ready(server->api, queue_ids, count);
}

static bool adopts(void *arg, const struct job_row *row)
{
    struct server *server = arg;
    return runner_adopts(server->runner, row);
}

static void stop_broken(struct server *server, int code)
{
    server->result = error_set(&server->error, code, NULL,
                               "The store cannot be trusted any more (%s). Nothing that "
                               "was acknowledged is lost; start again to recover.",
                               status_of(code)->title);
    event_base_loopbreak(server->loop);
}

static void on_turned(void *arg, const struct node_status *status)
{
    struct server *server = arg;

    if (status->recovering)
        notify_service("STATUS=Recovering: %lld jobs resolved",
                       (long long)status->recovered);
    else if (status->ready && server->phase == SERVING)
        notify_service("STATUS=Ready");
    if (status->lease_until)
        runner_renewed(server->runner, status->lease_until);
    if (server->api)
        api_turned(server->api, status);
    if (status->broken)
        stop_broken(server, status->broken);
}

/* ---- stopping ---- */

static void leave(void *arg)
{
    struct server *server = arg;
    event_base_loopbreak(server->loop);
}

/* Whether something runs that is worth waiting for. */
static bool is_busy(const struct server *server)
{
    size_t busy = runner_busy(server->runner);
    bool left = server->config->server.shutdown_commands == COMMANDS_LEAVE;
    return left ? busy > runner_commands(server->runner) : busy > 0;
}

static void next_phase(struct server *server)
{
    const struct server_settings *s = &server->config->server;
    const int64_t last_words_us = 2 * US_PER_S;

    switch (server->phase) {
    case SERVING:
    case DRAINING:
        server->phase = HANDING_OVER;
        runner_hand_over(server->runner, s->shutdown_commands == COMMANDS_LEAVE);
        /* Commands have their own grace between SIGTERM and SIGKILL. */
        server->until_us =
            mono_now() + commands_longest_grace_us(server->commands) + 5 * US_PER_S;
        break;
    case HANDING_OVER:
        server->phase = LEAVING;
        api_stopping(server->api);
        http_server_stop(server->http, last_words_us, NULL);
        server->until_us = mono_now() + last_words_us;
        break;
    case LEAVING:
        leave(server);
        break;
    }
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

static void on_draining(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    while (server->phase != LEAVING && phase_is_over(server))
        next_phase(server);
    if (server->phase == LEAVING && phase_is_over(server))
        leave(server);
}

static void begin_stop(struct server *server, const char *why)
{
    const struct timeval often = { 0, POLL_MS * 1000 };

    log_event(log_of(server), LEVEL_INFO, "stopping", log_text("signal", why),
              log_int("running", (int64_t)runner_busy(server->runner)));
    notify_service("STOPPING=1\nSTATUS=Stopping");
    server->phase = DRAINING;
    server->until_us = mono_now() + server->config->engine.shutdown_grace_us;
    node_set_capacity(server->node, 0);
    event_add(server->draining, &often);
    on_draining(-1, 0, server);
}

static void reload(struct server *server);

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct server *server = arg;
    (void)what;
    if (number == SIGHUP)
        reload(server);
    else if (server->phase == SERVING)
        begin_stop(server, number == SIGINT ? "SIGINT" : "SIGTERM");
    else
        server->until_us = 0; /* a second one: no more waiting */
}

/* ---- SIGHUP ---- */

static void tell_change(void *arg, const char *name, bool effective, const char *sentence)
{
    struct server *server = arg;
    log_event(log_of(server), effective ? LEVEL_INFO : LEVEL_WARN, "setting_changed",
              log_text("name", name), log_text("what", sentence));
}

static void reload(struct server *server)
{
    struct config_problems problems = { 0 };
    struct config *fresh = NULL;
    int r = config_load(server->input, &problems, &fresh);
    if (r < 0) {
        for (size_t i = 0; i < problems.count && i < CONFIG_PROBLEMS; i++)
            log_event(log_of(server), LEVEL_ERROR, "reload_refused",
                      log_text("why", problems.items[i].text));
        return;
    }
    config_reload(server->config, fresh, tell_change, server);
    server->log.log.least = server->config->server.log_level;
    queues_apply(server->node, server->config, log_of(server));
    log_event(log_of(server), LEVEL_INFO, "reloaded");
}

/* ---- starting ---- */

static int make_state_dir(struct server *server)
{
    const char *dir = server->config->server.state_dir;
    char path[LIMIT_PATH_BYTES + 16];
    struct host self;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_set(&server->error, -HF_SYSTEM, "state_dir",
                         "The state directory %s cannot be made: %s.", dir,
                         strerror(errno));
    snprintf(path, sizeof(path), "%s/state", dir);
    int r = host_identify(&self, &server->error);
    return r < 0 ? r : lockfile_take(path, &self, &server->error, &server->state_lock);
}

static int open_loop(struct server *server)
{
    static const int numbers[SIGNALS] = { SIGTERM, SIGINT, SIGHUP };

    signal(SIGPIPE, SIG_IGN);
    server->loop = event_base_new();
    if (!server->loop)
        return -HF_NOMEM;
    server->draining =
        event_new(server->loop, -1, EV_PERSIST | EV_TIMEOUT, on_draining, server);
    if (!server->draining)
        return -HF_NOMEM;
    for (int i = 0; i < SIGNALS; i++) {
        server->signals[i] = evsignal_new(server->loop, numbers[i], on_signal, server);
        if (!server->signals[i] || evsignal_add(server->signals[i], NULL) != 0)
            return -HF_NOMEM;
    }
    return 0;
}

static bool on_postgres(const struct config *config)
{
    const char *db = config->server.db;
    return strncmp(db, "postgres://", 11) == 0 || strncmp(db, "postgresql://", 13) == 0;
}

static int open_runner(struct server *server)
{
    const struct config *config = server->config;
    int r = address_policy_new(slice_of(config->server.deny_networks), &server->error,
                               &server->policy);
    if (r == 0)
        r = commands_new(config, &server->error, &server->commands);
    if (r < 0)
        return r;
    size_t count = 0;
    const struct runner_command *commands = commands_list(server->commands, &count);
    r = runner_new(
        &(struct runner_options){
            .loop = server->loop,
            .state_dir = config->server.state_dir,
            .commands = commands,
            .command_count = count,
            .policy = server->policy,
            .clock = &clock_system,
            .log = log_of(server),
            .lease_ms = on_postgres(config) ? config->engine.lease_us / US_PER_MS : 0 },
        &server->error, &server->runner);
    return r < 0 ? r : runner_scan(server->runner, &server->error);
}

static int open_node(struct server *server)
{
    const struct config *config = server->config;
    size_t kind_count = 0, policy_count = 0;
    const char *const *kinds = commands_kinds(server->commands, &kind_count);
    const struct kind_policy *policies =
        commands_policies(server->commands, &policy_count);
    int r = node_open(
        &(struct node_options){ .engine = { .url = config->server.db,
                                            .node_name = config->server.node,
                                            .state_dir = config->server.state_dir,
                                            .settings = &config->engine,
                                            .log = log_of(server),
                                            .kinds = kinds,
                                            .kind_count = kind_count,
                                            .executor = EXECUTOR_COMMAND,
                                            .policies = policies,
                                            .policy_count = policy_count },
                                .loop = server->loop,
                                .commands_max = LIMIT_COMMANDS,
                                .calls = { .arg = server,
                                           .started = on_started,
                                           .stop_run = on_stop_run,
                                           .told = on_told,
                                           .ready = on_ready,
                                           .turned = on_turned,
                                           .adopt = adopts } },
        &server->error, &server->node);
    if (r == 0)
        runner_attach(server->runner, server->node);
    return r;
}

static int open_api(struct server *server)
{
    const struct server_settings *s = &server->config->server;
    char token[CONFIG_TOKEN_BYTES];
    int r = config_token(server->config, &server->error, token);
    if (r < 0)
        return r;
    struct address address;
    r = address_parse(s->listen, &server->error, &address);
    if (r < 0)
        return r;
    if (!address_is_local(&address) && !token[0] && !s->insecure)
        return error_set(&server->error, -HF_INVALID, "listen",
                         "listen = %s can be reached from other machines; set "
                         "admin_token or admin_token_file, or insecure = true if that is "
                         "meant.",
                         s->listen);
    return api_new(&(struct api_options){ .loop = server->loop,
                                          .node = server->node,
                                          .clock = &clock_system,
                                          .log = log_of(server),
                                          .admin_token = token,
                                          .open = !token[0],
                                          .allowed_hosts = s->allowed_hosts,
                                          .max_body_bytes = s->max_body_bytes,
                                          .max_batch_body_bytes = s->max_batch_body_bytes,
                                          .max_payload_bytes =
                                              server->config->engine.max_payload_bytes,
                                          .output = runner_output,
                                          .output_arg = server->runner,
                                          .version = hf_version() },
                   &server->error, &server->api);
}

static int open_http(struct server *server)
{
    const struct server_settings *s = &server->config->server;
    int r = 0;
    if (s->tls_certificate[0])
        r = tls_new(s->tls_certificate, s->tls_key, &server->error, &server->tls);
    if (r == 0)
        r = http_server_new(
            &(struct http_config){
                .base = server->loop,
                .clock = &clock_system,
                .limits = { .head_bytes_max = (size_t)s->max_header_bytes,
                            .body_bytes_max = (size_t)s->max_body_bytes,
                            .connections_max = (size_t)s->max_connections,
                            .head_timeout_us = s->header_timeout_us,
                            .body_timeout_us = s->body_timeout_us,
                            .idle_timeout_us = s->idle_timeout_us },
                .program = api_program(server->api) },
            &server->http);
    if (r == 0)
        r = http_server_listen(server->http, s->listen, server->tls,
                               (unsigned)s->socket_mode, &server->error);
    if (r == 0)
        api_listening(server->api, server->http);
    return r;
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    notify_service("WATCHDOG=1");
}

static int start_watchdog(struct server *server)
{
    int64_t us = notify_watchdog_us();
    struct timeval often = { us / US_PER_S, us % US_PER_S };
    if (us == 0)
        return 0;
    server->watchdog =
        event_new(server->loop, -1, EV_PERSIST | EV_TIMEOUT, on_watchdog, server);
    return server->watchdog && event_add(server->watchdog, &often) == 0 ? 0 : -HF_NOMEM;
}

/* The one line that is for a person, not for a log. */
static void greet(const struct server *server)
{
    const struct server_settings *s = &server->config->server;
    const char *address = http_server_address(server->http, 0);
    bool unix_socket = strncmp(address, "unix:", 5) == 0;
    printf("Holdfast %s is listening on %s%s, store %s. Try: holdfast enqueue hello\n",
           hf_version(),
           unix_socket   ? ""
           : server->tls ? "https://"
                         : "http://",
           address, on_postgres(server->config) ? "PostgreSQL" : s->db);
    fflush(stdout);
}

/* The listeners are up before the node's threads, and with them recovery, start. */
static int start(struct server *server)
{
    int r = open_loop(server);
    if (r == 0)
        r = make_state_dir(server);
    if (r == 0)
        r = open_runner(server);
    if (r == 0)
        r = open_node(server);
    if (r == 0)
        r = open_api(server);
    if (r == 0)
        r = open_http(server);
    if (r == 0)
        r = start_watchdog(server);
    if (r == 0)
        node_set_capacity(server->node, LIMIT_SLOTS);
    if (r == 0)
        r = node_start(server->node, &server->error);
    if (r < 0)
        return error_set(&server->error, r, NULL, "The server cannot start: %s.",
                         status_of(r)->title);
    queues_apply(server->node, server->config, log_of(server));
    greet(server);
    notify_service("READY=1\nSTATUS=Listening");
    return 0;
}

/* Accepts what was started half way.  The node before the runner, whose reports it
 * may still be answering; the server before the API, whose calls it holds. */
static void end(struct server *server, bool started)
{
    if (server->api)
        api_stopping(server->api);
    if (server->http)
        http_server_free(server->http);
    if (started && server->result == 0)
        node_close(server->node);
    else
        node_abandon(server->node);
    api_free(server->api);
    runner_free(server->runner);
    commands_free(server->commands);
    address_policy_free(server->policy);
    tls_free(server->tls);
    for (int i = 0; i < SIGNALS; i++)
        if (server->signals[i])
            event_free(server->signals[i]);
    if (server->watchdog)
        event_free(server->watchdog);
    if (server->draining)
        event_free(server->draining);
    if (server->loop)
        event_base_free(server->loop);
    lockfile_free(server->state_lock);
    config_free(server->config);
}

int server_run(struct config *config, const struct config_input *input,
               struct error *error)
{
    struct server server = { .config = config, .input = input };

    log_stderr_init(&server.log, config->server.log_level,
                    config->server.log_format == LOG_JSON);
    int r = start(&server);
    if (r == 0) {
        event_base_dispatch(server.loop);
        r = server.result;
    }
    *error = server.error;
    end(&server, r == 0 || server.phase != SERVING);
    return r;
}
