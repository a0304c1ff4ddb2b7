/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_script.h -- the workload whose every write is a crash point.
 *
 * It uses every command and every duty of the engine, in several lives of one
 * store, on a disk that records (crash_vfs.h), and writes down what was
 * acknowledged when (crash_ledger.h).  It is the same each time, byte by byte: the
 * clock, the engine's seed and SQLite's randomness are fixed.
 *
 * A command's acknowledgement is taken in its `done`, a node run's in the hook that
 * starts it: at the moment at which somebody outside hears of it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "crash_ledger.h"

struct script {
    struct world w; /* first: the hooks cast */
    struct crash_disk *disk;
    struct ledger ledger;
    size_t stop_at;         /* the world stops after this change; SIZE_MAX: never */
    atomic_bool *spared;    /* true while the store is being opened; or NULL */
    jmp_buf stopped;        /* where the script ends then */
    char broken[300];       /* what the script itself found wrong, and gave up */
    struct test_pile doing; /* commands under way */
    bool final;             /* what this node begins now is not tried again */
    int64_t held;           /* an endpoint that the first life leaves under way */
    int64_t doomed;         /* the same: the last run of a project that is deleted */
    int64_t adopted;        /* the run that lives on without its node */
    size_t acked;           /* point of the last acknowledgement */
    bool used[OPS];         /* commands that have succeeded */
    bool applying, told;    /* a pile is under way; somebody has heard of it */
    struct engine *producer, *scheduler; /* set while a producer has its turn */
    char large[20 << 10];                /* a payload */
};

/* ---- what the script expects on its way ---- */

/* The points up to here are looked at all the same: they say more. */
_Noreturn static inline void give_up(struct script *s, const char *format, ...)
    printf_like(2, 3);
_Noreturn static inline void give_up(struct script *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->broken, sizeof(s->broken), format, args);
    va_end(args);
    longjmp(s->stopped, 1);
}

#define require(s, cond)                                                                 \
    do {                                                                                 \
        if (!(cond))                                                                     \
            give_up(s, "%s:%d: %s is not so", __FILE__, __LINE__, #cond);                \
    } while (0)
#define require_int(s, got, want)                                                        \
    do {                                                                                 \
        long long got_ = (got), want_ = (want);                                          \
        if (got_ != want_)                                                               \
            give_up(s, "%s:%d: %s is %lld, not %lld", __FILE__, __LINE__, #got, got_,    \
                    want_);                                                              \
    } while (0)

/* ---- doing ---- */

static inline void look_for_stop(struct script *s)
{
    if (crash_disk_stopped(s->disk))
        longjmp(s->stopped, 1);
}

static inline void on_done(struct command *c, void *arg)
{
    struct script *s = arg;
    (void)c;
    s->acked = crash_disk_changes(s->disk);
    s->told = true;
}

static inline struct command *put(struct script *s, struct command *c)
{
    c->done = on_done;
    c->done_arg = s;
    return pile_add(&s->doing, c);
}

/* Applies what was put, in one transaction. */
static inline void go(struct script *s)
{
    s->told = false;
    s->applying = true;
    pile_apply(&s->w, &s->doing);
    s->applying = false;
    look_for_stop(s);
    for (size_t i = 0; i < s->doing.count; i++)
        s->used[s->doing.list[i]->op] |= s->doing.list[i]->result == 0;
}

static inline void promise(struct script *s, struct promise p)
{
    p.from = s->acked;
    ledger_add(&s->ledger, p);
}

static inline void touch(struct script *s, enum about about, int64_t id)
{
    ledger_touch(&s->ledger, about, id, crash_disk_changes(s->disk));
}

/* One command; it succeeds.  Its results are there until the next. */
static inline struct command *perform(struct script *s, struct command *c)
{
    pile_free(&s->doing);
    put(s, c);
    go(s);
    if (c->result < 0)
        give_up(s, "%s: %s", op_name(c->op), c->error.text);
    return c;
}

static inline void refuse(struct script *s, struct command *c, int code)
{
    pile_free(&s->doing);
    put(s, c);
    go(s);
    require_int(s, c->result, code);
}

static inline void settle(struct script *s)
{
    for (int i = 0; i < 10000; i++) {
        int64_t next = engine_tick(s->w.engine);
        look_for_stop(s);
        if (next > s->w.wall && s->w.engine->ready)
            return;
    }
    give_up(s, "the engine is never done");
}

static inline void pass(struct script *s, int64_t us)
{
    while (us > 0) {
        int64_t step = us < US_PER_S ? us : US_PER_S;
        s->w.wall += step;
        s->w.mono += step;
        us -= step;
        settle(s);
    }
}

/* ---- lives ---- */

/* Work was handed to this node: it has a run from then on, and if the node dies,
 * that run crashed, and is tried again. */
static inline void on_node_started(void *world, int64_t job_id)
{
    struct script *s = world;
    s->acked = crash_disk_changes(s->disk);
    touch(s, ABOUT_JOB, job_id);
    promise(s, (struct promise){
                   .what = "handed to the node", .id = job_id, .states = BUSY | OVER });
    promise(s, (struct promise){ .what = "under way on the node",
                                 .id = job_id,
                                 .passing = true,
                                 .states = IN(JOB_FAILED),
                                 .error_type = ERROR_CRASH,
                                 .retry = s->final ? 0 : -1 });
}

static inline void arm(struct script *s, size_t at_the_latest)
{
    crash_disk_stop_after(s->disk,
                          s->stop_at < at_the_latest ? s->stop_at : at_the_latest);
}

static inline void spare(struct script *s, bool spared)
{
    if (s->spared)
        atomic_store(s->spared, spared);
}

/* Opens; recovery has not begun. */
static inline void start_life(struct script *s)
{
    spare(s, true);
    int r = world_try_open(&s->w);
    spare(s, false);
    look_for_stop(s);
    if (r < 0)
        give_up(s, "open: %s", s->w.error.text);
    s->w.host.pid++;
    s->w.host.start_ticks++;
    s->w.mono += US_PER_S;
    s->w.wall += US_PER_S;
    /* A short log, so that it is folded back and begun again often. */
    if (db_engine(s->w.engine->store->db) == DB_SQLITE)
        r = db_script(s->w.engine->store->db, "PRAGMA wal_autocheckpoint = 30");
    look_for_stop(s);
    require_int(s, r, 0);
    engine_set_capacity(s->w.engine, s->w.capacity);
}

static inline void live(struct script *s)
{
    start_life(s);
    settle(s);
}

/* The plug is pulled, or the process killed. */
static inline void die(struct script *s, enum crash_loss loss, uint64_t seed)
{
    crash_disk_stop_after(s->disk, 0);
    engine_abandon(s->w.engine);
    s->w.engine = NULL;
    crash_disk_restart(s->disk, loss, seed);
    arm(s, SIZE_MAX);
    look_for_stop(s);
}

/* Crashes inside the recovery, after some changes. */
static inline void die_recovering(struct script *s, size_t changes, uint64_t seed)
{
    size_t at = crash_disk_changes(s->disk) + changes;
    arm(s, at);
    int r = world_try_open(&s->w);
    for (int i = 0; r == 0 && i < 10000 && !crash_disk_stopped(s->disk); i++)
        (void)engine_tick(s->w.engine);
    if (crash_disk_changes(s->disk) >= s->stop_at)
        longjmp(s->stopped, 1);
    require(s, crash_disk_stopped(s->disk)); /* the recovery is longer than that */
    die(s, CRASH_MIX, seed);
}

/* What another version, or another program, has left in the store. */
static inline void write_raw(struct script *s, const char *format, ...) printf_like(2, 3);
static inline void write_raw(struct script *s, const char *format, ...)
{
    char sql[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    int r = store_begin(s->w.engine->store, s->w.wall);
    if (r == 0)
        r = db_script(s->w.engine->store->db, sql);
    if (r == 0)
        r = store_commit(s->w.engine->store);
    look_for_stop(s);
    require_int(s, r, 0);
    s->acked = crash_disk_changes(s->disk);
}

/* ---- jobs ---- */

static inline void promise_job(struct script *s, int64_t id, const struct new_job *job,
                               bool waits)
{
    promise(
        s, (struct promise){
               .what = "enqueued", .id = id, .states = ANYHOW, .payload = job->payload });
    if (waits)
        promise(s, (struct promise){ .what = "waiting",
                                     .id = id,
                                     .passing = true,
                                     .states = WAITING,
                                     .priority = job->priority });
}

static inline struct new_job work(const char *queue, const char *payload)
{
    struct new_job job = job_of_kind("work");
    job.queue = slice_of(queue);
    job.payload = slice_of(payload);
    return job;
}

/* `waits`: nothing but a command of the script takes it. */
static inline int64_t put_job(struct script *s, struct new_job job, bool waits)
{
    struct command *c = perform(s, make_enqueue(job));
    promise_job(s, c->enqueue.out[0].id, &job, waits);
    return c->enqueue.out[0].id;
}

static inline void put_batch(struct script *s, struct new_job job, size_t count,
                             int64_t *ids)
{
    struct new_job jobs[64];
    require(s, count <= array_len(jobs));
    for (size_t i = 0; i < count; i++)
        jobs[i] = job;
    struct command *c = perform(s, make_batch(jobs, count));
    for (size_t i = 0; i < count; i++) {
        ids[i] = c->enqueue.out[i].id;
        promise_job(s, ids[i], &job, true);
    }
}

/* A remote session claims; each of them runs until somebody touches it. */
static inline void promise_run(struct script *s, const struct started *run)
{
    promise(s, (struct promise){
                   .what = "claimed", .id = run->job.id, .states = BUSY | OVER });
    promise(s, (struct promise){ .what = "running for its worker",
                                 .id = run->job.id,
                                 .passing = true,
                                 .states = IN(JOB_RUNNING),
                                 .same_owner = true,
                                 .owner = run->owner_id });
}

static inline int64_t take_job(struct script *s, const char *session, int64_t id)
{
    touch(s, ABOUT_JOB, id);
    struct command *c = perform(s, make_claim_of(session, id));
    require_int(s, c->claim.out_count, 1);
    promise_run(s, &c->claim.out[0]);
    return c->claim.out[0].owner_id;
}

static inline void promise_completed(struct script *s, int64_t id, const char *result)
{
    promise(s, (struct promise){ .what = "completed",
                                 .id = id,
                                 .states = IN(JOB_COMPLETED),
                                 .result = result });
}

static inline void finish_job_of(struct script *s, const char *session, int64_t id)
{
    touch(s, ABOUT_JOB, id);
    perform(s, make_complete(session, id, "{\"ok\":true}"));
    promise_completed(s, id, "{\"ok\":true}");
}

/* The same for a run of this node, which has printed something. */
static inline void finish_here(struct script *s, int64_t id, const char *result)
{
    struct command *c = make_complete(NULL, id, result);
    c->complete.owner_id = s->w.engine->owner_id;
    c->complete.output = SLICE("printed\n");
    touch(s, ABOUT_JOB, id);
    perform(s, c);
    promise(s, (struct promise){ .what = "completed here",
                                 .id = id,
                                 .states = IN(JOB_COMPLETED),
                                 .result = result,
                                 .output = "printed\n" });
}

/* Fails with a retry (returned), or for good. */
static inline int64_t fail_job_of(struct script *s, const char *session, int64_t id,
                                  int type)
{
    touch(s, ABOUT_JOB, id);
    struct command *c = perform(s, make_fail(session, id, type, "TestError"));
    int64_t retry = c->fail.out_retry_id;
    require_int(s, c->fail.out_state, JOB_FAILED);
    promise(s, (struct promise){ .what = "failed",
                                 .id = id,
                                 .states = IN(JOB_FAILED),
                                 .error_type = type,
                                 .message = "it broke",
                                 .retry = retry });
    if (retry)
        promise(s, (struct promise){ .what = "its retry waits",
                                     .id = retry,
                                     .passing = true,
                                     .states = WAITING });
    else
        promise(s, (struct promise){ .what = "final",
                                     .id = id,
                                     .passing = true,
                                     .states = IN(JOB_FAILED),
                                     .reason = REASON_PERMANENT });
    return retry;
}

static inline void cancel_job(struct script *s, int64_t id, int state)
{
    touch(s, ABOUT_JOB, id);
    struct command *c = perform(s, make_cancel(id, "not needed"));
    require_int(s, c->cancel.out_state, state);
    promise(s, (struct promise){ .what = "cancelled",
                                 .id = id,
                                 .passing = state != JOB_CANCELLED,
                                 .states = IN(state) });
}

static inline int64_t retry_job(struct script *s, int64_t id)
{
    touch(s, ABOUT_JOB, id);
    struct command *c = perform(s, make_retry_by_hand(id));
    promise(s, (struct promise){ .what = "retried by hand",
                                 .id = c->retry.out_id,
                                 .passing = true,
                                 .states = WAITING });
    return c->retry.out_id;
}

/* ---- queues and holds ---- */

static inline void set_queue(struct script *s, struct command *c)
{
    struct queue_entry *entry = NULL;
    int r = store_queue(s->w.engine->store, c->queue.name, false, &entry);
    touch(s, ABOUT_QUEUE, r == 0 ? entry->queue.id : 0);
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_QUEUE,
                                 .what = "queue set",
                                 .passing = true,
                                 .id = c->queue.out.id,
                                 .queue = c->queue.out });
}

static inline struct command *make_reserve(const char *queue, const char *holder,
                                           int64_t wait_us, bool direct)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = slice_of(queue);
    c->reserve.holder = slice_of(holder);
    c->reserve.wait_us = wait_us;
    c->reserve.ttl_us = 60 * US_PER_S;
    c->reserve.direct = direct;
    return c;
}

static inline int64_t reserve(struct script *s, const char *queue, const char *holder,
                              int64_t wait_us, int state)
{
    struct command *c = perform(s, make_reserve(queue, holder, wait_us, false));
    require_int(s, c->reserve.out.state, state);
    promise(s, (struct promise){ .about = ABOUT_HOLD,
                                 .what = "reserved",
                                 .id = c->reserve.out.id,
                                 .passing = true,
                                 .states = HOLD_OPEN });
    return c->reserve.out.id;
}

static inline struct command *make_release(int64_t id, const char *holder)
{
    struct command *c = command_new(OP_RELEASE);
    c->release.reservation_id = id;
    c->release.holder = slice_of(holder);
    return c;
}

static inline void release(struct script *s, int64_t id, const char *holder)
{
    touch(s, ABOUT_HOLD, id);
    perform(s, make_release(id, holder));
    promise(s, (struct promise){ .about = ABOUT_HOLD,
                                 .what = "released",
                                 .id = id,
                                 .states = IN(RESERVATION_RELEASED) });
}

static inline struct command *make_renew(int64_t id, int64_t ttl_us)
{
    struct command *c = command_new(OP_RENEW);
    c->renew.reservation_id = id;
    c->renew.ttl_us = ttl_us;
    return c;
}

static inline struct command *make_beat(const char *session, const int64_t *runs,
                                        size_t count)
{
    struct command *c = command_new(OP_BEAT);
    c->beat.session = slice_of(session);
    c->beat.worker = SLICE("worker");
    c->beat.runs = runs;
    c->beat.run_count = count;
    return c;
}

/* Sessions are touched before time passes that may end them. */
static inline void beat_of(struct script *s, const char *session, int64_t owner,
                           const int64_t *runs, size_t count)
{
    touch(s, ABOUT_SESSION, owner);
    perform(s, make_beat(session, runs, count));
    promise(s, (struct promise){ .about = ABOUT_SESSION,
                                 .what = "its lease renewed",
                                 .id = owner,
                                 .name = session,
                                 .passing = true,
                                 .lease_until = s->w.wall + s->w.settings.lease_us });
}
