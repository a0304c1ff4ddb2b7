/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoints.h -- what the files of "holdfast endpoints" share. */
#pragma once

#include "cli/cli.h"

/* An ask about the endpoint that cli->args[1] means, by its name or id: with its path and
 * what is `below` it, "" or "/runs".  -HF_NOT_FOUND with its sentence. */
must_check int endpoint_ask(struct cli *cli, const char *method, const char *below,
                            struct ask *ret);

int endpoint_list(struct cli *cli);
