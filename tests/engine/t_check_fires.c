/* SPDX-License-Identifier: Apache-2.0
 *
 * Fire times under the verifier, whole and tampered with; and what retention forgets of
 * them, counted. */
#include "fires.h"

static void begin(struct world *w, int64_t *ret_id)
{
    world_init(w);
    w->settings.retention_completed_us = 2 * US_PER_DAY;
    world_open(w);
    struct schedule_edit edit = new_schedule("s", NULL, 10 * US_PER_S);
    edit.set |= EDIT_OVERLAP;
    edit.with.overlap = OVERLAP_QUEUE;
    *ret_id = schedule(w, edit);
    world_pass(w, 30 * US_PER_S);
    pause_schedule(w, *ret_id, 1, 0);
    w->wall += 60 * US_PER_S;
    w->mono += 60 * US_PER_S;
    pause_schedule(w, *ret_id, 0, 0);
    world_pass(w, 10 * US_PER_S);
    check_clean(w);
}

/* Exactly one finding, and these words are in it. */
static void found(struct world *w, int invariant, const char *words)
{
    struct findings findings;
    check_world(w, &findings);
    check_int(findings.count, 1);
    check_int(findings.list[0].invariant, invariant);
    if (!strstr(findings.list[0].sentence, words))
        fail("\"%s\" does not say \"%s\"", findings.list[0].sentence, words);
    world_crash(w);
    arena_release(&w->arena);
}

TEST(a_fire_time_that_is_counted_and_not_on_record_is_named)
{
    struct world w;
    int64_t id;
    begin(&w, &id);
    run_sql(&w, "DELETE FROM fires WHERE outcome = 2");
    found(&w, 10, "counts 10 fire times, but what became of 4 is on record");
}

TEST(an_outcome_beyond_the_cursor_is_named)
{
    struct world w;
    int64_t id;
    begin(&w, &id);
    run_sql(&w, "UPDATE schedules SET cursor_at = cursor_at - 15000000");
    found(&w, 10, "not come to yet");
}

TEST(a_fire_time_with_two_outcomes_is_named)
{
    struct world w;
    int64_t id;
    begin(&w, &id);
    run_sql(&w,
            "INSERT INTO fires SELECT schedule_id, fire_at + 1, fire_at + 1, 1, 4, 0, "
            "NULL, at FROM fires WHERE outcome = 2;"
            "UPDATE schedules SET fire_count = fire_count + 1");
    found(&w, 3, "two outcomes");
}

TEST(a_fire_without_its_job_is_named)
{
    struct world w;
    int64_t id;
    begin(&w, &id);
    run_sql(&w, "UPDATE fires SET job_id = job_id + 1000000 WHERE fire_at = "
                "(SELECT min(fire_at) FROM fires)");
    found(&w, 10, "is not there");
}

TEST(a_fire_with_the_job_of_another_is_named)
{
    struct world w;
    int64_t id;
    begin(&w, &id);
    run_sql(&w,
            "UPDATE jobs SET schedule_id = NULL WHERE id = (SELECT min(id) FROM jobs)");
    found(&w, 10, "says that it was made by 0");
}

/* ---- retention ---- */

TEST(old_outcomes_are_forgotten_and_counted)
{
    struct world w;
    int64_t id;
    begin(&w, &id);
    check_int(schedule_of(&w, id).fire_count, 10);
    pause_schedule(&w, id, 1, 0);
    w.wall += US_PER_DAY;
    w.mono += US_PER_DAY;
    world_settle(&w);
    world_pass(&w, 61 * US_PER_S);
    check_int(schedule_of(&w, id).fires_pruned, 0);
    check_int(fires_of(&w, id).count, 5);
    w.wall += 2 * US_PER_DAY;
    w.mono += 2 * US_PER_DAY;
    world_settle(&w);
    world_pass(&w, 61 * US_PER_S);
    check_int(fires_of(&w, id).count, 0);
    check_int(schedule_of(&w, id).fires_pruned, 10);
    check_int(schedule_of(&w, id).fire_count, 10);
    world_end(&w);
}

TEST(nothing_is_forgotten_where_all_is_kept)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    world_pass(&w, 10 * US_PER_S);
    pause_schedule(&w, id, 1, 0);
    w.wall += 1000 * US_PER_DAY;
    w.mono += 1000 * US_PER_DAY;
    world_settle(&w);
    world_pass(&w, 61 * US_PER_S);
    check_int(fires_of(&w, id).count, 1);
    world_end(&w);
}

TEST(a_long_history_of_a_dropped_schedule_goes_bit_by_bit)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("gone", NULL, 10 * US_PER_S));
    int64_t kept = schedule(&w, new_schedule("kept", NULL, 10 * US_PER_S));
    world_pass(&w, 10 * US_PER_S);
    check_ok(store_begin(w.engine->store, w.wall));
    for (int i = 1; i <= 2500; i++)
        store_fire_insert(w.engine->store, &(struct fire){ .schedule_id = id,
                                                           .fire_at = i,
                                                           .last_at = i,
                                                           .count = 1,
                                                           .outcome = FIRE_MISSED });
    check_ok(store_commit(w.engine->store));
    check_ok(drop_schedule(&w, id));
    check_int(fires_of(&w, id).count, 1501);
    pause_schedule(&w, kept, 1, 0);
    world_pass(&w, 61 * US_PER_S);
    check_int(fires_of(&w, id).count, 0);
    check_int(fires_of(&w, kept).count, 1);
    world_end(&w);
}
