/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_project.c -- projects: made, paused with their schedules, resumed, and marked
 * for deletion, which project_delete.c carries out. */
#include "engine/engine.h"

int enter_project(struct tx *tx, struct command *c, struct slice name,
                  struct project *ret)
{
    int r = store_project_enter(tx->store, name, ret);
    if (r == -HF_NOT_FOUND)
        return error_set(&c->error, r, "project",
                         "There is no project \"%.*s\"; create it first.", (int)name.n,
                         name.p);
    if (r == 0 && ret->deleting != DELETING_NOT)
        return error_set(&c->error, -HF_CONFLICT, "project",
                         "The project \"%.*s\" is being deleted; it takes nothing new.",
                         (int)name.n, name.p);
    return r;
}

void tell_project(struct tx *tx, const struct project *project, const char *type,
                  const char *what, int64_t count)
{
    tell(tx, &(struct job){ .project_id = project->id }, type,
         "\"name\":\"%s\",\"%s\":%lld", project->name, what, (long long)count);
}

static int make(struct tx *tx, struct command *c)
{
    struct project there;
    int r = store_project_create(tx->store, c->project.name, &c->project.out_id);
    if (r != -HF_CONFLICT)
        return r;
    r = store_project_enter(tx->store, c->project.name, &there);
    if (r == 0 && there.deleting != DELETING_NOT)
        return error_set(&c->error, -HF_CONFLICT, "name",
                         "The project \"%s\" is being deleted; its name is free when "
                         "that is done.",
                         there.name);
    return error_set(&c->error, -HF_CONFLICT, "name",
                     "There is a project \"%.*s\" already.", (int)c->project.name.n,
                     c->project.name.p);
}

/* All schedules of it at once.  What passes meanwhile is skipped, as while each of them
 * is paused by itself; see schedule.h. */
static int set_pause(struct tx *tx, struct command *c, struct project *project, bool on)
{
    int64_t schedules = 0;
    if (project->deleting != DELETING_NOT)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "The project \"%s\" is being deleted.", project->name);
    if (project->paused == on)
        return 0; /* as it was asked for */
    project->paused = on;
    int r = store_project_pause(tx->store, project->id, on, &schedules);
    if (r == 0)
        r = store_project_update(tx->store, project);
    if (r == 0 && !on && tx->now < tx->engine->next_fire)
        tx->engine->next_fire = tx->now;
    if (r == 0)
        tell_project(tx, project, on ? "project.paused" : "project.resumed", "schedules",
                     schedules);
    return r;
}

static int refuse_full(struct command *c, const struct project *project,
                       const struct project_holds *holds)
{
    return error_set(
        &c->error, -HF_CONFLICT, NULL,
        "The project \"%s\" has %lld schedules, %lld webhooks and %lld tokens; delete "
        "them first, or ask for the deletion of everything in it with cascade=true.",
        project->name, (long long)holds->schedules, (long long)holds->webhooks,
        (long long)holds->tokens);
}

/* What is in it cannot be known at once: jobs have no index by project.  So it takes
 * nothing new from now on, nothing of it fires, and project_delete.c looks. */
static int mark(struct tx *tx, struct command *c, struct project *project)
{
    struct project_holds holds = { 0 };
    int64_t schedules = 0;
    if (project->id == PROJECT_DEFAULT)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "The project \"default\" cannot be deleted: jobs that name no "
                         "project are in it.");
    int r = store_project_holds(tx->store, project->id, &holds);
    if (r < 0)
        return r;
    if (!c->project.cascade && project->deleting != DELETING_ALL &&
        holds.schedules + holds.webhooks + holds.tokens > 0)
        return refuse_full(c, project, &holds);
    if (c->project.cascade || project->deleting == DELETING_NOT) {
        project->deleting = c->project.cascade ? DELETING_ALL : DELETING_IF_EMPTY;
        if (c->project.cascade)
            r = store_project_pause(tx->store, project->id, true, &schedules);
        if (r == 0)
            r = store_project_update(tx->store, project);
        if (r == 0)
            tell_project(tx, project, "project.deleting", "schedules", schedules);
    }
    tx->engine->next_project = tx->now;
    return r;
}

int apply_project(struct tx *tx, struct command *c)
{
    struct project project;
    if (c->project.act == PROJECT_MAKE)
        return make(tx, c);
    int r = store_project_lock(tx->store, c->project.name, &project);
    if (r == -HF_NOT_FOUND)
        return error_set(&c->error, r, NULL, "There is no project \"%.*s\".",
                         (int)c->project.name.n, c->project.name.p);
    if (r == 0)
        r = c->project.act == PROJECT_DELETE
                ? mark(tx, c, &project)
                : set_pause(tx, c, &project, c->project.act == PROJECT_PAUSE);
    c->project.out_id = project.id;
    return r;
}
