/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.c -- texts to words and numbers. */
#include "daemon/commands.h"

#include "exec/argv.h"

struct commands {
    struct arena arena;
    size_t count;
    struct runner_command *list;
    const char **kinds; /* one more: http */
    struct kind_policy *policies;
};

static const char *text_or_null(struct arena *arena, const char *text)
{
    return text[0] ? arena_dup(arena, slice_of(text)).p : NULL;
}

static int take_setup(struct arena *arena, const struct command_config *c,
                      struct error *error, struct command_setup *setup)
{
    char **words = NULL;
    size_t count = 0;

    command_setup_init(setup);
    int r = argv_split(slice_of(c->argv), arena, error, &words, &count);
    if (r < 0)
        return r;
    setup->argv = (const char *const *)words;
    if (c->environment[0]) {
        r = argv_split(slice_of(c->environment), arena, error, &words, &count);
        if (r < 0)
            return r;
        setup->env = (const char *const *)words;
    }
    setup->directory = text_or_null(arena, c->directory);
    setup->user = text_or_null(arena, c->user);
    setup->umask = c->umask == KNOB_UNSET ? -1 : (int)c->umask;
    setup->grace_ms = c->term_grace_us / US_PER_MS;
    const int64_t limits[COMMAND_LIMITS] = {
        [COMMAND_LIMIT_CPU_SECONDS] = c->limit_cpu_seconds,
        [COMMAND_LIMIT_MEMORY_BYTES] = c->limit_memory_bytes,
        [COMMAND_LIMIT_FILES] = c->limit_open_files,
        [COMMAND_LIMIT_PROCESSES] = c->limit_processes,
        [COMMAND_LIMIT_CORE_BYTES] = c->limit_core_bytes,
    };
    for (int i = 0; i < COMMAND_LIMITS; i++)
        setup->limits[i] = limits[i] == KNOB_UNSET ? -1 : limits[i];
    return arena_end(arena);
}

static int64_t number_or(int64_t value, int64_t none)
{
    return value == KNOB_UNSET ? none : value;
}

static int take_one(struct commands *commands, size_t i, const struct command_config *c,
                    struct error *error)
{
    struct arena *arena = &commands->arena;
    const char *kind = arena_dup(arena, slice_of(c->name)).p;
    struct error why = { 0 };

    if (c->concurrency != KNOB_UNSET && !c->queue[0])
        return error_set(error, -HF_INVALID, "concurrency",
                         "[command %s]: concurrency is the number of slots of the "
                         "command's queue; name that with queue = NAME.",
                         c->name);
    int r = take_setup(arena, c, &why, &commands->list[i].setup);
    if (r < 0)
        return error_set(error, r, "argv", "[command %s]: %s", c->name, why.text);
    commands->list[i].kind = commands->kinds[i] = kind;
    commands->policies[i] =
        (struct kind_policy){ .kind = kind,
                              .queue = text_or_null(arena, c->queue),
                              .retry_delays = text_or_null(arena, c->retry_delays),
                              .max_execution_us = number_or(c->max_execution_us, -1),
                              .max_retries = (int)number_or(c->max_retries, -1),
                              .on_crash = (int)number_or(c->on_crash, -1) };
    return arena_end(arena);
}

int commands_new(const struct config *config, struct error *error, struct commands **ret)
{
    struct commands *commands = new (struct commands);
    if (!commands)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    size_t n = config->command_count;
    arena_init(&commands->arena, 16 << 10, (size_t)64 << 20);
    commands->count = n;
    commands->list = arena_array(&commands->arena, struct runner_command, n + 1);
    commands->kinds = arena_array(&commands->arena, const char *, n + 1);
    commands->policies = arena_array(&commands->arena, struct kind_policy, n + 1);
    int r = arena_end(&commands->arena);
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_one(commands, i, &config->commands[i], error);
    if (r < 0) {
        error_set(error, r, NULL, "There is no memory left.");
        commands_free(commands);
        return r;
    }
    commands->kinds[n] = "http";
    *ret = commands;
    return 0;
}

void commands_free(struct commands *commands)
{
    if (!commands)
        return;
    arena_release(&commands->arena);
    free(commands);
}

const struct runner_command *commands_list(const struct commands *commands,
                                           size_t *ret_count)
{
    *ret_count = commands->count;
    return commands->list;
}

const char *const *commands_kinds(const struct commands *commands, size_t *ret_count)
{
    *ret_count = commands->count + 1;
    return commands->kinds;
}

const struct kind_policy *commands_policies(const struct commands *commands,
                                            size_t *ret_count)
{
    *ret_count = commands->count;
    return commands->policies;
}

int64_t commands_longest_grace_us(const struct commands *commands)
{
    int64_t longest = 0;
    for (size_t i = 0; i < commands->count; i++)
        if (commands->list[i].setup.grace_ms > longest)
            longest = commands->list[i].setup.grace_ms;
    return longest * US_PER_MS;
}
