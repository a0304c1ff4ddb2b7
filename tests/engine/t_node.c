/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine behind its threads, as an event loop sees it: every answer comes, in the
 * loop's thread and in order, also when the node is closed in the middle of things. */
/* test: libs=libevent_core */
#include "node/node.h"

#include <event2/event.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "test.h"

enum { MANY = 200, RUNS_MAX = 16 };

/* A loop, a node, and what the node has told. */
struct nest {
    struct event_base *loop;
    struct node *node;
    pthread_t thread; /* the loop's */
    const char *url;
    struct host host;
    size_t commands_max;
    bool (*adopt)(void *nest, const struct job_row *row);
    int answered, looked;
    struct node_status status; /* as turned() had it last */
    struct {
        int64_t id, owner_id;
        bool adopted;
    } runs[RUNS_MAX];
    int run_count;
    bool closing; /* whatever is tried now is refused */
    atomic_bool asked_to_adopt;
    sem_t may_adopt;
};

static void check_in_loop(const struct nest *nest)
{
    check(pthread_equal(pthread_self(), nest->thread));
}

static void on_started(void *arg, const struct started *run)
{
    struct nest *nest = arg;
    check_in_loop(nest);
    check(nest->run_count < RUNS_MAX);
    nest->runs[nest->run_count].id = run->job.id;
    nest->runs[nest->run_count].owner_id = run->owner_id;
    nest->runs[nest->run_count++].adopted = run->adopted;
}

static void on_turned(void *arg, const struct node_status *status)
{
    struct nest *nest = arg;
    check_in_loop(nest);
    nest->status = *status;
}

static void nest_init(struct nest *nest)
{
    *nest = (struct nest){ .loop = event_base_new(),
                           .thread = pthread_self(),
                           .url = test_db_url(),
                           .commands_max = 1000,
                           .host = { .name = "host-a",
                                     .boot_id = "boot-1",
                                     .pid = 1 << 30, /* there is no such process */
                                     .start_ticks = 1,
                                     .pid_ns = 42 } };
    check(nest->loop);
    sem_init(&nest->may_adopt, 0, 0);
}

static int try_open(struct nest *nest, struct error *error)
{
    static const char *const kinds[] = { "work" };
    struct settings settings;
    settings_default(&settings);
    settings.startup_throttle = THROTTLE_NEVER;
    nest->host.pid++; /* each node is another process */
    nest->status = (struct node_status){ 0 };
    nest->run_count = 0;
    return node_open(&(struct node_options){ .engine = { .url = nest->url,
                                                         .node_name = "node",
                                                         .settings = &settings,
                                                         .host = &nest->host,
                                                         .kinds = kinds,
                                                         .kind_count = 1 },
                                             .loop = nest->loop,
                                             .commands_max = nest->commands_max,
                                             .calls = { .arg = nest,
                                                        .started = on_started,
                                                        .turned = on_turned,
                                                        .adopt = nest->adopt } },
                     error, &nest->node);
}

static void nest_open(struct nest *nest)
{
    struct error error = { 0 };
    if (try_open(nest, &error) < 0 || node_start(nest->node, &error) < 0)
        fail("%s", error.text);
}

static void nest_release(struct nest *nest)
{
    node_close(nest->node);
    event_base_free(nest->loop);
    sem_destroy(&nest->may_adopt);
}

/* Runs the loop until `condition`; one that never comes is the harness's affair. */
#define loop_until(nest, condition)                                                      \
    while (!(condition))                                                                 \
    check_int(event_base_loop((nest)->loop, EVLOOP_ONCE), 0)

/* ---- commands ---- */

struct asked {
    struct nest *nest;
    int number; /* of those that were answered before */
    bool answered;
    int result;
    struct enqueued out;
};

static struct command *enqueue_command(struct asked *asked, const char *kind);
static void try_more(struct nest *nest);

static void on_answer(struct command *command, void *arg)
{
    struct asked *asked = arg;
    struct nest *nest = asked->nest;
    check_in_loop(nest);
    check(!asked->answered);
    asked->answered = true;
    asked->number = nest->answered++;
    asked->result = command->result;
    command_free(command);
    if (nest->closing)
        try_more(nest);
}

static struct command *enqueue_command(struct asked *asked, const char *kind)
{
    struct command *command = command_new(OP_ENQUEUE);
    check(command != NULL);
    command->enqueue.jobs = arena_array(&command->arena, struct new_job, 1);
    check(command->enqueue.jobs != NULL);
    new_job_init(command->enqueue.jobs);
    command->enqueue.jobs->kind = slice_of(kind);
    command->enqueue.count = 1;
    command->enqueue.out = &asked->out;
    command->done = on_answer;
    command->done_arg = asked;
    return command;
}

static void enqueue(struct nest *nest, struct asked *asked, const char *kind)
{
    *asked = (struct asked){ .nest = nest };
    check_ok(node_submit(nest->node, enqueue_command(asked, kind)));
    check(!asked->answered); /* never from inside */
}

/* The outcome of a run of this node. */
static void complete(struct nest *nest, struct asked *asked, int64_t id, int64_t owner_id)
{
    struct command *command = command_new(OP_COMPLETE);
    check(command != NULL);
    *asked = (struct asked){ .nest = nest };
    command->complete.job_id = id;
    command->complete.owner_id = owner_id;
    command->done = on_answer;
    command->done_arg = asked;
    check_ok(node_report(nest->node, command));
}

/* ---- looks ---- */

struct seen {
    struct look look; /* first */
    struct nest *nest;
    int64_t id;
    int state;
    bool answered;
    sem_t *entered, *may_end; /* NULL: does not wait */
};

static int ask_state(struct store *store, struct look *look)
{
    struct seen *seen = (struct seen *)look;
    struct arena arena;
    struct job_row row;
    check(!pthread_equal(pthread_self(), seen->nest->thread));
    if (seen->entered)
        sem_post(seen->entered);
    if (seen->may_end)
        sem_wait(seen->may_end);
    arena_init(&arena, 4096, 1 << 20);
    int r = store_job_get(store, seen->id, &arena, &row);
    if (r == 0)
        seen->state = row.job.state;
    arena_release(&arena);
    return r;
}

static void on_looked(struct look *look)
{
    struct seen *seen = (struct seen *)look;
    struct node_status status; /* may be asked for at any time */
    node_status(seen->nest->node, &status);
    check(status.owner_id > 0);
    check_in_loop(seen->nest);
    check(!seen->answered);
    seen->answered = true;
    seen->nest->looked++;
    if (seen->nest->closing)
        try_more(seen->nest);
}

static int try_look(struct nest *nest, enum reader reader, struct seen *seen)
{
    seen->nest = nest;
    seen->look.ask = ask_state;
    seen->look.done = on_looked;
    return node_look(nest->node, reader, &seen->look);
}

static int state_of(struct nest *nest, int64_t id)
{
    struct seen seen = { .id = id };
    check_ok(try_look(nest, READER_QUICK, &seen));
    check(!seen.answered); /* never from inside */
    loop_until(nest, seen.answered);
    check_ok(seen.look.result);
    return seen.state;
}

/* Nothing goes into a node that is being closed, not even from what it calls. */
static void try_more(struct nest *nest)
{
    struct asked asked = { .nest = nest };
    struct command *command = enqueue_command(&asked, "mail");
    struct seen seen = { .id = 1 };
    check_err(node_submit(nest->node, command), -HF_CLOSED);
    check(command->done == on_answer && command->done_arg == &asked); /* still ours */
    check_err(node_report(nest->node, command), -HF_CLOSED);
    command_free(command);
    check_err(try_look(nest, READER_QUICK, &seen), -HF_CLOSED);
    check_err(try_look(nest, READER_LONG, &seen), -HF_CLOSED);
    check_err(node_set_capacity(nest->node, 1), -HF_CLOSED);
    check_err(node_leave_runs(nest->node, &(int64_t){ 1 }, 1), -HF_CLOSED);
}

/* ---- the tests ---- */

TEST(answers_come_in_the_loops_thread_and_in_the_order_of_the_commands)
{
    static struct asked asked[MANY];
    struct nest nest;
    nest_init(&nest);
    nest_open(&nest);
    for (int i = 0; i < MANY; i++)
        enqueue(&nest, &asked[i], "mail");
    loop_until(&nest, nest.answered == MANY);
    for (int i = 0; i < MANY; i++) {
        check_ok(asked[i].result);
        check_int(asked[i].number, i);
    }
    nest_release(&nest);
}

TEST(a_look_sees_what_an_answer_has_told)
{
    struct nest nest;
    nest_init(&nest);
    nest_open(&nest);
    for (int i = 0; i < 20; i++) {
        struct asked asked;
        enqueue(&nest, &asked, "mail");
        loop_until(&nest, asked.answered);
        for (int reader = 0; reader < READERS; reader++) {
            struct seen seen = { .id = asked.out.id };
            check_ok(try_look(&nest, reader, &seen));
            loop_until(&nest, seen.answered);
            check_ok(seen.look.result);
            check_int(seen.state, JOB_QUEUED);
        }
    }
    nest_release(&nest);
}

TEST(a_look_that_waits_holds_up_nobody_but_its_own_kind)
{
    struct nest nest;
    struct asked asked;
    sem_t entered, may_end;
    sem_init(&entered, 0, 0);
    sem_init(&may_end, 0, 0);
    nest_init(&nest);
    nest_open(&nest);
    enqueue(&nest, &asked, "mail");
    loop_until(&nest, asked.answered);

    struct seen slow = { .id = asked.out.id, .entered = &entered, .may_end = &may_end };
    struct seen behind = { .id = asked.out.id };
    check_ok(try_look(&nest, READER_LONG, &slow));
    sem_wait(&entered);
    check_ok(try_look(&nest, READER_LONG, &behind));
    check_int(state_of(&nest, asked.out.id), JOB_QUEUED);
    enqueue(&nest, &asked, "mail");
    loop_until(&nest, asked.answered);
    check(!slow.answered && !behind.answered);
    sem_post(&may_end);
    loop_until(&nest, behind.answered);
    check(slow.answered);
    check_ok(slow.look.result);
    nest_release(&nest);
    sem_destroy(&entered);
    sem_destroy(&may_end);
}

TEST(a_run_is_told_to_the_loop_and_ends_by_its_report)
{
    struct nest nest;
    struct asked asked, done;
    nest_init(&nest);
    nest_open(&nest);
    check_ok(node_set_capacity(nest.node, 1));
    enqueue(&nest, &asked, "work");
    loop_until(&nest, nest.run_count == 1);
    check(asked.answered);
    check_int(nest.runs[0].id, asked.out.id);
    check_int(state_of(&nest, asked.out.id), JOB_RUNNING);

    /* Without capacity the next one waits, and nothing is told any more. */
    check_ok(node_set_capacity(nest.node, 0));
    loop_until(&nest, nest.status.capacity == 0);
    complete(&nest, &done, nest.runs[0].id, nest.runs[0].owner_id);
    enqueue(&nest, &asked, "work");
    loop_until(&nest, asked.answered && done.answered);
    check_ok(done.result);
    check_int(state_of(&nest, nest.runs[0].id), JOB_COMPLETED);
    check_int(state_of(&nest, asked.out.id), JOB_QUEUED);
    check_int(nest.run_count, 1);
    nest_release(&nest);
}

static void fill(struct nest *nest, struct asked asked[MANY], struct seen seen[MANY])
{
    struct asked first;
    enqueue(nest, &first, "mail");
    loop_until(nest, first.answered);
    for (int i = 0; i < MANY; i++) {
        enqueue(nest, &asked[i], "mail");
        seen[i] = (struct seen){ .id = first.out.id };
        check_ok(try_look(nest, i % READERS, &seen[i]));
    }
    nest->answered = nest->looked = 0;
    nest->closing = true;
}

static void check_all_answered(struct nest *nest, const struct asked asked[MANY],
                               const struct seen seen[MANY])
{
    nest->closing = false;
    check_int(nest->answered, MANY);
    check_int(nest->looked, MANY);
    nest_open(nest);
    for (int i = 0; i < MANY; i++) {
        check_ok(asked[i].result);
        check_ok(seen[i].look.result);
        check_int(seen[i].state, JOB_QUEUED);
        check_int(state_of(nest, asked[i].out.id), JOB_QUEUED); /* as was told */
    }
}

TEST(closing_answers_all_that_is_under_way_and_lets_nothing_more_in)
{
    static struct asked asked[MANY];
    static struct seen seen[MANY];
    struct nest nest;
    nest_init(&nest);
    nest_open(&nest);
    fill(&nest, asked, seen);
    node_close(nest.node);
    check_all_answered(&nest, asked, seen);
    check_int(nest.status.found_dead, 0);
    nest_release(&nest);
}

TEST(so_does_abandoning_and_the_next_node_finds_one_dead)
{
    static struct asked asked[MANY];
    static struct seen seen[MANY];
    struct nest nest;
    nest_init(&nest);
    nest_open(&nest);
    fill(&nest, asked, seen);
    node_abandon(nest.node);
    check_all_answered(&nest, asked, seen);
    loop_until(&nest, nest.status.ready);
    check_int(nest.status.found_dead, 1);
    nest_release(&nest);
}

/* Holds up the committer's thread, the first time. */
static bool adopt_when_allowed(void *arg, const struct job_row *row)
{
    struct nest *nest = arg;
    check(!pthread_equal(pthread_self(), nest->thread));
    check_int(row->job.state, JOB_RUNNING);
    if (!atomic_exchange(&nest->asked_to_adopt, true))
        sem_wait(&nest->may_adopt);
    return true;
}

static bool is_asked_to_adopt(void *arg)
{
    return atomic_load(&((struct nest *)arg)->asked_to_adopt);
}

TEST(what_waits_for_its_answer_is_bounded_but_for_outcomes_of_runs)
{
    enum { BOUND = 4 };
    struct asked asked[BOUND], over = { 0 }, late, done;
    struct nest nest;
    nest_init(&nest);
    nest_open(&nest);
    check_ok(node_set_capacity(nest.node, 1));
    enqueue(&nest, &asked[0], "work");
    loop_until(&nest, nest.run_count == 1);
    int64_t id = nest.runs[0].id, before = nest.runs[0].owner_id;
    node_abandon(nest.node);

    nest.commands_max = BOUND;
    nest.adopt = adopt_when_allowed;
    nest_open(&nest);
    check(test_wait(is_asked_to_adopt, &nest, 60000));
    for (int i = 0; i < BOUND; i++)
        enqueue(&nest, &asked[i], "mail");
    struct command *command = enqueue_command(&over, "mail");
    check_err(node_submit(nest.node, command), -HF_BUSY);
    check(command->done == on_answer && command->done_arg == &over); /* still ours */
    command_free(command);
    complete(&nest, &late, id, before); /* let in; not that owner's any more */
    sem_post(&nest.may_adopt);
    loop_until(&nest, late.answered && asked[BOUND - 1].answered && nest.run_count == 1);
    check_err(late.result, -HF_LATE);

    check(nest.runs[0].adopted && nest.runs[0].id == id);
    complete(&nest, &done, id, nest.runs[0].owner_id);
    loop_until(&nest, done.answered);
    check_ok(done.result);
    nest_release(&nest);
}

static void on_kinds(void *arg, int result)
{
    struct asked *asked = arg;
    check_in_loop(asked->nest);
    asked->answered = true;
    asked->result = result;
}

TEST(kinds_that_are_set_are_executed_from_then_on)
{
    static const char *const kinds[] = { "work", "mail" };
    struct nest nest;
    struct asked asked, set = { .nest = &nest };
    nest_init(&nest);
    nest_open(&nest);
    check_ok(node_set_capacity(nest.node, 1));
    enqueue(&nest, &asked, "mail");
    loop_until(&nest, asked.answered);
    check_int(nest.run_count, 0);
    check_ok(node_set_kinds(nest.node, kinds, 2, NULL, 0, on_kinds, &set));
    check(!set.answered);
    loop_until(&nest, set.answered && nest.run_count == 1);
    check_ok(set.result);
    check_int(nest.runs[0].id, asked.out.id);

    /* And one that is under way when the node is closed is answered as well. */
    set.answered = false;
    check_ok(node_set_kinds(nest.node, kinds, 1, NULL, 0, on_kinds, &set));
    node_close(nest.node);
    check(set.answered);
    nest.node = NULL;
    nest_release(&nest);
}

TEST(a_node_that_was_never_started_or_never_opened_leaves_nothing)
{
    struct error error = { 0 };
    struct nest nest;
    nest_init(&nest);
    check_ok(try_open(&nest, &error));
    try_more(&nest);
    node_close(nest.node);
    nest.node = NULL;

    nest.url = test_on_postgres() ? "postgres://127.0.0.1:1/none" : "/no/such/folder/db";
    check(try_open(&nest, &error) < 0);
    check(strlen(error.text) > 20);
    check(nest.node == NULL);
    node_abandon(NULL);
    nest_release(&nest);
}
