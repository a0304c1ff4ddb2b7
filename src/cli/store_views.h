/* SPDX-License-Identifier: Apache-2.0
 *
 * store_views.h -- what the library hands out, in the words of the HTTP API.
 *
 * Names and meanings are those of src/api/views.h; a test shows the same job through
 * both doors and compares. */
#pragma once

#include "base/json_write.h"

/* The members of a job, inside an object that the caller has begun. */
void put_job_members(struct json_writer *w, const struct hf_job *job);
void put_job(struct json_writer *w, const struct hf_job *job);
void put_event(struct json_writer *w, const struct hf_event *event);
void put_queue(struct json_writer *w, const struct hf_queue *queue);
void put_recovery(struct json_writer *w, const struct hf_recovery *recovery);
void put_reservation(struct json_writer *w, const char *queue, const char *holder,
                     const struct hf_reservation *reservation);
