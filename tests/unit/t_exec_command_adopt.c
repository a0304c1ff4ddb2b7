/* test: apart bare */
/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler is killed with -9 while commands run; the next one finds each
 * of them alive, ended with its real outcome, or dead. */
#include "commands.h"

/* A scheduler in a process of its own, which starts these and is then killed at
 * once, with all its descriptors. */
static void killed_scheduler(const struct job *jobs, size_t count)
{
    int up[2];
    char byte;

    check_int(pipe2(up, O_CLOEXEC), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        open_commands();
        for (size_t i = 0; i < count; i++)
            start(&jobs[i], SLICE("{\"x\":1}"));
        check_int(write(up[1], "x", 1), 1);
        for (;;)
            pause();
    }
    close(up[1]);
    check_int(read(up[0], &byte, 1), 1);
    close(up[0]);
    check_int(kill(pid, SIGKILL), 0);
    check_int(waitpid(pid, NULL, 0), pid);
}

/* ---- what a scan tells ---- */

static struct exec_command_found found[JOBS_MAX];
static size_t found_count;

static int on_found(void *arg, const struct exec_command_found *one)
{
    check(arg == found);
    found[one->job_id] = *one;
    found[one->job_id].outcome.out = keep_output(&one->outcome.out);
    found[one->job_id].outcome.error = arena_dup(&kept, one->outcome.error);
    found_count++;
    return 0;
}

static void scan(bool look_only)
{
    struct error error = { 0 };

    memset(found, 0, sizeof(found));
    found_count = 0;
    if (exec_command_scan(test_dir(), look_only, on_found, found, &error) < 0)
        fail("%s", error.text);
}

static bool scan_says(void *arg)
{
    const int *expected = arg; /* job, state */

    scan(true);
    return (int)found[expected[0]].state == expected[1];
}

static bool scan_has_output(void *arg)
{
    scan(true);
    return found[*(int64_t *)arg].outcome.out.total > 0;
}

static const char *waits_for(const char *file, const char *then)
{
    static char texts[8][1000];
    static int next;
    char *text = texts[next++ % 8];

    snprintf(text, 1000, "cat; while [ ! -e %s ]; do sleep 0.02; done; %s",
             test_path(file), then);
    return text;
}

static void touch(const char *file)
{
    close(open(test_path(file), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

TEST(a_command_that_lives_is_adopted_and_finishes_with_all_its_output)
{
    struct job job;

    script(&job, 5, waits_for("go", "echo; echo '{\"late\":true}'; exit 0"));
    killed_scheduler(&job, 1);
    open_commands();
    wait_for(scan_says, (int[]){ 5, COMMAND_ALIVE }, "the command was alive");
    scan(false);
    check_int(found_count, 1);
    check_int(found[5].state, COMMAND_ALIVE);
    check_ok(exec_command_adopt(commands, 5, NULL));
    check_int(exec_commands_count(commands), 1);
    touch("go");
    const struct command_outcome *o = wait_end(5);
    check_int(command_outcome_failure(o), HF_FAILURE_NONE);
    check_slice(o->out.head, "{\"x\":1}\n{\"late\":true}\n");
    check_slice(o->result, "{\"late\":true}");
    check_int(told[5].started, 0);
    check_ok(exec_command_forget(test_dir(), 5, NULL));
    scan(false);
    check_int(found_count, 0);
    close_commands();
}

TEST(a_command_that_ended_meanwhile_has_its_real_outcome)
{
    struct job jobs[2];

    script(&jobs[0], 1, waits_for("go", "exit 42"));
    script(&jobs[1], 2, waits_for("go", "kill -9 $$"));
    killed_scheduler(jobs, 2);
    touch("go");
    open_commands();
    wait_for(scan_says, (int[]){ 1, COMMAND_ENDED }, "the first had ended");
    wait_for(scan_says, (int[]){ 2, COMMAND_ENDED }, "the second had ended");
    for (int round = 0; round < 2; round++) { /* until it is forgotten */
        scan(false);
        check_int(found_count, 2);
        check_int(found[1].outcome.exit_code, 42);
        check_slice(found[1].outcome.out.head, "{\"x\":1}");
        check_int(found[2].outcome.signal, SIGKILL);
    }
    /* Whoever adopts it instead is told soon. */
    check_ok(exec_command_adopt(commands, 1, NULL));
    check_int(wait_end(1)->exit_code, 42);
    close_commands();
}

TEST(a_command_that_was_killed_with_its_supervisor_is_dead)
{
    struct command_start start;
    struct job job;

    script(&job, 1, waits_for("never", ""));
    killed_scheduler(&job, 1);
    open_commands();
    wait_for(scan_has_output, &(int64_t){ 1 }, "the command had printed something");
    check_int(state_of(1, &start), COMMAND_ALIVE);
    check_int(kill((pid_t)start.supervisor.pid, SIGKILL), 0);
    wait_gone(start.supervisor.pid);
    wait_gone(start.pid); /* the kernel sees to that */
    scan(false);
    check_int(found[1].state, COMMAND_DEAD);
    check_int(found[1].outcome.end, COMMAND_LOST);
    check_int(command_outcome_failure(&found[1].outcome), HF_FAILURE_CRASH);
    check_slice(found[1].outcome.out.head, "{\"x\":1}");
    check_ok(exec_command_adopt(commands, 1, NULL));
    check_int(wait_end(1)->end, COMMAND_LOST);
    close_commands();
}

TEST(what_a_killed_supervisor_leaves_of_its_group_is_killed_by_whoever_finds_it)
{
    struct command_start start_record;
    char text[1000];

    open_commands();
    for (int64_t id = 1; id <= 2; id++) {
        snprintf(text, sizeof(text),
                 "sh -c 'trap \"\" HUP TERM; echo $$ >%s%d; exec sleep 100' & wait",
                 test_path("left"), (int)id);
        start_script(id, text);
    }
    int64_t left1 = wait_number("left1"), left2 = wait_number("left2");

    /* Found by the scheduler that watches it. */
    check_int(state_of(1, &start_record), COMMAND_ALIVE);
    check_int(kill((pid_t)start_record.supervisor.pid, SIGKILL), 0);
    check_int(wait_end(1)->end, COMMAND_LOST);
    wait_gone(left1);

    /* Found by a scan; one that only looks leaves it alone. */
    check_int(state_of(2, &start_record), COMMAND_ALIVE);
    exec_commands_free(commands);
    commands = NULL;
    check_int(kill((pid_t)start_record.supervisor.pid, SIGKILL), 0);
    wait_gone(start_record.supervisor.pid);
    wait_gone(start_record.pid);
    scan(true);
    check_int(found[2].state, COMMAND_DEAD);
    check(!is_gone(&left2));
    scan(false);
    check_int(found[2].state, COMMAND_DEAD);
    wait_gone(left2);
    close_commands();
}

TEST(the_deadline_is_kept_while_no_scheduler_is_there)
{
    struct job job;
    char text[1000];

    snprintf(text, sizeof(text),
             "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >%s; exec sleep 100' & "
             "while :; do sleep 0.1; done",
             test_path("grandchild"));
    script(&job, 1, text);
    job.order.deadline_ms = 1500;
    job.setup.grace_ms = 50;
    killed_scheduler(&job, 1);
    open_commands();
    int64_t grandchild = wait_number("grandchild");
    wait_for(scan_says, (int[]){ 1, COMMAND_ENDED }, "the deadline was kept");
    check_int(found[1].outcome.cause, COMMAND_CAUSE_DEADLINE);
    check_int(command_outcome_failure(&found[1].outcome), HF_FAILURE_TIMEOUT);
    check(is_gone(&grandchild));
    close_commands();
}

TEST(an_adopted_command_can_be_cancelled_and_its_lease_renewed)
{
    struct job jobs[2];

    script(&jobs[0], 1, "exec sleep 100");
    script(&jobs[1], 2, waits_for("go", "exit 0"));
    jobs[1].order.lease_ms = 5000;
    jobs[1].order.lease_until_us = command_boot_us() + 5000 * US_PER_MS;
    killed_scheduler(jobs, 2);
    open_commands();
    wait_for(scan_says, (int[]){ 1, COMMAND_ALIVE }, "the first was alive");
    wait_for(scan_says, (int[]){ 2, COMMAND_ALIVE }, "the second was alive");
    check_ok(exec_command_adopt(commands, 1, NULL));
    check_ok(exec_command_adopt(commands, 2, NULL));
    exec_commands_renew(commands, command_boot_us() + 600 * US_PER_S);
    check(exec_command_stop(commands, 1, COMMAND_CAUSE_CANCEL));
    check_int(command_outcome_failure(wait_end(1)), HF_FAILURE_CANCELLED);
    struct slice lease;
    int records = command_records_open(test_dir(), false, NULL);
    int record = command_record_open(records, 1, NULL);
    check_err(command_record_get(record, "lease", 32, &kept, &lease), -HF_NOT_FOUND);
    close(record);
    record = command_record_open(records, 2, NULL);
    check_ok(command_record_get(record, "lease", 32, &kept, &lease));
    close(record);
    close(records);
    touch("go");
    check_int(command_outcome_failure(wait_end(2)), HF_FAILURE_NONE);
    close_commands();
}

TEST(a_supervisor_survives_what_ends_the_scheduler)
{
    struct job job;
    struct command_start record;

    script(&job, 1, waits_for("go", "exit 0"));
    killed_scheduler(&job, 1);
    open_commands();
    wait_for(scan_says, (int[]){ 1, COMMAND_ALIVE }, "the command was alive");
    check_int(state_of(1, &record), COMMAND_ALIVE);
    check_int(getsid((pid_t)record.supervisor.pid), record.supervisor.pid);
    check_int(getpgid((pid_t)record.supervisor.pid), record.supervisor.pid);
    check_int(getpgid((pid_t)record.pid), record.pid);
    touch("go");
    wait_for(scan_says, (int[]){ 1, COMMAND_ENDED }, "it had ended");
    close_commands();
}

TEST(fifty_commands_over_five_schedulers_are_each_executed_once)
{
    enum { LIVES = 5, EACH = 10 };
    struct job jobs[EACH];
    char text[1000];

    snprintf(text, sizeof(text), "echo $RUN >>%s; exit $((RUN %% 7))", test_path("log"));
    open_commands();
    for (int life = 0; life < LIVES; life++) {
        static char names[LIVES * EACH][16];
        static const char *envs[LIVES * EACH][2];
        for (int i = 0; i < EACH; i++) {
            int id = life * EACH + i + 1;
            snprintf(names[id - 1], sizeof(names[0]), "RUN=%d", id);
            envs[id - 1][0] = names[id - 1];
            script(&jobs[i], id, text)->order.env = envs[id - 1];
        }
        killed_scheduler(jobs, EACH);
        scan(false);
        for (int64_t id = 1; id <= (life + 1) * EACH; id++)
            if (found[id].state == COMMAND_ALIVE && !told[id].ended)
                check_ok(exec_command_adopt(commands, id, NULL));
        for (int64_t id = 1; id <= (life + 1) * EACH; id++)
            if (found[id].state == COMMAND_ALIVE && !told[id].ended)
                wait_end(id);
    }
    scan(false);
    int runs[LIVES * EACH + 1] = { 0 }, executed = 0, run;
    FILE *log = fopen(test_path("log"), "re");
    while (log && fscanf(log, "%d", &run) == 1)
        runs[run]++;
    if (log)
        fclose(log);
    for (int id = 1; id <= LIVES * EACH; id++) {
        bool ended = found[id].state == COMMAND_ENDED;
        check(ended || found[id].state == COMMAND_DEAD);
        check_int(runs[id], ended); /* what was declared dead never ran */
        if (ended)
            check_int(found[id].outcome.exit_code, id % 7);
        executed += ended;
    }
    test_note("%d of %d had been started when their scheduler was killed", executed,
              LIVES * EACH);
    close_commands();
}
