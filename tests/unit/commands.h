/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h -- what the tests of commands share: an event loop, commands that
 * are shell scripts, and what was told about them.
 *
 * The test program is its own supervisor: executed again with the word
 * "supervise", it becomes one before main() is reached, just as `holdfast` does. */
#pragma once

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "exec/exec_command.h"
#include "exec/supervisor.h"
#include "test.h"

#define unused __attribute__((unused))

unused static pid_t supervisor_pid; /* ours, if we are one */

__attribute__((constructor)) static void become_supervisor(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "supervise") != 0)
        return;
    supervisor_pid = getpid();
    _exit(supervisor_main(argv[2]));
}

enum { JOBS_MAX = 1024 };

/* What was told about a job, by its id. */
struct told {
    int started, progressed, ended;
    int percent;
    char text[LIMIT_PROGRESS_BYTES + 1];
    struct command_outcome outcome; /* its slices are in `kept` */
};

static struct event_base *loop;
static struct exec_commands *commands;
static struct told told[JOBS_MAX];
static struct arena kept;

static void on_started(void *arg, int64_t job_id)
{
    check(arg == told && !told[job_id].ended);
    told[job_id].started++;
}

static void on_progress(void *arg, int64_t job_id,
                        const struct command_progress *progress)
{
    check(arg == told && !told[job_id].ended && progress->text.n <= LIMIT_PROGRESS_BYTES);
    told[job_id].progressed++;
    told[job_id].percent = progress->percent;
    memcpy(told[job_id].text, progress->text.p, progress->text.n);
    told[job_id].text[progress->text.n] = '\0';
}

static struct command_output keep_output(const struct command_output *output)
{
    struct command_output copy = *output;

    copy.head = arena_dup(&kept, output->head);
    copy.tail = arena_dup(&kept, output->tail);
    return copy;
}

static void on_ended(void *arg, int64_t job_id, const struct command_outcome *outcome)
{
    struct command_outcome copy = *outcome;

    check(arg == told);
    copy.result = arena_dup(&kept, outcome->result);
    copy.error = arena_dup(&kept, outcome->error);
    copy.progress.text = arena_dup(&kept, outcome->progress.text);
    copy.out = keep_output(&outcome->out);
    copy.err = keep_output(&outcome->err);
    told[job_id].outcome = copy;
    told[job_id].ended++;
}

/* A scheduler on the test's folder. */
static void open_commands(void)
{
    const struct exec_command_calls calls = { on_started, on_progress, on_ended, told };
    struct error error = { 0 };

    arena_init(&kept, 1 << 20, 1 << 30);
    loop = event_base_new();
    check(loop != NULL);
    if (exec_commands_new(loop, test_dir(), NULL, &calls, &error, &commands) < 0)
        fail("%s", error.text);
}

unused static void close_commands(void)
{
    exec_commands_free(commands);
    event_base_free(loop);
    arena_release(&kept);
}

/* A shell script as a command, with 30 seconds to live. */
struct job {
    struct command_setup setup;
    struct command_order order;
    const char *argv[4];
};

static struct job *script(struct job *job, int64_t id, const char *text)
{
    *job = (struct job){ .argv = { "/bin/sh", "-c", text, NULL } };
    command_setup_init(&job->setup);
    job->setup.argv = job->argv;
    job->order = (struct command_order){ .job_id = id,
                                         .setup = &job->setup,
                                         .deadline_ms = 30000 };
    return job;
}

static void start(const struct job *job, struct slice payload)
{
    struct error error = { 0 };

    if (exec_command_start(commands, &job->order, payload, &error) < 0)
        fail("job %d: %s", (int)job->order.job_id, error.text);
}

unused static void start_script(int64_t id, const char *text)
{
    struct job job;

    start(script(&job, id, text), SLICE("{}"));
}

/* Waits while the loop runs. */
struct pumped {
    bool (*condition)(void *arg);
    void *arg;
};

static bool pump(void *arg)
{
    const struct pumped *p = arg;

    event_base_loop(loop, EVLOOP_NONBLOCK);
    return p->condition(p->arg);
}

static void wait_for(bool (*condition)(void *arg), void *arg, const char *what)
{
    struct pumped p = { condition, arg };

    if (!test_wait(pump, &p, 60000))
        fail("waited in vain until %s", what);
}

static bool has_ended(void *arg)
{
    return told[*(int64_t *)arg].ended > 0;
}

/* The outcome of a job that was started or adopted. */
unused static const struct command_outcome *wait_end(int64_t id)
{
    wait_for(has_ended, &id, "a command ended");
    check_int(told[id].ended, 1);
    return &told[id].outcome;
}

static bool file_is_there(void *arg)
{
    return access(arg, F_OK) == 0;
}

/* A script tells by a file in the test's folder how far it is. */
unused static void wait_file(const char *name)
{
    wait_for(file_is_there, (char *)test_path(name), name);
}

static bool file_has_content(void *arg)
{
    struct stat info;

    return stat(arg, &info) == 0 && info.st_size > 0;
}

/* The number that a script wrote into a file. */
unused static int64_t wait_number(const char *name)
{
    long long number;

    wait_for(file_has_content, (char *)test_path(name), name);
    FILE *file = fopen(test_path(name), "re");
    check(file != NULL);
    check_int(fscanf(file, "%lld", &number), 1);
    fclose(file);
    return number;
}

/* True once no process with this pid executes anything. */
static bool is_gone(void *arg)
{
    struct host_stat stat;

    return host_read_stat(*(int64_t *)arg, &stat) < 0 || stat.state == 'Z';
}

unused static void wait_gone(int64_t pid)
{
    wait_for(is_gone, &pid, "a process was gone");
}

/* What the record of a job says. */
unused static enum command_state state_of(int64_t id, struct command_start *ret_start)
{
    struct host self;
    enum command_state state;
    struct command_outcome outcome;

    check_ok(host_identify(&self, NULL));
    int records = command_records_open(test_dir(), true, NULL);
    check(records >= 0);
    int record = command_record_open(records, id, NULL);
    close(records);
    if (record == -HF_NOT_FOUND)
        return COMMAND_NONE;
    check(record >= 0);
    check_ok(
        command_record_read(record, &self, &kept, NULL, &state, ret_start, &outcome));
    close(record);
    return state;
}
