/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_sender.c -- parcels in lanes, a lane for each webhook.
 *
 *   taken ──► waiting in its lane ──► flying ──► over, until its report is on disk
 *                     └──────────── untried ──────▲ */
#include "exec/webhook_sender.h"

#include <event2/event.h>
#include <sys/queue.h>

#include "exec/webhook_try.h"

enum {
    FLYING_MAX = 256,                  /* requests at once */
    DOUBTFUL_MAX = FLYING_MAX * 3 / 4, /* of these to receivers that failed last */
    HELD_MAX = 2048, /* those that wait and those that are over included */
    BUCKETS = 256,
    AGAIN_MS = 1000, /* after a command that failed */
    PARCEL_BLOCK_BYTES = 1024,
    PARCEL_BYTES = 2 << 20, /* besides the body: headers twice, a response */
};
#define HELD_BYTES_MAX (4 * (size_t)LIMIT_DELIVERIES_BYTES)
/* The engine takes what was given out for lost half a minute and its timeout later. */
#define WAITS_MAX_US (20 * US_PER_S)

STAILQ_HEAD(line, parcel);
LIST_HEAD(parcels, parcel);
TAILQ_HEAD(turns, lane);
LIST_HEAD(lanes, lane);

/* A delivery that is here. */
struct parcel {
    STAILQ_ENTRY(parcel) in_line; /* its lane's, or those that are over */
    LIST_ENTRY(parcel) of_lane;
    struct lane *lane;
    struct arena arena; /* holds what `sending` and `outcome` point to */
    struct sending sending;
    struct delivered outcome;
    int64_t taken_us; /* monotonic */
    size_t bytes;
    bool doubtful; /* sent when its lane was */
    struct fetch *fetch;
};

/* A webhook of which something is here. */
struct lane {
    LIST_ENTRY(lane) in_bucket;
    TAILQ_ENTRY(lane) in_turn; /* while something waits */
    struct webhook_sender *sender;
    int64_t webhook_id, in_flight;
    struct line waiting;
    struct parcels held; /* all of them: waiting, flying, over */
    size_t flying;
    bool doubtful; /* its last try failed */
};

struct webhook_sender {
    struct webhook_sender_options options;
    struct http_client *client;
    struct lanes buckets[BUCKETS];
    struct turns turns; /* lanes in which something waits */
    size_t held, held_bytes, flying, doubtful;
    struct line over;      /* to be reported */
    struct line reporting; /* in the report that is under way */
    bool asking;           /* an OP_DELIVERIES is under way */
    bool wanted;           /* there may be something to take */
    bool more;             /* there is, once something of ours has been reported */
    bool resting;          /* after a command that failed, until `again` */
    bool lost;             /* something may have been given that is not here */
    bool outdated;         /* what is being taken may be of webhooks as they were */
    bool stopping;         /* takes nothing more */
    bool closed;           /* nobody is there to report to */
    struct event *again, *grace;
};

/* ---- lanes ---- */

static struct lanes *bucket_of(struct webhook_sender *sender, int64_t webhook_id)
{
    return &sender->buckets[(uint64_t)webhook_id % BUCKETS];
}

static struct lane *lane_for(struct webhook_sender *sender, const struct sending *sending)
{
    struct lanes *bucket = bucket_of(sender, sending->webhook_id);
    struct lane *lane;

    LIST_FOREACH(lane, bucket, in_bucket)
    {
        if (lane->webhook_id == sending->webhook_id)
            break;
    }
    if (!lane) {
        lane = new (struct lane);
        if (!lane)
            return NULL;
        lane->sender = sender;
        lane->webhook_id = sending->webhook_id;
        STAILQ_INIT(&lane->waiting);
        LIST_INSERT_HEAD(bucket, lane, in_bucket);
    }
    lane->in_flight = sending->in_flight; /* as it is by now */
    lane->doubtful = lane->doubtful || sending->failing;
    return lane;
}

static void drop_if_empty(struct lane *lane)
{
    if (!LIST_EMPTY(&lane->held))
        return;
    assert(STAILQ_EMPTY(&lane->waiting) && lane->flying == 0);
    LIST_REMOVE(lane, in_bucket);
    free(lane);
}

/* ---- parcels ---- */

static bool lane_has(const struct lane *lane, int64_t id)
{
    const struct parcel *parcel;
    LIST_FOREACH(parcel, &lane->held, of_lane)
    {
        if (parcel->sending.id == id)
            return true;
    }
    return false;
}

static int copy_sending(struct parcel *parcel, const struct sending *from)
{
    struct arena *arena = &parcel->arena;
    struct sending *to = &parcel->sending;

    *to = *from;
    to->url = arena_dup(arena, from->url);
    to->headers = arena_dup(arena, from->headers);
    to->body = arena_dup(arena, from->body);
    to->secret = arena_dup(arena, from->secret);
    to->old_secret = arena_dup(arena, from->old_secret);
    return arena_end(arena);
}

/* NULL without memory: it is due again when its time is over. */
static struct parcel *parcel_new(struct lane *lane, const struct sending *sending)
{
    struct webhook_sender *sender = lane->sender;
    struct parcel *parcel = new (struct parcel);

    if (!parcel)
        return NULL;
    arena_init(&parcel->arena, PARCEL_BLOCK_BYTES, PARCEL_BYTES + sending->body.n);
    if (copy_sending(parcel, sending) < 0) {
        arena_release(&parcel->arena);
        free(parcel);
        return NULL;
    }
    parcel->bytes = sending->body.n + sending->headers.n;
    parcel->taken_us = clock_mono_us(sender->options.clock);
    parcel->lane = lane;
    LIST_INSERT_HEAD(&lane->held, parcel, of_lane);
    sender->held++;
    sender->held_bytes += parcel->bytes;
    return parcel;
}

static void parcel_free(struct parcel *parcel)
{
    struct lane *lane = parcel->lane;
    struct webhook_sender *sender = lane->sender;

    LIST_REMOVE(parcel, of_lane);
    sender->held--;
    sender->held_bytes -= parcel->bytes;
    drop_if_empty(lane);
    arena_release(&parcel->arena);
    free(parcel);
}

static void take_in(struct webhook_sender *sender, const struct sending *sending)
{
    struct lane *lane = lane_for(sender, sending);

    /* It may be given out again, when its report could not be written for so long. */
    if (!lane || lane_has(lane, sending->id))
        return;
    bool has_turn = !STAILQ_EMPTY(&lane->waiting);
    struct parcel *parcel = parcel_new(lane, sending);
    if (!parcel) {
        drop_if_empty(lane);
        return;
    }
    STAILQ_INSERT_TAIL(&lane->waiting, parcel, in_line);
    if (!has_turn)
        TAILQ_INSERT_TAIL(&sender->turns, lane, in_turn);
}

/* The first that waits in the lane, which has a turn no more if it was the last. */
static struct parcel *take_out(struct lane *lane)
{
    struct parcel *parcel = STAILQ_FIRST(&lane->waiting);
    STAILQ_REMOVE_HEAD(&lane->waiting, in_line);
    if (STAILQ_EMPTY(&lane->waiting))
        TAILQ_REMOVE(&lane->sender->turns, lane, in_turn);
    return parcel;
}

static void end_parcel(struct parcel *parcel, const struct delivered *outcome)
{
    parcel->outcome = *outcome;
    STAILQ_INSERT_TAIL(&parcel->lane->sender->over, parcel, in_line);
}

static void give_back(struct parcel *parcel)
{
    parcel->lane->sender->wanted = true; /* it is due again at once */
    end_parcel(parcel, &(struct delivered){ .id = parcel->sending.id, .unsent = true });
}

static void give_back_waiting(struct lane *lane)
{
    while (!STAILQ_EMPTY(&lane->waiting))
        give_back(take_out(lane));
}

static void give_back_all(struct webhook_sender *sender)
{
    while (!TAILQ_EMPTY(&sender->turns))
        give_back_waiting(TAILQ_FIRST(&sender->turns));
}

/* ---- sending ---- */

static void launch(struct webhook_sender *sender);
static void report(struct webhook_sender *sender);

static void on_answer(void *arg, const struct fetch_answer *answer)
{
    struct parcel *parcel = arg;
    struct lane *lane = parcel->lane;
    struct webhook_sender *sender = lane->sender;
    struct delivered outcome = webhook_try_judge(
        &parcel->sending, answer, clock_wall_us(sender->options.clock), &parcel->arena);

    parcel->fetch = NULL;
    lane->flying--;
    sender->flying--;
    sender->doubtful -= parcel->doubtful;
    lane->doubtful = !outcome.ok;
    if (answer->end == FETCH_CANCELLED)
        give_back(parcel);
    else
        end_parcel(parcel, &outcome);
    if (!outcome.ok)
        give_back_waiting(lane);
    launch(sender);
    report(sender);
}

/* What cannot even be sent has failed like any other try. */
static void send_parcel(struct parcel *parcel)
{
    struct lane *lane = parcel->lane;
    struct webhook_sender *sender = lane->sender;
    int64_t now_us = clock_wall_us(sender->options.clock);
    struct fetch_request request;
    struct error error = { 0 };

    int r = webhook_try_make(&parcel->sending, now_us, &parcel->arena, &error, &request);
    if (r == 0)
        r = http_client_start(sender->client, &request, on_answer, parcel, &error,
                              &parcel->fetch);
    if (r == 0) {
        lane->flying++;
        sender->flying++;
        parcel->doubtful = lane->doubtful;
        sender->doubtful += parcel->doubtful;
        return;
    }
    struct slice why = arena_dup(&parcel->arena, slice_of(error.text));
    end_parcel(parcel,
               &(struct delivered){
                   .id = parcel->sending.id,
                   .sent_at = now_us,
                   .error = why.p ? why : SLICE("There is no memory for a request.") });
}

/* Whether the lane may have one more under way: half of the places that are left are
 * for others, and some are for those whose receivers answer, however many hang. */
static bool may_fly(const struct lane *lane)
{
    size_t left = FLYING_MAX - lane->sender->flying;
    if (lane->doubtful && lane->sender->doubtful >= DOUBTFUL_MAX)
        return false;
    return lane->flying < (size_t)lane->in_flight &&
           (lane->flying == 0 || lane->flying < left / 2);
}

/* A lane that has a turn; whether it has moved. */
static bool take_turn(struct lane *lane)
{
    struct webhook_sender *sender = lane->sender;
    int64_t waited_us =
        clock_mono_us(sender->options.clock) - STAILQ_FIRST(&lane->waiting)->taken_us;

    if (waited_us > WAITS_MAX_US)
        give_back_waiting(lane);
    else if (may_fly(lane))
        send_parcel(take_out(lane));
    else
        return false;
    return true;
}

/* One after the other, round and round, until there is no place or none that moves. */
static void launch(struct webhook_sender *sender)
{
    struct lane *stuck = NULL; /* the first of those in a row that did not move */

    while (!TAILQ_EMPTY(&sender->turns) && sender->flying < FLYING_MAX) {
        struct lane *lane = TAILQ_FIRST(&sender->turns);
        if (lane == stuck)
            return;
        TAILQ_REMOVE(&sender->turns, lane, in_turn);
        TAILQ_INSERT_TAIL(&sender->turns, lane, in_turn);
        if (take_turn(lane))
            stuck = NULL;
        else if (!stuck)
            stuck = lane;
    }
}

/* ---- taking ---- */

static void try_again_later(struct webhook_sender *sender)
{
    sender->resting = event_add(sender->again, &(struct timeval){ AGAIN_MS / 1000 }) == 0;
}

/* Whether it is worth asking again at once: it was given all that it had room for.
 * Otherwise each webhook has what it may have, until something is reported. */
static bool take_all(struct webhook_sender *sender, const struct command *command)
{
    size_t before = sender->held_bytes, count = command->deliveries.out_count;

    for (size_t i = 0; i < count; i++)
        take_in(sender, &command->deliveries.out[i]);
    sender->more = command->deliveries.out_more;
    return sender->more && (count == command->deliveries.count ||
                            sender->held_bytes - before >= command->deliveries.bytes);
}

static void on_taken(struct command *command, void *arg)
{
    struct webhook_sender *sender = arg;
    int r = command->result;

    sender->asking = false;
    sender->lost = sender->lost || r < 0;
    if (r < 0)
        try_again_later(sender);
    if (r < 0 || take_all(sender, command))
        sender->wanted = true;
    command_free(command);
    if (sender->outdated || sender->stopping)
        give_back_all(sender);
    sender->outdated = false;
    launch(sender);
    report(sender);
}

static void ask(struct webhook_sender *sender)
{
    size_t room = HELD_MAX - sender->held;
    size_t held = sender->held_bytes;
    size_t bytes = held < HELD_BYTES_MAX ? HELD_BYTES_MAX - held : 0;

    if (!sender->wanted || sender->asking || sender->stopping || room == 0 || bytes == 0)
        return;
    struct command *command = command_new(OP_DELIVERIES);
    int r = command ? 0 : -HF_NOMEM;
    if (r == 0) {
        command->deliveries.count = room < LIMIT_DELIVERIES ? room : LIMIT_DELIVERIES;
        command->deliveries.each = 1 + room / 4; /* whoever hangs leaves some to others */
        command->deliveries.bytes = (bytes + 3) / 4; /* LIMIT_DELIVERIES_BYTES at most */
        command->deliveries.anew = sender->lost && sender->held == 0;
        sender->lost = sender->lost && sender->held > 0;
        command->done = on_taken;
        command->done_arg = sender;
        r = sender->options.submit(sender->options.arg, command);
    }
    sender->asking = r == 0;
    sender->wanted = r < 0;
    if (r < 0) {
        command_free(command);
        try_again_later(sender);
    }
}

/* ---- reporting ---- */

/* Whether it will be refused as often as it is sent. */
static bool is_unfit(int result)
{
    return result == -HF_INVALID || result == -HF_TOO_LARGE;
}

static void forget(struct line *line)
{
    while (!STAILQ_EMPTY(line)) {
        struct parcel *parcel = STAILQ_FIRST(line);
        STAILQ_REMOVE_HEAD(line, in_line);
        parcel_free(parcel);
    }
}

static void report_later(struct webhook_sender *sender)
{
    STAILQ_CONCAT(&sender->reporting, &sender->over);
    STAILQ_CONCAT(&sender->over, &sender->reporting); /* these stay the first */
    try_again_later(sender);
}

static void on_reported(struct command *command, void *arg)
{
    struct webhook_sender *sender = arg;
    int r = command->result;

    if (r < 0)
        log_event(sender->options.log, LEVEL_ERROR, "deliveries_not_reported",
                  log_int("count", (int64_t)command->delivered.count),
                  log_text("why", command->error.text[0] ? command->error.text
                                                         : status_of(r)->title));
    command_free(command);
    if (r == 0 || is_unfit(r)) {
        forget(&sender->reporting);
        report(sender);
        return;
    }
    report_later(sender);
}

static struct command *make_report(struct webhook_sender *sender)
{
    struct command *command = command_new(OP_DELIVERED);
    struct delivered *list =
        command ? arena_array(&command->arena, struct delivered, LIMIT_DELIVERIES) : NULL;
    size_t n = 0;

    if (!list) {
        command_free(command);
        return NULL;
    }
    while (!STAILQ_EMPTY(&sender->over) && n < LIMIT_DELIVERIES) {
        struct parcel *parcel = STAILQ_FIRST(&sender->over);
        STAILQ_REMOVE_HEAD(&sender->over, in_line);
        STAILQ_INSERT_TAIL(&sender->reporting, parcel, in_line);
        list[n++] = parcel->outcome; /* the parcels outlive the report */
    }
    command->delivered.list = list;
    command->delivered.count = n;
    command->done = on_reported;
    command->done_arg = sender;
    return command;
}

static void submit_report(struct webhook_sender *sender)
{
    struct command *command = make_report(sender);
    int r = command ? 0 : -HF_NOMEM;

    if (r == 0)
        r = sender->closed ? -HF_CLOSED
                           : sender->options.submit(sender->options.arg, command);
    if (r == 0) {
        sender->wanted = sender->wanted || sender->more;
        return;
    }
    command_free(command);
    if (r == -HF_CLOSED)
        forget(&sender->reporting); /* they are due again */
    else
        report_later(sender);
}

/* Both commands meet in one pile, and so in one commit: what is reported makes room for
 * what is taken. */
static void report(struct webhook_sender *sender)
{
    if (sender->resting && !sender->closed)
        return;
    if (!STAILQ_EMPTY(&sender->over) && STAILQ_EMPTY(&sender->reporting))
        submit_report(sender);
    ask(sender);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    struct webhook_sender *sender = arg;

    (void)fd, (void)what;
    sender->resting = false;
    launch(sender);
    report(sender);
}

void webhook_sender_due(struct webhook_sender *sender)
{
    sender->wanted = true;
    report(sender);
}

void webhook_sender_changed(struct webhook_sender *sender)
{
    sender->outdated = sender->asking;
    give_back_all(sender);
    report(sender);
}

/* ---- beginning and end ---- */

static void on_grace_over(evutil_socket_t fd, short what, void *arg)
{
    struct webhook_sender *sender = arg;
    struct lane *lane;
    struct parcel *parcel;

    (void)fd, (void)what;
    for (int i = 0; i < BUCKETS; i++) {
        LIST_FOREACH(lane, &sender->buckets[i], in_bucket)
        {
            LIST_FOREACH(parcel, &lane->held, of_lane)
            {
                if (parcel->fetch)
                    http_client_abort(parcel->fetch);
            }
        }
    }
}

void webhook_sender_stop(struct webhook_sender *sender)
{
    int64_t ms = sender->options.grace_ms;
    if (!sender->stopping)
        event_add(sender->grace, &(struct timeval){ ms / 1000, ms % 1000 * 1000 });
    sender->stopping = true;
    give_back_all(sender);
    report(sender);
}

size_t webhook_sender_busy(const struct webhook_sender *sender)
{
    return sender->held + sender->asking;
}

int webhook_sender_new(const struct webhook_sender_options *options, struct error *error,
                       struct webhook_sender **ret)
{
    struct webhook_sender *sender = new (struct webhook_sender);

    assert(options->loop && options->clock && options->submit && options->grace_ms > 0);
    if (!sender)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    sender->options = *options;
    STAILQ_INIT(&sender->over);
    STAILQ_INIT(&sender->reporting);
    TAILQ_INIT(&sender->turns);
    sender->again = evtimer_new(options->loop, on_again, sender);
    sender->grace = evtimer_new(options->loop, on_grace_over, sender);
    int r = sender->again && sender->grace ? 0 : -HF_NOMEM;
    if (r == 0)
        r = http_client_new(&(struct http_client_options){ .base = options->loop,
                                                           .policy = options->policy },
                            &sender->client);
    if (r < 0) {
        webhook_sender_free(sender);
        return error_set(error, r, NULL, "Webhooks cannot be sent: %s.",
                         status_of(r)->title);
    }
    *ret = sender;
    return 0;
}

void webhook_sender_free(struct webhook_sender *sender)
{
    if (!sender)
        return;
    sender->stopping = sender->closed = true;
    give_back_all(sender);
    http_client_free(sender->client); /* ends what is under way */
    forget(&sender->over);
    forget(&sender->reporting);
    assert(sender->held == 0);
    if (sender->again)
        event_free(sender->again);
    if (sender->grace)
        event_free(sender->grace);
    free(sender);
}
