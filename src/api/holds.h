/* SPDX-License-Identifier: Apache-2.0
 *
 * holds.h -- a call that reserves a queue, and waits until it is granted.
 *
 * It stands in line in the store, and looks again whenever something happens to the
 * queue's reservations here, and once a second in any case, since other nodes grant
 * too.  Whoever hangs up, or is refused for whatever reason, gives up the place: an
 * asking client that is gone must not keep a queue still.
 *
 * Threads: the loop's. */
#pragma once

#include "api/call.h"

struct hold {
    struct waiter waiter;
    struct call *call;
    int64_t id, queue_id; /* of the reservation; 0 until it is made */
    int state;            /* as last seen */
    void (*granted)(struct call *, struct show *); /* it is ours; `show` shows it */
};

/* Reserves `queue`; `hold` is in the call's arena, with `granted` set, and is the call's
 * state or its first member.  All else is answered here: 409 if it is not granted in
 * time. */
void hold_begin(struct call *call, struct hold *hold, struct slice queue,
                struct slice holder, int64_t ttl_ms, int64_t wait_ms, bool direct);

/* Gives it back, without waiting for the answer. */
void hold_give_up(struct hold *hold);

/* Sends a command that nobody waits for: never refused, freed when it is done. */
void send_and_forget(struct api *api, struct command *command);

/* Shows the reservation `show->id`. */
int show_reservation(struct store *store, struct show *show, struct json_writer *w);
