/* SPDX-License-Identifier: Apache-2.0
 *
 * headers.h -- --header 'NAME: VALUE' as the headers of an endpoint or a webhook.
 *
 * The API takes all headers at once.  A person changes one, and must not lose the others
 * by it: those that are there and not named stay as they are.  Where their values cannot
 * be known, as a webhook's, they must be named. */
#pragma once

#include "cli/cli.h"

/* Writes the field "headers", if any was given with --header or, where the command has
 * it, --secret-header: 'NAME: VALUE', 'NAME:' to take one away, '' for none at all, @FILE
 * for a file with one in each line.  `there` is what there is: absent; the object that an
 * endpoint shows; or the array of names that a webhook shows. */
must_check int cli_put_headers(struct cli *cli, struct json_writer *w, bool secrets,
                               struct slice there);
