/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h -- what the files of the command line program share.
 *
 * A subcommand is a row of a table: its name, its arguments, its options and
 * the function that does it.  Help, parsing, checking and completions come from
 * the row, so that none of them can be forgotten.
 *
 * WHERE a subcommand works is one rule, for all of them:
 *
 *   --db given      the store itself, also when no server runs
 *   --url given     the server there
 *   HOLDFAST_URL    the server there
 *   HOLDFAST_DB     the store itself
 *   otherwise       the server at http://127.0.0.1:7420
 *
 * Most ask through a door (door.h) and do not know which it is.  Those that need
 * the store itself (check, recover, backup) take holdfast.db where none is named.
 *
 * Exit codes are those of status.h.  Results go to standard output: a table for
 * people, the API's JSON with --json.  What went wrong is one sentence on standard
 * error. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/status.h"
#include "cli/door.h"
#include "daemon/config.h"

enum {
    CLI_OPTIONS = 40, /* of a command's own */
    CLI_FLAGS = 64,   /* of the configuration, as often as they are given */
};

/* Most that an answer may hold. */
#define CLI_ANSWER_BYTES ((size_t)512 << 20)

/* `argument` is NULL for a flag; `letter` is 0, or 'f' for -f.  One that is `many` may be
 * given as often as one likes: its value is all of them, a line each. */
struct cli_option {
    const char *name, *argument, *help;
    char letter;
    bool many;
};

struct cli {
    const struct subcommand *command;
    const char *db, *url; /* as given by flags; NULL: not given */
    bool json;
    const char *values[CLI_OPTIONS]; /* of the command's options; "" for a flag */
    char **args;                     /* what is no option */
    int arg_count;
    struct door *door;  /* NULL until something is asked */
    struct hf *hf;      /* the store, if that is where it works */
    const char *store;  /* its name */
    struct arena arena; /* for texts of answers, as long as the command runs */
    struct error error;

    /* Of a command that is `configured`: as given, in order. */
    const char *config_file;
    struct config_flag flags[CLI_FLAGS];
    size_t flag_count;
};

/* What a subcommand can do, where that is more than one thing: its first argument.  Each
 * names its options, so that one which does nothing there is refused instead of being
 * ignored. */
struct action {
    const char *name, *arguments, *summary;
    int least, most;     /* how many arguments of its own */
    const char *options; /* their names, each between blanks */
    int (*run)(struct cli *cli);
};

struct subcommand {
    const char *name;
    const char *arguments; /* for the help: "KIND [PAYLOAD]" */
    const char *summary;
    int least, most; /* how many arguments */
    const struct action
        *actions;     /* ends with a NULL name, the first is done where none is
                                     named; or NULL.  Then `run` is cli_act. */
    const char *note; /* what is to be known of all actions */
    enum { NOWHERE, ANYWHERE, SERVER, STORE } place;
    bool configured;                  /* takes the flags of the server's configuration */
    bool creates;                     /* makes the store if it is not there */
    enum hf_role role;                /* with which the store is opened */
    const struct cli_option *options; /* ends with a NULL name */
    int (*run)(struct cli *cli);      /* 0, or a negative code with cli->error */
};

/* The rows, by family; each ends with a NULL name. */
extern const struct subcommand job_commands[];
extern const struct subcommand many_commands[];
extern const struct subcommand queue_commands[];
extern const struct subcommand reserve_commands[];
extern const struct subcommand event_commands[];
extern const struct subcommand cron_commands[];
extern const struct subcommand schedule_commands[];
extern const struct subcommand endpoint_commands[];
extern const struct subcommand webhook_commands[];
extern const struct subcommand project_commands[];
extern const struct subcommand store_commands[];
extern const struct subcommand server_commands[];
extern const struct subcommand help_commands[];

/* All of them, one after another; NULL behind the last. */
const struct subcommand *subcommand_at(size_t i);
const struct subcommand *subcommand_find(const char *name);
/* All options of a command: its own, those of the configuration, the common ones. */
enum { ALL_OPTIONS = 2 * CLI_OPTIONS + 8 };
size_t subcommand_options(const struct subcommand *c, struct cli_option *out);
/* Explains one, or all. */
void explain_command(const struct subcommand *c);
void explain_all(void);

/* Runs the action that the first argument names; it finds it in cli->args[0] still, and
 * its own arguments behind it. */
must_check int cli_act(struct cli *cli);

/* "It worked, and the answer is no": for exit code 1. */
enum { CLI_NO = 1 };

/* ---- input ---- */

/* The value of an option, NULL if it was not given. */
const char *cli_option(const struct cli *cli, const char *name);

/* Sets the sentence and returns the code, or -HF_INVALID. */
int cli_fail(struct cli *cli, int code, const char *format, ...) printf_like(3, 4);
int cli_refuse(struct cli *cli, const char *format, ...) printf_like(2, 3);

/* Whole numbers; untouched if the option was not given. */
must_check int cli_number(struct cli *cli, const char *name, int64_t least, int64_t most,
                          int64_t *ret);
/* The id of a job, a reservation, ...: `what`. */
must_check int cli_id(struct cli *cli, const char *what, const char *text, int64_t *ret);
/* The name of a queue: part of a path. */
must_check int cli_name(struct cli *cli, const char *what, const char *text);

/* An option as a field of a body, where it was given.  What is a number for the API must
 * look like one; what is acceptable, the API says. */
must_check int cli_put_number(struct cli *cli, struct json_writer *w, const char *option,
                              const char *field);
void cli_put_text(struct cli *cli, struct json_writer *w, const char *option,
                  const char *field);
must_check int cli_put_json(struct cli *cli, struct json_writer *w, const char *field,
                            struct slice json);
/* --retry-delays 60,300,900 */
must_check int cli_put_delays(struct cli *cli, struct json_writer *w);
/* --every 90s as everyMs; nothing if it was not given. */
must_check int cli_put_every(struct cli *cli, struct json_writer *w);

/* Options as fields, by a table that ends with a NULL option: those that were given.  Of
 * something that is there (not `is_new`), '' puts the default back. */
enum cli_field_type {
    FIELD_TEXT,
    FIELD_NUMBER,
    FIELD_JSON,
    FIELD_LIST,   /* a,b: numbers where they look like it, otherwise texts */
    FIELD_BODY,   /* JSON if it is an object or an array, otherwise a text */
    FIELD_SECRET, /* a text, of which @FILE is where to find it */
    FIELD_DELAYS,
    FIELD_EVERY,
};
struct cli_field {
    const char *option, *field;
    enum cli_field_type type;
};
must_check int cli_put_fields(struct cli *cli, struct json_writer *w,
                              const struct cli_field *fields, bool is_new);
/* An object of those that were given; `body` is the caller's, initialised here. */
must_check int cli_write_fields(struct cli *cli, const struct cli_field *fields,
                                struct buf *body, struct slice *ret);

/* What a person may not want to type, since others can read it in the list of processes:
 * of @FILE what is in the file, of @- what is on standard input, without the last line's
 * end; anything else is itself.  Lives as long as the command. */
must_check int cli_text_or_file(struct cli *cli, const char *option, const char *text,
                                const char **ret);

/* ---- asking ---- */

/* Finds who answers, by the rule above.  Asking does it: so what is wrong with a
 * command is said before anything is opened, made or sent. */
must_check int cli_open(struct cli *cli);
/* An ask with its path. */
struct ask ask_for(const char *method, const char *path, ...) printf_like(2, 3);
/* Asks; `answer` is the caller's, initialised here.  *ret is the JSON in it. */
must_check int cli_ask(struct cli *cli, const struct ask *ask, struct buf *answer,
                       struct slice *ret);
/* Events, as they come: see door.h. */
must_check int cli_follow(struct cli *cli, const struct ask *ask, door_event *event,
                          void *arg);
/* Asks, and prints the answer: as JSON with --json, or with `print`. */
must_check int cli_ask_and_print(struct cli *cli, const struct ask *ask,
                                 int (*print)(struct cli *cli, struct slice answer));

/* Asks for something to be deleted, and says so: "Webhook 12 is deleted" and what comes
 * `behind` it.  Its id is the last part of the path. */
must_check int cli_delete(struct cli *cli, const struct ask *ask, const char *what,
                          const char *behind);

/* A member of an object: text of strings, JSON of others; NULL if it is null or not
 * there.  Lives as long as the command. */
const char *member(struct cli *cli, struct slice object, const char *name);
int64_t member_int(struct slice object, const char *name); /* 0: not there */
bool member_is(struct slice object, const char *name, const char *text);
bool member_true(struct slice object, const char *name);
/* The raw value, absent if it is null or not there. */
struct slice member_raw(struct slice object, const char *name);

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

/* A table: cells are added row by row, then printed in columns that fit the
 * terminal.  A column called STATE is coloured. */
struct table {
    struct buf cells; /* each ended by NUL */
    size_t columns, count;
};
void table_init(struct table *table, const char *const *titles); /* ends with NULL */
void table_text(struct table *table, const char *text);          /* NULL: "-" */
void table_int(struct table *table, int64_t n);
/* Prints and releases. */
must_check int table_print(struct table *table);
/* The same for a page of a list, with what to type for the next one; `none` is said
 * where there is nothing in it. */
must_check int table_print_page(struct cli *cli, struct table *table, struct slice page,
                                const char *none);
/* A time of the API, UTC; NULL: "-".  Where the table has a width to fit it is as short as
 * ls has it: of today the time, of this year the day too, otherwise the date. */
void table_time(struct table *table, const char *time);

/* "name: value" in one line, with what would harm a terminal taken out; nothing if
 * the value is NULL. */
void print_field(const char *name, const char *value);
/* A line of which parts are anyone's text: the same is taken out. */
void print_line(const char *format, ...) printf_like(1, 2);
/* print_field() of a number of an object, if it is there. */
void print_number(const char *name, struct slice object, const char *member);

/* Prints JSON, and a line's end. */
void print_json(struct slice json);
/* What a writer has put into `buf`, which is released. */
must_check int print_json_buf(struct buf *buf);

/* How far long work is: a bar, on standard error, if that is a terminal.  `total` 0:
 * not known.  progress_end() takes it away. */
void progress_show(const char *what, int64_t done, int64_t total);
void progress_end(void);

/* ---- jobs ---- */

/* Waits for the outcome of a job, or of its chain, at most `wait_ms`, and gives the last
 * job of it.  -HF_TIMEOUT with its sentence. */
must_check int job_wait(struct cli *cli, int64_t id, bool chain, int64_t wait_ms,
                        struct buf *answer, struct slice *ret);
int job_print(struct cli *cli, struct slice job);
/* Many jobs out of a file of lines (enqueue --file). */
int enqueue_file(struct cli *cli, const char *path);
/* The options that say which jobs are meant, and the parameters for them. */
#define FILTER_OPTIONS                                                                   \
    { "state", "WORD", "scheduled, queued, running, failed, ...; several: a,b" },        \
        { "final", NULL, "only those whose retries are over" },                          \
        { "queue", "NAME", "only of this queue" },                                       \
        { "kind", "NAME", "only of this kind" },                                         \
        { "project", "NAME", "only of this project" },                                   \
        { "schedule", "ID", "only of this schedule" },                                   \
        { "unique-key", "TEXT", "only of this unique key" },                             \
        { "metadata", "NAME=TEXT", "only with this metadata" },                          \
        { "search", "TEXT", "in kind, unique key, payload and error" },                  \
        { "created-after", "TIME", "only newer ones" },                                  \
    {                                                                                    \
        "created-before", "TIME", "only older ones"                                      \
    }
/* *ret_given: how many there are. */
must_check int filter_params(struct cli *cli, struct ask *ask, size_t *ret_given);
