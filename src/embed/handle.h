/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.h -- what the files of the public API share: the handle.
 *
 * Three parts that share nothing but mail:
 *
 *   the COMMITTER   one thread, the engine, the writing connection;
 *   the READER      a connection of its own behind a lock, so that looking never
 *                   waits for the writer, nor the writer for a slow look;
 *   the POOL        worker threads, which get runs from the committer and send
 *                   back reports.
 *
 * And WATCHERS: whoever waits for a job hangs a note here, and is woken when
 * this process has committed that job's end. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/committer.h"

struct pool; /* pool.h */

/* Someone who waits; lives on the waiting thread's stack. */
struct watcher {
    int64_t job_id; /* 0: the end of any */
    bool woken;
    pthread_cond_t wake;
    struct watcher *next;
};

struct hf {
    enum hf_role role;
    struct settings settings;
    char *url;

    struct sink {
        struct log log; /* first */
        pthread_mutex_t lock;
        hf_log *fn; /* NULL: silence */
        void *arg;
    } sink;
    struct log *log; /* the sink, or NULL: silence */

    struct committer *committer; /* NULL for a reader */
    struct engine *engine;       /* the committer's while there is one */
    atomic_bool ready;
    atomic_bool recovering; /* as of the committer's last turn */

    pthread_mutex_t read_lock;
    struct store *reader; /* under read_lock */

    pthread_mutex_t watch_lock;
    struct watcher *watchers; /* under watch_lock */

    struct hf_handler *handlers; /* our copies */
    size_t handler_count;
    atomic_bool stopping;        /* hf_stop() or hf_close() was called */
    _Atomic(struct pool *) pool; /* NULL until workers are started */
    atomic_bool started;         /* claimed by the one hf_start() or hf_run() */
};

/* ---- answers to the caller ---- */

/* Ends every public function: hands the sentence out, makes one where there is
 * none, and returns `code`.  `error` may be NULL. */
int give(struct hf_error *error, const struct error *why, int code);

/* A text of the caller's: 1 to 500 bytes of UTF-8; absent is fine. */
must_check int text_check(struct slice text, const char *field, struct error *why);
must_check int name_check(const char *name, const char *field, struct error *why);

/* Milliseconds as microseconds; what would overflow stays out of range. */
int64_t ms_to_us(int64_t ms);

/* True if the reserved words are all zero. */
must_check int reserved_check(const uint64_t *words, size_t count, struct error *why);

/* ---- commands ---- */

/* A command for this handle; NULL, and why: -HF_INVALID without a handle,
 * -HF_READONLY for a reader, -HF_NOMEM. */
struct command *command_begin(struct hf *hf, enum op op, struct error *why);
/* Has it applied, and waits. */
must_check int command_run(struct hf *hf, struct command *command, struct error *why);
/* For cleanup(). */
void command_drop(struct command **command);
/* The sentence for a command that was not taken. */
int refuse_submission(int code, struct error *why);

/* ---- reading ---- */

/* Runs `look` on the reader, under its lock; connects again if need be, and then
 * runs it a second time.  `look` may be called twice, so it sets its results
 * only at its end. */
must_check int reader_look(struct hf *hf, int (*look)(struct store *store, void *arg),
                           void *arg, struct error *why);

/* ---- waiting ---- */

/* Condition variables on the monotonic clock, which nobody sets. */
void cond_init(pthread_cond_t *cond);
/* Waits until it is signalled or the time is reached; false if it was the time. */
bool cond_sleep(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_mono_us);

/* A bounded wait: sleeps until it is worth looking again; false when the time is
 * up.  timeout_us -1: for ever. */
struct patience {
    int64_t until_us; /* monotonic */
    int64_t step_us;
};
struct patience patience(int64_t timeout_us);
must_check bool wait_a_little(struct hf *hf, struct watcher *watcher, struct patience *p);

/* The refusal for a call that waits, in a callback; 0 elsewhere. */
must_check int refuse_in_callback(struct hf *hf, struct error *why);

void watch_add(struct hf *hf, struct watcher *watcher, int64_t job_id);
void watch_remove(struct hf *hf, struct watcher *watcher);
/* Sleeps until woken or the monotonic time is reached. */
void watch_sleep(struct hf *hf, struct watcher *watcher, int64_t until_mono_us);
/* A job's end is committed. */
void watch_wake(struct hf *hf, int64_t job_id);

/* ---- the pool ---- */

/* The engine's hooks: called in the committer's thread.  `arg` is the hf. */
void pool_started(void *arg, const struct started *runs, size_t count);
void pool_stop_run(void *arg, int64_t job_id, int type);

/* True in one of the workers' threads. */
bool pool_is_worker(struct hf *hf);

/* No more claims; waits for handlers, at most `grace_us`.  True if all are back. */
must_check bool pool_drain(struct hf *hf, int64_t grace_us);

/* Hands over what is still running, joins the threads, frees the pool. */
void pool_free(struct hf *hf);
