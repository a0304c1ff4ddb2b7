/* SPDX-License-Identifier: Apache-2.0
 *
 * fault_commands.h -- every command, for the fixture of faults.h. */
#pragma once

#include "faults.h"

static inline struct command *fault_enqueue(void)
{
    return make_enqueue(fault_job("q"));
}
static inline struct command *fault_enqueue_batch(void)
{
    struct new_job jobs[20];
    for (size_t i = 0; i < array_len(jobs); i++)
        jobs[i] = fault_job(i % 2 ? "q" : "another");
    return make_batch(jobs, array_len(jobs));
}
static inline struct command *fault_enqueue_large(void)
{
    struct new_job job = fault_job("q");
    job.payload = slice_of(fx.large);
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_later(void)
{
    struct new_job job = fault_job("new-queue");
    job.delay_us = US_PER_S;
    job.expires_at = INT64_C(1900000000) * US_PER_S;
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_return(void)
{
    struct new_job job = fault_job("q");
    job.unique_key = SLICE("source");
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_replace(void)
{
    struct new_job job = fault_job("q");
    job.unique_key = SLICE("source");
    job.on_conflict = CONFLICT_REPLACE;
    return make_enqueue(job);
}
static inline struct command *fault_enqueue_once(void)
{
    return with_key(fault_enqueue_batch(), "key", "body");
}
static inline struct command *fault_claim_many(void)
{
    struct command *c = make_claim("s1", 4);
    c->claim.claim_id = SLICE("claim");
    return c;
}
static inline struct command *fault_claim_new(void)
{
    return make_claim("s2", 1);
}
static inline struct command *fault_complete(void)
{
    return make_complete("s1", fx.running[0], "{\"ok\":true}");
}
static inline struct command *fault_complete_cancelling(void)
{
    return make_complete("s1", fx.cancelling, "{\"ok\":true}");
}
static inline struct command *fault_fail(void)
{
    return make_fail("s1", fx.running[0], ERROR_NETWORK, "Broken");
}
static inline struct command *fault_fail_final(void)
{
    return make_fail("s1", fx.running[0], ERROR_PERMANENT, "Broken");
}
static inline struct command *fault_progress(void)
{
    return make_progress("s1", fx.running[0], 50, "half");
}
static inline struct command *fault_cancel_waiting(void)
{
    return make_cancel(fx.waiting[0], "why not");
}
static inline struct command *fault_cancel_running(void)
{
    return make_cancel(fx.running[0], "why not");
}
static inline struct command *fault_change(void)
{
    return make_change(fx.waiting[0], INT64_C(1900000000) * US_PER_S, 8, "moved");
}
static inline struct command *fault_retry_failed(void)
{
    return make_retry_by_hand(fx.failed);
}
static inline struct command *fault_retry_scheduled(void)
{
    return make_retry_by_hand(fx.retried);
}
static inline struct command *fault_pause(void)
{
    struct command *c = queue_command("q");
    c->queue.pause = 1;
    c->queue.reason = SLICE("maintenance");
    return c;
}
static inline struct command *fault_settings(void)
{
    struct command *c = queue_command("fresh");
    c->queue.slots = 4;
    c->queue.concurrency = 3;
    c->queue.retry_delays = SLICE("1,2,3");
    return c;
}
static inline struct command *fault_project(void)
{
    return make_project("second");
}
static inline struct command *fault_beat(void)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = SLICE("s1");
    c->beat.runs = fx.running;
    c->beat.run_count = 2;
    return c;
}
static inline struct command *fault_beat_new(void)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = SLICE("s3");
    return c;
}
/* It was judged dead meanwhile. */
static inline void long_silence(struct world *w)
{
    world_pass(w, 3 * w->settings.lease_us);
}
static inline struct command *fault_beat_again(void)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = SLICE("s1");
    return c;
}
static inline struct command *fault_reserve(void)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("q");
    c->reserve.holder = SLICE("eva");
    c->reserve.wait_us = 30 * US_PER_S;
    return c;
}
static inline struct command *fault_release(void)
{
    struct command *c = command_new(OP_RELEASE);
    c->release.reservation_id = fx.hold;
    return c;
}
static inline struct command *fault_renew(void)
{
    struct command *c = command_new(OP_RENEW);
    c->renew.reservation_id = fx.hold;
    c->renew.ttl_us = 60 * US_PER_S;
    return c;
}

static inline struct command *fault_schedule(void)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = new_schedule("another", "0 0 * * *", 0);
    c->schedule.edit.set |= EDIT_ZONE;
    c->schedule.edit.with.time_zone = SLICE("America/New_York");
    return c;
}
static inline struct command *fault_reschedule(void)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = edit_of(fx.timed);
    c->schedule.edit.set = EDIT_CRON | EDIT_PRIORITY;
    c->schedule.edit.with.cron = SLICE("0 12 * * *");
    c->schedule.edit.with.priority = 2;
    return c;
}
static inline struct command *fault_unschedule(void)
{
    struct command *c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = fx.timed;
    return c;
}
static inline struct command *fault_trigger(void)
{
    struct command *c = command_new(OP_TRIGGER);
    c->trigger.id = fx.timed;
    return c;
}

static inline struct command *fault_enqueue_again(void)
{
    return with_key(fault_enqueue(), "old-key", "body");
}
/* The key is old by then, and nobody has tidied up. */
static inline void two_days_later(struct world *w)
{
    w->wall += 2 * US_PER_DAY;
    w->mono += 2 * US_PER_DAY;
}

static inline struct command *fault_endpoint(void)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = new_endpoint("another", "{\"url\":\"http://a/2\"}");
    return c;
}
static inline struct command *fault_change_endpoint(void)
{
    struct command *c = command_new(OP_SCHEDULE);
    c->schedule.edit = edit_of(fx.endpoint);
    c->schedule.edit.set = EDIT_REQUEST;
    c->schedule.edit.request = SLICE("{\"method\":\"PUT\"}");
    return c;
}
static inline struct command *fault_drop_endpoint(void)
{
    struct command *c = command_new(OP_SCHEDULE_DROP);
    c->schedule_drop.id = fx.endpoint;
    c->schedule_drop.endpoint = true;
    return c;
}

static inline struct command *fault_on_project(const char *name, enum project_act act)
{
    struct command *c = make_project(name);
    c->project.act = act;
    c->project.cascade = act == PROJECT_DELETE;
    return c;
}
static inline struct command *fault_pause_project(void)
{
    return fault_on_project("doomed", PROJECT_PAUSE);
}
static inline struct command *fault_resume_project(void)
{
    return fault_on_project("resting", PROJECT_RESUME);
}
static inline struct command *fault_delete_project(void)
{
    return fault_on_project("doomed", PROJECT_DELETE);
}
static inline struct command *fault_token(void)
{
    struct command *c = command_new(OP_TOKEN);
    c->token.name = SLICE("another");
    c->token.role = 1;
    return c;
}
static inline struct command *fault_drop_token(void)
{
    struct command *c = command_new(OP_TOKEN_DROP);
    c->token_drop.id = fx.token;
    return c;
}
static inline struct command *fault_ask_worker(void)
{
    struct command *c = command_new(OP_WORKER);
    c->worker.session = SLICE("s1");
    c->worker.command = 1;
    return c;
}

static inline struct command *fault_webhook(void)
{
    return make_webhook("[\"job.*\"]");
}
static inline struct command *fault_pause_webhook(void)
{
    return edit_webhook(
        fx.webhook, WEBHOOK_SET_STATE,
        (struct webhook){ .state = WEBHOOK_PAUSED, .state_reason = SLICE("by hand") });
}
static inline struct command *fault_drop_webhook(void)
{
    struct command *c = command_new(OP_WEBHOOK_DROP);
    c->webhook_drop.id = fx.webhook;
    return c;
}
static inline struct command *fault_test_webhook(void)
{
    struct command *c = command_new(OP_WEBHOOK_TEST);
    c->webhook_test.id = fx.webhook;
    return c;
}
static inline struct command *fault_deliveries(void)
{
    struct command *c = command_new(OP_DELIVERIES);
    c->deliveries.count = 10;
    return c;
}
static inline void take_all(struct world *w)
{
    check(take_and_forget(w, 10) > 1);
}
static inline struct command *fault_delivered(void)
{
    struct delivered how[] = { went_well(fx.deliveries[1]),
                               went_wrong(fx.deliveries[2]) };
    return make_report(how, array_len(how));
}
static inline struct command *fault_resend(void)
{
    struct command *c = command_new(OP_RESEND);
    c->resend.which =
        (struct resend){ .webhook_id = fx.webhook, .states = 1U << DELIVERY_DELIVERED };
    return c;
}

struct fault_command {
    const char *name;
    struct command *(*make)(void);
    void (*first)(struct world *w); /* what must have happened before; or NULL */
};

static const struct fault_command fault_commands[] = {
    { "enqueue", fault_enqueue, NULL },
    { "enqueue a batch", fault_enqueue_batch, NULL },
    { "enqueue a large payload", fault_enqueue_large, NULL },
    { "enqueue for later", fault_enqueue_later, NULL },
    { "enqueue a key that is there", fault_enqueue_return, NULL },
    { "enqueue in another's place", fault_enqueue_replace, NULL },
    { "enqueue under an idempotency key", fault_enqueue_once, NULL },
    { "claim", fault_claim_many, NULL },
    { "claim as a new session", fault_claim_new, NULL },
    { "complete", fault_complete, NULL },
    { "complete while cancelling", fault_complete_cancelling, NULL },
    { "fail", fault_fail, NULL },
    { "fail for good", fault_fail_final, NULL },
    { "progress", fault_progress, NULL },
    { "cancel what waits", fault_cancel_waiting, NULL },
    { "cancel what runs", fault_cancel_running, NULL },
    { "change", fault_change, NULL },
    { "retry by hand", fault_retry_failed, NULL },
    { "retry at once", fault_retry_scheduled, NULL },
    { "pause", fault_pause, NULL },
    { "settings of a queue", fault_settings, NULL },
    { "project", fault_project, NULL },
    { "beat", fault_beat, NULL },
    { "beat of a new session", fault_beat_new, NULL },
    { "beat of one that was dead", fault_beat_again, long_silence },
    { "reserve", fault_reserve, NULL },
    { "release", fault_release, NULL },
    { "renew", fault_renew, NULL },
    { "schedule", fault_schedule, NULL },
    { "change a schedule", fault_reschedule, NULL },
    { "drop a schedule", fault_unschedule, NULL },
    { "trigger", fault_trigger, NULL },
    { "enqueue under an old key", fault_enqueue_again, two_days_later },
    { "endpoint", fault_endpoint, NULL },
    { "change an endpoint", fault_change_endpoint, NULL },
    { "drop an endpoint", fault_drop_endpoint, NULL },
    { "pause a project", fault_pause_project, NULL },
    { "resume a project", fault_resume_project, NULL },
    { "delete a project", fault_delete_project, NULL },
    { "token", fault_token, NULL },
    { "drop a token", fault_drop_token, NULL },
    { "ask a worker", fault_ask_worker, NULL },
    { "webhook", fault_webhook, NULL },
    { "pause a webhook", fault_pause_webhook, NULL },
    { "drop a webhook", fault_drop_webhook, NULL },
    { "test a webhook", fault_test_webhook, NULL },
    { "take deliveries", fault_deliveries, NULL },
    { "report deliveries", fault_delivered, take_all },
    { "send again", fault_resend, NULL },
};
