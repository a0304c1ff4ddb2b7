/* SPDX-License-Identifier: Apache-2.0
 *
 * schedules.c -- what makes jobs by itself: made, shown, changed, paused, triggered, and
 * what became of its fire times. */
#include "api/call.h"
#include "api/schedule_json.h"
#include "api/views.h"
#include "base/limits.h"

static int no_schedule(struct error *error, int64_t id)
{
    return error_set(error, -HF_NOT_FOUND, NULL, "There is no schedule %lld.",
                     (long long)id);
}

/* Of the token's project, if it is bound to one. */
static int get(struct store *store, struct show *show, struct schedule *ret)
{
    int64_t bound = show->call->who.project_id;
    int r = store_schedule_get(store, show->id, &show->arena, ret);

    if (r == -HF_NOT_FOUND || (r == 0 && bound && ret->project_id != bound))
        return no_schedule(&show->look.error, show->id);
    return r;
}

/* ---- shown ---- */

static int show_schedule(struct store *store, struct show *show, struct json_writer *w)
{
    struct schedule schedule;
    int r = get(store, show, &schedule);
    if (r == 0)
        schedule_put(store, w, &schedule);
    return r;
}

static void get_schedule(struct call *call)
{
    int64_t id = 0;
    if (call_id(call, 0, &id) && call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, id, NULL, show_schedule);
}

/* ---- listed ---- */

enum { STEP_SCHEDULES = 50, PAGE_BYTES = 8 << 20 };

struct listing {
    struct slice project, name;
    int64_t limit, cursor;
};

static int filter_for(struct store *store, struct show *show, struct schedule_filter *ret)
{
    const struct listing *listing = show->arg;

    *ret = (struct schedule_filter){ .name = listing->name, .after = listing->cursor };
    return show_project_id(store, show, listing->project, &ret->project_id);
}

/* In steps, because a payload may be large: the page ends where it gets too much.  One
 * more than is shown tells whether there is another page. */
static int put_page(struct store *store, struct show *show, struct json_writer *w,
                    struct schedule_filter *filter, bool *ret_more)
{
    const struct listing *listing = show->arg;
    size_t left = (size_t)listing->limit, count = 0, n = 0;
    struct schedule *list = NULL;

    do {
        filter->limit = (left < STEP_SCHEDULES ? left : STEP_SCHEDULES) + 1;
        int r = store_schedules(store, filter, &show->arena, &list, &count);
        if (r < 0)
            return r;
        for (n = 0; n < count && n + 1 < filter->limit && show->out.n < PAGE_BYTES; n++) {
            schedule_put(store, w, &list[n]);
            filter->after = list[n].id;
        }
        left -= n;
        arena_reset(&show->arena);
    } while (n < count && left > 0 && show->out.n < PAGE_BYTES);
    *ret_more = n < count;
    return 0;
}

static int show_schedules(struct store *store, struct show *show, struct json_writer *w)
{
    struct schedule_filter filter;
    bool more = false;
    int r = filter_for(store, show, &filter);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    r = put_page(store, show, w, &filter, &more);
    json_end_array(w);
    json_put_id(w, "nextCursor", more ? filter.after : 0);
    json_end_object(w);
    return r;
}

static void list_schedules(struct call *call)
{
    static const char *const known[] = { "project", "name", "limit", "cursor" };
    struct listing *listing = call_new(call, struct listing);

    if (!listing)
        return;
    listing->limit = DEFAULT_PAGE_ITEMS;
    if (call_query_known(call, known, array_len(known)) &&
        call_query_project(call, &listing->project) &&
        call_query_name(call, "name", &listing->name) &&
        call_query_page(call, &listing->limit, &listing->cursor))
        call_show(call, READER_LONG, 0, listing, show_schedules);
}

/* ---- fires ---- */

struct paging {
    int64_t limit, cursor;
};

static int show_fires(struct store *store, struct show *show, struct json_writer *w)
{
    const struct paging *paging = show->arg;
    struct schedule schedule;
    struct fire *fires = NULL;
    size_t count = 0;
    int r = get(store, show, &schedule);
    if (r == 0)
        r = store_fires(store, show->id, paging->cursor, (size_t)paging->limit + 1,
                        &show->arena, &fires, &count);
    if (r < 0)
        return r;
    bool more = count > (size_t)paging->limit;
    if (more)
        count--;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        fire_put(w, &fires[i]);
    json_end_array(w);
    json_put_id(w, "nextCursor", more ? fires[count - 1].fire_at : 0);
    json_end_object(w);
    return 0;
}

static void get_fires(struct call *call)
{
    static const char *const known[] = { "limit", "cursor" };
    struct paging *paging = call_new(call, struct paging);
    int64_t id = 0;

    if (!paging)
        return;
    paging->limit = DEFAULT_PAGE_ITEMS;
    if (call_id(call, 0, &id) && call_query_known(call, known, array_len(known)) &&
        call_query_page(call, &paging->limit, &paging->cursor))
        call_show(call, READER_LONG, id, paging, show_fires);
}

/* ---- made and changed ---- */

static void edited(struct call *call, struct command *command)
{
    bool is_new = command->schedule.edit.id == 0;
    call_show_then(call, READER_QUICK, command->schedule.out_id, NULL, show_schedule,
                   is_new ? call_made : NULL);
}

static struct command *begin_edit(struct call *call, int64_t id)
{
    struct command *command = call_command(call, OP_SCHEDULE);
    if (!command)
        return NULL;
    command->schedule.edit =
        (struct schedule_edit){ .id = id, .project_id = call->who.project_id };
    return command;
}

/* All fields, and behind them what only a new one can be given. */
enum { PROJECT = SCHEDULE_FIELDS, PAUSED, NEW_FIELDS };

static bool given(struct slice value)
{
    return value.p && json_kind_of(value) != JSON_KIND_NULL;
}

static int read_new(const struct slice *v, struct arena *arena, struct error *error,
                    struct schedule_edit *edit)
{
    bool paused = false;
    int r = schedule_read(v, SCHEDULE_FIELDS, arena, error, edit);
    if (r == 0 && given(v[PROJECT]))
        r = json_get_name(v[PROJECT], "project", arena, error, &edit->project);
    if (r == 0 && given(v[PAUSED]))
        r = json_get_bool(v[PAUSED], "paused", error, &paused);
    if (paused) {
        edit->set |= EDIT_PAUSED;
        edit->with.paused = PAUSED_ITSELF;
    }
    return r;
}

static void make(struct call *call)
{
    const char *names[NEW_FIELDS];
    struct slice v[NEW_FIELDS];
    struct error error = { 0 };

    memcpy(names, schedule_field_names, sizeof(schedule_field_names));
    names[PROJECT] = "project";
    names[PAUSED] = "paused";
    if (!call_fields(call, names, NEW_FIELDS, v))
        return;
    struct command *command = begin_edit(call, 0);
    if (!command)
        return;
    int r = read_new(v, &command->arena, &error, &command->schedule.edit);
    call_submit_read(call, command, r, &error, edited);
}

static void change(struct call *call)
{
    struct slice v[SCHEDULE_FIELDS];
    struct error error = { 0 };
    int64_t id = 0;

    if (!call_id(call, 0, &id) ||
        !call_fields(call, schedule_field_names, SCHEDULE_FIELDS, v))
        return;
    struct command *command = begin_edit(call, id);
    if (!command)
        return;
    struct schedule_edit *edit = &command->schedule.edit;
    int r = schedule_read(v, SCHEDULE_FIELDS, &command->arena, &error, edit);
    if (r == 0 && edit->set == 0)
        r = error_set(
            &error, -HF_INVALID, NULL,
            "There is nothing to change; give cron, everyMs, payload or another "
            "field of a schedule.");
    call_submit_read(call, command, r, &error, edited);
}

/* ---- paused ---- */

static void pause_schedule(struct call *call)
{
    static const char *const names[] = { "reason", "until" };
    struct slice v[2];
    struct error error = { 0 };
    int64_t id = 0;

    if (!call_id(call, 0, &id) || !call_fields(call, names, 2, v))
        return;
    struct command *command = begin_edit(call, id);
    if (!command)
        return;
    int r = schedule_read_pause(v, clock_wall_us(call->api->options.clock),
                                &command->arena, &error, &command->schedule.edit);
    call_submit_read(call, command, r, &error, edited);
}

static void resume_schedule(struct call *call)
{
    int64_t id = 0;

    if (!call_id(call, 0, &id) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = begin_edit(call, id);
    if (!command)
        return;
    command->schedule.edit.set = EDIT_PAUSED;
    command->schedule.edit.with = schedule_defaults();
    call_submit(call, command, edited);
}

/* ---- triggered ---- */

static int show_job(struct store *store, struct show *show, struct json_writer *w)
{
    struct job_row row;
    int r = store_job_get(store, show->id, &show->arena, &row);
    return r < 0 ? r
                 : view_job(store, &show->arena, w, &row,
                            clock_wall_us(show->call->api->options.clock));
}

void schedule_triggered(struct call *call, struct command *command)
{
    call_show_then(call, READER_QUICK, command->trigger.out_job_id, NULL, show_job,
                   command->trigger.out_made ? call_made : NULL);
}

static void trigger(struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = call_command(call, OP_TRIGGER);
    if (!command)
        return;
    command->trigger.id = id;
    command->trigger.project_id = call->who.project_id;
    call_submit(call, command, schedule_triggered);
}

/* ---- deleted ---- */

static void delete (struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_query_known(call, NULL, 0))
        return;
    struct command *command = call_command(call, OP_SCHEDULE_DROP);
    if (!command)
        return;
    command->schedule_drop.id = id;
    command->schedule_drop.project_id = call->who.project_id;
    call_submit(call, command, call_done);
}

const struct route schedule_routes[] = {
    { HTTP_POST, "schedules", ROLE_OPERATOR, make, BODY_SMALL, false },
    { HTTP_GET, "schedules", ROLE_VIEWER, list_schedules, BODY_NONE, false },
    { HTTP_GET, "schedules/{id}", ROLE_VIEWER, get_schedule, BODY_NONE, false },
    { HTTP_PATCH, "schedules/{id}", ROLE_OPERATOR, change, BODY_SMALL, false },
    { HTTP_DELETE, "schedules/{id}", ROLE_OPERATOR, delete, BODY_NONE, false },
    { HTTP_POST, "schedules/{id}/pause", ROLE_OPERATOR, pause_schedule, BODY_SMALL,
      false },
    { HTTP_POST, "schedules/{id}/resume", ROLE_OPERATOR, resume_schedule, BODY_SMALL,
      false },
    { HTTP_POST, "schedules/{id}/trigger", ROLE_OPERATOR, trigger, BODY_SMALL, false },
    { HTTP_GET, "schedules/{id}/fires", ROLE_VIEWER, get_fires, BODY_NONE, false },
    { 0 },
};
