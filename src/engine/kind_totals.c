/* SPDX-License-Identifier: Apache-2.0
 *
 * kind_totals.c -- a hundred names and their sums. */
#include "engine/kind_totals.h"

/* No kind can be called that: it is no name. */
static const struct slice other = { "(other)", sizeof("(other)") - 1 };

static void set_kind(struct kind_total *total, struct slice kind)
{
    assert(kind.n <= LIMIT_NAME_BYTES);
    memcpy(total->kind, kind.p, kind.n);
    total->kind_bytes = kind.n;
}

void kind_totals_init(struct kind_totals *totals)
{
    *totals = (struct kind_totals){ 0 };
    pthread_mutex_init(&totals->lock, NULL); /* cannot fail without attributes */
    set_kind(&totals->list[KIND_OTHER], other);
}

void kind_totals_release(struct kind_totals *totals)
{
    pthread_mutex_destroy(&totals->lock);
}

static bool is_kind(const struct kind_total *total, struct slice kind)
{
    return total->kind_bytes == kind.n && memcmp(total->kind, kind.p, kind.n) == 0;
}

static size_t new_place(struct kind_totals *totals, struct slice kind)
{
    /* What a row says that somebody else wrote may be anything. */
    if (totals->count == KIND_OTHER || kind.n > LIMIT_NAME_BYTES ||
        is_kind(&totals->list[KIND_OTHER], kind))
        return KIND_OTHER;
    pthread_mutex_lock(&totals->lock);
    set_kind(&totals->list[totals->count], kind);
    size_t place = totals->count++;
    pthread_mutex_unlock(&totals->lock);
    return place;
}

size_t kind_totals_place(struct kind_totals *totals, struct slice kind)
{
    if (kind.n == 0)
        return KIND_OTHER;
    if (!is_kind(&totals->list[totals->last], kind)) {
        size_t i = 0;
        while (i < totals->count && !is_kind(&totals->list[i], kind))
            i++;
        totals->last = i < totals->count ? i : new_place(totals, kind);
    }
    return totals->last;
}

void kind_totals_add(struct kind_totals *totals, const struct kind_note *notes,
                     size_t count)
{
    pthread_mutex_lock(&totals->lock);
    for (size_t i = 0; i < count; i++) {
        assert(notes[i].place < KIND_PLACES && notes[i].outcome < RUN_OUTCOMES);
        struct kind_total *total = &totals->list[notes[i].place];
        total->runs[notes[i].outcome]++;
        /* A clock that was set back is no time. */
        total->ran_us[notes[i].outcome] += notes[i].ran_us > 0 ? notes[i].ran_us : 0;
    }
    pthread_mutex_unlock(&totals->lock);
}

static bool has_runs(const struct kind_total *total)
{
    for (int i = 0; i < RUN_OUTCOMES; i++)
        if (total->runs[i] > 0)
            return true;
    return false;
}

size_t kind_totals_read(struct kind_totals *totals, struct kind_total ret[KIND_PLACES])
{
    size_t n = 0;
    pthread_mutex_lock(&totals->lock);
    for (size_t i = 0; i < KIND_PLACES; i++)
        if (has_runs(&totals->list[i]))
            ret[n++] = totals->list[i];
    pthread_mutex_unlock(&totals->lock);
    return n;
}
