/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner without a node: what it begins, and what it does not begin any more. */
#include "exec/runner.h"

#include <event2/event.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/exec_command.h"
#include "exec/leftovers.h"
#include "exec/supervisor.h"
#include "test.h"

/* The test program is its own supervisor, as `holdfast` is. */
__attribute__((constructor)) static void become_supervisor(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "supervise") == 0)
        _exit(supervisor_main(argv[2]));
}

static const char *const nothing[] = { "/bin/true", NULL };

struct bench {
    struct event_base *loop;
    struct runner *runner;
    struct runner_command command;
    const char *state_dir;
};

static void begin(struct bench *b)
{
    struct error error = { 0 };
    *b = (struct bench){ .loop = event_base_new(), .state_dir = test_path("state") };
    check_int(mkdir(b->state_dir, 0700), 0);
    command_setup_init(&b->command.setup);
    b->command.kind = "true";
    b->command.setup.argv = nothing;
    check_ok(runner_new(&(struct runner_options){ .loop = b->loop,
                                                  .state_dir = b->state_dir,
                                                  .clock = &clock_system },
                        &error, &b->runner));
    runner_set_commands(b->runner, &b->command, 1);
    check_ok(runner_scan(b->runner, &error));
}

static void end(struct bench *b)
{
    runner_free(b->runner);
    event_base_free(b->loop);
}

static struct started run_of(int64_t id, const char *kind)
{
    int64_t now = clock_wall_us(&clock_system);
    return (struct started){
        .job = { .id = id, .kind = slice_of(kind), .payload = SLICE("{}"), .attempt = 1 },
        .started_at = now,
        .deadline_at = now + 60 * US_PER_S,
    };
}

TEST(after_the_hand_over_nothing_more_is_begun)
{
    struct bench b;
    struct started command = run_of(7, "true"), http = run_of(8, "http");
    char record[600];
    struct stat info;

    begin(&b);
    runner_hand_over(b.runner, false);
    runner_started(b.runner, &command);
    runner_started(b.runner, &http);
    check_int(runner_busy(b.runner), 0);
    snprintf(record, sizeof(record), "%s/runs/7", b.state_dir);
    check(stat(record, &info) < 0);
    end(&b);
}

TEST(requests_that_are_under_way_when_it_is_freed_end_in_a_table_that_is_there)
{
    struct bench b;
    struct started http = run_of(8, "http");

    begin(&b);
    http.job.payload = SLICE("{\"url\":\"http://127.0.0.1:1/\"}");
    runner_started(b.runner, &http);
    check_int(runner_busy(b.runner), 1);
    end(&b);
}

TEST(what_an_earlier_scheduler_left_is_to_be_had_once)
{
    struct leftovers *left = NULL;
    struct error error = { 0 };
    struct bench b;
    struct started command = run_of(7, "true");

    begin(&b);
    runner_started(b.runner, &command);
    while (runner_commands(b.runner) > 0) /* its end cannot be reported: no node */
        check_int(event_base_loop(b.loop, EVLOOP_ONCE), 0);
    end(&b);
    check_ok(leftovers_scan(b.state_dir, &error, &left));
    check(leftovers_lives(left, 7));
    check(leftovers_lives(left, 7)); /* a transaction may roll back and ask again */
    check(!leftovers_lives(left, 8));
    leftovers_take(left, 7);
    check(!leftovers_lives(left, 7));
    leftovers_free(left);
}
