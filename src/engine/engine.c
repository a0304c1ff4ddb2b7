/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c -- a node's life: opening, being somebody, closing. */
#include "engine/engine.h"

#include <stdio.h>

#include "engine/recovery/recovery.h"
#include "engine/recovery/recovery_report.h"
#include "store/webhooks.h"

enum { BUSY_MS = 10000, PENDING_ARENA_BYTES = 1 << 30 };

int64_t engine_now(struct engine *engine)
{
    int64_t mono = clock_mono_us(engine->clock);
    int64_t now = engine->database.time
                      ? engine->database.time + (mono - engine->database.mono)
                      : clock_wall_us(engine->clock);
    /* The clock was set back: we do not go back, and do not stand still until it
     * has caught up, or the dead would live as long; we go on at half the speed. */
    if (now < engine->now_last)
        now = engine->now_last + (mono - engine->now_mono) / 2;
    if (now > engine->now_last) {
        engine->now_last = now;
        engine->now_mono = mono;
    }
    return engine->now_last;
}

int64_t slots_of(struct engine *engine, int64_t queue_id)
{
    struct queue_entry *entry = store_queue_by_id(engine->store, queue_id);
    int64_t slots =
        entry && entry->queue.slots >= 0 ? entry->queue.slots : engine->settings.slots;
    int64_t most = (int64_t)engine->capacity;
    return most > 0 && slots > most ? most : slots;
}

void hint_queue(struct engine *engine, int64_t queue_id)
{
    if (engine->producer)
        return;
    struct dispatch_queue *queue =
        dispatch_queue(&engine->dispatch, queue_id, slots_of(engine, queue_id));
    if (!queue)
        return; /* no memory: the next poll looks at every queue */
    queue->hint = true;
    if (engine->hooks.ready)
        engine->hooks.ready(engine->hooks.arg, queue_id);
}

void engine_set_capacity(struct engine *engine, size_t capacity)
{
    engine->capacity = capacity;
    engine->next_poll = 0; /* look for work */
}

/* ---- is the store there? ---- */

void engine_set_away(struct engine *engine, int code)
{
    if (code == -HF_UNKNOWN)
        code = -HF_UNAVAILABLE; /* its answer could not */
    if (engine->away == code)
        return;
    engine->away = code;
    if (code < 0 && code != -HF_UNAVAILABLE)
        engine->next_beat = 0; /* the proof that it takes again what is written */
    if (engine->hooks.away)
        engine->hooks.away(engine->hooks.arg, code);
}

void engine_missed(struct engine *engine, int code)
{
    if (code == -HF_UNAVAILABLE || code == -HF_UNKNOWN || code == -HF_IO ||
        code == -HF_FULL || code == -HF_READONLY)
        engine_set_away(engine, code);
}

/* ---- being somebody ---- */

static struct owner describe_self(const struct engine *engine)
{
    return (struct owner){ .type = engine->producer ? OWNER_PRODUCER : OWNER_NODE,
                           .name = slice_of(engine->name),
                           .host = slice_of(engine->host.name),
                           .boot_id = slice_of(engine->host.boot_id),
                           .pid = engine->host.pid,
                           .pid_namespace = engine->host.pid_ns,
                           .process_start = engine->host.start_ticks,
                           .state_dir = slice_of(engine->state_dir) };
}

/* Nodes that can no longer be alive are marked so, once and for all. */
static int bury_dead_nodes(struct tx *tx)
{
    struct engine *engine = tx->engine;
    struct owner *owners = NULL;
    size_t count = 0;
    int r = store_owners(tx->store, false, &tx->store->arena, &owners, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        if (owners[i].type != OWNER_NODE || owners[i].id == engine->owner_id ||
            !owner_is_gone(&owners[i], &engine->host, db_engine(tx->store->db), 0))
            continue;
        r = mark_dead(tx, &owners[i], "found dead at the start of another");
        engine->found_dead++;
    }
    return r;
}

static int64_t register_self(struct tx *tx, void *arg)
{
    struct engine *engine = tx->engine;
    struct owner owner = describe_self(engine);
    bool inserted = false;
    (void)arg;
    engine->found_dead = 0;
    owner.id = store_id(tx->store);
    if (owner.id == 0)
        return tx->store->failed;
    bool leased = db_engine(tx->store->db) == DB_POSTGRES;
    owner.lease_until = leased ? tx->now + engine->settings.lease_us : 0;
    int r = store_owner_insert(tx->store, &owner, &inserted);
    if (r < 0)
        return r;
    engine->owner_id = owner.id;
    engine->lease_until = owner.lease_until;
    tx->store->shard = db_engine(tx->store->db) == DB_POSTGRES ? owner.id : 0;
    return engine->producer ? 0 : bury_dead_nodes(tx);
}

/* Before we are somebody there is no row to sign. */
static int become(struct engine *engine)
{
    engine->owner_id = 0;
    int64_t r = engine_duty(engine, register_self, NULL);
    if (r < 0)
        engine->owner_id = 0;
    return r < 0 ? (int)r : 0;
}

int engine_reborn(struct engine *engine)
{
    if (engine->owner_id != 0)
        log_event(engine->log, LEVEL_ERROR, "node_judged_dead",
                  log_int("owner", engine->owner_id));
    /* Our runs were given to others: stop them, their results are refused. */
    for (size_t i = 0; i < engine->run_count; i++) {
        struct local_run *run = &engine->runs[i];
        if (engine->hooks.stop_run)
            engine->hooks.stop_run(engine->hooks.arg, run->job_id, ERROR_CRASH);
        struct dispatch_queue *queue =
            dispatch_queue(&engine->dispatch, run->queue_id, -1);
        if (queue)
            dispatch_ended(queue, run->lane == LANE_RECOVERED);
    }
    engine->run_count = 0;
    engine->totals.rebirths++;
    engine->next_beat = 0; /* should this fail */
    int r = become(engine);
    return r < 0 || engine->producer ? r : kinds_register(engine);
}

/* ---- opening ---- */

/* Ours, because a node that is taken for dead registers itself again. */
static int remember_self(struct engine *engine, const struct engine_options *options)
{
    if (options->node_name)
        snprintf(engine->name, sizeof(engine->name), "%s", options->node_name);
    else
        snprintf(engine->name, sizeof(engine->name), "%s:%lld", engine->host.name,
                 (long long)engine->host.pid);
    engine->state_dir = options->state_dir ? strdup(options->state_dir) : NULL;
    if (options->state_dir && !engine->state_dir)
        return -HF_NOMEM;
    return kinds_set(engine, options->kinds, options->kind_count);
}

static int set_up(struct engine *engine, const struct engine_options *options,
                  struct error *error)
{
    engine->clock = options->clock ? options->clock : &clock_system;
    engine->log = options->log;
    engine->hooks = options->hooks;
    engine->producer = options->producer;
    engine->policies = options->policies;
    engine->policy_count = options->policy_count;
    engine->executor = options->executor ? options->executor : EXECUTOR_HANDLER;
    engine->zones.dir = options->zone_dir;
    engine->next_due = engine->next_dispatch = engine->next_project = INT64_MAX;
    engine->next_delivery = INT64_MAX;
    engine->next_expiry = 0; /* not known: to be looked at before the first claim */
    arena_init(&engine->pending_arena, 64 << 10, PENDING_ARENA_BYTES);
    kind_totals_init(&engine->kind_totals);
    if (options->settings)
        engine->settings = *options->settings;
    else
        settings_default(&engine->settings);
    int r = settings_check(&engine->settings, error);
    if (r < 0)
        return r;
    if (options->host)
        engine->host = *options->host;
    else if ((r = host_identify(&engine->host, error)) < 0)
        return r;
    if (remember_self(engine, options) < 0)
        return error_set(error, -HF_NOMEM, NULL, "No memory to open %s.", options->url);
    if (options->seed)
        rng_seed(&engine->rng, options->seed);
    else if (rng_seed_system(&engine->rng) < 0)
        rng_seed(&engine->rng, (uint64_t)clock_wall_us(engine->clock));
    return 0;
}

static int open_store(struct engine *engine, const struct engine_options *options,
                      struct error *error)
{
    int r = 0;
    /* The lock first: it is the proof that no other scheduler has the store. */
    if (!options->producer && db_engine_of(options->url) == DB_SQLITE)
        r = lockfile_take(options->url, &engine->host, error, &engine->lock);
    if (r < 0)
        return r;
    return store_open(
        &(struct store_options){ .url = options->url,
                                 .role =
                                     options->producer ? STORE_PRODUCER : STORE_SCHEDULER,
                                 .busy_ms = options->busy_ms ? options->busy_ms : BUSY_MS,
                                 .vfs = options->vfs },
        error, &engine->store);
}

static int begin_life(struct engine *engine, const struct engine_options *options,
                      struct error *error)
{
    int r = read_database_clock(engine);
    engine->now_last = 0; /* nothing was written by our own clock yet */
    engine->started_at = engine_now(engine);
    engine->judge_from = engine->started_at + engine->settings.lease_us;
    bool somebody = !engine->producer || db_engine(engine->store->db) == DB_POSTGRES;
    if (r == 0 && somebody)
        r = become(engine);
    engine->registered_at = engine_now(engine);
    if (r == 0)
        r = store_queues_reload(engine->store);
    if (r == 0 && !engine->producer)
        r = kinds_register(engine);
    if (r == 0 && !engine->producer)
        r = recovery_begin(engine, RECOVERY_START, 0);
    if (r < 0)
        return error_set(error, r, NULL, "%s was opened, but cannot be written: %s.",
                         options->url, db_error(engine->store->db));
    return 0;
}

int engine_open(const struct engine_options *options, struct error *error,
                struct engine **ret)
{
    struct engine *engine = new(struct engine);
    if (!engine)
        return error_set(error, -HF_NOMEM, NULL, "No memory to open %s.", options->url);
    int r = set_up(engine, options, error);
    if (r == 0)
        r = open_store(engine, options, error);
    if (r == 0)
        r = begin_life(engine, options, error);
    if (r < 0) {
        engine_abandon(engine);
        return r;
    }
    *ret = engine;
    return 0;
}

void engine_workers_may_start(struct engine *engine, const struct recovery_counts *counts)
{
    const struct settings *s = &engine->settings;
    bool found = counts->running_failed + counts->cancelling_failed + counts->adopted +
                     counts->outcomes + counts->pending_resolved >
                 0;
    bool throttled = s->startup_throttle == THROTTLE_ALWAYS ||
                     (s->startup_throttle == THROTTLE_AUTO && found);
    for (size_t i = 0; i < engine->store->queue_count; i++)
        hint_queue(engine, engine->store->queues[i]->queue.id);
    /* What counts as old is what was there when the store was opened; the
     * stagger begins now, when workers may start. */
    dispatch_start(&engine->dispatch, engine_now(engine), throttled, s->startup_window_us,
                   s->startup_stagger_us, s->startup_burst_limit);
    engine->ready = true;
    engine->next_poll = 0;
    engine->next_dispatch = 0;
}

/* ---- closing ---- */

static int64_t hand_over(struct tx *tx, void *arg)
{
    struct engine *engine = tx->engine;
    (void)arg;
    /* note_ended() changes nothing in the list before the commit. */
    for (size_t i = 0; i < engine->run_count; i++) {
        int r = 0;
        struct job_row *row = tx_job(tx, engine->runs[i].job_id, &r);
        if (!row && r != -HF_NOT_FOUND)
            return r;
        if (!row || !job_state_busy(row->job.state) ||
            row->run.owner_id != engine->owner_id)
            continue;
        struct ending ending = {
            .event = ON_INTERRUPT,
            .error = { .type = ERROR_INTERRUPTED,
                       .message =
                           SLICE("The service was shut down while the job was running; "
                                 "it is tried again at once.") }
        };
        finish_job(tx, row, &ending);
    }
    return tx->store->failed;
}

static int64_t sign_off(struct tx *tx, void *arg)
{
    bool ended = false;
    (void)arg;
    int r = store_deliveries_give_back(tx->store, tx->engine->owner_id);
    return r < 0
               ? r
               : store_owner_end(tx->store, tx->engine->owner_id, OWNER_STOPPED, &ended);
}

void engine_leave_run(struct engine *engine, int64_t job_id)
{
    struct local_run *run = local_run_find(engine, job_id);
    if (!run)
        return;
    *run = engine->runs[--engine->run_count];
}

/* A line that breaks just now is mended once: a shutdown uses up nothing. */
static int64_t last_duty(struct engine *engine, int64_t (*work)(struct tx *tx, void *arg))
{
    int64_t r = engine_duty(engine, work, NULL);
    if (r == -HF_UNAVAILABLE && engine_reconnect(engine, 0) == 0)
        r = engine_duty(engine, work, NULL);
    return r;
}

static void leave(struct engine *engine)
{
    engine->capacity = 0; /* no more claims */
    if (engine->run_count > 0 && last_duty(engine, hand_over) < 0)
        return; /* as after a crash: the next start recovers */
    if (engine->owner_id != 0)
        (void)last_duty(engine, sign_off);
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    if (engine->store && !engine->broken)
        leave(engine);
    engine_abandon(engine);
}

void engine_abandon(struct engine *engine)
{
    if (!engine)
        return;
    if (engine->store)
        store_rollback(engine->store);
    store_close(engine->store);
    recovery_free(engine->recovery);
    zones_release(&engine->zones);
    dispatch_release(&engine->dispatch);
    subscriptions_release(&engine->subscriptions);
    arena_release(&engine->pending_arena);
    kinds_free(engine);
    free(engine->state_dir);
    free(engine->runs);
    free(engine->fresh);
    free(engine->notes);
    free(engine->told);
    free(engine->news);
    free(engine->kind_notes);
    kind_totals_release(&engine->kind_totals);
    lockfile_free(engine->lock);
    free(engine);
}
