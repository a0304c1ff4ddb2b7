/* SPDX-License-Identifier: Apache-2.0
 *
 * config_table.c -- a row for each setting of the server, and each key of a section.
 *
 * The settings of the engine have their rows in engine/settings.c; a key that means
 * the same in a section as there has the same name and range. */
#include <stdio.h>

#include "base/arena.h"
#include "base/text.h"
#include "daemon/config.h"
#include "exec/argv.h"
#include "exec/command_setup.h"
#include "net/address.h"
#include "net/address_policy.h"

/* ---- what texts are held to ---- */

/* Tells `why`, a sentence of its own, as one about the setting. */
static int blame(const struct knob *knob, int code, const struct error *why,
                 struct error *error)
{
    return error_set(error, code, knob->name, "%s: %s", knob->name, why->text);
}

static int check_address(const struct knob *knob, struct slice value, struct error *error)
{
    char text[CONFIG_ADDRESS_BYTES];
    struct error why = { 0 };

    assert(value.n < sizeof(text));
    snprintf(text, sizeof(text), "%.*s", (int)value.n, value.p);
    int r = address_check(text, &why);
    return r == 0 ? 0 : error_set(error, r, knob->name, "%s: %s.", knob->name, why.text);
}

static int check_worker_address(const struct knob *knob, struct slice value,
                                struct error *error)
{
    return slice_equal(value, SLICE("off")) ? 0 : check_address(knob, value, error);
}

static int check_networks(const struct knob *knob, struct slice value,
                          struct error *error)
{
    struct address_policy *policy = NULL;
    struct error why = { 0 };

    int r = address_policy_new(value, &why, &policy);
    address_policy_free(policy);
    return r == 0 ? 0 : blame(knob, r, &why, error);
}

static int check_name(const struct knob *knob, struct slice value, struct error *error)
{
    if (name_valid(value))
        return 0;
    return error_set(error, -HF_INVALID, knob->name,
                     "%s is \"%.*s\"; it must be 1 to %d letters, digits, dots, dashes "
                     "and underscores.",
                     knob->name, (int)utf8_fit(value, LIMIT_NAME_BYTES), value.p,
                     LIMIT_NAME_BYTES);
}

/* The value is not quoted: it is a secret. */
static int check_token(const struct knob *knob, struct slice value, struct error *error)
{
    bool plain = value.n >= CONFIG_TOKEN_LEAST;

    for (size_t i = 0; i < value.n; i++)
        plain = plain && value.p[i] > ' ' && value.p[i] < 0x7f;
    if (plain)
        return 0;
    return error_set(error, -HF_INVALID, knob->name,
                     "%s is not fit for a token; it must be %d to %d visible ASCII "
                     "characters without blanks.",
                     knob->name, CONFIG_TOKEN_LEAST, CONFIG_TOKEN_BYTES - 1);
}

static int check_hosts(const struct knob *knob, struct slice value, struct error *error)
{
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                          ".-_:[], ";

    for (size_t i = 0; i < value.n; i++)
        if (!strchr(allowed, value.p[i]))
            return error_set(error, -HF_INVALID, knob->name,
                             "%s is \"%.*s\"; it must be hosts as a browser sends them, "
                             "with commas between, such as jobs.example.com.",
                             knob->name, (int)utf8_fit(value, 100), value.p);
    return 0;
}

static int split(const struct knob *knob, struct slice value, struct arena *arena,
                 struct error *error, char ***ret, size_t *ret_count)
{
    struct error why = { 0 };

    arena_init(arena, 4096, 1 << 20);
    int r = argv_split(value, arena, &why, ret, ret_count);
    if (r < 0 && !why.code)
        error_set(&why, r, NULL, "there is no memory to split it.");
    return r == 0 ? 0 : blame(knob, r, &why, error);
}

static int check_words(const struct knob *knob, struct slice value, struct error *error)
{
    cleanup(arena_release) struct arena arena;
    char **words = NULL;
    size_t count = 0;

    return split(knob, value, &arena, error, &words, &count);
}

static int check_environment(const struct knob *knob, struct slice value,
                             struct error *error)
{
    cleanup(arena_release) struct arena arena;
    char **words = NULL;
    size_t count = 0;

    int r = split(knob, value, &arena, error, &words, &count);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (words[i][0] == '=' || !strchr(words[i], '='))
            r = error_set(error, -HF_INVALID, knob->name,
                          "%s has the word \"%.80s\"; each must be NAME=VALUE.",
                          knob->name, words[i]);
    return r;
}

/* ---- rows ---- */

static const char *const format_words[] = {
    [LOG_LOGFMT] = "logfmt",
    [LOG_JSON] = "json",
};
static const char *const level_words[] = {
    [LEVEL_DEBUG] = "debug",
    [LEVEL_INFO] = "info",
    [LEVEL_WARN] = "warn",
    [LEVEL_ERROR] = "error",
};
static const char *const shutdown_words[] = {
    [COMMANDS_LEAVE] = "leave",
    [COMMANDS_STOP] = "stop",
};
static const char *const crash_words[] = {
    [ON_CRASH_RETRY] = "retry",
    [ON_CRASH_FAIL] = "fail",
};

#define ROW(T, name_, type_, member, is_, help_)                                         \
    .name = name_, .type = type_, KNOB_AT(T, member), .is = is_, .help = help_
#define NUMBERS(T, name, type, member, unit_, initial_, least_, most_, is, help)         \
    {                                                                                    \
        ROW(T, name, type, member, is, help), .unit = unit_, .initial = initial_,        \
                                              .least = (least_) * (unit_),               \
                                              .most = (most_) * (unit_)                  \
    }
#define WORDS(T, name, member, initial_, words_, is, help)                               \
    {                                                                                    \
        ROW(T, name, KNOB_WORD, member, is, help),                                       \
            .initial = initial_, .most = array_len(words_) - 1, .words = words_          \
    }

#define S struct server_settings
#define TEXT(name, member, initial, check_, is, help)                                    \
    {                                                                                    \
        ROW(S, name, KNOB_TEXT, member, is, help), .text = initial, .check = check_      \
    }
#define NUMBER(name, member, unit, initial, least, most, is, help)                       \
    NUMBERS(S, name, KNOB_NUMBER, member, unit, (initial) * (unit), least, most, is, help)
#define RELOAD KNOB_RELOAD
#define NAMED KNOB_NAMED
#define OPTIONAL KNOB_OPTIONAL

/* clang-format off */
static const struct knob server_table[] = {
TEXT("listen", listen, "127.0.0.1:7420", check_address, NAMED,
     "where the API and the dashboard are: HOST:PORT, [IPv6]:PORT or unix:PATH"),
TEXT("worker_listen", worker_listen, "127.0.0.1:7419", check_worker_address, NAMED,
     "where workers of the Faktory protocol connect; off: nowhere"),
TEXT("db", db, "holdfast.db", NULL, NAMED | KNOB_URL,
     "the store: a file, or postgres://USER@HOST/NAME"),
TEXT("state_dir", state_dir, "", NULL, NAMED | OPTIONAL,
     "where running commands are recorded, one folder per node; empty: the db's path with .d behind it, or holdfast.d with PostgreSQL"),
TEXT("node", node, "", check_name, NAMED | OPTIONAL,
     "this node's name, for people; empty: the machine's"),
WORDS(S, "log_format", log_format, LOG_LOGFMT, format_words, NAMED | RELOAD,
     "how log lines are written"),
WORDS(S, "log_level", log_level, LEVEL_INFO, level_words, NAMED | RELOAD,
     "the least important lines that are written"),
WORDS(S, "shutdown_commands", shutdown_commands, COMMANDS_LEAVE, shutdown_words, RELOAD,
     "what a stop does with running commands: leave them for the next start to adopt, or end them; stop if it runs as pid 1"),
{ ROW(S, "insecure", KNOB_FLAG, insecure, NAMED,
     "listen on other addresses than loopback without a token"), .most = 1 },
TEXT("admin_token", admin_token, "", check_token, OPTIONAL | KNOB_SECRET,
     "a first token, with role admin; not as a flag, which others could see"),
TEXT("admin_token_file", admin_token_file, "", NULL, OPTIONAL,
     "a file with that token in its first line"),
TEXT("tls_certificate", tls_certificate, "", NULL, OPTIONAL,
     "a PEM file with the certificate and its chain"),
TEXT("tls_key", tls_key, "", NULL, OPTIONAL,
     "a PEM file with its key"),
TEXT("allowed_hosts", allowed_hosts, "", check_hosts, OPTIONAL | RELOAD,
     "names under which browsers may reach the server, besides its own addresses; with commas between"),
NUMBERS(S, "socket_mode", KNOB_OCTAL, socket_mode, 1, 0600, 0, 0777, 0,
     "the mode of the file of unix:PATH"),
NUMBER("max_connections", max_connections, 1, 4096, 1, 1000000, 0,
     "connections at once; more are answered 503"),
NUMBER("header_timeout_ms", header_timeout_us, US_PER_MS, 10000, 100, 600000, 0,
     "for a request's head, from its first byte on"),
NUMBER("body_timeout_ms", body_timeout_us, US_PER_MS, 60000, 100, 3600000, 0,
     "for its body"),
NUMBER("idle_timeout_ms", idle_timeout_us, US_PER_MS, 75000, 100, 3600000, 0,
     "for a connection between two requests"),
NUMBER("send_timeout_ms", send_timeout_us, US_PER_MS, 30000, 100, 3600000, 0,
     "for a client to take a piece of an answer"),
NUMBER("max_header_bytes", max_header_bytes, 1, 32768, 1024, 1048576, 0,
     "the largest head of a request"),
NUMBER("max_body_bytes", max_body_bytes, 1, LIMIT_BODY_BYTES, 1024, LIMIT_BODY_BYTES, RELOAD,
     "the largest body of a request"),
NUMBER("max_batch_body_bytes", max_batch_body_bytes, 1, LIMIT_BATCH_BODY_BYTES, 1024, LIMIT_BATCH_BODY_BYTES, RELOAD,
     "the same for a batch of jobs"),
TEXT("deny_networks", deny_networks, "", check_networks, OPTIONAL,
     "where requests of jobs may not go, besides link-local and metadata addresses: networks such as 10.0.0.0/8, with commas between"),
};

#undef TEXT
#undef NUMBER
#define GIVEN(T, name, member, unit, least, most, help) \
    NUMBERS(T, name, KNOB_NUMBER, member, unit, KNOB_UNSET, least, most, OPTIONAL | RELOAD, help)
#define TEXT(T, name, member, check_, is, help) \
    { ROW(T, name, KNOB_TEXT, member, (is) | RELOAD, help), .check = check_ }
/* What a queue and a command may both say about their jobs. */
#define POLICY(T) \
GIVEN(T, "max_retries", max_retries, 1, 0, LIMIT_RETRIES, "how often a failed job is tried again"), \
TEXT(T, "retry_delays_seconds", retry_delays, settings_check_delays, OPTIONAL, "how long before each retry"), \
GIVEN(T, "max_execution_time_ms", max_execution_us, US_PER_MS, 1, LIMIT_DEADLINE_MS, "a run's deadline"), \
WORDS(T, "on_crash", on_crash, KNOB_UNSET, crash_words, OPTIONAL | RELOAD, "what becomes of a job when who executed it died")

static const struct knob queue_table[] = {
GIVEN(struct queue_config, "slots", slots, 1, 0, LIMIT_SLOTS,
      "jobs at once on each node"),
GIVEN(struct queue_config, "concurrency", concurrency, 1, 0, LIMIT_CONCURRENCY,
      "jobs at once over all nodes and remote workers; 0: no limit"),
GIVEN(struct queue_config, "stale_after_ms", stale_after_us, US_PER_MS, LEAST_STALE_MS, LIMIT_DEADLINE_MS,
      "a run older than this gets a warning"),
POLICY(struct queue_config),
};

#define C struct command_config
static const struct knob command_table[] = {
TEXT(C, "argv", argv, check_words, KNOB_WORDS,
     "the program and its arguments, split into words as a shell does; never run by one"),
TEXT(C, "queue", queue, check_name, OPTIONAL,
     "where jobs of this kind go that name no queue"),
TEXT(C, "directory", directory, NULL, OPTIONAL,
     "where it runs; empty: where the server does"),
TEXT(C, "user", user, NULL, OPTIONAL,
     "as whom it runs; empty: as whom the server does"),
TEXT(C, "environment", environment, check_environment, KNOB_WORDS | OPTIONAL,
     "words NAME=VALUE, split as argv; it gets these and a few of the server's, such as PATH"),
NUMBERS(C, "umask", KNOB_OCTAL, umask, 1, KNOB_UNSET, 0, 0777, OPTIONAL | RELOAD,
     "of the files it makes"),
GIVEN(C, "concurrency", concurrency, 1, 1, LIMIT_SLOTS,
     "runs at once on each node: the slots of its queue, unless that has a section with slots"),
NUMBERS(C, "term_grace_ms", KNOB_NUMBER, term_grace_us, US_PER_MS, DEFAULT_COMMAND_GRACE_MS * US_PER_MS, 0, 600000, RELOAD,
     "between SIGTERM and SIGKILL when it is ended"),
GIVEN(C, "limit_cpu_seconds", limit_cpu_seconds, 1, 1, LIMIT_DEADLINE_MS / 1000,
     "processor time"),
GIVEN(C, "limit_memory_bytes", limit_memory_bytes, 1, 1 << 20, INT64_C(1) << 50,
     "address space"),
GIVEN(C, "limit_open_files", limit_open_files, 1, 8, 1 << 20,
     "open files"),
GIVEN(C, "limit_processes", limit_processes, 1, 1, 1 << 22,
     "processes of its user"),
GIVEN(C, "limit_core_bytes", limit_core_bytes, 1, 0, INT64_C(1) << 50,
     "the size of a core dump; 0: none"),
POLICY(C),
};
/* clang-format on */

/* ---- lookup ---- */

static_assert(array_len(queue_table) <= CONFIG_KEYS, "see struct section_source");
static_assert(array_len(command_table) <= CONFIG_KEYS, "likewise");

static const struct section_row sections[CONFIG_SECTION_KINDS] = {
    [SECTION_QUEUE] = { "queue", "NAME",
                        "What is fixed for a queue: the API refuses to change it",
                        queue_table, array_len(queue_table),
                        sizeof(struct queue_config) },
    [SECTION_COMMAND] = { "command", "KIND", "What jobs of a kind run on this node",
                          command_table, array_len(command_table),
                          sizeof(struct command_config) },
};

size_t config_settings(void)
{
    size_t engine;

    settings_table(&engine);
    assert(array_len(server_table) + engine <= CONFIG_SETTINGS);
    return array_len(server_table) + engine;
}

const struct knob *config_setting(size_t i)
{
    size_t engine, own = array_len(server_table);
    const struct knob *table = settings_table(&engine);

    assert(i < own + engine);
    return i < own ? &server_table[i] : &table[i - own];
}

const void *config_object(const struct config *config, size_t i)
{
    return i < array_len(server_table) ? (const void *)&config->server
                                       : (const void *)&config->engine;
}

const struct section_row *config_section_row(enum config_section kind)
{
    assert(kind < CONFIG_SECTION_KINDS);
    return &sections[kind];
}

size_t config_section_count(const struct config *config, enum config_section kind)
{
    return kind == SECTION_QUEUE ? config->queue_count : config->command_count;
}

const void *config_section_item(const struct config *config, enum config_section kind,
                                size_t i)
{
    assert(i < config_section_count(config, kind));
    return kind == SECTION_QUEUE ? (const void *)&config->queues[i]
                                 : (const void *)&config->commands[i];
}

const struct section_source *config_section_source(const struct config *config,
                                                   enum config_section kind, size_t i)
{
    assert(i < config_section_count(config, kind));
    return kind == SECTION_QUEUE ? &config->queue_sources[i]
                                 : &config->command_sources[i];
}
