/* SPDX-License-Identifier: Apache-2.0
 *
 * recovery_report.h -- what a recovery tells: lines in the log as it goes, a
 * report that is kept, and an event.  The jobs one by one are events that carry
 * the recovery's id. */
#pragma once

#include "engine/recovery/recovery.h"

/* One line per job of the chunk that was just committed, up to a limit. */
void recovery_log_items(struct engine *engine, struct recovery *recovery);

/* A row that cannot be resolved: said loudly, and passed over.  `recovery_id` is
 * 0 where none is under way. */
void recovery_log_unresolved(struct engine *engine, int64_t recovery_id, int64_t job_id,
                             int code);

/* Writes the report and the event recovery.completed, logs the summary. */
must_check int recovery_report_write(struct engine *engine, struct recovery *recovery);

/* Recovery at start is through: workers may start, throttled if need be.
 * engine.c. */
void engine_workers_may_start(struct engine *engine,
                              const struct recovery_counts *counts);
