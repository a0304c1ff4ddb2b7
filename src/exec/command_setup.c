/* SPDX-License-Identifier: Apache-2.0
 *
 * command_setup.c -- an order as text, and the environment that it asks for. */
#include "command_setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

const struct command_limit_row command_limits[COMMAND_LIMITS] = {
    [COMMAND_LIMIT_CPU_SECONDS] = { "cpu_seconds", RLIMIT_CPU },
    [COMMAND_LIMIT_MEMORY_BYTES] = { "memory_bytes", RLIMIT_AS },
    [COMMAND_LIMIT_FILES] = { "files", RLIMIT_NOFILE },
    [COMMAND_LIMIT_PROCESSES] = { "processes", RLIMIT_NPROC },
    [COMMAND_LIMIT_CORE_BYTES] = { "core_bytes", RLIMIT_CORE },
};

void command_setup_init(struct command_setup *ret)
{
    *ret = (struct command_setup){ .umask = -1, .grace_ms = DEFAULT_COMMAND_GRACE_MS };
    for (int i = 0; i < COMMAND_LIMITS; i++)
        ret->limits[i] = -1;
}

int64_t command_boot_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

/* ---- the environment ---- */

static const char *const inherited_names[] = { "PATH",   "LANG", "LC_ALL", "TZ",
                                               "TMPDIR", "HOME", "USER",   "LOGNAME" };

struct environment {
    char **vars;
    size_t count, room;
};

static size_t count_of(char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

/* Adds "NAME=VALUE", in the place of an earlier one with this name. */
static void put(struct environment *env, const char *var)
{
    size_t name = strcspn(var, "=") + 1;

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->vars[i], var, name) == 0) {
            env->vars[i] = (char *)var;
            return;
        }
    assert(env->count < env->room);
    env->vars[env->count++] = (char *)var;
}

static bool put_pair(struct environment *env, struct arena *arena, const char *name,
                     const char *value)
{
    size_t n = strlen(name) + strlen(value) + 2;
    char *var = arena_alloc(arena, n);

    if (!var)
        return false;
    snprintf(var, n, "%s=%s", name, value);
    put(env, var);
    return true;
}

char **command_environment(const struct command_order *order, char *const *inherited,
                           const char *name, const char *home, struct arena *arena)
{
    char *const *const lists[] = { (char *const *)order->setup->env,
                                   (char *const *)order->env };
    struct environment env = { .room = array_len(inherited_names) + 3 };

    env.room += count_of(lists[0]) + count_of(lists[1]);
    env.vars = arena_array(arena, char *, env.room + 1);
    if (!env.vars)
        return NULL;
    for (size_t i = 0; inherited && inherited[i]; i++)
        for (size_t k = 0; k < array_len(inherited_names); k++) {
            size_t n = strlen(inherited_names[k]);
            if (strncmp(inherited[i], inherited_names[k], n) == 0 &&
                inherited[i][n] == '=')
                put(&env, inherited[i]);
        }
    if (name &&
        (!put_pair(&env, arena, "USER", name) || !put_pair(&env, arena, "LOGNAME", name)))
        return NULL;
    if (home && !put_pair(&env, arena, "HOME", home))
        return NULL;
    for (size_t l = 0; l < array_len(lists); l++)
        for (size_t i = 0; lists[l] && lists[l][i]; i++)
            put(&env, lists[l][i]);
    return env.vars;
}

/* ---- the order as text ---- */

static void put_text(struct buf *buf, const char *name, const char *value)
{
    if (!value)
        return;
    buf_text(buf, name);
    buf_byte(buf, '=');
    buf_text(buf, value);
    buf_byte(buf, '\0');
}

static void put_int(struct buf *buf, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, value);
    put_text(buf, name, text);
}

static void put_list(struct buf *buf, const char *name, const char *const *list)
{
    for (; list && *list; list++)
        put_text(buf, name, *list);
}

void command_order_write(const struct command_order *order, struct buf *buf)
{
    const struct command_setup *setup = order->setup;

    assert(order->job_id > 0 && order->deadline_ms > 0 && setup->argv[0]);
    assert((order->lease_ms > 0) == (order->lease_until_us > 0));
    put_int(buf, "job", order->job_id);
    put_int(buf, "deadline_ms", order->deadline_ms);
    put_int(buf, "open_files", order->open_files);
    put_int(buf, "lease_ms", order->lease_ms);
    put_int(buf, "lease_until_us", order->lease_until_us);
    put_int(buf, "grace_ms", setup->grace_ms);
    put_int(buf, "umask", setup->umask);
    for (int i = 0; i < COMMAND_LIMITS; i++)
        put_int(buf, command_limits[i].name, setup->limits[i]);
    put_text(buf, "directory", setup->directory);
    put_text(buf, "user", setup->user);
    put_list(buf, "arg", setup->argv);
    put_list(buf, "env", setup->env);
    put_list(buf, "run_env", order->env);
}

/* The lists are collected in arrays that are long enough for anything. */
struct reader {
    struct command_order *order;
    struct command_setup *setup;
    const char **args, **env, **run_env;
    size_t arg_count, env_count, run_env_count;
    bool failed;
};

static int64_t number(struct reader *r, const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);

    if (end == text || *end)
        r->failed = true;
    return value;
}

static void take(struct reader *r, const char *name, const char *value)
{
    struct command_setup *setup = r->setup;

    for (int i = 0; i < COMMAND_LIMITS; i++)
        if (strcmp(name, command_limits[i].name) == 0) {
            setup->limits[i] = number(r, value);
            return;
        }
    if (strcmp(name, "arg") == 0)
        r->args[r->arg_count++] = value;
    else if (strcmp(name, "env") == 0)
        r->env[r->env_count++] = value;
    else if (strcmp(name, "run_env") == 0)
        r->run_env[r->run_env_count++] = value;
    else if (strcmp(name, "directory") == 0)
        setup->directory = value;
    else if (strcmp(name, "user") == 0)
        setup->user = value;
    else if (strcmp(name, "job") == 0)
        r->order->job_id = number(r, value);
    else if (strcmp(name, "deadline_ms") == 0)
        r->order->deadline_ms = number(r, value);
    else if (strcmp(name, "open_files") == 0)
        r->order->open_files = number(r, value);
    else if (strcmp(name, "lease_ms") == 0)
        r->order->lease_ms = number(r, value);
    else if (strcmp(name, "lease_until_us") == 0)
        r->order->lease_until_us = number(r, value);
    else if (strcmp(name, "grace_ms") == 0)
        setup->grace_ms = number(r, value);
    else if (strcmp(name, "umask") == 0)
        setup->umask = (int)number(r, value);
    else
        r->failed = true;
}

int command_order_read(struct slice text, struct arena *arena, struct error *error,
                       struct command_order *ret)
{
    struct slice copy = arena_dup(arena, text);
    struct command_setup *setup = arena_new(arena, struct command_setup);
    size_t most = text.n / 4 + 2; /* "arg=" and a NUL at least */
    const char **lists = arena_array(arena, const char *, 3 * most);
    if (!copy.p || !setup || !lists)
        return -HF_NOMEM;
    command_setup_init(setup);
    struct command_order order = { .setup = setup };
    struct reader r = { .order = &order,
                        .setup = setup,
                        .args = lists,
                        .env = lists + most,
                        .run_env = lists + 2 * most };

    char *field = (char *)copy.p, *end = field + copy.n;
    while (field < end && !r.failed) {
        char *next = memchr(field, '\0', (size_t)(end - field));
        char *value = strchr(field, '=');
        if (!next || !value)
            r.failed = true;
        else {
            *value = '\0';
            take(&r, field, value + 1);
            field = next + 1;
        }
    }
    if (r.failed || r.arg_count == 0 || order.job_id <= 0 || order.deadline_ms <= 0)
        return error_set(error, -HF_INVALID, NULL,
                         "the supervisor's order cannot be read: it was written by "
                         "another version of the program");
    setup->argv = r.args;
    setup->env = r.env;
    order.env = r.run_env;
    *ret = order;
    return 0;
}
