/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_try.h -- one try of a delivery as a request, and its answer as a report.
 *
 * Pure: what is sent and what an answer means, without a socket.
 *
 * SENT, as Standard Webhooks has it, are the body as it was written with the event and
 *   webhook-id          the delivery's id, the same at every try
 *   webhook-timestamp   of this try, in seconds
 *   webhook-signature   over both and the body (base/webhook_signature.h)
 *   Content-Type        application/json
 * and the webhook's own headers, which cannot replace these.
 *
 * 2xx is success and nothing else is.  A redirect is a failure: whoever moved says so
 * to the person who subscribed.  410 means that nobody is there any more.
 *
 * Threads: no state; any thread. */
#pragma once

#include "engine/webhook/webhook.h"
#include "net/http_client.h"

/* What to send; slices live in the arena and in `sending`.  -HF_INVALID with a sentence
 * (headers that cannot be read), or -HF_NOMEM. */
must_check int webhook_try_make(const struct sending *sending, int64_t now_us,
                                struct arena *arena, struct error *error,
                                struct fetch_request *ret);

/* What the answer means; slices live in the arena.  Cannot fail: when there is no
 * memory the outcome is the same, and what would be told about it is missing. */
struct delivered webhook_try_judge(const struct sending *sending,
                                   const struct fetch_answer *answer, int64_t now_us,
                                   struct arena *arena);
