/* SPDX-License-Identifier: Apache-2.0
 *
 * Where values come from, and which goes before which.  The tests walk the table, so a
 * new setting is held to them by being there. */
#include <unistd.h>

#include "configs.h"

/* Texts of all kinds; a setting is tested with those that it takes. */
static const char *const pool[] = {
    "127.0.0.1:1",
    "127.0.0.1:2",
    "unix:/tmp/x",
    "10.0.0.0/8",
    "192.0.2.0/24",
    "2001:db8::/32",
    "one",
    "two",
    "three",
    "5,10",
    "20",
    "exp:1:2:3",
    "sixteen_or_more_1",
    "sixteen_or_more_2",
    "sixteen_or_more_3",
};

enum { VALUES = 3, VALUE_BYTES = 64 };

/* Three acceptable values, the first other than the default, neighbours different. */
static void choose(const struct knob *knob, char out[VALUES][VALUE_BYTES])
{
    union {
        struct settings engine;
        struct server_settings server;
    } *scratch = calloc(1, sizeof(*scratch));
    size_t n = 0;

    check(scratch);
    for (size_t i = 0; knob->type == KNOB_TEXT && n < VALUES && i < array_len(pool); i++)
        if (knob_read(knob, slice_of(pool[i]), scratch, NULL) == 0)
            snprintf(out[n++], VALUE_BYTES, "%s", pool[i]);
    while (knob->type != KNOB_TEXT && n < VALUES) {
        bool other = n % 2 == 0; /* than the default */
        int64_t value = !other                         ? knob->initial
                        : knob->initial != knob->least ? knob->least
                                                       : knob->most;
        if (knob->type == KNOB_FLAG)
            snprintf(out[n++], VALUE_BYTES, "%s", value ? "true" : "false");
        else if (knob->type == KNOB_WORD)
            snprintf(out[n++], VALUE_BYTES, "%s", knob->words[value]);
        else
            snprintf(out[n++], VALUE_BYTES, knob->type == KNOB_OCTAL ? "%04llo" : "%lld",
                     (long long)(value / knob->unit));
    }
    if (n < VALUES)
        fail("%s takes too few texts of the pool: add some that it does", knob->name);
    free(scratch);
}

/* What must be set with it. */
static const char *companion(const char *name)
{
    if (strcmp(name, "tls_certificate") == 0)
        return "tls_key = /k\n";
    return strcmp(name, "tls_key") == 0 ? "tls_certificate = /c\n" : "";
}

static void variable_of(const char *name, const char *value, char out[200])
{
    int n = snprintf(out, 200, "HOLDFAST_");
    for (; *name; name++)
        out[n++] = (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
    snprintf(out + n, 200 - (size_t)n, "=%s", value);
}

static const char *shown(const struct knob *knob, const char *value)
{
    return knob->is & KNOB_SECRET ? "(set)" : value;
}

static void check_precedence(const struct knob *knob)
{
    char values[VALUES][VALUE_BYTES], file[400], where[400], variable[200], set[200];
    const struct config_flag flag = { "--set", NULL, set };
    const char *environment[] = { variable, NULL };
    struct given given = { .file = file };

    choose(knob, values);
    snprintf(file, sizeof(file), "%s\n%s = %s\n", companion(knob->name), knob->name,
             values[0]);
    snprintf(where, sizeof(where), "%s:%d", test_path("holdfast.conf"),
             companion(knob->name)[0] ? 3 : 2);
    struct config *config = load_good(&given);
    check_setting(config, knob->name, shown(knob, values[0]), where);
    config_free(config);

    variable_of(knob->name, values[1], variable);
    given.environment = environment;
    config = load_good(&given);
    *strchr(variable, '=') = '\0';
    check_setting(config, knob->name, shown(knob, values[1]), variable);
    config_free(config);

    variable_of(knob->name, values[1], variable);
    snprintf(set, sizeof(set), "%s=%s", knob->name, values[2]);
    given.flags = &flag;
    given.flag_count = 1;
    if (knob->is & KNOB_SECRET) {
        char sentence[300];
        snprintf(
            sentence, sizeof(sentence),
            "--set: %s is a secret, and every user of this machine can see the flags "
            "of a process; use a variable or the file.",
            knob->name);
        check_problem(&given, sentence);
        return;
    }
    config = load_good(&given);
    check_setting(config, knob->name, values[2], "flag --set");
    config_free(config);
}

TEST(flags_go_before_the_environment_and_that_before_the_file)
{
    for (size_t i = 0; i < config_settings(); i++)
        check_precedence(config_setting(i));
}

TEST(without_anything_all_are_defaults)
{
    struct config *config = load_good(&(struct given){ 0 });

    for (size_t i = 0; i < config_settings(); i++) {
        check_int(config->sources[i].from, FROM_DEFAULT);
        check(config_setting(i)->help && config_setting(i)->help[0]);
    }
    check_str(config->server.listen, "127.0.0.1:7420");
    check_str(config->server.worker_listen, "127.0.0.1:7419");
    check_str(config->server.db, "holdfast.db");
    check_int(config->server.shutdown_commands, COMMANDS_LEAVE);
    check_int(config->server.log_level, LEVEL_INFO);
    check_int(config->server.max_body_bytes, 2 << 20);
    check_int(config->server.max_batch_body_bytes, 64 << 20);
    check_int(config->queue_count + config->command_count, 0);
    check_str(config->file, "");
    config_free(config);
}

TEST(no_setting_has_two_rows)
{
    for (size_t i = 0; i < config_settings(); i++)
        check_int(setting(config_setting(i)->name), i);
}

/* ---- defaults that depend ---- */

TEST(the_state_directory_is_beside_the_database)
{
    static const struct {
        const char *file, *state_dir;
    } cases[] = {
        { "", "holdfast.db.d" },
        { "db = /var/lib/x/jobs.db\n", "/var/lib/x/jobs.db.d" },
        { "db = postgres://me@host/jobs\n", "holdfast.d" },
        { "db = postgresql:///jobs\nstate_dir = /s\n", "/s" },
        { "state_dir = /s\n", "/s" },
    };

    for (size_t i = 0; i < array_len(cases); i++) {
        struct config *config = load_text(cases[i].file);
        check_str(config->server.state_dir, cases[i].state_dir);
        config_free(config);
    }
}

TEST(a_database_whose_path_leaves_no_room_needs_a_state_directory)
{
    char file[LIMIT_PATH_BYTES + 20] = "db = ";

    memset(file + 5, 'x', LIMIT_PATH_BYTES - 1);
    check_problem(
        &(struct given){ .file = file },
        "state_dir cannot be named after db, whose path has 4095 bytes; set it.");
}

TEST(a_node_is_called_as_its_machine)
{
    char name[LIMIT_NAME_BYTES + 1] = "";
    struct config *config = load_good(&(struct given){ 0 });

    check(gethostname(name, sizeof(name) - 1) == 0);
    check_str(config->server.node, name);
    config_free(config);
}

TEST(as_pid_1_commands_are_stopped_unless_it_says_otherwise)
{
    struct config *config = load_good(&(struct given){ .init = true });
    check_int(config->server.shutdown_commands, COMMANDS_STOP);
    config_free(config);
    config =
        load_good(&(struct given){ .init = true, .file = "shutdown_commands = leave\n" });
    check_int(config->server.shutdown_commands, COMMANDS_LEAVE);
    config_free(config);
}

/* ---- the environment ---- */

TEST(an_empty_variable_counts_as_none)
{
    const char *environment[] = { "HOLDFAST_LISTEN=", "HOLDFAST_CONFIG=", NULL };
    struct config *config = load_good(&(struct given){ .environment = environment });

    check_setting(config, "listen", "127.0.0.1:7420", "default");
    config_free(config);
}

TEST(variables_that_are_no_settings_are_passed_over)
{
    const char *environment[] = { "HOLDFAST_URL=x",
                                  "HOLDFAST_TOKEN=x",
                                  "HOLDFAST_PORT=tcp://10.0.0.1:7420",
                                  "HOLDFAST_SERVICE_HOST=10.0.0.1",
                                  "HOLDFAST_PORT_7420_TCP_ADDR=10.0.0.1",
                                  "HOLDFAST_=x",
                                  "HOLDFAST_LISTEN", /* no value at all */
                                  "LISTEN=x",
                                  NULL };
    config_free(load_good(&(struct given){ .environment = environment }));
}

TEST(a_slip_in_a_variable_is_refused)
{
    const char *environment[] = { "HOLDFAST_LISTNE=x", NULL };
    check_problem(&(struct given){ .environment = environment },
                  "HOLDFAST_LISTNE: there is no setting of this name; did you mean "
                  "HOLDFAST_LISTEN?");
}

TEST(a_wrong_variable_is_named)
{
    const char *environment[] = { "HOLDFAST_SLOTS=many", NULL };
    check_problem(
        &(struct given){ .environment = environment },
        "HOLDFAST_SLOTS: slots is \"many\"; it must be a whole number between 0 "
        "and 10000.");
}

TEST(the_file_may_be_named_by_a_variable_but_a_flag_goes_before)
{
    const char *first = test_path("first.conf"), *second = test_path("second.conf");
    char variable[500];
    char *environment[] = { variable, NULL };
    struct config_problems *problems = problems_new();
    struct config *config = NULL;

    write_file(first, "slots = 1\n");
    write_file(second, "slots = 2\n");
    snprintf(variable, sizeof(variable), "HOLDFAST_CONFIG=%s", first);
    struct config_input input = { .environment = environment };
    check_ok(config_load(&input, problems, &config));
    check_int(config->engine.slots, 1);
    check_str(config->file, first);
    config_free(config);
    input.file = second;
    check_ok(config_load(&input, problems, &config));
    check_int(config->engine.slots, 2);
    config_free(config);

    snprintf(variable, sizeof(variable), "HOLDFAST_CONFIG=/nonexistent");
    input.file = NULL;
    check_err(config_load(&input, problems, &config), -HF_NOT_FOUND);
    check_str(problems->items[0].text,
              "The configuration file /nonexistent (HOLDFAST_CONFIG) cannot be read: No "
              "such file or directory.");
    free(problems);
}

/* ---- flags ---- */

TEST(the_last_flag_wins_and_a_flag_of_its_own_is_named)
{
    const struct config_flag flags[] = {
        { "--set", NULL, "listen=127.0.0.1:1" },
        { "--listen", "listen", "127.0.0.1:2" },
        { "--set", NULL, "db=a=b" },
    };
    struct config *config =
        load_good(&(struct given){ .flags = flags, .flag_count = array_len(flags) });

    check_setting(config, "listen", "127.0.0.1:2", "flag --listen");
    check_setting(config, "db", "a=b", "flag --set");
    config_free(config);
}

TEST(a_wrong_flag_is_told_with_what_would_be_right)
{
    static const struct {
        const char *set, *problem;
    } cases[] = {
        { "listen",
          "--set \"listen\" is not NAME=VALUE, such as listen=127.0.0.1:7420." },
        { "=1", "--set \"=1\" is not NAME=VALUE, such as listen=127.0.0.1:7420." },
        { "lisen=1", "--set: there is no setting lisen; did you mean listen?" },
        { "argv=1", "--set: there is no setting argv; \"holdfast config\" lists them." },
        { "slots=",
          "--set: slots is \"\"; it must be a whole number between 0 and 10000." },
    };

    for (size_t i = 0; i < array_len(cases); i++) {
        const struct config_flag flag = { "--set", NULL, cases[i].set };
        check_problem(&(struct given){ .flags = &flag, .flag_count = 1 },
                      cases[i].problem);
    }
}

TEST(what_is_wrong_in_a_file_is_told_also_where_a_flag_overrules_it)
{
    const struct config_flag flag = { "--set", NULL, "slots=1" };
    check_problem(
        &(struct given){ .file = "slots = many\n", .flags = &flag, .flag_count = 1 },
        ":1: slots is \"many\"; it must be a whole number between 0 and 10000.");
}

/* ---- the token ---- */

static void check_token_file(const char *text, int code, const char *token)
{
    const char *path = test_path("token");
    char file[500], got[CONFIG_TOKEN_BYTES] = "untouched";
    struct error error = { 0 };

    write_file(path, text);
    snprintf(file, sizeof(file), "admin_token_file = %s\n", path);
    struct config *config = load_text(file);
    check_err(config_token(config, &error, got), code);
    check_str(got, token);
    check(code == 0 || strstr(error.text, path));
    config_free(config);
}

TEST(a_token_is_the_first_line_of_its_file)
{
    char longest[CONFIG_TOKEN_BYTES + 1];

    memset(longest, 'x', sizeof(longest));
    longest[CONFIG_TOKEN_BYTES - 1] = '\0';
    check_token_file("0123456789abcdef", 0, "0123456789abcdef");
    check_token_file("0123456789abcdef\n", 0, "0123456789abcdef");
    check_token_file("0123456789abcdef\r\nmore\n", 0, "0123456789abcdef");
    check_token_file(longest, 0, longest);
    longest[CONFIG_TOKEN_BYTES - 1] = 'x';
    longest[CONFIG_TOKEN_BYTES] = '\0';
    check_token_file(longest, -HF_INVALID, "untouched");
    check_token_file("", -HF_INVALID, "untouched");
    check_token_file("short\n", -HF_INVALID, "untouched");
    check_token_file("0123456789 abcdef\n", -HF_INVALID, "untouched");
}

TEST(a_token_may_be_set_itself_or_be_missing)
{
    char got[CONFIG_TOKEN_BYTES], file[300];
    struct error error = { 0 };

    struct config *config = load_text("admin_token = 0123456789abcdef\n");
    check_ok(config_token(config, &error, got));
    check_str(got, "0123456789abcdef");
    config_free(config);
    config = load_text("");
    check_ok(config_token(config, &error, got));
    check_str(got, "");
    config_free(config);
    snprintf(file, sizeof(file), "admin_token_file = %s\n", test_dir());
    config = load_text(file);
    check_err(config_token(config, &error, got), -HF_INVALID);
    check(strstr(error.text, "Is a directory"));
    config_free(config);
}
