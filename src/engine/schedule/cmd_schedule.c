/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_schedule.c -- schedules are made, changed, dropped, and triggered by hand.
 *
 * Whoever changes one has its row locked, and deals first with what is due under the old
 * words: so each fire time belongs to the words that were there when it passed. */
#include "base/limits.h"
#include "base/text.h"
#include "engine/schedule/endpoint.h"
#include "engine/schedule/fire.h"

enum { TIMES = EDIT_WHEN | EDIT_START | EDIT_END, DROPPED_FIRES = 1000 };

/* ---- finding ---- */

static int not_there(struct command *c, int64_t id, bool endpoint)
{
    return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no %s %lld.",
                     endpoint ? "endpoint" : "schedule", (long long)id);
}

/* For changing; one of another project is not there for whoever is bound to one. */
static int find(struct tx *tx, struct command *c, int64_t id, int64_t project_id,
                bool endpoint, struct schedule *ret)
{
    int r = store_schedule_lock(tx->store, id, ret);
    if (r == -HF_NOT_FOUND || (r == 0 && project_id && project_id != ret->project_id) ||
        (r == 0 && endpoint && !schedule_is_endpoint(ret)))
        return not_there(c, id, endpoint);
    return r;
}

/* Asking first is how a person gets a sentence instead of a constraint. */
static int check_name(struct tx *tx, struct command *c, const struct schedule *s)
{
    struct schedule other = { 0 };
    int r = store_flush(tx->store);
    if (r == 0)
        r = store_schedule_by_name(tx->store, s->project_id, s->name, &tx->store->arena,
                                   &other);
    if (r == -HF_NOT_FOUND)
        return 0;
    if (r < 0 || other.id == s->id)
        return r;
    return error_set(
        &c->error, -HF_CONFLICT, "name",
        "The name \"%.*s\" is taken by schedule %lld of this project; it must "
        "be another.",
        (int)s->name.n, s->name.p, (long long)other.id);
}

/* ---- merging ---- */

/* Interval and start say where an interval begins to be counted; a change of neither
 * leaves it there. */
static void set_anchor(struct tx *tx, struct schedule *s, int64_t old_every_us,
                       int64_t old_start_at)
{
    if (s->every_us != old_every_us || s->start_at != old_start_at)
        s->anchor_at = s->start_at ? s->start_at : tx->now;
}

static void merge_when(const struct schedule_edit *edit, struct schedule *s)
{
    const struct schedule *with = &edit->with;
    const unsigned set = edit->set;
    if (set & EDIT_CRON)
        s->cron = with->cron;
    if (set & EDIT_EVERY)
        s->every_us = with->every_us;
    if (set & EDIT_ZONE)
        s->time_zone = with->time_zone.p ? with->time_zone : SLICE("UTC");
    if (set & EDIT_START)
        s->start_at = with->start_at;
    if (set & EDIT_END)
        s->end_at = with->end_at;
    if (set & EDIT_JITTER)
        s->jitter_us = with->jitter_us;
    if (set & EDIT_OVERLAP)
        s->overlap = with->overlap;
    if (set & EDIT_MISFIRE)
        s->misfire = with->misfire;
    if (set & EDIT_NAME)
        s->name = with->name;
}

static void merge_job(const struct schedule_edit *edit, struct schedule *s)
{
    const struct schedule *with = &edit->with;
    const unsigned set = edit->set;
    const struct {
        unsigned bit;
        const struct slice *from;
        struct slice *to;
    } texts[] = {
        { EDIT_KIND, &with->kind, &s->kind },
        { EDIT_QUEUE, &with->queue, &s->queue },
        { EDIT_PAYLOAD, &with->payload, &s->payload },
        { EDIT_METADATA, &with->metadata, &s->metadata },
        { EDIT_UNIQUE_KEY, &with->unique_key, &s->unique_key },
        { EDIT_RETRY_DELAYS, &with->retry_delays, &s->retry_delays },
    };
    for (size_t i = 0; i < array_len(texts); i++)
        if (set & texts[i].bit)
            *texts[i].to = *texts[i].from;
    if (set & EDIT_MAX_EXECUTION)
        s->max_execution_us = with->max_execution_us;
    if (set & EDIT_EXPIRE)
        s->expire_us = with->expire_us;
    if (set & EDIT_PRIORITY)
        s->priority = with->priority;
    if (set & EDIT_MAX_RETRIES)
        s->max_retries = with->max_retries;
    if (set & EDIT_ON_CRASH)
        s->on_crash = with->on_crash;
}

static void set_pause(struct tx *tx, const struct schedule_edit *edit, struct schedule *s)
{
    const struct schedule *with = &edit->with;
    char until[TIME_TEXT_BYTES];
    if (!(edit->set & EDIT_PAUSED) || (!with->paused && !(s->paused & PAUSED_ITSELF)))
        return;
    if (!with->paused) {
        s->paused &= ~PAUSED_ITSELF;
        s->paused_until = 0;
        s->paused_reason = (struct slice){ 0 };
        s->passed_until = tx->now;
        tell_schedule(tx, s, 0, "schedule.resumed", ",\"reason\":null");
        return;
    }
    s->paused |= PAUSED_ITSELF;
    s->paused_until = with->paused_until;
    s->paused_reason = with->paused_reason;
    tell_schedule(tx, s, 0, "schedule.paused", ",\"reason\":%s,\"until\":%s%s%s",
                  quoted(tx, s->paused_reason), with->paused_until ? "\"" : "",
                  with->paused_until ? time_text(with->paused_until, until) : "null",
                  with->paused_until ? "\"" : "");
}

/* ---- checking ---- */

static int check_pause(struct tx *tx, struct command *c)
{
    const struct schedule *with = &c->schedule.edit.with;
    char until[TIME_TEXT_BYTES];
    if (!(c->schedule.edit.set & EDIT_PAUSED) || !with->paused || !with->paused_until ||
        with->paused_until > tx->now)
        return 0;
    return error_set(&c->error, -HF_INVALID, "pausedUntil",
                     "pausedUntil is %s, which is past; it must be a time to come.",
                     time_text(with->paused_until, until));
}

/* All of it as it will be; but of a schedule whose zone is gone, what has to do with
 * something else may still be changed. */
static int check_whole(struct tx *tx, struct command *c, const struct schedule *s)
{
    const struct schedule_edit *edit = &c->schedule.edit;
    /* Nobody makes an endpoint by giving its jobs' payload. */
    bool given = (edit->set & (EDIT_KIND | EDIT_PAYLOAD)) != 0;
    struct schedule_edit whole = { .endpoint = edit->endpoint ||
                                               (!given && schedule_is_endpoint(s)),
                                   .set = ~0u,
                                   .with = *s };
    whole.with.paused_until = edit->with.paused_until;
    whole.with.paused_reason = edit->with.paused_reason;
    if (edit->id != 0 && !(edit->set & TIMES))
        whole.set &= ~(unsigned)TIMES;
    int r = schedule_edit_check(&whole, tx->engine->zones.dir, &c->error);
    int64_t most = tx->engine->settings.max_payload_bytes;
    if (r == 0 && s->payload.n > (size_t)most)
        r = error_set(&c->error, -HF_TOO_LARGE, "payload",
                      "payload has %zu bytes; it may have up to %lld.", s->payload.n,
                      (long long)most);
    if (r == 0)
        r = check_pause(tx, c);
    return r == 0 ? check_name(tx, c, s) : r;
}

/* A new one that would never fire was not meant. */
static int check_fires(struct tx *tx, struct command *c, const struct schedule *s)
{
    char now[TIME_TEXT_BYTES];
    if ((!s->cron.p && !s->every_us) || s->next_at || s->paused || s->problem.p)
        return 0;
    return error_set(&c->error, -HF_INVALID, s->end_at ? "endAt" : "cron",
                     "This schedule would never fire: it has no time after %s%s.",
                     time_text(tx->now, now), s->end_at ? " and before its endAt" : "");
}

/* ---- commands ---- */

static void note_next(struct tx *tx, const struct schedule *s)
{
    if (s->next_at && s->next_at < tx->engine->next_fire)
        tx->engine->next_fire = s->next_at;
}

static int create(struct tx *tx, struct command *c)
{
    const struct schedule_edit *edit = &c->schedule.edit;
    struct slice name = edit->project.p ? edit->project : SLICE("default");
    struct project project;
    int r = enter_project(tx, c, name, &project);
    if (r == 0 && edit->project_id && edit->project_id != project.id)
        r = error_set(&c->error, -HF_NOT_FOUND, "project",
                      "There is no project \"%.*s\".", (int)name.n, name.p);
    if (r < 0)
        return r;
    struct schedule s = { .id = store_id(tx->store),
                          .project_id = project.id,
                          .created_at = tx->now,
                          .changed_at = tx->now,
                          .time_zone = SLICE("UTC"),
                          .anchor_at = tx->now,
                          .cursor_at = tx->now,
                          .paused = project.paused ? PAUSED_WITH_PROJECT : 0,
                          .max_execution_us = -1,
                          .expire_us = -1,
                          .max_retries = -1,
                          .on_crash = -1 };
    if (s.id == 0)
        return tx->store->failed;
    merge_when(edit, &s);
    merge_job(edit, &s);
    set_anchor(tx, &s, 0, 0);
    r = check_whole(tx, c, &s);
    if (r == 0)
        r = fire_due(tx, &s, 0); /* nothing is due: it finds out when it will be */
    if (r == 0)
        r = check_fires(tx, c, &s);
    if (r == 0)
        r = endpoint_edit(tx, c, &s); /* the last to refuse: it has written its row */
    if (r < 0)
        return r;
    set_pause(tx, edit, &s);
    r = fire_due(tx, &s, 0);
    if (r == 0)
        r = store_schedule_insert(tx->store, &s);
    if (r < 0)
        return r;
    note_next(tx, &s);
    tell_schedule(tx, &s, 0, "schedule.created", ",\"kind\":%s", quoted(tx, s.kind));
    c->schedule.out_id = s.id;
    return tx->store->failed;
}

/* The schedule as it is to be, or the refusal: nothing has been changed then. */
static int reword(struct tx *tx, struct command *c, struct schedule *s)
{
    const struct schedule_edit *edit = &c->schedule.edit;
    int64_t every_us = s->every_us, start_at = s->start_at;
    if (!edit->endpoint && edit->set & (EDIT_KIND | EDIT_PAYLOAD) &&
        schedule_is_endpoint(s))
        return error_set(&c->error, -HF_INVALID,
                         edit->set & EDIT_KIND ? "kind" : "payload",
                         "Schedule %lld is an endpoint: its jobs send its request, and "
                         "have no other kind or payload. Change the endpoint instead.",
                         (long long)s->id);
    merge_when(edit, s);
    merge_job(edit, s);
    set_anchor(tx, s, every_us, start_at);
    s->changed_at = tx->now;
    int r = check_whole(tx, c, s);
    return r < 0 ? r : endpoint_edit(tx, c, s);
}

/* What is due under the old words, and what has passed under them while it was paused
 * if they are to change. */
static int end_old_words(struct tx *tx, const struct schedule_edit *edit,
                         struct schedule *s)
{
    int r = fire_all_due(tx, s);
    return r == 0 && edit->set & TIMES ? fire_pass(tx, s) : r;
}

static void take_standing(struct schedule *s, const struct schedule *from)
{
    s->passed_until = from->passed_until;
    s->paused = from->paused;
    s->paused_until = from->paused_until;
    s->paused_reason = from->paused_reason;
    s->cursor_at = from->cursor_at;
    s->next_at = from->next_at;
    s->fire_count = from->fire_count;
    s->last_fire_at = from->last_fire_at;
    s->last_job_id = from->last_job_id;
    s->problem = from->problem;
}

static int change(struct tx *tx, struct command *c)
{
    const struct schedule_edit *edit = &c->schedule.edit;
    struct schedule old = { 0 };
    int r = find(tx, c, edit->id, edit->project_id, edit->endpoint, &old);
    struct schedule s = old;
    if (r == 0)
        r = reword(tx, c, &s);
    if (r == 0)
        r = end_old_words(tx, edit, &old);
    if (r < 0)
        return r;
    take_standing(&s, &old);
    set_pause(tx, edit, &s);
    r = fire_all_due(tx, &s);
    if (r == 0)
        r = store_schedule_update(tx->store, &s);
    if (r < 0)
        return r;
    store_schedule_advance(tx->store, &s);
    note_next(tx, &s);
    if (edit->set & ~(unsigned)EDIT_PAUSED)
        tell_schedule(tx, &s, 0, "schedule.changed", ",\"kind\":%s", quoted(tx, s.kind));
    c->schedule.out_id = s.id;
    return tx->store->failed;
}

int apply_schedule(struct tx *tx, struct command *c)
{
    return c->schedule.edit.id ? change(tx, c) : create(tx, c);
}

int apply_schedule_drop(struct tx *tx, struct command *c)
{
    struct schedule s;
    int r = find(tx, c, c->schedule_drop.id, c->schedule_drop.project_id,
                 c->schedule_drop.endpoint, &s);
    if (r == 0)
        r = fire_all_due(tx, &s);
    if (r == 0)
        r = endpoint_drop(tx, s.id);
    if (r >= 0)
        r = store_schedule_delete(tx->store, s.id);
    /* Of a long history retention forgets the rest, bit by bit. */
    if (r == 0)
        r = store_fires_prune(tx->store, s.id, INT64_MAX, DROPPED_FIRES) < 0
                ? tx->store->failed
                : 0;
    if (r < 0)
        return r;
    tell_schedule(tx, &s, 0, "schedule.deleted", ",\"kind\":%s", quoted(tx, s.kind));
    return tx->store->failed;
}

int apply_trigger(struct tx *tx, struct command *c)
{
    struct schedule s;
    struct job job = { 0 };
    int64_t live = 0;
    int r = find(tx, c, c->trigger.id, c->trigger.project_id, c->trigger.endpoint, &s);
    if (r == 0 && s.overlap == OVERLAP_SKIP)
        r = store_schedules_live(tx->store, &s.id, 1, &live);
    c->trigger.out_made = false;
    c->trigger.out_job_id = live;
    if (r < 0 || live)
        return r;
    r = fire_job(tx, &s, 0, &job);
    if (r == 0 && job.id == 0)
        return error_set(
            &c->error, -HF_CONFLICT, NULL,
            "The project of this schedule is being deleted; it takes nothing "
            "new.");
    if (r < 0)
        return r;
    c->trigger.out_job_id = job.id;
    c->trigger.out_made = r > 0;
    if (r == 0)
        return 0;
    s.last_job_id = job.id;
    store_schedule_advance(tx->store, &s);
    tell_schedule(tx, &s, job.id, "schedule.triggered", ",\"jobId\":\"%lld\"",
                  (long long)job.id);
    return tx->store->failed;
}
