/* test: apart bare */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are told to end: by a cancel, a shutdown, their deadline or a
 * lease that nobody renews.  All of their process group ends, however it resists. */
#include "commands.h"

/* A command whose grandchild and itself ignore SIGTERM; each says its pid. */
static const char *stubborn(void)
{
    static char text[2000];

    snprintf(text, sizeof(text),
             "trap '' TERM; "
             "sh -c 'trap \"\" TERM; echo $$ >%s; while :; do sleep 0.1; done' & "
             "echo $$ >%s; while :; do sleep 0.1; done",
             test_path("grandchild"), test_path("child"));
    return text;
}

TEST(a_cancelled_command_gets_SIGTERM_and_may_finish_its_work)
{
    char text[1000];

    open_commands();
    snprintf(text, sizeof(text),
             "trap 'echo stopping; exit 0' TERM; : >%s; while :; do sleep 0.05; done",
             test_path("up"));
    start_script(1, text);
    wait_file("up");
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL));
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_INTERRUPT)); /* too late */
    const struct command_outcome *o = wait_end(1);
    check_int(o->end, COMMAND_EXITED);
    check_int(o->exit_code, 0);
    check_int(o->cause, COMMAND_CAUSE_CANCEL);
    check_int(command_outcome_failure(o), HF_FAILURE_NONE);
    check_slice(o->out.head, "stopping\n");
    check(!exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL)); /* it is over */
    check(!exec_command_stop(commands, 99, COMMAND_CAUSE_CANCEL));
    close_commands();
}

TEST(each_reason_to_stop_has_its_own_outcome)
{
    struct job job;

    open_commands();
    for (int64_t id = 1; id <= 3; id++) {
        char text[1000], up[16];
        snprintf(up, sizeof(up), "up%d", (int)id);
        snprintf(text, sizeof(text), ": >%s; exec sleep 100", test_path(up));
        script(&job, id, text);
        if (id == 3)
            job.order.deadline_ms = 1;
        start(&job, SLICE("{}"));
        if (id < 3)
            wait_file(up);
    }
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL));
    check(exec_command_stop(commands, 2, COMMAND_CAUSE_INTERRUPT));
    check_int(command_outcome_failure(wait_end(1)), HF_FAILURE_CANCELLED);
    check_int(command_outcome_failure(wait_end(2)), HF_FAILURE_INTERRUPTED);
    check_int(command_outcome_failure(wait_end(3)), HF_FAILURE_TIMEOUT);
    check_int(told[3].outcome.signal, SIGTERM);
    check_int(told[3].outcome.cause, COMMAND_CAUSE_DEADLINE);
    close_commands();
}

TEST(a_cancel_that_comes_with_the_start_is_not_lost)
{
    open_commands();
    for (int64_t id = 1; id <= 20; id++) {
        start_script(id, "exec sleep 100");
        check(exec_command_stop(commands, id, COMMAND_CAUSE_CANCEL));
    }
    for (int64_t id = 1; id <= 20; id++)
        check_int(command_outcome_failure(wait_end(id)), HF_FAILURE_CANCELLED);
    close_commands();
}

TEST(a_group_that_resists_SIGTERM_is_killed_with_its_grandchildren)
{
    struct job job;

    open_commands();
    script(&job, 1, stubborn());
    job.setup.grace_ms = 50;
    start(&job, SLICE("{}"));
    int64_t child = wait_number("child"), grandchild = wait_number("grandchild");
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL));
    const struct command_outcome *o = wait_end(1);
    check_int(o->end, COMMAND_SIGNALLED);
    check_int(o->signal, SIGKILL);
    check_int(o->cause, COMMAND_CAUSE_CANCEL);
    /* Not later: gone before the outcome was told. */
    check(is_gone(&child) && is_gone(&grandchild));
    close_commands();
}

TEST(a_grandchild_gets_its_grace_when_the_command_has_ended_already)
{
    char text[2000];
    struct job job;

    open_commands();
    snprintf(text, sizeof(text),
             "sh -c 'trap \"sleep 0.3; echo >%s; exit\" TERM; echo $$ >%s; "
             "while :; do sleep 0.05; done' & while :; do sleep 0.05; done",
             test_path("tidied"), test_path("grandchild"));
    start(script(&job, 1, text), SLICE("{}"));
    int64_t grandchild = wait_number("grandchild");
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL));
    check_int(wait_end(1)->signal, SIGTERM);
    check(is_gone(&grandchild));
    check_int(access(test_path("tidied"), F_OK), 0);
    close_commands();
}

TEST(what_a_command_leaves_in_its_group_ends_with_it)
{
    char text[2000];
    struct job job;

    open_commands();
    snprintf(text, sizeof(text),
             "sh -c 'trap \"\" TERM; echo $$ >%s; while :; do sleep 0.1; done' & "
             "while [ ! -s %s ]; do sleep 0.02; done; echo done; exit 4",
             test_path("left"), test_path("left"));
    script(&job, 1, text);
    job.setup.grace_ms = 50;
    start(&job, SLICE("{}"));
    const struct command_outcome *o = wait_end(1);
    int64_t left = wait_number("left");
    check_int(o->exit_code, 4);
    check_int(o->cause, COMMAND_CAUSE_NONE);
    check_slice(o->out.head, "done\n");
    check(is_gone(&left));
    close_commands();
}

TEST(a_daemon_with_a_session_of_its_own_is_left_alone)
{
    char text[2000];

    open_commands();
    snprintf(text, sizeof(text),
             "setsid sh -c 'echo $$ >%s; exec sleep 100' & "
             "while [ ! -s %s ]; do sleep 0.02; done",
             test_path("daemon"), test_path("daemon"));
    start_script(1, text);
    check_int(wait_end(1)->exit_code, 0);
    int64_t daemon = wait_number("daemon");
    check(!is_gone(&daemon));
    check_int(kill((pid_t)daemon, SIGKILL), 0);
    wait_gone(daemon);
    close_commands();
}

TEST(a_stopped_command_hears_that_it_should_end)
{
    char text[1000];

    open_commands();
    snprintf(text, sizeof(text), "echo $$ >%s; kill -STOP $$; exit 9", test_path("pid"));
    start_script(1, text);
    wait_number("pid");
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL));
    check_int(wait_end(1)->cause, COMMAND_CAUSE_CANCEL);
    close_commands();
}

TEST(endless_output_neither_delays_the_deadline_nor_fills_anything)
{
    struct job job;

    open_commands();
    script(&job, 1, "exec yes 0123456789");
    job.order.deadline_ms = 300;
    start(&job, SLICE("{}"));
    const struct command_outcome *o = wait_end(1);
    check_int(o->cause, COMMAND_CAUSE_DEADLINE);
    check(o->out.total > 2 * LIMIT_OUTPUT_BYTES);
    check_int(o->out.head.n + o->out.tail.n, 2 * LIMIT_OUTPUT_BYTES);
    for (int64_t i = 0; i < LIMIT_OUTPUT_BYTES; i++) {
        check_int(o->out.head.p[i], "0123456789\n"[i % 11]);
        check_int(o->out.tail.p[i],
                  "0123456789\n"[(o->out.total - LIMIT_OUTPUT_BYTES + i) % 11]);
    }
    close_commands();
}

/* ---- leases ---- */

TEST(a_command_whose_lease_is_not_renewed_has_ended_before_the_lease)
{
    struct job job;

    open_commands();
    script(&job, 1, stubborn());
    job.setup.grace_ms = 60000; /* longer than there is */
    job.order.lease_ms = 3000;
    job.order.lease_until_us = command_boot_us() + 3000 * US_PER_MS;
    start(&job, SLICE("{}"));
    int64_t grandchild = wait_number("grandchild");
    const struct command_outcome *o = wait_end(1);
    check_int(o->cause, COMMAND_CAUSE_LEASE);
    check_int(o->signal, SIGKILL);
    check_int(command_outcome_failure(o), HF_FAILURE_INTERRUPTED);
    check(is_gone(&grandchild));
    close_commands();
}

static bool is_past(void *arg)
{
    return command_boot_us() > *(int64_t *)arg;
}

TEST(a_lease_that_is_renewed_does_not_end_the_command)
{
    struct job job;
    char text[1000];

    open_commands();
    snprintf(text, sizeof(text), "while [ ! -e %s ]; do sleep 0.02; done",
             test_path("go"));
    script(&job, 1, text);
    int64_t until_us = command_boot_us() + 1000 * US_PER_MS;
    job.order.lease_ms = 1000;
    job.order.lease_until_us = until_us;
    start(&job, SLICE("{}"));
    exec_commands_renew(commands, until_us + 600 * US_PER_S);
    int64_t later_us = until_us + 200 * US_PER_MS;
    wait_for(is_past, &later_us, "the first lease was over");
    check_int(told[1].ended, 0);
    close(open(test_path("go"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    check_int(command_outcome_failure(wait_end(1)), HF_FAILURE_NONE);
    close_commands();
}
