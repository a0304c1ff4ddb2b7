/* SPDX-License-Identifier: Apache-2.0
 *
 * mailbox.c -- a list under a lock, and a bell. */
#include "mailbox.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"

struct mailbox {
    pthread_mutex_t lock; /* guards everything below but `limit` and `bell` */
    struct mail *head;    /* oldest; NULL when empty */
    struct mail **tail;   /* where the next mail is hung */
    size_t count;
    bool closed;
    size_t limit;
    int bell; /* rung <=> head || closed; only moved under lock */
};

/* With the lock held. */
static void mailbox_check(const struct mailbox *box)
{
    assert((box->head == NULL) == (box->count == 0));
    assert((box->head == NULL) == (box->tail == &box->head));
    assert(box->count <= box->limit);
}

int mailbox_new(size_t limit, struct mailbox **ret)
{
    assert(limit > 0);
    assert(ret);

    struct mailbox *box = new (struct mailbox);
    if (!box)
        return -HF_NOMEM;
    box->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->bell < 0) {
        free(box);
        return -HF_SYSTEM; /* errno says why; the caller logs */
    }
    pthread_mutex_init(&box->lock, NULL); /* cannot fail without attributes */
    box->tail = &box->head;
    box->limit = limit;
    *ret = box;
    return 0;
}

void mailbox_free(struct mailbox *box)
{
    if (!box)
        return;
    assert(box->count == 0); /* else a request would never be answered */
    close(box->bell);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

static void ring(struct mailbox *box)
{
    int r = eventfd_write(box->bell, 1);

    assert(r == 0); /* the counter is 0 or 1: it cannot overflow */
}

int mailbox_put(struct mailbox *box, struct mail *mail)
{
    int r = 0;

    assert(mail);
    pthread_mutex_lock(&box->lock);
    mailbox_check(box);
    if (box->closed) {
        r = -HF_CLOSED;
    } else if (box->count == box->limit) {
        r = -HF_BUSY;
    } else {
        mail->next = NULL;
        *box->tail = mail;
        box->tail = &mail->next;
        /* Ring only for the first mail: a burst costs one system call. */
        if (box->count++ == 0)
            ring(box);
    }
    pthread_mutex_unlock(&box->lock);
    return r;
}

struct mail *mailbox_take_all(struct mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    mailbox_check(box);
    struct mail *all = box->head;
    box->head = NULL;
    box->tail = &box->head;
    box->count = 0;
    /* A closed box keeps ringing, so that no reader can sleep through it. */
    if (all && !box->closed)
        eventfd_read(box->bell, &(eventfd_t){ 0 });
    pthread_mutex_unlock(&box->lock);
    return all;
}

static enum mailbox_event look(struct mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    mailbox_check(box);
    enum mailbox_event event = box->head     ? MAILBOX_MAIL
                               : box->closed ? MAILBOX_CLOSED
                                             : MAILBOX_TIMEOUT;
    pthread_mutex_unlock(&box->lock);
    return event;
}

/* poll() counts milliseconds in an int: rounded up, so as not to spin through
 * the last one, and cut, since the caller looks again anyway. */
static int poll_ms(int64_t left_us)
{
    const int64_t longest_ms = 3600 * 1000;
    int64_t ms = left_us / US_PER_MS + (left_us % US_PER_MS > 0);

    assert(left_us >= 0);
    return (int)(ms < longest_ms ? ms : longest_ms);
}

enum mailbox_event mailbox_wait_until(struct mailbox *box, int64_t timeout_us)
{
    struct pollfd bell = { .fd = box->bell, .events = POLLIN };

    assert(timeout_us >= -1);
    /* Who is busy finds mail at every turn, and need not ask the kernel. */
    enum mailbox_event event = look(box);
    if (event != MAILBOX_TIMEOUT)
        return event;
    /* A sleep is real, whatever clock the reader's rules go by. */
    int64_t start_us = clock_mono_us(&clock_system);
    for (;;) {
        int64_t left_us = timeout_us - (clock_mono_us(&clock_system) - start_us);
        if (left_us < 0)
            left_us = 0;
        int r = poll(&bell, 1, timeout_us < 0 ? -1 : poll_ms(left_us));
        assert(r >= 0 || errno == EINTR || errno == ENOMEM); /* then we try again */
        event = look(box);
        if (event != MAILBOX_TIMEOUT || (timeout_us >= 0 && left_us == 0))
            return event;
    }
}

bool mailbox_wait(struct mailbox *box)
{
    return mailbox_wait_until(box, -1) == MAILBOX_MAIL;
}

void mailbox_close(struct mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    mailbox_check(box);
    if (!box->closed && !box->head)
        ring(box);
    box->closed = true;
    pthread_mutex_unlock(&box->lock);
}

int mailbox_fd(const struct mailbox *box)
{
    assert(box->bell >= 0);
    return box->bell;
}
