/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_recovery -- a store is opened in which a million jobs were running when
 * their node died, beside a bare loop that writes the same rows: the job and its
 * run fail, a retry and an event are inserted.
 *
 * While the recovery is under way a thread enqueues, one job after the other, and
 * notes how long each took; and the memory of the process is looked at.
 *
 *   bench_recovery [ROUNDS [PERCENT]]   2 rounds; percent of a million jobs */
#include <pthread.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "embed/handle.h"
#include "fill.h"

#define FIRST_ID INT64_C(1000000)
enum { WAITS_MAX = 1 << 20 };

static const char *crashed_store(int64_t jobs)
{
    const char *path = bench_file();
    sqlite3 *db = NULL;
    int64_t queue = fill_begin(path, &db);
    fill_jobs(db, queue, FIRST_ID, FIRST_ID + jobs, JOB_RUNNING);
    fill_end(db);
    return path;
}

/* ---- the bare loop ---- */

static const char message[] =
    "Job interrupted by service restart (crash recovery): it had been running for 0 "
    "seconds when the previous instance stopped.";
static const char details[] =
    "{\"cleanupReason\":\"startup_recovery\",\"previousStatus\":\"running\","
    "\"cleanupTimestamp\":\"2026-11-15T06:28:15.078Z\",\"runningDuration\":\"0 seconds\","
    "\"originalErrorType\":\"worker_restart\",\"previousOwner\":null}";
static const char told[] =
    "{\"kind\":\"bench\",\"attempt\":1,\"errorType\":\"crash\",\"errorClass\":null,"
    "\"message\":\"Job interrupted by service restart (crash recovery): it had been "
    "running for 0 seconds when the previous instance stopped.\",\"verdict\":\"crashed\","
    "\"ranForMs\":78,\"retry\":\"100000005\",\"final\":\"none\"}";

enum { LOOK, JOB, RUN, RETRY, EVENT, STATEMENTS };

static void prepare(sqlite3 *db, sqlite3_stmt *s[STATEMENTS])
{
    s[LOOK] = bare_prepare(db, "SELECT id, queue_id FROM jobs WHERE state IN (3, 4) AND "
                               "id > ?1 ORDER BY queue_id, id LIMIT ?2");
    s[JOB] =
        bare_prepare(db, "UPDATE jobs SET state = 6, finished_at = ?2, retry_state = "
                         "2 WHERE id = ?1 AND state = 3");
    s[RUN] =
        bare_prepare(db, "UPDATE runs SET finished_at = ?2, outcome = 6, error_type = "
                         "5, error_message = ?3, error_details = ?4 WHERE job_id = ?1");
    s[RETRY] = bare_prepare(
        db, "INSERT INTO jobs (id, root_id, retry_of, position, run_at, created_at, "
            "max_execution_us, project_id, queue_id, recovery_id, state, class, lane, "
            "priority, attempt, max_retries, retries_left, kind, retry_delays, payload) "
            "VALUES (?1, ?2, ?2, ?3, ?3, ?3, 1800000000, 1, ?4, 7, 1, 0, 1, 5, 2, 3, 2, "
            "'bench', '60,300,900', ?5)");
    s[EVENT] = bare_prepare(
        db,
        "INSERT INTO events (at, type, project_id, queue_id, job_id, recovery_id, data) "
        "VALUES (?2, 'job.run.failed', 1, ?3, ?1, 7, ?4)");
}

static void write_rows(sqlite3_stmt *s[STATEMENTS], int64_t id, int64_t queue,
                       int64_t now)
{
    sqlite3_bind_int64(s[JOB], 1, id);
    sqlite3_bind_int64(s[JOB], 2, now);
    bare_step(s[JOB]);
    sqlite3_bind_int64(s[RUN], 1, id);
    sqlite3_bind_int64(s[RUN], 2, now);
    sqlite3_bind_text(s[RUN], 3, message, sizeof(message) - 1, SQLITE_STATIC);
    sqlite3_bind_text(s[RUN], 4, details, sizeof(details) - 1, SQLITE_STATIC);
    bare_step(s[RUN]);
    sqlite3_bind_int64(s[RETRY], 1, id + 200000000);
    sqlite3_bind_int64(s[RETRY], 2, id);
    sqlite3_bind_int64(s[RETRY], 3, now);
    sqlite3_bind_int64(s[RETRY], 4, queue);
    sqlite3_bind_text(s[RETRY], 5, bench_payload, -1, SQLITE_STATIC);
    bare_step(s[RETRY]);
    sqlite3_bind_int64(s[EVENT], 1, id);
    sqlite3_bind_int64(s[EVENT], 2, now);
    sqlite3_bind_int64(s[EVENT], 3, queue);
    sqlite3_bind_text(s[EVENT], 4, told, sizeof(told) - 1, SQLITE_STATIC);
    bare_step(s[EVENT]);
}

/* Jobs per second, in transactions as large as the engine's. */
static double bare_recovery(int64_t jobs, struct bench_series *cpu_us)
{
    const char *path = crashed_store(jobs);
    sqlite3 *db = bare_store(path);
    sqlite3_stmt *s[STATEMENTS];
    int64_t ids[RECOVERY_CHUNK_JOBS], queue = 0, last = 0, done = 0;
    int n;
    prepare(db, s);
    double cpu = bench_cpu(CLOCK_PROCESS_CPUTIME_ID), start = bench_now();
    do {
        n = 0;
        bare_exec(db, "BEGIN IMMEDIATE");
        sqlite3_bind_int64(s[LOOK], 1, last);
        sqlite3_bind_int64(s[LOOK], 2, RECOVERY_CHUNK_JOBS);
        for (; sqlite3_step(s[LOOK]) == SQLITE_ROW; n++) {
            ids[n] = sqlite3_column_int64(s[LOOK], 0);
            queue = sqlite3_column_int64(s[LOOK], 1);
        }
        sqlite3_reset(s[LOOK]);
        for (int i = 0; i < n; i++)
            write_rows(s, ids[i], queue, INT64_C(1800000000000000) + done);
        bare_exec(db, "COMMIT");
        last = n > 0 ? ids[n - 1] : last;
        done += n;
    } while (n > 0);
    double seconds = bench_now() - start;
    bench_add(cpu_us, (bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / (double)jobs);
    if (done != jobs)
        bench_die(path, "the bare loop has not seen all jobs");
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s[i]);
    sqlite3_close(db);
    bench_drop_file(path);
    return (double)jobs / seconds;
}

/* ---- the engine ---- */

struct guest {
    struct hf *hf;
    atomic_bool over;
    double *waits;
    size_t count;
};

static void *enqueue_meanwhile(void *arg)
{
    struct guest *g = arg;
    struct hf_new_job job = { .kind = "bench", .payload = bench_payload };
    struct hf_error error;
    while (!atomic_load(&g->over) && g->count < WAITS_MAX) {
        double start = bench_now();
        if (hf_enqueue(g->hf, &job, &error, NULL) < 0)
            bench_die("enqueue", error.text);
        g->waits[g->count++] = bench_now() - start;
        bench_sleep_us(2000);
    }
    return NULL;
}

struct memory {
    int64_t early_kib, most_kib;
};

static double engine_recovery(int64_t jobs, struct guest *g, struct memory *m,
                              struct bench_series *cpu_us)
{
    const char *path = crashed_store(jobs);
    struct hf_options options;
    struct hf_error error;
    pthread_t thread;
    hf_options_init(&options);
    options.db = path;
    double cpu = bench_cpu(CLOCK_PROCESS_CPUTIME_ID), start = bench_now();
    if (hf_open(&options, &error, &g->hf) < 0)
        bench_die(path, error.text);
    atomic_store(&g->over, false);
    if (pthread_create(&thread, NULL, enqueue_meanwhile, g) != 0)
        bench_die("pthread_create", "failed");
    for (int look = 0; hf_wait_ready(g->hf, 100) < 0; look++) {
        int64_t now = bench_rss_kib();
        if (look == 5)
            m->early_kib = now;
        m->most_kib = now > m->most_kib ? now : m->most_kib;
    }
    double seconds = bench_now() - start;
    bench_add(cpu_us, (bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / (double)jobs);
    atomic_store(&g->over, true);
    pthread_join(thread, NULL);
    hf_close(g->hf);
    bench_drop_file(path);
    return (double)jobs / seconds;
}

int main(int argc, char **argv)
{
    struct bench_series engine = { 0 }, bare = { 0 }, engine_us = { 0 }, bare_us = { 0 };
    int rounds = bench_arg(argc, argv, 1, 2);
    int64_t jobs = INT64_C(10000) * bench_arg(argc, argv, 2, 100);
    struct guest guest = { .waits = calloc(WAITS_MAX, sizeof(double)) };
    struct memory memory = { 0 };
    if (!guest.waits)
        bench_die("waits", "no memory");
    bench_machine();
    for (int round = 0; round < rounds && round < BENCH_ROUNDS_MAX; round++) {
        bench_add(&engine, engine_recovery(jobs, &guest, &memory, &engine_us));
        bench_add(&bare, bare_recovery(jobs, &bare_us));
    }
    printf("recovery of %lld running jobs: %8.0f jobs/s; bare loop: %8.0f\n",
           (long long)jobs, bench_median(&engine), bench_median(&bare));
    printf("             processor time each: bare loop %.1f us, engine with the thread "
           "that enqueues %.1f us (%.2f)\n",
           bench_median(&bare_us), bench_median(&engine_us),
           bench_ratio(&bare_us, &engine_us));
    bench_verdict(bench_ratio(&engine, &bare), 0.7);
    printf(
        "             memory of the process: %.1f MiB after half a second, %.1f at most\n",
        (double)memory.early_kib / 1024, (double)memory.most_kib / 1024);
    qsort(guest.waits, guest.count, sizeof(double), bench_by_value);
    printf(
        "             %zu enqueues meanwhile: half within %.1f ms, the longest %.1f ms\n",
        guest.count, bench_quantile(guest.waits, guest.count, 0.5) * 1e3,
        bench_quantile(guest.waits, guest.count, 1) * 1e3);
    bench_limit(
        "99 of 100 within ms:", bench_quantile(guest.waits, guest.count, 0.99) * 1e3, 50);
    free(guest.waits);
    return 0;
}
