/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that enqueues and executes is killed with -9 at random points, again
 * and again.  A ledger outside the store says what was acknowledged and what was
 * executed; at the end the store must account for all of it.
 *
 * The killer waits for the ledger to grow by a random number of lines, so it
 * strikes in the middle of work on any machine, however slow. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/rng.h"
#include "handle.h"

enum { PRODUCERS = 3, WORKERS = 4, LEDGER_MAX = 1 << 20 };

struct plan {
    const char *url, *acknowledged, *executed;
    struct rng rng;
};

/* ---- the victim ---- */

static int ledger_fd(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0);
    return fd;
}

/* One write of one line: it is in the file or it is not. */
static void note(int fd, int64_t id)
{
    char line[24];
    int n = snprintf(line, sizeof(line), "%lld\n", (long long)id);
    check(write(fd, line, (size_t)n) == n);
}

static int execute(struct hf_run *run, void *arg)
{
    note(*(int *)arg, run->job_id);
    if (run->job_id % 11 == 0)
        return hf_fail(run, HF_FAILURE_OTHER, "Eleven", "it does not like this number",
                       NULL);
    return hf_succeed(run, run->payload);
}

struct producer {
    struct hf *hf;
    int fd;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    struct hf_new_job job = { .kind = "k", .payload = "{\"n\": 1}" };
    struct hf_enqueued made;
    struct hf_error error;
    for (;;) {
        int r = hf_enqueue(p->hf, &job, &error, &made);
        if (r == 0)
            note(p->fd, made.id); /* on disk, says the library: hold it to that */
    }
    return NULL;
}

static struct hf *open_victim(const struct plan *plan, int *executed_fd)
{
    struct hf_options options = options_for(plan->url);
    struct hf_handler handler = { "k", execute, executed_fd };
    options.log = NULL;
    options.handlers = &handler;
    options.handler_count = 1;
    options.max_retries = 2;
    options.lease_ms = 3000;
    return open_with(&options);
}

static _Noreturn void live_until_killed(const struct plan *plan)
{
    int executed = ledger_fd(plan->executed),
        acknowledged = ledger_fd(plan->acknowledged);
    struct hf *hf = open_victim(plan, &executed);
    struct producer producer = { hf, acknowledged };
    pthread_t thread;
    check_ok(hf_start(hf, WORKERS));
    for (int i = 0; i < PRODUCERS; i++)
        check_int(pthread_create(&thread, NULL, produce, &producer), 0);
    for (;;)
        pause();
}

static int64_t live_jobs(struct hf *hf)
{
    struct hf_queues *queues = NULL;
    struct hf_error error;
    int64_t live = 0;
    if (hf_list_queues(hf, &error, &queues) < 0)
        return -1;
    for (size_t i = 0; i < queues->count; i++)
        for (int state = HF_SCHEDULED; state <= HF_CANCELLING; state++)
            live += queues->items[i]->jobs[state];
    hf_queues_free(queues);
    return live;
}

static bool is_drained(void *hf)
{
    return live_jobs(hf) == 0;
}

/* ---- the killer ---- */

struct growth {
    const char *path;
    int64_t bytes;
};

static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static bool has_grown(void *arg)
{
    const struct growth *growth = arg;
    return size_of(growth->path) >= growth->bytes;
}

static pid_t start_victim(const struct plan *plan)
{
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0)
        live_until_killed(plan);
    return pid;
}

static void kill_victim(pid_t pid)
{
    int status = 0;
    check_int(kill(pid, SIGKILL), 0);
    check_int(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail("the victim ended by itself, status %d", status);
}

static void wait_for_work(struct plan *plan)
{
    const char *path = rng_one_in(&plan->rng, 2) ? plan->acknowledged : plan->executed;
    struct growth growth = { path, size_of(path) + rng_between(&plan->rng, 5, 1500) };
    if (!test_wait(has_grown, &growth, PATIENCE_MS))
        fail("the victim does nothing");
}

/* ---- the reckoning ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The ids of a ledger, sorted; a line cut short by the kill is no line. */
static size_t read_ledger(const char *path, int64_t *ids)
{
    FILE *file = fopen(path, "r");
    char line[32];
    size_t n = 0;
    check(file);
    while (fgets(line, sizeof(line), file) && n < LEDGER_MAX)
        if (strchr(line, '\n'))
            ids[n++] = strtoll(line, NULL, 10);
    fclose(file);
    qsort(ids, n, sizeof(*ids), by_value);
    return n;
}

/* The chain of an acknowledged job ends, and says how. */
static void check_chain(struct hf *hf, int64_t id)
{
    for (int64_t next = id; next != 0;) {
        struct hf_job *job = must_get(hf, next);
        check(job->root_id == id);
        if (job->retried_by == 0 && job->state != HF_COMPLETED)
            check(job->state == HF_FAILED && job->retry_state == HF_RETRY_FINAL &&
                  job->retry_reason);
        if (job->retried_by != 0)
            check(job->state == HF_FAILED && job->retry_state == HF_RETRY_RETRIED);
        next = job->retried_by;
        hf_job_free(job);
    }
}

static void tell_finding(void *arg, const struct hf_finding *finding)
{
    (void)arg;
    test_note("%s", finding->sentence);
}

static void check_sound(struct hf *hf)
{
    struct hf_check_report report;
    struct hf_error error;
    check_ok(hf_check(hf, tell_finding, NULL, &error, &report));
    check_int(report.violations, 0);
    check_int(report.awaiting, 0);
}

static void reckon(struct plan *plan, int kills)
{
    int executed_fd = ledger_fd(plan->executed);
    struct hf *hf = open_victim(plan, &executed_fd);
    check_ok(hf_start(hf, WORKERS));
    if (!test_wait(is_drained, hf, 2 * PATIENCE_MS))
        fail("%lld jobs do not end", (long long)live_jobs(hf));
    check_ok(hf_close(hf));

    int64_t *ids = calloc(LEDGER_MAX, sizeof(*ids));
    hf = open_victim(plan, &executed_fd); /* a second recovery finds nothing */
    check_ok(hf_wait_ready(hf, PATIENCE_MS));
    check_int(live_jobs(hf), 0);
    size_t acknowledged = read_ledger(plan->acknowledged, ids);
    for (size_t i = 0; i < acknowledged; i++) {
        check(i == 0 || ids[i] != ids[i - 1]);
        check_chain(hf, ids[i]);
    }
    size_t executed = read_ledger(plan->executed, ids);
    for (size_t i = 1; i < executed; i++)
        if (ids[i] == ids[i - 1])
            fail("job %lld was executed twice", (long long)ids[i]);
    check_sound(hf);
    check_ok(hf_close(hf));
    test_note("%d kills: %zu acknowledged, all there; %zu executions, none twice", kills,
              acknowledged, executed);
    free(ids);
    close(executed_fd);
}

static struct plan plan_for(const char *url, uint64_t seed)
{
    struct plan plan = { .url = url,
                         .acknowledged = test_path("acknowledged"),
                         .executed = test_path("executed") };
    const char *given = getenv("HF_KILL_SEED");
    if (given)
        seed = strtoull(given, NULL, 10);
    rng_seed(&plan.rng, seed);
    close(ledger_fd(plan.acknowledged));
    close(ledger_fd(plan.executed));
    test_note("HF_KILL_SEED=%llu", (unsigned long long)seed);
    return plan;
}

TEST(killed_again_and_again_on_sqlite_it_accounts_for_every_job)
{
    enum { KILLS = 30 };
    struct plan plan = plan_for(test_sqlite_url(), 20261115);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = start_victim(&plan);
        wait_for_work(&plan);
        kill_victim(pid);
    }
    reckon(&plan, KILLS);
}

TEST(killed_again_and_again_on_postgres_it_accounts_for_every_job)
{
    enum { KILLS = 10 };
    struct plan plan = plan_for(test_postgres_url(), 15112026);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = start_victim(&plan);
        wait_for_work(&plan);
        kill_victim(pid);
    }
    reckon(&plan, KILLS);
}

TEST(a_server_that_dies_in_the_middle_loses_nothing_either)
{
    enum { CRASHES = 4 };
    struct plan plan = plan_for(test_postgres_url(), 4711);
    for (int i = 0; i < CRASHES; i++) {
        pid_t pid = start_victim(&plan);
        wait_for_work(&plan);
        test_postgres_crash(); /* stop -m immediate */
        test_postgres_start();
        wait_for_work(&plan); /* it goes on by itself */
        kill_victim(pid);
    }
    reckon(&plan, CRASHES);
}
