/* SPDX-License-Identifier: Apache-2.0
 *
 * deliveries.c -- what is on its way to webhooks, and what became of it; sent again, one
 * or many; a test. */
#include "api/call.h"
#include "api/webhook_view.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/event_types.h"

static int no_webhook(struct error *error, int64_t id)
{
    return error_set(error, -HF_NOT_FOUND, NULL, "There is no webhook %lld.",
                     (long long)id);
}

static bool may_see(const struct call *call, const struct webhook *webhook)
{
    return call->who.project_id == 0 || webhook->project_id == call->who.project_id;
}

/* ---- listed ---- */

struct listing {
    struct delivery_filter filter;
    int64_t limit;
};

static int show_deliveries(struct store *store, struct show *show, struct json_writer *w)
{
    const struct listing *listing = show->arg;
    struct delivery_filter filter = listing->filter;
    struct webhook webhook;
    struct delivery *list = NULL;
    size_t count = 0;
    int64_t next = 0;
    int r = store_webhook_get(store, show->id, &show->arena, &webhook);
    if (r == -HF_NOT_FOUND || (r == 0 && !may_see(show->call, &webhook)))
        return no_webhook(&show->look.error, show->id);
    filter.webhook_id = show->id;
    filter.limit = (size_t)listing->limit;
    if (r == 0)
        r = store_deliveries(store, &filter, &show->arena, &list, &count, &next);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        view_delivery(w, &list[i]);
    json_end_array(w);
    json_put_id(w, "nextCursor", next);
    json_end_object(w);
    return 0;
}

static int bad_state(struct error *error)
{
    return error_set(error, -HF_INVALID, "state",
                     "state must be pending, delivered or failed, or several with commas "
                     "between.");
}

/* "failed", "pending,failed". */
static int read_states(struct slice text, struct error *error, unsigned *ret)
{
    const char *p = text.p, *end = text.p + text.n;
    unsigned states = 0;
    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        int state = delivery_state_from_name(
            (struct slice){ p, (size_t)((comma ? comma : end) - p) });
        if (state < 0)
            return bad_state(error);
        states |= 1u << state;
        if (!comma)
            break;
        p = comma + 1;
    }
    *ret = states;
    return 0;
}

static bool read_filter(struct call *call, struct delivery_filter *filter)
{
    struct error error = { 0 };
    struct slice state = call_query(call, "state");
    filter->type = call_query(call, "type");
    if (state.p && read_states(state, &error, &filter->states) < 0) {
        call_refuse(call, &error);
        return false;
    }
    if (filter->type.p && event_type_find(filter->type) < 0) {
        (void)!event_pattern_check(filter->type, "type", &error);
        error_set(&error, -HF_INVALID, "type",
                  "type must be one type of event, such as job.failed.");
        call_refuse(call, &error);
        return false;
    }
    return true;
}

static void list_deliveries(struct call *call)
{
    static const char *const known[] = { "state", "type", "limit", "cursor" };
    struct listing *listing = call_new(call, struct listing);
    int64_t id = 0;
    if (!listing)
        return;
    *listing = (struct listing){ .limit = DEFAULT_PAGE_ITEMS };
    if (call_id(call, 0, &id) && call_query_known(call, known, array_len(known)) &&
        read_filter(call, &listing->filter) &&
        call_query_page(call, &listing->limit, &listing->filter.before))
        call_show(call, READER_LONG, id, listing, show_deliveries);
}

/* ---- shown ---- */

/* One whose webhook is gone goes soon, too. */
static int show_delivery(struct store *store, struct show *show, struct json_writer *w)
{
    struct delivery delivery;
    struct webhook webhook;
    int r = store_delivery_get(store, show->id, &show->arena, &delivery);
    if (r == 0)
        r = store_webhook_get(store, delivery.webhook_id, &show->arena, &webhook);
    if (r == -HF_NOT_FOUND || (r == 0 && !may_see(show->call, &webhook)))
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                         "There is no delivery %lld.", (long long)show->id);
    if (r < 0)
        return r;
    view_whole_delivery(w, &delivery, &webhook);
    return 0;
}

static void get_delivery(struct call *call)
{
    int64_t id = 0;
    if (call_id(call, 0, &id) && call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, id, NULL, show_delivery);
}

/* ---- a test ---- */

static int show_tested(struct store *store, struct show *show, struct json_writer *w)
{
    show->status = 201;
    return show_delivery(store, show, w);
}

static void tested(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->webhook_test.out_id, NULL, show_tested);
}

static void test(struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = call_command(call, OP_WEBHOOK_TEST);
    if (!command)
        return;
    command->webhook_test.id = id;
    command->webhook_test.project_id = call->who.project_id;
    call_submit(call, command, tested);
}

/* ---- sent again ---- */

static void resent_one(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->resend.which.ids[0], NULL, show_delivery);
}

static void resend_one(struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = call_command(call, OP_RESEND);
    if (!command)
        return;
    int64_t *ids = arena_array(&command->arena, int64_t, 1);
    if (!ids) {
        command_free(command);
        call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left; try again.");
        return;
    }
    ids[0] = id;
    command->resend.which =
        (struct resend){ .ids = ids, .count = 1, .project_id = call->who.project_id };
    call_submit(call, command, resent_one);
}

/* Step by step, each a command. */
struct many {
    struct resend which;
    int64_t sent, skipped;
};

static void resend_step(struct call *call);

static void resent_some(struct call *call, struct command *command)
{
    struct many *many = call->state;
    struct buf buf;
    many->sent += command->resend.out_sent;
    many->skipped += command->resend.out_skipped;
    many->which.after = command->resend.out_after;
    if (many->which.after != 0) {
        resend_step(call);
        return;
    }
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_int(&w, "resent", many->sent);
    json_put_int(&w, "skipped", many->skipped);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 200, &buf);
}

static void resend_step(struct call *call)
{
    const struct many *many = call->state;
    struct command *command = call_command(call, OP_RESEND);
    if (!command)
        return;
    command->resend.which = many->which;
    call_submit(call, command, resent_some);
}

static int read_resend(const struct slice *v, struct arena *arena, struct error *error,
                       struct resend *ret)
{
    struct slice state = { 0 };
    int r = 0;
    if (v[0].p) {
        r = json_get_text(v[0], "state", LIMIT_NAME_BYTES, arena, error, &state);
        if (r == 0)
            r = read_states(state, error, &ret->states);
    }
    if (r == 0 && v[1].p)
        r = json_get_time(v[1], "createdAfter", error, &ret->created_after);
    if (r == 0 && v[2].p)
        r = json_get_time(v[2], "createdBefore", error, &ret->created_before);
    return r;
}

static void resend_many(struct call *call)
{
    static const char *const names[] = { "state", "createdAfter", "createdBefore" };
    struct slice v[3];
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 3, v))
        return;
    struct many *many = arena_new(call->arena, struct many);
    int r = many ? read_resend(v, call->arena, &error, &many->which)
                 : error_set(&error, -HF_NOMEM, NULL, "There is no memory left.");
    if (r < 0) {
        call_refuse(call, &error);
        return;
    }
    many->which.webhook_id = id;
    many->which.project_id = call->who.project_id;
    call->state = many;
    resend_step(call);
}

const struct route delivery_routes[] = {
    { HTTP_GET, "webhooks/{id}/deliveries", ROLE_VIEWER, list_deliveries, BODY_NONE,
      false },
    { HTTP_POST, "webhooks/{id}/test", ROLE_OPERATOR, test, BODY_SMALL, false },
    { HTTP_POST, "webhooks/{id}/resend", ROLE_OPERATOR, resend_many, BODY_SMALL, false },
    { HTTP_GET, "deliveries/{id}", ROLE_VIEWER, get_delivery, BODY_NONE, false },
    { HTTP_POST, "deliveries/{id}/resend", ROLE_OPERATOR, resend_one, BODY_SMALL, false },
    { 0 },
};
