/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.c -- runs in a table by job id; each is with an executor, or its report is
 * on its way to the disk. */
#include "exec/runner.h"

#include <event2/event.h>
#include <stdio.h>

#include "base/limits.h"
#include "exec/exec_command.h"
#include "exec/exec_http.h"
#include "exec/leftovers.h"
#include "exec/report.h"

enum { BUCKETS = 4096, RETRY_MS = 1000 };

struct task {
    struct task *next; /* in its bucket */
    struct runner *runner;
    int64_t job_id, owner_id;
    bool is_command;
    bool over;             /* the executor is done; the report is under way */
    bool refused;          /* ... the second one: the first was not taken */
    struct report *report; /* once it is over */
    struct event *again;   /* to try the report once more */
};

struct runner {
    struct runner_options options;
    struct node *node;
    struct http_client *client;
    struct exec_http *http;
    struct exec_commands *commands;
    struct task *buckets[BUCKETS];
    size_t count;
    struct leftovers *leftovers; /* from runner_scan() on */
    const struct runner_command *known;
    size_t known_count;
    bool closing; /* nothing more is started */
};

/* ---- the table ---- */

static struct task **place_of(struct runner *runner, int64_t job_id)
{
    struct task **place = &runner->buckets[(uint64_t)job_id % BUCKETS];
    while (*place && (*place)->job_id != job_id)
        place = &(*place)->next;
    return place;
}

static struct task *task_of(struct runner *runner, int64_t job_id)
{
    return *place_of(runner, job_id);
}

static struct task *task_add(struct runner *runner, const struct started *run)
{
    struct task **place = place_of(runner, run->job.id);
    struct task *task = new (struct task);
    assert(!*place); /* a job is run once */
    if (!task)
        return NULL;
    task->runner = runner;
    task->job_id = run->job.id;
    task->owner_id = run->owner_id;
    task->is_command = !slice_equal(run->job.kind, SLICE("http"));
    *place = task;
    runner->count++;
    return task;
}

static void task_remove(struct task *task)
{
    struct task **place = place_of(task->runner, task->job_id);
    assert(*place == task);
    *place = task->next;
    task->runner->count--;
    if (task->again)
        event_free(task->again);
    report_free(task->report);
    free(task);
}

/* ---- reports ---- */

static void send_report(struct task *task);

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    send_report(arg);
}

static void try_again_later(struct task *task)
{
    struct timeval later = { RETRY_MS / 1000, 0 };
    if (!task->again)
        task->again = evtimer_new(task->runner->options.loop, on_again, task);
    if (task->again && evtimer_add(task->again, &later) == 0)
        return;
    /* The run stays running in the store; the record, if there is one, tells the
     * next start how it ended. */
    log_event(task->runner->options.log, LEVEL_ERROR, "report_lost",
              log_int("job", task->job_id));
    task_remove(task);
}

/* Whether the run has ended in the store, by this report or by somebody else. */
static bool is_settled(int result)
{
    return result == 0 || result == -HF_LATE || result == -HF_NOT_FOUND ||
           result == -HF_CONFLICT;
}

/* Whether it will be refused as often as it is sent. */
static bool is_unfit(int result)
{
    return result == -HF_INVALID || result == -HF_TOO_LARGE;
}

static void settle(struct task *task)
{
    struct runner *runner = task->runner;
    struct error error = { 0 };
    if (task->is_command &&
        exec_command_forget(runner->options.state_dir, task->job_id, &error) < 0)
        log_event(runner->options.log, LEVEL_WARN, "record_not_deleted",
                  log_int("job", task->job_id), log_text("why", error.text));
    task_remove(task);
}

/* An outcome that the engine does not take must not leave the job running for ever:
 * it fails with what was wrong. */
static void report_instead(struct task *task, const char *why)
{
    struct report *plain = report_new_plain(ERROR_OTHER, why);
    task->refused = true;
    if (plain) {
        report_free(task->report);
        task->report = plain;
    }
    try_again_later(task);
}

static void reported(struct command *command, void *arg)
{
    struct task *task = arg;
    struct error error = command->error;
    int r = command->result;
    if (r < 0)
        log_event(task->runner->options.log, is_settled(r) ? LEVEL_WARN : LEVEL_ERROR,
                  "report_refused", log_int("job", task->job_id),
                  log_int("owner", task->owner_id),
                  log_text("why", error.text[0] ? error.text : status_of(r)->title));
    command_free(command);
    if (is_settled(r) || (is_unfit(r) && task->refused))
        settle(task);
    else if (is_unfit(r))
        report_instead(task, error.text[0] ? error.text : status_of(r)->title);
    else
        try_again_later(task);
}

static void send_report(struct task *task)
{
    struct node *node = task->runner->node;
    struct command *command = report_command(task->report, task->job_id, task->owner_id);
    int r = !node ? -HF_CLOSED : command ? 0 : -HF_NOMEM;
    if (r == 0) {
        command->done = reported;
        command->done_arg = task;
        r = node_report(node, command);
    }
    if (r == 0)
        return;
    if (command)
        command_free(command);
    if (r == -HF_CLOSED)
        task_remove(task); /* the node is gone: the next start finds the record */
    else
        try_again_later(task);
}

/* `report` is taken over; NULL: there was no memory to write it down. */
static void end_task(struct task *task, struct report *report)
{
    if (!task || task->over) {
        report_free(report);
        return;
    }
    task->over = true;
    task->report = report ? report
                          : report_new_plain(ERROR_OTHER, "The outcome was lost: "
                                                          "no memory was left.");
    if (task->report)
        send_report(task);
    else
        task_remove(task);
}

/* ---- the executors' calls ---- */

static void http_ended(void *arg, int64_t job_id, const struct http_job_outcome *outcome)
{
    end_task(task_of(arg, job_id), report_new_http(outcome));
}

static void command_ended(void *arg, int64_t job_id,
                          const struct command_outcome *outcome)
{
    end_task(task_of(arg, job_id), report_new_command(outcome));
}

static void progress_done(struct command *command, void *arg)
{
    (void)arg; /* a lost progress is not worth a word */
    command_free(command);
}

static void command_told(void *arg, int64_t job_id,
                         const struct command_progress *progress)
{
    struct runner *runner = arg;
    struct task *task = task_of(runner, job_id);
    struct command *command = task && !task->over ? command_new(OP_PROGRESS) : NULL;
    if (!command)
        return;
    command->progress.job_id = job_id;
    command->progress.owner_id = task->owner_id;
    command->progress.percent = progress->percent;
    if (progress->text.n > 0)
        command->progress.text = arena_dup(&command->arena, progress->text);
    command->done = progress_done;
    if (node_report(runner->node, command) < 0)
        command_free(command);
}

/* ---- the node's calls ---- */

static const struct runner_command *command_for(const struct runner *runner,
                                                struct slice kind)
{
    for (size_t i = 0; i < runner->known_count; i++)
        if (slice_equal(kind, slice_of(runner->known[i].kind)))
            return &runner->known[i];
    return NULL;
}

/* How long a run that was claimed a moment ago may take.  The store's clock may be
 * another machine's: only differences of its times mean anything here. */
static int64_t time_limit_us(const struct started *run)
{
    return run->deadline_at - run->started_at;
}

/* Until when the node's lease lasts, by command_boot_us(); 0: there is none. */
static int64_t lease_until_us(const struct runner *runner)
{
    struct node_status status;
    if (runner->options.lease_ms == 0)
        return 0;
    node_status(runner->node, &status);
    return command_boot_us() + status.lease_mono - clock_mono_us(runner->options.clock);
}

static void start_command(struct runner *runner, struct task *task,
                          const struct started *run)
{
    const struct runner_command *command = command_for(runner, run->job.kind);
    char id[40], attempt[40], root[40];
    const char *env[] = { id, attempt, root, NULL };
    struct error error = { 0 };
    int64_t limit_ms = time_limit_us(run) / US_PER_MS;

    if (!command) { /* it was claimed while the configuration was read again */
        end_task(task,
                 report_new_plain(ERROR_INTERRUPTED,
                                  "No [command] section has the kind of this job any "
                                  "more; it is tried again at once."));
        return;
    }
    snprintf(id, sizeof(id), "HOLDFAST_JOB_ID=%lld", (long long)run->job.id);
    snprintf(attempt, sizeof(attempt), "HOLDFAST_ATTEMPT=%d", run->job.attempt);
    snprintf(root, sizeof(root), "HOLDFAST_ROOT_ID=%lld", (long long)run->job.root_id);
    struct command_order order = { .job_id = task->job_id,
                                   .setup = &command->setup,
                                   .env = env,
                                   .open_files = runner->options.open_files,
                                   .deadline_ms = limit_ms > 0 ? limit_ms : 1,
                                   .lease_ms = runner->options.lease_ms,
                                   .lease_until_us = lease_until_us(runner) };
    int r = exec_command_start(runner->commands, &order, run->job.payload, &error);
    if (r < 0)
        end_task(task, report_new_plain(ERROR_OTHER, error.text));
}

static void adopt_command(struct runner *runner, struct task *task,
                          const struct started *run)
{
    struct error error = { 0 };
    leftovers_take(runner->leftovers, task->job_id);
    int r = exec_command_adopt(runner->commands, task->job_id, &error);
    if (r < 0)
        end_task(task, report_new_plain(ERROR_CRASH, error.text));
    else if (run->job.state == JOB_CANCELLING)
        exec_command_stop(runner->commands, task->job_id, COMMAND_CAUSE_CANCEL);
}

static void start_http(struct runner *runner, const struct started *run)
{
    struct started ours = *run;
    ours.deadline_at = clock_wall_us(runner->options.clock) + time_limit_us(run);
    exec_http_start(runner->http, &ours);
}

void runner_started(struct runner *runner, const struct started *run)
{
    if (runner->closing)
        return;
    struct task *task = task_add(runner, run);
    if (!task)
        /* It stays running in the store until its deadline. */
        log_event(runner->options.log, LEVEL_ERROR, "run_not_started",
                  log_int("job", run->job.id), log_text("why", "no memory"));
    else if (!task->is_command)
        start_http(runner, run);
    else if (run->adopted)
        adopt_command(runner, task, run);
    else
        start_command(runner, task, run);
}

void runner_set_commands(struct runner *runner, const struct runner_command *commands,
                         size_t count)
{
    runner->known = commands;
    runner->known_count = count;
}

static const char *reason_for(int type)
{
    switch (type) {
    case ERROR_CANCELLED:
        return "The job was cancelled.";
    case ERROR_TIMEOUT:
        return "The run took longer than its maxExecutionTimeMs.";
    default:
        return "The node lost its lease and stopped its runs.";
    }
}

void runner_stop_run(struct runner *runner, int64_t job_id, int type)
{
    struct task *task = task_of(runner, job_id);
    if (!task || task->over)
        return;
    if (!task->is_command)
        exec_http_stop(runner->http, job_id, type, reason_for(type));
    else if (type != ERROR_TIMEOUT) /* the supervisor keeps the deadline itself */
        exec_command_stop(runner->commands, job_id,
                          type == ERROR_CANCELLED ? COMMAND_CAUSE_CANCEL
                                                  : COMMAND_CAUSE_INTERRUPT);
}

void runner_renewed(struct runner *runner, int64_t lease_mono)
{
    int64_t left = lease_mono - clock_mono_us(runner->options.clock);
    if (runner->options.lease_ms > 0 && left > 0)
        exec_commands_renew(runner->commands, command_boot_us() + left);
}

/* ---- what an earlier scheduler left ---- */

int runner_scan(struct runner *runner, struct error *error)
{
    assert(!runner->leftovers);
    return leftovers_scan(runner->options.state_dir, error, &runner->leftovers);
}

bool runner_adopts(struct runner *runner, const struct job_row *row)
{
    return leftovers_lives(runner->leftovers, row->job.id);
}

void runner_recovered(struct runner *runner)
{
    leftovers_tidy(runner->leftovers, runner->node, runner->options.log);
}

/* ---- beginning and end ---- */

int runner_new(const struct runner_options *options, struct error *error,
               struct runner **ret)
{
    struct runner *runner = new (struct runner);
    if (!runner)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    runner->options = *options;
    int r = http_client_new(
        &(struct http_client_options){ .base = options->loop, .policy = options->policy },
        &runner->client);
    if (r == 0)
        r = exec_http_new(&(struct exec_http_options){ .client = runner->client,
                                                       .clock = options->clock,
                                                       .ended = http_ended,
                                                       .arg = runner },
                          &runner->http);
    if (r == 0)
        r = exec_commands_new(options->loop, options->state_dir, NULL,
                              &(struct exec_command_calls){ .progress = command_told,
                                                            .ended = command_ended,
                                                            .arg = runner },
                              error, &runner->commands);
    if (r < 0) {
        error_set(error, r, NULL, "The executors cannot be started: %s.",
                  status_of(r)->title);
        runner_free(runner);
        return r;
    }
    *ret = runner;
    return 0;
}

void runner_attach(struct runner *runner, struct node *node)
{
    runner->node = node;
}

void runner_free(struct runner *runner)
{
    if (!runner)
        return;
    runner->node = NULL; /* it is gone */
    runner->closing = true;
    /* Ends what is under way, through exec_http and into a table that is there. */
    http_client_free(runner->client);
    exec_http_free(runner->http);
    exec_commands_free(runner->commands);
    for (int i = 0; i < BUCKETS; i++)
        while (runner->buckets[i])
            task_remove(runner->buckets[i]);
    leftovers_free(runner->leftovers);
    free(runner);
}

size_t runner_busy(const struct runner *runner)
{
    return runner->count;
}

size_t runner_commands(const struct runner *runner)
{
    return exec_commands_count(runner->commands);
}

void runner_hand_over(struct runner *runner, bool stop_commands)
{
    runner->closing = true;
    for (int i = 0; i < BUCKETS; i++)
        for (const struct task *t = runner->buckets[i]; t; t = t->next) {
            if (t->over)
                continue;
            if (!t->is_command)
                exec_http_stop(runner->http, t->job_id, ERROR_INTERRUPTED,
                               "The service was shut down while the job was running; it "
                               "is tried again at once.");
            else if (stop_commands)
                exec_command_stop(runner->commands, t->job_id, COMMAND_CAUSE_INTERRUPT);
        }
}

void runner_leave(struct runner *runner)
{
    int64_t *ids = calloc(runner->count + 1, sizeof(*ids));
    size_t count = 0;

    runner->closing = true;
    for (int i = 0; ids && i < BUCKETS; i++)
        for (const struct task *t = runner->buckets[i]; t; t = t->next)
            if (t->is_command)
                ids[count++] = t->job_id;
    if (!ids || node_leave_runs(runner->node, ids, count) < 0)
        log_event(runner->options.log, LEVEL_ERROR, "commands_not_left",
                  log_int("count", (int64_t)runner->count), log_text("why", "no memory"));
    else if (count > 0)
        log_event(runner->options.log, LEVEL_INFO, "commands_left",
                  log_int("count", (int64_t)count));
    free(ids);
}

int runner_output(void *arg, int64_t job_id, struct arena *arena, struct error *error,
                  struct slice *ret)
{
    struct runner *runner = arg;
    struct command_output out = { 0 }, err = { 0 };
    int r =
        exec_command_output(runner->options.state_dir, job_id, arena, error, &out, &err);
    return r < 0 ? r : report_output(&out, &err, arena, ret);
}
