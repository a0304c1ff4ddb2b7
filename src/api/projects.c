/* SPDX-License-Identifier: Apache-2.0
 *
 * projects.c -- namespaces for jobs: made explicitly, and listed. */
#include "api/call.h"

static void put_project(struct json_writer *w, int64_t id, const char *name,
                        int64_t created_at)
{
    json_begin_object(w);
    json_put_id(w, "id", id);
    json_put_text(w, "name", name);
    json_put_time(w, "createdAt", created_at); /* "default" was always there: null */
    json_end_object(w);
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
    for (size_t i = 0; i < store->project_count; i++)
        if (only == 0 || store->projects[i].id == only)
            put_project(w, store->projects[i].id, store->projects[i].name,
                        store->projects[i].created_at);
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static void get_projects(struct call *call)
{
    if (call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, 0, NULL, show_projects);
}

static int show_made(struct store *store, struct show *show, struct json_writer *w)
{
    int r = store_projects_reload(store);
    for (size_t i = 0; r == 0 && i < store->project_count; i++)
        if (store->projects[i].id == show->id) {
            put_project(w, show->id, store->projects[i].name,
                        store->projects[i].created_at);
            return 0;
        }
    return r < 0 ? r : -HF_NOT_FOUND;
}

static void answer_made(struct call *call, struct show *show)
{
    call_answer_buf(call, 201, &show->out);
}

static void made(struct call *call, struct command *command)
{
    call_show_then(call, READER_QUICK, command->project.out_id, NULL, show_made,
                   answer_made);
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
    if (r == 0) {
        call_submit(call, command, made);
        return;
    }
    command_free(command);
    call_refuse(call, &error);
}

const struct route project_routes[] = {
    { HTTP_GET, "projects", ROLE_VIEWER, get_projects, BODY_NONE, false },
    { HTTP_POST, "projects", ROLE_OPERATOR, make_project, BODY_SMALL, true },
    { 0 },
};
