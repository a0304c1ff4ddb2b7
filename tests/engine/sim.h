/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h -- a world of producers, workers, operators and accidents around the
 * engine, and a small model of what the manual promises them.
 *
 * Why it exists: the rules of a queue are simple one by one.  What breaks them
 * is their meeting: a worker that comes back while its job is being cancelled
 * by a recovery that crashes.  Nobody thinks of all of these; a seed does.
 *
 * A HISTORY is a list of steps, each of them a number that says what is done and a
 * seed from which all its choices come.  There is one thread and a virtual clock, so
 * a history can be played again, and one that fails can be made shorter by leaving
 * steps out.  At its end comes the calm: no more accidents, and every job must end.
 *
 *   sim_run.c        plays a history in a process of its own; makes one short
 *   sim_tell.c       a history as a person reads it
 *   sim_steps.c      the table of steps: what may happen, and how often
 *   sim_calm.c       how a history ends
 *
 * THE ACTORS build commands and believe what they are answered, as far as the
 * answer reaches them.  The engine under test is the real one, without its threads:
 * piles go to engine_apply(), time to engine_tick().
 *
 *   sim_actors.c     producers, remote workers, handlers inside a node
 *   sim_operators.c  people: cancel, retry, change, pause, limits, holds
 *   sim_disk.c       the power is cut, the disk fails (SQLite, see crash_vfs.h)
 *   sim_world.c      nodes, clocks and crashes; which rows a step has touched
 *
 * THE MODEL does not share code with the engine.  For a command it says what the
 * answer and the rows must be.  What time does (a lease runs out, a recovery, a
 * node's own claims) is not predicted but explained: each change of a row must
 * have a cause that the manual allows, and then its consequences are exact
 * again.  A change without a cause is a violation, and so is a cause that is
 * left without its change for too long.
 *
 *   sim_model.c      jobs as they must stand; how they end; comparing
 *   sim_explain.c    commands: what each must answer, and must have changed
 *   sim_claim.c      who may begin which job, in which order
 *   sim_hold.c       holds on queues
 *   sim_time.c       what may happen by itself, and what must have happened by now
 *
 * So a step is: watch_begin(), the engine does something, watch_collect() reads every
 * row it has touched, explain_...() moves the model, and what was read must be what
 * the model has (compare_seen).  Every thousand steps, and at the end, the whole
 * store is compared, and checks itself (sim_check_all). */
#pragma once

#include <stdio.h>

#include "crash_vfs.h"
#include "engine/engine.h"
#include "engine/recovery/recovery.h"
#include "sim_run.h"
#include "test.h"

#define SIM_MONO_START (1000 * US_PER_S)
#define SIM_BEAT_US (900 * US_PER_MS) /* time passes in parts of this at most */
#define SIM_DISK "simulation"         /* the VFS */

enum {
    QUEUES = 4,
    KINDS = 6,
    KEYS = 8,
    PROJECTS = 2,
    POLICIES = 7,
    WORKERS = 6,
    NODES = 2,
    PILE = 8,         /* commands in one pile at most */
    WORKER_RUNS = 80, /* that a worker holds at once */
    HANDLERS = 64,    /* that a node works on at once */
    REQUESTS = 12,    /* idempotency keys */
    REQUEST_JOBS = 8, /* in a batch at most */
    LIVE_MAX = 120,   /* producers hold back beyond it */
    FLOOD = 560,      /* more than a chunk of a recovery */
};

/* ---- the model ---- */

/* A job as it must stand in the store.  Texts point to names that stay. */
struct mjob {
    struct job job;
    struct run run;          /* run.job_id 0: none */
    int64_t retry_id;        /* 0: none */
    size_t live_index;       /* in model.live, while it lives */
    int starts;              /* executions begun */
    int64_t changed_mono;    /* when somebody last asked for something about it */
    int64_t claimable_since; /* by a node, mono; for the rule that none idles */
};

struct mqueue {
    int64_t id; /* 0 until it is seen */
    const char *name;
    bool paused;
    int64_t slots, concurrency, stale_after_us, max_retries, max_execution_us, on_crash;
    int policy; /* -1: default */
    int64_t counts[COUNTERS];
};

struct mowner {
    int64_t id, lease_until, ended_at;
    int type, state;
    char session[24];
    int node;       /* of a node: which */
    int64_t boot;   /* of a node: on which start of the machine */
    unsigned kinds; /* of a node: as registered in the store, a bit each */
};

struct mhold {
    struct reservation row; /* without texts */
    bool direct;
};

struct mrequest { /* what was answered under an idempotency key */
    bool used;
    uint8_t hash[32];
    int64_t ids[REQUEST_JOBS], expires_at;
    size_t count;
};

struct model {
    struct mjob **jobs; /* by id; NULL: no job */
    size_t job_capacity;
    struct mjob **live;
    size_t live_count, live_capacity;
    int64_t last_job; /* the largest id */
    size_t job_count;
    struct mqueue queues[QUEUES];
    int64_t projects[PROJECTS]; /* ids; 0: not there yet */
    struct mowner *owners;
    size_t owner_count, owner_capacity;
    struct mhold *holds; /* open ones */
    size_t hold_count, hold_capacity;
    struct mrequest requests[PROJECTS][REQUESTS];
};

/* ---- those who act ---- */

struct worker {
    char session[24];
    int incarnation;
    bool gone;            /* died; comes back as another session */
    int64_t silent_until; /* mono; stalled: neither beats nor reports till then */
    int64_t beat_mono;
    bool known; /* has claimed or beaten in this incarnation */
    struct {
        int64_t job_id;
        bool cancel; /* was asked to stop */
    } runs[WORKER_RUNS];
    size_t run_count;
    int claims;
    char claim_id[24]; /* of a claim whose answer was lost; "" for none */
    size_t claim_count;
};

struct node {
    struct engine *engine; /* NULL: down */
    int index;
    struct host host;
    struct settings settings;
    int64_t boot, next_boot; /* how often its machine has started */
    int64_t owner_id;        /* as it last was */
    unsigned kinds;          /* that it executes */
    const char *kind_names[KINDS];
    size_t kind_count, capacity;
    struct {
        int64_t job_id, owner_id, deadline_at;
        int stop; /* error type it was told, 0 */
    } runs[HANDLERS];
    size_t run_count;
    int64_t opened_at;  /* as the engine counts time */
    int64_t awake_at;   /* its first tick */
    int64_t judge_from; /* nobody remote is judged before */
    int64_t tick_wall, tick_mono, tick_now;
    int64_t trouble_at; /* the disk failed under it */
    int64_t ready_at;   /* workers may start from then; 0: not yet */
    int64_t recovered;  /* jobs that the recovery at the start has ended */
    bool throttled;
    int64_t frozen_until; /* mono; PostgreSQL: not scheduled by its machine till then */
    /* what the hooks have told in this step */
    int64_t started[1024];
    size_t started_count;
};

/* What one step has touched. */
struct watch {
    int64_t *ids; /* of jobs; sorted and distinct once collected */
    size_t id_count, id_capacity;
    struct job_row *rows; /* as they stand now, by id */
    size_t row_count;
    int64_t *gone; /* touched and not there */
    size_t gone_count;
    bool owners, holds;
    int64_t event_before; /* events of this step have ids above it */
    struct db *db;        /* PostgreSQL: a connection of our own */
    struct store *store;  /* PostgreSQL: the same for rows */
    int64_t snapshot;
};

struct sim {
    struct clock clock; /* first: the callbacks cast */
    int64_t wall, mono;
    int64_t latest; /* the time that the engine has reached; clocks may be set back */
    const char *url, *vfs;
    struct crash_disk *disk; /* NULL on PostgreSQL */
    bool postgres;
    uint64_t seed;
    struct rng rng; /* of the step */
    size_t step;    /* index in its history */
    struct settings settings;
    struct node nodes[NODES];
    size_t node_count;
    struct worker workers[WORKERS];
    struct model model;
    struct watch watch;
    struct arena arena; /* of the step's rows */
    struct arena names; /* of what stays */
    bool cut;           /* the power was cut: nobody was answered, the rows tell */
    int64_t cut_at;     /* when it was, and what the engine was at */
    bool cut_second, cut_ready;
    int64_t closing, closed_at; /* the owner that is shutting down, and when */
    struct command *pile[PILE];
    size_t pile_count;
    struct {
        int worker; /* -1: nobody */
        bool lost;  /* it never hears the answer */
    } asked[PILE];
    bool gathering;        /* commands are applied together later */
    int64_t last_hold;     /* a reservation that was, or is */
    FILE *trace;           /* NULL: silent */
    struct shared *shared; /* what the parent process is to know */
};

extern const char *const sim_queue_names[QUEUES],
    *const sim_kind_names[KINDS], *const sim_key_names[KEYS],
                                      *const sim_project_names[PROJECTS];

struct policy {
    const char *text;
    int64_t seconds[3]; /* the list; or base, cap, jitter in percent */
    int count;
    bool exponential;
};
extern const struct policy sim_policies[POLICIES];

/* A rule is broken: noted for the parent process, and the end of this one.
 * `rule` is the same for the same kind of violation: shrinking keeps to it. */
_Noreturn void sim_broken(struct sim *s, const char *rule, const char *format, ...)
    printf_like(3, 4);
#define sim_must(s, cond, rule, ...)                                                     \
    do {                                                                                 \
        if (!(cond))                                                                     \
            sim_broken(s, rule, __VA_ARGS__);                                            \
    } while (0)

/* A line of the readable history; and the pile with its answers. */
void sim_say(struct sim *s, const char *format, ...) printf_like(2, 3);
void sim_tell(struct sim *s);

/* ---- sim_world.c ---- */
void sim_init(struct sim *s, uint64_t seed, const char *url, struct crash_disk *disk);
void sim_begin(struct sim *s);
void sim_release(struct sim *s);
/* Opens a node; recovery has not run yet. */
void sim_open(struct sim *s, struct node *node);
void sim_open_and(struct sim *s, struct node *node,
                  void (*explain)(struct sim *s, struct node *node));
void watch_begin(struct sim *s);
void watch_collect(struct sim *s);
void sim_crash(struct sim *s, struct node *node, enum crash_loss loss);
void sim_reboot(struct node *node);
void sim_close(struct sim *s, struct node *node);
/* Applies the pile, and explains what came of it. */
void sim_apply(struct sim *s, struct node *node);
/* One tick.  Returns the time at which the engine wants the next. */
int64_t sim_tick(struct sim *s, struct node *node);
/* Ticks until nothing is due at this moment, then checks what must be over. */
void sim_settle(struct sim *s, struct node *node);
/* Both clocks move.  Whoever must say that he lives, says so. */
void sim_pass(struct sim *s, int64_t us);
void sim_link_pile(struct sim *s);
/* What a node makes of a clock that jumped. */
void sim_note_clock(struct sim *s, struct node *node, int64_t now);
bool sim_is_up(struct sim *s, struct node *node);
/* A node that is up and not frozen; one is always there. */
struct node *sim_some_node(struct sim *s);
struct store *sim_store(struct sim *s);
int sim_hold_state(struct sim *s, int64_t id);
/* What the store has now. */
bool sim_look(struct sim *s, int64_t id, struct job_row *ret);
/* Rows of this step: by id, or the retry of a job; NULL. */
const struct job_row *sim_seen(const struct sim *s, int64_t id);
const struct job_row *sim_seen_retry(const struct sim *s, int64_t id);
/* The model's whole content against the store's, and the store's own check. */
void sim_check_all(struct sim *s);

/* ---- sim_model.c ---- */
void model_init(struct sim *s);
void model_release(struct model *model);
struct mjob *model_job(const struct model *model, int64_t id);
struct mjob *model_add(struct sim *s, const struct job *job);
void model_move(struct sim *s, struct mjob *m, int state);
void model_remove(struct sim *s, struct mjob *m);
struct mqueue *model_queue(struct sim *s, int64_t id);
struct mqueue *model_queue_named(struct sim *s, struct slice name);
int64_t model_queue_id(struct sim *s, struct mqueue *q);
struct mowner *model_owner(struct model *model, int64_t id);
struct mowner *model_session(struct model *model, struct slice session); /* alive */
struct mowner *model_add_owner(struct sim *s, struct mowner owner);
/* The live job that holds a key; NULL. */
struct mjob *model_holder(const struct model *model, int64_t project, struct slice key);
int64_t model_busy(const struct model *model, int64_t queue_id);
/* Whether the owner of a busy job is dead for the store. */
bool model_orphan(struct sim *s, const struct mjob *m);
/* The kinds that nodes execute, as the store knows them. */
unsigned model_kinds(const struct model *model);
int sim_kind(struct slice name);
int model_class(const struct model *model, struct slice kind);
const struct policy *model_policy(struct slice text);

struct mending {
    enum job_event event;
    int error_type;
    int64_t retry_after_us;
    bool counts;   /* towards poison */
    bool recovery; /* ended by one: its retry travels in the other lane */
    bool superseded;
};
/* Ends a busy job other than well; its retry must be among the rows seen. */
void model_end(struct sim *s, const struct node *node, struct mjob *m,
               const struct mending *ending, int64_t now);
void model_complete(struct sim *s, struct mjob *m, int64_t now);
void model_cancel_waiting(struct sim *s, struct mjob *m, int64_t now);
/* A retry by hand, as it must be among the rows seen. */
struct mjob *model_retry_by_hand(struct sim *s, struct mjob *m, int64_t now);
/* A row must be as the model has it; or is it? */
bool model_same(struct sim *s, const struct job_row *row);
void model_compare(struct sim *s, const struct job_row *row);
void model_compare_counts(struct sim *s);

/* ---- sim_explain.c ---- */
/* The answer must be this one.  When the disk failed under the pile nobody was
 * answered, and what happened is read from the rows alone. */
void expect_result(struct sim *s, const struct command *c, int want);
void explain_pile(struct sim *s, struct node *node, int64_t now, bool second);

/* ---- sim_claim.c ---- */
void explain_claim(struct sim *s, struct command *c, int64_t now);
void explain_node_claims(struct sim *s, struct node *node, int64_t now);
struct mowner *explain_session(struct sim *s, struct slice session, int64_t now);

/* ---- sim_hold.c ---- */
struct mhold *model_hold(struct model *model, int64_t id);
/* True while somebody holds the queue, or waits for it to drain. */
bool model_held(const struct model *model, int64_t queue_id);
void explain_hold(struct sim *s, const struct node *node, struct command *c, int64_t now);
/* What time has done to the holds. */
void explain_holds(struct sim *s, int64_t now);

/* ---- sim_time.c ---- */
void explain_open(struct sim *s, struct node *node);
void explain_rebirth(struct sim *s, struct node *node);
void explain_time(struct sim *s, struct node *node, int64_t now, bool ready);
void explain_close(struct sim *s, struct node *node);
void explain_owners(struct sim *s, const struct node *node, int64_t now);
/* All rows of the step are as the model has them now; none that it has is gone. */
void compare_gone(struct sim *s);
void compare_seen(struct sim *s);
void check_settled(struct sim *s, struct node *node);

/* ---- sim_actors.c, sim_operators.c: one step each ---- */
void act_enqueue(struct sim *s);
void act_batch(struct sim *s);
void act_request(struct sim *s);
void act_flood(struct sim *s);
void act_claim(struct sim *s);
void act_claim_again(struct sim *s);
void act_beat(struct sim *s);
void act_progress(struct sim *s);
void act_complete(struct sim *s);
void act_fail(struct sim *s);
void act_stray(struct sim *s);
void act_die(struct sim *s);
void act_stall(struct sim *s);
void act_handler(struct sim *s);
void act_pile(struct sim *s);
void op_cancel(struct sim *s);
void op_retry(struct sim *s);
void op_change(struct sim *s);
void op_pause(struct sim *s);
void op_limits(struct sim *s);
void op_policy(struct sim *s);
void op_project(struct sim *s);
void op_reserve(struct sim *s);
void op_release(struct sim *s);
void op_renew(struct sim *s);
/* sim_disk.c */
void disk_cut_pile(struct sim *s);
void disk_cut_tick(struct sim *s);
void disk_error_pile(struct sim *s);
void disk_error_tick(struct sim *s);
/* Beats for all who are well and due. */
void workers_beat(struct sim *s);
void worker_come_back(struct sim *s, struct worker *w);
/* What the actors make of the answers to the pile. */
void actors_hear(struct sim *s, struct node *node);

/* A command for the pile, and the pile's way to a node. */
struct command *sim_ask(struct sim *s, enum op op, int worker);
void sim_send(struct sim *s, struct node *node);
/* A question about a queue that changes nothing yet. */
struct command *ask_queue(struct sim *s, const char *name);
struct slice sim_text(struct command *c, const char *format, ...) printf_like(2, 3);

/* A number in [0, n), and true once in n. */
static inline int64_t pick(struct sim *s, int64_t n)
{
    return (int64_t)rng_below(&s->rng, (uint64_t)n);
}
static inline bool once_in(struct sim *s, int64_t n)
{
    return pick(s, n) == 0;
}

/* ---- sim_steps.c ---- */
struct step {
    int op;
    uint64_t seed;
};
/* The history that belongs to a seed. */
struct step *steps_make(uint64_t seed, size_t count);
void step_run(struct sim *s, const struct step *step);

/* ---- sim_calm.c ---- */
/* No more accidents: every job must end within the time its policy allows, and a
 * restart finds nothing to do. */
void sim_calm(struct sim *s);
