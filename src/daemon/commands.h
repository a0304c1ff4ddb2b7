/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h -- the [command KIND] sections as the executors and the engine want them.
 *
 * The configuration keeps texts; here argv is split into words, once, at the start,
 * so that a quote without its partner is told before anything runs. */
#pragma once

#include "daemon/config.h"
#include "engine/engine.h"
#include "exec/runner.h"

struct commands;

must_check int commands_new(const struct config *config, struct error *error,
                            struct commands **ret);
void commands_free(struct commands *commands);

const struct runner_command *commands_list(const struct commands *commands,
                                           size_t *ret_count);
/* The kinds this node executes: these, and http. */
const char *const *commands_kinds(const struct commands *commands, size_t *ret_count);
const struct kind_policy *commands_policies(const struct commands *commands,
                                            size_t *ret_count);
/* The longest any of them may take between SIGTERM and SIGKILL. */
int64_t commands_longest_grace_us(const struct commands *commands);
