/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.h -- makes a database ours, or says why it is not.
 *
 * Migrations are numbered, forward only, one transaction each; the scheduler
 * runs them when it opens a store.  Producers and readers never migrate. */
#pragma once

#include "store/store.h"

/* Checks what is there; makes or migrates it as the store's role allows. */
must_check int schema_prepare(struct store *store, const char *url, struct error *error);

/* For a borrowed handle: our format, our version, and safe settings. */
must_check int schema_accept(struct store *store, struct error *error);
