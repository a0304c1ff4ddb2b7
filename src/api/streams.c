/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.c -- one poll for all, and each client's place. */
#include "api/streams.h"

#include <event2/event.h>

#include "api/event_poll.h"
#include "api/views.h"

enum { HEARTBEAT_MS = 10000, FRAME_BYTES = 2 << 20 };

struct stream {
    struct stream *next, **link;
    struct streams *streams;
    struct call *call;
    struct stream_filter filter;
    enum {
        STREAM_STARTING, /* until it is known where the events end */
        STREAM_BEHIND,   /* is given what is stored behind `after` */
        STREAM_LIVE
    } place;
    int64_t after;
    bool first;   /* of its polls */
    bool polling; /* behind, and a poll is under way */
    bool full;    /* its buffer */
    bool lost;    /* and something came meanwhile that is not given again */
    bool ended;   /* as soon as the poll is over */
};

struct streams {
    struct event_base *loop;
    struct node *node;
    const struct clock *clock;
    struct event *timer; /* runs while there are streams */
    int64_t beat_at;     /* monotonic */
    struct stream *list;
    struct event_tail tail;
    bool ready;   /* the tail has begun */
    bool polling; /* a poll for all is under way */
    bool again;   /* there is more to poll for */
    bool stopped;
    bool freed; /* as soon as the poll is over */
};

static void poll_all(struct streams *streams);
static void catch_up(struct stream *stream);

static int64_t mono(const struct streams *streams)
{
    return clock_mono_us(streams->clock);
}

/* ---- frames ---- */

static void add_data(struct buf *out, struct slice json)
{
    buf_text(out, "data: ");
    for (size_t i = 0; i < json.n; i++) /* a line's end in JSON is only white space */
        buf_byte(out, json.p[i] == '\n' || json.p[i] == '\r' ? ' ' : json.p[i]);
    buf_text(out, "\n\n");
}

static void add_frame(struct buf *out, int64_t id, const struct polled *event)
{
    if (id > 0)
        buf_printf(out, "id: %lld\n", (long long)id);
    buf_text(out, "event: ");
    buf_add(out, event->type);
    buf_byte(out, '\n');
    add_data(out, event->json);
}

/* ---- one client ---- */

static void unlink_stream(struct stream *stream)
{
    if (!stream->link)
        return;
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    stream->link = NULL;
    if (!stream->streams->list)
        event_del(stream->streams->timer);
}

/* Ends it now, or when its poll is over; it may be gone after this. */
static void end_stream(struct stream *stream, bool complete)
{
    unlink_stream(stream);
    if (stream->polling) {
        stream->ended = true;
        return;
    }
    if (stream->place == STREAM_STARTING)
        call_refuse_with(stream->call, -HF_CLOSED, NULL,
                         "The server is stopping; try again in a moment.");
    else
        http_stream_end(stream->call->request, complete);
}

/* False: it was full, or is gone. */
static bool write_frame(struct stream *stream, struct slice frame)
{
    int r = http_stream_write(stream->call->request, frame);
    if (r == 0)
        return true;
    if (r == -HF_CLOSED)
        end_stream(stream, false);
    else
        stream->full = true;
    return false;
}

static bool write_text(struct stream *stream, struct buf *buf)
{
    struct slice frame = { 0 };
    bool written = buf_end(buf, &frame) == 0 && write_frame(stream, frame);
    buf_release(buf);
    return written;
}

static bool write_reset(struct stream *stream, const char *reason)
{
    int64_t safe = tail_safe(&stream->streams->tail);
    struct buf buf;
    buf_init(&buf, 1024);
    if (safe > 0)
        buf_printf(&buf, "id: %lld\n", (long long)safe);
    buf_printf(&buf, "event: reset\ndata: {\"reason\":\"%s\"}\n\n", reason);
    return write_text(stream, &buf);
}

static bool type_fits(const struct stream_filter *filter, struct slice type)
{
    for (size_t i = 0; i < filter->type_count; i++) {
        struct slice want = filter->types[i];
        bool any = want.p[want.n - 1] == '*';
        if (any ? type.n >= want.n - 1 && memcmp(type.p, want.p, want.n - 1) == 0
                : slice_equal(type, want))
            return true;
    }
    return filter->type_count == 0;
}

static bool wants(const struct stream *stream, const struct polled *event)
{
    const struct stream_filter *filter = &stream->filter;
    return type_fits(filter, event->type) &&
           (!filter->queue.p || slice_equal(filter->queue, event->queue)) &&
           (!filter->project.p || slice_equal(filter->project, event->project)) &&
           (filter->job_id == 0 || filter->job_id == event->job_id);
}

/* ---- behind: what is stored, at the client's own pace ---- */

/* Whatever the poll for all has seen, this one has seen (event_poll.h): so it joins
 * the others exactly where they are. */
static void hand_out(struct stream *stream, const struct event_poll *poll)
{
    const struct event_tail *tail = &stream->streams->tail;
    for (size_t i = 0; i < poll->count; i++) {
        const struct polled *event = &poll->events[i];
        struct buf buf;
        if (event->id > tail->last)
            break;
        if (!tail_is_hole(tail, event->id) && wants(stream, event)) {
            int64_t safe = tail_safe(tail);
            buf_init(&buf, FRAME_BYTES);
            add_frame(&buf, event->id < safe ? event->id : safe, event);
            if (!write_text(stream, &buf))
                return; /* goes on when it is drained, or never */
        }
        stream->after = event->id;
    }
    if (poll->full && stream->after < tail->last)
        catch_up(stream);
    else
        stream->place = STREAM_LIVE;
}

static void caught_up(struct event_poll *poll)
{
    struct stream *stream = poll->arg;

    stream->polling = false;
    if (stream->ended) {
        end_stream(stream, false);
    } else if (poll->look.result < 0) {
        end_stream(stream, false); /* it comes again, with the id it has */
    } else if (poll->gap) {
        stream->place = STREAM_LIVE;
        stream->lost = true;
        if (write_reset(stream, "pruned"))
            stream->lost = false;
    } else {
        stream->first = false;
        hand_out(stream, poll);
    }
    event_poll_free(poll);
}

static void catch_up(struct stream *stream)
{
    struct event_poll *poll = event_poll_new(stream, caught_up);

    assert(!stream->polling && stream->place == STREAM_BEHIND);
    if (poll) {
        poll->after = stream->after;
        poll->must_exist = stream->first && stream->after > 0;
        stream->polling = true;
        if (event_poll_ask(poll, stream->streams->node) == 0)
            return;
        stream->polling = false;
        event_poll_free(poll);
    }
    end_stream(stream, false);
}

static void on_drained(struct http_request *request)
{
    struct call *call = request->user;
    struct stream *stream = call->state;

    stream->full = false;
    if (stream->lost && !write_reset(stream, "slow"))
        return; /* full again, or gone */
    stream->lost = false;
    if (stream->place == STREAM_BEHIND && !stream->polling)
        catch_up(stream);
}

/* ---- all of them ---- */

static void deliver(struct streams *streams, const struct polled *event)
{
    struct stream *next = NULL;
    struct slice frame = { 0 };
    struct buf buf;

    buf_init(&buf, FRAME_BYTES);
    add_frame(&buf, event->id ? tail_safe(&streams->tail) : 0, event);
    int r = buf_end(&buf, &frame);
    for (struct stream *s = streams->list; s && r == 0; s = next) {
        next = s->next;
        bool here =
            s->place == STREAM_LIVE || (s->place == STREAM_BEHIND && event->id == 0);
        if (!here || !wants(s, event))
            continue;
        s->lost = true; /* told of when it is drained */
        if (!s->full && write_frame(s, frame))
            s->lost = false;
    }
    buf_release(&buf);
}

static void begin_stream(struct stream *stream)
{
    static const struct http_pair headers[] = {
        { SLICE_INIT("Cache-Control"), SLICE_INIT("no-store") },
        { SLICE_INIT("X-Accel-Buffering"), SLICE_INIT("no") }, /* for a proxy */
    };
    struct http_request *request = stream->call->request;

    request->on_drained = on_drained;
    http_stream_begin(request, &(struct http_answer){ .status = 200,
                                                      .type = "text/event-stream",
                                                      .headers = headers,
                                                      .header_count = 2 });
    stream->place = stream->after < 0 ? STREAM_LIVE : STREAM_BEHIND;
    if (!write_frame(stream, SLICE("retry: 1000\n\n: here is what happens\n\n")))
        return;
    if (stream->place == STREAM_BEHIND)
        catch_up(stream);
}

static void begin_waiting(struct streams *streams)
{
    struct stream *next = NULL;
    for (struct stream *s = streams->list; s; s = next) {
        next = s->next;
        if (s->place == STREAM_STARTING)
            begin_stream(s);
    }
}

/* The first poll looks where the events end, and which ids there are missing. */
static void take_poll(struct streams *streams, const struct event_poll *poll)
{
    int64_t now = mono(streams), wall = clock_wall_us(streams->clock);

    if (poll->from_end)
        tail_begin(&streams->tail, poll->began);
    for (size_t i = 0; i < poll->count; i++) {
        const struct polled *event = &poll->events[i];
        if (tail_take(&streams->tail, event->id, wall - event->at, now) &&
            !poll->from_end)
            deliver(streams, event);
    }
    tail_forget(&streams->tail, now);
    streams->ready = true;
    begin_waiting(streams);
}

static void polled_all(struct event_poll *poll)
{
    struct streams *streams = poll->arg;
    bool more = streams->again;

    streams->polling = streams->again = false;
    if (streams->freed) {
        free(streams);
    } else {
        if (poll->look.result < 0)
            more = false; /* the timer tries again */
        else if (!streams->ready && !poll->from_end)
            more = true; /* of others, who left meanwhile */
        else
            take_poll(streams, poll);
        if (more || (poll->full && !poll->from_end))
            poll_all(streams);
    }
    event_poll_free(poll);
}

static void poll_all(struct streams *streams)
{
    if (!streams->list) {
        streams->ready = false; /* nobody listens: begin anew with the next one */
        return;
    }
    streams->again = streams->polling;
    if (streams->polling)
        return;
    struct event_poll *poll = event_poll_new(streams, polled_all);
    if (!poll)
        return; /* the timer tries again */
    poll->from_end = !streams->ready;
    poll->after = streams->tail.last;
    for (size_t i = 0; streams->ready && i < streams->tail.hole_count; i++)
        poll->holes[poll->hole_count++] = streams->tail.holes[i].id;
    streams->polling = true;
    if (event_poll_ask(poll, streams->node) < 0) {
        streams->polling = false;
        event_poll_free(poll);
    }
}

/* A token is asked for once, and a stream has no end: it ends with its token. */
static bool may_go_on(const struct stream *stream)
{
    const struct call *call = stream->call;
    return call->who.token_id == 0 ||
           token_cache_has(call->api->tokens, call->who.token_id);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct streams *streams = arg;
    struct stream *next = NULL;
    bool beat = mono(streams) >= streams->beat_at;
    (void)fd;
    (void)what;

    if (beat)
        streams->beat_at = mono(streams) + HEARTBEAT_MS * US_PER_MS;
    for (struct stream *s = streams->list; s; s = next) {
        next = s->next;
        if (!may_go_on(s))
            end_stream(s, false);
        else if (beat && s->place != STREAM_STARTING && !s->full)
            (void)write_frame(s, SLICE(": still here\n\n"));
    }
    poll_all(streams);
}

/* ---- from outside ---- */

static void on_gone(struct call *call)
{
    struct stream *stream = call->state;
    if (!stream->ended)
        end_stream(stream, false);
}

void streams_open(struct streams *streams, struct call *call,
                  const struct stream_filter *filter, int64_t after)
{
    int64_t every = node_settings(streams->node)->poll_interval_us;
    struct timeval interval = { every / US_PER_S, every % US_PER_S };
    struct stream *stream = arena_new(call->arena, struct stream);

    if (!stream || streams->stopped) {
        call_refuse_with(call, stream ? -HF_CLOSED : -HF_NOMEM, NULL,
                         stream ? "The server is stopping; try again in a moment."
                                : "There is no memory left; try again.");
        return;
    }
    *stream = (struct stream){ .streams = streams,
                               .call = call,
                               .filter = *filter,
                               .after = after,
                               .first = true,
                               .next = streams->list,
                               .link = &streams->list };
    if (!streams->list) {
        streams->ready = false;
        streams->beat_at = mono(streams) + HEARTBEAT_MS * US_PER_MS;
        event_add(streams->timer, &interval);
    } else {
        streams->list->link = &stream->next;
    }
    streams->list = stream;
    call->state = stream;
    call->on_gone = on_gone;
    if (streams->ready)
        begin_stream(stream);
    else
        poll_all(streams);
}

/* The ordinary three have no data where they are not stored. */
static bool is_stored(const struct event *event)
{
    static const char *const ordinary[] = { "job.enqueued", "job.run.started",
                                            "job.run.completed" };
    for (size_t i = 0; i < array_len(ordinary) && !event->data.p; i++)
        if (slice_equal(event->type, slice_of(ordinary[i])))
            return false;
    return true;
}

void streams_told(struct streams *streams, const struct event *event, const char *queue,
                  const char *project)
{
    struct polled told = { .job_id = event->job_id,
                           .type = event->type,
                           .queue = slice_of(queue),
                           .project = slice_of(project) };
    struct buf buf;

    if (!streams->list)
        return;
    if (is_stored(event)) {
        poll_all(streams);
        return;
    }
    buf_init(&buf, FRAME_BYTES);
    struct json_writer w = json_writer(&buf);
    view_event(&w, event, queue, project);
    json_finish(&w);
    if (buf_end(&buf, &told.json) == 0)
        deliver(streams, &told);
    buf_release(&buf);
}

void streams_stop(struct streams *streams)
{
    streams->stopped = true;
    while (streams->list)
        end_stream(streams->list, true);
}

int streams_new(const struct api_options *options, struct streams **ret)
{
    struct streams *streams = new (struct streams);
    if (!streams)
        return -HF_NOMEM;
    streams->loop = options->loop;
    streams->node = options->node;
    streams->clock = options->clock;
    streams->timer = event_new(options->loop, -1, EV_PERSIST, on_time, streams);
    if (!streams->timer) {
        free(streams);
        return -HF_NOMEM;
    }
    *ret = streams;
    return 0;
}

void streams_free(struct streams *streams)
{
    if (!streams)
        return;
    assert(!streams->list);
    event_free(streams->timer);
    streams->freed = true;
    if (!streams->polling)
        free(streams);
}
