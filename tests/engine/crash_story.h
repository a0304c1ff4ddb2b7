/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_story.h -- what happens in the script's first life.
 *
 * The schema is made; projects, tokens, queues, schedules, webhooks, every kind of
 * enqueue, claims, reports, cancels, changes, retries by hand, piles, holds, beats, the
 * node's own work, endpoints; then the plug is pulled.  The later lives are in crash_lives.h. */
#pragma once

#include "crash_projects.h"
#include "crash_webhooks.h"

/* ---- life 1 ---- */

static inline void story_settings(struct script *s)
{
    act_on_project(s, "second", PROJECT_MAKE, IN(PROJECT_THERE));
    refuse(s, make_project("second"), -HF_CONFLICT);

    struct command *c = queue_command("slow");
    c->queue.slots = 3;
    c->queue.concurrency = 2;
    c->queue.stale_after_us = 20 * US_PER_S;
    c->queue.max_retries = 5;
    c->queue.retry_delays = SLICE("5,10");
    c->queue.max_execution_us = 100 * US_PER_S;
    c->queue.on_crash = ON_CRASH_RETRY;
    c->queue.fix = true;
    set_queue(s, c);
    c = queue_command("slow");
    c->queue.slots = 4;
    refuse(s, c, -HF_CONFLICT); /* the configuration's */
    c = queue_command("q");
    c->queue.pause = 1;
    c->queue.reason = SLICE("maintenance");
    set_queue(s, c);
    c = queue_command("q");
    c->queue.pause = 0;
    set_queue(s, c);
}

static inline void story_keys(struct script *s)
{
    struct new_job job = work("q", "{\"source\":1}");
    job.unique_key = SLICE("source-1");
    int64_t first = put_job(s, job, true);
    struct command *c = perform(s, make_enqueue(job));
    require_int(s, c->enqueue.out[0].id, first);
    require(s, c->enqueue.out[0].deduplicated);
    job.on_conflict = CONFLICT_REJECT;
    refuse(s, make_enqueue(job), -HF_DUPLICATE);
    job.on_conflict = CONFLICT_REPLACE;
    job.payload = SLICE("{\"source\":2}");
    touch(s, ABOUT_JOB, first);
    int64_t second = put_job(s, job, true);
    promise(s, (struct promise){
                   .what = "replaced", .id = first, .states = IN(JOB_CANCELLED) });
    take_job(s, "s1", second); /* a running one is returned */
    c = perform(s, make_enqueue(job));
    require_int(s, c->enqueue.out[0].id, second);
    finish_job_of(s, "s1", second);

    c = perform(s, with_key(make_enqueue(work("q", "{\"key\":1}")), "once", "body"));
    int64_t once = c->enqueue.out[0].id;
    promise(s, (struct promise){ .what = "enqueued", .id = once, .states = ANYHOW });
    promise(s, (struct promise){ .about = ABOUT_KEY,
                                 .what = "key remembered",
                                 .name = "once",
                                 .passing = true,
                                 .id = once });
    c = perform(s, with_key(make_enqueue(work("q", "{\"key\":1}")), "once", "body"));
    require_int(s, c->enqueue.out[0].id, once);
    refuse(s, with_key(make_enqueue(work("q", "{}")), "once", "other"), -HF_MISMATCH);
}

static inline void story_enqueue(struct script *s)
{
    int64_t ids[40];
    struct new_job job = work("q", "{\"n\":1}");
    job.priority = 7;
    job.metadata = SLICE("{\"a\":\"b\"}");
    put_job(s, job, true);
    put_batch(s, work("q", "{\"batch\":true}"), 40, ids);
    job = work("q", s->large);
    put_job(s, job, true);
    job = work("q", "{\"later\":true}");
    job.delay_us = 5 * US_PER_S;
    put_job(s, job, true);
    job = work("other", "{\"short\":true}");
    job.expires_at = s->w.wall + 3 * US_PER_S;
    int64_t expiring = put_job(s, job, true);
    job.expires_at = 0;
    job.project = SLICE("nowhere");
    refuse(s, make_enqueue(job), -HF_NOT_FOUND);
    job = job_of_kind("remote-before"); /* until the last life */
    put_job(s, job, true);
    story_keys(s);
    touch(s, ABOUT_JOB, expiring);
    pass(s, 6 * US_PER_S); /* the delayed one is due, the expiring one is not wanted */
    s->acked = crash_disk_changes(s->disk);
    promise(s, (struct promise){
                   .what = "expired", .id = expiring, .states = IN(JOB_CANCELLED) });
}

static inline void story_reports(struct script *s)
{
    int64_t ids[10];
    put_batch(s, work("slow", "{\"reports\":true}"), 10, ids);
    int64_t owner = take_job(s, "s1", ids[0]);
    touch(s, ABOUT_JOB, ids[0]);
    perform(s, make_progress("s1", ids[0], 40, "nearly"));
    promise(s, (struct promise){ .what = "progress",
                                 .id = ids[0],
                                 .passing = true,
                                 .states = IN(JOB_RUNNING),
                                 .same_owner = true,
                                 .owner = owner,
                                 .progress = "nearly" });
    finish_job_of(s, "s1", ids[0]);
    refuse(s, make_complete("s1", ids[0], "{}"), -HF_LATE); /* kept as an event */

    take_job(s, "s1", ids[1]);
    int64_t retry = fail_job_of(s, "s1", ids[1], ERROR_NETWORK);
    require(s, retry != 0);
    require_int(s, retry_job(s, ids[1]), retry); /* due now */
    take_job(s, "s1", ids[2]);
    fail_job_of(s, "s1", ids[2], ERROR_PERMANENT);
    require(s, retry_job(s, ids[2]) != ids[2]);
    take_job(s, "s1", ids[3]);
    fail_job_of(s, "s1", ids[3], ERROR_INTERRUPTED);
    cancel_job(s, ids[4], JOB_CANCELLED);
    require(s, retry_job(s, ids[4]) != ids[4]);

    take_job(s, "s1", ids[5]);
    cancel_job(s, ids[5], JOB_CANCELLING);
    touch(s, ABOUT_JOB, ids[5]);
    perform(s, make_fail("s1", ids[5], ERROR_OTHER, NULL));
    promise(s, (struct promise){
                   .what = "stopped", .id = ids[5], .states = IN(JOB_CANCELLED) });
    take_job(s, "s1", ids[6]);
    cancel_job(s, ids[6], JOB_CANCELLING);
    finish_job_of(s, "s1", ids[6]); /* a completion stands */

    touch(s, ABOUT_JOB, ids[7]);
    perform(s, make_change(ids[7], s->w.wall + 3600 * US_PER_S, 9, "other"));
    promise(s, (struct promise){ .what = "changed",
                                 .id = ids[7],
                                 .passing = true,
                                 .states = IN(JOB_SCHEDULED),
                                 .priority = 9 });
    touch(s, ABOUT_JOB, ids[7]);
    perform(s, make_change(ids[7], s->w.wall, 2, NULL));
    promise(s, (struct promise){ .what = "changed back",
                                 .id = ids[7],
                                 .passing = true,
                                 .states = IN(JOB_QUEUED),
                                 .priority = 2 });
}

/* Many commands in one transaction; and one in which a batch is refused half way,
 * so that it is applied again, command by command. */
static inline void story_piles(struct script *s)
{
    int64_t ids[6];
    put_batch(s, work("q", "{\"pile\":1}"), 6, ids);
    take_job(s, "s2", ids[0]);
    take_job(s, "s2", ids[1]);
    for (int i = 0; i < 4; i++)
        touch(s, ABOUT_JOB, ids[i]);
    for (int second = 0; second < 2; second++) {
        struct new_job job = work("q", "{\"pile\":2}"), bad = job;
        bad.project = SLICE("nowhere");
        pile_free(&s->doing);
        struct command *made = put(s, make_enqueue(job));
        struct command *done = put(s, make_complete("s2", ids[second], "{\"ok\":1}"));
        struct command *gone = put(s, make_cancel(ids[2 + second], "in a pile"));
        struct command *refused =
            second ? put(s, make_batch((struct new_job[]){ job, bad }, 2)) : NULL;
        struct command *claimed = put(s, make_claim_of("s2", ids[4 + second]));
        touch(s, ABOUT_JOB, ids[4 + second]);
        go(s);
        require(s, made->result == 0 && done->result == 0 && gone->result == 0);
        require(s,
                claimed->result == 0 && (!refused || refused->result == -HF_NOT_FOUND));
        promise_job(s, made->enqueue.out[0].id, &job, true);
        promise_completed(s, ids[second], "{\"ok\":1}");
        promise(s, (struct promise){ .what = "cancelled in a pile",
                                     .id = ids[2 + second],
                                     .states = IN(JOB_CANCELLED) });
        promise_run(s, &claimed->claim.out[0]);
    }
    require(s, s->w.engine->totals.second_passes > 0);
    finish_job_of(s, "s2", ids[4]);
    finish_job_of(s, "s2", ids[5]);
}

/* What an operator asks of a worker is told at its next beat. */
static inline void ask_worker(struct script *s, const char *session, int64_t owner,
                              int command)
{
    struct command *c = command_new(OP_WORKER);
    c->worker.session = slice_of(session);
    c->worker.command = command;
    touch(s, ABOUT_SESSION, owner);
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_SESSION,
                                 .what = "asked by an operator",
                                 .id = owner,
                                 .name = session,
                                 .passing = true,
                                 .asked = command });
}

/* A claim by a number of its own, asked again after its answer was lost. */
static inline void story_claims(struct script *s)
{
    int64_t ids[4];
    struct slice queue = SLICE("claims");
    struct command *c = NULL;
    int64_t taken[3];
    put_batch(s, work("claims", "{\"claims\":true}"), 4, ids);
    for (int i = 0; i < 4; i++)
        touch(s, ABOUT_JOB, ids[i]);
    for (int round = 0; round < 2; round++) {
        c = make_claim("s1", 3);
        c->claim.queues = &queue;
        c->claim.queue_count = 1;
        c->claim.claim_id = SLICE("claim-1");
        perform(s, c);
        require_int(s, c->claim.out_count, 3);
        for (int i = 0; i < 3; i++) {
            require(s, round == 0 || taken[i] == c->claim.out[i].job.id);
            taken[i] = c->claim.out[i].job.id;
        }
        if (round == 0)
            for (int i = 0; i < 3; i++)
                promise_run(s, &c->claim.out[i]);
    }
    int64_t owner = c->claim.out[0].owner_id;
    beat_of(s, "s1", owner, taken, 3);
    touch(s, ABOUT_JOB, taken[2]);
    beat_of(s, "s1", owner, taken, 2);
    beat_of(s, "s1", owner, taken, 2); /* the third is lost: twice not named */
    promise(s, (struct promise){ .what = "lost by its worker",
                                 .id = taken[2],
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_CRASH,
                                 .retry = -1 });
    finish_job_of(s, "s1", taken[0]);
    finish_job_of(s, "s1", taken[1]);
    ask_worker(s, "s1", owner, 1);
    require_int(s, perform(s, make_beat("s1", NULL, 0))->beat.out_command, 1);
    ask_worker(s, "s1", owner, 0);
}

static inline void story_holds(struct script *s)
{
    int64_t busy = put_job(s, work("gpu", "{}"), true);
    take_job(s, "s1", busy);
    int64_t one = reserve(s, "gpu", "anna", 30 * US_PER_S, RESERVATION_DRAINING);
    int64_t two = reserve(s, "gpu", "ben", 30 * US_PER_S, RESERVATION_WAITING);
    int64_t three = reserve(s, "gpu", "eva", 2 * US_PER_S, RESERVATION_WAITING);
    finish_job_of(s, "s1", busy); /* drained: granted with it */
    perform(s, make_renew(one, 50 * US_PER_S));
    refuse(s, make_release(one, "ben"), -HF_CONFLICT);
    release(s, one, "anna");
    touch(s, ABOUT_HOLD, three);
    pass(s, 3 * US_PER_S);
    s->acked = crash_disk_changes(s->disk);
    promise(s, (struct promise){ .about = ABOUT_HOLD,
                                 .what = "waited in vain",
                                 .id = three,
                                 .states = IN(RESERVATION_EXPIRED) });
    touch(s, ABOUT_HOLD, two);
    struct command *c = perform(s, make_reserve("direct", "node", 0, true));
    promise(s, (struct promise){ .about = ABOUT_HOLD,
                                 .what = "held by this process",
                                 .id = c->reserve.out.id,
                                 .states = IN(RESERVATION_EXPIRED) });
    /* two: granted to somebody outside, who lives on */
    promise(s, (struct promise){ .about = ABOUT_HOLD,
                                 .what = "granted",
                                 .id = two,
                                 .passing = true,
                                 .states = IN(RESERVATION_ACTIVE) });
}

/* The first `count` runs that this node has started and that are still here. */
static inline size_t runs_here(struct script *s, int64_t *ids, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < s->w.engine->run_count && n < max; i++)
        ids[n++] = s->w.engine->runs[i].job_id;
    return n;
}

static inline void story_node(struct script *s)
{
    int64_t runs[8], *here;
    struct new_job job = job_of_kind("local");
    job.payload = SLICE("{\"local\":true}");
    size_t others = runs_here(s, runs, array_len(runs)); /* of endpoints */
    engine_set_capacity(s->w.engine, others + 3);
    here = runs + others;
    for (int i = 0; i < 6; i++)
        put_job(s, job, false);
    pass(s, 3 * US_PER_S);
    require_int(s, runs_here(s, runs, array_len(runs)), others + 3);
    finish_here(s, here[0], "{\"here\":1}");
    struct command *c = make_fail(NULL, here[1], ERROR_NETWORK, NULL);
    c->fail.owner_id = s->w.engine->owner_id;
    touch(s, ABOUT_JOB, here[1]);
    perform(s, c);
    promise(s, (struct promise){ .what = "failed here",
                                 .id = here[1],
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_NETWORK,
                                 .retry = c->fail.out_retry_id });
    touch(s, ABOUT_JOB, here[2]);
    perform(s, make_cancel(here[2], "stop it"));
    promise(s, (struct promise){ .what = "asked to stop",
                                 .id = here[2],
                                 .passing = true,
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_CRASH,
                                 .reason = REASON_CANCELLED });
    pass(s, 11 * US_PER_S); /* a beat of the node */
}

/* What the three cases of a recovery, and a retry that was not decided, look like
 * when somebody else has left them. */
static inline void story_leftovers(struct script *s)
{
    static const char MOVE[] =
        "UPDATE counters SET %s = %s - 1, running = running + 1 "
        "WHERE queue_id = (SELECT queue_id FROM jobs WHERE id = %lld)";
    int64_t ids[3];
    char move[300];
    struct new_job job = work("old", "{\"left\":true}");
    job.max_retries = 0;
    put_batch(s, job, 3, ids);
    take_job(s, "s2", ids[0]);
    touch(s, ABOUT_JOB, ids[0]);
    perform(s, make_fail("s2", ids[0], ERROR_OTHER, NULL));
    take_job(s, "s2", ids[1]);
    finish_job_of(s, "s2", ids[1]);
    write_raw(s,
              "UPDATE jobs SET retry_state = 1, retry_reason = 0, retries_left = 2, "
              "max_retries = 2 WHERE id = %lld",
              (long long)ids[0]);
    promise(s, (struct promise){ .what = "its retry was pending",
                                 .id = ids[0],
                                 .states = IN(JOB_FAILED),
                                 .retry = -1 });
    snprintf(move, sizeof(move), MOVE, "completed", "completed", (long long)ids[1]);
    write_raw(s, "UPDATE jobs SET state = 3, finished_at = NULL WHERE id = %lld; %s",
              (long long)ids[1], move);
    touch(s, ABOUT_JOB, ids[2]);
    snprintf(move, sizeof(move), MOVE, "queued", "queued", (long long)ids[2]);
    write_raw(s, "UPDATE jobs SET state = 3 WHERE id = %lld; %s", (long long)ids[2],
              move);
    promise(s, (struct promise){ .what = "running without a run",
                                 .id = ids[2],
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_CRASH,
                                 .reason = REASON_EXHAUSTED });
}

static inline void first_life(struct script *s)
{
    s->w.capacity = 3;
    live(s);
    story_settings(s);
    story_tokens(s);
    story_schedules(s);
    story_webhooks(s);
    story_enqueue(s);
    story_reports(s);
    story_piles(s);
    story_claims(s);
    story_holds(s);
    story_endpoints(s);
    story_node(s);
    story_projects(s);
    story_leftovers(s);
    die(s, CRASH_LOSE, 1);
}
