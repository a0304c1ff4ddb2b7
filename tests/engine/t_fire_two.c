/* SPDX-License-Identifier: Apache-2.0
 *
 * Two engines on one PostgreSQL: both fire, at the same moment and with clocks that
 * differ, and each fire time has one outcome all the same. */
/* test: once */
#include <pthread.h>

#include "fires.h"
#include "two.h"

TEST(two_nodes_that_take_turns_fire_each_time_once)
{
    struct two two;
    two_init(&two);
    two_open(&two.a);
    two_open(&two.b);
    struct schedule_edit edit = new_schedule("q", NULL, US_PER_S);
    edit.set |= EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    int64_t id = schedule(&two.a, edit);
    two_pass(&two, 30 * US_PER_S);
    check_int(schedule_of(&two.b, id).fire_count, 30);
    check_account(&two.b, id);
    check_int(two.a.engine->totals.work.fires[FIRE_RAN] +
                  two.b.engine->totals.work.fires[FIRE_RAN],
              30);
    two_close(&two);
}

TEST(what_one_node_changes_the_other_hears_of)
{
    struct two two;
    two_init(&two);
    two_open(&two.a);
    two_open(&two.b);
    int64_t id = schedule(&two.a, new_schedule("s", NULL, 20 * US_PER_S));
    two_pass(&two, 3 * US_PER_S);
    /* The first one hangs: the other fires in its stead. */
    for (int i = 0; i < 18; i++) {
        two.a.wall += US_PER_S, two.a.mono += US_PER_S;
        world_pass(&two.b, US_PER_S);
    }
    check_int(schedule_of(&two.b, id).fire_count, 1);
    check_int(two.b.engine->totals.work.fires[FIRE_RAN], 1);
    pause_schedule(&two.b, id, 1, 0);
    two_pass(&two, 41 * US_PER_S);
    check_int(schedule_of(&two.a, id).fire_count, 1);
    two_close(&two);
}

TEST(a_node_whose_clock_is_ahead_leaves_nothing_to_be_fired_twice)
{
    struct two two;
    two_init(&two);
    two.b.wall += 5 * US_PER_S;
    two_open(&two.a);
    two_open(&two.b);
    struct schedule_edit edit = new_schedule("q", NULL, US_PER_S);
    edit.set |= EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    int64_t id = schedule(&two.a, edit);
    two_pass(&two, 20 * US_PER_S);
    check_int(schedule_of(&two.a, id).fire_count, 25);
    check_account(&two.a, id);
    two_close(&two);
}

/* ---- at the same moment ---- */

enum { SCHEDULES = 100, SECONDS = 20 };

struct racer {
    struct world *w;
    pthread_barrier_t *start;
    const int64_t *ids;
    bool edits;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct world *w = racer->w;
    for (int second = 0; second < SECONDS; second++) {
        pthread_barrier_wait(racer->start);
        w->wall += US_PER_S;
        w->mono += US_PER_S;
        world_settle(w);
        struct schedule_edit edit = edit_of(racer->ids[second * 7 % SCHEDULES]);
        edit.set = EDIT_PRIORITY;
        edit.with.priority = 1 + second % 9;
        if (racer->edits)
            schedule(w, edit);
    }
    return NULL;
}

TEST(two_nodes_at_the_same_moment_fire_each_time_once)
{
    struct two two;
    int64_t ids[SCHEDULES];
    pthread_barrier_t start;
    pthread_t threads[2];
    two_init(&two);
    two_open(&two.a);
    two_open(&two.b);
    for (int i = 0; i < SCHEDULES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%d", i);
        struct schedule_edit edit = new_schedule(name, NULL, US_PER_S);
        edit.set |= EDIT_OVERLAP;
        edit.with.overlap = i % 2 ? OVERLAP_QUEUE : OVERLAP_SKIP;
        ids[i] = schedule(&two.a, edit);
    }
    pthread_barrier_init(&start, NULL, 2);
    struct racer racers[] = { { &two.a, &start, ids, true },
                              { &two.b, &start, ids, false } };
    for (int i = 0; i < 2; i++)
        check_int(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    two_pass(&two, US_PER_S);
    for (int i = 0; i < SCHEDULES; i++) {
        check_account(&two.a, ids[i]);
        check_int(schedule_of(&two.a, ids[i]).fire_count, SECONDS + 1);
    }
    test_note("of %d fire times one node dealt with %llu", SCHEDULES * (SECONDS + 1),
              (unsigned long long)(two.a.engine->totals.work.fires[FIRE_RAN] +
                                   two.a.engine->totals.work.fires[FIRE_SKIPPED]));
    two_close(&two);
}
