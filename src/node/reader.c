/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c -- takes looks from its mailbox, one after another. */
#include "node/reader.h"

#include <pthread.h>
#include <signal.h>

/* Beyond this the client is told to come again: a queue would only grow. */
enum { LOOKS_MAX = 10000 };

struct reader_thread {
    struct store *store;
    struct mailbox *box;
    void (*answered)(struct look *look);
    pthread_t thread;
    bool started;
};

static int ask(struct store *store, void *arg)
{
    struct look *look = arg;
    look->error = (struct error){ 0 };
    return look->ask(store, look);
}

static void *reader_main(void *arg)
{
    struct reader_thread *reader = arg;

    while (mailbox_wait(reader->box)) {
        struct mail *list = mailbox_take_all(reader->box);
        while (list) {
            struct look *look = (struct look *)list;
            list = list->next;
            look->result = store_look(reader->store, ask, look, &look->error);
            reader->answered(look);
        }
    }
    return NULL;
}

/* Signals are the loop's. */
static int start_thread(struct reader_thread *reader)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&reader->thread, NULL, reader_main, reader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    reader->started = r == 0;
    return r == 0 ? 0 : -HF_SYSTEM;
}

int reader_new(const char *url, void (*answered)(struct look *look), struct error *error,
               struct reader_thread **ret)
{
    struct reader_thread *reader = new (struct reader_thread);
    if (!reader)
        return -HF_NOMEM;
    reader->answered = answered;
    int r = mailbox_new(LOOKS_MAX, &reader->box);
    if (r == 0)
        r = store_open(&(struct store_options){ .url = url, .role = STORE_READER }, error,
                       &reader->store);
    if (r == 0)
        r = start_thread(reader);
    if (r < 0) {
        reader_free(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

void reader_free(struct reader_thread *reader)
{
    if (!reader)
        return;
    if (reader->started) {
        mailbox_close(reader->box);
        pthread_join(reader->thread, NULL);
    }
    mailbox_free(reader->box);
    store_close(reader->store);
    free(reader);
}

int reader_ask(struct reader_thread *reader, struct look *look)
{
    return mailbox_put(reader->box, &look->letter.mail);
}
