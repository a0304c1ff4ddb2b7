/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reload changes, what it leaves, and what it says about both. */
#include "configs.h"

struct told {
    size_t count, effective;
    char names[100][64];
    char sentences[100][300];
};

static void note(void *arg, const char *name, bool effective, const char *sentence)
{
    struct told *told = arg;

    check(told->count < array_len(told->names));
    snprintf(told->names[told->count], 64, "%s", name);
    snprintf(told->sentences[told->count], 300, "%s", sentence);
    told->count++;
    told->effective += effective ? 1 : 0;
}

/* What is told when `before` runs and `after` is read; the configuration then. */
static struct config *reload(const char *before, const char *after, struct told *told)
{
    struct config *running = load_text(before);

    *told = (struct told){ 0 };
    config_reload(running, load_text(after), note, told);
    return running;
}

/* Exactly this sentence, in which % is the file. */
static void check_told(const char *before, const char *after, bool effective,
                       const char *sentence)
{
    struct told told;
    char want[400] = "", got[300];
    const char *path = test_path("holdfast.conf"), *at = strchr(sentence, '%');

    config_free(reload(before, after, &told));
    check_int(told.count, 1);
    check_int(told.effective, effective);
    if (at)
        snprintf(want, sizeof(want), "%.*s%s%s", (int)(at - sentence), sentence, path,
                 at + 1);
    snprintf(got, sizeof(got), "%s", told.sentences[0]);
    check_str(got, at ? want : sentence);
}

TEST(nothing_changed_is_nothing_told_but_lines_may_move)
{
    struct told told;
    struct config *config = reload("slots = 5\n[queue a]\nslots = 1\n",
                                   "\nslots = 5\n[queue a]\nslots = 1\n", &told);
    char where[300];

    check_int(told.count, 0);
    snprintf(where, sizeof(where), "%s:2", test_path("holdfast.conf"));
    check_setting(config, "slots", "5", where);
    check_int(config->queue_sources[0].line, 3);
    config_free(config);
}

TEST(what_may_change_changes_and_says_so)
{
    struct told told;

    check_told("", "log_level = debug\n", true,
               "log_level is now debug (%:1), before info.");
    check_told("max_body_bytes = 4096\n", "", true,
               "max_body_bytes is now 2097152 (default), before 4096.");
    struct config *config = reload("", "log_level = debug\n", &told);
    check_int(config->server.log_level, LEVEL_DEBUG);
    config_free(config);
}

TEST(what_needs_a_restart_stays_and_says_so)
{
    struct told told;

    check_told("", "listen = 127.0.0.1:1\n", false,
               "listen is to be 127.0.0.1:1 (%:1), is still 127.0.0.1:7420, and needs a "
               "restart.");
    struct config *config = reload("", "listen = 127.0.0.1:1\n", &told);
    check_setting(config, "listen", "127.0.0.1:7420", "default");
    config_free(config);
}

TEST(a_secret_is_not_told)
{
    check_told("admin_token = 0123456789abcdef\n", "admin_token = fedcba9876543210\n",
               false, "admin_token has changed (%:1), and needs a restart.");
    check_told("db = postgres://me:hush@h/x\nstate_dir = s\n",
               "db = postgres://me:hash@h/x\nstate_dir = s\n", false,
               "db is to be postgres://me:***@h/x (%:1), is still postgres://me:***@h/x, "
               "and needs a restart.");
}

/* A value other than the default, where one can be made without knowing the setting. */
static bool other_value(const struct knob *knob, char *out, size_t size)
{
    int64_t value = knob->initial != knob->most ? knob->most : knob->least;

    if (knob->type == KNOB_TEXT)
        return false;
    if (knob->type == KNOB_FLAG)
        snprintf(out, size, "%s", value ? "true" : "false");
    else if (knob->type == KNOB_WORD)
        snprintf(out, size, "%s", knob->words[value]);
    else
        snprintf(out, size, knob->type == KNOB_OCTAL ? "%llo" : "%lld",
                 (long long)(value / knob->unit));
    return true;
}

TEST(every_setting_keeps_to_its_column)
{
    for (size_t i = 0; i < config_settings(); i++) {
        const struct knob *knob = config_setting(i);
        char value[64], file[200];
        struct told told;
        if (!other_value(knob, value, sizeof(value)))
            continue;
        snprintf(file, sizeof(file), "%s = %s\n", knob->name, value);
        struct config *config = reload("", file, &told), *fresh = load_text(file);
        check_int(told.count, 1);
        check_str(told.names[0], knob->name);
        check_int(told.effective, (knob->is & KNOB_RELOAD) != 0);
        check_int(knob_equal(knob, config_object(config, i), config_object(fresh, i)),
                  told.effective);
        config_free(config);
        config_free(fresh);
    }
}

TEST(sections_come_change_and_go)
{
    struct told told;

    check_told("", "[queue a]\nslots = 1\n", true, "[queue a] is new.");
    check_told("[queue a]\nslots = 1\n", "[queue a]\nslots = 2\n", true,
               "[queue a] slots is now 2, before 1.");
    check_told("[queue a]\nslots = 1\n", "[queue a]\n", true,
               "[queue a] slots is now not set, before 1.");
    check_told("[queue a]\nslots = 1\n", "", true,
               "[queue a] is gone; its settings stay as they are, and may be changed by "
               "the API.");
    check_told("[command a]\nargv = /a\n", "", true,
               "[command a] is gone; jobs of this kind now wait for a remote worker.");
    struct config *config =
        reload("[queue a]\nslots = 1\n[queue b]\nslots = 2\n",
               "[queue b]\nslots = 3\n[queue c]\n[command d]\nargv = /d\n", &told);
    check_int(told.count, 4);
    check_int(told.effective, 4);
    check_int(config->queue_count, 2);
    check_str(config->queues[0].name, "b");
    check_int(config->queues[0].slots, 3);
    check_int(config->command_count, 1);
    config_free(config);
}
