/* SPDX-License-Identifier: Apache-2.0
 *
 * crontab.h -- a line of a crontab, as cron reads it.
 *
 *   # a comment
 *   MAILTO = "somebody"                        a variable, for the lines below it
 *   15 3 * * 1-5  /usr/bin/backup --all        five fields, then the command
 *   @daily        /usr/bin/backup --all
 *   15 3 * * 1-5  root  /usr/bin/backup        with a user, as /etc/crontab has it
 *
 * The command goes to a shell as it stands, but for %: in cron that ends the command,
 * and what follows is its standard input.  Nothing here knows what a field means; that
 * is base/cron.h's business.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base/arena.h"
#include "base/status.h"

enum crontab_type { CRONTAB_BLANK, CRONTAB_COMMENT, CRONTAB_VARIABLE, CRONTAB_ENTRY };

struct crontab_line {
    enum crontab_type type;
    struct slice name, value; /* of a variable, without quotes */
    struct slice when;        /* the fields with one blank between, or @word */
    struct slice user;        /* absent: the lines have none */
    struct slice command;     /* with % where \% was */
};

/* One line without its end; slices are of the line or of the arena.  -HF_INVALID with a
 * sentence that says what is wrong with it and what would be right; -HF_NOMEM. */
must_check int crontab_read(struct slice line, bool has_user, struct arena *arena,
                            struct error *error, struct crontab_line *ret);
