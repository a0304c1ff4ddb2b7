/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.h -- the rules, applied: piles of commands and duties of time.
 *
 * Two ways in, both called by one thread (the committer, or a test):
 *
 *   engine_apply(engine, commands)   one pile, one transaction, answers after it
 *   engine_tick(engine)              what time has made due: promoting, reaping,
 *                                    recovery chunk by chunk, beats, pruning
 *
 * PILE.  One transaction in four steps: completions (set-based, they load
 * nothing); everything else in the order of arrival, over jobs loaded in one
 * go; flush, and the same for completions that have arrived meanwhile; claims,
 * which see what was enqueued a moment before.  If the pile
 * fails it is applied a second time with a savepoint per command, so that one
 * bad command fails alone.  If the answer to COMMIT is lost, the pile's number
 * in the owner's row tells whether it is in.
 *
 * TIME, randomness and disk come in as parameters: with a virtual clock and a
 * seeded rng the whole engine runs in a simulator.
 *
 * This header is for the files of this floor and for tests.  The way in from
 * outside is holdfast.h (a thread around it: committer.h). */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/lockfile.h"
#include "base/log.h"
#include "base/rng.h"
#include "engine/command.h"
#include "engine/dispatch.h"
#include "engine/kind_totals.h"
#include "engine/retry.h"
#include "engine/schedule/zones.h"
#include "engine/settings.h"
#include "engine/totals.h"
#include "engine/transition.h"
#include "engine/webhook/subscriptions.h"
#include "store/store.h"

/* What the engine calls when it has decided something others must act upon.
 * All are called after the commit that made it true, in the applying thread;
 * any may be NULL. */
struct engine_hooks {
    void *arg;
    /* Runs that this node now executes.  Slices live until the call returns. */
    void (*started)(void *arg, const struct started *runs, size_t count);
    /* A run of this node should stop: asked by a person, over its deadline, or
     * the node lost its lease.  `type` is ERROR_CANCELLED, _TIMEOUT, _CRASH. */
    void (*stop_run)(void *arg, int64_t job_id, int type);
    /* Work may be ready for remote workers in this queue. */
    void (*ready)(void *arg, int64_t queue_id);
    /* What happened, stored or not (see tell.c); ids of events are not known here. */
    void (*told)(void *arg, const struct event *events, size_t count);
    /* At start: may this run of a dead node go on under the new one?  True when
     * it was found alive (executors of commands answer this). */
    bool (*adopt)(void *arg, const struct job_row *row);
    /* Deliveries are due, whichever node wrote them: OP_DELIVERIES takes them.  Also
     * called again while some are left; not set: this node sends none. */
    void (*deliveries_due)(void *arg);
    /* Webhooks are not as they were: what was taken and not sent yet should be given
     * back, and taken as they are now. */
    void (*webhooks_changed)(void *arg);
    /* The store does not take what is written, or does again: engine->away has changed.
     * At once, also in the middle of a pile that waits for it. */
    void (*away)(void *arg, int code);
};

/* What a kind's jobs get where they do not say otherwise themselves; before the
 * queue's settings and the global ones.  Unset: -1, NULL. */
struct kind_policy {
    const char *kind, *queue, *retry_delays;
    int64_t max_execution_us;
    int max_retries, on_crash;
};

struct engine_options {
    const char *url;
    const char *node_name;           /* NULL: host name and pid */
    const char *state_dir;           /* may be NULL */
    bool producer;                   /* enqueue and look only */
    const struct settings *settings; /* NULL: defaults */
    const struct clock *clock;       /* NULL: the machine's */
    struct log *log;                 /* may be NULL */
    uint64_t seed;                   /* 0: from the system */
    const struct host *host;         /* NULL: ask the system; tests pretend */
    const char *const *kinds;        /* that this node executes */
    size_t kind_count;
    enum executor executor; /* of those kinds; 0: handlers.  http has its own */
    const struct kind_policy *policies; /* borrowed, as long as the engine lives */
    size_t policy_count;
    struct engine_hooks hooks;
    const char *vfs;      /* SQLite, for tests */
    int busy_ms;          /* SQLite: 0 for the default */
    const char *zone_dir; /* borrowed; where zone files are; NULL: the system's */
};

/* A run that this node executes, in memory. */
struct local_run {
    int64_t job_id, queue_id, project_id, owner_id, started_at, deadline_at;
    int64_t endpoint_id; /* 0: of none */
    size_t kind;         /* its place, kind_totals.h */
    int lane;
    bool stop_told;
    bool ended; /* in the open transaction */
};

struct recovery;      /* recovery.h */
struct endpoint_news; /* endpoint.h */

struct engine {
    struct store *store;
    struct settings settings;
    const struct clock *clock;
    struct log *log;
    struct rng rng;
    struct host host;
    struct engine_hooks hooks;
    struct latecomers { /* completions that may join the pile under way, see pile.c */
        size_t (*take)(void *arg, struct command **to, size_t most); /* or NULL */
        void *arg;
    } latecomers;
    bool producer;
    char name[200];         /* of the node */
    char *state_dir;        /* or NULL */
    int64_t owner_id;       /* this node's; 0 for a producer on SQLite */
    int64_t pile;           /* number of the last one */
    atomic_size_t pulse;    /* rises with each step; the one thing others may read */
    int64_t now_last;       /* time never goes back for us */
    int64_t now_mono;       /* monotonic, at that moment */
    struct {                /* on PostgreSQL, whose clock decides about leases: its */
        int64_t time, mono; /* time at that moment of our monotonic clock; 0: not asked */
    } database;
    int broken;       /* -HF_IO...: not trusted until reopened; 0 */
    int away;         /* -HF_...: the store does not take what is written; 0 */
    int failure_told; /* -HF_...: the last failed duty the log was told of; 0 */
    int64_t failure_told_at;
    bool unsure;           /* whether pile number `pile` is in: its notes wait for that */
    struct lockfile *lock; /* SQLite scheduler: proof that we are alone */

    /* start */
    int64_t started_at;        /* positions before it are old work */
    int64_t registered_at;     /* who ended later died while we were there */
    int found_dead;            /* nodes that had not signed off: the last stop was none */
    bool ready;                /* recovery is through: workers may start */
    struct recovery *recovery; /* under way, or NULL */

    /* dispatch */
    struct dispatch dispatch;
    char **kinds; /* that this node executes */
    enum executor executor;
    const struct kind_policy *policies;
    size_t policy_count;
    size_t kind_count;
    bool kinds_changed; /* and not written to the store yet */
    size_t capacity;    /* how many runs this node's executors take at once */
    struct local_run *runs;
    size_t run_count, run_capacity;

    struct subscriptions subscriptions;
    int64_t sent_last;    /* the webhook that had the last turn: others come first */
    int64_t told_version; /* of webhooks, as the sender knows them */

    /* times at which duties are due, wall microseconds */
    int64_t next_due; /* earliest scheduled job known; INT64_MAX: none */
    int64_t next_expiry;
    int64_t next_fire; /* when a schedule is to be looked at */
    int64_t next_poll, next_beat, next_sweep, next_prune;
    int64_t next_project;  /* one is being deleted; INT64_MAX: none known */
    int64_t next_dispatch; /* the gentle start lets go of more */
    int64_t next_delivery; /* earliest known; INT64_MAX: none, or nobody sends here */
    int64_t prune_after;   /* cursor of retention */
    int64_t prune_fires_after;
    int64_t prune_deliveries_after;
    struct reclass { /* cursor through the ready index, see kinds.c */
        bool under_way;
        size_t queue; /* index among the known queues; then the scheduled jobs */
        int class, lane, priority;
        int64_t position, id;
    } reclass;
    int64_t lease_until;          /* ours, PostgreSQL */
    int64_t takeover_after;       /* dead owners up to this one have rows that cannot be
                               resolved: the sweep tries them again */
    int64_t takeover_again;       /* when commands of theirs are over; 0: none runs */
    int64_t judge_from;           /* no remote lease or deadline is judged before */
    int64_t tick_wall, tick_mono; /* of the last tick: jumps and suspends */
    int64_t tick_sleep;           /* that it asked for */
    bool holds;                   /* some reservation is open */
    struct zones zones;           /* of schedules */
    struct deletion {             /* of a project, project_delete.c */
        int64_t project_id;
        int64_t after;       /* how far this pass has come */
        int64_t found;       /* jobs of it, in this pass */
        int64_t removed;     /* by us, so far */
        bool changed;        /* something, in this pass */
        int waits;           /* passes in a row that could only wait for runs */
        int64_t waits_up_to; /* projects up to this one had their turn, and wait */
    } deletion;

    /* What the open transaction has decided for this process; it becomes true,
     * and the hooks are told, with the commit (pile.c). */
    struct arena pending_arena;
    struct started *fresh; /* claimed by this node */
    size_t fresh_count, fresh_capacity;
    struct note {
        int64_t job_id;
        int type; /* NOTE_ENDED, or the error type of a stop */
    } * notes;
    size_t note_count, note_capacity;
    struct event *told; /* only where somebody listens */
    size_t told_count, told_capacity;
    struct endpoint_news *news; /* of endpoints, endpoint.h */
    size_t news_count, news_capacity;
    struct kind_note *kind_notes; /* runs that have ended */
    size_t kind_note_count, kind_note_capacity;
    bool deliveries_noted; /* some are due with the commit */

    /* for people and metrics */
    struct engine_totals totals;
    int64_t commit_us;            /* how long the last COMMIT took */
    struct engine_work work_kept; /* what the last commit made true */
    struct kind_totals kind_totals;
};

must_check int engine_open(const struct engine_options *options, struct error *error,
                           struct engine **ret);

/* Graceful: runs still here are failed as interrupted (which uses up nothing),
 * the owner is marked as stopped.  After engine_abandon() (a crash, for tests)
 * nothing is written. */
void engine_close(struct engine *engine);
void engine_abandon(struct engine *engine);

/* This run, a command's, is left to go on without a scheduler, for the next start to
 * adopt: it is not handed over when the engine is closed.  Other nodes do not take it
 * before this one's lease is over (command_until()). */
void engine_leave_run(struct engine *engine, int64_t job_id);

/* Applies a list of commands (linked through mail.next) and answers them. */
void engine_apply(struct engine *engine, struct command *list);

/* Does what is due.  Returns the wall time at which it wants to be called
 * again at the latest. */
int64_t engine_tick(struct engine *engine);

/* Wall time as the store counts it, never going back: a clock that was set back is
 * waited for, at half its speed. */
int64_t engine_now(struct engine *engine);

/* How many runs the executors take; workers start when it is above 0. */
void engine_set_capacity(struct engine *engine, size_t capacity);

/* From now on this node executes these kinds, with these policies, which are borrowed
 * as those of the options are.  -HF_NOMEM, and nothing has changed. */
must_check int engine_set_kinds(struct engine *engine, const char *const *kinds,
                                size_t count, const struct kind_policy *policies,
                                size_t policy_count);

/* ---- for the files of this floor ---- */

/* A step is begun: a transaction, a try to connect, a turn of the committer.  What does
 * not come to the next one for long is stuck, whatever it waits for. */
static inline void engine_step(struct engine *engine)
{
    atomic_fetch_add_explicit(&engine->pulse, 1, memory_order_relaxed);
}

/* What one pile, or one duty's transaction, shares. */
struct tx {
    struct engine *engine;
    struct store *store;
    int64_t now;
    int64_t recovery_id;  /* 0, or what is done here belongs to it */
    struct job_row *rows; /* loaded for the pile, sorted by id */
    size_t row_count;
    struct session_owner *sessions; /* of the pile's remote workers, sorted by name */
    size_t session_count;
    bool alone;         /* one command behind a savepoint (second pass) */
    bool undo;          /* it was refused half way: leave nothing of it */
    struct gate *gates; /* of the queues that may be claimed from */
    size_t gate_count;
};

/* The row of a job in this transaction: from the pile's, or loaded; NULL and
 * *ret_code when not (-HF_NOT_FOUND or a failure of the store). */
struct job_row *tx_job(struct tx *tx, int64_t id, int *ret_code);
/* Only if the pile has loaded it, else NULL.  Whoever changes a job that was
 * found in another way must change this one, or a later command of the pile
 * would decide on what is no longer true. */
struct job_row *tx_loaded(struct tx *tx, int64_t id);

/* Applies commands inside an open transaction; pile.c. */
int pile_run(struct tx *tx, struct command **commands, size_t count);

/* A transaction of its own for a duty: `work` returns 0 or more (kept) or
 * negative (rolled back).  Returns what it returned, or the commit's failure. */
int64_t engine_duty(struct engine *engine, int64_t (*work)(struct tx *tx, void *arg),
                    void *arg);
/* The same for looking only: it signs nothing, so it costs no flush. */
int64_t engine_look(struct engine *engine, int64_t (*work)(struct tx *tx, void *arg),
                    void *arg);

/* Tries to be connected again, for so long where time is real; leases are judged
 * anew from then on.  pile.c. */
must_check int engine_reconnect(struct engine *engine, int64_t patience_us);

/* A transaction has failed with this code: if that is the store's fault it is away from
 * now on, until we are connected again, or (where that was not it) a beat is through.
 * engine.c. */
void engine_missed(struct engine *engine, int code);
/* Whether our beat was: 0, or why not. */
void engine_set_away(struct engine *engine, int code);

/* Another node has judged us dead, and has taken over our runs: stop them, and
 * go on as a new owner.  Where that fails we are nobody (owner_id 0) until the
 * next beat tries again.  engine.c. */
int engine_reborn(struct engine *engine);

/* Asks PostgreSQL what time it is, if our clock is a real one.  duties.c. */
must_check int read_database_clock(struct engine *engine);

/* cmd_*.c: each applies one command; 0, or the refusal with its sentence in
 * command->error; store failures are sticky in the store. */
int apply_enqueue(struct tx *tx, struct command *command);
int apply_claim(struct tx *tx, struct command *command);
int apply_fail(struct tx *tx, struct command *command);
int apply_progress(struct tx *tx, struct command *command);
int apply_cancel(struct tx *tx, struct command *command);
int apply_change(struct tx *tx, struct command *command);
int apply_retry(struct tx *tx, struct command *command);
int apply_queue(struct tx *tx, struct command *command);
int apply_project(struct tx *tx, struct command *command);
int apply_beat(struct tx *tx, struct command *command);
int apply_reserve(struct tx *tx, struct command *command);
int apply_release(struct tx *tx, struct command *command);
int apply_renew(struct tx *tx, struct command *command);
int apply_worker(struct tx *tx, struct command *command);
int apply_token(struct tx *tx, struct command *command);
int apply_token_drop(struct tx *tx, struct command *command);
int apply_schedule(struct tx *tx, struct command *command);
int apply_schedule_drop(struct tx *tx, struct command *command);
int apply_trigger(struct tx *tx, struct command *command);
int apply_webhook(struct tx *tx, struct command *command);
int apply_webhook_drop(struct tx *tx, struct command *command);
int apply_webhook_test(struct tx *tx, struct command *command);
int apply_deliveries(struct tx *tx, struct command *command);
int apply_delivered(struct tx *tx, struct command *command);
int apply_resend(struct tx *tx, struct command *command);
/* All completions of a pile at once. */
int apply_completions(struct tx *tx, struct command **commands, size_t count);

/* Makes a job of a project, as an enqueue does: policies are resolved, one live job per
 * source.  1 and *ret is the new one; 0 and *ret is the live one that has its unique
 * key; negative: a refusal with its sentence, or the store's failure.  cmd_enqueue.c. */
int make_job(struct tx *tx, int64_t project_id, const struct new_job *in,
             struct error *error, struct job *ret);

/* Passes the gates of all queues that the pile's claims, or this node's free
 * slots, may take from. */
int open_gates(struct tx *tx, struct command **commands, size_t count);

/* Claims for this node's own free slots, for every queue that may have work. */
int claim_for_node(struct tx *tx);
/* True if those may take jobs that the open transaction has made and not written. */
bool takes_fresh(const struct engine *engine);

/* Ends a running or cancelling job other than by completion: its run, its
 * state, its retry or the reason for none, the event.  One transaction, one
 * place (I4). */
struct ending {
    enum job_event event; /* ON_FAIL, ON_TIMEOUT, ON_INTERRUPT, ON_CRASH */
    struct job_error error;
    int64_t retry_after_us;
    bool crash_counts;
    bool superseded;     /* final, superseded, whatever the policy */
    bool source_taken;   /* the same instead of a retry: another job has its key */
    const char *verdict; /* for the recovery's report; NULL: none */
    int64_t ran_us;      /* how long it ran, where that is not until now; 0 */
    int64_t retry_id;    /* out: 0 if none */
    int64_t retry_at;    /* out: when it is due */
    int reason;          /* out */
};
void finish_job(struct tx *tx, struct job_row *row, struct ending *ending);

/* Gives a failed job whose retry is pending its retry or its reason. */
void resolve_pending(struct tx *tx, struct job_row *row, struct ending *ending);

/* Makes the retry of a job that has just become terminal. */
int64_t make_retry(struct tx *tx, struct job *failed, const struct retry_decision *how,
                   int lane);

/* Asks whoever executes a running job to stop. */
void ask_to_stop(struct tx *tx, struct job *job, struct slice reason);

/* Cancels a waiting job. */
void cancel_waiting(struct tx *tx, struct job *job, struct slice reason,
                    const char *event_type);

/* Events, tell.c.  Posts one, with its deliveries, and notes it for whoever listens;
 * its type has a row in event_types.c. */
void tell_event(struct tx *tx, const struct event *event);
/* One about a job that is at hand; NULL: the event says which. */
void tell_of_job(struct tx *tx, const struct job *job, const struct event *event);
/* One about a job; `format` is the JSON object's inside. */
void tell(struct tx *tx, const struct job *job, const char *type, const char *format, ...)
    printf_like(4, 5);
/* One that another event's row says already: for webhooks only.  Ask before whether one
 * wants it (subscriptions_want()). */
void tell_webhooks(struct tx *tx, const struct job *job, const char *type,
                   const char *format, ...) printf_like(4, 5);
/* Text as a JSON string, for such a format; null if absent. */
const char *quoted(struct tx *tx, struct slice text);
/* The same as tell() for the ordinary three (enqueued, started, completed): written
 * only where event_level or a webhook asks for them. */
void tell_ordinary(struct tx *tx, const struct job *job, const char *type);

/* One about a webhook, cmd_webhook.c. */
void tell_webhook(struct tx *tx, const struct webhook *webhook, const char *type);
/* outbox.c: writes the deliveries of an event; `job` as for tell_of_job(). */
void outbox_write(struct tx *tx, const struct event *event, const struct job *job);
/* One for the webhook it is about and nobody else.  Its id, or 0. */
int64_t outbox_write_to(struct tx *tx, const struct event *event, bool active);

/* This node's runs.  Noted changes count at once for what may be claimed, are
 * published with the commit and taken back with a rollback. */
struct local_run *local_run_find(struct engine *engine, int64_t job_id);
void note_started(struct engine *engine, const struct started *run);
void note_adopted(struct engine *engine, const struct job_row *row);
/* Returns the run, good until the commit; NULL: it is not ours. */
const struct local_run *note_ended(struct engine *engine, int64_t job_id);
/* A run of whatever owner has ended, see struct kind_note. */
void note_kind(struct engine *engine, size_t place, int outcome, int64_t ran_us);
void note_stop(struct engine *engine, int64_t job_id, int type);
void note_told(struct tx *tx, const struct event *event);
void note_deliveries(struct engine *engine);
void notes_publish(struct engine *engine);
void notes_drop(struct engine *engine);
/* The same for one command behind a savepoint: all noted after the mark. */
struct notes_mark {
    size_t notes, fresh, told, news, kind_notes;
    struct engine_work work;
};
struct notes_mark notes_mark(const struct engine *engine);
void notes_undo(struct engine *engine, struct notes_mark mark);
/* Runs under way, those of the open transaction included. */
size_t local_busy(const struct engine *engine);

enum { NOTE_ENDED = 0 };

/* Asks for the sessions that the pile's commands come from, each once. */
int load_sessions(struct tx *tx, struct command **commands, size_t count);

/* Which owner a command of the pile speaks for: 0 and *ret, or -HF_NOT_FOUND. */
int owner_of_session(struct tx *tx, struct slice session, int64_t *ret);

/* The same, and makes the owner when it is new, or was judged dead: whoever
 * comes back is a new owner.  Only session, name, host and pid of `who` count. */
int ensure_session(struct tx *tx, const struct owner *who, int64_t *ret);

/* The project into which a command puts something new; -HF_NOT_FOUND, or -HF_CONFLICT
 * while it is being deleted, with the sentence.  cmd_project.c. */
int enter_project(struct tx *tx, struct command *command, struct slice name,
                  struct project *ret);

/* An event about a project, with a number of something. */
void tell_project(struct tx *tx, const struct project *project, const char *type,
                  const char *what, int64_t count);

/* project_delete.c: the next bite of a project that is being deleted. */
int64_t project_step(struct engine *engine);

/* A claim or a finish of somebody may have made work ready here. */
void hint_queue(struct engine *engine, int64_t queue_id);

/* The workers a queue has on this node: its slots, but no more than there are
 * executors, so that half of them is half. */
int64_t slots_of(struct engine *engine, int64_t queue_id);

/* duties.c: cancels jobs that have expired, a bounded bite; 1: there may be more. */
int64_t expire_some(struct tx *tx);

/* reservation.c */
int64_t reservation_tick(struct tx *tx);
/* A new job that runs under a hold of this process, and alone: it may take no longer
 * than the hold lasts, is not tried again, and the hold ends with it. */
int reservation_take_job(struct tx *tx, struct command *command, int64_t id,
                         struct job *job);
/* A hold has ended: the job it was for does not begin any more. */
int reservation_ended(struct tx *tx, const struct reservation *reservation);
/* kinds.c: what this node executes is noted in the store, and waiting jobs are
 * classed anew, chunk by chunk in kinds_step(): 1 more, 0 done, negative. */
must_check int kinds_register(struct engine *engine);
must_check int kinds_set(struct engine *engine, const char *const *kinds, size_t count);
void kinds_free(struct engine *engine);
int kinds_step(struct engine *engine);

/* reaper.c */
int mark_dead(struct tx *tx, const struct owner *owner, const char *why);
int64_t reap(struct engine *engine);
int64_t sweep(struct engine *engine);
/* webhook_duty.c: part of the poll, finds out what others have changed and written;
 * tells the sender when something is due; a small step of forgetting what is not sent
 * any more. */
must_check int webhooks_look(struct tx *tx);
void webhooks_tell_sender(struct engine *engine, int64_t now);
/* Tells the sender if they are not what they were when it was told last. */
void webhooks_tell_changes(struct engine *engine);
int64_t webhooks_step(struct engine *engine);
/* The active webhooks that this node may send, with the time at which something of
 * theirs falls due. */
struct turn {
    int64_t webhook_id, next_at;
};
must_check int webhooks_turns(struct tx *tx, struct turn **ret, size_t *ret_count);

/* retention.c: one small step; returns how many jobs it removed */
int64_t retention_step(struct engine *engine);
/* retention_fires.c: the same for outcomes of fire times */
int64_t retention_fires_step(struct engine *engine);
/* Removes a job that is over, if it was not retried, and all before it in its chain.
 * Returns how many, or negative. */
int64_t prune_chain(struct tx *tx, int64_t tail);
