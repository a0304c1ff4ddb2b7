/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h -- how a run ended, written down until it is on disk.
 *
 * An executor's outcome lives until its callback returns; a report is a copy that
 * lasts, and that a command can be made of as often as it takes. */
#pragma once

#include "engine/command.h"
#include "exec/command_outcome.h"
#include "exec/http_job.h"

struct report;

/* NULL if there is no memory. */
struct report *report_new_http(const struct http_job_outcome *outcome);
struct report *report_new_command(const struct command_outcome *outcome);
/* A failure of a type with one sentence. */
struct report *report_new_plain(int error_type, const char *message);
void report_free(struct report *report);

/* OP_COMPLETE or OP_FAIL; NULL if there is no memory. */
struct command *report_command(const struct report *report, int64_t job_id,
                               int64_t owner_id);

/* What a command printed, as it is kept with its run:
 * {"stdout": {"total": 12, "head": "...", "tail": "...", "complete": true}, "stderr": ...}.
 * Bytes that are no UTF-8 are shown as U+FFFD. */
must_check int report_output(const struct command_output *out,
                             const struct command_output *err, struct arena *arena,
                             struct slice *ret);
