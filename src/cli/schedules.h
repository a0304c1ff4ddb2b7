/* SPDX-License-Identifier: Apache-2.0
 *
 * schedules.h -- what the files of "holdfast schedules" share. */
#pragma once

#include "cli/cli.h"

/* The schedule that a person means, by its id or its name: in the project of --project
 * or, without it, in whichever has one.  `answer` is the caller's, initialised here; *ret
 * is the schedule in it.  -HF_NOT_FOUND with its sentence. */
must_check int schedule_find(struct cli *cli, const char *text, struct buf *answer,
                             struct slice *ret);

/* When it fires, in one line: "0 3 * * *", "every 5m", "by hand". */
const char *schedule_when_text(struct cli *cli, struct slice schedule);

int schedule_print(struct cli *cli, struct slice schedule);

/* --every as the API's everyMs; nothing if it was not given. */
must_check int schedule_put_every(struct cli *cli, struct json_writer *w);

int schedule_add(struct cli *cli);
int schedule_set(struct cli *cli);
int schedule_import(struct cli *cli);
