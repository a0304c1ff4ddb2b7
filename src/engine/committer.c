/* SPDX-License-Identifier: Apache-2.0
 *
 * committer.c -- a thread around the engine. */
#include "engine/committer.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/limits.h"

/* How many others each thread wakes that the committer has woken. */
enum { FOLLOWERS = 3 };

/* Who waits for an answer; lives on the waiting thread's stack. */
struct waiter {
    struct committer *committer;
    sem_t answered;
    struct waiter *next[FOLLOWERS]; /* whom it wakes when it is woken */
};

struct committer {
    struct engine *engine;
    struct mailbox *box;
    size_t limit;
    atomic_size_t waiting;       /* commands submitted and not yet answered */
    atomic_size_t waiting_bytes; /* what their arenas hold */
    void (*turn)(void *arg, const struct engine *engine);
    void *arg;
    pthread_t thread;
    struct waiter *answered[LIMIT_PILE_COMMANDS]; /* and to be woken; the thread's own */
    size_t answered_count;
    size_t expected; /* who were answered last, and may have more to ask */
};

/* A message for the committer itself.  It travels as a command with an op that
 * no engine knows, so that one mailbox keeps the order of both. */
enum { OP_CALL = OPS };
struct call {
    struct command command; /* first */
    void (*fn)(struct engine *engine, void *arg);
    void *arg;
};

/* A commit is slow if it takes so long for each whom it answers: a few times what it
 * costs to wake one. */
enum { SLOW_US = 8 };

/* How long those who were answered are waited for: a part of what the last commit took,
 * and no longer than anybody notices. */
enum { PATIENCE_SHARE = 16 };
#define PATIENCE_US US_PER_MS

/* The longest sleep: after it, the engine is asked again whatever it said. */
#define LONGEST_SLEEP_US (60 * US_PER_S)

/* ---- the thread ---- */

static struct command *next_of(const struct command *command)
{
    return (struct command *)command->mail.next;
}

/* Cuts a pile from the front of `*list`: up to the limit, and up to a call. */
static struct command *cut_pile(struct command **list, size_t *ret_count,
                                size_t *ret_bytes)
{
    struct command *first = *list, *last = NULL;
    size_t count = 0, bytes = 0;

    for (struct command *c = first;
         c && (int)c->op != OP_CALL && count < LIMIT_PILE_COMMANDS; c = next_of(c)) {
        last = c;
        count++;
        bytes += c->arena.taken;
    }
    assert(last);
    *list = next_of(last);
    last->mail.next = NULL;
    *ret_count = count;
    *ret_bytes = bytes;
    return first;
}

/* Wakes all whose commands are answered.  To wake a thread costs about a tenth of
 * what its job costs to write; so the committer wakes some, and these the others, on
 * processors that have nothing better to do.  Where a commit is slow it is the disk
 * that everybody waits for: then the committer has the time, and nobody should be
 * late for the next one because of another who was. */
static void wake_answered(struct committer *committer)
{
    size_t count = committer->answered_count;
    bool slow = committer->engine->commit_us > SLOW_US * (int64_t)count;
    size_t leaders = slow ? count : (count + FOLLOWERS) / (FOLLOWERS + 1);

    committer->answered_count = 0;
    committer->expected = count;
    for (size_t i = leaders; i < count; i++)
        committer->answered[(i - leaders) / FOLLOWERS]->next[(i - leaders) % FOLLOWERS] =
            committer->answered[i];
    /* Whoever is woken is gone, and may be woken by those before. */
    for (size_t i = 0; i < leaders; i++)
        sem_post(&committer->answered[i]->answered);
}

static void run_call(struct committer *committer, struct command *command)
{
    struct call *call = (struct call *)command;
    call->fn(committer->engine, call->arg);
    command->done(command, command->done_arg); /* `call` is gone from here on */
}

/* Whoever was just answered is on the way with the next command, and should not miss
 * the commit that is about to begin: the next one is a flush away.  They are given a
 * small part of what that would cost them; who is alone waits for nobody. */
static void let_come_back(struct committer *committer)
{
    int64_t patience = committer->engine->commit_us / PATIENCE_SHARE;
    int64_t until =
        clock_mono_us(&clock_system) + (patience < PATIENCE_US ? patience : PATIENCE_US);

    while (atomic_load(&committer->waiting) < committer->expected) {
        sched_yield();
        if (clock_mono_us(&clock_system) >= until)
            break;
    }
}

static void take_mail(struct committer *committer)
{
    struct command *list = (struct command *)mailbox_take_all(committer->box);

    while (list) {
        size_t count = 1, bytes = 0;
        struct command *pile = list;
        if ((int)list->op == OP_CALL) {
            list = next_of(list);
            run_call(committer, pile);
        } else {
            pile = cut_pile(&list, &count, &bytes);
            engine_apply(committer->engine, pile); /* answers, and with that frees */
        }
        wake_answered(committer);
        assert(atomic_load(&committer->waiting) >= count);
        atomic_fetch_sub(&committer->waiting, count);
        atomic_fetch_sub(&committer->waiting_bytes, bytes);
    }
}

static int64_t sleep_us(struct committer *committer, int64_t due)
{
    int64_t now = engine_now(committer->engine);
    if (due <= now)
        return 0;
    return due - now < LONGEST_SLEEP_US ? due - now : LONGEST_SLEEP_US;
}

static void *committer_main(void *arg)
{
    struct committer *committer = arg;
    int64_t due = 0;

    for (;;) {
        enum mailbox_event event =
            mailbox_wait_until(committer->box, sleep_us(committer, due));
        if (event == MAILBOX_CLOSED)
            break;
        if (event == MAILBOX_MAIL) {
            let_come_back(committer);
            take_mail(committer);
        }
        /* After mail too: a command may have moved the next duty forward. */
        due = engine_tick(committer->engine);
        if (committer->turn)
            committer->turn(committer->arg, committer->engine);
    }
    return NULL;
}

/* Signals belong to the threads of the embedding program. */
static int start_thread(struct committer *committer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&committer->thread, NULL, committer_main, committer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r == 0 ? 0 : -HF_SYSTEM;
}

int committer_new(struct engine *engine, size_t limit,
                  void (*turn)(void *arg, const struct engine *engine), void *arg,
                  struct committer **ret)
{
    assert(limit > 0 && limit <= LIMIT_COMMANDS);

    struct committer *committer = new (struct committer);
    if (!committer)
        return -HF_NOMEM;
    committer->engine = engine;
    committer->limit = limit;
    committer->turn = turn;
    committer->arg = arg;
    /* Reports are not counted against the limit, so the box has room for them. */
    int r = mailbox_new((size_t)2 * LIMIT_COMMANDS, &committer->box);
    if (r == 0)
        r = start_thread(committer);
    if (r < 0) {
        mailbox_free(committer->box);
        free(committer);
        return r;
    }
    *ret = committer;
    return 0;
}

void committer_free(struct committer *committer)
{
    if (!committer)
        return;
    assert(!committer_is_self(committer));
    mailbox_close(committer->box);
    pthread_join(committer->thread, NULL);
    assert(atomic_load(&committer->waiting) == 0); /* everybody was answered */
    mailbox_free(committer->box);
    free(committer);
}

/* ---- everybody else ---- */

bool committer_is_self(const struct committer *committer)
{
    return pthread_equal(pthread_self(), committer->thread) != 0;
}

static int put(struct committer *committer, struct command *command, bool bounded)
{
    size_t bytes = command->arena.taken;
    size_t count = atomic_fetch_add(&committer->waiting, 1);
    size_t before = atomic_fetch_add(&committer->waiting_bytes, bytes);
    int r = 0;

    /* One command is let in whatever its size: its own limits hold. */
    if (bounded && (count >= committer->limit ||
                    (before > 0 && before + bytes > LIMIT_COMMANDS_BYTES)))
        r = -HF_BUSY;
    else
        r = mailbox_put(committer->box, &command->mail);
    if (r < 0) {
        atomic_fetch_sub(&committer->waiting, 1);
        atomic_fetch_sub(&committer->waiting_bytes, bytes);
    }
    return r;
}

int committer_submit(struct committer *committer, struct command *command)
{
    return put(committer, command, true);
}

int committer_report(struct committer *committer, struct command *command)
{
    return put(committer, command, false);
}

/* In the committer's thread. */
static void note_answer(struct command *command, void *arg)
{
    struct waiter *waiter = arg;
    struct committer *committer = waiter->committer;

    (void)command;
    assert(committer->answered_count < LIMIT_PILE_COMMANDS);
    committer->answered[committer->answered_count++] = waiter;
}

static int put_and_wait(struct committer *committer, struct command *command,
                        bool bounded)
{
    struct waiter waiter = { .committer = committer };

    if (committer_is_self(committer))
        return -HF_INVALID;
    sem_init(&waiter.answered, 0, 0); /* cannot fail for 0 */
    command->done = note_answer;
    /* cppcheck-suppress autoVariables; it is answered before this returns */
    command->done_arg = &waiter;
    int r = put(committer, command, bounded);
    while (r == 0 && sem_wait(&waiter.answered) != 0)
        continue; /* a signal of the embedding program */
    sem_destroy(&waiter.answered);
    for (size_t i = 0; r == 0 && i < array_len(waiter.next); i++)
        if (waiter.next[i])
            sem_post(&waiter.next[i]->answered);
    return r < 0 ? r : command->result;
}

int committer_apply(struct committer *committer, struct command *command)
{
    return put_and_wait(committer, command, true);
}

int committer_apply_report(struct committer *committer, struct command *command)
{
    return put_and_wait(committer, command, false);
}

int committer_call(struct committer *committer,
                   void (*fn)(struct engine *engine, void *arg), void *arg)
{
    struct call call = { .command = { .op = (enum op)OP_CALL }, .fn = fn, .arg = arg };
    return put_and_wait(committer, &call.command, false);
}

static void free_call(struct command *command, void *arg)
{
    (void)arg;
    free(command); /* the call it begins */
}

int committer_send(struct committer *committer,
                   void (*fn)(struct engine *engine, void *arg), void *arg)
{
    struct call *call = new (struct call);
    if (!call)
        return -HF_NOMEM;
    *call = (struct call){ .command = { .op = (enum op)OP_CALL, .done = free_call },
                           .fn = fn,
                           .arg = arg };
    int r = put(committer, &call->command, false);
    if (r < 0)
        free(call);
    return r;
}
