/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h -- the server's configuration: what is set, and by whom.
 *
 * Each setting is a row of one table (base/knob.h): those of the engine are its
 * own (engine/settings.h), those of the server stand in config_table.c.  From
 * the rows come the flags, the variables, the keys of the file, what
 * `holdfast config` prints, the sample file and the manual's table.
 *
 * A value is taken from the first of these that has one:
 *
 *   flags        --set NAME=VALUE, or a flag of its own such as --listen; the last wins
 *   environment  HOLDFAST_NAME; an empty variable counts as none
 *   file         NAME = VALUE, see config_file.h; there is none unless --config or
 *                HOLDFAST_CONFIG names one
 *   default
 *
 * and remembers its source.  A file may also have sections: [queue NAME] for what
 * is fixed for that queue, [command KIND] for kinds that run a command.
 *
 * Whatever is wrong anywhere is told in one go, each as a sentence with its place;
 * a configuration with a problem is not given out.
 *
 * Threads: a loaded configuration does not change; any thread may read it. */
#pragma once

#include "base/knob.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/settings.h"
#include "store/model.h"

enum log_format { LOG_LOGFMT, LOG_JSON };
enum shutdown_commands { COMMANDS_LEAVE, COMMANDS_STOP };

enum {
    CONFIG_ADDRESS_BYTES = 256,
    CONFIG_LIST_BYTES = 4096,
    CONFIG_WORDS_BYTES = 8192,
    CONFIG_TOKEN_LEAST = 16, /* characters; fewer can be guessed */
    CONFIG_TOKEN_BYTES = 256,
};

/* What the server itself needs.  Texts are "" where nothing is set. */
struct server_settings {
    char listen[CONFIG_ADDRESS_BYTES];        /* HOST:PORT, [IPv6]:PORT or unix:PATH */
    char worker_listen[CONFIG_ADDRESS_BYTES]; /* the same, or "off" */
    char db[LIMIT_PATH_BYTES];                /* a path or postgres://... */
    char state_dir[LIMIT_PATH_BYTES];         /* never "" once loaded */
    char node[LIMIT_NAME_BYTES + 1];          /* for people; never "" once loaded */
    enum log_format log_format;
    enum level log_level;
    enum shutdown_commands shutdown_commands;

    /* Who may connect, and how. */
    bool insecure;                           /* listen openly without a token */
    char admin_token[CONFIG_TOKEN_BYTES];    /* a first token with role admin */
    char admin_token_file[LIMIT_PATH_BYTES]; /* or where it is; see config_token() */
    char tls_certificate[LIMIT_PATH_BYTES];  /* both or none */
    char tls_key[LIMIT_PATH_BYTES];
    char allowed_hosts[CONFIG_LIST_BYTES]; /* Host headers besides our own addresses */
    int64_t socket_mode;                   /* of unix:PATH */

    /* What may come in. */
    int64_t max_connections;
    int64_t header_timeout_us, body_timeout_us, idle_timeout_us, send_timeout_us;
    int64_t max_header_bytes;
    int64_t max_body_bytes, max_batch_body_bytes;

    /* What may go out. */
    char deny_networks[CONFIG_LIST_BYTES]; /* CIDRs with commas between */
};

/* [queue NAME]: KNOB_UNSET and "" are what the file does not name. */
struct queue_config {
    char name[LIMIT_NAME_BYTES + 1];
    int64_t slots, concurrency, stale_after_us, max_retries, max_execution_us;
    int64_t on_crash; /* enum on_crash */
    char retry_delays[256];
};

/* [command KIND]: likewise, where no default is given. */
struct command_config {
    char name[LIMIT_NAME_BYTES + 1]; /* the kind */
    char argv[CONFIG_WORDS_BYTES];   /* as written: words with quotes; never "" */
    char queue[LIMIT_NAME_BYTES + 1];
    char directory[LIMIT_PATH_BYTES];
    char user[LIMIT_NAME_BYTES + 1];
    char environment[CONFIG_WORDS_BYTES]; /* words NAME=VALUE, as argv */
    int64_t umask;
    int64_t concurrency;   /* slots of its queue, if no section gives those */
    int64_t term_grace_us; /* between SIGTERM and SIGKILL: 10 s */
    int64_t limit_cpu_seconds, limit_memory_bytes, limit_open_files, limit_processes,
        limit_core_bytes;
    int64_t max_execution_us, max_retries;
    int64_t on_crash; /* enum on_crash */
    char retry_delays[256];
};

/* Where a value comes from. */
enum config_from { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };
struct config_source {
    enum config_from from;
    int line;         /* FROM_FILE */
    const char *flag; /* FROM_FLAG: "--set", "--listen"; the caller's, lives on */
};

enum {
    CONFIG_SETTINGS = 64,   /* room for all rows of the server and the engine */
    CONFIG_KEYS = 20,       /* the same for a section */
    CONFIG_SECTIONS = 1000, /* of a kind */
    CONFIG_PROBLEMS = 20,   /* told in one go; the rest is counted */
};

/* Where a section stands, and its keys, by their row. */
struct section_source {
    int line;
    int key_lines[CONFIG_KEYS]; /* 0: not named */
};

struct config {
    struct settings engine;
    struct server_settings server;
    struct queue_config *queues; /* in the order of the file */
    size_t queue_count;
    struct command_config *commands;
    size_t command_count;

    char file[LIMIT_PATH_BYTES];                   /* "" if there is none */
    struct config_source sources[CONFIG_SETTINGS]; /* by config_setting()'s number */
    struct section_source *queue_sources;          /* beside `queues` */
    struct section_source *command_sources;
};

/* One flag as it was given.  `name` is the setting; NULL if `value` is NAME=VALUE. */
struct config_flag {
    const char *flag; /* "--set" */
    const char *name;
    const char *value;
};

/* Where to look.  All of it is borrowed for the call, but for the flags' names. */
struct config_input {
    const char *file;                /* NULL: HOLDFAST_CONFIG, or none */
    char *const *environment;        /* as `environ`; NULL: none */
    const struct config_flag *flags; /* in the order they were given */
    size_t flag_count;
    bool init; /* this process is pid 1: whoever it leaves behind is killed */
};

struct config_problems {
    struct error items[CONFIG_PROBLEMS];
    size_t count; /* of all; items has the first CONFIG_PROBLEMS */
};

/* Reads everything.  0 and the configuration, to be freed; or the code of the first
 * problem, with all of them in `problems`. */
must_check int config_load(const struct config_input *input,
                           struct config_problems *problems, struct config **ret);

/* NULL is fine. */
void config_free(struct config *config);

/* The first admin token, from admin_token or else from admin_token_file, where it is
 * the first line; "" if neither is set.  An error is a sentence. */
must_check int config_token(const struct config *config, struct error *error,
                            char ret[CONFIG_TOKEN_BYTES]);

/* ---- the table ---- */

/* All settings in the order of the manual: row `i`, for i below config_settings(). */
size_t config_settings(void);
const struct knob *config_setting(size_t i);
/* The struct its member is in. */
const void *config_object(const struct config *config, size_t i);

/* A kind of section.  Its items begin with their name. */
enum config_section { SECTION_QUEUE, SECTION_COMMAND, CONFIG_SECTION_KINDS };
struct section_row {
    const char *word;     /* "queue" */
    const char *argument; /* "NAME" */
    const char *help;
    const struct knob *keys;
    size_t key_count;
    size_t item_bytes;
};
const struct section_row *config_section_row(enum config_section kind);
size_t config_section_count(const struct config *config, enum config_section kind);
const void *config_section_item(const struct config *config, enum config_section kind,
                                size_t i);
const struct section_source *config_section_source(const struct config *config,
                                                   enum config_section kind, size_t i);

/* Appends where setting `i` comes from: "flag --set", "HOLDFAST_LISTEN",
 * "holdfast.conf:12", "default". */
void config_show_source(const struct config *config, size_t i, struct buf *buf);

/* ---- reload ---- */

/* Takes over from `fresh` what may change while running: settings whose row is
 * KNOB_RELOAD, and all sections.  `running` keeps the rest as it was; `fresh` is used up
 * and freed.  Each difference is told as a sentence; `effective` if it holds from now
 * on, else it waits for a restart. */
void config_reload(struct config *running, struct config *fresh,
                   void (*tell)(void *arg, const char *name, bool effective,
                                const char *sentence),
                   void *arg);

/* ---- what is made from the table ---- */

/* A sample file: every setting with its default, explained and commented out. */
void config_write_sample(struct buf *buf);
/* The manual's tables, in Markdown. */
void config_write_manual(struct buf *buf);
/* What `holdfast config --json` prints. */
void config_write_json(const struct config *config, struct buf *buf);
