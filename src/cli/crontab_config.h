/* SPDX-License-Identifier: Apache-2.0
 *
 * crontab_config.h -- the commands of a crontab, as sections of the server's
 * configuration.
 *
 * What cron gives a command is given here too: its shell, its user, the user's home where
 * that is known, and the variables that stand above its line. */
#pragma once

#include "base/buf.h"
#include "cli/crontab.h"

enum { CRONTAB_VARIABLES = 100 };

struct crontab_variables {
    struct {
        struct slice name, value;
    } list[CRONTAB_VARIABLES];
    size_t count;
};

/* Keeps it for the lines below; a later one takes the place of an earlier one.  The
 * slices are borrowed.  False: there are too many. */
must_check bool crontab_set(struct crontab_variables *variables, struct slice name,
                            struct slice value);
/* Its value, or what is given where it is not set. */
struct slice crontab_variable(const struct crontab_variables *variables, const char *name,
                              const char *otherwise);

/* The beginning of the text, and one section each. */
void crontab_config_begin(struct buf *config);
void crontab_config_add(struct buf *config, int64_t line_number, const char *kind,
                        const struct crontab_line *entry,
                        const struct crontab_variables *variables);

/* Whether the file may be written: there is none, or one that was made like this. */
must_check int crontab_config_check(const char *path, struct error *error);
must_check int crontab_config_write(struct slice config, const char *path,
                                    struct error *error);
