/* SPDX-License-Identifier: Apache-2.0
 *
 * leftovers.c -- a sorted list, and a look that deletes. */
#include "exec/leftovers.h"

#include <stdatomic.h>

#include "exec/exec_command.h"

struct leftover {
    int64_t job_id;
    enum command_state state;
    atomic_bool taken;
};

struct leftovers {
    char *state_dir;
    struct leftover *list; /* sorted by id; only `taken` changes after the scan */
    size_t count, room;
    bool tidied;
};

static int note_found(void *arg, const struct exec_command_found *record)
{
    struct leftovers *l = arg;
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct leftover *grown = realloc(l->list, room * sizeof(*grown));
        if (!grown)
            return -HF_NOMEM;
        l->list = grown;
        l->room = room;
    }
    assert(l->count == 0 || l->list[l->count - 1].job_id < record->job_id);
    l->list[l->count++] = (struct leftover){ record->job_id, record->state, false };
    return 0;
}

int leftovers_scan(const char *state_dir, struct error *error, struct leftovers **ret)
{
    struct leftovers *l = new (struct leftovers);
    if (!l || !(l->state_dir = strdup(state_dir))) {
        leftovers_free(l);
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    }
    int r = exec_command_scan(state_dir, false, note_found, l, error);
    if (r < 0) {
        leftovers_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

void leftovers_free(struct leftovers *l)
{
    if (!l)
        return;
    free(l->state_dir);
    free(l->list);
    free(l);
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct leftover *)a)->job_id;
    int64_t y = ((const struct leftover *)b)->job_id;
    return (x > y) - (x < y);
}

static struct leftover *find(const struct leftovers *l, int64_t job_id)
{
    struct leftover key = { .job_id = job_id };
    return l->count ? bsearch(&key, l->list, l->count, sizeof(key), by_id) : NULL;
}

bool leftovers_lives(const struct leftovers *l, int64_t job_id)
{
    const struct leftover *found = find(l, job_id);
    return found && !atomic_load(&found->taken) &&
           (found->state == COMMAND_ALIVE || found->state == COMMAND_ENDED);
}

void leftovers_take(struct leftovers *l, int64_t job_id)
{
    struct leftover *found = find(l, job_id);
    if (found)
        atomic_store(&found->taken, true);
}

/* ---- what nobody wants ---- */

struct tidying {
    struct look look; /* first */
    struct log *log;
    char *state_dir;
    size_t deleted, count;
    int64_t job_ids[];
};

/* Deleting twice is harmless, should the look be repeated. */
static int delete_those_over(struct store *store, struct look *look)
{
    struct tidying *t = (struct tidying *)look;
    struct arena arena;
    int r = 0;

    t->deleted = 0;
    arena_init(&arena, 4096, (size_t)64 << 20);
    for (size_t i = 0; i < t->count && r == 0; i++) {
        struct job_row row;
        arena_reset(&arena);
        r = store_job_get(store, t->job_ids[i], &arena, &row);
        if (r == -HF_NOT_FOUND) { /* of another store?  Not ours to delete. */
            log_event(t->log, LEVEL_WARN, "record_without_job",
                      log_int("job", t->job_ids[i]), log_text("in", t->state_dir));
            r = 0;
        } else if (r == 0 && job_state_terminal(row.job.state)) {
            t->deleted += exec_command_forget(t->state_dir, t->job_ids[i], NULL) == 0;
        }
    }
    arena_release(&arena);
    return r;
}

static void tidied(struct look *look)
{
    struct tidying *t = (struct tidying *)look;
    if (t->deleted > 0)
        log_event(t->log, LEVEL_INFO, "old_records_deleted",
                  log_int("count", (int64_t)t->deleted), log_text("in", t->state_dir));
    free(t->state_dir);
    free(t);
}

void leftovers_tidy(struct leftovers *l, struct node *node, struct log *log)
{
    if (l->tidied || l->count == 0)
        return;
    l->tidied = true;
    struct tidying *t = calloc(1, sizeof(*t) + l->count * sizeof(t->job_ids[0]));
    if (!t)
        return; /* the next start does it */
    t->look = (struct look){ .ask = delete_those_over, .done = tidied };
    t->log = log;
    t->state_dir = strdup(l->state_dir);
    for (size_t i = 0; i < l->count; i++)
        if (!l->list[i].taken && l->list[i].state != COMMAND_ALIVE)
            t->job_ids[t->count++] = l->list[i].job_id;
    if (!t->state_dir || t->count == 0 || node_look(node, READER_LONG, &t->look) < 0) {
        free(t->state_dir);
        free(t);
    }
}
