/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.h -- the [queue NAME] sections, written to the store and fixed there. */
#pragma once

#include "base/log.h"
#include "daemon/config.h"
#include "node/node.h"

/* Sends a command per queue; what is refused is logged. */
void queues_apply(struct node *node, const struct config *config, struct log *log);
