/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_mail.h -- the event loop's letter box.
 *
 * Why it exists: the committer answers in its own thread, and everything that
 * belongs to a connection belongs to the loop's.  The two share nothing but
 * mail: whoever has something for the loop puts it into a mailbox, and the loop
 * wakes up, takes all there is and handles it piece by piece.
 *
 * Threads: any thread may put and close (mailbox.h); the rest is the loop's. */
#pragma once

#include "base/mailbox.h"

struct event_base;
struct loop_mail;

/* A box of `limit` letters whose bell is heard by `base`: for each letter
 * `on_mail` is called from the loop, in the order they were put, and owns it.
 * 0, -HF_NOMEM or -HF_SYSTEM. */
must_check int loop_mail_new(struct event_base *base, size_t limit,
                             void (*on_mail)(void *user, struct mail *mail), void *user,
                             struct loop_mail **ret);

/* The box to put mail into. */
struct mailbox *loop_mail_box(struct loop_mail *loop_mail);

/* Handles what is in the box now, without waiting for the loop. */
void loop_mail_drain(struct loop_mail *loop_mail);

/* Frees it; the writers are gone.  What is still in the box is handled first.
 * NULL is fine. */
void loop_mail_free(struct loop_mail *loop_mail);
