/* test: once libs=libpq */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Every COMMIT on PostgreSQL is a place where something can break (I1, I3, I4, I7).
 *
 * Between the engine and the server stands a relay (relay.h) that counts COMMITs and
 * breaks the line at the Nth: before the server saw it, when it has seen it and nobody
 * waits for the answer, or when it has answered and nobody was told.  With it dies the
 * process that uses the engine (SIGKILL), or nobody, or the server itself.  The
 * workload is that of the crash points, with its ledger of what was acknowledged.
 *
 * Knobs: HF_STORY, a part of the name of the only story to tell; HF_BOUNDARIES, to kill
 * at each commit in all three ways instead of one by turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boundaries.h"

static const char *const cuts[RELAY_CUTS] = { "not sent", "sent, not answered",
                                              "answered, not told" };

/* ---- the process is killed ---- */

/* True if the story was told to its end, and nobody killed. */
static bool survives(struct stage *stage, const struct story *story)
{
    struct script *s = stage->script;
    int status = 0;
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        stage->witness->victim = getpid();
        _exit(tell_story(stage, story) ? 0 : 1);
    }
    check_int(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail("%s: status %d, %s", stage->where, status, s->broken);
    return false;
}

static void begin_story(struct stage *stage, bool first)
{
    if (!first)
        keep_store(stage->url);
    *stage->before = *stage->script;
    memcpy(stage->promises_before, stage->script->ledger.list,
           PROMISES_MAX * sizeof(struct promise));
}

static void begin_again(struct stage *stage, bool first)
{
    put_back_store(stage->url, first);
    *stage->script = *stage->before;
    memcpy(stage->script->ledger.list, stage->promises_before,
           PROMISES_MAX * sizeof(struct promise));
}

static bool wanted(const struct story *story)
{
    const char *only = getenv("HF_STORY");
    return !only || strstr(story->name, only);
}

/* One kill; true if the story was over before its Nth commit. */
static bool kill_at(struct stage *stage, const struct story *story, size_t nth, int cut)
{
    bool first = story == stories;
    snprintf(stage->where, sizeof(stage->where), "%s, commit %zu %s", story->name, nth,
             cuts[cut]);
    begin_again(stage, first);
    relay_aim(stage->relay, (enum relay_cut)cut, wanted(story) ? nth : 0, 0);
    if (survives(stage, story))
        return true;
    stage->points++;
    judge_store(stage, cut == RELAY_NOT_TOLD);
    return false;
}

/* Every commit in one of the three ways, by turns; or in all of them, which takes three
 * times as long. */
static void kill_at_every_commit(struct stage *stage, const struct story *story)
{
    bool all = getenv("HF_BOUNDARIES") != NULL, over = false;
    size_t turn = (size_t)(story - stories);
    begin_story(stage, story == stories);
    for (size_t nth = 1; !over; nth++)
        for (int way = 0; way < (all ? RELAY_CUTS : 1) && !over; way++)
            over = kill_at(stage, story, nth, (int)((nth + turn + way) % RELAY_CUTS));
}

TEST_SLOW(a_process_killed_at_every_commit_has_lost_nothing_that_was_acknowledged, 1800)
{
    struct stage stage;
    stage_init(&stage);
    set_fsync(stage.url, false);
    stage.openings = true;
    for (size_t i = 0; i < array_len(stories); i++)
        kill_at_every_commit(&stage, &stories[i]);
    test_note("%zu kills at commits, %zu promises, %zu violations", stage.points,
              stage.script->ledger.count, stage.violations);
    check_int(stage.violations, 0);
    stage_release(&stage);
}

/* ---- only the line breaks ---- */

/* What a store holds, whatever the ids: the same work done twice would show. */
static const char *sum_up(struct stage *stage)
{
    static const char SQL[] =
        "SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("
        "SELECT format('jobs %s %s %s: %s', q.name, state, attempt, count(*)) AS line"
        " FROM holdfast.jobs j JOIN holdfast.queues q ON q.id = j.queue_id"
        " GROUP BY q.name, state, attempt"
        " UNION ALL SELECT format('runs %s %s: %s', outcome, error_type, count(*))"
        " FROM holdfast.runs GROUP BY outcome, error_type"
        " UNION ALL SELECT format('holds %s %s: %s', holder, state, count(*))"
        " FROM holdfast.reservations GROUP BY holder, state"
        " UNION ALL SELECT format('events %s: %s', type, count(*))"
        " FROM holdfast.events WHERE type <> 'owner.died' GROUP BY type) lines";
    PGconn *conn = PQconnectdb(stage->url);
    PGresult *result = PQexec(conn, SQL);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail("%s", PQerrorMessage(conn));
    char *text = strdup(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQfinish(conn);
    return text; /* until the test ends */
}

/* Tells all stories, the line being cut at some commits; they go on as if nothing had
 * happened.  Returns what the store holds in the end. */
static const char *tell_all(enum relay_cut cut, size_t nth, size_t *cuts_made,
                            size_t *violations)
{
    struct stage stage;
    stage_init(&stage);
    set_fsync(stage.url, false);
    relay_aim(stage.relay, cut, nth, 2);
    for (size_t i = 0; i < array_len(stories) && !stories[i].slow; i++) {
        snprintf(stage.where, sizeof(stage.where), "%s, every second commit %s from %zu",
                 stories[i].name, cuts[cut], nth);
        if (!tell_story(&stage, &stories[i]))
            fail("%s: %s", stage.where, stage.script->broken);
        struct world *w = &stage.script->w;
        w->url = stage.url;
        verify(&stage, w);
        w->url = stage.relay->url;
    }
    const char *sum = sum_up(&stage);
    judge_store(&stage, true);
    *cuts_made += atomic_load(&stage.relay->cuts);
    *violations += stage.violations;
    arena_release(&stage.script->w.arena);
    stage_release(&stage);
    return sum;
}

TEST_SLOW(a_line_cut_at_every_commit_changes_no_answer_and_no_row, 600)
{
    size_t made = 0, violations = 0;
    const char *whole = tell_all(RELAY_NOT_SENT, 0, &made, &violations);
    check_int(made, 0);
    for (int cut = 0; cut < RELAY_CUTS; cut++)
        for (size_t nth = 1; nth <= 2; nth++) {
            const char *sum = tell_all((enum relay_cut)cut, nth, &made, &violations);
            check_same(sum, whole);
        }
    test_note("%zu commits cut, %zu violations", made, violations);
    check(made > 100);
    check_int(violations, 0);
}

/* ---- the server dies ---- */

static void crash_server(void)
{
    test_postgres_crash(); /* stop -m immediate */
    test_postgres_start();
}

static void story_short(struct script *s)
{
    int64_t ids[3];
    put_batch(s, work("q", "{\"short\":true}"), 3, ids);
    take_job(s, "s1", ids[0]);
    finish_job_of(s, "s1", ids[0]);
    take_job(s, "s1", ids[1]);
    fail_job_of(s, "s1", ids[1], ERROR_NETWORK);
    cancel_job(s, ids[2], JOB_CANCELLED);
}

TEST_SLOW(a_server_that_dies_at_every_commit_keeps_what_was_acknowledged, 600)
{
    static const struct story story = { "a short story", story_short };
    size_t points = 0, violations = 0;
    for (int cut = 0; cut < RELAY_CUTS; cut++) {
        struct stage stage;
        stage_init(&stage);
        set_fsync(stage.url, true);
        stage.witness->then = crash_server;
        if (!tell_story(&stage, &story)) /* makes the schema, undisturbed */
            fail("%s", stage.script->broken);
        relay_aim(stage.relay, (enum relay_cut)cut, 1, 2);
        snprintf(stage.where, sizeof(stage.where), "the server dies, %s", cuts[cut]);
        if (!tell_story(&stage, &story))
            fail("%s: %s", stage.where, stage.script->broken);
        judge_store(&stage, true);
        points += atomic_load(&stage.relay->cuts);
        violations += stage.violations;
        stage_release(&stage);
    }
    test_note("%zu crashes of the server at commits, %zu violations", points, violations);
    check(points > 10);
    check_int(violations, 0);
}
