/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.c -- what an endpoint asks for: made, changed and dropped. */
#include "engine/endpoint.h"

int endpoint_edit(struct tx *tx, struct command *command, struct schedule *schedule)
{
    (void)tx, (void)schedule;
    if (!command->schedule.edit.endpoint)
        return 0;
    return error_set(&command->error, -HF_INVALID, NULL, "Endpoints are not there yet.");
}

int endpoint_drop(struct tx *tx, int64_t id)
{
    (void)tx, (void)id;
    return 0;
}
