/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.h -- the [queue NAME] sections, written to the store and fixed there.
 *
 * What a section no longer names, and queues whose section is gone, keep their values
 * and may be changed by the API again.  Nodes on one PostgreSQL should have the same
 * sections: the last to start or to reload wins. */
#pragma once

#include "base/log.h"
#include "daemon/config.h"
#include "node/node.h"

/* Sends a command per queue, and looks for queues that are fixed without a section;
 * what is refused is logged.  `config` must live as long as the node. */
void queues_apply(struct node *node, const struct config *config, struct log *log);
