/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoints.c -- HTTP targets with a schedule: made, shown, changed, paused, run by hand,
 * and what became of their runs.
 *
 * An endpoint stands below its project; the reader says whether it does before the engine
 * is asked for anything. */
#include "api/call.h"
#include "api/endpoint_json.h"
#include "api/views.h"
#include "base/limits.h"
#include "engine/schedule/endpoint.h"

enum { PAGE_STEP_RUNS = 50, PAGE_BYTES = 4 << 20 };

/* ---- found ---- */

/* Which endpoint a call is about, and what is to be done about it. */
struct wanted {
    struct slice project;
    int64_t project_id; /* out */
    int64_t id;         /* 0: all of the project */
    int64_t limit, cursor;
    struct command *command; /* to be given to the engine if it is there */
    void (*then)(struct call *call, struct command *command);
};

static int find_project(struct store *store, struct show *show)
{
    struct wanted *wanted = show->arg;
    int64_t bound = show->call->who.project_id, id = 0;
    int r = store_project(store, wanted->project, &id);
    if (r == -HF_NOT_FOUND || (r == 0 && bound != 0 && bound != id))
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                         "There is no project \"%.*s\".", (int)wanted->project.n,
                         wanted->project.p);
    wanted->project_id = id;
    return r;
}

static int find(struct store *store, struct show *show, struct schedule *ret)
{
    struct wanted *wanted = show->arg;
    int r = find_project(store, show);
    if (r < 0)
        return r;
    r = store_schedule_get(store, wanted->id, &show->arena, ret);
    if (r == -HF_NOT_FOUND ||
        (r == 0 && (ret->project_id != wanted->project_id || !schedule_is_endpoint(ret))))
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                         "There is no endpoint %lld in the project \"%.*s\".",
                         (long long)wanted->id, (int)wanted->project.n,
                         wanted->project.p);
    return r;
}

/* What the path names; NULL: refused. */
static struct wanted *named(struct call *call, bool one)
{
    struct wanted *wanted = call_new(call, struct wanted);
    if (!wanted)
        return NULL;
    wanted->limit = DEFAULT_PAGE_ITEMS;
    call->state = wanted;
    return call_name(call, 0, "project", &wanted->project) &&
                   (!one || call_id(call, 1, &wanted->id))
               ? wanted
               : NULL;
}

/* ---- shown ---- */

static int show_endpoint(struct store *store, struct show *show, struct json_writer *w)
{
    struct schedule schedule;
    int r = find(store, show, &schedule);
    return r < 0 ? r
                 : endpoint_put(store, &show->arena, w, &schedule,
                                node_settings(show->call->api->node));
}

static void get_endpoint(struct call *call)
{
    struct wanted *wanted = call_query_known(call, NULL, 0) ? named(call, true) : NULL;
    if (wanted)
        call_show(call, READER_QUICK, 0, wanted, show_endpoint);
}

static bool read_paging(struct call *call, struct wanted *wanted)
{
    static const char *const known[] = { "limit", "cursor" };
    return wanted && call_query_known(call, known, array_len(known)) &&
           call_query_page(call, &wanted->limit, &wanted->cursor);
}

static int show_endpoints(struct store *store, struct show *show, struct json_writer *w)
{
    struct wanted *wanted = show->arg;
    struct schedule *list = NULL;
    size_t count = 0;
    int r = find_project(store, show);
    if (r < 0)
        return r;
    struct schedule_filter filter = { .project_id = wanted->project_id,
                                      .after = wanted->cursor,
                                      .endpoints = true,
                                      .limit = (size_t)wanted->limit + 1 };
    r = store_schedules(store, &filter, &show->arena, &list, &count);
    if (r < 0)
        return r;
    size_t n = 0;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (; n < count && n < (size_t)wanted->limit && show->out.n < PAGE_BYTES; n++) {
        r = endpoint_put(store, &show->arena, w, &list[n],
                         node_settings(show->call->api->node));
        if (r < 0 && r != -HF_NOT_FOUND) /* that one was deleted meanwhile */
            return r;
    }
    json_end_array(w);
    json_put_id(w, "nextCursor", n < count ? list[n - 1].id : 0);
    json_end_object(w);
    return 0;
}

static void list_endpoints(struct call *call)
{
    struct wanted *wanted = named(call, false);
    if (read_paging(call, wanted))
        call_show(call, READER_LONG, 0, wanted, show_endpoints);
}

/* ---- runs ---- */

/* A page ends at a number of bytes too: each may have a response of 64 KiB. */
static int put_runs(struct store *store, struct show *show, struct json_writer *w,
                    int64_t *ret_next)
{
    const struct wanted *wanted = show->arg;
    int64_t before = wanted->cursor, left = wanted->limit;
    while (left > 0 && show->out.n < PAGE_BYTES) {
        struct job_row *rows = NULL;
        size_t count = 0;
        size_t step = left < PAGE_STEP_RUNS ? (size_t)left : PAGE_STEP_RUNS;
        int r = store_schedule_jobs(store, wanted->id, before, step, &show->arena, &rows,
                                    &count);
        if (r < 0)
            return r;
        for (size_t i = 0; i < count; i++) {
            endpoint_put_run(w, &rows[i]);
            before = rows[i].job.id;
        }
        left -= (int64_t)count;
        if (count < step) {
            *ret_next = 0;
            return 0;
        }
    }
    *ret_next = before;
    return 0;
}

static int show_runs(struct store *store, struct show *show, struct json_writer *w)
{
    struct schedule schedule;
    int64_t next = 0;
    int r = find(store, show, &schedule);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    r = put_runs(store, show, w, &next);
    json_end_array(w);
    json_put_id(w, "nextCursor", next);
    json_end_object(w);
    return r;
}

static void get_runs(struct call *call)
{
    struct wanted *wanted = named(call, true);
    if (read_paging(call, wanted))
        call_show(call, READER_LONG, 0, wanted, show_runs);
}

/* ---- commands ---- */

static void drop_command(struct call *call)
{
    struct wanted *wanted = call->state;
    command_free(wanted->command);
    wanted->command = NULL;
}

/* It is there: now the engine, which makes sure that it still is. */
static void found(struct call *call, struct show *show)
{
    struct wanted *wanted = show->arg;
    struct command *command = wanted->command;
    call->on_refused = NULL;
    if (command->op == OP_SCHEDULE)
        command->schedule.edit.project_id = wanted->project_id;
    else if (command->op == OP_TRIGGER)
        command->trigger.project_id = wanted->project_id;
    else
        command->schedule_drop.project_id = wanted->project_id;
    call_submit(call, command, wanted->then);
}

static int look_for(struct store *store, struct show *show, struct json_writer *w)
{
    struct schedule schedule;
    int r = find(store, show, &schedule);
    if (r == 0)
        json_raw(w, SLICE("null"));
    return r;
}

static void submit(struct call *call, struct command *command,
                   void (*then)(struct call *call, struct command *command))
{
    struct wanted *wanted = call->state;
    wanted->command = command;
    wanted->then = then;
    call->on_refused = drop_command;
    call_show_then(call, READER_QUICK, 0, wanted, look_for, found);
}

/* ---- made and changed ---- */

static void edited(struct call *call, struct command *command)
{
    struct wanted *wanted = call->state;
    bool is_new = wanted->id == 0;
    wanted->id = command->schedule.out_id;
    call_show_then(call, READER_QUICK, 0, wanted, show_endpoint,
                   is_new ? call_made : NULL);
}

static struct command *begin_edit(struct call *call, const struct wanted *wanted)
{
    struct command *command = call_command(call, OP_SCHEDULE);
    if (!command)
        return NULL;
    command->schedule.edit = (struct schedule_edit){ .id = wanted->id,
                                                     .project = wanted->project,
                                                     .endpoint = true };
    return command;
}

static void make(struct call *call)
{
    const char *names[ENDPOINT_FIELDS];
    struct slice v[ENDPOINT_FIELDS];
    struct error error = { 0 };
    struct wanted *wanted = named(call, false);
    endpoint_field_names(names);
    if (!wanted || !call_fields(call, names, ENDPOINT_FIELDS, v))
        return;
    struct command *command = begin_edit(call, wanted);
    if (!command)
        return;
    int r = endpoint_read(v, &command->arena, &error, &command->schedule.edit);
    call_submit_read(call, command, r, &error, edited);
}

static void change(struct call *call)
{
    const char *names[ENDPOINT_FIELDS];
    struct slice v[ENDPOINT_FIELDS];
    struct error error = { 0 };
    struct wanted *wanted = named(call, true);
    endpoint_field_names(names);
    if (!wanted || !call_fields(call, names, ENDPOINT_FIELDS, v))
        return;
    struct command *command = begin_edit(call, wanted);
    if (!command)
        return;
    int r = endpoint_read(v, &command->arena, &error, &command->schedule.edit);
    if (r == 0 && command->schedule.edit.set == 0)
        r = error_set(&error, -HF_INVALID, NULL,
                      "There is nothing to change; give url, cron, headers or another "
                      "field of an endpoint.");
    if (r < 0)
        call_refuse_read(call, command, r, &error);
    else
        submit(call, command, edited);
}

static void pause_endpoint(struct call *call)
{
    static const char *const names[] = { "reason", "until" };
    struct slice v[2];
    struct error error = { 0 };
    struct wanted *wanted = named(call, true);
    if (!wanted || !call_fields(call, names, 2, v))
        return;
    struct command *command = begin_edit(call, wanted);
    if (!command)
        return;
    int r = schedule_read_pause(v, clock_wall_us(call->api->options.clock),
                                &command->arena, &error, &command->schedule.edit);
    if (r < 0)
        call_refuse_read(call, command, r, &error);
    else
        submit(call, command, edited);
}

static void resume_endpoint(struct call *call)
{
    struct wanted *wanted = named(call, true);
    if (!wanted || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = begin_edit(call, wanted);
    if (!command)
        return;
    command->schedule.edit.set = EDIT_PAUSED;
    command->schedule.edit.with = schedule_defaults();
    submit(call, command, edited);
}

/* ---- run by hand ---- */

static void run(struct call *call)
{
    struct wanted *wanted = named(call, true);
    if (!wanted || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = call_command(call, OP_TRIGGER);
    if (!command)
        return;
    command->trigger.id = wanted->id;
    command->trigger.endpoint = true;
    submit(call, command, schedule_triggered);
}

/* ---- deleted ---- */

static void delete (struct call *call)
{
    struct wanted *wanted = named(call, true);
    if (!wanted || !call_query_known(call, NULL, 0))
        return;
    struct command *command = call_command(call, OP_SCHEDULE_DROP);
    if (!command)
        return;
    command->schedule_drop.id = wanted->id;
    command->schedule_drop.endpoint = true;
    submit(call, command, call_done);
}

#define ENDPOINTS "projects/{project}/endpoints"
const struct route endpoint_routes[] = {
    { HTTP_POST, ENDPOINTS, ROLE_OPERATOR, make, BODY_SMALL, false },
    { HTTP_GET, ENDPOINTS, ROLE_VIEWER, list_endpoints, BODY_NONE, false },
    { HTTP_GET, ENDPOINTS "/{id}", ROLE_VIEWER, get_endpoint, BODY_NONE, false },
    { HTTP_PATCH, ENDPOINTS "/{id}", ROLE_OPERATOR, change, BODY_SMALL, false },
    { HTTP_DELETE, ENDPOINTS "/{id}", ROLE_OPERATOR, delete, BODY_NONE, false },
    { HTTP_POST, ENDPOINTS "/{id}/run", ROLE_OPERATOR, run, BODY_SMALL, false },
    { HTTP_POST, ENDPOINTS "/{id}/pause", ROLE_OPERATOR, pause_endpoint, BODY_SMALL,
      false },
    { HTTP_POST, ENDPOINTS "/{id}/resume", ROLE_OPERATOR, resume_endpoint, BODY_SMALL,
      false },
    { HTTP_GET, ENDPOINTS "/{id}/runs", ROLE_VIEWER, get_runs, BODY_NONE, false },
    { 0 },
};
