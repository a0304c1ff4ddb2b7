/* SPDX-License-Identifier: Apache-2.0
 *
 * schedules.h -- what the files of "holdfast schedules" share. */
#pragma once

#include "cli/cli.h"

/* The schedule that a person means, by its id or its name: in the project of --project
 * or, without it, in whichever has one.  `what` it is called in sentences.  `answer` is the
 * caller's, initialised here; *ret is the schedule in it.  -HF_NOT_FOUND with its
 * sentence. */
must_check int schedule_find(struct cli *cli, const char *what, const char *text,
                             struct buf *answer, struct slice *ret);

/* When it fires, in one line: "0 3 * * *", "every 5m", "by hand". */
const char *schedule_when_text(struct cli *cli, struct slice schedule);

/* All that an endpoint shows as well, but for its id. */
void schedule_print_shared(struct cli *cli, struct slice schedule);
/* "NAME is paused until ...", "NAME goes on". */
int schedule_print_paused(struct cli *cli, struct slice schedule);
/* What a pause says: --reason and --until. */
must_check int schedule_write_pause(struct cli *cli, struct buf *body, struct slice *ret);
/* "Schedule nightly (1003): 0 3 * * *, next at ..." */
void schedule_print_made(struct cli *cli, const char *what, struct slice schedule);

int schedule_add(struct cli *cli);
int schedule_set(struct cli *cli);
int schedule_import(struct cli *cli);
