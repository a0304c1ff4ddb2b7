/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine tells whoever listens in its process: each thing that
 * happened, once, after the commit, and nothing that did not happen. */
#include <stdarg.h>

#include "acts.h"

static struct {
    char text[4096]; /* "type:job type:job " */
} heard;

static void listen(void *arg, const struct event *events, size_t count)
{
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(heard.text);
        snprintf(heard.text + n, sizeof(heard.text) - n, "%.*s:%lld ",
                 (int)events[i].type.n, events[i].type.p, (long long)events[i].job_id);
    }
}

static void begin_listening(struct world *w)
{
    world_begin(w);
    w->engine->hooks.told = listen;
    heard.text[0] = '\0';
}

static void check_heard(const char *format, ...) printf_like(1, 2);
static void check_heard(const char *format, ...)
{
    char want[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(want, sizeof(want), format, args);
    va_end(args);
    check_str(heard.text, want);
    heard.text[0] = '\0';
}

TEST(the_ordinary_three_are_told_though_they_are_not_written)
{
    struct world w;
    begin_listening(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_heard("job.enqueued:%lld ", (long long)id);
    check_int(claim_one(&w, "s1"), id);
    check_heard("job.run.started:%lld ", (long long)id);
    check_ok(complete(&w, "s1", id));
    check_heard("job.run.completed:%lld ", (long long)id);
    check_int(events_of(&w, id, "job.enqueued", NULL), 0);
    check_int(events_of(&w, id, "job.run.completed", NULL), 0);
    world_end(&w);
}

TEST(a_failure_is_told_once_and_written)
{
    struct world w;
    begin_listening(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    heard.text[0] = '\0';
    check_ok(fail_run(&w, "s1", id, ERROR_PERMANENT, NULL));
    check_heard("job.run.failed:%lld ", (long long)id);
    world_end(&w);
}

TEST(a_refused_command_tells_nothing_and_its_neighbour_does)
{
    struct world w;
    begin_listening(&w);
    struct new_job keyed = job_of_kind("crawl");
    keyed.unique_key = SLICE("one");
    keyed.on_conflict = CONFLICT_REJECT;
    int64_t first = enqueue(&w, keyed);
    check_heard("job.enqueued:%lld ", (long long)first);
    /* The batch fails at its second job, so the pile is applied a second time. */
    struct test_pile pile = { 0 };
    struct new_job batch[] = { job_of_kind("a"), keyed };
    struct command *bad = pile_add(&pile, make_batch(batch, 2));
    struct command *good = pile_add(&pile, make_enqueue(job_of_kind("b")));
    pile_apply(&w, &pile);
    check_int(bad->result, -HF_DUPLICATE);
    check_ok(good->result);
    check_heard("job.enqueued:%lld ", (long long)good->enqueue.out[0].id);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_job_that_was_made_is_shown_to_whoever_asked_for_it)
{
    struct world w;
    world_begin(&w);
    struct command *c = make_enqueue(job_of_kind("crawl"));
    c->enqueue.made = arena_array(&c->arena, struct job, 1);
    check_ok(world_apply(&w, c));
    check_int(c->enqueue.made[0].id, c->enqueue.out[0].id);
    check_slice(c->enqueue.made[0].retry_delays, "60,300,900");
    check_slice(c->enqueue.made[0].payload, "null");
    /* What the answer shows may be read in another thread, while the committer's
     * reads its queues anew. */
    struct queue_entry *queue = w.engine->store->queues[0];
    check_str(c->enqueue.out[0].queue, queue->queue.name);
    check(c->enqueue.out[0].queue != queue->queue.name);
    command_free(c);
    world_end(&w);
}
