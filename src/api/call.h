/* SPDX-License-Identifier: Apache-2.0
 *
 * call.h -- one request under way: from the route to the answer.
 *
 * A handler reads what the client sent, and ends in exactly one of these:
 *
 *   call_answer()    now, with JSON
 *   call_refuse()    now, with a problem (RFC 9457)
 *   call_submit()    a command; its function goes on when it is on disk
 *   call_show()      a look at the store, whose function writes the answer itself
 *
 * The call, and all that hangs on its arena, lives until it is answered, also
 * when the client is gone.  So nothing here is freed by hand, but for commands,
 * which are freed after the function that was given with them.
 *
 * Threads: the loop's; functions that take a `struct store` run in a reader's,
 * and touch only what they were given. */
#pragma once

#include "api/api_private.h"
#include "base/json.h"
#include "base/json_write.h"

enum { CALL_PARAMS = 3 };

struct call {
    struct api *api;
    struct http_request *request;
    struct arena *arena; /* the request's */
    const struct route *route;
    struct slice params[CALL_PARAMS]; /* what stands for {...} in the route's path */
    struct identity who;              /* auth.h */
    bool gone;                        /* the client has hung up */
    void (*on_gone)(struct call *call);
    /* The call is about to be refused, for whatever reason: gives back what it holds. */
    void (*on_refused)(struct call *call);
    void *state; /* of the handler */
};

/* Zeroed memory that lives as long as the call; NULL: refused, there is none. */
must_check void *call_alloc(struct call *call, size_t bytes);
#define call_new(call, T) ((T *)call_alloc((call), sizeof(T)))

/* ---- what was sent ---- */

/* The body as one of our documents, see json_fields(): values[i] is the raw value
 * of names[i].  An empty body counts as {}.  False: the call has been refused. */
must_check bool call_fields(struct call *call, const char *const *names, size_t count,
                            struct slice *values);

/* The id in the path; false: refused with 404. */
must_check bool call_id(struct call *call, size_t param, int64_t *ret);
/* The name in the path (queue, project); false: refused. */
must_check bool call_name(struct call *call, size_t param, const char *field,
                          struct slice *ret);

/* A parameter of the query; absent if it is not there. */
struct slice call_query(const struct call *call, const char *name);
/* Every parameter must be one of `names` (a trailing '*' stands for any rest);
 * false: refused. */
must_check bool call_query_known(struct call *call, const char *const *names,
                                 size_t count);
/* A whole number of the query; `ret` keeps its value if it is not there. */
must_check bool call_query_int(struct call *call, const char *name, int64_t least,
                               int64_t most, int64_t *ret);
must_check bool call_query_bool(struct call *call, const char *name, bool *ret);
must_check bool call_query_time(struct call *call, const char *name, int64_t *ret_us);
/* `limit` and `cursor` of a list; both keep their values if they are not there. */
must_check bool call_query_page(struct call *call, int64_t *limit, int64_t *cursor);
/* A name; absent if it is not there. */
must_check bool call_query_name(struct call *call, const char *name, struct slice *ret);
/* `project`: a token that is bound to one may name that one only. */
must_check bool call_query_project(struct call *call, struct slice *ret);

/* ---- answers ---- */

/* `body` is JSON, copied.  Ends the call. */
void call_answer(struct call *call, int status, struct slice body);
/* With what a writer wrote: ends the writing too, and releases the buffer. */
void call_answer_buf(struct call *call, int status, struct buf *buf);
/* 204. */
void call_answer_nothing(struct call *call);
/* A problem with the sentence in `error`, or the code's own. */
void call_refuse(struct call *call, const struct error *error);
/* The same in one line; `field` may be NULL. */
void call_refuse_with(struct call *call, int code, const char *field, const char *format,
                      ...) printf_like(4, 5);

/* ---- commands ---- */

/* A command for this call; NULL: refused, there is no memory. */
struct command *call_command(struct call *call, enum op op);
/* Hands it over.  `then` is called when it is on disk and was accepted; refusals
 * are answered here. */
void call_submit(struct call *call, struct command *command,
                 void (*then)(struct call *call, struct command *command));
/* What was read into a command is handed over if `r` is 0.  Else it is refused with the
 * sentence in `error`, or the code's own. */
void call_submit_read(struct call *call, struct command *command, int r,
                      struct error *error,
                      void (*then)(struct call *call, struct command *command));
void call_refuse_read(struct call *call, struct command *command, int r,
                      struct error *error);
/* A `then`: 204. */
void call_done(struct call *call, struct command *command);
/* As call_submit(), for outcomes and progress of runs, which are never refused for being
 * too many. */
void call_report(struct call *call, struct command *command,
                 void (*then)(struct call *call, struct command *command));

/* ---- looks ---- */

struct show {
    struct look look; /* first */
    struct call *call;
    struct arena arena; /* for the reader's thread */
    struct buf out;
    int status; /* 200, unless the writer says otherwise */
    int64_t id; /* for the writer: whatever it was given */
    void *arg;
    /* In the reader's thread: writes the whole answer.  -HF_NOT_FOUND and others
     * with their sentence in `look.error` become problems.  May be called twice. */
    int (*write)(struct store *store, struct show *show, struct json_writer *w);
    /* In the loop's thread, instead of answering with `out`: may be NULL.  It must
     * end the call, or go on with it; `out` holds the text. */
    void (*then)(struct call *call, struct show *show);
};

/* Looks, and answers with what `write` wrote. */
void call_show(struct call *call, enum reader reader, int64_t id, void *arg,
               int (*write)(struct store *store, struct show *show,
                            struct json_writer *w));
/* The same with a `then`. */
void call_show_then(struct call *call, enum reader reader, int64_t id, void *arg,
                    int (*write)(struct store *store, struct show *show,
                                 struct json_writer *w),
                    void (*then)(struct call *call, struct show *show));

/* A `then`: 201. */
void call_made(struct call *call, struct show *show);
/* For the writer of a list: the project that was named (see call_query_project()), that
 * of the token, or 0 for all. */
must_check int show_project_id(struct store *store, struct show *show,
                               struct slice project, int64_t *ret);

/* ---- routes ---- */

struct route {
    enum http_method method;
    const char *path; /* below /api/v1 unless it begins with '/': "jobs/{id}/cancel" */
    enum role role;   /* least; ROLE_NONE: anybody */
    void (*handle)(struct call *call);
    enum { BODY_NONE, BODY_SMALL, BODY_BATCH } body;
    bool unbound; /* not for tokens that are bound to a project */
};

/* Families; each ends with a NULL path.  routes.c lists them. */
extern const struct route job_routes[];
extern const struct route claim_routes[];
extern const struct route endpoint_routes[];
extern const struct route event_routes[];
extern const struct route job_list_routes[];
extern const struct route job_many_routes[];
extern const struct route job_story_routes[];
extern const struct route delivery_routes[];
extern const struct route direct_routes[];
extern const struct route event_type_routes[];
extern const struct route health_routes[];
extern const struct route metrics_routes[];
extern const struct route openapi_routes[];
extern const struct route project_routes[];
extern const struct route queue_routes[];
extern const struct route recovery_routes[];
extern const struct route reservation_routes[];
extern const struct route run_routes[];
extern const struct route schedule_preview_routes[];
extern const struct route schedule_routes[];
extern const struct route stats_routes[];
extern const struct route token_routes[];
extern const struct route webhook_routes[];
extern const struct route worker_routes[];

/* The route of a request, with its params; NULL, and *ret_allowed tells whether the
 * path is there with other methods (a bit per method). */
const struct route *route_find(const struct http_head *head,
                               struct slice params[CALL_PARAMS], unsigned *ret_allowed);
/* All of them, one after another; NULL behind the last. */
const struct route *route_at(size_t i);
/* Where it stands among them; behind the last for NULL. */
size_t route_index(const struct route *wanted);
