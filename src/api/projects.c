/* SPDX-License-Identifier: Apache-2.0
 *
 * projects.c -- namespaces: made, listed, paused with their schedules, deleted. */
#include "api/call.h"

/* What is in a project is counted for so long; then the numbers are "at least". */
enum { COUNT_STEP_JOBS = 20000 };
#define COUNT_US US_PER_S

/* ---- shown ---- */

static void put_members(struct json_writer *w, const struct project *p)
{
    json_put_id(w, "id", p->id);
    json_put_text(w, "name", p->name);
    json_put_time(w, "createdAt", p->created_at); /* "default" was always there: null */
    json_put_bool(w, "paused", p->paused);
    json_put_bool(w, "deleting", p->deleting != DELETING_NOT);
}

/* A token that is bound to a project sees that one. */
static int show_projects(struct store *store, struct show *show, struct json_writer *w)
{
    int64_t only = show->call->who.project_id;
    int r = store_projects_reload(store);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < store->project_count; i++) {
        const struct project *p = &store->projects[i];
        if (only != 0 && p->id != only)
            continue;
        json_begin_object(w);
        put_members(w, p);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static void get_projects(struct call *call)
{
    if (call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, 0, NULL, show_projects);
}

/* What a look at one has found. */
struct found {
    struct slice name;
    bool cascade;
    bool marked; /* it is being deleted, by this very call */
    struct project project;
    struct project_holds holds;
    bool all; /* jobs were counted, not only some of them */
};

static int count_jobs(struct store *store, const struct clock *clock, struct found *f)
{
    int64_t after = 0, until = clock_mono_us(clock) + COUNT_US;
    int r = 0;
    do {
        r = store_project_jobs(store, f->project.id, COUNT_STEP_JOBS, &after, &f->holds);
    } while (r == 0 && after != 0 && clock_mono_us(clock) < until);
    f->all = after == 0;
    return r;
}

static int find(struct store *store, struct show *show, struct found *f)
{
    int64_t only = show->call->who.project_id;
    const struct project *there = NULL;
    int r = store_projects_reload(store);
    if (r < 0)
        return r;
    for (size_t i = 0; i < store->project_count; i++)
        if (slice_equal(slice_of(store->projects[i].name), f->name))
            there = &store->projects[i];
    if (f->marked && (!there || there->id != f->project.id)) { /* gone already */
        f->holds = (struct project_holds){ 0 };
        f->project.deleting = DELETING_ALL;
        f->all = true;
        return 0;
    }
    if (!there || (only != 0 && only != there->id))
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                         "There is no project \"%.*s\".", (int)f->name.n, f->name.p);
    f->project = *there;
    r = store_project_holds(store, f->project.id, &f->holds);
    return r < 0 ? r : count_jobs(store, show->call->api->options.clock, f);
}

static int show_project(struct store *store, struct show *show, struct json_writer *w)
{
    struct found *f = show->arg;
    int r = find(store, show, f);
    if (r < 0)
        return r;
    show->status = f->marked ? 202 : 200;
    json_begin_object(w);
    put_members(w, &f->project);
    json_key(w, "holds");
    json_begin_object(w);
    json_put_int(w, "schedules", f->holds.schedules);
    json_put_int(w, "endpoints", f->holds.endpoints);
    json_put_int(w, "webhooks", f->holds.webhooks);
    json_put_int(w, "tokens", f->holds.tokens);
    json_put_int(w, "liveJobs", f->holds.jobs_live);
    json_put_int(w, "finishedJobs", f->holds.jobs_over);
    json_put_bool(w, "allCounted", f->all);
    json_end_object(w);
    json_end_object(w);
    return 0;
}

/* The project of the path; NULL: refused. */
static struct found *named(struct call *call)
{
    struct slice name;
    if (!call_name(call, 0, "project", &name))
        return NULL;
    struct found *f = call_new(call, struct found);
    if (!f)
        return NULL;
    f->name = name;
    return f;
}

static void get_project(struct call *call)
{
    struct found *f = call_query_known(call, NULL, 0) ? named(call) : NULL;
    if (f)
        call_show(call, READER_LONG, 0, f, show_project);
}

/* ---- made ---- */

static int show_made(struct store *store, struct show *show, struct json_writer *w)
{
    int r = store_projects_reload(store);
    for (size_t i = 0; r == 0 && i < store->project_count; i++)
        if (store->projects[i].id == show->id) {
            show->status = 201;
            json_begin_object(w);
            put_members(w, &store->projects[i]);
            json_end_object(w);
            return 0;
        }
    return r < 0 ? r : -HF_NOT_FOUND;
}

static void made(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->project.out_id, NULL, show_made);
}

static void make_project(struct call *call)
{
    static const char *const names[] = { "name" };
    struct slice name;
    struct error error = { 0 };
    if (!call_fields(call, names, 1, &name))
        return;
    struct command *command = call_command(call, OP_PROJECT);
    if (!command)
        return;
    int r = name.p ? json_get_name(name, "name", &command->arena, &error,
                                   &command->project.name)
                   : error_set(&error, -HF_INVALID, "name",
                               "name is missing; it is what jobs name in \"project\".");
    call_submit_read(call, command, r, &error, made);
}

/* ---- paused, resumed ---- */

static void acted(struct call *call, struct command *command)
{
    (void)command;
    call_show(call, READER_LONG, 0, call->state, show_project);
}

static void act(struct call *call, struct found *f, enum project_act act)
{
    struct command *command = call_command(call, OP_PROJECT);
    if (!command)
        return;
    call->state = f;
    command->project.name = f->name;
    command->project.act = act;
    command->project.cascade = f->cascade;
    call_submit(call, command, acted);
}

static void pause_project(struct call *call)
{
    struct found *f = call_fields(call, NULL, 0, NULL) ? named(call) : NULL;
    if (f)
        act(call, f, PROJECT_PAUSE);
}

static void resume_project(struct call *call)
{
    struct found *f = call_fields(call, NULL, 0, NULL) ? named(call) : NULL;
    if (f)
        act(call, f, PROJECT_RESUME);
}

/* ---- deleted ---- */

/* Without cascade only an empty one: the engine looks again, since something may come
 * in after we did. */
static void counted(struct call *call, struct show *show)
{
    struct found *f = show->arg;
    const struct project_holds *h = &f->holds;
    f->marked = true;
    if (f->cascade ||
        h->schedules + h->webhooks + h->tokens + h->jobs_live + h->jobs_over == 0 ||
        f->project.deleting != DELETING_NOT || f->project.id == PROJECT_DEFAULT) {
        act(call, f, PROJECT_DELETE);
        return;
    }
    const char *least = f->all ? "" : "at least ";
    call_refuse_with(
        call, -HF_CONFLICT, NULL,
        "The project \"%s\" is not empty: %lld schedules (%lld of them endpoints), %lld "
        "webhooks, %lld tokens, %s%lld live and %s%lld finished jobs. To delete all of "
        "it, ask for cascade=true.",
        f->project.name, (long long)h->schedules, (long long)h->endpoints,
        (long long)h->webhooks, (long long)h->tokens, least, (long long)h->jobs_live,
        least, (long long)h->jobs_over);
}

static void delete_project(struct call *call)
{
    static const char *const names[] = { "cascade" };
    bool cascade = false;
    if (!call_query_known(call, names, 1) || !call_query_bool(call, "cascade", &cascade))
        return;
    struct found *f = named(call);
    if (!f)
        return;
    f->cascade = cascade;
    call_show_then(call, READER_LONG, 0, f, show_project, counted);
}

const struct route project_routes[] = {
    { HTTP_GET, "projects", ROLE_VIEWER, get_projects, BODY_NONE, false },
    { HTTP_POST, "projects", ROLE_OPERATOR, make_project, BODY_SMALL, true },
    { HTTP_GET, "projects/{project}", ROLE_VIEWER, get_project, BODY_NONE, false },
    { HTTP_DELETE, "projects/{project}", ROLE_OPERATOR, delete_project, BODY_NONE, true },
    { HTTP_POST, "projects/{project}/pause", ROLE_OPERATOR, pause_project, BODY_SMALL,
      true },
    { HTTP_POST, "projects/{project}/resume", ROLE_OPERATOR, resume_project, BODY_SMALL,
      true },
    { 0 },
};
