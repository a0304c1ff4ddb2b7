/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_world.c -- engines, clocks and crashes; which rows a step has touched.
 *
 * SQLite tells itself which rows are written (its update hook), whoever writes
 * them; PostgreSQL is asked for the rows of the transactions since the step
 * began.  So a change that the engine makes and does not tell is seen. */
#include "sim.h"

#include "db/db_sqlite.h"
#include "engine/check.h"

/* ---- what a step touches ---- */

static void touch(struct watch *w, int64_t id)
{
    if (w->id_count == w->id_capacity) {
        w->id_capacity = w->id_capacity ? 2 * w->id_capacity : 256;
        void *grown = reallocarray(w->ids, w->id_capacity, sizeof(*w->ids));
        check(grown != NULL);
        w->ids = grown;
    }
    w->ids[w->id_count++] = id;
}

static void on_update(void *arg, int op, const char *db, const char *table,
                      sqlite3_int64 rowid)
{
    struct watch *w = arg;
    (void)op, (void)db;
    if (strcmp(table, "jobs") == 0 || strcmp(table, "runs") == 0)
        touch(w, rowid);
    else if (strcmp(table, "owners") == 0)
        w->owners = true;
    else if (strcmp(table, "reservations") == 0)
        w->holds = true;
    else if (strcmp(table, "events") == 0 && rowid <= w->event_before)
        w->event_before = rowid - 1;
}

enum { WATCH_SNAPSHOT, WATCH_TOUCHED, WATCH_HOLD, WATCH_STATEMENTS };
static const struct db_sql watch_sql[WATCH_STATEMENTS] = {
    [WATCH_SNAPSHOT] = { "snapshot", "",
                         "SELECT txid_snapshot_xmax(txid_current_snapshot())" },
    [WATCH_TOUCHED] = { "touched", "since:int",
                        "SELECT id FROM jobs WHERE CAST(CAST(xmin AS text) AS bigint) >= "
                        "{since} UNION SELECT job_id FROM runs WHERE CAST(CAST(xmin AS "
                        "text) AS bigint) >= {since}" },
    [WATCH_HOLD] = { "hold", "id:int", "SELECT state FROM reservations WHERE id = {id}" },
};

static void ask_server(struct sim *s, int sql, const struct db_value *values,
                       bool snapshot)
{
    struct db_rows rows;
    int r = db_query(s->watch.db, sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0)
        if (snapshot)
            s->watch.snapshot = db_get_int(&rows, 0);
        else
            touch(&s->watch, db_get_int(&rows, 0));
    if (r < 0)
        fail("watching: %s", db_error(s->watch.db));
    db_done(&rows);
}

int sim_hold_state(struct sim *s, int64_t id)
{
    struct reservation row = { 0 };
    struct db_rows rows;
    if (!s->postgres)
        return store_reservation_get(sim_store(s), id, &s->arena, &row) == 0 ? row.state
                                                                             : 0;
    int r =
        db_query(s->watch.db, WATCH_HOLD, (struct db_value[]){ db_int(id) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        row.state = (int)db_get_int(&rows, 0);
    if (r < 0)
        fail("watching: %s", db_error(s->watch.db));
    db_done(&rows);
    return row.state;
}

void watch_begin(struct sim *s)
{
    struct watch *w = &s->watch;
    arena_reset(&s->arena);
    w->id_count = w->row_count = w->gone_count = 0;
    w->event_before = INT64_MAX;
    w->owners = w->holds = s->postgres;
    if (s->postgres)
        ask_server(s, WATCH_SNAPSHOT, NULL, true);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

bool sim_look(struct sim *s, int64_t id, struct job_row *ret)
{
    *ret = (struct job_row){ 0 };
    int r = store_job_get(sim_store(s), id, &s->arena, ret);
    sim_must(s, r == 0 || r == -HF_NOT_FOUND, "read", "job %lld cannot be read: %s",
             (long long)id, status_of(r)->name);
    return r == 0;
}

void watch_collect(struct sim *s)
{
    struct watch *w = &s->watch;
    size_t n = 0;
    if (s->postgres)
        ask_server(s, WATCH_TOUCHED, (struct db_value[]){ db_int(w->snapshot) }, false);
    qsort(w->ids, w->id_count, sizeof(*w->ids), by_value);
    for (size_t i = 0; i < w->id_count; i++)
        if (n == 0 || w->ids[i] != w->ids[n - 1])
            w->ids[n++] = w->ids[i];
    w->id_count = n;
    w->rows = arena_array(&s->arena, struct job_row, n + 1);
    w->gone = arena_array(&s->arena, int64_t, n + 1);
    check(w->rows && w->gone);
    for (size_t i = 0; i < n; i++)
        if (sim_look(s, w->ids[i], &w->rows[w->row_count]))
            w->row_count++;
        else
            w->gone[w->gone_count++] = w->ids[i];
}

const struct job_row *sim_seen(const struct sim *s, int64_t id)
{
    for (size_t i = 0; i < s->watch.row_count; i++)
        if (s->watch.rows[i].job.id == id)
            return &s->watch.rows[i];
    return NULL;
}

const struct job_row *sim_seen_retry(const struct sim *s, int64_t id)
{
    for (size_t i = 0; i < s->watch.row_count; i++)
        if (s->watch.rows[i].job.retry_of == id)
            return &s->watch.rows[i];
    return NULL;
}

struct store *sim_store(struct sim *s)
{
    return s->postgres ? s->watch.store : s->nodes[0].engine->store;
}

/* ---- nodes ---- */

static int64_t sim_wall(const struct clock *clock)
{
    return ((const struct sim *)clock)->wall;
}

static int64_t sim_mono(const struct clock *clock)
{
    return ((const struct sim *)clock)->mono;
}

static void on_started(void *arg, const struct started *runs, size_t count)
{
    struct node *node = arg;
    for (size_t i = 0; i < count; i++) {
        check(node->started_count < array_len(node->started));
        check(node->run_count < HANDLERS);
        node->started[node->started_count++] = runs[i].job.id;
        node->runs[node->run_count].job_id = runs[i].job.id;
        node->runs[node->run_count].owner_id = runs[i].owner_id;
        node->runs[node->run_count].deadline_at = runs[i].deadline_at;
        node->runs[node->run_count++].stop = 0;
    }
}

static void on_stop(void *arg, int64_t job_id, int type)
{
    struct node *node = arg;
    for (size_t i = 0; i < node->run_count; i++)
        if (node->runs[i].job_id == job_id)
            node->runs[i].stop = type;
}

/* Opens the engine; what it did by that is not looked at yet. */
static void open_engine(struct sim *s, struct node *node)
{
    struct error error = { 0 };
    node->kind_count = 0;
    for (int i = 0; i < KINDS; i++)
        if (node->kinds >> i & 1)
            node->kind_names[node->kind_count++] = sim_kind_names[i];
    int r = engine_open(
        &(struct engine_options){
            .url = s->url,
            .vfs = s->vfs,
            .node_name = "node",
            .settings = &node->settings,
            .clock = &s->clock,
            .seed = s->seed + 1,
            .host = &node->host,
            .kinds = node->kind_names,
            .kind_count = node->kind_count,
            .hooks = { .arg = node, .started = on_started, .stop_run = on_stop } },
        &error, &node->engine);
    sim_must(s, r == 0, "open", "the store cannot be opened: %s", error.text);
    node->host.pid++; /* the next one is another process */
    node->host.start_ticks++;
    engine_set_capacity(node->engine, node->capacity);
    if (!s->postgres)
        sqlite3_update_hook(sqlite_of(node->engine->store->db)->handle, on_update,
                            &s->watch);
}

/* A new life, of which nothing is known yet. */
static void be_born(struct node *node)
{
    node->boot = node->next_boot;
    node->opened_at = node->engine->started_at;
    node->judge_from = node->opened_at + node->settings.lease_us;
    node->ready_at = node->recovered = node->tick_wall = 0;
    node->throttled = false;
    node->started_count = 0;
}

/* What was done before the store could be looked at again is explained first. */
void sim_open_and(struct sim *s, struct node *node,
                  void (*explain)(struct sim *s, struct node *node))
{
    open_engine(s, node);
    for (size_t i = 0; i < s->model.live_count; i++)
        touch(&s->watch, s->model.live[i]->job.id);
    watch_collect(s);
    if (explain)
        explain(s, node);
    be_born(node);
    explain_open(s, node);
    s->closing = 0;
}

void sim_open(struct sim *s, struct node *node)
{
    if (s->closing == 0)
        watch_begin(s);
    sim_open_and(s, node, s->closing ? explain_close : NULL);
}

void sim_crash(struct sim *s, struct node *node, enum crash_loss loss)
{
    s->shared->saw[SAW_CRASHES]++;
    s->shared->saw[SAW_INTERRUPTED] += !node->engine->ready;
    /* Not even the closing of the files may do anything any more. */
    if (s->disk)
        crash_disk_stop_after(s->disk, 0);
    engine_abandon(node->engine);
    node->engine = NULL;
    node->run_count = 0; /* its handlers died with it */
    if (s->disk)
        crash_disk_restart(s->disk, loss, s->seed + s->step);
}

void sim_reboot(struct node *node)
{
    snprintf(node->host.boot_id, sizeof(node->host.boot_id), "boot-%d-%lld", node->index,
             (long long)++node->next_boot);
}

void sim_close(struct sim *s, struct node *node)
{
    watch_begin(s);
    s->closing = node->owner_id;
    s->closed_at = engine_now(node->engine);
    engine_close(node->engine);
    node->engine = NULL;
    node->run_count = 0; /* its handlers died with it */
    s->shared->saw[SAW_CLOSES]++;
    if (!s->postgres)
        return; /* it can be looked at when it is open again */
    watch_collect(s);
    explain_close(s, node);
    explain_owners(s, node, s->closed_at);
    s->closing = 0;
}

/* ---- piles and ticks ---- */

void sim_link_pile(struct sim *s)
{
    for (size_t i = 0; i < s->pile_count; i++)
        s->pile[i]->mail.next = i + 1 < s->pile_count ? &s->pile[i + 1]->mail : NULL;
}

void sim_apply(struct sim *s, struct node *node)
{
    struct engine *engine = node->engine;
    uint64_t second = engine->totals.second_passes;
    int64_t now = engine_now(engine);
    watch_begin(s);
    sim_link_pile(s);
    engine_apply(engine, s->pile[0]);
    watch_collect(s);
    explain_rebirth(s, node);
    sim_tell(s);
    explain_pile(s, node, now, engine->totals.second_passes > second);
    explain_owners(s, node, now);
    compare_seen(s);
}

/* A jump, a suspend or a long pause: everybody gets a full lease again. */
void sim_note_clock(struct sim *s, struct node *node, int64_t now)
{
    int64_t wall = s->wall - node->tick_wall, mono = s->mono - node->tick_mono;
    int64_t tolerance = node->settings.lease_us / 3;
    if (s->latest < now)
        s->latest = now;
    bool first = node->tick_wall == 0;
    if (first)
        node->awake_at = now;
    node->tick_wall = s->wall;
    node->tick_mono = s->mono;
    /* A sleep that it asked for is no stop. */
    int64_t late = mono - node->engine->tick_sleep;
    if (first || (llabs(wall - mono) < tolerance && late < tolerance))
        return;
    node->judge_from = now + node->settings.lease_us;
    node->awake_at = now;
    s->shared->saw[SAW_JUMPS]++;
}

int64_t sim_tick(struct sim *s, struct node *node)
{
    int64_t now = engine_now(node->engine);
    watch_begin(s);
    sim_note_clock(s, node, now);
    int64_t next = engine_tick(node->engine);
    watch_collect(s);
    explain_rebirth(s, node);
    explain_time(s, node, now, node->engine->ready);
    return next;
}

void sim_settle(struct sim *s, struct node *node)
{
    int64_t next = 0;
    for (int i = 0; i < 10000; i++) {
        next = sim_tick(s, node);
        if (next > engine_now(node->engine) && node->engine->ready) {
            check_settled(s, node);
            return;
        }
    }
    sim_broken(s, "endless", "the engine is never done: it wants to be called at %lld",
               (long long)next);
}

bool sim_is_up(struct sim *s, struct node *node)
{
    if (!node->engine || node->frozen_until > s->mono)
        return false;
    if (node->frozen_until != 0) { /* it wakes up, and looks around first */
        node->frozen_until = 0;
        sim_say(s, "node %d goes on", node->index);
        sim_settle(s, node);
    }
    return true;
}

struct node *sim_some_node(struct sim *s)
{
    struct node *up[NODES];
    size_t count = 0;
    for (size_t i = 0; i < s->node_count; i++)
        if (s->gathering ? s->nodes[i].engine != NULL && s->nodes[i].frozen_until == 0
                         : sim_is_up(s, &s->nodes[i]))
            up[count++] = &s->nodes[i];
    check(count > 0);
    return count == 1 ? up[0] : up[pick(s, (int64_t)count)];
}

void sim_pass(struct sim *s, int64_t us)
{
    while (us > 0) {
        int64_t part = us < SIM_BEAT_US ? us : SIM_BEAT_US;
        s->wall += part;
        s->mono += part;
        us -= part;
        workers_beat(s);
        for (size_t i = 0; i < s->node_count; i++)
            if (sim_is_up(s, &s->nodes[i]))
                sim_settle(s, &s->nodes[i]);
    }
}

/* ---- the whole store ---- */

static void on_violation(void *arg, const struct check_finding *finding)
{
    sim_broken(arg, "check", "I%d: %s", finding->invariant, finding->sentence);
}

static void run_own_check(struct sim *s, const struct node *node)
{
    struct error error = { 0 };
    struct store *reader = NULL;
    struct check_report report = { 0 };
    int r = store_open(
        &(struct store_options){
            .url = s->url, .role = STORE_READER, .busy_ms = 1000, .vfs = s->vfs },
        &error, &reader);
    sim_must(s, r == 0, "check", "the reader cannot open the store: %s", error.text);
    r = check_store_from(reader, &node->host, engine_now(node->engine), on_violation, s,
                         &report);
    sim_must(s, r == 0, "check", "the check failed: %s", status_of(r)->name);
    sim_must(s, report.jobs == (int64_t)s->model.job_count, "I1 lost job",
             "%lld jobs are there, not %zu", (long long)report.jobs, s->model.job_count);
    store_close(reader);
}

void sim_check_all(struct sim *s)
{
    struct node *node = sim_some_node(s);
    struct job_filter filter = { .limit = 500 };
    size_t seen = 0, count = 1;
    s->shared->saw[SAW_CHECKS]++;
    while (count > 0) {
        struct job_row *rows = NULL;
        arena_reset(&s->arena);
        int r = store_jobs_list(sim_store(s), &filter, &s->arena, &rows, &count);
        sim_must(s, r == 0, "read", "jobs cannot be listed: %s", status_of(r)->name);
        for (size_t i = 0; i < count; i++) {
            if (rows[i].job.payload_apart)
                check_ok(store_payload(sim_store(s), &rows[i].job, &s->arena));
            model_compare(s, &rows[i]);
        }
        seen += count;
        filter.before = count > 0 ? rows[count - 1].job.id : 0;
    }
    sim_must(s, seen == s->model.job_count, "I1 lost job",
             "%zu jobs are there, %zu were acknowledged", seen, s->model.job_count);
    model_compare_counts(s);
    run_own_check(s, node);
}

/* ---- beginning and end ---- */

static void choose_settings(struct sim *s)
{
    struct settings *g = &s->settings;
    settings_default(g);
    g->lease_us = 9 * US_PER_S;
    g->cleanup_interval_us = 45 * US_PER_S;
    g->zombie_threshold_us = 90 * US_PER_S;
    g->startup_window_us = 6 * US_PER_S;
    g->startup_burst_limit = 2;
    g->max_execution_us = 60 * US_PER_S;
    g->http_max_execution_us = 20 * US_PER_S;
    g->stale_after_us = 15 * US_PER_S;
    g->slots = 4;
    snprintf(g->retry_delays, sizeof(g->retry_delays), "%s", sim_policies[0].text);
    g->max_retries = (int)rng_between(&s->rng, 0, 3);
    g->crash_limit = (int)rng_between(&s->rng, 1, 3);
    g->startup_throttle = (enum throttle_mode)pick(s, 3);
    g->recovery_action = once_in(s, 4) ? RECOVERY_FAIL : RECOVERY_RETRY;
    g->event_level = once_in(s, 4) ? EVENTS_EVERY : EVENTS_NOTABLE;
    g->claim_batch = once_in(s, 4) ? 2 : 0;
    if (s->postgres)
        return; /* it does not tell which rows are gone */
    g->retention_completed_us = once_in(s, 2) ? US_PER_DAY : 0;
    g->retention_failed_us = once_in(s, 2) ? 2 * US_PER_DAY : 0;
}

static void init_node(struct sim *s, int i)
{
    struct node *node = &s->nodes[i];
    node->index = i;
    snprintf(node->host.name, sizeof(node->host.name), "host-%d", i);
    snprintf(node->host.boot_id, sizeof(node->host.boot_id), "boot-%d-0", i);
    node->host.pid = 1000;
    node->host.start_ticks = 1;
    node->host.pid_ns = 42 + i;
    node->settings = s->settings;
    node->capacity = (size_t)rng_between(&s->rng, 2, 12);
    node->kinds = 7; /* http, mail, image */
}

static void connect_watch(struct sim *s)
{
    struct error error = { 0 };
    if (db_open(&(struct db_options){ .url = s->url,
                                      .sql = watch_sql,
                                      .sql_count = WATCH_STATEMENTS,
                                      .schema = "holdfast" },
                &error, &s->watch.db) < 0 ||
        store_open(&(struct store_options){ .url = s->url, .role = STORE_READER }, &error,
                   &s->watch.store) < 0)
        fail("watching: %s", error.text);
}

void sim_init(struct sim *s, uint64_t seed, const char *url, struct crash_disk *disk)
{
    *s = (struct sim){ .clock = { sim_wall, sim_mono },
                       .wall = INT64_C(1800000000) * US_PER_S,
                       .mono = SIM_MONO_START,
                       .url = url,
                       .disk = disk,
                       .vfs = disk ? SIM_DISK : NULL,
                       .postgres = db_engine_of(url) == DB_POSTGRES,
                       .seed = seed };
    arena_init(&s->arena, 256 << 10, (size_t)256 << 20);
    arena_init(&s->names, 64 << 10, (size_t)256 << 20);
    rng_seed(&s->rng, seed);
    choose_settings(s);
    model_init(s);
    s->node_count = s->postgres ? 2 : 1;
    for (size_t i = 0; i < s->node_count; i++)
        init_node(s, (int)i);
    for (int i = 0; i < WORKERS; i++)
        snprintf(s->workers[i].session, sizeof(s->workers[i].session), "worker%d.0", i);
}

void sim_begin(struct sim *s)
{
    struct error error = { 0 };
    if (s->postgres) {
        /* The tables must be there before they are watched. */
        struct store *store = NULL;
        if (store_open(&(struct store_options){ .url = s->url, .role = STORE_SCHEDULER },
                       &error, &store) < 0)
            fail("opening: %s", error.text);
        store_close(store);
        connect_watch(s);
    }
    for (size_t i = 0; i < s->node_count; i++)
        sim_open(s, &s->nodes[i]);
}

void sim_release(struct sim *s)
{
    for (size_t i = 0; i < s->node_count; i++)
        engine_abandon(s->nodes[i].engine);
    if (s->disk)
        crash_disk_free(s->disk);
    store_close(s->watch.store);
    db_close(s->watch.db);
    model_release(&s->model);
    free(s->watch.ids);
    arena_release(&s->arena);
    arena_release(&s->names);
}
