/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_schedules -- a hundred thousand schedules that fire once a minute, spread over
 * its seconds: how late their fires are, and what they cost.
 *
 * Each has a second of its own by cron, so that some 1,700 fall due at once, sixty times
 * a minute.  Their jobs are executed by handlers that do nothing.  Lateness is from the
 * fire time to the commit's own time of the row that has its outcome, over whole minutes.
 *
 *   bench_schedules [MINUTES [THOUSANDS]]   1; 100 */
#include <stdatomic.h>

#include "producers.h"

enum { MAKERS = 64, WORKERS = 16 };

static atomic_int executed;
static int count;

static int handle(struct hf_run *run, void *arg)
{
    (void)run, (void)arg;
    atomic_fetch_add_explicit(&executed, 1, memory_order_relaxed);
    return 0;
}

static struct hf *open_with(const char *path)
{
    struct hf_handler handlers[] = { { .kind = "bench", .handle = handle } };
    struct hf_options options;
    struct hf_error error;
    struct hf *hf = NULL;

    hf_options_init(&options);
    options.db = path;
    options.handlers = handlers;
    options.handler_count = 1;
    options.slots = WORKERS;
    if (hf_open(&options, &error, &hf) < 0)
        bench_die(path, error.text);
    if (hf_start(hf, WORKERS) < 0 || hf_wait_ready(hf, -1) < 0)
        bench_die(path, "cannot start workers");
    return hf;
}

/* ---- making them ---- */

struct maker {
    struct hf *hf;
    int first;
};

static void *make(void *arg)
{
    const struct maker *m = arg;
    for (int i = m->first; i < count; i += MAKERS) {
        char name[40], cron[40];
        struct error why = { 0 };
        struct command *c = command_begin(m->hf, OP_SCHEDULE, &why);
        if (!c)
            bench_die("schedule", why.text);
        snprintf(name, sizeof(name), "every-minute-%d", i);
        snprintf(cron, sizeof(cron), "%d * * * * *", i % 60);
        c->schedule.edit = (struct schedule_edit){
            .set = EDIT_NAME | EDIT_CRON | EDIT_KIND | EDIT_PAYLOAD,
            .with = { .name = arena_dup(&c->arena, slice_of(name)),
                      .cron = arena_dup(&c->arena, slice_of(cron)),
                      .kind = SLICE("bench"),
                      .payload = slice_of(bench_payload) }
        };
        if (command_run(m->hf, c, &why) < 0)
            bench_die("schedule", why.text);
        command_drop(&c);
    }
    return NULL;
}

static double make_all(struct hf *hf)
{
    pthread_t threads[MAKERS];
    struct maker makers[MAKERS];
    double start = bench_now();
    for (int i = 0; i < MAKERS; i++) {
        makers[i] = (struct maker){ hf, i };
        if (pthread_create(&threads[i], NULL, make, &makers[i]) != 0)
            bench_die("thread", "cannot be made");
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(threads[i], NULL);
    return bench_now() - start;
}

/* ---- how late they were ---- */

static int64_t wall_now(void)
{
    return clock_wall_us(&clock_system);
}

/* Lateness of all fire times in between, in seconds, sorted. */
static size_t lateness(const char *path, int64_t from, int64_t until, double **ret)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    size_t n = 0, room = (size_t)((until - from) / (60 * US_PER_S) + 1) * (size_t)count;
    double *list = malloc(room * sizeof(*list));

    if (!list)
        bench_die("lateness", "no memory");
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db,
                           "SELECT at - fire_at FROM fires WHERE fire_at >= ?1 AND "
                           "fire_at < ?2 AND outcome = 1",
                           -1, &stmt, NULL) != SQLITE_OK)
        bench_die(path, sqlite3_errmsg(db));
    sqlite3_bind_int64(stmt, 1, from);
    sqlite3_bind_int64(stmt, 2, until);
    while (n < room && sqlite3_step(stmt) == SQLITE_ROW)
        list[n++] = (double)sqlite3_column_int64(stmt, 0) / 1e6;
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    qsort(list, n, sizeof(*list), bench_by_value);
    *ret = list;
    return n;
}

static void sleep_until(int64_t wall)
{
    while (wall_now() < wall)
        bench_sleep_us(wall - wall_now() < 100000 ? 1000 : 100000);
}

int main(int argc, char **argv)
{
    int minutes = bench_arg(argc, argv, 1, 1);
    const char *path = bench_file();
    double *late = NULL;

    count = bench_arg(argc, argv, 2, 100) * 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_machine();
    struct hf *hf = open_with(path);
    double made = make_all(hf);
    printf("%d schedules, made in %.1f s (%.0f/s)\n", count, made, count / made);

    /* From a full second on, when what fell due while they were made is done with. */
    int64_t from = (wall_now() / US_PER_S + 3) * US_PER_S;
    sleep_until(from);
    double cpu = bench_cpu(CLOCK_PROCESS_CPUTIME_ID);
    int64_t until = from + minutes * 60 * US_PER_S;
    sleep_until(until);
    cpu = bench_cpu(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    bench_sleep_us(2 * US_PER_S); /* the last ones, as late as they may be */
    size_t n = lateness(path, from, until, &late);
    printf("%zu fires of %d in %d s: late by p50 %.3f s, p99 %.3f s, at most %.3f s; "
           "memory %.0f MiB\n",
           n, count * minutes, minutes * 60, bench_quantile(late, n, 0.5),
           bench_quantile(late, n, 0.99), n ? late[n - 1] : 0,
           (double)bench_rss_kib() / 1024);
    printf("             processor time: %.1f s a minute, %.0f us for a fire and its "
           "job, %d of which were executed\n",
           cpu / minutes, n ? cpu * 1e6 / (double)n : 0, atomic_load(&executed));
    bench_limit("p99 in ms:", bench_quantile(late, n, 0.99) * 1e3, 1000);
    free(late);
    hf_close(hf);
    bench_drop_file(path);
    return 0;
}
