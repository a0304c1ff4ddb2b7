/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_sender.h -- sends what stands in the outbox.
 *
 * Why it exists: an event and its deliveries are written in one transaction, and then
 * somebody has to take them to their receivers, who may be slow, broken or hostile,
 * without one of them holding up the others or the jobs.  So it has an HTTP client of
 * its own, and nothing here waits: deliveries are taken (OP_DELIVERIES) and reported
 * (OP_DELIVERED) by commands, one of each under way at a time.  What ends while a
 * report is being written shares the next one: a commit serves as many as there are.
 *
 * ORDER   Of a webhook at most `in_flight` are under way, in the order they were given.
 *         What was taken ahead of that waits here.
 * TURNS   Webhooks take turns; and the fewer places are left of all, the fewer one
 *         webhook may have, so that those whose receivers hang never have all of them;
 *         nor have many such together, once their tries have failed.
 * SLOW    When a try has failed, or what waits has waited too long, the rest that was
 *         taken ahead for this webhook is given back untried, in its old place.
 * CHANGES What waits is given back when webhooks have changed, and taken again as they
 *         are by then: nothing is begun for one that was paused or deleted, nor sent to
 *         where it was before.
 * MEMORY  So many deliveries and so many bytes are held, whatever receivers do.
 * ONCE    at least: a report that cannot be written is tried again, while it lasts; what
 *         is lost with the process is due again, with the same webhook-id.
 *
 * Threads: the loop's. */
#pragma once

#include "base/clock.h"
#include "base/log.h"
#include "engine/command.h"
#include "net/http_client.h"

struct webhook_sender;

struct webhook_sender_options {
    struct event_base *loop;
    const struct address_policy *policy; /* borrowed */
    const struct clock *clock;
    struct log *log; /* may be NULL */
    /* Hands a command to the node; its `done` is called in the loop's thread, never
     * from inside.  As node_report() does it. */
    int (*submit)(void *arg, struct command *command);
    void *arg;
    int64_t grace_ms; /* for what is under way when it is stopped */
};

must_check int webhook_sender_new(const struct webhook_sender_options *options,
                                  struct error *error, struct webhook_sender **ret);

/* When nobody can answer it any more: after node_close().  NULL is fine. */
void webhook_sender_free(struct webhook_sender *sender);

/* The node's call: deliveries are due. */
void webhook_sender_due(struct webhook_sender *sender);

/* The node's call: webhooks were changed, paused, deleted, ... */
void webhook_sender_changed(struct webhook_sender *sender);

/* Takes nothing more, and gives back what was not tried: at once what waits, after
 * grace_ms what is still under way. */
void webhook_sender_stop(struct webhook_sender *sender);

/* How many are here: they wait, are under way, or their report is not on disk yet.
 * What is being taken counts too. */
size_t webhook_sender_busy(const struct webhook_sender *sender);
