/* SPDX-License-Identifier: Apache-2.0
 *
 * Random piles against the same commands one by one: two worlds live the same
 * story, one in piles and one a command at a time, and after each chapter every
 * answer and every job must be the same in both.  Some of the piles hold a
 * command that the store refuses, so both passes are walked through; and some are
 * joined by completions that arrive while they are applied.
 *
 * HF_TEST_SEED replays a story; the seed is in the report. */
#include "acts.h"

enum { STEPS = 40, MOST_JOBS = 2000, MOST_COMMANDS = 20, MOST_LATE = 4, MOST_BATCH = 4 };

static const char *const sessions[] = { "s1", "s2" };
static const char *const keys[] = { NULL, NULL, NULL, NULL, "k1", "k2" };
static const char *const queues[] = { NULL, "a", "b" };
static const char *const marks[] = { "m1", "m2", "m3", "m4" }; /* each once */

struct story {
    struct world together, apart;
    struct rng rng;
    uint64_t seed;
    struct {
        int64_t together, apart;
    } jobs[MOST_JOBS]; /* the same job in both worlds */
    int job_count, step;
};

/* What is asked for, before it is known of whom. */
struct wish {
    enum op op;
    int job; /* which */
    int session, type, priority, percent, count;
    int64_t later_us;
    const char *queue, *text, *idempotency, *body;
    struct new_job jobs[MOST_BATCH];
};

static int pick(struct story *s, int count)
{
    return (int)rng_below(&s->rng, (uint64_t)count);
}

#define pick_of(s, list) ((list)[pick(s, (int)array_len(list))])

static void wish_for_jobs(struct story *s, struct wish *wish)
{
    wish->count = pick(s, 5) ? 1 : 1 + pick(s, MOST_BATCH);
    for (int i = 0; i < wish->count; i++) {
        struct new_job job = job_of_kind("crawl");
        job.queue = slice_of(pick_of(s, queues));
        job.unique_key = slice_of(pick_of(s, keys));
        job.on_conflict = (enum on_conflict)pick(s, 3);
        job.external_id = slice_of(pick(s, 12) ? NULL : pick_of(s, marks));
        job.priority = pick(s, 10);
        job.max_retries = pick(s, 4) - 1;
        job.delay_us = pick(s, 3) ? 0 : (1 + pick(s, 20)) * US_PER_S;
        job.project = slice_of(pick(s, 15) ? NULL : "nowhere");
        wish->jobs[i] = job;
    }
    if (pick(s, 4) == 0) {
        wish->idempotency = pick(s, 2) ? "i1" : "i2";
        wish->body = wish->count == 1 ? "one" : wish->count == 2 ? "two" : "more";
    }
}

static struct wish make_wish(struct story *s, enum op op)
{
    static const char *const texts[] = { "one", "two", NULL };
    struct wish wish = { .op = op,
                         .job = s->job_count ? pick(s, s->job_count) : 0,
                         .session = pick(s, 2),
                         .type = 1 + pick(s, ERROR_TYPE_MAX),
                         .priority = pick(s, 10),
                         .percent = pick(s, 102) - 1,
                         .count = 1 + pick(s, 4),
                         .later_us = pick(s, 2) ? 0 : (pick(s, 30) - 10) * US_PER_S,
                         .queue = pick_of(s, queues),
                         .text = pick_of(s, texts) };
    /* The youngest jobs are where things happen. */
    if (s->job_count > 5 && pick(s, 3))
        wish.job = s->job_count - 1 - pick(s, 6);
    if (op == OP_ENQUEUE)
        wish_for_jobs(s, &wish);
    return wish;
}

static struct command *command_for(struct story *s, const struct wish *wish,
                                   bool together)
{
    struct world *w = together ? &s->together : &s->apart;
    int64_t id = together ? s->jobs[wish->job].together : s->jobs[wish->job].apart;
    const char *session = sessions[wish->session];
    switch (wish->op) {
    case OP_ENQUEUE: {
        struct command *c = make_batch(wish->jobs, (size_t)wish->count);
        return wish->idempotency ? with_key(c, wish->idempotency, wish->body) : c;
    }
    case OP_COMPLETE:
        return make_complete(session, id, wish->text ? "1" : NULL);
    case OP_FAIL:
        return make_fail(session, id, wish->type, wish->text);
    case OP_PROGRESS:
        return make_progress(session, id, wish->percent, wish->text);
    case OP_CANCEL:
        return make_cancel(id, wish->text);
    case OP_CHANGE:
        return make_change(id, wish->later_us ? w->wall + wish->later_us : 0,
                           wish->priority, wish->queue);
    case OP_RETRY:
        return make_retry_by_hand(id);
    default:
        return make_claim(session, (size_t)wish->count);
    }
}

/* ---- comparing ---- */

static void same(struct story *s, const char *what, int64_t a, int64_t b)
{
    if (a != b)
        fail("seed %llu, step %d: %s is %lld in the pile, %lld one by one",
             (unsigned long long)s->seed, s->step, what, (long long)a, (long long)b);
}

static void same_text(struct story *s, const char *what, struct slice a, struct slice b)
{
    bool equal = a.p && b.p ? slice_equal(a, b) : !a.p && !b.p;
    if (!equal)
        fail("seed %llu, step %d: %s is %.*s in the pile, %.*s one by one",
             (unsigned long long)s->seed, s->step, what, (int)a.n, a.p, (int)b.n, b.p);
}

/* The same job in both worlds: known already, or new in both. */
static void pair(struct story *s, const char *what, int64_t a, int64_t b)
{
    int x = 0, y = 0;
    if (a == 0 && b == 0)
        return;
    while (x < s->job_count && s->jobs[x].together != a)
        x++;
    while (y < s->job_count && s->jobs[y].apart != b)
        y++;
    same(s, what, x, y);
    if (x == s->job_count) {
        check(s->job_count < MOST_JOBS);
        s->jobs[s->job_count].together = a;
        s->jobs[s->job_count++].apart = b;
    }
}

static void same_answer(struct story *s, const struct command *a, const struct command *b)
{
    same(s, op_name(a->op), a->result, b->result);
    if (a->result < 0) {
        same(s, "the sentence", a->error.text[0] != '\0', b->error.text[0] != '\0');
        return;
    }
    for (size_t i = 0; a->op == OP_ENQUEUE && i < a->enqueue.count; i++) {
        const struct enqueued *x = &a->enqueue.out[i], *y = &b->enqueue.out[i];
        same(s, "deduplicated", x->deduplicated, y->deduplicated);
        pair(s, "the job", x->id, y->id);
    }
    if (a->op == OP_CLAIM)
        same(s, "the number of runs", (int64_t)a->claim.out_count,
             (int64_t)b->claim.out_count);
    for (size_t i = 0; a->op == OP_CLAIM && i < a->claim.out_count; i++)
        pair(s, "the run", a->claim.out[i].job.id, b->claim.out[i].job.id);
    if (a->op == OP_FAIL)
        pair(s, "the retry", a->fail.out_retry_id, b->fail.out_retry_id);
    if (a->op == OP_RETRY) {
        same(s, "whether it was made", a->retry.out_made, b->retry.out_made);
        pair(s, "the retry by hand", a->retry.out_id, b->retry.out_id);
    }
}

static void same_job(struct story *s, int i)
{
    struct world *a = &s->together, *b = &s->apart;
    struct job_row x = look(a, s->jobs[i].together), y = look(b, s->jobs[i].apart);
    same(s, "the state", x.job.state, y.job.state);
    same(s, "runAt", x.job.run_at, y.job.run_at);
    same(s, "the position", x.job.position, y.job.position);
    same(s, "the priority", x.job.priority, y.job.priority);
    same(s, "finishedAt", x.job.finished_at, y.job.finished_at);
    same(s, "retries left", x.job.retries_left, y.job.retries_left);
    same(s, "the retry state", x.job.retry_state, y.job.retry_state);
    same(s, "the reason", x.job.retry_reason, y.job.retry_reason);
    same_text(s, "the cancel reason", x.job.cancel_reason, y.job.cancel_reason);
    same_text(s, "the queue",
              slice_of(store_queue_by_id(a->engine->store, x.job.queue_id)->queue.name),
              slice_of(store_queue_by_id(b->engine->store, y.job.queue_id)->queue.name));
    same(s, "the outcome", x.run.outcome, y.run.outcome);
    same(s, "the error", x.run.error.type, y.run.error.type);
    same_text(s, "the result", x.run.result, y.run.result);
    same(s, "the percent", x.run.percent, y.run.percent);
    same_text(s, "the progress", x.run.progress, y.run.progress);
    pair(s, "its retry", retry_of(a, s->jobs[i].together), retry_of(b, s->jobs[i].apart));
}

/* ---- a story ---- */

/* Completions first and claims last, as a pile applies them. */
static int wish_for_pile(struct story *s, struct wish *wishes)
{
    static const enum op middle[] = { OP_ENQUEUE, OP_ENQUEUE,  OP_FAIL,   OP_FAIL,
                                      OP_FAIL,    OP_PROGRESS, OP_CANCEL, OP_CANCEL,
                                      OP_CHANGE,  OP_CHANGE,   OP_CHANGE, OP_RETRY };
    int n = 0, completions = s->job_count ? pick(s, 4) : 0, rest = 1 + pick(s, 10);
    for (int i = 0; i < completions; i++)
        wishes[n++] = make_wish(s, OP_COMPLETE);
    for (int i = 0; i < rest; i++)
        wishes[n++] = make_wish(s, s->job_count ? pick_of(s, middle) : OP_ENQUEUE);
    for (int i = pick(s, 4); i > 0; i--)
        wishes[n++] = make_wish(s, OP_CLAIM);
    return n;
}

/* Hands those at the end of the pile over, once. */
static size_t join_late(void *arg, struct command **to, size_t most)
{
    struct test_pile *late = arg;
    size_t n = late->count;
    check(n <= most);
    memcpy(to, late->list, n * sizeof(*to));
    late->count = 0;
    return n;
}

/* All but the last few are in the pile; those come late.  True if it was applied twice. */
static bool apply_together(struct story *s, const struct test_pile *all, int late_count)
{
    struct engine *engine = s->together.engine;
    struct test_pile pile = *all, late = { .count = (size_t)late_count };
    uint64_t passes = engine->totals.second_passes;
    pile.count -= late.count;
    memcpy(late.list, &all->list[pile.count], late.count * sizeof(*late.list));
    engine->latecomers = (struct latecomers){ join_late, &late };
    pile_apply(&s->together, &pile);
    engine->latecomers = (struct latecomers){ 0 };
    if (late.count > 0) /* it did not come so far: they are the next pile */
        pile_apply(&s->together, &late);
    return engine->totals.second_passes != passes;
}

/* In the order in which the pile has applied them: latecomers before the claims, or
 * at the end if it took a second pass. */
static void apply_apart(struct story *s, const struct test_pile *all, int late_count,
                        bool twice)
{
    size_t late = all->count - (size_t)late_count, claims = late;
    while (claims > 0 && all->list[claims - 1]->op == OP_CLAIM)
        claims--;
    for (size_t i = 0; i < claims; i++)
        (void)world_apply(&s->apart, all->list[i]);
    for (size_t i = late; i < all->count && !twice; i++)
        (void)world_apply(&s->apart, all->list[i]);
    for (size_t i = claims; i < late; i++)
        (void)world_apply(&s->apart, all->list[i]);
    for (size_t i = late; i < all->count && twice; i++)
        (void)world_apply(&s->apart, all->list[i]);
}

static void one_chapter(struct story *s)
{
    struct wish wishes[MOST_COMMANDS];
    struct test_pile pile = { 0 }, single = { 0 };
    int n = wish_for_pile(s, wishes), late = s->job_count ? pick(s, MOST_LATE) : 0;
    for (int i = 0; i < late; i++)
        wishes[n++] = make_wish(s, OP_COMPLETE);
    for (int i = 0; i < n; i++) {
        pile_add(&pile, command_for(s, &wishes[i], true));
        pile_add(&single, command_for(s, &wishes[i], false));
    }
    bool twice = apply_together(s, &pile, late);
    apply_apart(s, &single, late, twice);
    for (int i = 0; i < n; i++)
        same_answer(s, pile.list[i], single.list[i]);
    for (int i = 0; i < n; i++)
        if (s->job_count)
            same_job(s, wishes[i].job);
    pile_free(&pile);
    pile_free(&single);
    arena_reset(&s->together.arena);
    arena_reset(&s->apart.arena);
}

static void time_passes(struct story *s)
{
    int64_t us = (1 + pick(s, 10)) * US_PER_S;
    struct world *both[] = { &s->together, &s->apart };
    for (size_t i = 0; i < array_len(both); i++) {
        for (size_t k = 0; k < array_len(sessions); k++) {
            struct command *c = command_new(OP_BEAT);
            c->beat.session = slice_of(sessions[k]);
            check_ok(act(both[i], c));
        }
        world_pass(both[i], us);
    }
}

static void live_a_story(uint64_t seed)
{
    static struct story s;
    const char *given = getenv("HF_TEST_SEED");
    s = (struct story){ .seed = given ? strtoull(given, NULL, 10) : seed };
    rng_seed(&s.rng, s.seed);
    test_note("seed %llu", (unsigned long long)s.seed);
    struct world *both[] = { &s.together, &s.apart };
    for (size_t i = 0; i < array_len(both); i++) {
        world_begin(both[i]);
        run_sql(both[i], "CREATE UNIQUE INDEX test_mark ON jobs (external_id) "
                         "WHERE retry_of IS NULL");
    }
    for (s.step = 0; s.step < STEPS; s.step++) {
        one_chapter(&s);
        if (pick(&s, 4) == 0)
            time_passes(&s);
    }
    for (int i = 0; i < s.job_count; i++)
        same_job(&s, i);
    check(s.together.engine->totals.second_passes > 0);
    world_end(&s.together);
    world_end(&s.apart);
}

TEST(random_piles_do_what_their_commands_do_one_by_one)
{
    live_a_story(1);
}

TEST(and_so_they_do_in_another_story)
{
    live_a_story(20270115);
}
