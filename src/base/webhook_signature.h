/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_signature.h -- secrets and signatures as Standard Webhooks has them.
 *
 * A receiver must be able to tell our message from anybody else's, whole and fresh:
 * the signature is an HMAC-SHA256 over "ID.TIMESTAMP.BODY", where the id is the same
 * at every try, the timestamp is that of this try, and the key is a secret of 24 to
 * 64 bytes which the two share.  People see it as "whsec_" and its base64.
 *
 * While a secret is being replaced both sign, and a receiver takes either.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"
#include "status.h"

enum {
    LEAST_WEBHOOK_SECRET_BYTES = 24,
    LIMIT_WEBHOOK_SECRET_BYTES = 64,
    WEBHOOK_SECRET_TEXT_BYTES = 6 + 88 + 1,        /* "whsec_", base64, NUL */
    WEBHOOK_SIGNATURE_BYTES = 2 * (3 + 44) + 1 + 1 /* "v1,... v1,..." */
};

/* Reads "whsec_...".  -HF_INVALID with a sentence, which never has the secret in it. */
must_check int webhook_secret_parse(struct slice text, struct error *error,
                                    uint8_t ret[LIMIT_WEBHOOK_SECRET_BYTES],
                                    size_t *ret_bytes);

/* The other way round.  Returns `out`. */
char *webhook_secret_text(struct slice secret, char out[WEBHOOK_SECRET_TEXT_BYTES]);

/* What stands in the header webhook-signature.  `old` is absent unless it still signs
 * too.  0, or -HF_NOMEM. */
must_check int webhook_sign(struct slice secret, struct slice old, struct slice id,
                            int64_t timestamp_s, struct slice body,
                            char out[WEBHOOK_SIGNATURE_BYTES]);
