/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook.h -- who is told of events, and how an event gets to them.
 *
 * A WEBHOOK subscribes to types of events (event_types.h), of one project or of all.
 * An event that one asks for becomes a DELIVERY, a row of the outbox, in the
 * transaction of what it tells: there is no event without its deliveries and no
 * delivery of what did not happen.  Its body is written once and is the same at every
 * try; its id is the `webhook-id`.
 *
 * SENDING is somebody else's work (exec/webhook_sender): it is told that something is
 * due (engine_hooks.deliveries_due), takes what is (OP_DELIVERIES), sends it, and
 * reports (OP_DELIVERED).  At least once: what was taken and not reported is due again
 * when its node is dead or gone, or when its time is over.
 *
 * ORDER.  A webhook is sent by one node at a time, which takes its deliveries in the
 * order in which they fell due: that of the events, and behind a failure that of the
 * tries.  One that failed waits for its next try and stops nobody.  At most `in_flight`
 * are to be under way at once; more than that are given out ahead, so that one commit
 * serves many.
 *
 * TRIES.  5 s, 1 min, 5 min, 30 min, 2 h, 5 h, 8 h and 8 h after a failure, each within
 * a tenth, not before what a Retry-After says; then it has failed for good.
 *
 * STATES of a webhook
 *   active     collects and sends
 *   paused     collects; what has waited for a week has failed.  By hand, or because
 *              nothing went through for a day, and ten tries in a row
 *   disabled   its receiver is gone (410): collects nothing, what waited has failed
 * Both end by resuming it.  Events webhook.* are not delivered to the one they are about.
 *
 * Threads: the engine's. */
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "store/model.h"

/* What is given of a new webhook, or to be changed of one; the values are in `with`. */
enum {
    WEBHOOK_SET_NAME = 1 << 0,
    WEBHOOK_SET_URL = 1 << 1,
    WEBHOOK_SET_EVENTS = 1 << 2,  /* a JSON array of types and patterns */
    WEBHOOK_SET_HEADERS = 1 << 3, /* a JSON object of strings, all of it anew */
    WEBHOOK_SET_TIMEOUT = 1 << 4,
    WEBHOOK_SET_IN_FLIGHT = 1 << 5,
    WEBHOOK_SET_STATE = 1 << 6,  /* WEBHOOK_ACTIVE or _PAUSED, with state_reason */
    WEBHOOK_SET_SECRET = 1 << 7, /* bytes; of one that is there: the old one still signs
                                    for overlap_us */
};

struct webhook_edit {
    int64_t id;           /* 0: a new one, which needs url, events and secret */
    struct slice project; /* of a new one; absent: all projects */
    int64_t project_id;   /* 0, or it must be of this one */
    unsigned set;
    struct webhook with;
    int64_t overlap_us;
};

/* Checks everything that can be known without the store; the sentence names the field
 * as the API does. */
must_check int webhook_edit_check(const struct webhook_edit *edit, struct error *error);

/* A delivery as it is given to the sender.  Slices live as long as the command. */
struct sending {
    int64_t id; /* webhook-id, in decimal */
    int64_t webhook_id;
    int64_t in_flight; /* of its webhook: so many at once */
    int64_t timeout_us;
    int tries;    /* before this one */
    bool failing; /* the last try of its webhook failed */
    struct slice url, headers, body;
    struct slice secret, old_secret; /* bytes; absent: it does not sign any more */
};

/* How it went. */
struct delivered {
    int64_t id;
    bool unsent;     /* it was not tried: it is due as it was before it was taken, in its
                        old place, and the rest below means nothing */
    bool ok;         /* 2xx */
    bool gone;       /* 410: the webhook is disabled */
    int status;      /* 0: there was no response */
    int64_t sent_at; /* 0: now */
    int64_t duration_us;
    int64_t retry_after_us; /* 0: not told */
    struct slice error;     /* a sentence; absent if ok */
    struct slice response;  /* a JSON object with what is kept of it; absent: none */
};

/* Which deliveries are sent again: `ids`, or those of a webhook in these states that
 * were made in between. */
struct resend {
    const int64_t *ids;
    size_t count;
    int64_t webhook_id;                    /* 0 only with ids */
    unsigned states;                       /* 1u << DELIVERY_FAILED | ...; 0: failed */
    int64_t created_after, created_before; /* 0: any */
    int64_t after;                         /* go on behind this id; 0: from the first */
    int64_t project_id;                    /* 0, or it must be of this one */
};

/* Names as users write them; NULL for a number out of range, and -1. */
const char *webhook_state_name(int state);
const char *delivery_state_name(int state);
int delivery_state_from_name(struct slice name);
