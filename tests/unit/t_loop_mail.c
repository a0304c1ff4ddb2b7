/* SPDX-License-Identifier: Apache-2.0
 *
 * Mail from other threads reaches the loop, all of it and in order. */
#include "net/loop_mail.h"

#include <event2/event.h>
#include <pthread.h>
#include <sched.h>

#include "test.h"

enum { LETTERS = 20000 };

struct letter {
    struct mail mail;
    int n;
};

static struct letter letters[LETTERS];

struct reader {
    struct event_base *base;
    int next;
};

static void on_mail(void *user, struct mail *mail)
{
    struct reader *reader = user;

    check_int(((struct letter *)mail)->n, reader->next);
    if (++reader->next == LETTERS)
        event_base_loopbreak(reader->base);
}

static void *write_letters(void *arg)
{
    for (int n = 0; n < LETTERS; n++) {
        letters[n].n = n;
        int r;
        while ((r = mailbox_put(arg, &letters[n].mail)) == -HF_BUSY)
            sched_yield();
        check_ok(r);
    }
    return NULL;
}

TEST(letters_reach_the_loop_in_the_order_they_were_put)
{
    struct reader reader = { .base = event_base_new() };
    struct loop_mail *mail = NULL;
    pthread_t writer;

    check(reader.base);
    check_ok(loop_mail_new(reader.base, 64, on_mail, &reader, &mail));
    check_ok(pthread_create(&writer, NULL, write_letters, loop_mail_box(mail)));
    event_base_dispatch(reader.base);
    check_int(reader.next, LETTERS);
    pthread_join(writer, NULL);
    loop_mail_free(mail);
    event_base_free(reader.base);
}

TEST(a_closed_box_lets_the_loop_come_to_rest)
{
    struct reader reader = { .base = event_base_new() };
    struct loop_mail *mail = NULL;
    struct letter letter = { .n = 0 };

    check_ok(loop_mail_new(reader.base, 64, on_mail, &reader, &mail));
    check_ok(mailbox_put(loop_mail_box(mail), &letter.mail));
    mailbox_close(loop_mail_box(mail));
    event_base_dispatch(reader.base); /* would never end if the bell went on */
    check_int(reader.next, 1);
    loop_mail_free(mail);
    event_base_free(reader.base);
}

TEST(what_is_in_the_box_is_handled_before_it_is_freed)
{
    struct reader reader = { .base = event_base_new() };
    struct loop_mail *mail = NULL;
    struct letter letter = { .n = 0 };

    check_ok(loop_mail_new(reader.base, 64, on_mail, &reader, &mail));
    check_ok(mailbox_put(loop_mail_box(mail), &letter.mail));
    loop_mail_free(mail);
    check_int(reader.next, 1);
    event_base_free(reader.base);
}
