/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes and producers on PostgreSQL when the database goes away, when a rebirth
 * fails, and when their own clocks are wrong. */
#include <libpq-fe.h>
#include <stdlib.h>

#include "nodes.h"
#include "relay.h"

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
static void set_database_of(const char *url, bool there)
{
    char text[300];
    const char *name = database_of(url);
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

static void set_database(struct world *w, bool there)
{
    set_database_of(w->url, there);
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

TEST(nothing_is_begun_under_a_lease_that_is_over)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    set_database(&w, false);
    tick_without_database(&w, w.settings.lease_us / US_PER_S + 1);
    set_database(&w, true);
    enqueue_kind(&w, "crawl");     /* it comes before the next beat */
    check_int(w.started_count, 0); /* others may be about to judge us */
    tick_without_database(&w, 1);
    check_int(w.started_count, 1);
    world_close(&w);
}

/* ---- a COMMIT whose outcome nobody can tell yet ---- */

static void take_away(void *url)
{
    set_database_of(url, false);
}

/* A node that loses its line, and the database with it, at the COMMIT the test aims at. */
static struct relay *open_behind_relay(struct world *w)
{
    world_init_node(w, "crawl", 1);
    struct relay *relay = relay_start(w->url, RELAY_COMMIT);
    relay->meanwhile = take_away;
    relay->arg = (void *)(uintptr_t)w->url;
    w->url = relay->url;
    world_open(w);
    return relay;
}

static void let_it_come_back(struct world *w)
{
    tick_without_database(w, 2);
    set_database(w, true);
    tick_without_database(w, 2);
}

TEST(what_a_commit_of_unknown_outcome_began_and_ended_is_found_when_the_line_is_back)
{
    struct world w;
    struct relay *relay = open_behind_relay(&w);
    relay_aim(relay, RELAY_NOT_TOLD, 1, 0);
    check_err(try_enqueue(&w, job_of_kind("crawl"), NULL), -HF_UNKNOWN);
    check_int(w.started_count, 0);
    let_it_come_back(&w);
    check_int(w.started_count, 1); /* it is claimed for us: nobody else would begin it */
    check_int(w.engine->run_count, 1);

    relay_aim(relay, RELAY_NOT_TOLD, 1, 0);
    check_err(complete_here(&w, w.started[0]), -HF_UNKNOWN);
    let_it_come_back(&w);
    check_int(state_of(&w, w.started[0]), JOB_COMPLETED);
    check_int(w.engine->run_count, 0); /* and its slot is free */
    enqueue_kind(&w, "crawl");
    check_int(w.started_count, 2);
    world_close(&w);
    relay_end(relay);
}

TEST(what_a_commit_that_never_arrived_would_have_begun_is_forgotten)
{
    struct world w;
    struct relay *relay = open_behind_relay(&w);
    relay_aim(relay, RELAY_NOT_SENT, 1, 0);
    check_err(try_enqueue(&w, job_of_kind("crawl"), NULL), -HF_UNKNOWN);
    let_it_come_back(&w);
    check_int(w.started_count, 0);
    check_int(count_in(&w, 0), 0);
    enqueue_kind(&w, "crawl");
    check_int(w.started_count, 1);
    world_close(&w);
    relay_end(relay);
}

struct late {
    struct command *command;
    int asked, answered;
};

static size_t come_late(void *arg, struct command **to, size_t most)
{
    struct late *late = arg;
    check(most > 0);
    *to = late->command;
    return late->asked++ == 0 ? 1 : 0;
}

static void count_answer(struct command *c, void *arg)
{
    check_ok(c->result);
    ((struct late *)arg)->answered++;
}

TEST(who_joined_a_pile_is_answered_once_wherever_its_commit_was_lost)
{
    for (int cut = 0; cut < RELAY_CUTS; cut++) {
        struct world w;
        struct relay *relay = open_behind_relay(&w);
        relay->meanwhile = NULL; /* the line is lost, the database is there */
        int64_t first = enqueue_kind(&w, "crawl");
        struct late late = { .command = command_new(OP_COMPLETE) };
        late.command->complete.job_id = first;
        late.command->complete.owner_id = w.engine->owner_id;
        late.command->done = count_answer;
        late.command->done_arg = &late;
        w.engine->latecomers = (struct latecomers){ come_late, &late };
        relay_aim(relay, (enum relay_cut)cut, 1, 0);
        int64_t second = enqueue_kind(&w, "crawl");
        check_int(relay->cuts, 1);
        check_int(late.answered, 1);
        check_int(state_of(&w, first), JOB_COMPLETED);
        check_int(state_of(&w, second), JOB_RUNNING);
        check_int(w.started_count, 2);
        check_int(w.engine->run_count, 1);
        command_free(late.command);
        world_close(&w);
        relay_end(relay);
    }
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

/* ---- producers ---- */

static void open_producer(struct world *w)
{
    check_ok(engine_open(&(struct engine_options){ .url = w->url,
                                                   .node_name = "producer",
                                                   .producer = true,
                                                   .clock = &w->clock,
                                                   .host = &w->host },
                         &w->error, &w->engine));
}

TEST(a_producer_that_crashed_is_dead_in_time_and_a_living_one_is_not)
{
    struct world a, dead, live;
    world_init(&a);
    world_open(&a);
    join(&dead, &a, "host-b");
    join(&live, &a, "host-c");
    open_producer(&dead);
    open_producer(&live);
    enqueue_kind(&dead, "crawl");
    int64_t gone = dead.engine->owner_id, there = live.engine->owner_id;
    world_crash(&dead);
    for (int second = 0; second < 70; second++) {
        live.wall += US_PER_S;
        live.mono += US_PER_S;
        engine_tick(live.engine);
        world_pass(&a, US_PER_S);
    }
    check_int(owner_row(&a, gone).state, OWNER_DEAD);
    check_int(owner_row(&a, there).state, OWNER_ALIVE);
    world_pass(&a, 70 * US_PER_S); /* now it hangs, too, and is taken for dead */
    check_int(owner_row(&a, there).state, OWNER_DEAD);
    live.wall = a.wall;
    live.mono = a.mono;
    int64_t id = enqueue_kind(&live, "crawl"); /* and nothing is lost by it */
    check_int(state_of(&a, id), JOB_QUEUED);
    check(live.engine->owner_id != there);
    check_int(owner_row(&a, live.engine->owner_id).type, OWNER_PRODUCER);
    check_clean(&a);
    world_close(&live);
    world_close(&dead);
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
