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
    /* the thread's own: */
    struct mail *inbox; /* taken from the box, and to be applied next */
    size_t pile_count;  /* commands in the pile under way, */
    size_t pile_bytes;  /* and what their arenas held */
    struct waiter *answered[LIMIT_PILE_COMMANDS]; /* and to be woken */
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

static struct command *command_of(struct mail *mail)
{
    return (struct command *)mail; /* it begins with it */
}

static bool is_call(struct mail *mail)
{
    return (int)command_of(mail)->op == OP_CALL;
}

/* It is applied, and then answered: what it holds is counted now. */
static void add_to_pile(struct committer *committer, struct command *command)
{
    committer->pile_count++;
    committer->pile_bytes += command->arena.taken;
}

/* Cuts a pile from what is in the inbox and then in the box: up to the limit, and up to
 * a call. */
static struct command *cut_pile(struct committer *committer, bool box_is_empty)
{
    struct mail *first = committer->inbox, **tail = &committer->inbox;

    while (committer->pile_count < LIMIT_PILE_COMMANDS) {
        if (!*tail && !box_is_empty) {
            *tail = mailbox_take_all(committer->box);
            box_is_empty = true;
        }
        if (!*tail || is_call(*tail))
            break;
        add_to_pile(committer, command_of(*tail));
        tail = &(*tail)->next;
    }
    assert(committer->pile_count > 0);
    committer->inbox = *tail;
    *tail = NULL;
    return command_of(first);
}

/* What may not be overtaken. */
static bool is_barrier(struct mail *mail)
{
    return is_call(mail) || command_of(mail)->in_order;
}

/* What has arrived while a pile is applied: completions join it.  The others, and what
 * is behind a barrier, stay for the next turn; if there is more than a pile anyway, all
 * do. */
static size_t take_completions(void *arg, struct command **to, size_t most)
{
    struct committer *committer = arg;
    size_t n = 0;

    if (committer->inbox)
        return 0;
    committer->inbox = mailbox_take_all(committer->box);
    for (struct mail **at = &committer->inbox; *at && !is_barrier(*at) && n < most;) {
        struct command *command = command_of(*at);
        if (command->op != OP_COMPLETE) {
            at = &(*at)->next;
            continue;
        }
        *at = (*at)->next;
        add_to_pile(committer, command);
        to[n++] = command;
    }
    return n;
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

static void run_call(struct committer *committer)
{
    struct call *call = (struct call *)command_of(committer->inbox);
    committer->inbox = call->command.mail.next;
    committer->pile_count = 1;
    call->fn(committer->engine, call->arg);
    call->command.done(&call->command, call->command.done_arg); /* `call` is gone now */
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

/* One pile, or one call: then the duties have their turn. */
static void take_mail(struct committer *committer)
{
    bool taken = committer->inbox == NULL;
    if (taken)
        committer->inbox = mailbox_take_all(committer->box);
    committer->pile_count = committer->pile_bytes = 0;
    if (is_call(committer->inbox))
        run_call(committer);
    else /* answers, and with that frees */
        engine_apply(committer->engine, cut_pile(committer, taken));
    wake_answered(committer);
    assert(atomic_load(&committer->waiting) >= committer->pile_count);
    atomic_fetch_sub(&committer->waiting, committer->pile_count);
    atomic_fetch_sub(&committer->waiting_bytes, committer->pile_bytes);
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
            committer->inbox
                ? MAILBOX_MAIL
                : mailbox_wait_until(committer->box, sleep_us(committer, due));
        if (event == MAILBOX_CLOSED)
            break;
        engine_step(committer->engine);
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
    engine->latecomers = (struct latecomers){ take_completions, committer };
    committer->limit = limit;
    committer->turn = turn;
    committer->arg = arg;
    /* Reports are not counted against the limit, so the box has room for them. */
    int r = mailbox_new((size_t)2 * LIMIT_COMMANDS, &committer->box);
    if (r == 0)
        r = start_thread(committer);
    if (r < 0) {
        engine->latecomers = (struct latecomers){ 0 };
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
    committer->engine->latecomers = (struct latecomers){ 0 };
    mailbox_free(committer->box);
    free(committer);
}

/* ---- everybody else ---- */

bool committer_is_self(const struct committer *committer)
{
    return pthread_equal(pthread_self(), committer->thread) != 0;
}

size_t committer_pulse(const struct committer *committer)
{
    return atomic_load_explicit(&committer->engine->pulse, memory_order_relaxed);
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
