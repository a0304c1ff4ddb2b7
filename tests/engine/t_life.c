/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job, its beginning: what it is given at enqueue, what comes back
 * byte for byte, waiting for its time, expiring, batches. */
#include "acts.h"

TEST(a_job_is_enqueued_claimed_and_completed)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.payload = SLICE("{\"n\": 0.1 }");
    int64_t id = enqueue(&w, job);
    check_int(state_of(&w, id), JOB_QUEUED);
    check_int(claim_one(&w, "s1"), id);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_RUNNING);
    check_slice(row.job.payload, "{\"n\": 0.1 }");
    check_int(row.run.deadline_at, w.wall + 1800 * US_PER_S);
    world_pass(&w, US_PER_S);
    check_ok(complete(&w, "s1", id));
    row = look(&w, id);
    check_int(row.job.state, JOB_COMPLETED);
    check_int(row.run.outcome, JOB_COMPLETED);
    check_int(row.job.finished_at, w.wall);
    check_slice(row.run.result, "{\"ok\":true}");
    check_int(claim_one(&w, "s1"), 0);
    world_end(&w);
}

TEST(a_failure_makes_its_retry_in_the_same_transaction)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.priority = 7;
    int64_t id = enqueue(&w, job), retry = 0;
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, &retry));
    check(retry != 0);
    struct job_row row = look(&w, id), next = look(&w, retry);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.job.retry_state, RETRY_RETRIED);
    check_int(next.job.state, JOB_SCHEDULED);
    check_int(next.job.retry_of, id);
    check_int(next.job.root_id, id);
    check_int(next.job.attempt, 2);
    check_int(next.job.retries_left, 2);
    check_int(next.job.priority, 7);
    check_int(next.job.position, row.job.position);
    check_int(next.job.run_at, w.wall + 60 * US_PER_S);
    check_int(claim_one(&w, "s1"), 0);
    world_pass(&w, 60 * US_PER_S);
    check_int(claim_one(&w, "s1"), retry);
    world_end(&w);
}

/* ---- what a job is given ---- */

TEST(a_job_of_which_only_the_kind_is_given_gets_the_defaults)
{
    struct world w;
    world_begin(&w);
    struct job job = look(&w, enqueue_kind(&w, "crawl")).job;
    check_int(job.state, JOB_QUEUED);
    check_int(job.project_id, 1);
    check_str(store_queue_by_id(w.engine->store, job.queue_id)->queue.name, "default");
    check_slice(job.payload, "null");
    check_slice(job.metadata, NULL);
    check_slice(job.unique_key, NULL);
    check_int(job.priority, 5);
    check_int(job.attempt, 1);
    check_int(job.max_retries, 3);
    check_int(job.retries_left, 3);
    check_slice(job.retry_delays, "60,300,900");
    check_int(job.on_crash, ON_CRASH_RETRY);
    check_int(job.crash_count, 0);
    check_int(job.max_execution_us, 1800 * US_PER_S);
    check_int(job.root_id, job.id);
    check_int(job.retry_of, 0);
    check_int(job.created_at, w.wall);
    check_int(job.run_at, w.wall);
    check_int(job.position, w.wall);
    check_int(job.expires_at, 0);
    check_int(job.retry_state, RETRY_NONE);
    check_int(job.class, CLASS_REMOTE);
    check_int(job.lane, LANE_NORMAL);

    struct new_job http = job_of_kind("http");
    http.payload = SLICE("{\"url\": \"https://example.com\"}");
    job = look(&w, enqueue(&w, http)).job;
    check_int(job.max_execution_us, 60 * US_PER_S);
    check_int(job.class, CLASS_REMOTE); /* until a node says that it executes it */
    world_end(&w);
}

TEST(all_texts_of_a_job_come_back_as_they_were_given)
{
    struct world w;
    world_begin(&w);
    struct new_job in = job_of_kind("a.B_c-9");
    in.payload = SLICE("[ 1.0, 1e2 , \"\\u00e9\xc3\xa9\", {\"b\":1,\"a\":2,\"b\":3} ]");
    in.metadata = SLICE("{\"tenant\": \"a\"}");
    in.unique_key = SLICE("k'; DROP TABLE jobs; --");
    in.external_id = SLICE("\xe2\x82\xac 5");
    in.concurrency_key = SLICE("one");
    struct job job = look(&w, enqueue(&w, in)).job;
    check(slice_equal(job.kind, in.kind));
    check(slice_equal(job.payload, in.payload));
    check(slice_equal(job.metadata, in.metadata));
    check(slice_equal(job.unique_key, in.unique_key));
    check(slice_equal(job.external_id, in.external_id));
    check(slice_equal(job.concurrency_key, in.concurrency_key));
    world_end(&w);
}

static void set_queue_policy(struct world *w, int64_t retries, int64_t deadline_us,
                             int64_t on_crash, const char *delays)
{
    struct command *c = queue_command("q");
    c->queue.max_retries = retries;
    c->queue.max_execution_us = deadline_us;
    c->queue.on_crash = on_crash;
    c->queue.retry_delays = slice_of(delays);
    check_ok(act(w, c));
}

static void check_policy(const struct job *job, int retries, int64_t deadline_us,
                         int on_crash, const char *delays)
{
    check_int(job->max_retries, retries);
    check_int(job->max_execution_us, deadline_us);
    check_int(job->on_crash, on_crash);
    check_slice(job->retry_delays, delays);
}

TEST(policies_resolve_job_before_queue_before_global_and_are_fixed_at_enqueue)
{
    struct world w;
    world_init(&w);
    w.settings.max_retries = 7;
    w.settings.max_execution_us = 70 * US_PER_S;
    snprintf(w.settings.retry_delays, sizeof(w.settings.retry_delays), "7,77");
    world_open(&w);
    struct new_job plain = job_of_kind("crawl"), own = job_of_kind("crawl");
    plain.queue = own.queue = SLICE("q");
    own.max_retries = 2;
    own.max_execution_us = 20 * US_PER_S;
    own.on_crash = ON_CRASH_RETRY;
    own.retry_delays = SLICE("2");

    int64_t global = enqueue(&w, plain);
    set_queue_policy(&w, 5, 50 * US_PER_S, ON_CRASH_FAIL, "5,55");
    int64_t queue = enqueue(&w, plain), job = enqueue(&w, own);
    set_queue_policy(&w, 1, US_PER_S, ON_CRASH_RETRY, "1");
    world_crash(&w);
    w.settings.max_retries = 9;
    world_open(&w);
    struct job rows[] = { look(&w, global).job, look(&w, queue).job, look(&w, job).job };
    check_policy(&rows[0], 7, 70 * US_PER_S, ON_CRASH_RETRY, "7,77");
    check_policy(&rows[1], 5, 50 * US_PER_S, ON_CRASH_FAIL, "5,55");
    check_policy(&rows[2], 2, 20 * US_PER_S, ON_CRASH_RETRY, "2");

    /* The retry keeps what its original was given, and the run its deadline. */
    int64_t retry = 0;
    check_ok(act(&w, make_claim_of("s1", queue)));
    check_int(look(&w, queue).run.deadline_at, w.wall + 50 * US_PER_S);
    check_ok(fail_run(&w, "s1", queue, ERROR_OTHER, &retry));
    struct job next = look(&w, retry).job;
    check_policy(&next, 5, 50 * US_PER_S, ON_CRASH_FAIL, "5,55");
    check_int(next.run_at, w.wall + 5 * US_PER_S);
    world_end(&w);
}

TEST(a_queues_deadline_is_cut_to_what_http_may_have)
{
    struct world w;
    world_begin(&w);
    set_queue_policy(&w, INT64_MIN, 7200 * US_PER_S, INT64_MIN, NULL);
    struct new_job job = job_of_kind("http");
    job.payload = SLICE("{\"url\": \"https://example.com\"}");
    job.queue = SLICE("q");
    check_int(look(&w, enqueue(&w, job)).job.max_execution_us, 1800 * US_PER_S);
    job.kind = SLICE("crawl");
    check_int(look(&w, enqueue(&w, job)).job.max_execution_us, 7200 * US_PER_S);
    job.max_execution_us = 5 * US_PER_MS;
    check_int(look(&w, enqueue(&w, job)).job.max_execution_us, 5 * US_PER_MS);
    world_end(&w);
}

/* ---- payloads ---- */

/* A JSON string of exactly `bytes` bytes, of text that is easy to spoil. */
static struct slice payload_of(struct world *w, size_t bytes)
{
    static const char parts[] = "\\u0000 \\\\ \xc3\xa9\xf0\x9f\xa6\x80 '\\\"'; \\n{}";
    char *text = arena_alloc(&w->arena, bytes + 1);
    size_t n = 0;
    check(text && bytes >= 2);
    text[n++] = '"';
    while (n + sizeof(parts) - 1 < bytes) {
        memcpy(text + n, parts, sizeof(parts) - 1);
        n += sizeof(parts) - 1;
    }
    while (n + 1 < bytes)
        text[n++] = 'x';
    text[n++] = '"';
    check_int(n, bytes);
    return (struct slice){ text, n };
}

/* Down a chain: as it is stored, and as a worker gets it. */
static void follow_payload(struct world *w, size_t bytes, bool apart)
{
    struct new_job job = job_of_kind("crawl");
    job.payload = payload_of(w, bytes);
    job.retry_delays = SLICE("0");
    int64_t id = enqueue(w, job);
    for (int attempt = 1; attempt <= 4; attempt++) {
        check_int(look(w, id).job.attempt, attempt);
        check_int(look(w, id).job.payload_apart, apart);
        check(slice_equal(look(w, id).job.payload, job.payload));
        struct command *claim = make_claim_of("s1", id);
        check_ok(world_apply(w, claim));
        check(slice_equal(claim->claim.out[0].job.payload, job.payload));
        command_free(claim);
        check_ok(fail_run(w, "s1", id, ERROR_OTHER, &id));
    }
    check_int(id, 0);
}

TEST(a_payload_comes_back_byte_for_byte_inline_and_apart_along_a_chain)
{
    struct world w;
    world_begin(&w);
    follow_payload(&w, 2, false);
    follow_payload(&w, LIMIT_PAYLOAD_INLINE_BYTES, false);
    follow_payload(&w, LIMIT_PAYLOAD_INLINE_BYTES + 1, true);
    follow_payload(&w, LIMIT_PAYLOAD_BYTES, true);
    world_end(&w);
}

TEST(a_payload_that_is_apart_follows_a_retry_by_hand_and_a_crash)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.payload = payload_of(&w, 5000);
    int64_t id = enqueue(&w, job), retry = 0;
    check_ok(cancel(&w, id));
    check_ok(retry_by_hand(&w, id, &retry));
    world_crash(&w);
    world_open(&w);
    struct command *claim = make_claim("s1", 1);
    check_ok(world_apply(&w, claim));
    check_int(claim->claim.out_count, 1);
    check_int(claim->claim.out[0].job.id, retry);
    check(slice_equal(claim->claim.out[0].job.payload, job.payload));
    command_free(claim);
    world_end(&w);
}

/* ---- waiting for its time ---- */

TEST(a_job_for_later_waits_until_its_time_and_stands_in_line_from_then)
{
    struct world w;
    world_begin(&w);
    int64_t start = w.wall;
    struct new_job job = job_of_kind("crawl");
    job.run_at = start + 10 * US_PER_S;
    int64_t at = enqueue(&w, job);
    job.run_at = 0;
    job.delay_us = 10 * US_PER_S;
    int64_t in = enqueue(&w, job);
    job.delay_us = 0;
    job.run_at = start - 3600 * US_PER_S;
    int64_t past = enqueue(&w, job);
    check_int(state_of(&w, at), JOB_SCHEDULED);
    check_int(state_of(&w, in), JOB_SCHEDULED);
    check_int(state_of(&w, past), JOB_QUEUED);
    check_int(look(&w, at).job.position, start + 10 * US_PER_S);
    check_int(look(&w, in).job.position, start + 10 * US_PER_S);
    check_int(look(&w, in).job.run_at, start + 10 * US_PER_S);
    check_int(look(&w, past).job.position, start); /* not before it was asked for */
    check_int(look(&w, past).job.run_at, start - 3600 * US_PER_S);
    check_int(claim_one(&w, "s1"), past);

    world_pass(&w, 5 * US_PER_S);
    int64_t later = enqueue_kind(&w, "crawl");
    world_pass(&w, 5 * US_PER_S - 1);
    check_int(state_of(&w, at), JOB_SCHEDULED);
    world_pass(&w, 1);
    check_int(state_of(&w, at), JOB_QUEUED);
    check_int(state_of(&w, in), JOB_QUEUED);
    check_int(claim_one(&w, "s1"), later); /* five seconds before them in line */
    check_int(claim_one(&w, "s1"), at);
    check_int(claim_one(&w, "s1"), in);
    world_end(&w);
}

TEST(many_jobs_that_fall_due_together_are_all_queued)
{
    enum { JOBS = 1234 };
    static struct new_job jobs[JOBS];
    struct world w;
    world_begin(&w);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = job_of_kind("crawl");
        jobs[i].delay_us = 2 * US_PER_S;
    }
    check_ok(act(&w, make_batch(jobs, JOBS)));
    check_int(count_of(&w, "default", COUNT_SCHEDULED), JOBS);
    world_pass(&w, 2 * US_PER_S);
    check_int(count_of(&w, "default", COUNT_SCHEDULED), 0);
    check_int(count_of(&w, "default", COUNT_QUEUED), JOBS);
    world_end(&w);
}

/* ---- expiring ---- */

static void check_expired(struct world *w, int64_t id, int64_t at)
{
    struct job job = look(w, id).job;
    check_int(job.state, JOB_CANCELLED);
    check_int(job.finished_at, at);
    check_slice(job.cancel_reason, "It was not started before its expiresAt.");
    check_int(events_of(w, id, "job.cancelled", NULL), 1);
    check_int(job.retry_state, RETRY_NONE);
}

TEST(a_job_that_was_not_started_by_its_expiry_is_cancelled_with_that_reason)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.expires_at = w.wall + 10 * US_PER_S;
    int64_t running = enqueue(&w, job), queued = 0, scheduled = 0, done = 0;
    check_int(claim_one(&w, "s1"), running);
    done = enqueue(&w, job);
    check_int(claim_one(&w, "s1"), done);
    check_ok(complete(&w, "s1", done));
    queued = enqueue(&w, job);
    job.delay_us = 20 * US_PER_S;
    scheduled = enqueue(&w, job);
    int64_t expiry = job.expires_at;
    world_pass(&w, 10 * US_PER_S - 1);
    check_int(state_of(&w, queued), JOB_QUEUED);
    check_int(state_of(&w, scheduled), JOB_SCHEDULED);
    world_pass(&w, 1);
    check_int(w.wall, expiry);
    check_expired(&w, queued, expiry);
    check_expired(&w, scheduled, expiry);
    check_int(state_of(&w, running), JOB_RUNNING); /* it was started */
    check_int(state_of(&w, done), JOB_COMPLETED);
    world_pass(&w, 10 * US_PER_S);
    check_ok(complete(&w, "s1", running));
    world_end(&w);
}

TEST(a_claim_after_its_expiry_does_not_get_it_even_if_nobody_has_cancelled_it_yet)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "work";
    w.kind_count = 1;
    w.capacity = 2;
    world_open(&w);
    set_pause(&w, "default", true);
    struct new_job job = job_of_kind("crawl");
    job.expires_at = w.wall + US_PER_S;
    int64_t remote = enqueue(&w, job);
    job.kind = SLICE("work");
    int64_t local = enqueue(&w, job);
    w.wall += US_PER_S; /* no tick: the duty is late */
    w.mono += US_PER_S;
    set_pause(&w, "default", false); /* starts what may start on the node */
    check_int(w.started_count, 0);
    check_int(claim_one(&w, "s1"), 0);
    check_err(act(&w, make_claim_of("s1", remote)), -HF_CONFLICT);
    int64_t fresh = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), fresh); /* and it is in nobody's way */
    world_settle(&w);
    check_expired(&w, remote, w.wall);
    check_expired(&w, local, w.wall);
    world_end(&w);
}

TEST(many_jobs_that_expire_together_are_all_cancelled_and_none_is_started)
{
    enum { JOBS = 1234 };
    static struct new_job jobs[JOBS];
    struct world w;
    world_begin(&w);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = job_of_kind("crawl");
        jobs[i].expires_at = w.wall + US_PER_S;
    }
    check_ok(act(&w, make_batch(jobs, JOBS)));
    w.wall += US_PER_S;
    w.mono += US_PER_S;
    check_int(try_claim(&w, "s1", NULL, 100, NULL), 0);
    check_int(count_of(&w, "default", COUNT_RUNNING), 0);
    world_settle(&w);
    check_int(count_of(&w, "default", COUNT_CANCELLED), JOBS);
    world_end(&w);
}

TEST(a_retry_drops_the_expiry)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.expires_at = w.wall + 30 * US_PER_S;
    int64_t id = enqueue(&w, job), retry = 0, by_hand = 0;
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, &retry));
    check_int(look(&w, retry).job.expires_at, 0);
    int64_t other = enqueue(&w, job);
    world_pass(&w, 61 * US_PER_S);
    check_int(state_of(&w, retry), JOB_QUEUED);
    check_expired(&w, other, job.expires_at);
    check_ok(retry_by_hand(&w, other, &by_hand));
    world_pass(&w, 61 * US_PER_S);
    check_int(look(&w, by_hand).job.expires_at, 0);
    check_int(state_of(&w, by_hand), JOB_QUEUED);
    world_end(&w);
}

/* ---- batches ---- */

TEST(a_batch_is_enqueued_in_its_order)
{
    struct world w;
    int64_t ids[3] = { 0 };
    world_begin(&w);
    struct new_job jobs[] = { job_of_kind("a"), job_of_kind("b"), job_of_kind("c") };
    struct command *c = make_batch(jobs, 3);
    check_ok(world_apply(&w, c));
    check_int(try_claim(&w, "s1", NULL, 3, ids), 3);
    for (int i = 0; i < 3; i++) {
        check_int(ids[i], c->enqueue.out[i].id);
        check_int(c->enqueue.out[i].state, JOB_QUEUED);
        check(!c->enqueue.out[i].deduplicated);
        check(slice_equal(look(&w, ids[i]).job.kind, jobs[i].kind));
    }
    command_free(c);
    world_end(&w);
}

/* Three jobs, of which the last is refused; and one that replaces a job. */
static struct command *bad_batch(void)
{
    struct new_job jobs[] = { job_of_kind("bad"), job_of_kind("bad"),
                              job_of_kind("bad") };
    jobs[1].unique_key = SLICE("held");
    jobs[1].on_conflict = CONFLICT_REPLACE;
    jobs[2].project = SLICE("nowhere");
    return make_batch(jobs, 3);
}

static void check_nothing_of_it(struct world *w, struct command *batch, int64_t holder)
{
    struct job_row *rows = NULL;
    size_t count = 0;
    check_err(batch->result, -HF_NOT_FOUND);
    check_has(slice_of(batch->error.text), "There is no project \"nowhere\"");
    check_ok(store_jobs_list(w->engine->store,
                             &(struct job_filter){ .kind = SLICE("bad"), .limit = 10 },
                             &w->arena, &rows, &count));
    check_int(count, 0);
    check_int(state_of(w, holder), JOB_QUEUED);
    check_int(events_of(w, holder, "job.cancelled", NULL), 0);
}

TEST(a_batch_is_all_or_nothing_alone_and_among_good_neighbours_in_either_pass)
{
    struct world w;
    world_begin(&w);
    run_sql(&w, "CREATE UNIQUE INDEX test_external ON jobs (external_id)");
    struct new_job held = job_of_kind("crawl"), same = job_of_kind("crawl");
    held.unique_key = SLICE("held");
    same.external_id = SLICE("same");
    int64_t holder = enqueue(&w, held);

    struct command *alone = bad_batch();
    (void)world_apply(&w, alone);
    check_nothing_of_it(&w, alone, holder);
    command_free(alone);

    for (int second = 0; second < 2; second++) { /* also where a constraint forces it */
        struct test_pile pile = { 0 };
        struct command *before = pile_add(&pile, make_enqueue(job_of_kind("crawl")));
        struct command *batch = pile_add(&pile, bad_batch());
        struct command *after = pile_add(&pile, make_enqueue(job_of_kind("crawl")));
        if (second) {
            pile_add(&pile, make_enqueue(same));
            pile_add(&pile, make_enqueue(same));
        }
        pile_apply(&w, &pile);
        check_nothing_of_it(&w, batch, holder);
        check_ok(before->result);
        check_ok(after->result);
        check_int(state_of(&w, before->enqueue.out[0].id), JOB_QUEUED);
        check_int(state_of(&w, after->enqueue.out[0].id), JOB_QUEUED);
        pile_free(&pile);
    }
    check_int(count_of(&w, "default", COUNT_QUEUED), 6);
    world_end(&w);
}
