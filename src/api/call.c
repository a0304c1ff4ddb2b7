/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c -- answers, commands and looks of one request. */
#include "api/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/text.h"

/* ---- answers ---- */

static const char json_type[] = "application/json";

/* Nothing of this is for a cache: it is another answer in a moment. */
static const struct http_pair no_store = { SLICE_INIT("Cache-Control"),
                                           SLICE_INIT("no-store") };

void call_answer(struct call *call, int status, struct slice body)
{
    http_answer(call->request, &(struct http_answer){ .status = status,
                                                      .type = json_type,
                                                      .body = body,
                                                      .headers = &no_store,
                                                      .header_count = 1 });
}

void call_answer_nothing(struct call *call)
{
    http_answer(call->request, &(struct http_answer){ .status = 204 });
}

void call_answer_buf(struct call *call, int status, struct buf *buf)
{
    struct slice text = { 0 };
    int r = buf_end(buf, &text);
    if (r == 0)
        call_answer(call, status, text);
    else
        call_refuse_with(call, r, NULL, "The answer is too large to be sent.");
    buf_release(buf);
}

/* Problems a client should come back for in a moment. */
static bool is_passing(int code)
{
    return code == -HF_BUSY || code == -HF_UNAVAILABLE;
}

void call_refuse(struct call *call, const struct error *error)
{
    int code = error->code ? error->code : -HF_INTERNAL;
    const struct status *status = status_of(code);
    struct http_pair headers[2] = { no_store };
    size_t count = 1;
    struct buf buf;
    struct slice text = { 0 };

    if (call->on_refused)
        call->on_refused(call);
    if (is_passing(code))
        headers[count++] = (struct http_pair){ SLICE("Retry-After"), SLICE("1") };
    if (status->http == 401)
        headers[count++] =
            (struct http_pair){ SLICE("WWW-Authenticate"), SLICE("Bearer") };
    buf_init(&buf, 16 << 10);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_text(&w, "type", status->name);
    json_put_text(&w, "title", status->title);
    json_put_int(&w, "status", status->http);
    json_put_text(&w, "detail", error->text[0] ? error->text : status->title);
    if (error->field[0])
        json_put_text(&w, "field", error->field);
    json_end_object(&w);
    json_finish(&w);
    if (buf_end(&buf, &text) < 0)
        text = SLICE("{\"type\":\"no-memory\",\"title\":\"No memory\",\"status\":503}");
    http_answer(call->request, &(struct http_answer){ .status = status->http,
                                                      .type = "application/problem+json",
                                                      .body = text,
                                                      .headers = headers,
                                                      .header_count = count });
    buf_release(&buf);
}

void call_refuse_with(struct call *call, int code, const char *field, const char *format,
                      ...)
{
    char text[sizeof(((struct error *)0)->text)];
    struct error error = { 0 };
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    error_set(&error, code, field, "%s", text);
    call_refuse(call, &error);
}

static void refuse_memory(struct call *call)
{
    call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left; try again.");
}

void *call_alloc(struct call *call, size_t bytes)
{
    void *memory = arena_alloc(call->arena, bytes);
    if (!memory)
        refuse_memory(call);
    return memory;
}

/* ---- what was sent ---- */

bool call_fields(struct call *call, const char *const *names, size_t count,
                 struct slice *values)
{
    struct error error = { 0 };
    struct slice body = call->request->body;

    if (body.n == 0)
        body = SLICE("{}");
    int r = json_check(body, LIMIT_DOCUMENT_DEPTH, &error);
    static const char *const none[] = { "" };
    struct slice nothing;
    if (r == 0 && count == 0) /* only that there is nothing */
        r = json_fields(body, none, 0, &nothing, &error);
    else if (r == 0)
        r = json_fields(body, names, count, values, &error);
    if (r < 0)
        call_refuse(call, &error);
    return r == 0;
}

bool call_id(struct call *call, size_t param, int64_t *ret)
{
    struct slice text = call->params[param];
    int64_t id = 0;

    for (size_t i = 0; i < text.n && i < 19; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || (i == 0 && text.p[i] == '0'))
            text.n = 0;
        else
            id = id * 10 + (text.p[i] - '0');
    }
    if (text.n == 0 || text.n > 18) {
        call_refuse_with(call, -HF_NOT_FOUND, NULL,
                         "\"%.*s\" is no id; ids are whole numbers such as 1042.",
                         (int)(call->params[param].n > 50 ? 50 : call->params[param].n),
                         call->params[param].p);
        return false;
    }
    *ret = id;
    return true;
}

bool call_name(struct call *call, size_t param, const char *field, struct slice *ret)
{
    if (!name_valid(call->params[param])) {
        call_refuse_with(call, -HF_INVALID, field,
                         "%s must have 1 to %d characters out of A-Z, a-z, 0-9, '.', '_' "
                         "and '-'.",
                         field, LIMIT_NAME_BYTES);
        return false;
    }
    *ret = call->params[param];
    return true;
}

struct slice call_query(const struct call *call, const char *name)
{
    const struct http_head *head = &call->request->head;
    for (size_t i = 0; i < head->query_count; i++)
        if (slice_equal(head->query[i].name, slice_of(name)))
            return head->query[i].value;
    return (struct slice){ 0 };
}

static bool is_known(struct slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(names[i]);
        bool any = n > 0 && names[i][n - 1] == '*';
        if (any ? name.n >= n && memcmp(name.p, names[i], n - 1) == 0
                : slice_equal(name, slice_of(names[i])))
            return true;
    }
    return false;
}

bool call_query_known(struct call *call, const char *const *names, size_t count)
{
    const struct http_head *head = &call->request->head;
    for (size_t i = 0; i < head->query_count; i++) {
        struct slice name = head->query[i].name;
        int shown = (int)(name.n > 60 ? 60 : name.n);
        if (!is_known(name, names, count)) {
            call_refuse_with(call, -HF_INVALID, NULL,
                             "There is no parameter \"%.*s\" here.", shown, name.p);
            return false;
        }
        for (size_t j = 0; j < i; j++)
            if (slice_equal(head->query[j].name, name)) {
                call_refuse_with(call, -HF_INVALID, NULL,
                                 "The parameter \"%.*s\" is there twice.", shown, name.p);
                return false;
            }
    }
    return true;
}

/* The getters of JSON say what is wrong with a value; a query's are the same. */
bool call_query_int(struct call *call, const char *name, int64_t least, int64_t most,
                    int64_t *ret)
{
    struct error error = { 0 };
    struct slice text = call_query(call, name);
    if (!text.p)
        return true;
    int r = json_check(text, 1, NULL);
    if (r == 0)
        r = json_get_int(text, name, least, most, &error, ret);
    else
        error_set(&error, r, name, "%s must be a whole number between %lld and %lld.",
                  name, (long long)least, (long long)most);
    if (r < 0)
        call_refuse(call, &error);
    return r == 0;
}

bool call_query_bool(struct call *call, const char *name, bool *ret)
{
    struct slice text = call_query(call, name);
    if (!text.p)
        return true;
    bool yes = slice_equal(text, SLICE("true"));
    if (!yes && !slice_equal(text, SLICE("false"))) {
        call_refuse_with(call, -HF_INVALID, name, "%s must be true or false.", name);
        return false;
    }
    *ret = yes;
    return true;
}

bool call_query_time(struct call *call, const char *name, int64_t *ret_us)
{
    struct slice text = call_query(call, name);
    if (!text.p)
        return true;
    if (time_parse(text, ret_us) < 0) {
        call_refuse_with(call, -HF_INVALID, name,
                         "%s must be a time such as 2026-08-01T12:00:00Z.", name);
        return false;
    }
    return true;
}

bool call_query_page(struct call *call, int64_t *limit, int64_t *cursor)
{
    return call_query_int(call, "limit", 1, LIMIT_PAGE_ITEMS, limit) &&
           call_query_int(call, "cursor", 1, INT64_MAX, cursor);
}

bool call_query_name(struct call *call, const char *name, struct slice *ret)
{
    *ret = call_query(call, name);
    if (!ret->p || name_valid(*ret))
        return true;
    call_refuse_with(call, -HF_INVALID, name,
                     "%s must have 1 to %d characters out of A-Z, a-z, 0-9, '.', '_' and "
                     "'-'.",
                     name, LIMIT_NAME_BYTES);
    return false;
}

bool call_query_project(struct call *call, struct slice *ret)
{
    if (!call_query_name(call, "project", ret))
        return false;
    if (!ret->p || call->who.project_id == 0 ||
        slice_equal(*ret, slice_of(call->who.project)))
        return true;
    call_refuse_with(call, -HF_FORBIDDEN, "project",
                     "This token is bound to the project %s.", call->who.project);
    return false;
}

/* ---- commands ---- */

struct command *call_command(struct call *call, enum op op)
{
    struct command *command = command_new(op);
    if (!command)
        refuse_memory(call);
    return command;
}

/* Kept in the call's arena, beside the command. */
struct pending {
    struct call *call;
    void (*then)(struct call *call, struct command *command);
};

static void command_done(struct command *command, void *arg)
{
    struct pending *pending = arg;
    if (command->result < 0) {
        if (command->error.code == 0)
            error_set(&command->error, command->result, NULL, "%s.",
                      status_of(command->result)->title);
        call_refuse(pending->call, &command->error);
    } else {
        pending->then(pending->call, command);
    }
    command_free(command);
}

static void submit(struct call *call, struct command *command,
                   void (*then)(struct call *call, struct command *command),
                   int (*put)(struct node *node, struct command *command))
{
    struct pending *pending = arena_new(call->arena, struct pending);
    int r = pending ? 0 : -HF_NOMEM;
    if (r == 0) {
        *pending = (struct pending){ call, then };
        command->done = command_done;
        command->done_arg = pending;
        r = put(call->api->node, command);
    }
    if (r == 0)
        return;
    command_free(command);
    call_refuse_with(call, r, NULL,
                     r == -HF_BUSY ? "Too many requests are waiting for the disk; try "
                                     "again in a moment."
                                   : "The server is stopping; try again in a moment.");
}

void call_submit(struct call *call, struct command *command,
                 void (*then)(struct call *call, struct command *command))
{
    submit(call, command, then, node_submit);
}

void call_refuse_read(struct call *call, struct command *command, int r,
                      struct error *error)
{
    error_set(error, r, NULL, "%s.", status_of(r)->title);
    command_free(command);
    call_refuse(call, error);
}

void call_submit_read(struct call *call, struct command *command, int r,
                      struct error *error,
                      void (*then)(struct call *call, struct command *command))
{
    if (r == 0)
        call_submit(call, command, then);
    else
        call_refuse_read(call, command, r, error);
}

void call_done(struct call *call, struct command *command)
{
    (void)command;
    call_answer_nothing(call);
}

void call_report(struct call *call, struct command *command,
                 void (*then)(struct call *call, struct command *command))
{
    submit(call, command, then, node_report);
}

/* ---- looks ---- */

#define SHOW_BYTES ((size_t)256 << 20)

static int show_ask(struct store *store, struct look *look)
{
    struct show *show = (struct show *)look;

    arena_reset(&show->arena);
    buf_reset(&show->out);
    struct json_writer w = json_writer(&show->out);
    int r = show->write(store, show, &w);
    if (r == 0)
        json_finish(&w);
    return r;
}

static void show_free(struct show *show)
{
    arena_release(&show->arena);
    buf_release(&show->out);
    free(show);
}

static void show_done(struct look *look)
{
    struct show *show = (struct show *)look;
    struct slice text = { 0 };
    struct call *call = show->call;

    int r = look->result;
    if (r == 0)
        r = buf_end(&show->out, &text);
    if (r < 0) {
        error_set(&look->error, r, NULL, "%s.", status_of(r)->title);
        call_refuse(call, &look->error);
    } else if (show->then) {
        show->then(call, show);
    } else {
        call_answer(call, show->status, text);
    }
    show_free(show);
}

void call_show_then(struct call *call, enum reader reader, int64_t id, void *arg,
                    int (*write)(struct store *store, struct show *show,
                                 struct json_writer *w),
                    void (*then)(struct call *call, struct show *show))
{
    struct show *show = new (struct show);
    int r = show ? 0 : -HF_NOMEM;
    if (r == 0) {
        arena_init(&show->arena, 4096, SHOW_BYTES);
        buf_init(&show->out, SHOW_BYTES);
        show->look.ask = show_ask;
        show->look.done = show_done;
        show->call = call;
        show->status = 200;
        show->id = id;
        show->arg = arg;
        show->write = write;
        show->then = then;
        r = node_look(call->api->node, reader, &show->look);
        if (r < 0)
            show_free(show);
    }
    if (r < 0)
        call_refuse_with(call, r, NULL,
                         "Too many requests are waiting for the store; try again.");
}

void call_show(struct call *call, enum reader reader, int64_t id, void *arg,
               int (*write)(struct store *store, struct show *show,
                            struct json_writer *w))
{
    call_show_then(call, reader, id, arg, write, NULL);
}

void call_made(struct call *call, struct show *show)
{
    call_answer_buf(call, 201, &show->out);
}

int show_project_id(struct store *store, struct show *show, struct slice project,
                    int64_t *ret)
{
    *ret = show->call->who.project_id;
    int r = project.p && *ret == 0 ? store_project(store, project, ret) : 0;
    if (r == -HF_NOT_FOUND)
        return error_set(&show->look.error, r, "project", "There is no project %.*s.",
                         (int)project.n, project.p);
    return r;
}
