/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a configuration file: taken or refused with sentences; and what was
 * taken is within its rows' ranges, and can be shown and written. */
#include <stdio.h>

#include "base/json.h"
#include "daemon/config_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_rows(const struct config *config)
{
    for (size_t i = 0; i < config_settings(); i++)
        expect(knob_check(config_setting(i), config_object(config, i), NULL) == 0,
               "a setting is out of its range");
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++) {
        const struct section_row *row = config_section_row((enum config_section)kind);
        for (size_t n = 0; n < config_section_count(config, (enum config_section)kind);
             n++)
            for (size_t i = 0; i < row->key_count; i++)
                expect(
                    knob_check(&row->keys[i],
                               config_section_item(config, (enum config_section)kind, n),
                               NULL) == 0,
                    "a key is out of its range");
    }
}

static void check_json(const struct config *config)
{
    struct buf buf;
    struct slice json;

    buf_init(&buf, (size_t)64 << 20);
    config_write_json(config, &buf);
    expect(buf_end(&buf, &json) == 0, "the JSON does not fit");
    expect(json_check(json, LIMIT_JSON_DEPTH, NULL) == 0, "the JSON is none");
    buf_release(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config_problems *problems = new(struct config_problems);
    struct config *config = NULL;

    if (config_load(&(struct config_input){ 0 }, problems, &config) < 0)
        abort();
    snprintf(config->file, sizeof(config->file), "fuzz.conf");
    config_text_read(config, (struct slice){ (const char *)data, size }, problems);
    size_t told = problems->count < CONFIG_PROBLEMS ? problems->count : CONFIG_PROBLEMS;
    for (size_t i = 0; i < told; i++)
        expect(problems->items[i].code < 0 && problems->items[i].text[0],
               "a problem without a sentence");
    if (problems->count == 0) {
        check_rows(config);
        check_json(config);
    }
    free(problems);
    config_free(config);
    return 0;
}
