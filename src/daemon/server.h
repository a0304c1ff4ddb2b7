/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h -- `holdfast serve`: the parts put together, started and stopped.
 *
 * START, so that a restart is not noticed (I9): the store is opened and the
 * listeners are up before anything is recovered; recovery goes on behind them, and
 * workers start when it is through.
 *
 * STOP, at SIGTERM or SIGINT: nothing more is claimed, what runs is waited for up to
 * shutdown_grace_ms while the API still answers, and what is left is handed over
 * without using up an attempt.  Commands go on by themselves unless
 * shutdown_commands says otherwise.  A second signal ends the waiting.
 *
 * SIGHUP reads the configuration again. */
#pragma once

#include "daemon/config.h"

/* Runs until it is told to stop.  `config` is used up; `input` is what it was read
 * from, for SIGHUP.  0 after a graceful stop, or a negative code with its sentence. */
must_check int server_run(struct config *config, const struct config_input *input,
                          struct error *error);
