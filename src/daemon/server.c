/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c -- the parts, in the order they depend on each other. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/notify.h"
#include "daemon/queues.h"
#include "daemon/server_private.h"
#include "net/address.h"

/* For deliveries under way at a stop.  Who answers at all answers in this time; the
 * others get theirs from the next start, with the same id. */
enum { WEBHOOK_GRACE_MS = 2000 };

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

static void on_ready(void *arg, const char *const *queues, size_t count)
{
    struct server *server = arg;
    if (server->api)
        api_ready(server->api, queues, count);
}

static void on_deliveries_due(void *arg)
{
    struct server *server = arg;
    webhook_sender_due(server->sender);
}

static void on_webhooks_changed(void *arg)
{
    struct server *server = arg;
    webhook_sender_changed(server->sender);
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

    if (server->phase != SERVING)
        server->quiet = server->quiet || status->capacity == 0;
    else if (status->away)
        notify_service("STATUS=Not ready: %s", status_of(status->away)->title);
    else if (status->recovering)
        notify_service("STATUS=Recovering: %lld jobs resolved",
                       (long long)status->recovered);
    else if (status->ready)
        notify_service("STATUS=Ready");
    if (status->ready && !server->recovered) {
        server->recovered = true;
        runner_recovered(server->runner);
        log_event(log_of(server), LEVEL_INFO, "ready",
                  log_int("owner", status->owner_id));
    }
    if (status->lease_mono)
        runner_renewed(server->runner, status->lease_mono);
    if (status->broken)
        stop_broken(server, status->broken);
}

/* ---- signals and timers ---- */

static void on_draining(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    server_stop_step(arg);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    if (number == SIGHUP)
        server_reload(arg);
    else
        server_stop(arg, number == SIGINT ? "SIGINT" : "SIGTERM");
}

/* ---- starting ---- */

/* Whose the lock is, from what they have written in it. */
static void read_holder(const char *path, char holder[200])
{
    FILE *file = fopen(path, "re");
    if (!file || !fgets(holder, 200, file))
        snprintf(holder, 200, "another process");
    holder[strcspn(holder, "\r\n")] = '\0';
    if (file)
        fclose(file);
}

/* Its lock is the proof for other nodes that whoever used it before is gone. */
static int lock_state_dir(struct server *server)
{
    char path[PATH_MAX + 16], holder[200];
    struct host self;
    struct error why = { 0 };
    int r = host_identify(&self, &server->error);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%s/state", server->state_dir);
    r = lockfile_take(path, &self, &why, &server->state_lock);
    if (r == -HF_LOCKED) {
        snprintf(path, sizeof(path), "%s/state-lock", server->state_dir);
        read_holder(path, holder);
        error_set(&server->error, r, "state_dir",
                  "The state directory %s is in use by %s; stop that server, or set "
                  "another state_dir.",
                  server->state_dir, holder);
    }
    return r < 0 ? error_set(&server->error, r, "state_dir", "%s", why.text) : 0;
}

static int make_state_dir(struct server *server)
{
    const char *dir = server->config->server.state_dir;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_set(&server->error, -HF_SYSTEM, "state_dir",
                         "The state directory %s cannot be made: %s.", dir,
                         strerror(errno));
    if (!realpath(dir, server->state_dir))
        return error_set(&server->error, -HF_SYSTEM, "state_dir",
                         "The state directory %s cannot be found: %s.", dir,
                         strerror(errno));
    return lock_state_dir(server);
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

/* Each connection, transfer and command needs a descriptor or two: as many as the
 * system lets us have.  Commands get what we had (command_setup.h). */
static void raise_open_files(struct server *server)
{
    int64_t wanted = server->config->server.max_connections + LIMIT_SLOTS;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    server->open_files = (int64_t)files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        files.rlim_cur = (rlim_t)server->open_files;
    if (files.rlim_cur < (rlim_t)wanted)
        log_event(log_of(server), LEVEL_WARN, "open_files_limit",
                  log_int("limit", (int64_t)files.rlim_cur), log_int("may_need", wanted));
}

static bool on_postgres(const struct config *config)
{
    return db_engine_of(config->server.db) == DB_POSTGRES;
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
            .state_dir = server->state_dir,
            .policy = server->policy,
            .clock = &clock_system,
            .log = log_of(server),
            .lease_ms = on_postgres(config) ? config->engine.lease_us / US_PER_MS : 0,
            .open_files = server->open_files },
        &server->error, &server->runner);
    if (r < 0)
        return r;
    runner_set_commands(server->runner, commands, count);
    return runner_scan(server->runner, &server->error);
}

/* What it takes and reports is bounded by itself, so it is never told to wait. */
static int submit_delivery(void *arg, struct command *command)
{
    struct server *server = arg;
    return node_report(server->node, command);
}

static int open_sender(struct server *server)
{
    return webhook_sender_new(
        &(struct webhook_sender_options){ .loop = server->loop,
                                          .policy = server->policy,
                                          .clock = &clock_system,
                                          .log = log_of(server),
                                          .submit = submit_delivery,
                                          .arg = server,
                                          .grace_ms = WEBHOOK_GRACE_MS },
        &server->error, &server->sender);
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
                                            .state_dir = server->state_dir,
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
                                           .deliveries_due = on_deliveries_due,
                                           .webhooks_changed = on_webhooks_changed,
                                           .turned = on_turned,
                                           .adopt = adopts } },
        &server->error, &server->node);
    if (r == 0)
        runner_attach(server->runner, server->node);
    return r;
}

/* Who may come in, before anything is opened. */
static int check_listen(struct server *server, char token[CONFIG_TOKEN_BYTES])
{
    const struct server_settings *s = &server->config->server;
    struct address address;
    int r = config_token(server->config, &server->error, token);
    if (r == 0)
        r = address_parse(s->listen, &server->error, &address);
    if (r == 0 && !address_is_local(&address) && !token[0] && !s->insecure)
        r = error_set(&server->error, -HF_INVALID, "listen",
                      "listen = %s can be reached from other machines; set admin_token "
                      "or admin_token_file, or insecure = true if that is meant.",
                      s->listen);
    return r;
}

static int open_api(struct server *server, const char *token)
{
    const struct server_settings *s = &server->config->server;
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
                            .idle_timeout_us = s->idle_timeout_us,
                            .send_timeout_us = s->send_timeout_us },
                .program = api_program(server->api) },
            &server->http);
    if (r == 0)
        r = http_server_listen(server->http, s->listen, server->tls,
                               (unsigned)s->socket_mode, &server->error);
    if (r == 0)
        api_listening(server->api, server->http);
    return r;
}

/* The one line that is for a person, not for a log. */
static void greet(const struct server *server)
{
    const struct server_settings *s = &server->config->server;
    const char *address = http_server_address(server->http, 0);
    const char *scheme = strncmp(address, "unix:", 5) == 0 ? ""
                         : server->tls                     ? "https://"
                                                           : "http://";
    char url[LIMIT_PATH_BYTES + 40];

    /* Where the program looks by itself needs no telling. */
    snprintf(url, sizeof(url), " --url %s%s", scheme, address);
    if (strcmp(url, " --url http://127.0.0.1:7420") == 0)
        url[0] = '\0';
    printf("Holdfast %s is listening on %s%s, store %s. Try: %s enqueue hello%s\n",
           hf_version(), scheme, address,
           on_postgres(server->config) ? "PostgreSQL" : s->db, program_invocation_name,
           url);
    fflush(stdout);
}

static int open_parts(struct server *server, const char *token)
{
    int r = open_loop(server);
    if (r == 0)
        r = make_state_dir(server);
    if (r == 0)
        r = open_runner(server);
    if (r == 0)
        r = open_sender(server);
    if (r == 0)
        r = open_node(server);
    if (r == 0)
        r = open_api(server, token);
    if (r == 0)
        r = open_http(server);
    if (r == 0)
        r = watchdog_start(&server->watchdog, server->loop, server->node, log_of(server));
    return r;
}

/* The listeners are up before the node's threads, and with them recovery, start.
 * Workers may start behind the queues' settings. */
static int start(struct server *server)
{
    char token[CONFIG_TOKEN_BYTES] = "";
    int r = check_listen(server, token);
    raise_open_files(server);
    if (r == 0)
        r = open_parts(server, token);
    explicit_bzero(token, sizeof(token));
    if (r == 0)
        r = node_start(server->node, &server->error);
    if (r == 0) {
        queues_apply(server->node, server->config, log_of(server));
        r = node_set_capacity(server->node, LIMIT_SLOTS);
    }
    if (r < 0)
        return error_set(&server->error, r, NULL, "The server cannot start: %s.",
                         status_of(r)->title);
    greet(server);
    struct node_status status;
    node_status(server->node, &status);
    log_event(log_of(server), LEVEL_INFO, "listening",
              log_text("address", http_server_address(server->http, 0)),
              log_int("owner", status.owner_id), log_text("version", hf_version()),
              log_text("last_stop", status.found_dead ? "unclean" : "clean"));
    notify_service("READY=1\nSTATUS=Listening");
    return 0;
}

/* Accepts what was started half way.  The node before the runner and the sender, whose
 * reports it may still be answering; the server before the API, whose calls it holds. */
static void end(struct server *server)
{
    bool trusted = server->result == 0;
    if (server->api)
        api_stopping(server->api);
    http_server_free(server->http);
    if (server->node && trusted) {
        runner_leave(server->runner);
        node_close(server->node);
    } else {
        node_abandon(server->node);
    }
    api_free(server->api);
    runner_free(server->runner);
    webhook_sender_free(server->sender);
    commands_free(server->commands);
    commands_free(server->waiting);
    address_policy_free(server->policy);
    tls_free(server->tls);
    for (int i = 0; i < SIGNALS; i++)
        if (server->signals[i])
            event_free(server->signals[i]);
    watchdog_stop(&server->watchdog);
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

    db_own_process();
    log_stderr_init(&server.log, config->server.log_level,
                    config->server.log_format == LOG_JSON);
    int r = start(&server);
    if (r == 0) {
        event_base_dispatch(server.loop);
        r = server.result;
    }
    *error = server.error;
    log_event(log_of(&server), r < 0 ? LEVEL_ERROR : LEVEL_INFO, "stopped",
              log_text("why", r < 0 ? error->text : "asked to"));
    end(&server);
    return r;
}
