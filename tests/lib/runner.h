/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.h -- what the harness's own files share.
 *
 * Three processes' worth of knowledge meet here: the runner forks one process
 * per test, and a test may fork more.  What a test must tell its runner goes
 * into one shared page, because a test may end without a word. */
#pragma once

#include <stdatomic.h>

#include "base/base.h"

struct test_shared {
    atomic_bool returned; /* the body came to its end */
    atomic_bool failed;   /* a check failed, in whatever process */
    atomic_bool skipped;
    atomic_int databases; /* made on the server so far; outlives the test */
    char why[256];        /* of a skip */
};

extern struct test_shared *test_shared;

/* A string that lives as long as the test. */
const char *test_text(const char *format, ...) printf_like(1, 2);

/* The environment's word for the server, or NULL if the tests run without. */
const char *test_server_url(void);

/* Called by the runner, at the end: takes the test databases away. */
void test_db_drop_all(void);
