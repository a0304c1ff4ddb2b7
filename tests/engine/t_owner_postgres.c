/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Several nodes on one PostgreSQL: leases of nodes, proof of a death on the same
 * machine, takeovers by whoever is there, and the node that was judged dead and
 * is not. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nodes.h"

/* ---- leases of nodes ---- */

TEST(a_node_renews_its_lease_and_is_left_alone)
{
    struct world a, b;
    world_init_node(&a, "crawl", 1);
    world_open(&a);
    int64_t id = enqueue_kind(&a, "crawl");
    join(&b, &a, "host-b");
    world_open(&b);
    check_int(reported(&b, "left"), 1);
    pass_both(&b, &a, 3 * a.settings.lease_us, false);
    check(owner_row(&b, a.engine->owner_id).lease_until > b.wall);
    check_int(state_of(&b, id), JOB_RUNNING);
    check_int(events_named(&b, "owner.died", NULL), 0);
    check_ok(complete_here(&a, id));
    world_close(&b);
    world_close(&a);
}

TEST(a_node_whose_lease_ran_out_is_dead_and_others_resolve_its_runs)
{
    struct world a, b;
    world_init_node(&a, "crawl", 2);
    join(&b, &a, "host-b");
    world_open(&b);
    world_pass(&b, b.settings.lease_us + US_PER_S);
    a.wall = b.wall;
    a.mono = b.mono;
    world_open(&a);
    int64_t id = enqueue_kind(&a, "crawl"), owner = a.engine->owner_id;
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("gpu");
    c->reserve.holder = SLICE("caller");
    c->reserve.direct = true;
    check_ok(world_apply(&a, c));
    int64_t hold = c->reserve.out.id;
    command_free(c);
    pass_both(&b, &a, 20 * US_PER_S, false);
    int64_t until = owner_row(&b, owner).lease_until;
    pass_both(&b, &a, until - b.wall - US_PER_S, true);
    check_int(state_of(&b, id), JOB_RUNNING);
    pass_both(&b, &a, US_PER_S, true);
    struct job_row row = look(&b, id);
    check_int(row.job.state, JOB_FAILED);
    check_slice(row.run.error.message,
                "Job interrupted by the death of node node (crash recovery): it had been "
                "running for 20 seconds when that node was last heard of.");
    check_int(look(&b, retry_of(&b, id)).job.lane, LANE_RECOVERED);
    check_int(look(&b, retry_of(&b, id)).job.crash_count, 1);
    check_int(owner_row(&b, owner).state, OWNER_DEAD);
    check_int(events_named(&b, "owner.died", NULL), 1);
    struct reservation v = { 0 };
    check_ok(store_reservation_get(b.engine->store, hold, &b.arena, &v));
    check_int(v.state, RESERVATION_EXPIRED); /* its direct call's hold went with it */
    check_clean(&b);
    world_crash(&a);
    world_close(&a);
    world_close(&b);
}

/* ---- judged dead, and not dead ---- */

TEST(a_node_that_was_judged_dead_is_refused_and_reborn_as_a_new_owner)
{
    struct world a, b;
    world_init_node(&a, "crawl", 2);
    world_open(&a);
    int64_t ids[2] = { enqueue_kind(&a, "crawl"), enqueue_kind(&a, "crawl") };
    int64_t before = a.engine->owner_id;
    join(&b, &a, "host-b");
    world_open(&b);
    pass_both(&b, &a, 2 * b.settings.lease_us + US_PER_S, true);
    check_int(count_in(&b, JOB_FAILED), 2);

    check_int(a.engine->run_count, 2); /* it has not heard of it */
    check_err(complete_here(&a, ids[0]), -HF_LATE);
    check(a.engine->owner_id != before);
    check_int(a.engine->run_count, 0);
    check_int(a.stop_count, 2); /* what it still executes must stop */
    for (size_t i = 0; i < 2; i++)
        check_int(a.stops[i].type, ERROR_CRASH);
    check_int(state_of(&b, ids[0]), JOB_FAILED);
    check_int(events_of(&b, ids[0], "run.late_result", NULL), 1);
    struct owner reborn = owner_row(&b, a.engine->owner_id);
    check_int(reborn.state, OWNER_ALIVE);
    check_slice(reborn.name, "node");
    check_slice(reborn.host, "host-a");
    check_int(reborn.lease_until, a.wall + a.settings.lease_us);

    /* And it goes on working, all its slots free. */
    a.started_count = 0;
    enqueue_many(&a, job_of_kind("crawl"), 2);
    world_settle(&a);
    check_int(a.started_count, 2);
    check_int(look(&b, a.started[0]).run.owner_id, a.engine->owner_id);
    check_ok(complete_here(&a, a.started[0]));
    pass_both(&b, &a, 2 * b.settings.lease_us, false);
    check_int(state_of(&b, a.started[1]), JOB_RUNNING);
    check_clean(&b);
    world_close(&a);
    world_close(&b);
}

TEST(a_node_hears_of_its_death_at_its_next_beat_at_the_latest)
{
    struct world a, b;
    world_init_node(&a, "crawl", 1);
    world_open(&a);
    enqueue_kind(&a, "crawl");
    int64_t before = a.engine->owner_id;
    join(&b, &a, "host-b");
    world_open(&b);
    pass_both(&b, &a, 2 * b.settings.lease_us + US_PER_S, true);
    world_settle(&a); /* ticks only, no command */
    check(a.engine->owner_id != before);
    check_int(a.stop_count, 1);
    check_int(a.engine->run_count, 0);
    check_int(owner_row(&b, a.engine->owner_id).state, OWNER_ALIVE);
    world_close(&a);
    world_close(&b);
}

TEST(a_node_that_is_reborn_keeps_its_kinds)
{
    struct world a, b;
    world_init_node(&a, "crawl", 1);
    world_open(&a);
    join_node(&b, &a, "host-b", "scrape", 1);
    world_open(&b);
    pass_both(&b, &a, 2 * b.settings.lease_us + US_PER_S, true);
    world_settle(&a); /* reborn */
    world_crash(&b);
    world_open(&b); /* and whoever starts now forgets the kinds of the dead */
    int64_t id = enqueue_kind(&a, "crawl");
    world_settle(&a);
    world_settle(&b);
    check_int(look(&a, id).job.class, CLASS_NODE);
    check_int(state_of(&a, id), JOB_RUNNING);
    check_int(look(&a, id).run.owner_id, a.engine->owner_id);
    world_close(&a);
    world_close(&b);
}

/* ---- kinds ---- */

TEST(a_node_does_not_claim_the_kinds_of_one_that_came_later)
{
    struct world a, b;
    world_init_node(&a, "crawl", 10);
    world_open(&a);
    join_node(&b, &a, "host-b", "scrape", 1);
    world_open(&b);
    pass_both(&a, &b, 2 * US_PER_S, false);
    enqueue_many(&a, job_of_kind("scrape"), 3);
    int64_t own = enqueue_kind(&a, "crawl");
    pass_both(&a, &b, 2 * US_PER_S, false);
    check_int(a.started_count, 1);
    check_int(a.started[0], own);
    check_int(b.started_count, 1);
    world_close(&b);
    world_close(&a);
}

TEST(a_node_leaves_them_alone_even_before_it_has_heard_of_the_other)
{
    struct world a, b;
    world_init_node(&a, "crawl", 10);
    world_open(&a);
    join_node(&b, &a, "host-b", "scrape", 1);
    world_open(&b);
    int64_t other = enqueue_kind(&a, "scrape"), own = enqueue_kind(&a, "crawl");
    check_int(look(&a, other).job.class, CLASS_NODE);
    check_int(state_of(&a, other), JOB_QUEUED);
    pass_both(&a, &b, US_PER_S, false);
    check_int(a.started_count, 1);
    check_int(a.started[0], own);
    check_int(b.started_count, 1);
    check_int(b.started[0], other);
    world_close(&b);
    world_close(&a);
}

/* ---- proof on the same machine ---- */

/* A real process, and what the kernel says of it. */
static pid_t start_process(struct host *host)
{
    struct error error;
    struct host_stat stat;
    char path[64], line[1024];
    check_ok(host_identify(host, &error));
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    check(file != NULL);
    size_t n = fread(line, 1, sizeof(line), file);
    fclose(file);
    check_ok(host_parse_stat((struct slice){ line, n }, &stat));
    host->pid = pid;
    host->start_ticks = stat.start_ticks;
    return pid;
}

static void end_process(pid_t pid)
{
    check_int(kill(pid, SIGKILL), 0);
    check_int(waitpid(pid, NULL, 0), pid);
}

TEST(a_node_whose_process_is_gone_on_this_machine_is_dead_at_once)
{
    struct world a, b;
    world_init_node(&a, "crawl", 1);
    join(&b, &a, "host-b");
    check_ok(host_identify(&b.host, &b.error));
    world_open(&b);
    pid_t pid = start_process(&a.host);
    world_open(&a);
    int64_t id = enqueue_kind(&a, "crawl");
    pass_both(&b, &a, 3 * US_PER_S, false);
    check_int(state_of(&b, id), JOB_RUNNING); /* it lives */
    end_process(pid);
    world_pass(&b, US_PER_S); /* its lease has 27 seconds left */
    check_int(state_of(&b, id), JOB_FAILED);
    check_int(owner_row(&b, a.engine->owner_id).state, OWNER_DEAD);
    world_crash(&a);
    world_close(&a);
    world_close(&b);
}

TEST(a_pid_that_came_back_is_no_proof_of_life_and_another_machine_none_of_death)
{
    struct world a, b, c;
    world_init_node(&a, "crawl", 1);
    pid_t pid = start_process(&a.host);
    struct host real = a.host;
    a.host.start_ticks--; /* an earlier process of that pid */
    world_open(&a);
    int64_t id = enqueue_kind(&a, "crawl");
    join(&c, &a, "host-c"); /* elsewhere the pid means nothing */
    world_open(&c);
    check_int(state_of(&c, id), JOB_RUNNING);
    join(&b, &a, "host-b");
    b.host = real;
    check_ok(host_identify(&b.host, &b.error));
    world_open(&b); /* at the start of another, here: proof */
    check_int(state_of(&b, id), JOB_FAILED);
    check_int(reported(&b, "runningFailed"), 1);
    end_process(pid);
    world_crash(&a);
    world_close(&a);
    world_close(&c);
    world_close(&b);
}

/* ---- takeovers by several ---- */

enum { MANY = 1200 };

/* Node `a` runs 1200 jobs and hangs until its lease is over, but for a second;
 * `b` and `c` are there. */
static void hang_with_many(struct world *a, struct world *b, struct world *c)
{
    world_init_node(a, "crawl", MANY);
    world_open(a);
    set_limits(a, "default", MANY, 0);
    enqueue_many(a, job_of_kind("crawl"), MANY);
    for (int i = 0; i < 10 && count_in(a, JOB_RUNNING) < MANY; i++)
        world_settle(a);
    check_int(count_in(a, JOB_RUNNING), MANY);
    join(b, a, "host-b");
    join(c, a, "host-c");
    world_open(b);
    world_open(c);
    for (int64_t s = 0; s < b->settings.lease_us / US_PER_S - 1; s++)
        pass_both(b, c, US_PER_S, false);
    b->wall += US_PER_S;
    b->mono += US_PER_S;
    c->wall += US_PER_S;
    c->mono += US_PER_S;
}

static void check_all_taken_over(struct world *w)
{
    check_int(count_in(w, JOB_RUNNING), 0);
    check_int(count_in(w, JOB_FAILED), MANY);
    check_int(count_in(w, JOB_SCHEDULED), MANY);
    check_int(events_named(w, "job.run.failed", NULL), MANY);
    check_int(events_named(w, "owner.died", NULL), 1);
    check_clean(w);
}

TEST(a_takeover_left_half_way_is_finished_by_another)
{
    struct world a, b, c;
    hang_with_many(&a, &b, &c);
    for (int i = 0; i < 10 && count_in(&b, JOB_FAILED) == 0; i++)
        engine_tick(b.engine);
    size_t failed = count_in(&b, JOB_FAILED);
    check(failed > 0 && failed < MANY);
    world_crash(&b);
    world_settle(&c); /* the same second */
    check_all_taken_over(&c);
    check_int(reported_by(&c, RECOVERY_TAKEOVER, "runningFailed"),
              MANY - (int64_t)failed);
    world_crash(&a);
    world_close(&a);
    world_close(&b);
    world_close(&c);
}

TEST(two_that_take_over_at_once_make_one_retry_of_each)
{
    struct world a, b, c;
    hang_with_many(&a, &b, &c);
    for (int i = 0; i < 40; i++) { /* chunk by chunk, in turns */
        engine_tick(b.engine);
        engine_tick(c.engine);
    }
    check_all_taken_over(&b);
    world_crash(&a);
    world_close(&a);
    world_close(&b);
    world_close(&c);
}
