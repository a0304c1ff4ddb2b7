/* SPDX-License-Identifier: Apache-2.0
 *
 * webhooks.h -- what the files of "holdfast webhooks" share. */
#pragma once

#include "cli/cli.h"

/* The webhook that cli->args[1] means, by its id or, if only one has it, its name.
 * `answer` is the caller's, initialised here; *ret is the webhook in it.  -HF_NOT_FOUND
 * with its sentence. */
must_check int webhook_find(struct cli *cli, struct buf *answer, struct slice *ret);
/* Only its id: what others are asked with. */
must_check int webhook_find_id(struct cli *cli, int64_t *ret);

/* What is sent to one, and sent again. */
int webhook_deliveries(struct cli *cli);
int webhook_delivery(struct cli *cli);
int webhook_test(struct cli *cli);
int webhook_resend(struct cli *cli);
int webhook_resend_all(struct cli *cli);
