/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made from the table is true: the sample read back gives the defaults, also
 * with every comment sign taken away; the JSON is JSON. */
#include "base/json.h"
#include "configs.h"

static char *written(void (*write)(struct buf *buf))
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    write(&buf);
    return text_of(&buf);
}

/* Takes the # away from lines that set something: "#name = value", "#[section]". */
static void uncomment(char *text)
{
    char *to = text;
    bool first = true;

    for (const char *from = text; *from; from++) {
        bool sets = first && *from == '#' &&
                    ((from[1] >= 'a' && from[1] <= 'z') || from[1] == '[');
        first = *from == '\n';
        if (!sets)
            *to++ = *from;
    }
    *to = '\0';
}

static void check_defaults(const struct config *config)
{
    struct config *plain = load_good(&(struct given){ 0 });

    for (size_t i = 0; i < config_settings(); i++)
        if (!knob_equal(config_setting(i), config_object(config, i),
                        config_object(plain, i)))
            fail("%s is not its default", config_setting(i)->name);
    config_free(plain);
}

TEST(the_sample_as_it_stands_sets_nothing)
{
    char *sample = written(config_write_sample);
    struct config *config = load_text(sample);

    check_defaults(config);
    for (size_t i = 0; i < config_settings(); i++)
        check_int(config->sources[i].from, FROM_DEFAULT);
    check_int(config->queue_count + config->command_count, 0);
    config_free(config);
    free(sample);
}

TEST(the_sample_without_comment_signs_sets_every_default)
{
    char *sample = written(config_write_sample);

    uncomment(sample);
    struct config *config = load_text(sample);
    check_defaults(config);
    for (size_t i = 0; i < config_settings(); i++)
        check_int(config->sources[i].from, FROM_FILE);
    check_int(config->queue_count, 3);
    check_str(config->queues[0].name, "scrape");
    check_int(config->queues[0].stale_after_us, 300 * US_PER_S);
    check_str(config->queues[1].name, "extract");
    check_int(config->queues[1].stale_after_us, 900 * US_PER_S);
    check_str(config->queues[2].name, "crawl");
    check_int(config->queues[2].stale_after_us, 1800 * US_PER_S);
    check_int(config->command_count, 1);
    config_free(config);
    free(sample);
}

TEST(the_sample_fits_into_90_columns_and_names_every_key)
{
    char *sample = written(config_write_sample);

    for (const char *line = sample; *line; line += strcspn(line, "\n") + 1)
        check(strcspn(line, "\n") <= 90);
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++) {
        const struct section_row *row = config_section_row((enum config_section)kind);
        for (size_t i = 0; i < row->key_count; i++)
            check(strstr(sample, row->keys[i].name));
    }
    free(sample);
}

TEST(the_manual_has_a_row_for_every_setting)
{
    char *manual = written(config_write_manual), cell[80];

    for (size_t i = 0; i < config_settings(); i++) {
        snprintf(cell, sizeof(cell), "\n| `%s` |", config_setting(i)->name);
        check(strstr(manual, cell));
    }
    free(manual);
}

static char *json_of(const char *file)
{
    struct config *config = load_text(file);
    struct buf buf;

    buf_init(&buf, 1 << 20);
    config_write_json(config, &buf);
    char *json = text_of(&buf);
    check_ok(json_check(slice_of(json), LIMIT_JSON_DEPTH, NULL));
    config_free(config);
    return json;
}

TEST(the_json_tells_values_by_their_type)
{
    char *json = json_of("slots = 7\ninsecure = true\nstartup_stagger_seconds = 0.5\n"
                         "node = \"a\"\n[queue crawl]\nslots = 6\n"
                         "[command crawl]\nargv = /bin/crawl \"a b\"\n");

    check(strstr(json, "{\"name\":\"slots\",\"value\":7,\"source\":\""));
    check(strstr(json, "\"value\":true"));
    check(strstr(json, "\"value\":0.5"));
    check(strstr(json, "\"value\":\"0600\""));
    check(strstr(json, "{\"name\":\"tls_key\",\"value\":null,\"source\":\"default\""));
    check(strstr(json, "\"queues\":[{\"name\":\"crawl\",\"line\":5,\"slots\":6}]"));
    check(strstr(json, "\"argv\":\"/bin/crawl \\\"a b\\\"\""));
    free(json);
}

TEST(the_json_tells_no_secrets)
{
    char *json = json_of("admin_token = 0123456789abcdef\n"
                         "db = postgres://me:hush@host/jobs\n");

    check(strstr(json, "{\"name\":\"admin_token\",\"value\":\"(set)\""));
    check(!strstr(json, "0123456789abcdef"));
    check(!strstr(json, "hush"));
    free(json);
}
