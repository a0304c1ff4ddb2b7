/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h -- what the files of the command line program share.
 *
 * A subcommand is a row of a table: its name, its arguments, its options and
 * the function that does it.  Help, parsing and checking come from the row, so
 * that none of them can be forgotten.  Subcommands work on the store itself, as
 * a producer or a reader beside whatever scheduler there is.
 *
 * Exit codes are those of status.h.  Results go to standard output: a table for
 * people, JSON with --json.  What went wrong is one sentence on standard error. */
#pragma once

#include "base/buf.h"
#include "base/json_write.h"
#include "base/status.h"
#include "daemon/config.h"

enum {
    CLI_OPTIONS = 20, /* of a command's own */
    CLI_FLAGS = 64,   /* of the configuration, as often as they are given */
};

/* `argument` is NULL for a flag. */
struct cli_option {
    const char *name, *argument, *help;
};

struct cli {
    const struct subcommand *command;
    const char *db;
    bool json;
    const char *values[CLI_OPTIONS]; /* of the command's options; "" for a flag */
    char **args;                     /* what is no option */
    int arg_count;
    struct hf *hf; /* NULL for a command without a store */
    struct hf_error error;

    /* Of a command that is `configured`: as given, in order. */
    const char *config_file;
    struct config_flag flags[CLI_FLAGS];
    size_t flag_count;
};

struct subcommand {
    const char *name;
    const char *arguments; /* for the help: "KIND [PAYLOAD]" */
    const char *summary;
    int least, most; /* how many arguments */
    bool storeless;
    bool configured; /* takes the flags of the server's configuration */
    bool creates;    /* makes the store if it is not there */
    enum hf_role role;
    const struct cli_option *options; /* ends with a NULL name */
    int (*run)(struct cli *cli);      /* 0, or a negative code with cli->error */
};

/* The rows, by family; each ends with a NULL name. */
extern const struct subcommand job_commands[];
extern const struct subcommand queue_commands[];
extern const struct subcommand store_commands[];
extern const struct subcommand server_commands[];

/* "It worked, and the answer is no": for exit code 1. */
enum { CLI_NO = 1 };

/* ---- input ---- */

/* The value of an option, NULL if it was not given. */
const char *cli_option(const struct cli *cli, const char *name);

/* Sets the sentence and returns -HF_INVALID. */
int cli_refuse(struct cli *cli, const char *format, ...) printf_like(2, 3);

/* Whole numbers; untouched if the option was not given. */
must_check int cli_number(struct cli *cli, const char *name, int64_t least, int64_t most,
                          int64_t *ret);
must_check int cli_time(struct cli *cli, const char *name, int64_t *ret_us);
/* One of `words`, which ends with NULL; *ret is its place. */
must_check int cli_word(struct cli *cli, const char *name, const char *const *words,
                        int *ret);
/* A job's id. */
must_check int cli_id(struct cli *cli, const char *text, int64_t *ret);

/* ---- configuration ---- */

/* The flags of a `configured` command: --config, --set, and one for each setting that
 * has its own.  How many; at most CLI_OPTIONS. */
size_t cli_config_options(struct cli_option *out);
/* Keeps one of them, as it was given. */
must_check int cli_config_take(struct cli *cli, const struct cli_option *option,
                               const char *value);
/* Puts the configuration together.  What is wrong with it is on standard error, one
 * sentence a line, the last in cli->error. */
must_check int cli_config_load(struct cli *cli, struct config **ret);

/* ---- output ---- */

/* A table: cells are added row by row, then printed in columns. */
struct table {
    struct buf cells; /* each ended by NUL */
    size_t columns, count;
};
void table_init(struct table *table, const char *const *titles); /* ends with NULL */
void table_text(struct table *table, const char *text);          /* NULL: "-" */
void table_int(struct table *table, int64_t n);
void table_time(struct table *table, int64_t time_us); /* 0: "-" */
/* Prints and releases. */
must_check int table_print(struct table *table);

/* "name: value" in one line, with what would harm a terminal taken out. */
void print_field(const char *name, const char *value);
void print_time(const char *name, int64_t time_us);

/* Prints what a writer has put into `buf`, and releases it. */
must_check int print_json(struct buf *buf);

/* A job as the HTTP API shows it. */
void put_job(struct json_writer *w, const struct hf_job *job);
