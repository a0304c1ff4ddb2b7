/* SPDX-License-Identifier: Apache-2.0
 *
 * Projects: what is in one that is deleted goes with it, bite by bite, and only when it
 * was asked for; whatever crashes, the books add up (I10). */
#include "acts.h"
#include "store/schedules.h"

static struct command *project_act(const char *name, enum project_act act, bool cascade)
{
    struct command *c = make_project(name);
    c->project.act = act;
    c->project.cascade = cascade;
    return c;
}

static struct new_job job_in(const char *project, const char *queue)
{
    struct new_job job = job_of_kind("k");
    job.project = slice_of(project);
    job.queue = slice_of(queue);
    return job;
}

static bool project_is_there(struct world *w, const char *name)
{
    check_ok(store_projects_reload(w->engine->store));
    for (size_t i = 0; i < w->engine->store->project_count; i++)
        if (strcmp(w->engine->store->projects[i].name, name) == 0)
            return true;
    return false;
}

static bool job_is_there(struct world *w, int64_t id)
{
    int state = 0;
    int r = store_job_state(w->engine->store, id, &state);
    check(r == 0 || r == -HF_NOT_FOUND);
    return r == 0;
}

/* A schedule of its own, as far as a project is concerned. */
static void add_schedule(struct world *w, int64_t id, const char *project)
{
    struct project in;
    char name[32];
    snprintf(name, sizeof(name), "s%lld", (long long)id);
    check_ok(store_begin(w->engine->store, w->wall));
    check_ok(store_project_enter(w->engine->store, slice_of(project), &in));
    check_ok(store_schedule_insert(w->engine->store,
                                   &(struct schedule){ .id = id,
                                                       .project_id = in.id,
                                                       .name = slice_of(name),
                                                       .time_zone = SLICE("UTC"),
                                                       .every_us = US_PER_DAY,
                                                       .anchor_at = w->wall,
                                                       .cursor_at = w->wall,
                                                       .next_at = w->wall + US_PER_DAY,
                                                       .changed_at = w->wall,
                                                       .kind = SLICE("k"),
                                                       .max_execution_us = -1,
                                                       .expire_us = -1,
                                                       .max_retries = -1,
                                                       .on_crash = -1 }));
    check_ok(store_commit(w->engine->store));
}

/* It has fired once. */
static void add_fire(struct world *w, int64_t id)
{
    char sql[300];
    snprintf(sql, sizeof(sql),
             "INSERT INTO fires (schedule_id, fire_at, last_at, count, outcome, at) "
             "VALUES (%lld, 1, 1, 1, 2, 1);"
             "UPDATE schedules SET fire_count = 1 WHERE id = %lld",
             (long long)id, (long long)id);
    run_sql(w, sql);
}

static struct schedule schedule_of(struct world *w, int64_t id)
{
    struct schedule s;
    check_ok(store_schedule_get(w->engine->store, id, &w->arena, &s));
    return s;
}

/* Jobs of a project in every state; `ids` has room for ten.  Returns how many. */
static size_t fill(struct world *w, const char *project, int64_t *ids)
{
    size_t n = 0;
    struct new_job later = job_in(project, "later");
    later.delay_us = US_PER_DAY;
    ids[n++] = enqueue(w, later);
    ids[n++] = enqueue(w, job_in(project, "waits"));
    int64_t done = enqueue(w, job_in(project, "work"));
    check_int(try_claim(w, "s", "work", 1, &ids[n]), 1);
    check_int(ids[n++], done);
    check_ok(complete(w, "s", done));
    int64_t failed = enqueue(w, job_in(project, "work"));
    check_int(try_claim(w, "s", "work", 1, &ids[n]), 1);
    check_int(ids[n++], failed);
    check_ok(fail_run(w, "s", failed, ERROR_OTHER, &ids[n++]));
    check_ok(cancel(w, ids[n++] = enqueue(w, job_in(project, "waits"))));
    ids[n++] = enqueue(w, job_in(project, "work")); /* and this one runs */
    check_int(try_claim(w, "s", "work", 1, NULL), 1);
    return n;
}

TEST(what_is_being_deleted_takes_nothing_new)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("p")));
    int64_t id = enqueue(&w, job_in("p", "q"));
    check_int(try_claim(&w, "s", "q", 1, NULL), 1);
    check_ok(act(&w, project_act("p", PROJECT_DELETE, true)));
    check_err(try_enqueue(&w, job_in("p", "q"), NULL), -HF_CONFLICT);
    check_sentence(&w, "is being deleted");
    check_err(act(&w, make_project("p")), -HF_CONFLICT);
    check_sentence(&w, "is being deleted");
    check_err(act(&w, project_act("p", PROJECT_PAUSE, false)), -HF_CONFLICT);
    world_settle(&w);
    check_int(state_of(&w, id), JOB_CANCELLING);
    check(project_is_there(&w, "p")); /* it waits for the run */
    world_end(&w);
}

TEST(everything_in_it_goes_and_is_counted)
{
    struct world w;
    int64_t ids[10];
    world_begin(&w);
    check_ok(act(&w, make_project("p")));
    check_ok(act(&w, make_project("other")));
    int64_t kept = enqueue(&w, job_in("other", "work"));
    check_ok(cancel(&w, kept));
    size_t n = fill(&w, "p", ids);
    add_schedule(&w, 900001, "p");
    add_schedule(&w, 900002, "other");
    add_fire(&w, 900001);
    add_fire(&w, 900002);
    check_ok(act(&w, project_act("p", PROJECT_DELETE, true)));
    world_settle(&w);
    check_int(state_of(&w, ids[n - 1]), JOB_CANCELLING);
    check_ok(fail_run(&w, "s", ids[n - 1], ERROR_OTHER, NULL));
    world_pass(&w, US_PER_S);
    check(!project_is_there(&w, "p"));
    for (size_t i = 0; i < n; i++)
        check(!job_is_there(&w, ids[i]));
    check(job_is_there(&w, kept));
    check_int(events_of(&w, 0, "project.deleted", NULL), 1);
    check_int(count_of(&w, "work", COUNT_PRUNED), 4); /* a failed one and its retry too */
    check_int(count_of(&w, "work", COUNT_FAILED), 0);
    struct schedule gone;
    check_err(store_schedule_get(w.engine->store, 900001, &w.arena, &gone),
              -HF_NOT_FOUND);
    check_int(schedule_of(&w, 900002).paused, 0);
    check_ok(act(&w, make_project("p"))); /* its name is free */
    check_clean(&w);
    world_close(&w);
}

TEST(a_crash_half_way_changes_nothing_about_the_end)
{
    for (int bites = 0; bites < 8; bites += 2) {
        struct world w;
        int64_t ids[10];
        char name[16];
        world_init(&w);
        world_open(&w);
        snprintf(name, sizeof(name), "p%d", bites);
        check_ok(act(&w, make_project(name)));
        size_t n = fill(&w, name, ids);
        add_schedule(&w, 900000 + bites, name);
        add_fire(&w, 900000 + bites);
        check_ok(act(&w, project_act(name, PROJECT_DELETE, true)));
        for (int i = 0; i < bites; i++) {
            check(project_step(w.engine) >= 0);
            check_clean(&w); /* what is half gone is nobody's fault */
        }
        world_crash(&w);
        w.wall += US_PER_S;
        w.mono += US_PER_S;
        world_open(&w);
        int r = fail_run(&w, "s", ids[n - 1], ERROR_OTHER, NULL);
        check(r == 0 || r == -HF_LATE);
        world_pass(&w, 60 * US_PER_S);
        check(!project_is_there(&w, name));
        for (size_t i = 0; i < n; i++)
            check(!job_is_there(&w, ids[i]));
        check_clean(&w);
        world_close(&w);
    }
}

TEST(one_that_waits_for_a_run_does_not_hold_up_the_others)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("slow")));
    check_ok(act(&w, make_project("quick")));
    check_ok(act(&w, make_project("idle")));
    int64_t slow = enqueue(&w, job_in("slow", "q"));
    check_int(try_claim(&w, "s", "q", 1, NULL), 1);
    enqueue(&w, job_in("quick", "q"));
    check_ok(act(&w, project_act("slow", PROJECT_DELETE, true)));
    world_pass(&w, US_PER_S);
    check_ok(act(&w, project_act("quick", PROJECT_DELETE, true)));
    check_ok(act(&w, project_act("idle", PROJECT_DELETE, true)));
    world_pass(&w, 2 * US_PER_S);
    check_int(state_of(&w, slow), JOB_CANCELLING);
    check(project_is_there(&w, "slow"));
    check(!project_is_there(&w, "quick"));
    check(!project_is_there(&w, "idle"));
    check_ok(fail_run(&w, "s", slow, ERROR_OTHER, NULL));
    world_pass(&w, 10 * US_PER_S);
    check(!project_is_there(&w, "slow"));
    world_end(&w);
}

TEST(many_jobs_of_others_are_walked_past_in_bites)
{
    struct world w;
    struct new_job jobs[1200];
    world_begin(&w);
    check_ok(act(&w, make_project("p")));
    for (size_t i = 0; i < array_len(jobs); i++)
        jobs[i] = job_in(i % 3 == 0 ? "p" : "default", "q");
    struct command *c = make_batch(jobs, array_len(jobs));
    check_ok(world_apply(&w, c));
    int64_t mine = c->enqueue.out[0].id, other = c->enqueue.out[1].id;
    command_free(c);
    check_ok(act(&w, project_act("p", PROJECT_DELETE, true)));
    world_settle(&w);
    check(!project_is_there(&w, "p"));
    check(!job_is_there(&w, mine) && job_is_there(&w, other));
    check_int(count_of(&w, "q", COUNT_QUEUED), 800);
    check_int(count_of(&w, "q", COUNT_PRUNED), 400);
    check_clean(&w);
    world_close(&w);
}

TEST(one_that_is_not_empty_is_kept_unless_everything_in_it_is_to_go)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("p")));
    check_ok(act(&w, make_project("q")));
    check_ok(act(&w, make_project("empty")));
    int64_t id = enqueue(&w, job_in("p", "q"));
    add_schedule(&w, 900001, "q");
    check_err(act(&w, project_act("q", PROJECT_DELETE, false)), -HF_CONFLICT);
    check_sentence(&w, "1 schedules");
    check_sentence(&w, "cascade=true");
    check_ok(act(&w, project_act("p", PROJECT_DELETE, false)));
    check_ok(act(&w, project_act("empty", PROJECT_DELETE, false)));
    world_settle(&w);
    check(project_is_there(&w, "p") && project_is_there(&w, "q"));
    check(!project_is_there(&w, "empty"));
    check_int(state_of(&w, id), JOB_QUEUED);
    check_int(events_of(&w, 0, "project.kept", NULL), 1);
    enqueue(&w, job_in("p", "q")); /* and it goes on */
    check_err(act(&w, project_act("default", PROJECT_DELETE, true)), -HF_CONFLICT);
    check_err(act(&w, project_act("none", PROJECT_DELETE, true)), -HF_NOT_FOUND);
    world_end(&w);
}

TEST(pausing_a_project_pauses_its_schedules_and_no_others)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("p")));
    add_schedule(&w, 900001, "p");
    add_schedule(&w, 900002, "default");
    check_ok(act(&w, project_act("p", PROJECT_PAUSE, false)));
    check_ok(act(&w, project_act("p", PROJECT_PAUSE, false))); /* as it is */
    check_int(schedule_of(&w, 900001).paused, PAUSED_WITH_PROJECT);
    check_int(schedule_of(&w, 900001).next_at, 0);
    check_int(schedule_of(&w, 900002).paused, 0);
    check_int(events_of(&w, 0, "project.paused", NULL), 1);
    enqueue(&w, job_in("p", "q")); /* jobs are no schedules */
    world_pass(&w, 3 * US_PER_S);
    check_ok(act(&w, project_act("p", PROJECT_RESUME, false)));
    struct schedule s = schedule_of(&w, 900001);
    check_int(s.paused, 0);
    check_int(s.passed_until, w.wall);
    check_int(s.next_at, w.wall);
    check_int(events_of(&w, 0, "project.resumed", NULL), 1);
    world_end(&w);
}

TEST(two_nodes_delete_one_project_between_them)
{
    struct world w, twin;
    int64_t ids[10];
    if (!test_on_postgres())
        return;
    world_begin(&w);
    twin_open(&w, &twin);
    check_ok(act(&w, make_project("p")));
    size_t n = fill(&w, "p", ids);
    check_ok(act(&w, project_act("p", PROJECT_DELETE, true)));
    /* the other one has not heard of it, and refuses all the same */
    check_err(try_enqueue(&twin, job_in("p", "q"), NULL), -HF_CONFLICT);
    check_ok(fail_run(&w, "s", ids[n - 1], ERROR_PERMANENT, NULL));
    for (int i = 0; i < 10; i++) {
        world_pass(&w, US_PER_S / 4);
        world_pass(&twin, US_PER_S / 4);
    }
    check(!project_is_there(&w, "p"));
    check_err(try_enqueue(&twin, job_in("p", "q"), NULL), -HF_NOT_FOUND);
    check_clean(&w);
    world_close(&twin);
    world_close(&w);
}

TEST(a_project_that_was_removed_by_hand_is_missed)
{
    struct world w;
    struct findings found;
    world_begin(&w);
    check_ok(act(&w, make_project("p")));
    enqueue(&w, job_in("p", "q"));
    add_schedule(&w, 900001, "p");
    check_clean(&w);
    run_sql(&w, "DELETE FROM projects WHERE name = 'p'");
    check_world(&w, &found);
    check_int(found.count, 2);
    for (size_t i = 0; i < 2; i++) {
        check_int(found.list[i].invariant, 10);
        check_has(slice_of(found.list[i].sentence), "is of a project that is not there");
    }
    world_close(&w);
}
