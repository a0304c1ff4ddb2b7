/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_projects.h -- the part of the script about projects, and the tokens that may be
 * bound to one. */
#pragma once

#include "crash_schedules.h"
#include "hooks.h"

static inline int64_t make_token(struct script *s, const char *name, const char *project)
{
    struct command *c = command_new(OP_TOKEN);
    c->token.name = slice_of(name);
    c->token.project = slice_of(project);
    c->token.role = 1;
    require_int(s, sha256(slice_of(name), c->token.hash), 0);
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_TOKEN,
                                 .what = "token made",
                                 .id = c->token.out.id,
                                 .name = name,
                                 .passing = true,
                                 .states = IN(1) });
    return c->token.out.id;
}

static inline int64_t act_on_project(struct script *s, const char *name,
                                     enum project_act act, unsigned states)
{
    static const char *const words[] = { "made", "paused", "resumed", "to be deleted" };
    struct store *store = s->w.engine->store;
    int64_t id = 0;
    if (act != PROJECT_MAKE && store_project(store, slice_of(name), &id) == 0)
        touch(s, ABOUT_PROJECT, id);
    struct command *c = make_project(name);
    c->project.act = act;
    c->project.cascade = act == PROJECT_DELETE;
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_PROJECT,
                                 .what = words[act],
                                 .id = c->project.out_id,
                                 .name = name,
                                 .passing = true,
                                 .states = states });
    return c->project.out_id;
}

/* Tokens; and a project that is deleted only if it is empty: one is, one is not. */
static inline void story_tokens(struct script *s)
{
    int64_t id = make_token(s, "passing", NULL);
    touch(s, ABOUT_TOKEN, id);
    struct command *c = command_new(OP_TOKEN_DROP);
    c->token_drop.id = id;
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_TOKEN,
                                 .what = "token dropped",
                                 .id = id,
                                 .states = IN(0) });
    make_token(s, "staying", NULL);

    act_on_project(s, "full", PROJECT_MAKE, IN(PROJECT_THERE));
    act_on_project(s, "empty", PROJECT_MAKE, IN(PROJECT_THERE));
    struct new_job job = work("q", "{\"full\":true}");
    job.project = SLICE("full");
    put_job(s, job, true);
    static const char *const names[] = { "full", "empty" };
    for (int i = 0; i < 2; i++) {
        c = make_project(names[i]);
        c->project.act = PROJECT_DELETE;
        int64_t project = 0;
        require_int(s, store_project(s->w.engine->store, slice_of(names[i]), &project),
                    0);
        touch(s, ABOUT_PROJECT, project);
        perform(s, c);
        promise(s,
                (struct promise){ .about = ABOUT_PROJECT,
                                  .what = i ? "deleted" : "kept",
                                  .id = project,
                                  .name = names[i],
                                  .states = i ? IN(PROJECT_GONE) : IN(PROJECT_THERE) });
    }
    settle(s);
}

/* All that can be in a project. */
struct doomed {
    int64_t token, schedule, endpoint, webhook, key;
    int64_t jobs[4]; /* one waits, one is over, one was tried again, one runs */
    int64_t retry;
};

static inline void fill_project(struct script *s, struct doomed *d)
{
    struct new_job job = work("doomed", "{\"doomed\":true}");
    job.project = SLICE("doomed");
    d->token = make_token(s, "bound", "doomed");
    struct schedule_edit edit = new_schedule("its", NULL, US_PER_S);
    edit.project = SLICE("doomed");
    edit.set |= EDIT_QUEUE;
    edit.with.queue = SLICE("doomed");
    d->schedule = edit_schedule(s, edit, 0);
    d->endpoint = make_endpoint(s, "its-own", "doomed", 0);
    struct command *c = make_webhook("[\"job.enqueued\"]");
    c->webhook.edit.project = SLICE("doomed");
    d->webhook = perform(s, c)->webhook.out_id;
    promise(s, (struct promise){ .about = ABOUT_WEBHOOK,
                                 .what = "webhook of a project",
                                 .id = d->webhook,
                                 .passing = true,
                                 .states = IN(1) });
    put_batch(s, job, 4, d->jobs);
    take_job(s, "s3", d->jobs[1]);
    finish_job_of(s, "s3", d->jobs[1]);
    take_job(s, "s3", d->jobs[2]);
    d->retry = fail_job_of(s, "s3", d->jobs[2], ERROR_NETWORK);
    take_job(s, "s3", d->jobs[3]);
    d->key = perform(s, with_key(make_enqueue(job), "doomed", "body"))->enqueue.out[0].id;
    pass(s, 2 * US_PER_S); /* it fires */
}

static inline void promise_paused(struct script *s, int64_t id, int paused)
{
    promise(s, (struct promise){ .about = ABOUT_SCHEDULE,
                                 .what = paused ? "paused with its project" : "resumed",
                                 .id = id,
                                 .passing = true,
                                 .states = IN(1),
                                 .paused = paused });
}

/* What went with the project, for ever. */
static inline void promise_gone(struct script *s, const struct doomed *d)
{
    const struct {
        enum about about;
        int64_t id;
    } gone[] = {
        { ABOUT_TOKEN, d->token },       { ABOUT_SCHEDULE, d->schedule },
        { ABOUT_SCHEDULE, d->endpoint }, { ABOUT_ENDPOINT, d->endpoint },
        { ABOUT_WEBHOOK, d->webhook },   { ABOUT_PRUNED, d->jobs[0] },
        { ABOUT_PRUNED, d->jobs[1] },    { ABOUT_PRUNED, d->jobs[2] },
        { ABOUT_PRUNED, d->retry },      { ABOUT_PRUNED, d->key },
    };
    for (size_t i = 0; i < array_len(gone); i++)
        promise(s, (struct promise){ .about = gone[i].about,
                                     .what = "gone with its project",
                                     .id = gone[i].id,
                                     .states = IN(0) });
}

/* A project with everything is paused, resumed, and deleted.  A run of it is under way
 * when the plug is pulled: the project waits for that, over the crash. */
static inline void story_projects(struct script *s)
{
    struct doomed d;
    act_on_project(s, "doomed", PROJECT_MAKE, IN(PROJECT_THERE));
    fill_project(s, &d);
    touch(s, ABOUT_SCHEDULE, d.schedule);
    act_on_project(s, "doomed", PROJECT_PAUSE, IN(PROJECT_PAUSED));
    promise_paused(s, d.schedule, PAUSED_WITH_PROJECT);
    pass(s, US_PER_S);
    touch(s, ABOUT_SCHEDULE, d.schedule);
    act_on_project(s, "doomed", PROJECT_RESUME, IN(PROJECT_THERE));
    promise_paused(s, d.schedule, 0);

    for (size_t i = 0; i < array_len(d.jobs); i++)
        ledger_forget(&s->ledger, d.jobs[i], crash_disk_changes(s->disk));
    ledger_forget(&s->ledger, d.retry, crash_disk_changes(s->disk));
    touch(s, ABOUT_TOKEN, d.token);
    touch(s, ABOUT_SCHEDULE, d.schedule);
    touch(s, ABOUT_SCHEDULE, d.endpoint);
    touch(s, ABOUT_ENDPOINT, d.endpoint);
    touch(s, ABOUT_WEBHOOK, d.webhook);
    act_on_project(s, "doomed", PROJECT_DELETE, IN(PROJECT_GOING));
    promise_gone(s, &d);
    s->doomed = d.jobs[3];
    promise(s, (struct promise){ .what = "asked to stop with its project",
                                 .id = s->doomed,
                                 .passing = true,
                                 .states = IN(JOB_CANCELLING) });
    settle(s);
    struct new_job job = work("doomed", "{}");
    job.project = SLICE("doomed");
    refuse(s, make_enqueue(job), -HF_CONFLICT);
}

/* Its last run ends, and it goes. */
static inline void story_projects_end(struct script *s)
{
    int64_t id = 0;
    require_int(s, store_project(s->w.engine->store, SLICE("doomed"), &id), 0);
    touch(s, ABOUT_JOB, s->doomed);
    touch(s, ABOUT_PROJECT, id);
    perform(s, make_fail("s3", s->doomed, ERROR_OTHER, NULL));
    pass(s, US_PER_S);
    s->acked = crash_disk_changes(s->disk);
    promise(s, (struct promise){ .about = ABOUT_PROJECT,
                                 .what = "deleted with all in it",
                                 .id = id,
                                 .name = "doomed",
                                 .passing = true,
                                 .states = IN(PROJECT_GONE) });
    promise(s, (struct promise){ .about = ABOUT_PRUNED,
                                 .what = "gone with its project",
                                 .id = s->doomed });
    touch(s, ABOUT_PROJECT, id);
    act_on_project(s, "doomed", PROJECT_MAKE, IN(PROJECT_THERE)); /* the name is free */
}
