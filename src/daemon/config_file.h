/* SPDX-License-Identifier: Apache-2.0
 *
 * config_file.h -- what a configuration file says, written into a configuration.
 *
 * A file begins with settings of the whole server, as `name = value`; then come
 * sections, [queue NAME] and [command KIND], with keys of their own.  The grammar of
 * a line is config_line.h's.
 *
 * Nothing is overlooked: a name that is none, a section that is none, the same thing
 * said twice, a value that cannot be; each is a problem with its line, and reading
 * goes on, so that all are told in one go. */
#pragma once

#include "daemon/config.h"

/* Notes a problem; the sentence begins with its place, such as "holdfast.conf:12: ". */
void config_problem(struct config_problems *problems, int code, const char *field,
                    const char *format, ...) printf_like(4, 5);

/* Reads the file at `path`, which `named_by` ("--config", "HOLDFAST_CONFIG") names,
 * into a configuration that holds the defaults. */
void config_file_read(struct config *config, const char *path, const char *named_by,
                      struct config_problems *problems);

/* The same for text that is there already; places are in `config->file`. */
void config_text_read(struct config *config, struct slice text,
                      struct config_problems *problems);
