/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h -- the jobs' database in our words: loading, changing, committing.
 *
 * Why it exists: the engine decides what happens to a job; this floor knows
 * how that is written down.  All SQL of Holdfast is in sql.def and is run from
 * here.
 *
 * A transaction is a UNIT OF WORK.  Changes are posted into buffers, one per
 * statement, and written set by set when something must be read that depends
 * on them, or at the commit: a hundred jobs enqueued by a hundred clients are
 * one statement on PostgreSQL, and one prepared statement a hundred times on
 * SQLite.
 *
 *   store_begin(store, now);
 *     ... store_job_insert(), store_job_update(), store_event() ...  buffered
 *     store_flush(store);      when a claim must see what was enqueued
 *     ... store_claim() ...
 *   store_commit(store);       the rest of the buffers, counters, COMMIT
 *
 * Failures are sticky: a posted change cannot fail visibly; store_flush() and
 * store_commit() tell.  Slices given to a posting function must stay until
 * then: put them into `store->arena`, which lives as long as the transaction.
 *
 * Threads: a store belongs to one thread at a time. */
#pragma once

#include "base/arena.h"
#include "db/db.h"
#include "store/model.h"

/* Indexes into the table of statements. */
enum sql {
#define SQL(name, params, text) SQL_##name,
#include "store/sql.def"
#undef SQL
    SQL_COUNT
};

enum store_role {
    STORE_SCHEDULER, /* may migrate, claim, recover */
    STORE_PRODUCER,  /* may create a new store, enqueue, change waiting jobs */
    STORE_READER     /* the twin for lists and pages */
};

struct store_options {
    const char *url;
    enum store_role role;
    int busy_ms;     /* SQLite: patience with another writer */
    const char *vfs; /* SQLite, for tests */
};

/* A queue as this store knows it, with the changes to its counts that the open
 * transaction will write. */
struct queue_entry {
    struct queue queue;
    int64_t delta[COUNTERS];
    bool dirty;
    struct queue_entry *next_dirty;
};

enum {
    STORE_BUFFERS = 23,
    STORE_ID_BLOCK_LEAST = 8,
    STORE_ID_BLOCK = 1024,
    STORE_KEY_BITS = 8192,
    STORE_FRESH = 256
};

struct row_buffer {
    struct db_value *values;
    size_t count, capacity;             /* in rows */
    uint64_t seen[STORE_KEY_BITS / 64]; /* low bits of the keys that are in it */
};

/* What one transaction may hold: a pile of batches with large payloads. */
#define STORE_ARENA_BYTES ((size_t)1 << 30)

struct store {
    struct db *db;
    enum store_role role;
    struct arena arena; /* of the open transaction */
    int64_t now;        /* of the open transaction, microseconds */
    int64_t shard;      /* our row of the counters */
    int failed;         /* sticky -HF_... of the open transaction */
    bool open;          /* a transaction is open */

    struct row_buffer buffers[STORE_BUFFERS];
    struct job *fresh; /* new, and not among the buffers yet: a claim may take them */
    size_t fresh_count;

    int64_t ids[STORE_ID_BLOCK]; /* reserved and not used yet: [id_next, id_count) */
    int id_next, id_count, id_block, id_block_most;
    bool ids_fresh; /* reserved by the open transaction: void if it rolls back */

    struct queue_entry **queues; /* known queues; sorted by id */
    size_t queue_count, queue_capacity;
    struct queue_entry *dirty;
    bool queues_stale; /* read again before use */

    struct project *projects;
    size_t project_count;
    int64_t transactions; /* begun so far, this one included */
};

/* Opens a store and brings its schema up to date (scheduler), makes a new one
 * where there is none (scheduler, producer), or refuses with a sentence: a
 * database that is not ours (-HF_FOREIGN), of another version (-HF_VERSION),
 * read-only, damaged, unreachable. */
must_check int store_open(const struct store_options *options, struct error *error,
                          struct store **ret);
void store_close(struct store *store);

/* Works inside the application's own transaction on its own sqlite3 handle:
 * no begin, no commit.  Refuses a store of another version or without WAL and
 * synchronous=FULL, for then an acknowledged job could be lost (I1). */
must_check int store_borrow_sqlite(void *handle, int64_t now, struct error *error,
                                   struct store **ret);

/* The schema version this program writes. */
int store_schema_version(void);

/* ---- transactions ---- */
must_check int store_begin(struct store *store, int64_t now);
must_check int store_flush(struct store *store);
/* All but new jobs, which store_claim() can take from memory: a job that is begun in the
 * transaction that makes it is written once, as running, and never stands in the index
 * of those that wait.  SQLite only, and only if nothing else looks at jobs meanwhile. */
must_check int store_flush_but_fresh(struct store *store);
void store_post_fresh(struct store *store);       /* for the store's own files */
must_check int store_commit(struct store *store); /* rolls back when it fails */
void store_rollback(struct store *store);
/* Ends a transaction that has only looked: what it learnt stays true. */
void store_end_looking(struct store *store);
/* A reader's transaction around `look`, in one snapshot.  Connects again if need be,
 * and then looks a second time: it sets its results only at its end.  -HF_NOT_FOUND is
 * the looker's own; other failures have a sentence. */
must_check int store_look(struct store *store,
                          int (*look)(struct store *store, void *arg), void *arg,
                          struct error *error);
must_check int store_savepoint(struct store *store);
must_check int store_savepoint_keep(struct store *store); /* flushes first */
must_check int store_savepoint_undo(struct store *store); /* drops the buffers too */

/* Remembers a failure; the first one stays.  Returns `r`. */
int store_fail(struct store *store, int r);

/* Appends a row to a buffered statement (see buffered[] in store.c). */
void store_post(struct store *store, enum sql sql, const struct db_value *values);

/* A new id; 0 and sticky failure if none can be had. */
int64_t store_id(struct store *store);

/* Reads one integer from a statement's first row; `none` when there is no row
 * or it is NULL. */
must_check int store_int(struct store *store, enum sql sql, const struct db_value *values,
                         int64_t none, int64_t *ret);

must_check int store_meta_get(struct store *store, const char *name, struct slice *ret);
must_check int store_meta_set(struct store *store, const char *name, struct slice value);

/* ---- projects and queues ---- */
/* -HF_NOT_FOUND.  The store may remember it; see store_project_enter(). */
must_check int store_project(struct store *store, struct slice name, int64_t *ret);
/* The project as it is in this transaction, into which something new is about to be
 * put: it cannot be marked as being deleted before the commit.  The caller refuses if
 * it is marked already.  Asked once in a transaction.  -HF_NOT_FOUND. */
must_check int store_project_enter(struct store *store, struct slice name,
                                   struct project *ret);
/* For changing it. */
must_check int store_project_lock(struct store *store, struct slice name,
                                  struct project *ret);
/* Pauses all schedules of a project with it, or lets them go on; how many. */
must_check int store_project_pause(struct store *store, int64_t id, bool paused,
                                   int64_t *ret);
/* The first one above `after` that is being deleted and that nobody else is at;
 * -HF_NOT_FOUND. */
must_check int store_project_deleting(struct store *store, int64_t after,
                                      struct project *ret);

/* What is in a project.  Jobs have no index by it: they are counted in steps. */
struct project_holds {
    int64_t schedules, endpoints, webhooks, tokens; /* endpoints are schedules too */
    int64_t jobs_live, jobs_over;
};
/* All but the jobs. */
must_check int store_project_holds(struct store *store, int64_t id,
                                   struct project_holds *ret);
/* Adds those among the `rows` jobs behind *after, and moves it; 0 behind the last. */
must_check int store_project_jobs(struct store *store, int64_t id, size_t rows,
                                  int64_t *after, struct project_holds *ret);
/* Writes `paused` and `deleting`. */
must_check int store_project_update(struct store *store, const struct project *project);
must_check int store_project_create(struct store *store, struct slice name, int64_t *ret);
const char *store_project_name(struct store *store, int64_t id);
/* Reads all projects anew; they are in store->projects then. */
must_check int store_projects_reload(struct store *store);

/* The queue of that name; made when it is not there and `create`, else
 * -HF_NOT_FOUND.  The entry stays valid until the store is closed. */
must_check int store_queue(struct store *store, struct slice name, bool create,
                           struct queue_entry **ret);
/* By id: NULL if there is none such. */
struct queue_entry *store_queue_by_id(struct store *store, int64_t id);
/* Writes the settings of `queue`. */
must_check int store_queue_update(struct store *store, struct queue_entry *entry);
/* Reads all queues anew, since other processes change them too. */
must_check int store_queues_reload(struct store *store);

/* Since when the job that is next in line has been due; 0 if none is queued. */
must_check int store_queue_oldest(struct store *store, int64_t queue_id, int64_t *ret);

/* Adds to a queue's counts, in this transaction.  store_count_move() is what a
 * change of state does to them. */
void store_count(struct store *store, int64_t queue_id, enum counter counter, int64_t by);
void store_count_move(struct store *store, int64_t queue_id, int from_state,
                      int to_state);

struct queue_counts {
    int64_t queue_id;
    int64_t count[COUNTERS];
};
must_check int store_counts(struct store *store, struct arena *arena,
                            struct queue_counts **ret, size_t *ret_count);
/* Takes the rows of one who counts no more, a node or a producer that ended, out of
 * the counters: the caller counts them again.  None: *ret_count is 0. */
must_check int store_counts_take(struct store *store, struct arena *arena,
                                 struct queue_counts **ret, size_t *ret_count);

/* What a claim may take from a queue now, read in its own transaction, under
 * the queue's gate: so a limit holds over nodes, and no claim slips past a hold
 * that is being made.  Claims of queues without a limit share the gate; claims
 * of limited queues and the makers of holds have it to themselves. */
struct gate {
    int64_t queue_id; /* in */
    bool exclusive;   /* in */
    bool known;       /* out: the queue exists */
    bool paused;
    int64_t concurrency, busy, reservation_id;
    int64_t held_job_id; /* the one job that the hold lets through; 0: none */
};
/* Passes the gates of queues, which are sorted by id, so that two nodes cannot
 * wait for each other. */
must_check int store_gates(struct store *store, struct gate *gates, size_t count);

/* ---- jobs and runs ---- */

/* A job with its run; run.job_id is 0 where there is none. */
struct job_row {
    struct job job;
    struct run run;
};

void store_job_insert(struct store *store, const struct job *job);
/* Writes what may change of a job.  `old_state` guards: the row is left alone if
 * the state in the store is another. */
void store_job_update(struct store *store, const struct job *job, int old_state);

/* Loads jobs for changing (locked on PostgreSQL).  Ids that are not there are
 * missing from the result, which is sorted by id. */
must_check int store_jobs_load(struct store *store, const int64_t *ids, size_t count,
                               struct job_row **ret, size_t *ret_count);
/* The live job that holds a key, for changing; -HF_NOT_FOUND. */
must_check int store_job_by_key(struct store *store, int64_t project_id, struct slice key,
                                struct job_row *ret);
/* One job for looking at, into `arena`, its payload included; -HF_NOT_FOUND. */
must_check int store_job_get(struct store *store, int64_t id, struct arena *arena,
                             struct job_row *ret);
/* Only its state; -HF_NOT_FOUND. */
must_check int store_job_state(struct store *store, int64_t id, int *ret);
/* The retry of a job; -HF_NOT_FOUND. */
must_check int store_job_retry_of(struct store *store, int64_t id, struct arena *arena,
                                  struct job_row *ret);
/* Jobs that somebody looks for; 0 and absent stand for any. */
struct job_filter {
    int64_t before;  /* ids below it; 0: from the newest on */
    unsigned states; /* 1u << JOB_QUEUED | ... */
    enum { FINAL_ANY, FINAL_YES, FINAL_NO } final; /* the dead-letter view */
    int64_t queue_id, project_id, schedule_id;
    struct slice kind, unique_key;
    struct slice text; /* in small letters; see store_list.c */
    int64_t created_after, created_before;
    const struct slice (*metadata)[2]; /* names and values that must be there */
    size_t metadata_count;
    size_t limit;
};
/* One step of a search: up to `limit` jobs, newest first, having looked at about
 * `rows` rows at most.  `next` is the `before` to go on from, also behind an empty
 * page; 0: there is no more.  Payloads that are apart stay there. */
struct job_page {
    struct job_row *rows;
    size_t count;
    int64_t next;
};
must_check int store_jobs_page(struct store *store, const struct job_filter *filter,
                               size_t rows, struct arena *arena, struct job_page *ret);
/* As many steps as it takes to fill a page. */
must_check int store_jobs_list(struct store *store, const struct job_filter *filter,
                               struct arena *arena, struct job_row **ret,
                               size_t *ret_count);
must_check int store_payload(struct store *store, struct job *job, struct arena *arena);

/* Takes up to `limit` ready jobs, in order; they are running from then on and
 * need their runs inserted in the same transaction. */
struct claim {
    int64_t queue_id;
    int class, lane;
    size_t limit;
    int priority;                       /* 0: any, and no bounds on the position */
    int64_t from_position, to_position; /* half open */
    int64_t only_kinds_of;              /* owner id: only its kinds; 0: any */
    char *const *kinds;                 /* fresh jobs of these kinds are of the class; */
    size_t kind_count;                  /* none: no fresh job is taken */
};
must_check int store_claim(struct store *store, const struct claim *claim,
                           struct job **ret, size_t *ret_count);
/* Takes one queued job by its id; -HF_CONFLICT if it is not queued. */
must_check int store_claim_one(struct store *store, int64_t id, struct job *ret);

/* The same for the job of a hold, if it is of that queue and class, and of a kind of
 * `owner_id` (0: any). */
must_check int store_claim_held(struct store *store, int64_t id, int64_t queue_id,
                                int class, int64_t owner_id, struct job *ret);

void store_run_insert(struct store *store, const struct run *run);
/* A run that never was, for a job that was marked running without one. */
void store_run_insert_failed(struct store *store, const struct run *run);
void store_run_finish(struct store *store, const struct run *run);
/* The deadline of the open run that is over it the longest, among the first ten thousand;
 * 0: none is. */
must_check int store_run_overdue(struct store *store, int64_t now, int64_t *ret);

/* What its command printed, in the transaction that ends the run. */
void store_output_insert(struct store *store, int64_t job_id, struct slice output);
/* -HF_NOT_FOUND: nothing was kept. */
must_check int store_output_get(struct store *store, int64_t job_id, struct arena *arena,
                                struct slice *ret);

/* Completes many runs at once: those of `owner_id` that are not finished.
 * done[i] tells which were.  Who is sure of a run need not have it looked up, on SQLite:
 * it says `known`, and what the rows hold; if they do not, the flush is -HF_CONFLICT. */
struct completion {
    int64_t job_id, owner_id;
    struct slice result;
    bool known, done;
    int old_state;
    int64_t queue_id, project_id, started_at;
    struct slice kind; /* absent where it was known, and not looked up */
};
must_check int store_complete(struct store *store, struct completion *completions,
                              size_t count);

/* Moves due jobs from scheduled to queued.  Returns how many, or negative. */
must_check int64_t store_promote(struct store *store, size_t limit);

/* ---- for explaining, store_explain.c ---- */

/* How many of its queue, class and lane stand before a queued job; `most` if there
 * are as many, or more. */
must_check int store_ready_before(struct store *store, const struct job *job, size_t most,
                                  size_t *ret);
/* Who is alive and could execute jobs of a kind. */
struct executors {
    int64_t nodes, workers;
    int64_t nodes_of_kind; /* that have a handler or a command for it */
};
must_check int store_executors(struct store *store, struct slice kind,
                               struct executors *ret);
/* The live job that has this job's source, for looking at; -HF_NOT_FOUND. */
must_check int store_key_holder(struct store *store, const struct job *job,
                                int64_t *ret_id, int *ret_state);

/* ---- reading helpers shared by the store's files ---- */
/* A text of the row, kept in the arena; absent stays absent. */
struct slice store_dup_text(struct db_rows *rows, int column, struct arena *arena);
void store_read_job(struct db_rows *rows, int column, struct arena *arena,
                    struct job *ret);
void store_read_run(struct db_rows *rows, int column, struct arena *arena,
                    struct run *ret);
void store_read_project(struct db_rows *rows, struct project *ret);
enum { JOB_COLUMN_COUNT = 33, RUN_COLUMN_COUNT = 17 };

/* ---- events ---- */
void store_event(struct store *store, const struct event *event);
/* Events of a job, of a recovery, or all, after an id, oldest first. */
enum event_scope { EVENTS_ALL, EVENTS_OF_JOB, EVENTS_OF_RECOVERY };
must_check int store_events(struct store *store, enum event_scope scope, int64_t id,
                            int64_t after, size_t limit, struct arena *arena,
                            struct event **ret, size_t *ret_count);

/* Those with these ids, by id; and the id of the last one, 0 if there is none. */
must_check int store_events_at(struct store *store, const int64_t *ids, size_t count,
                               struct arena *arena, struct event **ret,
                               size_t *ret_count);
must_check int store_event_last(struct store *store, int64_t *ret);

/* ---- owners ---- */
struct id_list {
    int64_t *ids;
    int64_t *extra; /* missed beats, or queue ids; see each */
    size_t count;
};
must_check int store_owner_insert(struct store *store, const struct owner *owner,
                                  bool *ret_inserted);
must_check int store_owner_get(struct store *store, int64_t id, struct arena *arena,
                               struct owner *ret);
/* The same, and nobody else can renew or end it before this transaction is over. */
must_check int store_owner_lock(struct store *store, int64_t id, struct arena *arena,
                                struct owner *ret);
must_check int store_owner_by_session(struct store *store, struct slice session,
                                      struct arena *arena, struct owner *ret);
/* Many at once; they are distinct and in the order of session_by_name(). */
struct session_owner {
    struct slice name;
    int64_t owner_id; /* out: 0 if nobody of that name is alive */
};
int session_by_name(const void *a, const void *b);
must_check int store_sessions(struct store *store, struct session_owner *sessions,
                              size_t count);
/* Those alive, or those that have a run open, whatever their state. */
must_check int store_owners(struct store *store, bool with_open_runs, struct arena *arena,
                            struct owner **ret, size_t *ret_count);
/* How many runs each owner has open: `ids` are theirs, `extra` the numbers. */
must_check int store_run_counts(struct store *store, struct arena *arena,
                                struct id_list *ret);
/* What the operator asks of a remote worker; *ret_told: it is alive. */
must_check int store_owner_command(struct store *store, int64_t id, int command,
                                   bool *ret_told);
/* Renews; -HF_LATE if the owner is no longer alive in the store.  `ret_command`
 * is what the operator asks of a remote worker (0 run, 1 quiet, 2 stop). */
must_check int store_owner_beat(struct store *store, int64_t id, int64_t lease_until,
                                int *ret_command);
/* Ends an owner that is alive; *ret_ended tells whether it was. */
must_check int store_owner_end(struct store *store, int64_t id, int state,
                               bool *ret_ended);

/* Lists ids: of open runs of an owner; of those whose deadline or staleness is
 * due; of busy jobs; of failed jobs whose retry is pending; of expired ones. */
must_check int store_open_runs(struct store *store, int64_t owner_id, int64_t after,
                               size_t limit, struct arena *arena, struct id_list *ret);
must_check int store_attention(struct store *store, int64_t owner_id, int64_t now,
                               size_t limit, struct arena *arena, struct id_list *ret);
must_check int store_claimed_before(struct store *store, int64_t owner_id,
                                    struct slice claim_id, struct arena *arena,
                                    struct id_list *ret);
must_check int store_busy_jobs(struct store *store, int64_t after_queue, int64_t after_id,
                               size_t limit, struct arena *arena, struct id_list *ret);
must_check int store_pending_retries(struct store *store, int64_t after, size_t limit,
                                     struct arena *arena, struct id_list *ret);
must_check int store_expired(struct store *store, int64_t now, size_t limit,
                             struct arena *arena, struct id_list *ret);

/* ---- reservations ---- */
must_check int store_reservation_insert(struct store *store, const struct reservation *r);
must_check int store_reservation_get(struct store *store, int64_t id, struct arena *arena,
                                     struct reservation *ret);
/* The same for looking only. */
must_check int store_reservation_see(struct store *store, int64_t id, struct arena *arena,
                                     struct reservation *ret);
/* Those not ended, oldest first; queue_id 0 for all queues. */
must_check int store_reservations(struct store *store, int64_t queue_id,
                                  struct arena *arena, struct reservation **ret,
                                  size_t *ret_count);
/* -HF_CONFLICT if it is not in `old_state` any more. */
must_check int store_reservation_update(struct store *store, const struct reservation *r,
                                        int old_state);

/* ---- tokens ---- */
must_check int store_tokens(struct store *store, struct arena *arena, struct token **ret,
                            size_t *ret_count);
must_check int store_token_insert(struct store *store, const struct token *token);
/* -HF_NOT_FOUND. */
must_check int store_token_delete(struct store *store, int64_t id);

/* ---- recoveries ---- */
struct recovery_row {
    int64_t id, owner_id, started_at, finished_at;
    int type;
    struct slice report; /* JSON */
};
/* Newest first, those below the id `before`; 0: from the newest on. */
must_check int store_recoveries(struct store *store, int64_t before, size_t limit,
                                struct arena *arena, struct recovery_row **ret,
                                size_t *ret_count);
/* -HF_NOT_FOUND. */
must_check int store_recovery_get(struct store *store, int64_t id, struct arena *arena,
                                  struct recovery_row *ret);
