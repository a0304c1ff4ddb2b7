/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h -- the engine with its threads, seen from an event loop.
 *
 * Why it exists: everything that belongs to a connection or a child process
 * belongs to the loop's thread, which must never wait for a disk; the engine
 * belongs to the committer's, which waits for nothing else.  So the loop sends:
 *
 *   node_submit(node, command)   a change; answered when it is on disk (I1)
 *   node_look(node, look)        a question to a read-only twin of the store
 *
 * and gets the answers, and what the engine decided meanwhile, as calls in its
 * own thread.  Letters of one sender arrive in the order they were sent: what a turn
 * of the committer decided is told after its answers and before those of the next.
 *
 * There are two readers.  A look by id must not wait behind somebody's search
 * through a million rows.
 *
 * Threads: all functions are for the loop's thread. */
#pragma once

#include "engine/committer.h"

struct event_base;
struct node;

/* A letter to the loop knows how it is opened. */
struct letter {
    struct mail mail;
    void (*open)(struct node *node, struct letter *letter);
};

/* What the engine knew after its last turn; `away` is known at once. */
struct node_status {
    bool ready;      /* workers may start */
    bool recovering; /* a recovery is under way */
    int broken;      /* -HF_...: the store is not trusted any more; 0 */
    int away;        /* -HF_...: it does not take what is written, for now; 0 */
    int found_dead;  /* nodes that had not signed off when this one came */
    int64_t owner_id;
    int64_t started_at;
    int64_t recovered;       /* jobs the recovery under way has resolved so far */
    int64_t lease_until;     /* PostgreSQL, by the database's clock; 0 */
    int64_t lease_mono;      /* the same moment by our own clock_mono_us(); 0 */
    int64_t throttled_until; /* the gentle start; 0: not throttled */
    size_t run_count;
    size_t capacity; /* as the engine knows it: 0, and nothing more will be started */
    struct engine_totals totals;
};

/* Called in the loop's thread; any may be NULL.  What they point to is theirs
 * only until they return. */
struct node_calls {
    void *arg;
    void (*started)(void *arg, const struct started *run);
    void (*stop_run)(void *arg, int64_t job_id, int type);
    /* Something happened: `queue` and `project` are names, or NULL. */
    void (*told)(void *arg, const struct event *event, const char *queue,
                 const char *project);
    /* Work may be ready for remote workers in these queues; NULL: in any. */
    void (*ready)(void *arg, const char *const *queues, size_t count);
    /* See engine_hooks.deliveries_due.  Not set: this node sends no webhooks. */
    void (*deliveries_due)(void *arg);
    void (*webhooks_changed)(void *arg);
    /* The status has changed in something others wait for. */
    void (*turned)(void *arg, const struct node_status *status);
    /* In the committer's thread: see engine_hooks.adopt. */
    bool (*adopt)(void *arg, const struct job_row *row);
};

struct node_options {
    struct engine_options engine; /* its hooks are set by the node */
    struct event_base *loop;
    size_t commands_max; /* that may wait for their answer */
    struct node_calls calls;
};

/* Opens the store; nothing runs yet.  The sentence says why not. */
must_check int node_open(const struct node_options *options, struct error *error,
                         struct node **ret);

/* Starts the threads: recovery begins, commands are taken. */
must_check int node_start(struct node *node, struct error *error);

/* Ends the threads, answers what is under way, hands over what still runs but
 * for what node_leave_runs() named, and closes the store.  Calls may still come
 * from inside it; what they submit is -HF_CLOSED.  NULL is fine. */
void node_close(struct node *node);

/* Closes without a word to the store, as a crash would: for a second signal. */
void node_abandon(struct node *node);

/* ---- changes ---- */

/* `command->done` will be called in the loop's thread, never from inside this.
 * -HF_BUSY (too much is under way) or -HF_CLOSED: the command stays the caller's. */
must_check int node_submit(struct node *node, struct command *command);
/* The same for the outcome of a run and its progress: never -HF_BUSY. */
must_check int node_report(struct node *node, struct command *command);

/* How many runs the executors take at once; above 0, workers start.  Does not wait:
 * it holds behind what was submitted before, and when turned() shows it.  After
 * that with 0, no more runs are told. */
must_check int node_set_capacity(struct node *node, size_t capacity);
/* See engine_leave_run(); does not wait either, but comes before node_close(). */
must_check int node_leave_runs(struct node *node, const int64_t *job_ids, size_t count);

/* What this node executes from now on, see engine_set_kinds(); all of it is borrowed
 * until `done` is called for the next, or the node is closed.  `done` is called in the
 * loop's thread when the engine has it: what was set before is nobody's then. */
must_check int node_set_kinds(struct node *node, const char *const *kinds, size_t count,
                              const struct kind_policy *policies, size_t policy_count,
                              void (*done)(void *arg, int result), void *arg);

/* ---- questions ---- */

enum reader { READER_QUICK, READER_LONG, READERS };

/* Embed it first in a question of your own. */
struct look {
    struct letter letter; /* first */
    struct node *node;
    /* In the reader's thread, inside one snapshot.  It may be called a second
     * time after a lost connection: set results at the end. */
    int (*ask)(struct store *store, struct look *look);
    /* In the loop's thread. */
    void (*done)(struct look *look);
    int result;         /* of ask(), or why it was not asked */
    struct error error; /* the sentence, if there is one */
};

/* 0: done() will be called.  -HF_BUSY: too many questions are waiting.  -HF_CLOSED. */
must_check int node_look(struct node *node, enum reader reader, struct look *look);

/* ---- the state of things ---- */

void node_status(struct node *node, struct node_status *ret);

/* How runs have ended on this node, by kind: see kind_totals_read(). */
size_t node_kinds(struct node *node, struct kind_total ret[KIND_PLACES]);

/* Is the committer alive?  Its pulse, see committer_pulse(); it rises by itself only
 * while there is something to do, so ask for a beat, and look again later. */
size_t node_pulse(const struct node *node);
void node_ask_pulse(struct node *node);

/* The engine's settings, as they were given. */
const struct settings *node_settings(const struct node *node);
