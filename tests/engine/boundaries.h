/* SPDX-License-Identifier: Apache-2.0
 *
 * boundaries.h -- the workload of crash_story.h on PostgreSQL, one life at a time, with
 * the ledger in memory that outlives the process that runs it.
 *
 * The points of the ledger stand still here: its disk is never written.  A promise
 * that was touched has ended, one that was not holds. */
#pragma once

#include <libpq-fe.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash_lives.h"
#include "relay.h"
#include "signature.h"

enum { PROMISES_MAX = 2000, POINT = 1 };

/* ---- stories, each a life of its own ---- */

/* It ends with a kill, as the story wants it. */
static inline void story_node_killed(struct script *s)
{
    story_node(s);
    engine_abandon(s->w.engine);
    s->w.engine = NULL;
}

/* The node is killed with work under way, and the next one recovers. */
static inline void story_recovery(struct script *s)
{
    enqueue_local(s, 4);
    pass(s, 5 * US_PER_S); /* one worker after another */
    require_int(s, s->w.engine->run_count, 3);
    engine_abandon(s->w.engine);
    s->w.engine = NULL;
    live(s);
}

static inline int64_t pruned_of(struct script *s)
{
    struct queue_counts *list = NULL;
    size_t count = 0;
    int64_t sum = 0;
    require_int(s, store_counts(s->w.engine->store, &s->w.arena, &list, &count), 0);
    for (size_t i = 0; i < count; i++)
        sum += list[i].count[COUNT_PRUNED];
    return sum;
}

/* What is over is old after two days, and goes. */
static inline void story_old(struct script *s)
{
    s->w.settings.retention_completed_us = s->w.settings.retention_failed_us = US_PER_DAY;
    engine_abandon(s->w.engine);
    s->w.engine = NULL;
    live(s);
    touch_holds(s);
    touch_sessions(s);
    for (size_t i = 0; i < s->ledger.count; i++) {
        ledger_forget(&s->ledger, s->ledger.list[i].id, crash_disk_changes(s->disk));
        touch(s, ABOUT_KEY, s->ledger.list[i].id);
    }
    s->w.wall += 2 * US_PER_DAY;
    s->w.mono += 2 * US_PER_DAY;
    settle(s);
    require(s, pruned_of(s) > 10);
}

struct story {
    const char *name;
    void (*act)(struct script *s);
    bool cold; /* its opening is part of it */
    bool slow; /* a failure is not made up for until minutes later */
};

static const struct story stories[] = {
    { "projects and queues", story_settings, true, false },
    { "every kind of enqueue", story_enqueue, false, false },
    { "reports, cancels, changes, retries", story_reports, false, false },
    { "piles", story_piles, false, false },
    { "claims and beats", story_claims, false, false },
    { "holds", story_holds, false, false },
    { "the node's own work", story_node_killed, false, false },
    { "a producer", story_producer, false, false },
    { "recovery", story_recovery, true, false },
    { "retention", story_old, false, true },
};

/* ---- the script, in memory that is shared with its victims ---- */

/* Looks at the script from the relay, at the moment of a cut: nobody may have been
 * told of what is not committed (I1).  Then the victim is killed, if there is one. */
struct witness {
    const struct script *script;
    pid_t victim;
    void (*then)(void);
    size_t too_early;
};

static inline void witness_cut(void *arg)
{
    struct witness *witness = arg;
    witness->too_early += witness->script->applying && witness->script->told;
    if (witness->victim)
        kill(witness->victim, SIGKILL);
    if (witness->then)
        witness->then();
}

struct stage {
    struct script *script;
    struct witness *witness;
    const char *url;
    struct relay *relay;
    struct script *before; /* what a story begins with */
    struct promise *promises_before;
    bool openings; /* those of cold stories are tried, too */
    size_t points, violations;
    char where[200];
};

static inline void stage_init(struct stage *stage)
{
    *stage = (struct stage){ .url = test_postgres_url() };
    stage->script = test_shared_memory(sizeof(struct script));
    stage->witness = test_shared_memory(sizeof(struct witness));
    *stage->witness = (struct witness){ .script = stage->script };
    stage->relay = relay_start(stage->url, RELAY_COMMIT);
    stage->relay->meanwhile = witness_cut;
    stage->relay->arg = stage->witness;
    script_init(stage->script, crash_disk_new("nothing", false, NULL), NULL,
                stage->relay->url);
    stage->script->ledger =
        (struct ledger){ test_shared_memory(PROMISES_MAX * sizeof(struct promise)), 0,
                         PROMISES_MAX };
    stage->before = calloc(1, sizeof(*stage->before));
    stage->promises_before = calloc(PROMISES_MAX, sizeof(struct promise));
    check(stage->before && stage->promises_before);
}

static inline void stage_release(struct stage *stage)
{
    relay_end(stage->relay);
    crash_disk_free(stage->script->disk);
    free(stage->before);
    free(stage->promises_before);
}

/* One life in which a story is told.  False: it came to a bad end, see broken. */
static inline bool tell_story(struct stage *stage, const struct story *story)
{
    struct script *s = stage->script;
    s->broken[0] = '\0';
    s->spared = stage->openings && story->cold ? NULL : &stage->relay->resting;
    if (setjmp(s->stopped) == 0) {
        s->w.capacity = 3;
        live(s);
        story->act(s);
        if (s->w.engine)
            close_gracefully(s);
    }
    pile_free(&s->doing);
    return s->broken[0] == '\0';
}

/* ---- the store, past everybody ---- */

static inline void ask(const char *url, const char *sql)
{
    PGconn *conn = PQconnectdb(url);
    PQclear(PQexec(conn, "SET client_min_messages = warning"));
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

/* Where only the client dies, the server need not wait for its disk. */
static inline void set_fsync(const char *url, bool on)
{
    ask(url, on ? "ALTER SYSTEM SET fsync = on" : "ALTER SYSTEM SET fsync = off");
    ask(url, "SELECT pg_reload_conf()");
}

#define EACH_TABLE(statement)                                                            \
    "SET session_replication_role = replica;"                                            \
    " DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables"              \
    " WHERE schemaname = 'holdfast' LOOP EXECUTE format(" statement                      \
    "); END LOOP; END $$"

static inline void keep_store(const char *url)
{
    ask(url, "DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept");
    ask(url, EACH_TABLE("'CREATE TABLE kept.%I AS TABLE holdfast.%I', t, t"));
}

static inline void put_back_store(const char *url, bool empty)
{
    if (empty) {
        ask(url, "DROP SCHEMA IF EXISTS holdfast CASCADE");
        return;
    }
    ask(url, EACH_TABLE("'DELETE FROM holdfast.%I; INSERT INTO holdfast.%I"
                        " OVERRIDING SYSTEM VALUE SELECT * FROM kept.%I', t, t, t"));
}

/* ---- judging ---- */

static inline void stage_violated(struct stage *stage, const char *format, ...)
    printf_like(2, 3);
static inline void stage_violated(struct stage *stage, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (stage->violations++ < 10)
        printf("%s: %s\n", stage->where, text);
}

static inline void hold_to_promises(struct stage *stage, struct world *w)
{
    const struct ledger *ledger = &stage->script->ledger;
    for (size_t i = 0; i < ledger->count; i++) {
        const struct promise *p = &ledger->list[i];
        const char *broken = p->until < POINT ? NULL : promise_breaks(w, p);
        if (broken)
            stage_violated(stage, "%lld %s: acknowledged as %s", (long long)p->id, broken,
                           p->what);
    }
}

static inline void verify(struct stage *stage, struct world *w)
{
    struct findings found;
    check_world(w, &found);
    for (size_t i = 0; i < found.count; i++)
        stage_violated(stage, "I%d: %s", found.list[i].invariant, found.list[i].sentence);
}

static inline void ask_witness(struct stage *stage)
{
    if (stage->witness->too_early > 0)
        stage_violated(stage, "answered before the COMMIT was through");
    stage->witness->too_early = 0;
}

/* The next process opens what is there and recovers; if it is killed at once, another
 * one finds nothing to do. */
static inline void judge_store(struct stage *stage, bool twice)
{
    struct world *w = malloc(sizeof(*w));
    check(w);
    ask_witness(stage);
    *w = stage->script->w;
    w->url = stage->url;
    w->engine = NULL;
    w->on_started = NULL;
    w->capacity = 0;
    w->host.pid += 1000; /* another process than any */
    settings_default(&w->settings);
    arena_init(&w->arena, 64 << 10, (size_t)256 << 20);
    world_open(w);
    verify(stage, w);
    hold_to_promises(stage, w);
    if (twice) {
        const char *before = signature(w);
        world_crash(w);
        world_open(w);
        if (strcmp(signature(w), before) != 0)
            stage_violated(stage, "a second recovery changes the store");
    }
    world_crash(w);
    arena_release(&w->arena);
    free(w);
}
