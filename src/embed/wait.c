/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c -- waiting for a job's end, or for a queue.
 *
 * What this process does is heard of at once: whoever commits an end wakes its
 * watchers.  What others do is seen by looking again, after 20 ms, then after
 * twice as long, up to the poll interval.  A watcher is hung up before the first
 * look, so that no end falls between looking and sleeping. */
#include <time.h>

#include "base/limits.h"
#include "embed/handle.h"

#define FIRST_LOOK_US (20 * US_PER_MS)

static int64_t mono_us(void)
{
    return clock_mono_us(&clock_system);
}

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool cond_sleep(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_mono_us)
{
    struct timespec until = { .tv_sec = (time_t)(until_mono_us / US_PER_S),
                              .tv_nsec = (long)(until_mono_us % US_PER_S) * 1000 };
    return pthread_cond_timedwait(cond, lock, &until) == 0;
}

/* ---- watchers ---- */

void watch_add(struct hf *hf, struct watcher *watcher, int64_t job_id)
{
    *watcher = (struct watcher){ .job_id = job_id };
    cond_init(&watcher->wake);
    pthread_mutex_lock(&hf->watch_lock);
    watcher->next = hf->watchers;
    hf->watchers = watcher;
    pthread_mutex_unlock(&hf->watch_lock);
}

void watch_remove(struct hf *hf, struct watcher *watcher)
{
    pthread_mutex_lock(&hf->watch_lock);
    struct watcher **at = &hf->watchers;
    while (*at && *at != watcher)
        at = &(*at)->next;
    assert(*at == watcher);
    *at = watcher->next;
    pthread_mutex_unlock(&hf->watch_lock);
    pthread_cond_destroy(&watcher->wake);
}

void watch_sleep(struct hf *hf, struct watcher *watcher, int64_t until_mono_us)
{
    pthread_mutex_lock(&hf->watch_lock);
    while (!watcher->woken && cond_sleep(&watcher->wake, &hf->watch_lock, until_mono_us))
        continue;
    watcher->woken = false;
    pthread_mutex_unlock(&hf->watch_lock);
}

void watch_wake(struct hf *hf, int64_t job_id)
{
    pthread_mutex_lock(&hf->watch_lock);
    for (struct watcher *w = hf->watchers; w; w = w->next)
        if (w->job_id == job_id || w->job_id == 0) {
            w->woken = true;
            pthread_cond_signal(&w->wake);
        }
    pthread_mutex_unlock(&hf->watch_lock);
}

/* ---- a bounded wait ---- */

struct patience patience(int64_t timeout_us)
{
    int64_t now = mono_us();
    return (struct patience){ .until_us = timeout_us < 0 || timeout_us > INT64_MAX - now
                                              ? INT64_MAX
                                              : now + timeout_us,
                              .step_us = FIRST_LOOK_US };
}

bool wait_a_little(struct hf *hf, struct watcher *watcher, struct patience *p)
{
    int64_t now = mono_us();
    if (now >= p->until_us)
        return false;
    int64_t until = now + p->step_us < p->until_us ? now + p->step_us : p->until_us;
    watch_sleep(hf, watcher, until);
    if (p->step_us < hf->settings.poll_interval_us)
        p->step_us *= 2;
    if (p->step_us > hf->settings.poll_interval_us)
        p->step_us = hf->settings.poll_interval_us;
    return true;
}

int refuse_in_callback(struct hf *hf, struct error *why)
{
    if (!hf->committer || !committer_is_self(hf->committer))
        return 0;
    return error_set(why, -HF_INVALID, NULL,
                     "A callback of the library may not wait for it: this call would "
                     "never return.");
}

int hf_wait_ready(struct hf *hf, int64_t timeout_ms)
{
    struct watcher watcher;

    if (!hf || timeout_ms < -1 || (timeout_ms != 0 && refuse_in_callback(hf, NULL) < 0))
        return -HF_INVALID;
    struct patience p = patience(timeout_ms < 0 ? -1 : ms_to_us(timeout_ms));
    watch_add(hf, &watcher, 0);
    bool ready = atomic_load(&hf->ready);
    while (!ready && wait_a_little(hf, &watcher, &p))
        ready = atomic_load(&hf->ready);
    watch_remove(hf, &watcher);
    return ready ? 0 : -HF_TIMEOUT;
}

/* ---- a job's end ---- */

/* 1: over; 0: not yet, and *id is the job to wait for: it may have become a later
 * one of the chain. */
static int look_at_job(struct hf *hf, int64_t *id, bool chain, struct hf_error *error,
                       struct hf_job **ret)
{
    for (;;) {
        struct hf_job *job = NULL;
        int r = hf_get_job(hf, *id, error, &job);
        if (r < 0)
            return r;
        bool over = job_state_terminal(job->state);
        if (over &&
            !(chain && (job->retried_by || job->retry_state == HF_RETRY_PENDING))) {
            *ret = job;
            return 1;
        }
        int64_t next = over ? job->retried_by : 0;
        hf_job_free(job);
        if (next == 0)
            return 0; /* under way, or a recovery has to decide about its retry */
        *id = next;
    }
}

int hf_wait(struct hf *hf, int64_t job_id, int64_t timeout_ms, bool chain,
            struct hf_error *error, struct hf_job **ret)
{
    struct error why = { 0 };
    struct watcher watcher;
    struct hf_job *job = NULL;

    if (!hf || timeout_ms < -1)
        return give(error, NULL, -HF_INVALID);
    if (timeout_ms != 0 && refuse_in_callback(hf, &why) < 0)
        return give(error, &why, -HF_INVALID);
    struct patience p = patience(timeout_ms < 0 ? -1 : ms_to_us(timeout_ms));
    int64_t id = job_id;
    for (;;) {
        int64_t watched = id;
        watch_add(hf, &watcher, watched);
        int r = look_at_job(hf, &id, chain, error, &job);
        bool more = true;
        while (r == 0 && id == watched && more) {
            more = wait_a_little(hf, &watcher, &p);
            r = more ? look_at_job(hf, &id, chain, error, &job) : 0;
        }
        watch_remove(hf, &watcher);
        if (r < 0)
            return r;
        if (job && ret)
            *ret = job;
        else
            hf_job_free(job);
        if (r > 0)
            return 0;
        if (!more) {
            error_set(&why, -HF_TIMEOUT, NULL, "Job %lld is not over after %lld ms.",
                      (long long)id, (long long)timeout_ms);
            return give(error, &why, -HF_TIMEOUT);
        }
    }
}

/* ---- a queue for oneself ---- */

struct reservation_look {
    int64_t queue_id, id;
    struct reservation found; /* id 0: it is over */
};

static int look_at_reservation(struct store *store, void *arg)
{
    struct reservation_look *look = arg;
    struct reservation *list = NULL;
    size_t count = 0;
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 4096, 16 << 20);
    int r = store_reservations(store, look->queue_id, &arena, &list, &count);
    if (r < 0)
        return r;
    look->found = (struct reservation){ 0 };
    for (size_t i = 0; i < count; i++)
        if (list[i].id == look->id)
            look->found = list[i];
    look->found.holder = look->found.reason = (struct slice){ 0 };
    return 0;
}

/* Waits until it is granted; -HF_TIMEOUT if its time is over before. */
static int wait_for_grant(struct hf *hf, struct reservation *reservation, int64_t wait_us,
                          struct error *why)
{
    struct reservation_look look = { .queue_id = reservation->queue_id,
                                     .id = reservation->id,
                                     .found = *reservation };
    struct watcher watcher;
    /* The store ends the wait; the margin is for its answer. */
    struct patience p = patience(wait_us + US_PER_S);
    int r = 0;

    watch_add(hf, &watcher, 0);
    do
        r = reader_look(hf, look_at_reservation, &look, why);
    while (r == 0 && look.found.id != 0 && look.found.state != RESERVATION_ACTIVE &&
           wait_a_little(hf, &watcher, &p));
    watch_remove(hf, &watcher);
    if (r < 0)
        return r;
    if (look.found.state != RESERVATION_ACTIVE)
        return error_set(why, -HF_TIMEOUT, NULL,
                         "The queue did not become free within %lld ms; nothing is held.",
                         (long long)(wait_us / US_PER_MS));
    *reservation = look.found;
    return 0;
}

static int check_reserve(const char *queue, const char *holder, int64_t ttl_ms,
                         int64_t wait_ms, struct error *why)
{
    int r = name_check(queue, "queue", why);
    if (r == 0 && !holder)
        r = error_set(why, -HF_INVALID, "holder", "holder is missing.");
    if (r == 0)
        r = text_check(slice_of(holder), "holder", why);
    if (r == 0 && (ttl_ms < 0 || ttl_ms > LIMIT_RESERVATION_MS))
        r = error_set(why, -HF_INVALID, "ttlMs",
                      "ttlMs is %lld; it must be between 1 and %d, or 0 for %d.",
                      (long long)ttl_ms, LIMIT_RESERVATION_MS, DEFAULT_RESERVATION_MS);
    if (r == 0 && (wait_ms < 0 || wait_ms > LIMIT_WAIT_MS))
        r = error_set(why, -HF_INVALID, "waitMs",
                      "waitMs is %lld; it must be between 1 and %d, or 0 for %d.",
                      (long long)wait_ms, LIMIT_WAIT_MS, DEFAULT_WAIT_MS);
    return r;
}

int hf_reserve(struct hf *hf, const char *queue, const char *holder, int64_t ttl_ms,
               int64_t wait_ms, struct hf_error *error, struct hf_reservation *ret)
{
    struct error why = { 0 };
    cleanup(command_drop) struct command *c = command_begin(hf, OP_RESERVE, &why);
    if (!c)
        return give(error, &why, why.code);
    int r = check_reserve(queue, holder, ttl_ms, wait_ms, &why);
    if (r < 0)
        return give(error, &why, r);
    c->reserve.queue = slice_of(queue);
    c->reserve.holder = slice_of(holder);
    c->reserve.ttl_us = ms_to_us(ttl_ms ? ttl_ms : DEFAULT_RESERVATION_MS);
    c->reserve.wait_us = ms_to_us(wait_ms ? wait_ms : DEFAULT_WAIT_MS);
    r = command_run(hf, c, &why);
    struct reservation reservation = c->reserve.out;
    if (r == 0 && reservation.state != RESERVATION_ACTIVE) {
        r = wait_for_grant(hf, &reservation, c->reserve.wait_us, &why);
        if (r < 0) /* undone, whatever it was */
            (void)hf_release(hf, reservation.id, NULL, NULL, NULL);
    }
    if (r < 0)
        return give(error, &why, r);
    if (ret)
        *ret = (struct hf_reservation){ .id = reservation.id,
                                        .state = reservation.state,
                                        .granted_at_us = reservation.granted_at,
                                        .expires_at_us = reservation.expires_at };
    return 0;
}
