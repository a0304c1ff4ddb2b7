/* SPDX-License-Identifier: Apache-2.0
 *
 * new_job_json.h -- a job as a client asks for it, read from JSON. */
#pragma once

#include "base/json.h"
#include "engine/command.h"

/* Reads one job out of a checked object into `ret`, with everything copied into the
 * arena but for payload and metadata, which are slices of `object`.  0, or a
 * refusal whose sentence names the field.  Also -HF_NOMEM. */
must_check int new_job_read(struct slice object, struct arena *arena, int64_t payload_max,
                            struct error *error, struct new_job *ret);

/* A retry policy: [60, 300, 900], or {"baseSeconds": 10, "capSeconds": 3600,
 * "jitterPercent": 10}; as the engine has it (retry.h). */
must_check int retry_policy_read(struct slice value, const char *field,
                                 struct arena *arena, struct error *error,
                                 struct slice *ret);
