/* SPDX-License-Identifier: Apache-2.0
 *
 * State by event, every cell, on the real store: a job is brought into the
 * state, the event is made to happen in each way in which it can (a command, the
 * clock, a death), and state, run, retry, answer and counts are held against a
 * table that knows nothing of the engine's. */
#include "acts.h"

/* ---- what must come of it ----
 *
 * A cell: the state afterwards; "+STATE" a retry in that state is made; ":REASON"
 * it is final for that reason.  "." a conflict and "late" a late report, both of
 * which change nothing; "-" nothing happens, and nobody is told. */
struct row {
    const char *event;
    const char *cells[JOB_STATE_MAX];
    int error; /* of a run that this event ends */
};

/* clang-format off */
static const struct row rows[] = {
/*                      scheduled    queued       running             cancelling          completed           failed           cancelled */
{ "due by the clock", { "queued",    "-",         "-",                "-",                "-",                "-",             "-" }, 0 },
{ "claim",            { ".",         "running",   ".",                ".",                ".",                ".",             "." }, 0 },
{ "complete",         { "late",      "late",      "completed",        "completed",        "late",             "late",          "late" }, 0 },
{ "fail",             { "late",      "late",      "failed+scheduled", "cancelled",        "late",             "late",          "late" }, ERROR_OTHER },
{ "timeout reported", { "late",      "late",      "failed+scheduled", "cancelled",        "late",             "late",          "late" }, ERROR_TIMEOUT },
{ "deadline passed",  { "-",         "-",         "failed+scheduled", "cancelled",        "-",                "-",             "-" }, ERROR_TIMEOUT },
{ "interrupt reported", { "late",    "late",      "failed+queued",    "cancelled",        "late",             "late",          "late" }, ERROR_INTERRUPTED },
{ "node stopped",     { "-",         "-",         "failed+queued",    "cancelled",        "-",                "-",             "-" }, ERROR_INTERRUPTED },
{ "crash reported",   { "late",      "late",      "failed+scheduled", "failed:cancelled", "late",             "late",          "late" }, ERROR_CRASH },
{ "worker died",      { "-",         "-",         "failed+scheduled", "failed:cancelled", "-",                "-",             "-" }, ERROR_CRASH },
{ "node died",        { "-",         "-",         "failed+scheduled", "failed:cancelled", "-",                "-",             "-" }, ERROR_CRASH },
{ "cancel",           { "cancelled", "cancelled", "cancelling",       "cancelling",       ".",                ".",             "cancelled" }, 0 },
{ "expire",           { "cancelled", "cancelled", "-",                "-",                "-",                "-",             "-" }, 0 },
{ "change",           { "scheduled", "queued",    ".",                ".",                ".",                ".",             "." }, 0 },
{ "retry by hand",    { "queued",    "queued",    "running",          "cancelling",       "completed+queued", "failed+queued", "cancelled+queued" }, 0 },
};
/* clang-format on */

/* ---- one job in each state ---- */

struct stage {
    struct world w;
    int64_t ids[JOB_STATE_MAX + 1]; /* by state */
    struct job_row before[JOB_STATE_MAX + 1];
    int results[JOB_STATE_MAX + 1];
    bool told; /* by a command, which has a result */
    bool node; /* they run on the node, not on "s1" */
};

static const char SESSION[] = "s1";

static void beat(struct world *w)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = slice_of(SESSION);
    check_ok(act(w, c));
}

/* Time passes, and the worker lives. */
static void live(struct world *w, int64_t us)
{
    for (; us > 0; us -= 5 * US_PER_S) {
        beat(w);
        world_pass(w, us < 5 * US_PER_S ? us : 5 * US_PER_S);
    }
}

static struct command *finish(struct stage *s, int64_t id, int error)
{
    const char *session = s->node ? NULL : SESSION;
    int64_t owner = s->node ? s->w.engine->owner_id : 0;
    struct command *c =
        error ? make_fail(session, id, error, "Test") : make_complete(session, id, "1");
    if (error)
        c->fail.owner_id = owner;
    else
        c->complete.owner_id = owner;
    return c;
}

static void bring(struct stage *s, int state, struct new_job job)
{
    struct world *w = &s->w;
    if (state == JOB_SCHEDULED)
        job.delay_us = 600 * US_PER_S;
    if (state == JOB_QUEUED)
        job.kind = SLICE("crawl"); /* that no node takes it */
    int64_t id = enqueue(w, job);
    if (state > JOB_QUEUED && !s->node)
        check_ok(act(w, make_claim_of(SESSION, id)));
    if (state == JOB_CANCELLING || state == JOB_CANCELLED)
        check_ok(act(w, make_cancel(id, "before")));
    if (state == JOB_COMPLETED)
        check_ok(act(w, finish(s, id, 0)));
    if (state == JOB_FAILED)
        check_ok(act(w, finish(s, id, ERROR_PERMANENT)));
    if (state == JOB_CANCELLED)
        check_ok(act(w, finish(s, id, ERROR_OTHER)));
    check_int(state_of(w, id), state);
    s->ids[state] = id;
}

static void set_stage(struct stage *s, bool node, struct new_job job)
{
    *s = (struct stage){ .node = node };
    world_init(&s->w);
    s->w.kinds[0] = "work";
    s->w.kind_count = 1;
    s->w.capacity = node ? 10 : 0;
    world_open(&s->w);
    beat(&s->w);
    live(&s->w, 31 * US_PER_S); /* from now on deadlines and leases are judged */
    job.kind = node ? SLICE("work") : SLICE("crawl");
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        bring(s, state, job);
    engine_set_capacity(s->w.engine, 0); /* what is made from now on stays waiting */
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        s->before[state] = look(&s->w, s->ids[state]);
}

/* The same command for each. */
static void tell_each(struct stage *s,
                      struct command *(*make)(struct stage *s, int64_t id))
{
    s->told = true;
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++) {
        s->results[state] = act(&s->w, make(s, s->ids[state]));
        check_int(s->w.error.text[0] != '\0', s->results[state] < 0);
    }
}

/* ---- comparing ---- */

static const struct row *row_of(const char *event)
{
    for (size_t i = 0; i < array_len(rows); i++)
        if (strcmp(rows[i].event, event) == 0)
            return &rows[i];
    fail("there is no row called %s", event);
}

static void same(const struct row *row, int state, const char *what, int64_t got,
                 int64_t want)
{
    if (got != want)
        fail("%s on a %s job: %s is %lld, not %lld", row->event, job_state_name(state),
             what, (long long)got, (long long)want);
}

static void check_retry(struct stage *s, const struct row *row, int state,
                        const char *want)
{
    struct world *w = &s->w;
    int64_t id = s->ids[state], retry = retry_of(w, id);
    const struct job *old = &s->before[state].job;
    same(row, state, "a retry", retry != 0, want != NULL);
    if (!want)
        return;
    struct job job = look(w, retry).job;
    same(row, state, "the retry's state", job.state, job_state_from_name(slice_of(want)));
    same(row, state, "the retry's attempt", job.attempt, old->attempt + 1);
    same(row, state, "the retry's root", job.root_id, id);
    same(row, state, "the retry's position", job.position, old->position);
    same(row, state, "the retry's priority", job.priority, old->priority);
    bool uses_one = job.state == JOB_SCHEDULED;
    same(row, state, "what is left", job.retries_left, old->retries_left - uses_one);
}

static void check_run(struct stage *s, const struct row *row, int state,
                      const struct job_row *is)
{
    const struct run *was = &s->before[state].run;
    bool begins = state == JOB_QUEUED && is->job.state == JOB_RUNNING;
    bool ends = job_state_busy(state) && job_state_terminal(is->job.state);
    same(row, state, "a run", is->run.job_id != 0, was->job_id != 0 || begins);
    same(row, state, "the run's end", is->run.finished_at != 0,
         was->finished_at != 0 || ends);
    same(row, state, "the outcome", is->run.outcome, ends ? is->job.state : was->outcome);
    int error = ends ? row->error : was->error.type;
    if (ends && is->job.state == JOB_CANCELLED)
        error = ERROR_CANCELLED;
    same(row, state, "the error", is->run.error.type, error);
}

static void check_cell(struct stage *s, const struct row *row, int state)
{
    char cell[64], *retry = NULL, *reason = NULL;
    snprintf(cell, sizeof(cell), "%s", row->cells[state - 1]);
    int result = strcmp(cell, ".") == 0      ? -HF_CONFLICT
                 : strcmp(cell, "late") == 0 ? -HF_LATE
                                             : 0;
    bool nothing = result < 0 || strcmp(cell, "-") == 0;
    if ((retry = strchr(cell, '+')))
        *retry++ = '\0';
    if ((reason = strchr(cell, ':')))
        *reason++ = '\0';
    if (s->told)
        same(row, state, "the answer", s->results[state], result);

    struct job_row is = look(&s->w, s->ids[state]);
    const struct job *was = &s->before[state].job;
    int want = nothing ? state : job_state_from_name(slice_of(cell));
    same(row, state, "the state", is.job.state, want);
    same(row, state, "finishedAt", is.job.finished_at != 0, job_state_terminal(want));
    if (job_state_terminal(state))
        same(row, state, "the time of its end", is.job.finished_at, was->finished_at);
    same(row, state, "the position", is.job.position, was->position);
    check_run(s, row, state, &is);
    check_retry(s, row, state, retry);
    int retry_state = retry ? RETRY_RETRIED : reason ? RETRY_FINAL : was->retry_state;
    same(row, state, "the retry state", is.job.retry_state, retry_state);
    if (reason)
        check_str(retry_reason_name(is.job.retry_reason), reason);
    else if (retry)
        same(row, state, "the reason", is.job.retry_reason, REASON_NONE);
}

static void end_stage(struct stage *s, const char *event)
{
    const struct row *row = row_of(event);
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        check_cell(s, row, state);
    world_end(&s->w);
}

/* ---- the events ---- */

TEST(due_by_the_clock)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    /* Whatever its state, its time comes now; only the scheduled one is touched. */
    char sql[100];
    long long soon = s.w.wall + 5 * US_PER_S;
    snprintf(sql, sizeof(sql), "UPDATE jobs SET run_at = %lld", soon);
    run_sql(&s.w, sql);
    live(&s.w, 5 * US_PER_S);
    end_stage(&s, "due by the clock");
}

static struct command *claim_it(struct stage *s, int64_t id)
{
    (void)s;
    return make_claim_of(SESSION, id);
}

TEST(claim)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, claim_it);
    check_int(try_claim(&s.w, SESSION, NULL, 10, NULL), 0); /* there was one to be had */
    end_stage(&s, "claim");
}

static struct command *complete_it(struct stage *s, int64_t id)
{
    return finish(s, id, 0);
}

TEST(complete_by_a_worker)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, complete_it);
    end_stage(&s, "complete");
}

TEST(complete_by_the_node)
{
    struct stage s;
    set_stage(&s, true, job_of_kind("work"));
    tell_each(&s, complete_it);
    end_stage(&s, "complete");
}

static struct command *fail_it(struct stage *s, int64_t id)
{
    return finish(s, id, ERROR_OTHER);
}

TEST(fail_by_a_worker)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, fail_it);
    end_stage(&s, "fail");
}

TEST(fail_by_the_node)
{
    struct stage s;
    set_stage(&s, true, job_of_kind("work"));
    tell_each(&s, fail_it);
    end_stage(&s, "fail");
}

static struct command *time_out(struct stage *s, int64_t id)
{
    return finish(s, id, ERROR_TIMEOUT);
}

TEST(timeout_as_reported)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, time_out);
    end_stage(&s, "timeout reported");
}

TEST(timeout_by_the_deadline)
{
    struct stage s;
    struct new_job job = job_of_kind("crawl");
    job.max_execution_us = 20 * US_PER_S;
    set_stage(&s, false, job);
    live(&s.w, 20 * US_PER_S - 1);
    check_int(state_of(&s.w, s.ids[JOB_RUNNING]), JOB_RUNNING);
    live(&s.w, US_PER_S); /* within a second */
    end_stage(&s, "deadline passed");
}

static struct command *interrupt(struct stage *s, int64_t id)
{
    return finish(s, id, ERROR_INTERRUPTED);
}

TEST(interrupt_as_reported)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, interrupt);
    end_stage(&s, "interrupt reported");
}

TEST(interrupt_by_a_graceful_stop)
{
    struct stage s;
    set_stage(&s, true, job_of_kind("work"));
    engine_close(s.w.engine);
    s.w.capacity = 0;
    world_open(&s.w);
    end_stage(&s, "node stopped");
}

static struct command *crash(struct stage *s, int64_t id)
{
    return finish(s, id, ERROR_CRASH);
}

TEST(crash_as_reported)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, crash);
    end_stage(&s, "crash reported");
}

TEST(crash_of_a_worker_that_is_not_heard_of_any_more)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    world_pass(&s.w, 31 * US_PER_S);
    end_stage(&s, "worker died");
}

TEST(crash_of_the_node)
{
    struct stage s;
    set_stage(&s, true, job_of_kind("work"));
    world_crash(&s.w);
    s.w.capacity = 0;
    world_open(&s.w);
    end_stage(&s, "node died");
}

static struct command *cancel_it(struct stage *s, int64_t id)
{
    (void)s;
    return make_cancel(id, "enough");
}

TEST(cancel_by_a_person)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, cancel_it);
    end_stage(&s, "cancel");
}

TEST(expire_by_the_clock)
{
    struct stage s;
    struct new_job job = job_of_kind("crawl");
    set_stage(&s, false, job);
    char sql[100];
    long long soon = s.w.wall + 5 * US_PER_S;
    snprintf(sql, sizeof(sql), "UPDATE jobs SET expires_at = %lld", soon);
    run_sql(&s.w, sql);
    live(&s.w, 5 * US_PER_S);
    end_stage(&s, "expire");
}

static struct command *change_it(struct stage *s, int64_t id)
{
    (void)s;
    return make_change(id, 0, 9, NULL);
}

TEST(change_by_a_person)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, change_it);
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        check_int(look(&s.w, s.ids[state]).job.priority, state <= JOB_QUEUED ? 9 : 5);
    end_stage(&s, "change");
}

static struct command *retry_it(struct stage *s, int64_t id)
{
    (void)s;
    return make_retry_by_hand(id);
}

TEST(retry_by_a_person)
{
    struct stage s;
    set_stage(&s, false, job_of_kind("crawl"));
    tell_each(&s, retry_it);
    end_stage(&s, "retry by hand");
}

TEST(every_cell_of_the_engines_table_says_the_same)
{
    static const char *const rows_of[JOB_EVENTS] = {
        [ON_DUE] = "due by the clock",
        [ON_CLAIM] = "claim",
        [ON_COMPLETE] = "complete",
        [ON_FAIL] = "fail",
        [ON_TIMEOUT] = "timeout reported",
        [ON_INTERRUPT] = "interrupt reported",
        [ON_CRASH] = "crash reported",
        [ON_CANCEL] = "cancel",
        [ON_EXPIRE] = "expire",
        [ON_CHANGE] = "change",
        [ON_RETRY] = "retry by hand",
    };
    for (int event = 0; event < JOB_EVENTS; event++)
        for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++) {
            const struct row *row = row_of(rows_of[event]);
            const char *cell = row->cells[state - 1];
            size_t n = strcspn(cell, "+:");
            struct transition to = transition(state, (enum job_event)event);
            bool quiet = strcmp(cell, "-") == 0;
            int want = quiet ? state : job_state_from_name((struct slice){ cell, n });
            if (strcmp(cell, ".") == 0 || strcmp(cell, "late") == 0)
                same(row, state, "the refusal", to.refusal,
                     cell[0] == '.' ? -HF_CONFLICT : -HF_LATE);
            else if (!quiet || to.next)
                same(row, state, "the next state", to.next, want);
        }
}
