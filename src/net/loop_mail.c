/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_mail.c -- a mailbox whose bell is an event of the loop. */
#include "loop_mail.h"

#include <event2/event.h>

struct loop_mail {
    struct mailbox *box;
    struct event *bell;
    void (*on_mail)(void *user, struct mail *mail);
    void *user;
};

void loop_mail_drain(struct loop_mail *loop_mail)
{
    struct mail *mail = mailbox_take_all(loop_mail->box);

    while (mail) {
        struct mail *next = mail->next; /* the letter may be gone when it is handled */
        loop_mail->on_mail(loop_mail->user, mail);
        mail = next;
    }
}

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    struct loop_mail *loop_mail = arg;

    (void)fd, (void)what;
    loop_mail_drain(loop_mail);
    /* A closed box rings for ever, and nothing will come. */
    if (mailbox_wait_until(loop_mail->box, 0) == MAILBOX_CLOSED)
        event_del(loop_mail->bell);
}

int loop_mail_new(struct event_base *base, size_t limit,
                  void (*on_mail)(void *user, struct mail *mail), void *user,
                  struct loop_mail **ret)
{
    assert(base && on_mail && ret);

    struct loop_mail *loop_mail = new (struct loop_mail);
    if (!loop_mail)
        return -HF_NOMEM;
    loop_mail->on_mail = on_mail;
    loop_mail->user = user;
    int r = mailbox_new(limit, &loop_mail->box);
    if (r < 0) {
        loop_mail_free(loop_mail);
        return r;
    }
    loop_mail->bell = event_new(base, mailbox_fd(loop_mail->box), EV_READ | EV_PERSIST,
                                on_bell, loop_mail);
    if (!loop_mail->bell || event_add(loop_mail->bell, NULL) < 0) {
        loop_mail_free(loop_mail);
        return -HF_NOMEM;
    }
    *ret = loop_mail;
    return 0;
}

struct mailbox *loop_mail_box(struct loop_mail *loop_mail)
{
    return loop_mail->box;
}

void loop_mail_free(struct loop_mail *loop_mail)
{
    if (!loop_mail)
        return;
    if (loop_mail->bell)
        event_free(loop_mail->bell);
    if (loop_mail->box)
        loop_mail_drain(loop_mail);
    mailbox_free(loop_mail->box);
    free(loop_mail);
}
