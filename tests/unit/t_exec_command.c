/* test: apart bare */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands from their start to their outcome, with real processes. */
#include "commands.h"

TEST(a_command_that_exits_with_0_is_complete)
{
    open_commands();
    start_script(1, "exit 0");
    const struct command_outcome *o = wait_end(1);
    check_int(o->end, COMMAND_EXITED);
    check_int(o->exit_code, 0);
    check_int(o->cause, COMMAND_CAUSE_NONE);
    check_int(command_outcome_failure(o), HF_FAILURE_NONE);
    check_int(told[1].started, 1);
    check(o->started_us > 0 && o->ended_us >= o->started_us && o->duration_us > 0);
    check_int(exec_commands_count(commands), 0);
    close_commands();
}

TEST(an_exit_status_or_a_signal_is_told_as_it_was)
{
    static const struct {
        const char *script;
        int end, number, failure;
        const char *sentence;
    } cases[] = {
        { "exit 1", COMMAND_EXITED, 1, HF_FAILURE_OTHER,
          "The command exited with status 1." },
        { "exit 255", COMMAND_EXITED, 255, HF_FAILURE_OTHER,
          "The command exited with status 255." },
        { "kill -TERM $$", COMMAND_SIGNALLED, SIGTERM, HF_FAILURE_CRASH,
          "The command was ended by SIGTERM." },
        { "kill -KILL $$", COMMAND_SIGNALLED, SIGKILL, HF_FAILURE_CRASH,
          "The command was ended by SIGKILL." },
        { "ulimit -c 0; kill -SEGV $$", COMMAND_SIGNALLED, SIGSEGV, HF_FAILURE_CRASH,
          "The command was ended by SIGSEGV." },
    };

    open_commands();
    for (size_t i = 0; i < array_len(cases); i++)
        start_script((int64_t)i + 1, cases[i].script);
    for (size_t i = 0; i < array_len(cases); i++) {
        const struct command_outcome *o = wait_end((int64_t)i + 1);
        struct buf sentence;
        buf_init(&sentence, 1000);
        check_int(o->end, cases[i].end);
        check_int(o->end == COMMAND_EXITED ? o->exit_code : o->signal, cases[i].number);
        check_int(command_outcome_failure(o), cases[i].failure);
        command_outcome_sentence(o, &sentence);
        check_str(sentence.p, cases[i].sentence);
        buf_release(&sentence);
    }
    close_commands();
}

TEST(the_payload_is_on_standard_input_and_the_last_line_is_the_result)
{
    struct job job;

    open_commands();
    start(script(&job, 1, "echo working; echo also on stderr >&2; cat; echo; echo"),
          SLICE("{\"n\": [1, 2.50]}"));
    const struct command_outcome *o = wait_end(1);
    check_int(o->exit_code, 0);
    check_slice(o->out.head, "working\n{\"n\": [1, 2.50]}\n\n");
    check_slice(o->err.head, "also on stderr\n");
    check_int(o->out.total, 26);
    check_slice(o->result, "{\"n\": [1, 2.50]}");
    check(!o->result_too_large);

    start_script(2, "echo '{\"a\":1}'; echo not json");
    check_slice(wait_end(2)->result, NULL);
    start_script(3, "exit 3");
    check_slice(wait_end(3)->result, NULL);
    check_int(told[3].outcome.out.total, 0);
    close_commands();
}

TEST(a_payload_of_a_mebibyte_blocks_nobody_who_does_not_read_it)
{
    static char payload[LIMIT_PAYLOAD_BYTES + 1];
    struct job job;
    struct error error = { 0 };

    memset(payload, ' ', sizeof(payload));
    payload[0] = '1';
    open_commands();
    start(script(&job, 1, "exit 7"), (struct slice){ payload, LIMIT_PAYLOAD_BYTES });
    start(script(&job, 2, "wc -c"), (struct slice){ payload, LIMIT_PAYLOAD_BYTES });
    check_int(wait_end(1)->exit_code, 7);
    check_slice(wait_end(2)->out.head, "1048576\n");
    check_err(exec_command_start(commands, &script(&job, 3, "true")->order,
                                 (struct slice){ payload, sizeof(payload) }, &error),
              -HF_TOO_LARGE);
    close_commands();
}

TEST(of_long_output_the_first_and_the_last_64_KiB_are_kept_exactly)
{
    open_commands();
    /* 8 bytes a line: its number, and a newline. */
    start_script(1, "seq -f %07.0f 0 99999; seq -f %07.0f 0 20000 >&2");
    const struct command_outcome *o = wait_end(1);
    char line[16];

    check_int(o->out.total, 800000);
    check_int(o->out.head.n, LIMIT_OUTPUT_BYTES);
    check_int(o->out.tail.n, LIMIT_OUTPUT_BYTES);
    check_int(o->err.total, 160008);
    for (int i = 0; i < LIMIT_OUTPUT_BYTES / 8; i++) {
        snprintf(line, sizeof(line), "%07d\n", i);
        check(memcmp(o->out.head.p + 8 * i, line, 8) == 0);
        check(memcmp(o->err.head.p + 8 * i, line, 8) == 0);
        snprintf(line, sizeof(line), "%07d\n", 100000 - LIMIT_OUTPUT_BYTES / 8 + i);
        check(memcmp(o->out.tail.p + 8 * i, line, 8) == 0);
        snprintf(line, sizeof(line), "%07d\n", 20001 - LIMIT_OUTPUT_BYTES / 8 + i);
        check(memcmp(o->err.tail.p + 8 * i, line, 8) == 0);
    }
    check_slice(o->result, NULL); /* 0099999 is no number of JSON */
    close_commands();
}

struct expected {
    int64_t id;
    const char *text;
};

static bool output_is(void *arg)
{
    const struct expected *expected = arg;
    struct command_output out, err;

    check_ok(exec_command_output(test_dir(), expected->id, &kept, NULL, &out, &err));
    return slice_equal(out.head, slice_of(expected->text)) && out.tail.n == 0;
}

TEST(output_can_be_read_while_the_command_runs)
{
    struct command_output out, err;
    const char *go = test_path("go");
    char text[1000];

    open_commands();
    check_err(exec_command_output(test_dir(), 1, &kept, NULL, &out, &err), -HF_NOT_FOUND);
    snprintf(text, sizeof(text),
             "echo one; while [ ! -e %s ]; do sleep 0.02; done; echo two", go);
    start_script(1, text);
    wait_for(output_is, &(struct expected){ 1, "one\n" }, "the first line was there");
    check_int(told[1].ended, 0);
    close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    check_slice(wait_end(1)->out.head, "one\ntwo\n");
    check(output_is(&(struct expected){ 1, "one\ntwo\n" }));
    check_ok(exec_command_forget(test_dir(), 1, NULL));
    check_err(exec_command_output(test_dir(), 1, &kept, NULL, &out, &err), -HF_NOT_FOUND);
    close_commands();
}

static bool has_progress(void *arg)
{
    return told[1].percent == *(int *)arg && told[1].progressed > 0;
}

TEST(progress_lines_are_told_while_the_command_runs)
{
    const char *go = test_path("go");
    char text[1000];

    open_commands();
    snprintf(text, sizeof(text),
             "echo ::progress 40 half of the pages; "
             "while [ ! -e %s ]; do sleep 0.02; done; echo ::progress 80; "
             "while [ ! -e %s.2 ]; do sleep 0.02; done; echo '[1]'; "
             "echo ::progress 100 done",
             go, go);
    start_script(1, text);
    wait_for(has_progress, &(int){ 40 }, "40 % were told");
    check_str(told[1].text, "half of the pages");
    check_int(told[1].started, 1);
    close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    wait_for(has_progress, &(int){ 80 }, "80 % were told");
    check_str(told[1].text, "");
    snprintf(text, sizeof(text), "%s.2", go);
    close(open(text, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    const struct command_outcome *o = wait_end(1);
    check_int(o->progress.percent, 100);
    check_slice(o->progress.text, "done");
    check_slice(o->result, "[1]");
    close_commands();
}

TEST(a_program_that_is_not_there_is_named)
{
    struct job job;

    open_commands();
    script(&job, 1, "");
    job.argv[0] = "/no/such/program";
    start(&job, SLICE("{}"));
    const struct command_outcome *o = wait_end(1);
    check_int(o->end, COMMAND_NOT_STARTED);
    check_slice(o->error, "The command was not started: cannot run /no/such/program: No "
                          "such file or directory.");
    check_int(command_outcome_failure(o), HF_FAILURE_OTHER);
    close_commands();
}

TEST(a_directory_a_user_or_a_limit_that_cannot_be_is_named)
{
    struct job job;

    open_commands();
    script(&job, 1, "touch ran");
    job.setup.directory = "/no/such/folder";
    start(&job, SLICE("{}"));
    check_slice(wait_end(1)->error, "The command was not started: cannot work in the "
                                    "directory /no/such/folder: No such file or "
                                    "directory.");
    script(&job, 2, "exit 0");
    job.setup.user = "nobody-of-that-name";
    start(&job, SLICE("{}"));
    check_slice(wait_end(2)->error, "The command was not started: there is no user "
                                    "nobody-of-that-name on this machine.");
    script(&job, 3, "exit 0");
    job.setup.limits[COMMAND_LIMIT_FILES] = INT64_C(1) << 40;
    start(&job, SLICE("{}"));
    check_slice(wait_end(3)->error, "The command was not started: the limit files cannot "
                                    "be set: Operation not permitted.");
    check_int(told[1].outcome.end, COMMAND_NOT_STARTED);
    check_int(told[2].outcome.end, COMMAND_NOT_STARTED);
    check_int(told[2].started, 0);
    close_commands();
}

TEST(directory_umask_limits_and_environment_are_as_configured)
{
    static const char *const env[] = { "A=of the setup", "B=with = and \xff", NULL };
    static const char *const run_env[] = { "HOLDFAST_JOB_ID=1", "A=of the run", NULL };
    struct job job;

    check_int(setenv("HOLDFAST_TOKEN", "secret", 1), 0);
    check_int(setenv("LANG", "C.UTF-8", 1), 0);
    open_commands();
    script(&job, 1,
           "pwd; umask; ulimit -n; ulimit -t; ulimit -c; "
           "echo \"$A,$B,$HOLDFAST_JOB_ID,$HOLDFAST_TOKEN,$LANG\"");
    job.setup.directory = "/usr";
    job.setup.umask = 027;
    job.setup.limits[COMMAND_LIMIT_FILES] = 77;
    job.setup.limits[COMMAND_LIMIT_CPU_SECONDS] = 1000;
    job.setup.limits[COMMAND_LIMIT_CORE_BYTES] = 0;
    job.setup.env = env;
    job.order.env = run_env;
    start(&job, SLICE("{}"));
    check_slice(wait_end(1)->out.head,
                "/usr\n0027\n77\n1000\n0\nof the run,with = and \xff,1,,C.UTF-8\n");
    close_commands();
}

TEST(a_command_runs_as_the_user_it_is_given)
{
    struct job job;

    if (geteuid() != 0)
        test_skip("only root can become another user");
    open_commands();
    script(&job, 1, "id -un; id -Gn; echo $HOME $USER; cat; cat /dev/stdin; cat");
    job.setup.user = "daemon";
    start(&job, SLICE("{}"));
    check_slice(wait_end(1)->out.head, "daemon\ndaemon\n/usr/sbin daemon\n{}{}");
    check_slice(told[1].outcome.err.head, "");
    close_commands();
}

TEST(a_command_gets_its_three_descriptors_and_a_clean_set_of_signals)
{
    open_commands();
    signal(SIGUSR2, SIG_IGN);
    /* ls has the folder open itself, as 3. */
    start_script(1, "ls /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status");
    const char *text = wait_end(1)->out.head.p;
    check(strncmp(text, "0\n1\n2\n3\nSigBlk:", 15) == 0);
    check_int(strtoull(text + 15, NULL, 16), 0);
    /* 32 and 33 are the C library's own: nobody can set them, only inherit. */
    const char *ignored = strstr(text, "SigIgn:");
    check(ignored && (strtoull(ignored + 7, NULL, 16) & ~(3ULL << 31)) == 0);
    close_commands();
}

TEST(a_state_directory_that_cannot_be_used_is_refused_with_its_path)
{
    const struct exec_command_calls calls = { .ended = on_ended, .arg = told };
    struct event_base *base = event_base_new();
    struct error error = { 0 };
    struct exec_commands *none = NULL;

    check_err(exec_commands_new(base, test_path("missing"), NULL, &calls, &error, &none),
              -HF_SYSTEM);
    check(strstr(error.text, "missing/runs: No such file") != NULL);
    close(open(test_path("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    error = (struct error){ 0 };
    check_err(exec_commands_new(base, test_path("file"), NULL, &calls, &error, &none),
              -HF_SYSTEM);
    check(strstr(error.text, "file/runs: Not a directory") != NULL);
    bool root = geteuid() == 0;
    if (root) {
        check_int(chmod(test_dir(), 0755), 0);
        check_int(mkdir(test_path("mine"), 0755), 0);
        check_int(seteuid(1), 0);
    } else {
        check_int(mkdir(test_path("mine"), 0555), 0);
    }
    error = (struct error){ 0 };
    check_err(exec_commands_new(base, test_path("mine"), NULL, &calls, &error, &none),
              -HF_READONLY);
    check(strstr(error.text, "mine/runs: Permission denied") != NULL);
    check(none == NULL);
    if (root) /* or LeakSanitizer cannot look */
        check_int(seteuid(0), 0);
    event_base_free(base);
}

TEST(a_job_that_has_a_record_is_not_started_again)
{
    struct job job;
    struct error error = { 0 };

    open_commands();
    start_script(1, "exit 0");
    check_err(exec_command_start(commands, &script(&job, 1, "exit 0")->order, SLICE(""),
                                 &error),
              -HF_CONFLICT);
    wait_end(1);
    check_err(
        exec_command_start(commands, &script(&job, 1, "exit 0")->order, SLICE(""), NULL),
        -HF_CONFLICT);
    check_ok(exec_command_forget(test_dir(), 1, NULL));
    check_ok(exec_command_forget(test_dir(), 1, NULL));
    check_int(state_of(1, &(struct command_start){ 0 }), COMMAND_NONE);
    close_commands();
}

static bool all_ended(void *arg)
{
    for (int i = 1; i <= *(int *)arg; i++)
        if (!told[i].ended)
            return false;
    return true;
}

TEST(two_hundred_at_once_each_have_their_own_outcome)
{
    enum { MANY = 200 };
    char text[1000];

    open_commands();
    /* None ends before all have been started. */
    snprintf(text, sizeof(text),
             "read n; while [ ! -e %s ]; do sleep 0.5; done; echo $n; exit $((n %% 100))",
             test_path("go"));
    for (int i = 1; i <= MANY; i++) {
        struct job job;
        char payload[16];
        snprintf(payload, sizeof(payload), "%d\n", i);
        start(script(&job, i, text), slice_of(payload));
    }
    check_int(exec_commands_count(commands), MANY);
    close(open(test_path("go"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    wait_for(all_ended, &(int){ MANY }, "all had ended");
    for (int i = 1; i <= MANY; i++) {
        check_int(told[i].ended, 1);
        check_int(told[i].outcome.exit_code, i % 100);
        check_int(atoi(told[i].outcome.out.head.p), i);
    }
    close_commands();
}

TEST(a_supervisor_that_cannot_be_started_leaves_nothing_behind)
{
    static const char *const supervisor[] = { "/no/such/supervisor", NULL };
    const struct exec_command_calls calls = { .ended = on_ended, .arg = told };
    struct error error = { 0 };
    struct job job;

    open_commands();
    exec_commands_free(commands);
    check_ok(exec_commands_new(loop, test_dir(), supervisor, &calls, NULL, &commands));
    check_err(exec_command_start(commands, &script(&job, 1, "exit 0")->order, SLICE("{}"),
                                 &error),
              -HF_SYSTEM);
    check(strstr(error.text, "/no/such/supervisor") != NULL);
    check_int(exec_commands_count(commands), 0);
    check_int(state_of(1, &(struct command_start){ 0 }), COMMAND_NONE);
    close_commands();
}

TEST(a_supervisor_that_ends_before_it_starts_anything_is_no_crash_of_the_job)
{
    static const char *const supervisor[] = { "/bin/false", NULL };
    const struct exec_command_calls calls = { .ended = on_ended, .arg = told };

    open_commands();
    exec_commands_free(commands);
    check_ok(exec_commands_new(loop, test_dir(), supervisor, &calls, NULL, &commands));
    start_script(1, "exit 0");
    check_int(wait_end(1)->end, COMMAND_NOT_STARTED);
    check_slice(told[1].outcome.error, "The command was not started: its supervisor "
                                       "ended before it could.");
    close_commands();
}
