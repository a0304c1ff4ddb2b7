/* SPDX-License-Identifier: Apache-2.0
 *
 * mailbox.h -- hands messages from many threads to one.
 *
 * Why it exists: the storage thread pays one fsync per commit, so it must
 * receive everything that arrived since the last commit in one go.  A queue
 * that gives out one message at a time would make it lock once per message
 * and guess when to commit; a mailbox is emptied whole, and the pile that was
 * in it *is* the batch.
 *
 * The doorbell is an eventfd, so the same box serves a thread that sleeps on
 * it (storage) and a thread that polls many descriptors (the event loop).
 *
 * Threads: any thread may put and close; only the reader takes and waits. */
#pragma once

#include "base.h"

/* Embed one in every message: `struct command { struct mail mail; ... }`. */
struct mail {
    struct mail *next;
};

struct mailbox;

/* Makes a box that holds at most `limit` messages.  0, -HF_NOMEM, or
 * -HF_SYSTEM when there is no descriptor left.  Free with mailbox_free(). */
must_check int mailbox_new(size_t limit, struct mailbox **ret);

/* Frees a box whose writers are gone and whose mail has been taken.
 * NULL is fine. */
void mailbox_free(struct mailbox *box);

/* Returns 0 and owns `mail` until it is taken; or returns -HF_BUSY (full) or
 * -HF_CLOSED, and `mail` stays the caller's. */
must_check int mailbox_put(struct mailbox *box, struct mail *mail);

/* Takes all mail, oldest first; the caller owns the list.  NULL if none. */
struct mail *mailbox_take_all(struct mailbox *box);

/* Sleeps until there is mail or the box is closed.  False once it is closed
 * and empty: the reader's loop is `while (mailbox_wait(box)) ...`. */
bool mailbox_wait(struct mailbox *box);

/* The same for a reader that has something else to do at a certain time. */
enum mailbox_event {
    MAILBOX_MAIL,    /* there is mail to take, closed or not */
    MAILBOX_TIMEOUT, /* the time is up, and there is none */
    MAILBOX_CLOSED   /* closed and empty: nothing will ever come */
};

/* Sleeps until there is mail, the box is closed, or `timeout_us` microseconds
 * have passed: 0 looks without sleeping, -1 waits for ever. */
enum mailbox_event mailbox_wait_until(struct mailbox *box, int64_t timeout_us);

/* Refuses new mail from now on.  Mail already put can still be taken. */
void mailbox_close(struct mailbox *box);

/* For poll(): readable exactly while there is mail or the box is closed. */
int mailbox_fd(const struct mailbox *box);
