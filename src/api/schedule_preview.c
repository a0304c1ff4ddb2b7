/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_preview.c -- when a schedule will fire: one that is there, or an expression
 * that somebody wants to try. */
#include <stdio.h>

#include "api/call.h"
#include "api/schedule_json.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/tz.h"

/* What is asked; `schedule` is read from the store, or has been given. */
struct preview {
    struct schedule schedule;
    int64_t count, from;
};

/* What the clocks of the zone show then, with their distance from UTC. */
static void put_local(struct json_writer *w, const struct tz *tz, int64_t at)
{
    char text[TIME_TEXT_BYTES], local[TIME_TEXT_BYTES + 32];
    int offset = tz_at(tz, at / US_PER_S).offset_s;
    int minutes = (offset < 0 ? -offset : offset) / 60;

    time_text(at + offset * US_PER_S, text);
    snprintf(local, sizeof(local), "%.23s%c%02d:%02d", text, offset < 0 ? '-' : '+',
             minutes / 60, minutes % 60);
    json_put_text(w, "local", local);
}

static void put_times(struct json_writer *w, const struct schedule_when *when,
                      const struct tz *tz, const struct preview *preview)
{
    int64_t at = preview->from;

    json_key(w, "times");
    json_begin_array(w);
    for (int64_t i = 0; i < preview->count; i++) {
        at = schedule_next(when, at);
        if (at == 0)
            break;
        json_begin_object(w);
        json_put_time(w, "at", at);
        put_local(w, tz, at);
        json_end_object(w);
    }
    json_end_array(w);
}

static int write_preview(struct show *show, struct json_writer *w,
                         const struct preview *preview)
{
    const struct schedule *s = &preview->schedule;
    struct slice zone = s->time_zone.p ? s->time_zone : SLICE("UTC");
    struct schedule_when when;
    struct tz *tz = NULL;

    int r = tz_load(NULL, zone, &show->look.error, &tz);
    if (r == 0)
        r = schedule_when(s, s->cron.p ? tz : NULL, &show->look.error, &when);
    if (r == 0) {
        json_begin_object(w);
        json_put_str(w, "timeZone", zone);
        put_times(w, &when, tz, preview);
        json_end_object(w);
    }
    tz_free(tz);
    return r;
}

/* ---- of one that is there ---- */

static int show_of_stored(struct store *store, struct show *show, struct json_writer *w)
{
    struct preview preview = *(const struct preview *)show->arg;
    int64_t bound = show->call->who.project_id;
    int r = store_schedule_get(store, show->id, &show->arena, &preview.schedule);

    if (r == -HF_NOT_FOUND || (r == 0 && bound && preview.schedule.project_id != bound))
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                         "There is no schedule %lld.", (long long)show->id);
    if (r < 0)
        return r;
    /* Its words were good when they were given: what is missing now is a zone. */
    r = write_preview(show, w, &preview);
    if (show->look.error.code)
        r = show->look.error.code = -HF_CONFLICT;
    return r;
}

static struct preview *begin(struct call *call)
{
    struct preview *preview = call_new(call, struct preview);
    if (!preview)
        return NULL;
    *preview = (struct preview){ .count = DEFAULT_PREVIEW_TIMES,
                                 .from = clock_wall_us(call->api->options.clock) };
    return preview;
}

static void preview_stored(struct call *call)
{
    static const char *const known[] = { "count", "from" };
    struct preview *preview = begin(call);
    int64_t id = 0;

    if (preview && call_id(call, 0, &id) && call_query_known(call, known, 2) &&
        call_query_int(call, "count", 1, LIMIT_PREVIEW_TIMES, &preview->count) &&
        call_query_time(call, "from", &preview->from))
        call_show(call, READER_LONG, id, preview, show_of_stored);
}

/* ---- of one that is given ---- */

static int show_of_given(struct store *store, struct show *show, struct json_writer *w)
{
    const struct preview *preview = show->arg;
    struct schedule_edit edit = { .set = EDIT_WHEN | EDIT_START | EDIT_END,
                                  .with = preview->schedule };

    (void)store; /* in this thread because it reads the zone's file */
    int r = schedule_edit_check(&edit, NULL, &show->look.error);
    return r < 0 ? r : write_preview(show, w, preview);
}

static int read_given(struct call *call, const struct slice *v, struct error *error,
                      struct preview *to)
{
    enum { CRON, ZONE, EVERY, START, END, COUNT, FROM };
    static const int fields[] = { SCHEDULE_CRON, SCHEDULE_ZONE, SCHEDULE_EVERY,
                                  SCHEDULE_START, SCHEDULE_END };
    struct slice values[SCHEDULE_END + 1] = { 0 };
    struct schedule_edit edit = { .id = 1 }; /* a name is not asked for */

    for (size_t i = 0; i < array_len(fields); i++)
        if (v[i].p && json_kind_of(v[i]) != JSON_KIND_NULL)
            values[fields[i]] = v[i];
    int r = schedule_read(values, array_len(values), call->arena, error, &edit);
    if (r == 0 && !edit.with.cron.p && edit.with.every_us == 0)
        r = error_set(
            error, -HF_INVALID, "cron",
            "cron or everyMs is missing; without one there is nothing to show.");
    if (r == 0 && v[COUNT].p)
        r = json_get_int(v[COUNT], "count", 1, LIMIT_PREVIEW_TIMES, error, &to->count);
    if (r == 0 && v[FROM].p)
        r = json_get_time(v[FROM], "from", error, &to->from);
    to->schedule = edit.with;
    to->schedule.anchor_at = edit.with.start_at ? edit.with.start_at : to->from;
    return r;
}

static void preview_given(struct call *call)
{
    static const char *const names[] = { "cron",  "timeZone", "everyMs", "startAt",
                                         "endAt", "count",    "from" };
    struct slice v[array_len(names)];
    struct error error = { 0 };

    if (!call_fields(call, names, array_len(names), v))
        return;
    struct preview *preview = begin(call);
    if (!preview)
        return;
    int r = read_given(call, v, &error, preview);
    if (r == 0) {
        call_show(call, READER_LONG, 0, preview, show_of_given);
        return;
    }
    error_set(&error, r, NULL, "%s.", status_of(r)->title);
    call_refuse(call, &error);
}

const struct route schedule_preview_routes[] = {
    { HTTP_GET, "schedules/{id}/preview", ROLE_VIEWER, preview_stored, BODY_NONE, false },
    { HTTP_POST, "schedules/preview", ROLE_VIEWER, preview_given, BODY_SMALL, false },
    { 0 },
};
