/* SPDX-License-Identifier: Apache-2.0
 *
 * Completions that join the pile under way, and completions of runs that this node
 * executes itself, which are not looked up: nobody may be able to tell. */
#include <pthread.h>

#include "acts.h"
#include "engine/committer.h"

static struct command *completion(struct world *w, int64_t id)
{
    struct command *c = make_complete(NULL, id, "1");
    c->complete.owner_id = w->engine->owner_id;
    return c;
}

/* ---- joining ---- */

struct late {
    struct command *list[4];
    size_t count, asked;
};

static size_t give(void *arg, struct command **to, size_t most)
{
    struct late *late = arg;
    size_t n = late->asked++ == 0 ? late->count : 0;
    check(n <= most);
    memcpy(to, late->list, n * sizeof(*to));
    return n;
}

static void expect(struct world *w, struct late *late, struct command *c)
{
    late->list[late->count++] = c;
    late->asked = 0;
    w->engine->latecomers = (struct latecomers){ give, late };
}

static void free_late(struct late *late)
{
    for (size_t i = 0; i < late->count; i++)
        command_free(late->list[i]);
}

TEST(a_slot_that_is_freed_meanwhile_is_there_for_a_job_of_the_pile)
{
    struct world w;
    struct late late = { 0 };
    world_begin_node(&w, 1);
    int64_t first = enqueue_kind(&w, "work");
    expect(&w, &late, completion(&w, first));
    int64_t second = enqueue_kind(&w, "work");
    check_ok(late.list[0]->result);
    check_int(late.asked, 1);
    check_int(state_of(&w, first), JOB_COMPLETED);
    check_int(state_of(&w, second), JOB_RUNNING);
    check_int(w.started_count, 2);
    check_int(w.engine->totals.second_passes, 0);
    check_books(&w);
    free_late(&late);
    world_end(&w);
}

TEST(who_joins_is_answered_even_if_the_pile_is_applied_twice)
{
    struct world w;
    struct late late = { 0 };
    world_begin_node(&w, 2);
    int64_t first = enqueue_kind(&w, "work"), second = enqueue_kind(&w, "work");
    expect(&w, &late, completion(&w, first));
    late.list[late.count++] = completion(&w, first); /* twice: the second pass decides */
    late.list[late.count++] = completion(&w, second);
    check_ok(act(&w, completion(&w, second)));
    check_ok(late.list[0]->result);
    check_err(late.list[1]->result, -HF_LATE);
    check_err(late.list[2]->result, -HF_LATE);
    check_int(w.engine->totals.second_passes, 1);
    check_int(count_of(&w, "default", COUNT_COMPLETED), 2);
    check_int(count_of(&w, "default", COUNT_RUNNING), 0);
    check_books(&w);
    free_late(&late);
    world_end(&w);
}

/* Whose claim is in the pile was asked for before; those who join are asked for too. */
TEST(a_remote_worker_claims_in_a_pile_that_is_joined)
{
    struct world w;
    struct late late = { 0 };
    world_begin_node(&w, 1);
    int64_t ours = enqueue_kind(&w, "work"), theirs = enqueue_kind(&w, "remote");
    enqueue_kind(&w, "remote");
    check_int(claim_one(&w, "b"), theirs);
    expect(&w, &late, completion(&w, ours));
    expect(&w, &late, make_complete("b", theirs, "1"));
    check(claim_one(&w, "a") != 0);
    check_ok(late.list[0]->result);
    check_ok(late.list[1]->result);
    check_int(w.engine->totals.second_passes, 0);
    check_books(&w);
    free_late(&late);
    world_end(&w);
}

TEST(a_run_that_has_ended_in_the_pile_does_not_end_again)
{
    struct world w;
    world_begin_node(&w, 1);
    for (int failed = 0; failed < 2; failed++) {
        struct late late = { 0 };
        int64_t id = enqueue_kind(&w, "work");
        struct command *c = completion(&w, id);
        if (failed) {
            command_free(c);
            c = make_fail(NULL, id, ERROR_PERMANENT, "x");
            c->fail.owner_id = w.engine->owner_id;
        }
        expect(&w, &late, completion(&w, id));
        check_ok(act(&w, c));
        check_err(late.list[0]->result, -HF_LATE);
        check_int(state_of(&w, id), failed ? JOB_FAILED : JOB_COMPLETED);
        check_int(w.engine->totals.second_passes, 0);
        check_books(&w);
        free_late(&late);
        w.engine->latecomers.take = NULL;
    }
    world_end(&w);
}

/* ---- not looked up ---- */

TEST(a_run_that_another_process_has_cancelled_is_completed_out_of_that_state)
{
    struct world w, other;
    world_begin_node(&w, 2);
    int64_t id = enqueue_kind(&w, "work"), bystander = enqueue_kind(&w, "work");
    twin_open_as(&w, &other, true);
    check_ok(cancel(&other, id)); /* and nobody here knows */
    check_int(state_of(&w, id), JOB_CANCELLING);
    struct test_pile pile = { 0 };
    pile_add(&pile, completion(&w, id));
    pile_add(&pile, completion(&w, bystander));
    pile_apply(&w, &pile);
    check_ok(pile.list[0]->result);
    check_ok(pile.list[1]->result);
    check_int(state_of(&w, id), JOB_COMPLETED);
    check_int(state_of(&w, bystander), JOB_COMPLETED);
    check_int(count_of(&w, "default", COUNT_CANCELLING), 0);
    check_int(count_of(&w, "default", COUNT_RUNNING), 0);
    check_books(&w);
    pile_free(&pile);
    world_close(&other);
    world_end(&w);
}

TEST(a_run_that_is_anothers_by_now_is_refused)
{
    struct world w;
    world_begin_node(&w, 2);
    int64_t id = enqueue_kind(&w, "work");
    run_sql(&w, "UPDATE runs SET owner_id = owner_id + 1");
    struct command *c = completion(&w, id);
    check_err(world_apply(&w, c), -HF_LATE);
    check(strstr(c->error.text, "belongs to another owner"));
    check_int(state_of(&w, id), JOB_RUNNING);
    run_sql(&w, "UPDATE runs SET owner_id = owner_id - 1");
    check_ok(act(&w, completion(&w, id)));
    check_books(&w);
    command_free(c);
    world_end(&w);
}

/* ---- the committer ---- */

/* What the thread is held up with, so that mail gathers behind it. */
struct turnstile {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool entered, open;
};

static void hold_up(struct engine *engine, void *arg)
{
    struct turnstile *gate = arg;
    (void)engine;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    pthread_cond_broadcast(&gate->moved);
    while (!gate->open)
        pthread_cond_wait(&gate->moved, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void let_go(struct turnstile *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

enum { SENT_MAX = 16 };

/* In which order things were done; the committer's thread writes it. */
struct story {
    struct turnstile done;
    char text[SENT_MAX + 1];
    size_t count, expected;
};

static void told(struct story *story, char what)
{
    pthread_mutex_lock(&story->done.lock);
    story->text[story->count++] = what;
    if (story->count == story->expected)
        story->done.open = true;
    pthread_cond_broadcast(&story->done.moved);
    pthread_mutex_unlock(&story->done.lock);
}

static void answered(struct command *c, void *arg)
{
    told(arg, c->op == OP_COMPLETE ? 'c' : 'e');
    command_free(c);
}

static void called(struct engine *engine, void *arg)
{
    (void)engine;
    told(arg, '!');
}

static void send_command(struct committer *committer, struct story *story,
                         struct command *c)
{
    c->done = answered;
    c->done_arg = story;
    check_ok(committer_submit(committer, c));
}

/* While the first pile is applied (it asks for latecomers when it has made its
 * changes), others arrive: this is that moment. */
static size_t (*take_really)(void *arg, struct command **to, size_t most);
static struct turnstile in_pile;

static size_t take_held_up(void *arg, struct command **to, size_t most)
{
    if (!in_pile.open)
        hold_up(NULL, &in_pile);
    return take_really(arg, to, most);
}

/* What overtakes what, if it arrives while a pile is applied: e enqueues, c completes,
 * ! calls, and E enqueues for somebody who does not wait for the answer. */
static void check_order(const char *arrives, const char *done)
{
    struct world w;
    struct committer *committer = NULL;
    struct turnstile hold = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };
    in_pile = hold;
    struct story story = { .done = hold, .expected = strlen(done) };
    world_begin_node(&w, 4);
    int64_t runs[2] = { enqueue_kind(&w, "work"), enqueue_kind(&w, "work") };
    struct command *completions[2] = { completion(&w, runs[0]), completion(&w, runs[1]) };
    size_t completed = 0;
    struct new_job job = job_of_kind("work");
    job.delay_us = 60 * US_PER_S;
    check_ok(committer_new(w.engine, 100, NULL, NULL, &committer));
    take_really = w.engine->latecomers.take; /* nothing is under way yet */
    w.engine->latecomers.take = take_held_up;
    send_command(committer, &story, make_enqueue(job)); /* is held up, applied */
    pthread_mutex_lock(&in_pile.lock);
    while (!in_pile.entered)
        pthread_cond_wait(&in_pile.moved, &in_pile.lock);
    pthread_mutex_unlock(&in_pile.lock);
    for (const char *next = arrives; *next; next++) {
        struct command *c = NULL;
        if (*next == '!') {
            check_ok(committer_send(committer, called, &story));
            continue;
        }
        c = *next == 'c' ? completions[completed++] : make_enqueue(job);
        c->in_order = *next == 'E';
        send_command(committer, &story, c);
    }
    let_go(&in_pile);
    hold_up(NULL, &story.done); /* until all are answered */
    check_str(story.text, done);
    committer_free(committer);
    check_int(completed, 2);
    check_int(state_of(&w, runs[0]), JOB_COMPLETED);
    check_int(state_of(&w, runs[1]), JOB_COMPLETED);
    check_books(&w);
    world_end(&w);
}

TEST(completions_overtake_all_but_a_call)
{
    check_order("ec!ec", "ece!ec");
}

TEST(a_completion_does_not_overtake_what_its_handler_did_not_wait_for)
{
    check_order("ecEc", "eceec");
}
