/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_run.c -- plays histories, and makes one that fails short.
 *
 * Each is played in a process of its own: a broken rule ends it where it stands,
 * and a failed assert of the engine costs no more.  To shorten a history that
 * fails, pieces of it are left out, large ones first, as long as the same rule is
 * still broken.  A step chooses among what is there when it is run, so that it
 * means something also without the steps that were before it. */
#include "sim.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHECK_EVERY = 1000,
    SHRINK_TRIES = 2000,
    SHRINK_SECONDS = 240,
    HANG_SECONDS = 600,
    TOLD_LINES = 400
};

/* ---- one history ---- */

static _Noreturn void play(uint64_t seed, const char *url, const struct step *steps,
                           size_t count, FILE *trace, struct shared *shared)
{
    static struct sim s;
    sim_init(&s, seed, url,
             db_engine_of(url) == DB_POSTGRES ? NULL
                                              : crash_disk_new(SIM_DISK, true, NULL));
    s.trace = trace;
    s.shared = shared;
    sim_begin(&s);
    for (s.step = 0; s.step < count; s.step++) {
        if (s.step % CHECK_EVERY == 0)
            alarm(HANG_SECONDS);
        shared->step = s.step;
        step_run(&s, &steps[s.step]);
        shared->done = s.step + 1;
        if (s.disk)
            crash_disk_forget(s.disk);
        if (shared->done % CHECK_EVERY == 0 || shared->done == count)
            sim_check_all(&s);
    }
    shared->step = count;
    sim_calm(&s);
    sim_release(&s);
    fflush(NULL);
    _exit(0);
}

/* Plays it in a process of its own.  True if all went well. */
static bool play_apart(uint64_t seed, const struct step *steps, size_t count, FILE *trace,
                       struct shared *shared)
{
    const char *url = test_on_postgres() ? test_db_url() : test_path("simulated.db");
    int status = 0;
    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0)
        play(seed, url, steps, count, trace, shared);
    check(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status))
        snprintf(shared->rule, sizeof(shared->rule), "killed by signal %d",
                 WTERMSIG(status));
    else if (WEXITSTATUS(status) != SIM_EXIT_BROKEN || !shared->rule[0])
        snprintf(shared->rule, sizeof(shared->rule), "exited with %d",
                 WEXITSTATUS(status));
    return false;
}

/* ---- making it short ---- */

struct shrinking {
    uint64_t seed;
    char rule[64];
    struct step *steps, *trial;
    size_t count;
    int tries;
    int64_t end_us;
    struct shared *shared;
};

static bool still_fails(struct shrinking *h, size_t count)
{
    /* What is tried prints nothing: its asserts are known by now. */
    int quiet = dup(STDERR_FILENO);
    if (!freopen("/dev/null", "w", stderr))
        perror("/dev/null");
    bool ok = play_apart(h->seed, h->trial, count, NULL, h->shared);
    fflush(stderr);
    dup2(quiet, STDERR_FILENO);
    close(quiet);
    h->tries++;
    return !ok && strcmp(h->shared->rule, h->rule) == 0;
}

/* Leaves out pieces of `size` steps.  True if one could be. */
static bool leave_out(struct shrinking *h, size_t size)
{
    bool shorter = false;
    for (size_t at = 0; at < h->count && h->tries < SHRINK_TRIES;) {
        size_t end = at + size < h->count ? at + size : h->count;
        if (test_monotonic_us() > h->end_us)
            return false;
        memcpy(h->trial, h->steps, at * sizeof(*h->steps));
        memcpy(h->trial + at, h->steps + end, (h->count - end) * sizeof(*h->steps));
        size_t left = h->count - (end - at);
        if (!still_fails(h, left)) {
            at = end;
            continue;
        }
        shorter = true;
        if (h->shared->step + 1 < left)
            left = h->shared->step + 1;
        memcpy(h->steps, h->trial, left * sizeof(*h->steps));
        h->count = left;
    }
    return shorter;
}

static void shrink(struct shrinking *h)
{
    for (size_t size = h->count / 2; size > 0;) {
        bool shorter = leave_out(h, size);
        if (test_monotonic_us() > h->end_us || h->tries >= SHRINK_TRIES)
            return;
        if (size > 1)
            size /= 2;
        else if (!shorter)
            size = 0;
    }
}

/* Tells a history; only the end of a long one, unless all of it was asked for. */
static void tell_end(const struct shrinking *h)
{
    char line[4200];
    size_t lines = 0, skip = 0;
    FILE *file = tmpfile();
    check(file != NULL);
    play_apart(h->seed, h->steps, h->count, file, h->shared);
    rewind(file);
    while (fgets(line, sizeof(line), file))
        lines++;
    if (lines > TOLD_LINES && !getenv("HF_SIM_TRACE")) {
        skip = lines - TOLD_LINES;
        printf("(%zu lines before these)\n", skip);
    }
    rewind(file);
    for (size_t i = 0; fgets(line, sizeof(line), file); i++)
        if (i >= skip)
            fputs(line, stdout);
    fclose(file);
}

static _Noreturn void fail_shortly(uint64_t seed, struct step *steps, size_t count,
                                   struct shared *shared)
{
    struct shared first = *shared;
    size_t needed = first.step + 1 < count ? first.step + 1 : count;
    struct shrinking h = {
        .seed = seed, .steps = steps, .count = needed, .shared = shared
    };
    printf("seed %llu broke a rule at step %zu: %s: %s\n", (unsigned long long)seed,
           first.step, first.rule, first.text);
    printf(
        "Replay it with:\n  HF_SIM_SEED=%llu HF_SIM_STEPS=%zu HF_SIM_TRACE=1 make test "
        "ONLY=t_simulator/%s\n",
        (unsigned long long)seed, needed, test_on_postgres() ? "postgres" : "sqlite");
    memcpy(h.rule, first.rule, sizeof(h.rule));
    h.trial = calloc(count + 1, sizeof(*h.trial));
    check(h.trial != NULL);
    h.end_us = test_monotonic_us() + SHRINK_SECONDS * US_PER_S;
    if (!getenv("HF_SIM_TRACE"))
        shrink(&h);
    printf("The same rule is broken by %zu steps (%d tries):\n", h.count, h.tries);
    tell_end(&h);
    fail("seed %llu, step %zu: %s: %s", (unsigned long long)seed, first.step, first.rule,
         first.text);
}

static struct shared *shared_new(void)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED);
    return shared;
}

void sim_story(uint64_t seed, size_t count, FILE *to)
{
    struct shared *shared = shared_new();
    struct step *steps = steps_make(seed, count);
    check(play_apart(seed, steps, count, to, shared));
    munmap(shared, sizeof(*shared));
    free(steps);
}

void sim_run(uint64_t seed, size_t count, struct shared *ret)
{
    struct shared *shared = shared_new();
    struct step *steps = steps_make(seed, count);
    if (!play_apart(seed, steps, count, NULL, shared))
        fail_shortly(seed, steps, count, shared);
    *ret = *shared;
    munmap(shared, sizeof(*shared));
    free(steps);
}
