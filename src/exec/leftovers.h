/* SPDX-License-Identifier: Apache-2.0
 *
 * leftovers.h -- the records of commands that an earlier scheduler left.
 *
 * They are scanned once, before the node starts: from then on each is settled
 * (command_record.h).  Recovery asks which of them live on or have left an outcome,
 * to adopt those.  The others are deleted when it is through, unless their job is
 * still under way in the store: what became of it is somebody else's to say, and a
 * later takeover may ask for the record.
 *
 * Threads: leftovers_lives() any; all others the loop's. */
#pragma once

#include "base/log.h"
#include "node/node.h"

struct leftovers;

must_check int leftovers_scan(const char *state_dir, struct error *error,
                              struct leftovers **ret);
void leftovers_free(struct leftovers *leftovers);

/* A command that lives, or has ended and left its outcome, and nobody has yet. */
bool leftovers_lives(const struct leftovers *leftovers, int64_t job_id);

/* It has been adopted, and that is committed: it is not to be had twice. */
void leftovers_take(struct leftovers *leftovers, int64_t job_id);

/* Recovery is through: deletes the records whose jobs are over.  Once; goes on in a
 * reader's thread.  `log` may be NULL. */
void leftovers_tidy(struct leftovers *leftovers, struct node *node, struct log *log);
