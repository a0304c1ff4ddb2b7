/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules are made, changed, paused and dropped; what cannot be meant is refused with
 * a sentence; a zone may vanish and come back. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "engine/explain/explain.h"
#include "fires.h"

#define HOUR (3600 * US_PER_S)

/* ---- what is refused ---- */

TEST(what_can_never_fire_is_refused)
{
    struct world w;
    world_begin(&w);
    refused(&w, new_schedule("s", "0 0 30 2 *", 0), -HF_INVALID, "cron", "never fires");
    struct schedule_edit edit = new_schedule("s", "0 0 1 1 *", 0);
    edit.set |= EDIT_END;
    edit.with.end_at = w.wall + HOUR;
    refused(&w, edit, -HF_INVALID, "endAt", "never fire");
    check_int(told(&w, "schedule.created", NULL), 0);
    world_end(&w);
}

TEST(what_is_wrong_with_a_schedule_is_named)
{
    struct world w;
    world_begin(&w);
    refused(&w, new_schedule("s", "61 * * * *", 0), -HF_INVALID, "cron", "61");
    refused(&w, new_schedule("a b", NULL, HOUR), -HF_INVALID, "name", "characters");
    refused(&w, new_schedule("s", NULL, 999 * US_PER_MS), -HF_INVALID, "everyMs", "1000");
    refused(&w, new_schedule("s", "* * * * *", HOUR), -HF_INVALID, "everyMs", "both");
    struct schedule_edit edit = new_schedule("s", "* * * * *", 0);
    edit.set |= EDIT_ZONE;
    edit.with.time_zone = SLICE("Europe/Atlantis");
    refused(&w, edit, -HF_INVALID, "timeZone", "Europe/Atlantis");
    edit.with.time_zone = SLICE("../../etc/passwd");
    refused(&w, edit, -HF_INVALID, "timeZone", "");
    edit = new_schedule("s", NULL, HOUR);
    edit.set |= EDIT_MISFIRE;
    edit.with.misfire = MISFIRE_ALL;
    refused(&w, edit, -HF_INVALID, "misfire", "overlap");
    edit = new_schedule("s", NULL, HOUR);
    edit.set |= EDIT_PRIORITY;
    edit.with.priority = 10;
    refused(&w, edit, -HF_INVALID, "priority", "between 1 and 9");
    edit = new_schedule("s", NULL, HOUR);
    edit.with.kind = SLICE("http");
    refused(&w, edit, -HF_INVALID, "payload", "");
    edit = new_schedule("s", NULL, HOUR);
    edit.with.kind = (struct slice){ 0 };
    refused(&w, edit, -HF_INVALID, "kind", "missing");
    edit = new_schedule("s", NULL, HOUR);
    edit.set |= EDIT_JITTER;
    edit.with.jitter_us = -1;
    refused(&w, edit, -HF_INVALID, "jitterMs", "from 0");
    edit = new_schedule("s", NULL, HOUR);
    edit.project = SLICE("nowhere");
    refused(&w, edit, -HF_NOT_FOUND, "project", "nowhere");
    edit = new_schedule("s", NULL, HOUR);
    edit.set |= EDIT_START | EDIT_END;
    edit.with.start_at = w.wall + HOUR;
    edit.with.end_at = w.wall;
    refused(&w, edit, -HF_INVALID, "endAt", "startAt");
    world_end(&w);
}

TEST(a_name_is_there_once_in_a_project)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, HOUR));
    char words[32];
    snprintf(words, sizeof(words), "schedule %lld", (long long)id);
    refused(&w, new_schedule("s", NULL, HOUR), -HF_CONFLICT, "name", words);
    check_ok(act(&w, make_project("other")));
    struct schedule_edit edit = new_schedule("s", NULL, HOUR);
    edit.project = SLICE("other");
    int64_t second = schedule(&w, edit);
    check(second != id);
    int64_t third = schedule(&w, new_schedule("t", NULL, HOUR));
    edit = edit_of(third);
    edit.set = EDIT_NAME;
    edit.with.name = SLICE("s");
    refused(&w, edit, -HF_CONFLICT, "name", words);
    world_end(&w);
}

TEST(two_of_one_name_in_one_pile_are_one)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    for (int i = 0; i < 2; i++)
        pile_add(&pile, command_new(OP_SCHEDULE))->schedule.edit =
            new_schedule("s", NULL, HOUR);
    pile_apply(&w, &pile);
    check_ok(pile.list[0]->result);
    check_err(pile.list[1]->result, -HF_CONFLICT);
    pile_free(&pile);
    world_end(&w);
}

TEST(one_of_another_project_is_not_there)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("other")));
    int64_t id = schedule(&w, new_schedule("s", NULL, HOUR));
    struct schedule_edit edit = edit_of(id);
    edit.project_id = schedule_of(&w, id).project_id + 1000;
    edit.set = EDIT_JITTER;
    refused(&w, edit, -HF_NOT_FOUND, "", "There is no schedule");
    struct command *c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = id;
    c->schedule_drop.project_id = edit.project_id;
    check_err(act(&w, c), -HF_NOT_FOUND);
    c = command_new(OP_TRIGGER);
    c->trigger.id = id;
    c->trigger.project_id = edit.project_id;
    check_err(act(&w, c), -HF_NOT_FOUND);
    check_err(drop_schedule(&w, id + 1000), -HF_NOT_FOUND);
    world_end(&w);
}

/* ---- changing ---- */

TEST(what_is_due_under_the_old_words_is_dealt_with_first)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    int64_t made_at = w.wall;
    /* It becomes due, and is changed before anybody has looked at it. */
    w.wall += 15 * US_PER_S;
    w.mono += 15 * US_PER_S;
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_EVERY | EDIT_KIND;
    edit.with.every_us = HOUR;
    edit.with.kind = SLICE("other");
    schedule(&w, edit);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 1);
    check_int(fires.list[0].fire_at, made_at + 10 * US_PER_S);
    check_slice(look(&w, fires.list[0].job_id).job.kind, "k");
    check_int(schedule_of(&w, id).next_at, w.wall + HOUR);
    check_int(told(&w, "schedule.changed", NULL), 1);
    check_account_since(&w, id, w.wall);
    world_end(&w);
}

TEST(a_change_that_is_refused_changes_nothing)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    w.wall += 15 * US_PER_S;
    w.mono += 15 * US_PER_S;
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_EVERY;
    edit.with.every_us = 1;
    refused(&w, edit, -HF_INVALID, "everyMs", "1000");
    check_int(schedule_of(&w, id).fire_count, 0); /* nor has it come any further */
    check_int(schedule_of(&w, id).every_us, 10 * US_PER_S);
    world_pass(&w, 5 * US_PER_S);
    check_int(schedule_of(&w, id).fire_count, 2);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_change_of_something_else_leaves_the_rhythm_alone)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    world_pass(&w, 3 * US_PER_S);
    int64_t next = schedule_of(&w, id).next_at;
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_EVERY | EDIT_PRIORITY; /* the same interval */
    edit.with.every_us = 10 * US_PER_S;
    edit.with.priority = 9;
    schedule(&w, edit);
    check_int(schedule_of(&w, id).next_at, next);
    check_int(schedule_of(&w, id).priority, 9);
    world_end(&w);
}

TEST(deleting_leaves_its_jobs_alone)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    world_pass(&w, 10 * US_PER_S);
    int64_t job = claim_one(&w, "s");
    check(job != 0);
    check_ok(drop_schedule(&w, id));
    check_int(told(&w, "schedule.deleted", NULL), 1);
    world_pass(&w, 5 * US_PER_S);
    check_int(state_of(&w, job), JOB_RUNNING);
    int64_t retry = 0;
    check_ok(fail_run(&w, "s", job, ERROR_OTHER, &retry));
    check(retry != 0);
    world_pass(&w, 61 * US_PER_S);
    check_int(claim_one(&w, "s"), retry);
    check_ok(complete(&w, "s", retry));
    check_int(claim_one(&w, "s"), 0);
    check_err(drop_schedule(&w, id), -HF_NOT_FOUND);
    schedule(&w, new_schedule("s", NULL, HOUR)); /* its name is free */
    world_end(&w);
}

TEST(what_is_due_when_it_is_deleted_is_still_made)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    w.wall += 15 * US_PER_S;
    w.mono += 15 * US_PER_S;
    check_ok(drop_schedule(&w, id));
    check_int(do_the_work(&w), 1);
    world_end(&w);
}

TEST(a_job_says_which_schedule_made_it)
{
    struct world w;
    bool made = false;
    struct explanation said;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("nightly", NULL, HOUR));
    int64_t job = trigger(&w, id, &made);
    struct explain_context context = { .now = w.wall, .settings = &w.settings };
    for (int dropped = 0; dropped < 2; dropped++) {
        check_ok(explain_job(w.engine->store, job, &context, &w.arena, &said));
        const struct reason *last = &said.reasons[said.count - 1];
        check_str(last->code, "schedule");
        check(has_text(last->text, dropped ? "deleted" : "nightly"));
        if (!dropped)
            check_ok(drop_schedule(&w, id));
    }
    world_end(&w);
}

/* ---- pausing ---- */

TEST(what_passes_while_it_is_paused_is_skipped_in_one_row)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    world_pass(&w, 10 * US_PER_S);
    pause_schedule(&w, id, 1, 0);
    check_int(schedule_of(&w, id).next_at, 0);
    w.wall += HOUR;
    w.mono += HOUR;
    world_settle(&w);
    check_int(fires_of(&w, id).count, 1);
    away(&w, HOUR);
    do_the_work(&w);
    pause_schedule(&w, id, 0, 0);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[1], FIRE_SKIPPED, FIRE_PAUSED, 720);
    check_int(told(&w, "schedule.paused", NULL), 1);
    check_int(told(&w, "schedule.resumed", NULL), 1);
    check_int(told(&w, "schedule.missed", NULL), 0);
    world_pass(&w, 10 * US_PER_S);
    check_int(schedule_of(&w, id).last_fire_at, w.wall);
    check_account(&w, id);
    world_end(&w);
}

TEST(what_is_due_when_it_is_paused_is_made)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    w.wall += 15 * US_PER_S;
    w.mono += 15 * US_PER_S;
    pause_schedule(&w, id, 1, 0);
    check_fire(&fires_of(&w, id).list[0], FIRE_RAN, FIRE_REASON_NONE, 1);
    world_end(&w);
}

TEST(a_pause_with_an_end_ends_by_itself_and_the_moment_of_its_end_fires)
{
    struct world w;
    struct slice data;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    pause_schedule(&w, id, 1, w.wall + 30 * US_PER_S);
    check_int(schedule_of(&w, id).next_at, w.wall + 30 * US_PER_S);
    world_pass(&w, 30 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_SKIPPED, FIRE_PAUSED, 2);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_int(schedule_of(&w, id).paused, 0);
    check_int(told(&w, "schedule.resumed", &data), 1);
    check(has_text(data, "pausedUntil"));
    check_account(&w, id);
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_PAUSED;
    edit.with.paused = 1;
    edit.with.paused_until = w.wall;
    refused(&w, edit, -HF_INVALID, "pausedUntil", "past");
    world_end(&w);
}

TEST(a_pause_that_ended_while_nobody_was_there_ends_where_it_said)
{
    struct world w;
    world_begin(&w);
    struct schedule_edit edit = new_schedule("s", NULL, 10 * US_PER_S);
    edit.set |= EDIT_MISFIRE;
    edit.with.misfire = MISFIRE_SKIP;
    int64_t id = schedule(&w, edit);
    pause_schedule(&w, id, 1, w.wall + 100 * US_PER_S);
    away(&w, 205 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 4);
    check_fire(&fires.list[0], FIRE_SKIPPED, FIRE_PAUSED, 9);
    check_fire(&fires.list[1], FIRE_MISSED, FIRE_LATE, 8);
    check_fire(&fires.list[2], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_fire(&fires.list[3], FIRE_SKIPPED, FIRE_OVERLAP, 2);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_change_of_rhythm_while_paused_accounts_for_the_old_one_first)
{
    struct world w;
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    pause_schedule(&w, id, 1, 0);
    w.wall += 65 * US_PER_S;
    w.mono += 65 * US_PER_S;
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_EVERY;
    edit.with.every_us = 20 * US_PER_S;
    schedule(&w, edit);
    int64_t changed_at = w.wall;
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 1);
    check_fire(&fires.list[0], FIRE_SKIPPED, FIRE_PAUSED, 6);
    check_int(schedule_of(&w, id).paused, PAUSED_ITSELF);
    w.wall += 65 * US_PER_S;
    w.mono += 65 * US_PER_S;
    pause_schedule(&w, id, 0, 0);
    fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[1], FIRE_SKIPPED, FIRE_PAUSED, 3);
    check_account_since(&w, id, changed_at);
    world_end(&w);
}

TEST(a_new_one_may_be_paused_from_the_first)
{
    struct world w;
    world_begin(&w);
    struct schedule_edit edit = new_schedule("s", NULL, 10 * US_PER_S);
    edit.set |= EDIT_PAUSED;
    edit.with.paused = 1;
    edit.with.paused_reason = SLICE("not yet");
    int64_t id = schedule(&w, edit);
    world_pass(&w, 30 * US_PER_S);
    struct schedule s = schedule_of(&w, id);
    check_int(s.fire_count, 0);
    check_int(s.next_at, 0);
    check_slice(s.paused_reason, "not yet");
    world_end(&w);
}

/* What a project's pause and resume do to its schedules, as one statement each. */
TEST(what_passed_while_its_project_was_paused_is_skipped_for_that_reason)
{
    struct world w;
    char sql[200];
    world_begin(&w);
    int64_t id = schedule(&w, new_schedule("s", NULL, 10 * US_PER_S));
    run_sql(&w, "UPDATE schedules SET paused = 2, next_at = NULL");
    w.wall += 100 * US_PER_S;
    w.mono += 100 * US_PER_S;
    world_settle(&w);
    check_int(schedule_of(&w, id).fire_count, 0);
    snprintf(sql, sizeof(sql),
             "UPDATE schedules SET paused = 0, passed_until = %lld, next_at = %lld",
             (long long)w.wall, (long long)w.wall);
    run_sql(&w, sql);
    world_pass(&w, 12 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_SKIPPED, FIRE_PAUSED, 10);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_int(schedule_of(&w, id).passed_until, 0);
    check_account(&w, id);
    world_end(&w);
}

/* ---- zones ---- */

static void copy_zone(const char *dir, const char *zone)
{
    char from[300], to[300], buffer[8192];
    snprintf(from, sizeof(from), "/usr/share/zoneinfo/Europe/Berlin");
    snprintf(to, sizeof(to), "%s/%s", dir, zone);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    check(in && out);
    size_t n = fread(buffer, 1, sizeof(buffer), in);
    check(n > 0 && fwrite(buffer, 1, n, out) == n);
    fclose(in);
    check_int(fclose(out), 0);
}

static void begin_with_zone(struct world *w, char *path, size_t size)
{
    world_init(w);
    w->zone_dir = test_path("zones");
    check_int(mkdir(w->zone_dir, 0700), 0);
    copy_zone(w->zone_dir, "Here");
    snprintf(path, size, "%s/Here", w->zone_dir);
    world_open(w);
}

static int64_t schedule_here(struct world *w)
{
    struct schedule_edit edit = new_schedule("s", "0 * * * *", 0);
    edit.set |= EDIT_ZONE;
    edit.with.time_zone = SLICE("Here");
    return schedule(w, edit);
}

TEST(a_schedule_whose_zone_vanishes_stands_still_until_it_is_back)
{
    struct world w;
    struct slice data;
    char path[300];
    begin_with_zone(&w, path, sizeof(path));
    int64_t id = schedule_here(&w);
    check_int(unlink(path), 0);
    away(&w, 3 * HOUR);
    struct schedule s = schedule_of(&w, id);
    check(has_text(s.problem, "Here"));
    check_int(s.fire_count, 0);
    check_int(s.next_at, w.wall + 60 * US_PER_S);
    world_pass(&w, 125 * US_PER_S);
    check_int(told(&w, "schedule.stalled", &data), 1); /* once */
    check(has_text(data, "\"problem\":"));
    /* What has to do with something else can be changed. */
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_PRIORITY;
    edit.with.priority = 7;
    schedule(&w, edit);
    copy_zone(w.zone_dir, "Here");
    world_pass(&w, 61 * US_PER_S);
    s = schedule_of(&w, id);
    check(!s.problem.p);
    check_int(s.priority, 7);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_COALESCED, FIRE_LATE, 2);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_LATE, 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_stalled_schedule_goes_on_in_another_zone)
{
    struct world w;
    char path[300];
    begin_with_zone(&w, path, sizeof(path));
    int64_t id = schedule_here(&w);
    check_int(unlink(path), 0);
    away(&w, 3 * HOUR);
    struct schedule_edit edit = edit_of(id);
    edit.set = EDIT_ZONE;
    edit.with.time_zone = SLICE("Nowhere");
    refused(&w, edit, -HF_INVALID, "timeZone", "Nowhere");
    edit.with.time_zone = SLICE("UTC");
    schedule(&w, edit);
    struct schedule s = schedule_of(&w, id);
    check(!s.problem.p);
    check_int(s.fire_count, 0); /* nobody can tell what passed in a zone that is gone */
    check_int(s.next_at, w.wall / HOUR * HOUR + HOUR);
    check_account_since(&w, id, w.wall);
    world_end(&w);
}

TEST(rules_that_are_installed_while_we_run_are_noticed)
{
    struct world w;
    char path[300];
    begin_with_zone(&w, path, sizeof(path));
    w.settings.poll_interval_us = 60 * US_PER_S;
    int64_t id = schedule_here(&w);
    check_int(unlink(path), 0);
    /* What was read an hour ago is read again. */
    for (int i = 0; i < 150; i++) {
        w.wall += 60 * US_PER_S;
        w.mono += 60 * US_PER_S;
        world_settle(&w);
        do_the_work(&w);
    }
    check(schedule_of(&w, id).problem.p);
    check_ok(drop_schedule(&w, id)); /* that needs no zone */
    world_end(&w);
}
