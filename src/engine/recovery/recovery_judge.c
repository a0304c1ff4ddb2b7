/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/recovery/recovery_judge.h"

static bool same_place(const struct owner *owner, const struct host *host)
{
    return slice_equal(owner->boot_id, slice_of(host->boot_id)) &&
           owner->pid_namespace == host->pid_ns;
}

bool owner_is_gone(const struct owner *owner, const struct host *host,
                   enum db_engine db_engine, int64_t now)
{
    if (owner->state != OWNER_ALIVE)
        return true;
    if (owner->type == OWNER_NODE && db_engine == DB_SQLITE)
        return true; /* we hold the file: no other node can */
    if (owner->type != OWNER_REMOTE && same_place(owner, host) &&
        !host_process_alive(owner->pid, owner->process_start))
        return true;
    return now != 0 && owner->lease_until != 0 && owner->lease_until <= now;
}

static bool is_process(const struct owner *owner, const struct host *host)
{
    return owner->type == OWNER_NODE && same_place(owner, host) &&
           owner->pid == host->pid && owner->process_start == host->start_ticks;
}

const struct judged *judge(struct store *store, const struct host *host, int64_t self,
                           struct arena *arena, struct bench *bench, int64_t owner_id)
{
    for (size_t i = 0; i < bench->count; i++)
        if (bench->list[i].id == owner_id)
            return &bench->list[i];
    struct judged *j = &bench->list[bench->count];
    *j = (struct judged){ .id = owner_id };
    int r = store_owner_get(store, owner_id, arena, &j->owner);
    if (r < 0 && r != -HF_NOT_FOUND)
        return NULL;
    j->known = r == 0;
    j->gone = !j->known || (owner_id != self &&
                            owner_is_gone(&j->owner, host, db_engine(store->db), 0));
    j->self = j->known && is_process(&j->owner, host);
    if (bench->we_die && j->self)
        j->gone = true;
    bench->count++;
    return j;
}

enum verdict verdict_of(const struct job_row *row, const struct judged *owner)
{
    if (row->run.job_id == 0)
        return VERDICT_NO_RUN;
    if (row->run.finished_at != 0)
        return VERDICT_OUTCOME;
    return owner->gone ? VERDICT_CRASHED : VERDICT_LEFT;
}

int64_t command_until(const struct run *run, const struct judged *owner,
                      const struct host *host, const char *state_dir, int64_t now)
{
    if (run->executor != EXECUTOR_COMMAND || !owner->known || !owner->owner.state_dir.n)
        return 0;
    bool ours = state_dir && slice_equal(owner->owner.state_dir, slice_of(state_dir)) &&
                slice_equal(owner->owner.host, slice_of(host->name));
    return ours || owner->owner.lease_until <= now ? 0 : owner->owner.lease_until;
}

int64_t ran_for(const struct job_row *row, const struct judged *owner, int64_t now)
{
    if (row->run.job_id == 0)
        return -1;
    int64_t until = row->run.finished_at ? row->run.finished_at : now;
    if (owner && owner->known && owner->owner.seen_at > row->run.started_at &&
        owner->owner.seen_at < until)
        until = owner->owner.seen_at;
    return until > row->run.started_at ? until - row->run.started_at : 0;
}

static bool rebooted(const struct owner *owner, const struct host *host)
{
    return slice_equal(owner->host, slice_of(host->name)) && owner->boot_id.p &&
           !slice_equal(owner->boot_id, slice_of(host->boot_id));
}

bool death_counts(const struct run *run, const struct judged *owner,
                  const struct host *host)
{
    if (run->job_id == 0)
        return false;
    if (run->executor == EXECUTOR_REMOTE)
        return true;
    return run->executor == EXECUTOR_HANDLER && owner->known &&
           owner->owner.state != OWNER_STOPPED && !rebooted(&owner->owner, host);
}

int source_taken(struct store *store, const struct job *job, bool *ret)
{
    int64_t others = 0;
    *ret = false;
    if (!job->unique_key.p)
        return 0;
    int r = store->open ? store_flush(store) : 0;
    if (r == 0)
        r = store_int(
            store, SQL_KEY_TAKEN,
            (struct db_value[]){ db_int(job->project_id), db_text(job->unique_key) }, 0,
            &others);
    *ret = others > 0;
    return r;
}

bool store_is_to_blame(const struct engine *engine, int code)
{
    return code == -HF_UNAVAILABLE || code == -HF_UNKNOWN || code == -HF_IO ||
           code == -HF_FULL || code == -HF_BUSY || code == -HF_LATE ||
           code == -HF_NOMEM || engine->broken;
}
