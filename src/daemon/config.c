/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c -- puts the configuration together: default, file, environment, flags.
 *
 * Each source is read whole and over the last, so that what is wrong in a file is
 * told also where a flag overrules it: it would come true with the flag gone. */
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "daemon/config_file.h"
#include "db/db.h"

#define PREFIX "HOLDFAST_"

enum { VARIABLE_BYTES = 64 }; /* a longer name is none of ours */

struct loading {
    struct config *config;
    const struct config_input *input;
    struct config_problems *problems;
};

/* The place of a setting in the table; false if there is none of this name. */
static bool find(struct slice name, size_t *ret)
{
    for (size_t i = 0; i < config_settings(); i++)
        if (slice_equal(name, slice_of(config_setting(i)->name))) {
            *ret = i;
            return true;
        }
    return false;
}

static const char *nearest(struct slice name)
{
    struct slip slip = { .wrong = name };

    for (size_t i = 0; i < config_settings(); i++)
        slip_try(&slip, config_setting(i)->name);
    return slip.best;
}

static void take(struct loading *l, size_t i, struct slice value,
                 struct config_source source, const char *place)
{
    struct error why = { 0 };

    if (knob_read(config_setting(i), value, (void *)config_object(l->config, i), &why) <
        0)
        config_problem(l->problems, why.code, why.field, "%s: %s", place, why.text);
    else
        l->config->sources[i] = source;
}

/* ---- environment ---- */

/* Variables that are ours and no settings. */
static bool is_other_variable(struct slice name)
{
    static const char *const names[] = { "config", "url", "token" };

    for (size_t i = 0; i < array_len(names); i++)
        if (slice_equal(name, slice_of(names[i])))
            return true;
    return false;
}

/* A setting's name as that of its variable, and back. */
static void put_upper(struct buf *buf, const char *name)
{
    buf_text(buf, PREFIX);
    for (; *name; name++)
        buf_byte(buf, (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name));
}

static void put_lower(struct buf *buf, struct slice name)
{
    for (size_t i = 0; i < name.n; i++)
        buf_byte(buf, (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] - 'A' + 'a'
                                                                  : name.p[i]));
}

/* A name that is no setting is passed over unless it looks like a slip: Kubernetes
 * gives HOLDFAST_PORT and others to whoever lives beside a service called holdfast. */
static void suspect_variable(struct loading *l, struct slice name, const char *place)
{
    const char *right = nearest(name);
    struct buf buf;
    struct slice text;

    if (!right || is_other_variable(name))
        return;
    buf_init(&buf, VARIABLE_BYTES);
    put_upper(&buf, right);
    if (buf_end(&buf, &text) == 0)
        config_problem(l->problems, -HF_INVALID, NULL,
                       "%s: there is no setting of this name; did you mean %s?", place,
                       text.p);
    buf_release(&buf);
}

/* NAME=VALUE, behind the prefix. */
static void take_variable(struct loading *l, const char *text)
{
    size_t n = strcspn(text, "="), i;
    char place[VARIABLE_BYTES];
    struct slice name;
    struct buf lower;

    if (n == 0 || n + sizeof(PREFIX) > sizeof(place) || !text[n] || !text[n + 1])
        return;
    snprintf(place, sizeof(place), PREFIX "%.*s", (int)n, text);
    buf_init(&lower, VARIABLE_BYTES);
    put_lower(&lower, (struct slice){ text, n });
    if (buf_end(&lower, &name) == 0 && find(name, &i))
        take(l, i, slice_of(text + n + 1),
             (struct config_source){ .from = FROM_ENVIRONMENT }, place);
    else if (!lower.failed)
        suspect_variable(l, name, place);
    buf_release(&lower);
}

static const char *variable(const struct config_input *input, const char *name)
{
    size_t n = strlen(name);

    for (char *const *at = input->environment; at && *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=' && (*at)[n + 1])
            return *at + n + 1;
    return NULL;
}

static void take_environment(struct loading *l)
{
    for (char *const *at = l->input->environment; at && *at; at++)
        if (strncmp(*at, PREFIX, strlen(PREFIX)) == 0)
            take_variable(l, *at + strlen(PREFIX));
}

/* ---- flags ---- */

static void take_flag(struct loading *l, const struct config_flag *flag)
{
    const char *equals = flag->name ? NULL : strchr(flag->value, '=');
    struct slice name = slice_of(flag->name), value = slice_of(flag->value);
    size_t i;

    if (!flag->name && (!equals || equals == flag->value)) {
        config_problem(l->problems, -HF_INVALID, NULL,
                       "%s \"%.100s\" is not NAME=VALUE, such as listen=127.0.0.1:7420.",
                       flag->flag, flag->value);
        return;
    }
    if (equals) {
        name = (struct slice){ flag->value, (size_t)(equals - flag->value) };
        value = slice_of(equals + 1);
    }
    if (!find(name, &i)) {
        const char *right = nearest(name);
        config_problem(l->problems, -HF_INVALID, NULL,
                       "%s: there is no setting %.*s; %s%s%s", flag->flag,
                       (int)utf8_fit(name, 60), name.p,
                       right ? "did you mean " : "\"holdfast config\" lists them",
                       right ? right : "", right ? "?" : ".");
        return;
    }
    if (config_setting(i)->is & KNOB_SECRET)
        config_problem(l->problems, -HF_INVALID, config_setting(i)->name,
                       "%s: %s is a secret, and every user of this machine can see the "
                       "flags of a process; use a variable or the file.",
                       flag->flag, config_setting(i)->name);
    else
        take(l, i, value, (struct config_source){ FROM_FLAG, 0, flag->flag }, flag->flag);
}

/* ---- what depends on more than one value ---- */

static void derive_state_dir(struct loading *l)
{
    struct server_settings *s = &l->config->server;

    if (s->state_dir[0])
        return;
    if (db_engine_of(s->db) == DB_POSTGRES) {
        snprintf(s->state_dir, sizeof(s->state_dir), "holdfast.d");
        return;
    }
    size_t n = strlen(s->db);
    if (n + 3 > sizeof(s->state_dir)) {
        config_problem(
            l->problems, -HF_INVALID, "state_dir",
            "state_dir cannot be named after db, whose path has %zu bytes; set "
            "it.",
            n);
        return;
    }
    memcpy(s->state_dir, s->db, n);
    memcpy(s->state_dir + n, ".d", 3);
}

static void derive_node(struct loading *l)
{
    char name[LIMIT_NAME_BYTES + 1] = "";

    if (l->config->server.node[0])
        return;
    if (gethostname(name, sizeof(name) - 1) < 0 || !name_valid(slice_of(name)))
        snprintf(name, sizeof(name), "node");
    memcpy(l->config->server.node, name, sizeof(name));
}

static void derive(struct loading *l)
{
    size_t i = 0;

    derive_state_dir(l);
    derive_node(l);
    bool found = find(SLICE("shutdown_commands"), &i);
    assert(found);
    if (found && l->input->init && l->config->sources[i].from == FROM_DEFAULT)
        l->config->server.shutdown_commands = COMMANDS_STOP;
}

static void check_pairs(struct loading *l)
{
    const struct server_settings *s = &l->config->server;

    if (!s->tls_certificate[0] != !s->tls_key[0])
        config_problem(l->problems, -HF_INVALID,
                       s->tls_key[0] ? "tls_certificate" : "tls_key",
                       "%s is set, but %s is not; TLS needs both.",
                       s->tls_key[0] ? "tls_key" : "tls_certificate",
                       s->tls_key[0] ? "tls_certificate" : "tls_key");
    if (s->admin_token[0] && s->admin_token_file[0])
        config_problem(l->problems, -HF_INVALID, "admin_token_file",
                       "admin_token and admin_token_file are both set; one of them must "
                       "go.");
}

/* ---- loading ---- */

int config_load(const struct config_input *input, struct config_problems *problems,
                struct config **ret)
{
    struct config *config = new(struct config);
    struct loading l = { config, input, problems };
    const char *named = variable(input, PREFIX "CONFIG");

    problems->count = 0;
    if (!config) {
        config_problem(problems, -HF_NOMEM, NULL,
                       "There is no memory for the configuration.");
        return -HF_NOMEM;
    }
    for (size_t i = 0; i < config_settings(); i++)
        knob_default(config_setting(i), (void *)config_object(config, i));
    if (input->file)
        config_file_read(config, input->file, "--config", problems);
    else if (named)
        config_file_read(config, named, PREFIX "CONFIG", problems);
    take_environment(&l);
    for (size_t i = 0; i < input->flag_count; i++)
        take_flag(&l, &input->flags[i]);
    if (problems->count == 0) {
        derive(&l);
        check_pairs(&l);
    }
    if (problems->count > 0) {
        config_free(config);
        return problems->items[0].code;
    }
    *ret = config;
    return 0;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    explicit_bzero(config->server.admin_token, sizeof(config->server.admin_token));
    free(config->queues);
    free(config->commands);
    free(config->queue_sources);
    free(config->command_sources);
    free(config);
}

void config_show_source(const struct config *config, size_t i, struct buf *buf)
{
    const struct config_source *source = &config->sources[i];

    assert(i < config_settings());
    switch (source->from) {
    case FROM_FLAG:
        buf_printf(buf, "flag %s", source->flag);
        return;
    case FROM_ENVIRONMENT:
        put_upper(buf, config_setting(i)->name);
        return;
    case FROM_FILE:
        buf_printf(buf, "%s:%d", config->file, source->line);
        return;
    case FROM_DEFAULT:
        buf_text(buf, "default");
        return;
    }
}

/* ---- the token ---- */

static int token_error(const char *path, const char *what, struct error *error)
{
    return error_set(error, -HF_INVALID, "admin_token_file",
                     "admin_token_file: %s %s; its first line must be a token of %d to "
                     "%d visible ASCII characters.",
                     path, what, CONFIG_TOKEN_LEAST, CONFIG_TOKEN_BYTES - 1);
}

static int read_token(const char *path, struct error *error, char ret[CONFIG_TOKEN_BYTES])
{
    char text[CONFIG_TOKEN_BYTES + 1], why[100];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (n < 0)
        snprintf(why, sizeof(why), "cannot be read (%s)", strerror(errno));
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return token_error(path, why, error);
    size_t length = 0;
    while (length < (size_t)n && text[length] > ' ' && text[length] < 0x7f)
        length++;
    bool ends = length == (size_t)n || text[length] == '\n' || text[length] == '\r';
    int r = 0;
    if (!ends || length < CONFIG_TOKEN_LEAST || length >= CONFIG_TOKEN_BYTES)
        r = token_error(path, "holds no token", error);
    else
        memcpy(ret, text, length);
    if (r == 0)
        ret[length] = '\0';
    explicit_bzero(text, sizeof(text));
    return r;
}

int config_token(const struct config *config, struct error *error,
                 char ret[CONFIG_TOKEN_BYTES])
{
    if (config->server.admin_token_file[0])
        return read_token(config->server.admin_token_file, error, ret);
    memcpy(ret, config->server.admin_token, CONFIG_TOKEN_BYTES);
    return 0;
}
