/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of a run's record, one by one: who may start it, what it says, and
 * that neither a reused pid nor a sleeping supervisor fools anybody. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/command_record.h"
#include "test.h"

static struct arena arena;
static struct host self;
static int records;

static void begin(void)
{
    if (arena.cap) /* what the test before has kept */
        arena_release(&arena);
    arena_init(&arena, 4096, 64 << 20);
    check_ok(host_identify(&self, NULL));
    records = command_records_open(test_dir(), true, NULL);
    check(records >= 0);
}

static int make(int64_t id)
{
    check_ok(command_record_make(records, id, NULL));
    int record = command_record_open(records, id, NULL);
    check(record >= 0);
    return record;
}

static enum command_state read_state(int record, struct command_outcome *outcome)
{
    enum command_state state;
    struct command_start start;
    struct command_outcome own;

    check_ok(command_record_read(record, &self, &arena, NULL, &state, &start,
                                 outcome ? outcome : &own));
    return state;
}

/* A start record as this process would write it. */
static struct command_start own_start(void)
{
    return (struct command_start){ .supervisor = self,
                                   .pid = 1,
                                   .start_ticks = 2,
                                   .started_us = 3,
                                   .started_boot_us = 4 };
}

TEST(a_record_is_made_once_and_lists_by_number)
{
    struct error error = { 0 };
    int64_t *ids;
    size_t count;

    begin();
    check_err(command_record_open(records, 7, NULL), -HF_NOT_FOUND);
    for (int64_t id = 12; id > 0; id -= 3)
        close(make(id));
    check_err(command_record_make(records, 3, &error), -HF_CONFLICT);
    check(strstr(error.text, "job 3") != NULL);
    check_int(mkdirat(records, "not-a-job", 0700), 0);
    check_int(mkdirat(records, "007", 0700), 0);
    check_int(mkdirat(records, "99999999999999999999", 0700), 0);
    check_ok(command_records_list(records, &arena, NULL, &ids, &count));
    check_int(count, 4);
    for (size_t i = 0; i < count; i++)
        check_int(ids[i], 3 * (i + 1));
}

TEST(a_folder_of_records_that_is_not_there_is_not_found)
{
    struct error error = { 0 };

    check_err(command_records_open(test_path("no"), false, &error), -HF_NOT_FOUND);
    check(strstr(error.text, "/no/runs") != NULL);
}

TEST(claim_and_void_exclude_each_other)
{
    struct command_start start, read;
    enum command_state state;
    struct command_outcome outcome;
    int ticket;

    begin();
    start = own_start();
    int record = make(1);
    check_int(read_state(record, NULL), COMMAND_PREPARED);
    check_ok(command_record_claim(record, &start, NULL, &ticket));
    check_err(command_record_void(record, NULL), -HF_CONFLICT);
    check_ok(command_record_read(record, &self, &arena, NULL, &state, &read, &outcome));
    check_int(state, COMMAND_ALIVE);
    check_int(read.supervisor.pid, getpid());
    check_int(read.supervisor.start_ticks, self.start_ticks);
    check_str(read.supervisor.boot_id, self.boot_id);
    check_int(read.pid, 1);
    check_int(read.started_boot_us, 4);

    record = make(2);
    check_ok(command_record_void(record, NULL));
    check_err(command_record_void(record, NULL), -HF_CONFLICT);
    check_err(command_record_claim(record, &start, NULL, &ticket), -HF_CONFLICT);
    check_int(read_state(record, &outcome), COMMAND_DEAD);
    check_int(outcome.end, COMMAND_LOST);
}

struct racer {
    pthread_barrier_t *barrier;
    int record, result, ticket;
    bool claims;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct command_start start = own_start();

    pthread_barrier_wait(r->barrier);
    r->result = r->claims ? command_record_claim(r->record, &start, NULL, &r->ticket)
                          : command_record_void(r->record, NULL);
    return NULL;
}

TEST(of_a_claim_and_a_void_at_the_same_moment_exactly_one_wins)
{
    enum { ROUNDS = 500 };
    pthread_barrier_t barrier;
    int claimed = 0;

    begin();
    for (int i = 1; i <= ROUNDS; i++) {
        struct racer racers[2] = { { &barrier, make(i), 0, -1, true },
                                   { &barrier, 0, 0, -1, false } };
        pthread_t threads[2];
        racers[1].record = racers[0].record;
        pthread_barrier_init(&barrier, NULL, 2);
        for (int k = 0; k < 2; k++)
            check_int(pthread_create(&threads[k], NULL, race, &racers[k]), 0);
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        pthread_barrier_destroy(&barrier);
        check(racers[0].result == 0 || racers[0].result == -HF_CONFLICT);
        check(racers[1].result == 0 || racers[1].result == -HF_CONFLICT);
        check((racers[0].result == 0) != (racers[1].result == 0));
        claimed += racers[0].result == 0;
        if (racers[0].result == 0)
            close(racers[0].ticket);
        close(racers[0].record);
    }
    test_note("of %d, %d were claimed and %d voided", ROUNDS, claimed, ROUNDS - claimed);
}

TEST(a_record_that_is_deleted_cannot_be_claimed_by_one_who_slept)
{
    struct command_start start;
    int ticket;

    begin();
    start = own_start();
    int record = make(1); /* what a sleeping supervisor holds */
    check_ok(command_record_void(record, NULL));
    check_ok(command_record_put(record, "progress", SLICE("1 x"), false));
    check_ok(command_record_delete(records, 1, NULL));
    check_err(command_record_claim(record, &start, NULL, &ticket), -HF_CONFLICT);
    check_err(command_record_open(records, 1, NULL), -HF_NOT_FOUND);
    check_err(command_record_put(record, "exit", SLICE("{}"), true), -HF_NOT_FOUND);
    check_ok(command_record_delete(records, 1, NULL)); /* as often as one likes */

    /* Even half-way, when only the ticket is gone and the start record too. */
    record = make(2);
    check_int(unlinkat(record, "ticket", 0), 0);
    check_err(command_record_claim(record, &start, NULL, &ticket), -HF_CONFLICT);
    check_int(faccessat(record, "start", F_OK, 0), -1);
}

/* Claims `record` as a supervisor of this identity. */
static void forge(int record, const struct host *supervisor, int *ret_ticket)
{
    struct command_start start = own_start();

    start.supervisor = *supervisor;
    check_ok(command_record_claim(record, &start, NULL, ret_ticket));
}

TEST(a_reused_pid_is_not_mistaken_for_the_supervisor)
{
    struct command_outcome outcome;
    struct host other;
    int ticket;

    begin();
    other = self; /* a living pid, of a process that started at another time */
    other.start_ticks--;
    int record = make(1);
    forge(record, &other, &ticket);
    check_int(read_state(record, &outcome), COMMAND_DEAD);
    check_int(outcome.started_us, 3);

    other = self; /* the same numbers, before the machine was restarted */
    other.boot_id[0] = other.boot_id[0] == '0' ? '1' : '0';
    record = make(2);
    forge(record, &other, &ticket);
    check_int(read_state(record, NULL), COMMAND_DEAD);

    record = make(3);
    forge(record, &self, &ticket);
    check_int(read_state(record, NULL), COMMAND_ALIVE);
}

TEST(in_another_pid_namespace_the_lock_tells_who_lives)
{
    struct host other;
    int ticket;

    begin();
    other = self;
    other.pid_ns++;
    other.pid = 1;
    int record = make(1);
    forge(record, &other, &ticket);
    check_int(read_state(record, NULL), COMMAND_ALIVE);
    close(ticket); /* as the kernel does when it dies */
    check_int(read_state(record, NULL), COMMAND_DEAD);
}

TEST(a_start_record_that_a_power_cut_has_torn_is_void)
{
    static const char *const torn[] = { "",     "{",      "{\"pid\":1}",
                                        "null", "\0\0\0", "{\"pid\":\"x\"}" };

    begin();
    for (size_t i = 0; i < array_len(torn); i++) {
        int record = make((int64_t)i + 1);
        check_ok(command_record_put(record, "start", slice_of(torn[i]), false));
        check_int(read_state(record, NULL), COMMAND_DEAD);
        close(record);
    }
}

TEST(an_exit_record_counts_whatever_else_is_there)
{
    struct command_outcome outcome = { .end = COMMAND_EXITED,
                                       .exit_code = 3,
                                       .progress = { .percent = -1 } };
    struct buf buf;
    struct slice text;
    int ticket;

    begin();
    buf_init(&buf, 4096);
    command_outcome_write(&outcome, &buf);
    check_ok(buf_end(&buf, &text));
    int record = make(1);
    forge(record, &self, &ticket);
    check_ok(command_record_put(record, "exit", text, true));
    outcome = (struct command_outcome){ 0 };
    check_int(read_state(record, &outcome), COMMAND_ENDED);
    check_int(outcome.exit_code, 3);

    check_ok(command_record_put(record, "exit", SLICE("{\"end\":"), true));
    check_int(read_state(record, &outcome), COMMAND_ENDED);
    check_int(outcome.end, COMMAND_LOST);
    check_slice(outcome.error,
                "The command has ended, but its exit record cannot be read.");
    buf_release(&buf);
}

TEST(a_file_is_replaced_whole_and_read_up_to_a_limit)
{
    struct slice text;

    begin();
    int record = make(1);
    check_err(command_record_get(record, "lease", 10, &arena, &text), -HF_NOT_FOUND);
    check_ok(command_record_put(record, "lease", SLICE("0123456789"), false));
    check_ok(command_record_put(record, "lease", SLICE("x"), true));
    check_ok(command_record_get(record, "lease", 10, &arena, &text));
    check_slice(text, "x");
    check_ok(command_record_put(record, "lease", SLICE("0123456789a"), false));
    check_err(command_record_get(record, "lease", 10, &arena, &text), -HF_TOO_LARGE);
}

/* A process that leads a group in `session`, or in one of its own if that is 0. */
static pid_t start_group(void)
{
    int up[2];
    char byte;

    check_int(pipe(up), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        check_int(write(up[1], "x", 1), 1);
        for (;;)
            pause();
    }
    check_int(read(up[0], &byte, 1), 1);
    close(up[0]);
    close(up[1]);
    return pid;
}

TEST(a_group_that_only_has_the_same_number_is_not_killed)
{
    struct host_stat stat;
    struct command_start start;

    begin();
    pid_t pid = start_group();
    check_ok(host_read_stat(pid, &stat));
    start = own_start();
    start.pid = pid;
    start.start_ticks = stat.start_ticks;

    start.supervisor.pid = stat.session + 1; /* the session of another */
    command_record_bury(&start, &self);
    start.supervisor.pid = stat.session;
    start.start_ticks++; /* it is older than the command was */
    command_record_bury(&start, &self);
    start.start_ticks--;
    start.supervisor.pid_ns++; /* another place */
    command_record_bury(&start, &self);
    start.supervisor.pid_ns--;
    command_record_bury(&(struct command_start){ .supervisor = self }, &self);
    check_int(waitpid(pid, NULL, WNOHANG), 0);

    command_record_bury(&start, &self);
    int status;
    check_int(waitpid(pid, &status, 0), pid);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
