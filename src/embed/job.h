/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h -- a job as the public API asks for it, in the engine's words.
 *
 * Shared by the ways to enqueue, with a handle and without. */
#pragma once

#include "engine/command.h"

/* Borrows the texts. */
void job_of_request(const struct hf_new_job *in, struct new_job *out);

/* Everything that can be said about it without the store. */
must_check int job_request_check(const struct hf_new_job *in, size_t max_payload_bytes,
                                 struct error *why);
