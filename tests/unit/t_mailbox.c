/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises the storage thread leans on: mail keeps each writer's order,
 * and none is lost or slept through, whatever the threads' timing. */
/* test: wrap=calloc,eventfd */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "base/mailbox.h"
#include "test.h"

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_eventfd(unsigned n, int flags);
int __wrap_eventfd(unsigned n, int flags);

static bool out_of_memory, out_of_files;

void *__wrap_calloc(size_t n, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(n, size);
}

int __wrap_eventfd(unsigned n, int flags)
{
    if (!out_of_files)
        return __real_eventfd(n, flags);
    errno = EMFILE;
    return -1;
}

struct letter {
    struct mail mail;
    int writer, n;
};
enum { WRITERS = 4, LETTERS = 5000 };

static void free_box(struct mailbox **box)
{
    mailbox_free(*box);
}

static bool rings(struct mailbox *box)
{
    struct pollfd bell = { .fd = mailbox_fd(box), .events = POLLIN };

    return poll(&bell, 1, 0) == 1;
}

TEST(a_full_box_gives_the_mail_back)
{
    cleanup(free_box) struct mailbox *box = NULL;
    struct letter a = { .n = 1 }, b = { .n = 2 };

    check_ok(mailbox_new(1, &box));
    check_ok(mailbox_put(box, &a.mail));
    check_err(mailbox_put(box, &b.mail), -HF_BUSY);
    check(mailbox_take_all(box) == &a.mail);
    check_ok(mailbox_put(box, &b.mail)); /* b was still ours */
    check(mailbox_take_all(box) == &b.mail);
}

TEST(a_closed_box_is_drained_before_the_reader_stops)
{
    cleanup(free_box) struct mailbox *box = NULL;
    struct letter a = { .n = 1 };

    check_ok(mailbox_new(8, &box));
    check_ok(mailbox_put(box, &a.mail));
    mailbox_close(box);
    mailbox_close(box); /* twice is once */
    check_err(mailbox_put(box, &a.mail), -HF_CLOSED);
    check(mailbox_wait(box));
    check(mailbox_take_all(box) == &a.mail);
    check(!mailbox_wait(box));
    check(mailbox_take_all(box) == NULL);
    check(!mailbox_wait(box));
}

TEST(a_pile_comes_out_whole_and_oldest_first)
{
    cleanup(free_box) struct mailbox *box = NULL;
    struct letter letters[100];
    int n = 0;

    check_ok(mailbox_new(100, &box));
    for (int i = 0; i < 100; i++) {
        letters[i].n = i;
        check_ok(mailbox_put(box, &letters[i].mail));
    }
    for (struct mail *mail = mailbox_take_all(box); mail; mail = mail->next)
        check_int(((struct letter *)mail)->n, n++);
    check_int(n, 100);
    check(mailbox_take_all(box) == NULL);
}

TEST(the_bell_rings_exactly_while_there_is_mail_or_the_box_is_closed)
{
    cleanup(free_box) struct mailbox *box = NULL;
    struct letter a = { .n = 1 }, b = { .n = 2 };

    check_ok(mailbox_new(8, &box));
    check(!rings(box));
    check(mailbox_take_all(box) == NULL);
    check(!rings(box));
    check_ok(mailbox_put(box, &a.mail));
    check(rings(box));
    check_ok(mailbox_put(box, &b.mail));
    check(mailbox_take_all(box) == &a.mail);
    check(!rings(box));
    check_ok(mailbox_put(box, &a.mail));
    mailbox_close(box);
    check(rings(box));
    check(mailbox_take_all(box) == &a.mail);
    check(rings(box));
}

TEST(waiting_tells_mail_from_time_from_the_end)
{
    cleanup(free_box) struct mailbox *box = NULL;
    struct letter a = { .n = 1 };

    check_ok(mailbox_new(8, &box));
    check_int(mailbox_wait_until(box, 0), MAILBOX_TIMEOUT);
    check_ok(mailbox_put(box, &a.mail));
    check_int(mailbox_wait_until(box, 0), MAILBOX_MAIL);
    check_int(mailbox_wait_until(box, -1), MAILBOX_MAIL);
    check_int(mailbox_wait_until(box, INT64_MAX), MAILBOX_MAIL);
    mailbox_close(box);
    check_int(mailbox_wait_until(box, -1), MAILBOX_MAIL); /* drained first */
    check(mailbox_take_all(box) == &a.mail);
    check_int(mailbox_wait_until(box, 0), MAILBOX_CLOSED);
    check_int(mailbox_wait_until(box, -1), MAILBOX_CLOSED);
}

TEST(a_timeout_is_never_early)
{
    cleanup(free_box) struct mailbox *box = NULL;
    const int64_t waits_us[] = { 1, 999, 1000, 1001, 20500 };

    check_ok(mailbox_new(8, &box));
    for (size_t i = 0; i < array_len(waits_us); i++) {
        int64_t start_us = test_monotonic_us();
        check_int(mailbox_wait_until(box, waits_us[i]), MAILBOX_TIMEOUT);
        check(test_monotonic_us() - start_us >= waits_us[i]);
    }
}

static atomic_int interruptions;

static void count_interruption(int signal_number)
{
    (void)signal_number;
    interruptions++;
}

TEST(a_signal_does_not_end_a_wait)
{
    cleanup(free_box) struct mailbox *box = NULL;
    struct sigaction action = { .sa_handler = count_interruption };
    const struct itimerval often = { .it_interval = { .tv_usec = 1000 },
                                     .it_value = { .tv_usec = 1000 } };

    check_ok(mailbox_new(8, &box));
    check_int(sigaction(SIGALRM, &action, NULL), 0);
    check_int(setitimer(ITIMER_REAL, &often, NULL), 0);
    int64_t start_us = test_monotonic_us();
    check_int(mailbox_wait_until(box, 50000), MAILBOX_TIMEOUT);
    check(test_monotonic_us() - start_us >= 50000);
    check(interruptions > 0);
}

TEST(a_box_that_cannot_be_made_says_why)
{
    struct mailbox *box = NULL;

    out_of_memory = true;
    int r = mailbox_new(8, &box);
    out_of_memory = false;
    check_err(r, -HF_NOMEM);
    out_of_files = true;
    r = mailbox_new(8, &box);
    out_of_files = false;
    check_err(r, -HF_SYSTEM);
    check(box == NULL);
    mailbox_free(NULL);
}

struct writer {
    struct mailbox *box;
    int id;
    struct letter letters[LETTERS];
};

static void *write_letters(void *arg)
{
    struct writer *w = arg;

    for (int n = 0; n < LETTERS; n++) {
        w->letters[n] = (struct letter){ .writer = w->id, .n = n };
        while (mailbox_put(w->box, &w->letters[n].mail) == -HF_BUSY)
            sched_yield();
    }
    return NULL;
}

/* Writers against one reader that waits as `wait` does. */
static void write_and_read(bool (*wait)(struct mailbox *box))
{
    cleanup(free_box) struct mailbox *box = NULL;
    static struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    int next[WRITERS] = { 0 }, left = WRITERS * LETTERS;

    check_ok(mailbox_new(64, &box));
    for (int i = 0; i < WRITERS; i++) {
        writers[i].box = box;
        writers[i].id = i;
        check_int(pthread_create(&threads[i], NULL, write_letters, &writers[i]), 0);
    }
    while (left > 0 && wait(box)) {
        struct mail *m = mailbox_take_all(box);
        while (m) {
            struct letter *l = (struct letter *)m;
            m = m->next;
            check_int(l->n, next[l->writer]++);
            left--;
        }
    }
    check_int(left, 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    check_int(mailbox_wait_until(box, 0), MAILBOX_TIMEOUT);
}

TEST(each_writers_order_is_kept_and_nothing_is_lost)
{
    write_and_read(mailbox_wait);
}

static bool wait_a_little(struct mailbox *box)
{
    return mailbox_wait_until(box, 100) != MAILBOX_CLOSED;
}

TEST(a_reader_with_a_timetable_loses_nothing_either)
{
    write_and_read(wait_a_little);
}

static void *read_until_closed(void *arg)
{
    struct mailbox *box = arg;
    int64_t n = 0;

    while (mailbox_wait(box))
        for (struct mail *m = mailbox_take_all(box); m; m = m->next)
            n++;
    return (void *)(intptr_t)n;
}

TEST(closing_wakes_a_sleeping_reader)
{
    for (int round = 0; round < 200; round++) {
        cleanup(free_box) struct mailbox *box = NULL;
        struct letter a = { .n = 1 };
        pthread_t reader;
        void *n;

        check_ok(mailbox_new(8, &box));
        check_int(pthread_create(&reader, NULL, read_until_closed, box), 0);
        if (round % 2)
            check_ok(mailbox_put(box, &a.mail));
        mailbox_close(box);
        check_int(pthread_join(reader, &n), 0);
        check_int((intptr_t)n, round % 2);
    }
}
