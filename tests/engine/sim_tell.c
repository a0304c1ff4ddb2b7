/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_tell.c -- the history as a person reads it. */
#include "sim.h"

#include <stdarg.h>
#include <unistd.h>

const char *const sim_saw_names[SAW_ALL] = {
    [SAW_COMMANDS] = "commands",
    [SAW_REFUSALS] = "refused",
    [SAW_JOBS] = "jobs",
    [SAW_RETRIES] = "retries",
    [SAW_LATE] = "late reports",
    [SAW_TIMEOUTS] = "timeouts",
    [SAW_DEATHS] = "deaths of owners",
    [SAW_CRASHES] = "crashes",
    [SAW_INTERRUPTED] = "in a recovery",
    [SAW_CUTS] = "power cuts",
    [SAW_DISK_ERRORS] = "disk errors",
    [SAW_CLOSES] = "restarts",
    [SAW_RECOVERED] = "jobs recovered",
    [SAW_POISON] = "poison",
    [SAW_JUMPS] = "jumps of the clock",
    [SAW_SECOND_PASSES] = "piles applied twice",
    [SAW_REBIRTHS] = "nodes taken for dead",
    [SAW_CHECKS] = "checks of the whole store",
};

void sim_say(struct sim *s, const char *format, ...)
{
    va_list args;
    if (!s->trace)
        return;
    fprintf(s->trace, "%5zu %10.3f s  ", s->step,
            (double)(s->mono - SIM_MONO_START) / (double)US_PER_S);
    va_start(args, format);
    vfprintf(s->trace, format, args);
    va_end(args);
    fputc('\n', s->trace);
}

_Noreturn void sim_broken(struct sim *s, const char *rule, const char *format, ...)
{
    va_list args;
    snprintf(s->shared->rule, sizeof(s->shared->rule), "%s", rule);
    va_start(args, format);
    vsnprintf(s->shared->text, sizeof(s->shared->text), format, args);
    va_end(args);
    s->shared->step = s->step;
    sim_say(s, "BROKEN  %s: %s", rule, s->shared->text);
    fflush(NULL);
    _exit(SIM_EXIT_BROKEN);
}

/* ---- commands ---- */

static void tell_jobs(FILE *f, const struct command *c)
{
    if (c->enqueue.idempotency_key.p)
        fprintf(f, " as request %s body %d", c->enqueue.idempotency_key.p,
                c->enqueue.body_hash[0]);
    for (size_t i = 0; i < c->enqueue.count && i < 8; i++) {
        const struct new_job *job = &c->enqueue.jobs[i];
        fprintf(f, "%s %.*s in %.*s", i ? ";" : "", (int)job->kind.n, job->kind.p,
                (int)job->queue.n, job->queue.p);
        if (job->priority)
            fprintf(f, " p%d", job->priority);
        if (job->delay_us)
            fprintf(f, " in %.3f s", (double)job->delay_us / (double)US_PER_S);
        if (job->run_at)
            fprintf(f, " at %lld", (long long)job->run_at);
        if (job->expires_at)
            fprintf(f, " expires %lld", (long long)job->expires_at);
        if (job->unique_key.p)
            fprintf(f, " key %s %s", job->unique_key.p,
                    job->on_conflict == CONFLICT_RETURN   ? "return"
                    : job->on_conflict == CONFLICT_REJECT ? "reject"
                                                          : "replace");
        if (job->max_retries >= 0)
            fprintf(f, " retries %d", job->max_retries);
        if (job->retry_delays.p)
            fprintf(f, " after %s", job->retry_delays.p);
        if (job->max_execution_us >= 0)
            fprintf(f, " within %lld s", (long long)(job->max_execution_us / US_PER_S));
        if (job->on_crash == ON_CRASH_FAIL)
            fprintf(f, " on crash fail");
        if (job->project.p)
            fprintf(f, " of %s", job->project.p);
        if (c->result == 0)
            fprintf(f, " -> %s%lld", c->enqueue.out[i].deduplicated ? "there is " : "",
                    (long long)c->enqueue.out[i].id);
    }
}

static void tell_claim(FILE *f, const struct command *c)
{
    fprintf(f, " %zu by %s%s%s of", c->claim.count, c->claim.session.p,
            c->claim.claim_id.p ? " as " : "",
            c->claim.claim_id.p ? c->claim.claim_id.p : "");
    for (size_t i = 0; i < c->claim.queue_count; i++)
        fprintf(f, " %s", c->claim.queues[i].p);
    fprintf(f, "%s ->", c->claim.queue_count ? "" : " any queue");
    for (size_t i = 0; i < c->claim.out_count && i < 16; i++)
        fprintf(f, " %lld", (long long)c->claim.out[i].job.id);
}

static void tell_queue(FILE *f, const struct command *c)
{
    fprintf(f, " %s", c->queue.name.p);
    if (c->queue.pause >= 0)
        fprintf(f, " %s", c->queue.pause ? "pause" : "resume");
    const struct {
        const char *name;
        int64_t value;
    } values[] = { { "slots", c->queue.slots },
                   { "concurrency", c->queue.concurrency },
                   { "retries", c->queue.max_retries },
                   { "deadline", c->queue.max_execution_us },
                   { "on_crash", c->queue.on_crash } };
    for (size_t i = 0; i < array_len(values); i++)
        if (values[i].value != INT64_MIN)
            fprintf(f, " %s=%lld", values[i].name, (long long)values[i].value);
    if (c->queue.retry_delays.p)
        fprintf(f, " delays=%s", c->queue.retry_delays.p);
}

static const char *whose(struct slice session)
{
    return session.p ? session.p : "a handler";
}

static void tell_rest(FILE *f, const struct command *c)
{
    switch (c->op) {
    case OP_COMPLETE:
        fprintf(f, " %lld by %s", (long long)c->complete.job_id,
                whose(c->complete.session));
        break;
    case OP_FAIL:
        fprintf(f, " %lld by %s: %s", (long long)c->fail.job_id, whose(c->fail.session),
                error_type_name(c->fail.error.type));
        break;
    case OP_PROGRESS:
        fprintf(f, " %lld by %s: %d", (long long)c->progress.job_id,
                c->progress.session.p, c->progress.percent);
        break;
    case OP_CANCEL:
        fprintf(f, " %lld", (long long)c->cancel.job_id);
        break;
    case OP_CHANGE:
        fprintf(f, " %lld: priority %d, run at %lld, queue %s",
                (long long)c->change.job_id, c->change.priority,
                (long long)c->change.run_at,
                c->change.queue.p ? c->change.queue.p : "as it is");
        break;
    case OP_RETRY:
        fprintf(f, " %lld -> %lld", (long long)c->retry.job_id,
                (long long)c->retry.out_id);
        break;
    case OP_BEAT:
        fprintf(f, " by %s with %zu runs%s", c->beat.session.p, c->beat.run_count,
                c->beat.runs ? "" : ", not told");
        break;
    case OP_RESERVE:
        fprintf(f, " %s%s for %lld ms, wait %lld ms -> %lld", c->reserve.queue.p,
                c->reserve.direct ? " directly" : "",
                (long long)(c->reserve.ttl_us / US_PER_MS),
                (long long)(c->reserve.wait_us / US_PER_MS),
                (long long)c->reserve.out.id);
        break;
    case OP_RELEASE:
        fprintf(f, " %lld", (long long)c->release.reservation_id);
        break;
    case OP_RENEW:
        fprintf(f, " %lld", (long long)c->renew.reservation_id);
        break;
    default:
        break;
    }
}

void sim_tell(struct sim *s)
{
    for (size_t i = 0; s->trace && i < s->pile_count; i++) {
        const struct command *c = s->pile[i];
        char text[4096] = "";
        FILE *f = fmemopen(text, sizeof(text), "w");
        check(f != NULL);
        fprintf(f, "%s", op_name(c->op));
        if (c->op == OP_ENQUEUE)
            tell_jobs(f, c);
        else if (c->op == OP_CLAIM)
            tell_claim(f, c);
        else if (c->op == OP_QUEUE)
            tell_queue(f, c);
        else
            tell_rest(f, c);
        if (c->result < 0)
            fprintf(f, " -> %s", status_of(c->result)->name);
        if (s->asked[i].lost)
            fprintf(f, " (the answer is lost)");
        fclose(f);
        sim_say(s, "%s", text);
    }
}
