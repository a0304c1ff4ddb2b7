/* SPDX-License-Identifier: Apache-2.0
 *
 * server_reload.c -- the configuration, read again while everything goes on.
 *
 * What is wrong in it leaves all as it was.  Otherwise each difference is logged, with
 * whether it holds now or waits for a restart (config_reload.c decides by the rows). */
#include "daemon/queues.h"
#include "daemon/server_private.h"

static void tell_change(void *arg, const char *name, bool effective, const char *sentence)
{
    struct server *server = arg;
    log_event(log_of(server), effective ? LEVEL_INFO : LEVEL_WARN, "setting_changed",
              log_text("name", name), log_text("what", sentence));
}

static void refuse(struct server *server, const char *why)
{
    log_event(log_of(server), LEVEL_ERROR, "reload_refused", log_text("why", why));
}

static void use_commands(struct server *server)
{
    size_t count = 0;
    const struct runner_command *list = commands_list(server->commands, &count);
    runner_set_commands(server->runner, list, count);
}

/* The engine has the kinds of `waiting`: what was in use before is nobody's now. */
static void commands_taken(void *arg, int result)
{
    struct server *server = arg;
    struct commands *old = server->commands;

    if (result < 0) {
        refuse(server, "There is no memory for the new [command] sections.");
        old = server->waiting;
    } else {
        server->commands = server->waiting;
        use_commands(server);
        log_event(log_of(server), LEVEL_INFO, "reloaded");
    }
    server->waiting = NULL;
    commands_free(old);
    if (server->reload_again)
        server_reload(server);
}

static int send_commands(struct server *server, struct commands *fresh)
{
    size_t kind_count = 0, policy_count = 0;
    const char *const *kinds = commands_kinds(fresh, &kind_count);
    const struct kind_policy *policies = commands_policies(fresh, &policy_count);
    return node_set_kinds(server->node, kinds, kind_count, policies, policy_count,
                          commands_taken, server);
}

/* Takes over what may change; the rest waits, as tell_change() says. */
static void apply(struct server *server, struct config *fresh, struct commands *commands)
{
    config_reload(server->config, fresh, tell_change, server);
    const struct server_settings *s = &server->config->server;
    log_stderr_set(&server->log, s->log_level, s->log_format == LOG_JSON);
    api_set_limits(server->api, s->max_body_bytes, s->max_batch_body_bytes);
    queues_apply(server->node, server->config, log_of(server));
    server->waiting = commands;
    if (send_commands(server, commands) < 0)
        commands_taken(server, -HF_NOMEM);
}

void server_reload(struct server *server)
{
    struct config_problems problems = { 0 };
    struct config *fresh = NULL;
    struct commands *commands = NULL;
    struct error error = { 0 };

    if (server->phase != SERVING)
        return;
    server->reload_again = server->waiting != NULL; /* one after the other */
    if (server->reload_again)
        return;
    if (config_load(server->input, &problems, &fresh) < 0) {
        for (size_t i = 0; i < problems.count && i < CONFIG_PROBLEMS; i++)
            refuse(server, problems.items[i].text);
    } else if (commands_new(fresh, &error, &commands) < 0) {
        refuse(server, error.text);
        config_free(fresh);
    } else {
        apply(server, fresh, commands);
    }
}
