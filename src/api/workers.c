/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.c -- who executes: nodes and remote sessions, their beats, and what an
 * operator asks of them. */
#include "api/call.h"
#include "base/limits.h"
#include "base/text.h"

static const char *const command_names[] = { "run", "quiet", "stop" };

/* ---- shown ---- */

static int64_t runs_of(const struct id_list *counts, int64_t owner_id)
{
    size_t low = 0, high = counts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (counts->ids[middle] < owner_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < counts->count && counts->ids[low] == owner_id ? counts->extra[low] : 0;
}

static void put_worker(struct json_writer *w, const struct owner *o, int64_t runs,
                       bool self, int64_t now)
{
    static const char *const states[] = {
        [OWNER_ALIVE] = "alive", [OWNER_STOPPED] = "stopped", [OWNER_DEAD] = "dead"
    };
    json_begin_object(w);
    json_put_id(w, "id", o->id);
    json_put_text(w, "type", o->type == OWNER_NODE ? "node" : "remote");
    json_put_str(w, "name", o->name);
    json_put_str(w, "session", o->session);
    json_put_text(w, "state", states[o->state]);
    json_put_text(w, "command",
                  o->type == OWNER_REMOTE ? command_names[o->command] : NULL);
    json_put_str(w, "host", o->host);
    if (o->pid)
        json_put_int(w, "pid", o->pid);
    else
        json_put_null(w, "pid");
    json_put_time(w, "startedAt", o->started_at);
    /* On SQLite a node has nobody to prove its life to, and seldom writes it down. */
    json_put_time(w, "lastSeenAt", self ? now : o->seen_at);
    json_put_time(w, "leaseUntil", o->lease_until);
    json_put_int(w, "runs", runs);
    json_end_object(w);
}

/* Those alive, and those that are gone while something of theirs is still open. */
static int show_workers(struct store *store, struct show *show, struct json_writer *w)
{
    const struct api *api = show->call->api;
    struct owner *list[2] = { NULL, NULL };
    size_t count[2] = { 0, 0 };
    struct id_list counts = { 0 };
    struct node_status status;
    int r = store_run_counts(store, &show->arena, &counts);
    for (int open = 0; open < 2 && r == 0; open++)
        r = store_owners(store, open, &show->arena, &list[open], &count[open]);
    if (r < 0)
        return r;
    node_status(api->node, &status);
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (int open = 0; open < 2; open++)
        for (size_t i = 0; i < count[open]; i++) {
            const struct owner *o = &list[open][i];
            if (o->type == OWNER_PRODUCER || (open && o->state == OWNER_ALIVE))
                continue; /* executes nothing; or is there already */
            put_worker(w, o, runs_of(&counts, o->id), o->id == status.owner_id,
                       clock_wall_us(api->options.clock));
        }
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static void get_workers(struct call *call)
{
    if (call_query_known(call, NULL, 0))
        call_show(call, READER_LONG, 0, NULL, show_workers);
}

/* ---- beats ---- */

static bool read_session(struct call *call, struct slice *ret)
{
    struct slice session = call->params[0];
    if (session.n == 0 || session.n > LIMIT_TEXT_BYTES) {
        call_refuse_with(call, -HF_INVALID, "session",
                         "session must have 1 to %d bytes of UTF-8.", LIMIT_TEXT_BYTES);
        return false;
    }
    *ret = session;
    return true;
}

static int read_id(struct slice value, struct error *error, int64_t *ret)
{
    int64_t id = 0;
    bool good = json_kind_of(value) == JSON_KIND_STRING && value.n > 2 && value.n <= 20;
    for (size_t i = 1; good && i + 1 < value.n; i++) {
        good = value.p[i] >= '0' && value.p[i] <= '9';
        id = id * 10 + (value.p[i] - '0');
    }
    if (!good)
        return error_set(error, -HF_INVALID, "runs",
                         "runs must be a list of ids, each a string such as \"1042\".");
    *ret = id;
    return 0;
}

static int read_runs(struct slice list, struct command *command, struct error *error)
{
    struct json_iter it;
    struct slice item;
    size_t count = 0, n = 0;
    int r = json_expect(list, "runs", JSON_KIND_ARRAY, error);
    if (r < 0)
        return r;
    for (it = json_iter(list); json_array_next(&it, &item);)
        count++;
    if (count > LIMIT_BEAT_RUNS)
        return error_set(error, -HF_INVALID, "runs",
                         "runs has %zu entries; it may have %d.", count, LIMIT_BEAT_RUNS);
    int64_t *ids = arena_array(&command->arena, int64_t, count + 1);
    if (!ids)
        return -HF_NOMEM;
    for (it = json_iter(list); r == 0 && json_array_next(&it, &item);)
        r = read_id(item, error, &ids[n++]);
    command->beat.runs = ids;
    command->beat.run_count = count;
    return r;
}

static void beaten(struct call *call, struct command *command)
{
    struct buf buf;
    buf_init(&buf, (size_t)1 << 20);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_text(&w, "state", command_names[command->beat.out_command]);
    json_key(&w, "cancel");
    json_begin_array(&w);
    for (size_t i = 0; i < command->beat.out_cancel_count; i++)
        json_id(&w, command->beat.out_cancel[i]);
    json_end_array(&w);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 200, &buf);
}

static void beat(struct call *call)
{
    enum { RUNS, WORKER, HOST, PID, FIELDS };
    static const char *const names[FIELDS] = { "runs", "worker", "host", "pid" };
    struct slice v[FIELDS], session;
    struct error error = { 0 };
    if (!read_session(call, &session) || !call_fields(call, names, FIELDS, v))
        return;
    struct command *c = call_command(call, OP_BEAT);
    if (!c)
        return;
    c->beat.session = session;
    int r = v[RUNS].p ? read_runs(v[RUNS], c, &error) : 0;
    if (r == 0 && v[WORKER].p)
        r = json_get_text(v[WORKER], "worker", LIMIT_TEXT_BYTES, &c->arena, &error,
                          &c->beat.worker);
    if (r == 0 && v[HOST].p)
        r = json_get_text(v[HOST], "host", LIMIT_TEXT_BYTES, &c->arena, &error,
                          &c->beat.host);
    if (r == 0 && v[PID].p)
        r = json_get_int(v[PID], "pid", 1, INT32_MAX, &error, &c->beat.pid);
    if (r == 0) {
        call_report(call, c, beaten);
        return;
    }
    error_set(&error, r, NULL, "%s.", status_of(r)->title);
    command_free(c);
    call_refuse(call, &error);
}

/* ---- what an operator asks ---- */

static void told(struct call *call, struct command *command)
{
    struct buf buf;
    buf_init(&buf, 4096);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_str(&w, "session", command->worker.session);
    json_put_text(&w, "command", command_names[command->worker.command]);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 200, &buf);
}

static void ask_of(struct call *call, int command)
{
    struct slice session;
    if (!read_session(call, &session) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *c = call_command(call, OP_WORKER);
    if (!c)
        return;
    c->worker.session = session;
    c->worker.command = command;
    call_submit(call, c, told);
}

static void tell_run(struct call *call)
{
    ask_of(call, 0);
}

static void tell_quiet(struct call *call)
{
    ask_of(call, 1);
}

static void tell_stop(struct call *call)
{
    ask_of(call, 2);
}

const struct route worker_routes[] = {
    { HTTP_GET, "workers", ROLE_VIEWER, get_workers, BODY_NONE, true },
    { HTTP_POST, "workers/{session}/beat", ROLE_WORKER, beat, BODY_SMALL, true },
    { HTTP_POST, "workers/{session}/run", ROLE_OPERATOR, tell_run, BODY_SMALL, true },
    { HTTP_POST, "workers/{session}/quiet", ROLE_OPERATOR, tell_quiet, BODY_SMALL, true },
    { HTTP_POST, "workers/{session}/stop", ROLE_OPERATOR, tell_stop, BODY_SMALL, true },
    { 0 },
};
