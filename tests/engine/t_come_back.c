/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that were answered by one commit are back for the next: the committer lets
 * them come, and waits for nobody when there is nobody to wait for. */
/* test: wrap=sched_yield,sem_wait,engine_apply */
#include <pthread.h>

#include "engine/engine.h"
#include "handle.h"

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_sem_wait(sem_t *sem);
int __wrap_sem_wait(sem_t *sem);
void __real_engine_apply(struct engine *engine, struct command *list);
void __wrap_engine_apply(struct engine *engine, struct command *list);

enum { PILES = 64 };

static atomic_int yields;
static atomic_int sizes[PILES], piles; /* of those with our commands */
static atomic_int waiting;             /* times that one of our threads has waited */
static atomic_int hold;                /* a pile is applied when so many have waited */
static atomic_bool slow_may_go;
static atomic_bool told; /* by the committer, that it lets others come */
static _Thread_local bool ours;

static void until(const atomic_int *value, int least)
{
    while (atomic_load(value) < least)
        usleep(100);
}

int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    if (!atomic_exchange(&told, true)) {
        atomic_store(&slow_may_go, true);
        until(&waiting, 5); /* the late one has put its command */
    }
    return __real_sched_yield();
}

int __wrap_sem_wait(sem_t *sem)
{
    if (ours)
        atomic_fetch_add(&waiting, 1);
    return __real_sem_wait(sem);
}

void __wrap_engine_apply(struct engine *engine, struct command *list)
{
    int size = 0;
    for (struct command *c = list; c; c = (struct command *)c->mail.next)
        size++;
    if (atomic_load(&piles) < PILES)
        atomic_store(&sizes[atomic_fetch_add(&piles, 1)], size);
    until(&waiting, atomic_load(&hold));
    atomic_store(&hold, 0);
    __real_engine_apply(engine, list);
}

struct caller {
    struct hf *hf;
    bool slow;
};

static void *call_twice(void *arg)
{
    struct caller *caller = arg;
    ours = true;
    (void)must_enqueue(caller->hf, &(struct hf_new_job){ .kind = "k" });
    while (caller->slow && !atomic_load(&slow_may_go))
        usleep(100);
    (void)must_enqueue(caller->hf, &(struct hf_new_job){ .kind = "k" });
    atomic_store(&slow_may_go, true); /* should the committer not have waited */
    return NULL;
}

static void *call_once(void *hf)
{
    ours = true;
    (void)must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    return NULL;
}

TEST(two_who_were_answered_together_share_the_next_commit_though_one_is_late)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct caller quick = { hf, false }, slow = { hf, true };
    pthread_t first, threads[2];
    atomic_store(&piles, 0);
    atomic_store(&hold, 3); /* the first pile, until all three have put theirs */
    check_int(pthread_create(&first, NULL, call_once, hf), 0);
    until(&piles, 1);
    check_int(pthread_create(&threads[0], NULL, call_twice, &quick), 0);
    check_int(pthread_create(&threads[1], NULL, call_twice, &slow), 0);
    pthread_join(first, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    check_int(atomic_load(&piles), 3);
    check_int(sizes[0], 1);
    check_int(sizes[1], 2);
    check_int(sizes[2], 2);
    check_ok(hf_close(hf));
}

TEST(who_is_alone_waits_for_nobody)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    atomic_store(&told, true);
    atomic_store(&yields, 0);
    for (int i = 0; i < 20; i++)
        (void)must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    check_int(atomic_load(&yields), 0);
    check_ok(hf_close(hf));
}
