/* SPDX-License-Identifier: Apache-2.0
 *
 * Two engines on one PostgreSQL, one step of one at a time: who executes what,
 * what one decides and the other must see at once, and who takes over from whom. */
/* test: once */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "two.h"

/* ---- kinds ---- */

static void check_started(struct world *w, const char *kind, size_t count)
{
    check_int(w->started_count, count);
    for (size_t i = 0; i < count; i++)
        check_slice(look(w, w->started[i]).job.kind, kind);
}

TEST(a_node_executes_its_own_kinds_only_whoever_came_first)
{
    struct two two;
    two_init(&two);
    two.a.kinds[0] = "crawl";
    two.b.kinds[0] = "mail";
    two.a.kind_count = two.b.kind_count = 1;
    two.a.capacity = two.b.capacity = 10;
    two_open(&two.a);
    two_open(&two.b);
    for (int i = 0; i < 3; i++) {
        enqueue_kind(&two.a, "mail");
        enqueue_kind(&two.a, "crawl");
        enqueue_kind(&two.b, "mail");
        enqueue_kind(&two.b, "crawl");
    }
    two_pass(&two, 3 * US_PER_S);
    check_started(&two.a, "crawl", 6);
    check_started(&two.b, "mail", 6);
    two_close(&two);
}

TEST(nodes_of_one_kind_share_the_work_and_claim_nothing_twice)
{
    struct two two;
    two_init(&two);
    two.a.kinds[0] = two.b.kinds[0] = "crawl";
    two.a.kind_count = two.b.kind_count = 1;
    two.a.capacity = two.b.capacity = 4;
    two_open(&two.a);
    two_open(&two.b);
    for (int i = 0; i < 40; i++)
        enqueue_kind(i % 2 ? &two.a : &two.b, "crawl");
    size_t done[2] = { 0, 0 };
    for (int round = 0; round < 100 && done[0] + done[1] < 40; round++) {
        struct world *w = round % 2 ? &two.a : &two.b;
        size_t *n = &done[round % 2];
        while (*n < w->started_count) {
            struct command *c = command_new(OP_COMPLETE);
            c->complete.job_id = w->started[(*n)++];
            c->complete.owner_id = w->engine->owner_id;
            check_ok(world_apply(w, c));
            command_free(c);
        }
        two_pass(&two, US_PER_S);
    }
    check_int(two.a.started_count + two.b.started_count, 40);
    check(two.a.started_count > 0 && two.b.started_count > 0);
    for (size_t i = 0; i < two.a.started_count; i++)
        for (size_t j = 0; j < two.b.started_count; j++)
            check(two.a.started[i] != two.b.started[j]);
    two_close(&two);
}

/* ---- what the other one decided ---- */

TEST(a_pause_a_limit_and_a_hold_by_one_bind_the_other_at_once)
{
    struct two two;
    int64_t ids[10];
    int state = 0;
    two_init(&two);
    two_open(&two.a);
    two_open(&two.b);
    for (int i = 0; i < 10; i++)
        enqueue_kind(&two.a, "print");
    check_int(try_claim(&two.b, "b", "default", 1, ids), 1); /* b knows the queue */

    set_pause(&two.a, "default", true);
    check_int(try_claim(&two.b, "b", "default", 5, ids + 1), 0);
    set_pause(&two.a, "default", false);
    check_int(try_claim(&two.b, "b", "default", 1, ids + 1), 1);

    /* b does not know of the limit yet, and must not pass it for that. */
    set_limits(&two.a, "default", -1, 3);
    int n = try_claim(&two.b, "b", "default", 5, ids + 2);
    check(n <= 1);
    n += try_claim(&two.b, "b", "default", 5, ids + 2 + n);
    check_int(n, 1);
    set_limits(&two.a, "default", -1, 0);

    int64_t hold = reserve(&two.a, "default", &state);
    check_int(state, RESERVATION_DRAINING);
    check_int(try_claim(&two.b, "b", "default", 5, ids + 3), 0);
    for (int i = 0; i < 3; i++)
        check_ok(complete(&two.b, "b", ids[i]));
    two_pass(&two, 2 * US_PER_S);
    check_int(reservation_state(&two.b, hold), RESERVATION_ACTIVE);
    check_int(try_claim(&two.b, "b", "default", 5, ids + 3), 0);
    check_ok(release(&two.b, hold));
    check_int(try_claim(&two.a, "a", "default", 5, ids + 3), 5);
    two_close(&two);
}

/* ---- deaths ---- */

/* Opens both, `a` with three runs under way; returns the first run's id. */
static int64_t with_runs_of_a(struct two *two)
{
    two->a.kinds[0] = two->b.kinds[0] = "crawl";
    two->a.kind_count = two->b.kind_count = 1;
    two->a.capacity = 3;
    two_open(&two->a);
    two_open(&two->b);
    for (int i = 0; i < 3; i++)
        enqueue_kind(&two->a, "crawl");
    two_pass(two, US_PER_S);
    check_int(two->a.started_count, 3);
    return two->a.started[0];
}

static void check_crashed_and_retried(struct two *two)
{
    for (int i = 0; i < 3; i++) {
        struct job_row row = look(&two->b, two->a.started[i]);
        check_int(row.job.state, JOB_FAILED);
        check_int(row.run.error.type, ERROR_CRASH);
        check_int(row.job.retry_state, RETRY_RETRIED);
        check(retry_of(&two->b, row.job.id) != 0);
    }
}

TEST(a_node_elsewhere_is_dead_when_its_lease_is_over_and_not_before)
{
    struct two two;
    two_init(&two);
    snprintf(two.a.host.boot_id, sizeof(two.a.host.boot_id), "another-machine");
    int64_t lease = two.a.settings.lease_us;
    int64_t id = with_runs_of_a(&two);
    two_pass(&two, 2 * lease); /* it lives, and beats */
    check_int(state_of(&two.b, id), JOB_RUNNING);
    int64_t until = two.a.engine->lease_until;
    world_crash(&two.a);
    two_pass(&two, until - two.b.wall - US_PER_MS);
    check_int(state_of(&two.b, id), JOB_RUNNING);
    two_pass(&two, US_PER_S); /* acted upon within one second */
    check_crashed_and_retried(&two);
    two_close(&two);
}

TEST(a_node_of_this_machine_is_dead_as_soon_as_its_process_is)
{
    struct two two;
    two_init(&two);
    two.a.host.pid = 1 << 30; /* there is none of that number */
    two.a.kinds[0] = two.b.kinds[0] = "crawl";
    two.a.kind_count = two.b.kind_count = 1;
    two.a.capacity = 3;
    two_open(&two.b);
    two_open(&two.a);
    for (int i = 0; i < 3; i++)
        enqueue_kind(&two.a, "crawl");
    world_settle(&two.a);
    check_int(two.a.started_count, 3);
    world_crash(&two.a);
    two_pass(&two, US_PER_S);
    check_crashed_and_retried(&two);
    two_close(&two);
}

TEST(a_node_that_was_taken_for_dead_stops_and_goes_on_as_another)
{
    struct two two;
    two_init(&two);
    snprintf(two.a.host.boot_id, sizeof(two.a.host.boot_id), "another-machine");
    int64_t id = with_runs_of_a(&two);
    int64_t before = two.a.engine->owner_id;
    struct engine *asleep = two.a.engine;
    two.a.engine = NULL; /* its machine is suspended */
    two_pass(&two, 3 * two.a.settings.lease_us);
    check_crashed_and_retried(&two);

    two.a.engine = asleep;
    struct command *c = command_new(OP_COMPLETE);
    c->complete.job_id = id;
    c->complete.owner_id = before;
    check_err(world_apply(&two.a, c), -HF_LATE);
    command_free(c);
    check_int(state_of(&two.b, id), JOB_FAILED);
    check(two.a.engine->owner_id != before);
    check_int(two.a.stop_count, 3);
    check_int(two.a.engine->run_count, 0);
    two_pass(&two, 61 * US_PER_S);         /* the retries fall due, and it takes some */
    check_int(two.a.started_count, 3 + 1); /* what half of three slots may */
    two_close(&two);
}

TEST(a_node_that_was_taken_for_dead_learns_it_at_its_next_tick)
{
    struct two two;
    two_init(&two);
    snprintf(two.a.host.boot_id, sizeof(two.a.host.boot_id), "another-machine");
    with_runs_of_a(&two);
    int64_t before = two.a.engine->owner_id;
    /* Somebody else's word, so that no jump of the clock makes it beat. */
    run_sql(&two.b, "UPDATE owners SET state = 3, ended_at = 1 WHERE state = 1 AND id = "
                    "(SELECT min(id) FROM owners)");
    two_pass(&two, US_PER_S);
    check_int(two.a.stop_count, 3);
    check(two.a.engine->owner_id != before);
    two_close(&two);
}

/* ---- a process that is killed ---- */

struct child {
    pid_t pid;
    int out; /* reads what it tells */
};

/* A process of its own, in which an engine claims three jobs and works on them
 * for ever. */
static struct child start_child(const char *url)
{
    int pipes[2];
    check_int(pipe(pipes), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid > 0) {
        close(pipes[1]);
        return (struct child){ pid, pipes[0] };
    }
    struct error error = { 0 };
    struct engine *engine = NULL;
    const char *kind = "crawl";
    if (engine_open(
            &(struct engine_options){ .url = url, .kinds = &kind, .kind_count = 1 },
            &error, &engine) < 0)
        _exit(1);
    engine_set_capacity(engine, 3);
    bool told = false;
    for (;;) {
        engine_tick(engine);
        if (engine->run_count == 3 && !told)
            told = write(pipes[1], "3", 1) == 1;
        usleep(1000);
    }
}

struct waiting {
    struct world *w;
    int64_t *ids;
};

static bool all_failed(void *arg)
{
    struct waiting *waiting = arg;
    engine_tick(waiting->w->engine);
    for (int i = 0; i < 3; i++)
        if (state_of(waiting->w, waiting->ids[i]) != JOB_FAILED)
            return false;
    return true;
}

static int64_t real_wall(const struct clock *clock)
{
    (void)clock;
    return clock_wall_us(&clock_system);
}

TEST(a_killed_process_is_seen_at_once_and_a_living_one_is_left_alone)
{
    struct two two;
    int64_t ids[3];
    char word;
    two_init(&two);
    struct world *w = &two.b;
    /* Real time, in which no lease can run out before the test does. */
    w->clock.wall_us = real_wall;
    w->settings.lease_us = 600 * US_PER_S;
    w->settings.poll_interval_us = 10 * US_PER_MS;
    world_open_cold(w);
    while (!w->engine->ready)
        engine_tick(w->engine);
    for (int i = 0; i < 3; i++)
        ids[i] = enqueue_kind(w, "crawl");
    struct child child = start_child(w->url);
    check_int(read(child.out, &word, 1), 1);
    for (int i = 0; i < 50; i++) {
        engine_tick(w->engine);
        usleep(1000);
    }
    for (int i = 0; i < 3; i++)
        check_int(state_of(w, ids[i]), JOB_RUNNING);
    check_int(kill(child.pid, SIGKILL), 0);
    /* Not waited for: a zombie executes nothing. */
    check(test_wait(all_failed, &(struct waiting){ w, ids }, 60000));
    check_int(waitpid(child.pid, NULL, 0), child.pid);
    for (int i = 0; i < 3; i++) {
        check_int(look(w, ids[i]).run.error.type, ERROR_CRASH);
        check(retry_of(w, ids[i]) != 0);
    }
    two_close(&two);
}
