/* SPDX-License-Identifier: Apache-2.0
 *
 * relay.h -- a line to the test's PostgreSQL that breaks where the test says.
 *
 * It is a process with a socket of its own in front of the server's.  It counts
 * how often the client says a certain word, over all connections, and at some of these
 * it cuts the line: nobody says anything, the bytes just stop coming.  What else happens
 * at that moment (a kill, a crash of the server) is the test's. */
#pragma once

#include <stdatomic.h>
#include <sys/types.h>

#include "test.h"

enum relay_cut {
    RELAY_NOT_SENT,     /* the server never sees the word */
    RELAY_NOT_ANSWERED, /* it does, and nobody waits for its answer */
    RELAY_NOT_TOLD,     /* it has answered, and the client does not hear of it */
    RELAY_CUTS
};

/* Shared with the process of the relay: it may be changed while nobody talks. */
struct relay {
    struct slice word;
    enum relay_cut cut;
    size_t nth;           /* cut at this one, counted from 1; 0: never */
    size_t every;         /* and at every so many after it; 0: only once */
    atomic_bool resting;  /* nothing is counted, and nothing cut */
    atomic_size_t passed; /* words seen since relay_aim() */
    atomic_size_t cuts;
    void (*meanwhile)(void *arg); /* called in the relay before it cuts; may be NULL */
    void *arg;                    /* in memory that both share */
    pid_t process;
    int listener;
    char url[1024]; /* leads through the relay */
};

/* Makes a relay in front of the server of `url`; it cuts nothing yet. */
struct relay *relay_start(const char *url, struct slice word);

/* From the next word on, see struct relay. */
void relay_aim(struct relay *relay, enum relay_cut cut, size_t nth, size_t every);

void relay_end(struct relay *relay);

/* A COMMIT of libpq's: the NUL tells it from READ COMMITTED. */
#define RELAY_COMMIT ((struct slice){ "COMMIT", sizeof("COMMIT") })

/* Memory that is shared with the processes that are forked from now on. */
void *test_shared_memory(size_t bytes);
