/* SPDX-License-Identifier: Apache-2.0
 *
 * project_delete.c -- a project that was marked goes, with what is in it, bite by bite.
 *
 * First what makes new things of it (schedules, webhooks, tokens), then its jobs, then
 * its row.  Jobs have no index by project: a pass walks all of them in the order of
 * their ids, cancels those that wait, asks those that run to stop, and removes those
 * that are over, counted as pruned (I10).  Nothing new can come in, and a retry is made
 * by a job that is still there: so a pass that found none has proved that there is
 * none.  The mark is in the store, and each bite is a transaction: whoever crashes in
 * it, the next one goes on, with a new pass.
 *
 * One that waits for runs to stop lets the others pass.  A project that was to be deleted
 * only if it is empty, and is not, is kept. */
#include "engine/engine.h"
#include "store/schedules.h"

enum { SCAN_JOBS = 500, BITE_ROWS = 1000 };
/* For runs to stop, and how often that is doubled. */
#define WAIT_US (200 * US_PER_MS)
enum { LONGEST_WAIT = 7 };

static const struct slice why = SLICE("Its project is being deleted.");

/* What a bite has done. */
enum bite { NOTHING = 0, SOME, WAITING, KEPT, GONE };

/* ---- what is not a job ---- */

/* Schedules with their fires and endpoints, webhooks with their deliveries, tokens: as
 * much of one kind as fits. */
static int64_t drop_small(struct tx *tx, const struct project *project)
{
    static const enum sql steps[] = {
        SQL_PROJECT_DROP_FIRES,     SQL_PROJECT_DROP_ENDPOINTS,
        SQL_PROJECT_DROP_SCHEDULES, SQL_PROJECT_DROP_DELIVERIES,
        SQL_PROJECT_DROP_WEBHOOKS,  SQL_PROJECT_DROP_TOKENS,
        SQL_PROJECT_DROP_KEYS
    };
    for (size_t i = 0; i < array_len(steps); i++) {
        int64_t n =
            db_run(tx->store->db, (int)steps[i],
                   (struct db_value[]){ db_int(project->id), db_int(BITE_ROWS) }, 1);
        if (n < 0)
            return store_fail(tx->store, (int)n);
        if (n > 0 && steps[i] == SQL_PROJECT_DROP_WEBHOOKS &&
            subscriptions_changed(tx) < 0)
            return tx->store->failed;
        if (n > 0)
            return SOME;
    }
    return NOTHING;
}

static int64_t keep(struct tx *tx, struct project *project)
{
    project->deleting = DELETING_NOT;
    int r = store_project_update(tx->store, project);
    if (r == 0)
        tell_project(tx, project, "project.kept", "jobs", tx->engine->deletion.found);
    return r < 0 ? r : KEPT;
}

/* ---- jobs ---- */

static int remove_job(struct tx *tx, struct job_row *row)
{
    struct job *job = &row->job;
    if (job_state_waiting(job->state))
        cancel_waiting(tx, job, why, "job.cancelled");
    else if (job->state == JOB_RUNNING)
        ask_to_stop(tx, job, why);
    else if (job_state_terminal(job->state) && job->retry_state != RETRY_RETRIED) {
        int64_t n = prune_chain(tx, job->id);
        if (n < 0)
            return (int)n;
        tx->engine->deletion.removed += n;
        tx->engine->deletion.changed = true;
        return 0;
    } else {
        return 0; /* it stops, or goes with its retry */
    }
    tx->engine->deletion.changed = true;
    return tx->store->failed;
}

/* The ids of the project's jobs among the next ones; how many were looked at. */
static int64_t scan(struct tx *tx, int64_t project_id, int64_t *ids, size_t *ret_count)
{
    struct db_rows rows;
    int64_t seen = 0;
    int r = db_query(
        tx->store->db, SQL_PROJECT_SCAN,
        (struct db_value[]){ db_int(tx->engine->deletion.after), db_int(SCAN_JOBS) }, 1,
        &rows);
    *ret_count = 0;
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        seen++;
        tx->engine->deletion.after = db_get_int(&rows, 0);
        if (db_get_int(&rows, 1) == project_id)
            ids[(*ret_count)++] = db_get_int(&rows, 0);
    }
    db_done(&rows);
    return r < 0 ? store_fail(tx->store, r) : seen;
}

static int64_t walk(struct tx *tx, struct project *project)
{
    struct deletion *d = &tx->engine->deletion;
    int64_t ids[SCAN_JOBS];
    struct job_row *rows = NULL;
    size_t n = 0, count = 0;
    int64_t seen = scan(tx, project->id, ids, &n);
    if (seen < 0)
        return seen;
    d->found += (int64_t)n;
    if (n > 0 && project->deleting == DELETING_IF_EMPTY)
        return keep(tx, project);
    int r = n ? store_jobs_load(tx->store, ids, n, &rows, &count) : 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = remove_job(tx, &rows[i]);
    if (r < 0)
        return r;
    if (seen == SCAN_JOBS)
        return SOME;
    bool clean = d->found == 0, changed = d->changed;
    d->after = d->found = 0; /* the next pass */
    d->changed = false;
    if (changed)
        d->waits = 0;
    return clean ? NOTHING : changed ? SOME : WAITING;
}

/* ---- all of it ---- */

static int64_t drop_project(struct tx *tx, const struct project *project)
{
    tell_project(tx, project, "project.deleted", "jobs", tx->engine->deletion.removed);
    int r = store_flush(tx->store);
    int64_t n = r < 0 ? r
                      : db_run(tx->store->db, SQL_PROJECT_DELETE,
                               (struct db_value[]){ db_int(project->id) }, 1);
    tx->store->project_count = 0;
    return n < 0 ? store_fail(tx->store, (int)n) : GONE;
}

static int64_t bite(struct tx *tx, void *arg)
{
    struct deletion *d = &tx->engine->deletion;
    struct project project;
    int r = store_project_deleting(tx->store, d->waits_up_to, &project);
    (void)arg;
    if (r == -HF_NOT_FOUND && d->waits_up_to != 0) {
        d->waits_up_to = 0; /* from the first again */
        r = store_project_deleting(tx->store, 0, &project);
    }
    if (r < 0)
        return r == -HF_NOT_FOUND ? NOTHING : r;
    if (d->project_id != project.id)
        *d = (struct deletion){ .project_id = project.id,
                                .waits = d->waits,
                                .waits_up_to = d->waits_up_to };
    int64_t done = NOTHING;
    if (project.deleting == DELETING_ALL)
        done = drop_small(tx, &project);
    if (done == NOTHING)
        done = walk(tx, &project);
    return done == NOTHING ? drop_project(tx, &project) : done;
}

/* A pass walks all jobs there are: whoever waits long looks ever more rarely. */
static int64_t longer_wait(struct deletion *d)
{
    int64_t wait = WAIT_US << d->waits;
    if (d->waits < LONGEST_WAIT)
        d->waits++;
    return wait;
}

int64_t project_step(struct engine *engine)
{
    int64_t now = engine_now(engine);
    int64_t done = engine_duty(engine, bite, NULL), project = engine->deletion.project_id;
    if (done == KEPT || done == GONE || done < 0) {
        if (done >= 0)
            log_event(engine->log, LEVEL_INFO,
                      done == GONE ? "project_deleted" : "project_kept",
                      log_int("project", project),
                      log_int("jobs_removed", engine->deletion.removed));
        engine->deletion = (struct deletion){ 0 };
    }
    if (done == WAITING || done < 0) /* meanwhile it is the next one's turn */
        engine->deletion.waits_up_to = project;
    engine->next_project = done == NOTHING   ? INT64_MAX
                           : done == WAITING ? now + longer_wait(&engine->deletion)
                           : done < 0        ? now + WAIT_US
                                             : now;
    return done;
}
