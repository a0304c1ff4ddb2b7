/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Several nodes on one PostgreSQL: leases of nodes, proof of a death on the same
 * machine, takeovers by whoever is there, and the node that was judged dead and
 * is not. */
#include <libpq-fe.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash.h"

/* Another node of the same store, on a machine of its own. */
static void join(struct world *w, const struct world *first, const char *host)
{
    world_init(w);
    w->url = first->url;
    w->wall = first->wall;
    w->mono = first->mono;
    snprintf(w->host.name, sizeof(w->host.name), "%s", host);
    snprintf(w->host.boot_id, sizeof(w->host.boot_id), "boot-of-%s", host);
}

static void join_node(struct world *w, const struct world *first, const char *host,
                      const char *kind, size_t capacity)
{
    join(w, first, host);
    w->kinds[0] = kind;
    w->kind_count = 1;
    w->capacity = capacity;
}

/* Time passes for both; the second one does nothing in it if it `hangs`. */
static void pass_both(struct world *live, struct world *other, int64_t us, bool hangs)
{
    while (us > 0) {
        int64_t step = us < US_PER_S ? us : US_PER_S;
        world_pass(live, step);
        other->wall += step;
        other->mono += step;
        if (!hangs)
            world_settle(other);
        us -= step;
    }
}

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

/* ---- the database goes away ---- */

static void ask(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK)
        fail("%s: %s", text, PQerrorMessage(conn));
    PQclear(result);
}

static const char *database_of(const char *url)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    static char name[64];
    for (PQconninfoOption *o = options; o && o->keyword; o++)
        if (strcmp(o->keyword, "dbname") == 0 && o->val)
            snprintf(name, sizeof(name), "%s", o->val);
    PQconninfoFree(options);
    return name;
}

/* Ends every connection to the world's database; none is made before it is
 * opened again. */
static void set_database(struct world *w, bool there)
{
    char text[300];
    const char *name = database_of(w->url);
    PGconn *conn = PQconnectdb(getenv("HF_TEST_DB"));
    snprintf(text, sizeof(text), "ALTER DATABASE \"%s\" ALLOW_CONNECTIONS %s", name,
             there ? "true" : "false");
    ask(conn, text);
    snprintf(text, sizeof(text),
             "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
             "WHERE datname = '%s'",
             name);
    if (!there)
        ask(conn, text);
    PQfinish(conn);
}

static void tick_without_database(struct world *w, int64_t seconds)
{
    for (int64_t s = 0; s < seconds; s++) {
        w->wall += US_PER_S;
        w->mono += US_PER_S;
        for (int i = 0; i < 3; i++)
            engine_tick(w->engine);
    }
}

TEST(a_node_that_cannot_renew_stops_its_runs_before_its_lease_ends)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    int64_t ids[2] = { enqueue_kind(&w, "crawl"), enqueue_kind(&w, "crawl") };
    world_pass(&w, 15 * US_PER_S);
    int64_t until = w.engine->lease_until;
    set_database(&w, false);
    tick_without_database(&w, 5);
    check_int(w.stop_count, 0); /* there is time yet */
    while (w.stop_count == 0 && w.wall < until)
        tick_without_database(&w, 1);
    check(w.wall < until);
    check_int(w.stop_count, 2);
    for (size_t i = 0; i < 2; i++)
        check_int(w.stops[i].type, ERROR_CRASH);
    set_database(&w, true);
    tick_without_database(&w, 2);
    check_ok(fail_here(&w, ids[0], ERROR_INTERRUPTED)); /* nobody else judged it */
    check_int(state_of(&w, ids[1]), JOB_RUNNING);
    check_int(w.stop_count, 2);
    world_close(&w);
}

TEST(nobody_is_judged_before_one_lease_after_the_database_is_back)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    pass_beating(&w, w.settings.lease_us + US_PER_S, "s1");
    int64_t dead = enqueue_kind(&w, "crawl"), live = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), dead);
    check_int(claim_one(&w, "s2"), live);
    set_database(&w, false);
    tick_without_database(&w, 120); /* nobody can beat */
    set_database(&w, true);
    tick_without_database(&w, w.settings.lease_us / US_PER_S - 2);
    check_int(count_in(&w, JOB_RUNNING), 2);
    check_int(events_named(&w, "owner.died", NULL), 0);
    beat(&w, "s2");
    tick_without_database(&w, 5);
    check_int(state_of(&w, dead), JOB_FAILED);
    check_int(state_of(&w, live), JOB_RUNNING);
    check_ok(complete(&w, "s2", live));
    world_close(&w);
}

/* ---- a rebirth that fails ---- */

static void lose_the_connection(void *arg, int64_t job_id, int type)
{
    world_on_stop(arg, job_id, type);
    set_database(arg, false); /* just before it becomes somebody again */
}

TEST(a_node_that_could_not_be_reborn_does_no_work_until_it_is)
{
    struct world a, b;
    world_init_node(&a, "crawl", 1);
    world_open(&a);
    enqueue_kind(&a, "crawl");
    join(&b, &a, "host-b");
    world_open(&b);
    pass_both(&b, &a, 2 * b.settings.lease_us + US_PER_S, true);
    enqueue_kind(&b, "crawl");
    world_close(&b);
    a.started_count = 0;
    a.engine->hooks.stop_run = lose_the_connection;
    engine_tick(a.engine);
    check_int(a.stop_count, 1);
    check_int(a.engine->owner_id, 0);
    tick_without_database(&a, 3);
    check_int(a.engine->owner_id, 0);
    check_int(a.started_count, 0);
    set_database(&a, true);
    tick_without_database(&a, 3);
    check(a.engine->owner_id != 0);
    check_int(a.started_count, 1);
    check_int(look(&a, a.started[0]).run.owner_id, a.engine->owner_id);
    check_slice(owner_row(&a, a.engine->owner_id).name, "node");
    world_close(&a);
}

/* ---- whose clock counts ---- */

/* The machine's clock, set wrong by `wrong_us`. */
struct wrong_clock {
    struct clock clock;
    int64_t wrong_us;
};

static int64_t wrong_wall(const struct clock *clock)
{
    return clock_wall_us(&clock_system) + ((const struct wrong_clock *)clock)->wrong_us;
}

static int64_t right_mono(const struct clock *clock)
{
    (void)clock;
    return clock_mono_us(&clock_system);
}

static bool is_about_now(int64_t time)
{
    return llabs(time - clock_wall_us(&clock_system)) < 1800 * US_PER_S;
}

TEST(a_nodes_clock_may_be_wrong_and_jump_because_the_databases_counts)
{
    static const int64_t hours[] = { 5, -5, 0 };
    for (size_t i = 0; i < array_len(hours); i++) {
        struct world w;
        struct wrong_clock clock = { { wrong_wall, right_mono, true }, 0 };
        struct engine *engine = NULL;
        world_init(&w);
        clock.wrong_us = hours[i] * 3600 * US_PER_S;
        check_ok(engine_open(&(struct engine_options){ .url = w.url,
                                                       .node_name = "node",
                                                       .clock = &clock.clock,
                                                       .host = &w.host },
                             &w.error, &engine));
        w.engine = engine;
        check(is_about_now(engine->started_at));
        check(is_about_now(owner_row(&w, engine->owner_id).lease_until));
        beat(&w, "s1"); /* a worker */
        for (int64_t jump = -7; jump <= 7; jump += 7) {
            clock.wrong_us = jump * 3600 * US_PER_S;
            for (int k = 0; k < 20; k++)
                engine_tick(engine);
            check(is_about_now(engine_now(engine)));
            check(is_about_now(owner_row(&w, engine->owner_id).lease_until));
            check_int(session_row(&w, "s1").state, OWNER_ALIVE);
            check(engine->judge_from > engine_now(engine)); /* it may, but only later */
        }
        world_close(&w);
    }
}
