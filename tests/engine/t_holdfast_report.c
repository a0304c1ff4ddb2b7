/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's report that the store cannot take at once. */
/* test: wrap=engine_apply */
#include "engine/engine.h"
#include "handle.h"

void __real_engine_apply(struct engine *engine, struct command *list);
void __wrap_engine_apply(struct engine *engine, struct command *list);

/* How many completions are still to be answered with which error. */
static atomic_int refuse_count;
static atomic_int refuse_code;

void __wrap_engine_apply(struct engine *engine, struct command *list)
{
    while (list) {
        struct command *c = list;
        list = (struct command *)c->mail.next;
        c->mail.next = NULL;
        if (c->op == OP_COMPLETE && atomic_load(&refuse_count) > 0) {
            atomic_fetch_sub(&refuse_count, 1);
            c->result = atomic_load(&refuse_code);
            c->done(c, c->done_arg);
        } else {
            __real_engine_apply(engine, c);
        }
    }
}

static int done(struct hf_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return hf_succeed(run, "\"kept\"");
}

TEST(an_outcome_is_told_again_until_the_store_takes_it)
{
    static const int codes[] = { -HF_UNAVAILABLE, -HF_UNKNOWN, -HF_FULL, -HF_BUSY };
    atomic_int calls = 0;
    struct hf *hf = open_scheduler(test_db_url(), "k", done, &calls);

    check_ok(hf_start(hf, 1));
    for (size_t i = 0; i < array_len(codes); i++) {
        atomic_store(&refuse_code, codes[i]);
        atomic_store(&refuse_count, 2);
        struct hf_job *job =
            must_wait(hf, must_enqueue(hf, &(struct hf_new_job){ .kind = "k" }), true);
        check_int(job->state, HF_COMPLETED);
        check_str(job->result, "\"kept\"");
        check_int(job->attempt, 1);
        hf_job_free(job);
    }
    check_int(atomic_load(&calls), array_len(codes));
    check_ok(hf_close(hf));
}

static bool all_refused(void *arg)
{
    (void)arg;
    return atomic_load(&refuse_count) == 0;
}

TEST(an_outcome_that_is_refused_for_good_leaves_the_worker_free)
{
    atomic_int calls = 0;
    struct hf *hf = open_scheduler(test_db_url(), "k", done, &calls);

    check_ok(hf_start(hf, 2));
    atomic_store(&refuse_code, -HF_LATE);
    atomic_store(&refuse_count, 1);
    int64_t late = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    check(test_wait(all_refused, NULL, PATIENCE_MS));
    struct hf_job *job =
        must_wait(hf, must_enqueue(hf, &(struct hf_new_job){ .kind = "k" }), false);
    hf_job_free(job);
    /* As far as the store knows it still runs: the close hands it over. */
    check_int(state_of(hf, late) == HF_RUNNING || state_of(hf, late) == HF_COMPLETED, 1);
    check_ok(hf_close(hf));
}

TEST(a_close_does_not_wait_for_a_store_that_never_answers_well)
{
    atomic_int calls = 0;
    struct hf_options options = options_for(test_db_url());
    struct hf_handler handler = { "k", done, &calls };
    options.handlers = &handler;
    options.handler_count = 1;
    options.shutdown_grace_ms = 50;
    struct hf *hf = open_with(&options);

    check_ok(hf_start(hf, 1));
    atomic_store(&refuse_code, -HF_UNAVAILABLE);
    atomic_store(&refuse_count, 1000000);
    int64_t id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });
    wait_for_state(hf, id, HF_RUNNING);
    check_ok(hf_close(hf));

    /* Nothing is lost: it was handed over, and is done at the next start. */
    atomic_store(&refuse_count, 0);
    hf = open_with(&options);
    check_ok(hf_start(hf, 1));
    struct hf_job *job = must_wait(hf, id, true);
    check_int(job->state, HF_COMPLETED);
    check_int(job->attempt, 2);
    hf_job_free(job);
    check_ok(hf_close(hf));
}
