/* SPDX-License-Identifier: Apache-2.0
 *
 * A command outlives the node that started it.  Until its lease is over, or whoever
 * has its record has said that it is gone, nobody may act as if it were: not another
 * node, and not the next job of its source. */
/* test: once */
#include "nodes.h"

static bool lives(void *arg, const struct job_row *row)
{
    (void)arg;
    (void)row;
    return true;
}

static void init_commands(struct world *w, const char *state_dir)
{
    world_init_node(w, "crawl", 1);
    w->executor = EXECUTOR_COMMAND;
    w->state_dir = state_dir;
}

/* One run of `a` under way when it dies; `b` is another node of the same machine. */
static int64_t die_beside_another(struct world *a, struct world *b)
{
    init_commands(a, "/var/lib/a");
    world_open(a);
    int64_t id = enqueue_kind(a, "crawl");
    check_int(a->started_count, 1);
    join(b, a, "host-a");
    b->host = a->host;
    b->host.pid += 100;
    b->executor = EXECUTOR_COMMAND;
    b->state_dir = "/var/lib/b";
    world_crash(a);
    return id;
}

TEST(a_command_of_a_dead_node_is_left_alone_until_the_lease_is_over)
{
    struct world a, b;
    int64_t id = die_beside_another(&a, &b);
    world_open(&b); /* the process is gone from this machine: its node is dead */
    check_int(events_named(&b, "owner.died", NULL), 1);
    int64_t until = owner_row(&b, look(&b, id).run.owner_id).lease_until;
    check(until > b.wall);
    world_pass(&b, until - b.wall - US_PER_S);
    check_int(state_of(&b, id), JOB_RUNNING);
    world_pass(&b, 2 * US_PER_S);
    check_int(state_of(&b, id), JOB_FAILED);
    check(retry_of(&b, id) != 0);
    check_clean(&b);
    world_close(&a);
    world_close(&b);
}

TEST(a_node_that_comes_back_adopts_its_commands_though_others_were_quicker)
{
    struct world a, b;
    init_commands(&a, "/var/lib/a");
    world_open(&a);
    int64_t id = enqueue_kind(&a, "crawl");
    join(&b, &a, "host-b");
    world_open(&b);
    world_crash(&a);
    a.adopt = lives;
    world_open_cold(&a); /* it has said that its predecessor is dead */
    world_pass(&b, 2 * US_PER_S);
    a.wall = b.wall;
    a.mono = b.mono;
    world_settle(&a);
    check_int(look(&a, id).run.owner_id, a.engine->owner_id);
    pass_both(&b, &a, 2 * b.settings.lease_us, false);
    check_int(state_of(&b, id), JOB_RUNNING);
    check_ok(complete_here(&a, id));
    check_clean(&a);
    world_close(&a);
    world_close(&b);
}

TEST(a_node_that_comes_back_and_finds_its_command_gone_says_so_at_once)
{
    struct world a, b;
    int64_t id = die_beside_another(&a, &b);
    world_open(&a); /* no record of it: the machine's memory is all there is */
    check_int(state_of(&a, id), JOB_FAILED);
    world_close(&a);
    arena_release(&b.arena);
}

TEST(a_node_that_is_reborn_does_not_adopt_what_it_has_told_to_stop)
{
    struct world a, b;
    init_commands(&a, "/var/lib/a");
    a.adopt = lives;
    world_open(&a);
    int64_t id = enqueue_kind(&a, "crawl");
    join(&b, &a, "host-b");
    world_open(&b);
    run_sqlf(&b, "UPDATE owners SET state = 3, ended_at = started_at WHERE id = %lld",
             (long long)a.engine->owner_id);
    world_pass(&a, 2 * US_PER_S);
    check_int(a.stop_count, 1);
    check_int(a.started_count, 1); /* once, and not again under its new name */
    world_pass(&a, 2 * a.settings.lease_us);
    check_int(state_of(&a, id), JOB_FAILED);
    world_close(&a);
    world_close(&b);
}

/* ---- one live job per source ---- */

static struct new_job of_source(void)
{
    struct new_job job = job_of_kind("crawl");
    job.unique_key = SLICE("site-1");
    return job;
}

static void check_not_superseded(const char *url)
{
    struct world w;
    struct enqueued out = { 0 };
    init_commands(&w, "/var/lib/a");
    w.url = url;
    world_open(&w);
    int64_t id = enqueue(&w, of_source());
    world_crash(&w);
    w.adopt = lives;
    world_open_cold(&w); /* the node is judged dead, its command is not asked for yet */
    check_ok(try_enqueue(&w, of_source(), &out));
    check(out.deduplicated);
    check_int(out.id, id);
    world_settle(&w);
    check_int(state_of(&w, id), JOB_RUNNING);
    check_ok(complete_here(&w, id));
    check_clean(&w);
    world_close(&w);
}

TEST(a_command_that_adoption_has_not_asked_for_yet_is_not_superseded)
{
    check_not_superseded(test_sqlite_url());
    check_not_superseded(test_postgres_url());
}

TEST(a_command_that_may_still_be_adopted_elsewhere_is_not_superseded)
{
    struct world a, b;
    struct enqueued out = { 0 };
    init_commands(&a, "/var/lib/a");
    world_open(&a);
    int64_t id = enqueue(&a, of_source());
    join(&b, &a, "host-b");
    world_open(&b);
    run_sqlf(&b, "UPDATE owners SET state = 3, ended_at = started_at WHERE id = %lld",
             (long long)a.engine->owner_id);
    check_ok(try_enqueue(&b, of_source(), &out));
    check(out.deduplicated);
    check_int(out.id, id);
    world_crash(&a);
    world_close(&a);
    world_close(&b);
}
