/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_view.h -- what webhooks and deliveries look like as JSON.
 *
 * Threads: those that take a store run in a reader's thread. */
#pragma once

#include "base/json_write.h"
#include "store/webhooks.h"

/* `secret` is shown once, to who has made it; NULL: not now. */
must_check int view_webhook(struct store *store, struct json_writer *w,
                            const struct webhook *webhook, const char *secret);

/* As in a list. */
void view_delivery(struct json_writer *w, const struct delivery *delivery);
/* With what is sent, and how each try went. */
void view_whole_delivery(struct json_writer *w, const struct delivery *delivery,
                         const struct webhook *webhook);
