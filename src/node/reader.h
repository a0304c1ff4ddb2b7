/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.h -- a thread with a read-only twin of the store, that answers looks.
 *
 * Threads: any may ask; `answered` is called in the reader's thread. */
#pragma once

#include "node/node.h"

struct reader_thread;

must_check int reader_new(const char *url, void (*answered)(struct look *look),
                          struct error *error, struct reader_thread **ret);

/* Answers what was asked, and ends.  NULL is fine. */
void reader_free(struct reader_thread *reader);

/* 0, or -HF_BUSY if too many are waiting. */
must_check int reader_ask(struct reader_thread *reader, struct look *look);
