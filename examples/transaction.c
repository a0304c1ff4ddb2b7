/* SPDX-License-Identifier: Apache-2.0
 *
 * transaction.c -- a job that exists exactly if your own data does.
 *
 *   transaction [FILE]
 *
 * An order and the job that ships it belong together: an order without its job
 * is never shipped, a job without its order fails.  With both in one SQLite
 * transaction there is no moment in between, whatever crashes. */
/* example: libs=sqlite3 */
#include <holdfast.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int complain(const char *what)
{
    fprintf(stderr, "transaction: %s\n", what);
    return 1;
}

/* Your own table lives in the store's file, or in one that you attach to it.
 * synchronous=FULL is what makes COMMIT mean "on disk"; WAL mode is the store's
 * already. */
static int prepare(sqlite3 *db)
{
    return sqlite3_exec(db,
                        "PRAGMA busy_timeout = 5000;"
                        "PRAGMA synchronous = FULL;"
                        "CREATE TABLE IF NOT EXISTS orders (item TEXT)",
                        NULL, NULL, NULL);
}

/* Takes an order, with its job, in one transaction. */
static int order(sqlite3 *db, bool in_stock)
{
    struct hf_new_job ship = { .kind = "ship", .payload = "{\"item\": \"tea\"}" };
    struct hf_enqueued made;
    struct hf_error error;

    /* IMMEDIATE: waits for its turn to write at the beginning, not in between. */
    if (sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO orders VALUES ('tea')", NULL, NULL,
                     NULL) != SQLITE_OK)
        return complain(sqlite3_errmsg(db));
    if (hf_enqueue_sqlite(db, &ship, &error, &made) < 0) {
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return complain(error.text);
    }
    if (!in_stock) {
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        printf("  out of stock: rolled back\n");
        return 0;
    }
    if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return complain(sqlite3_errmsg(db));
    printf("  ordered: committed, with job %lld\n", (long long)made.id);
    return 0;
}

static int count(void *arg, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    *(int *)arg = atoi(values[0]);
    return 0;
}

static void show(sqlite3 *db, struct hf *hf)
{
    struct hf_jobs *jobs;
    int orders = 0;

    sqlite3_exec(db, "SELECT count(*) FROM orders", count, &orders, NULL);
    if (hf_list_jobs(hf, NULL, NULL, &jobs) < 0)
        return;
    printf("  orders: %d, jobs: %zu\n", orders, jobs->count);
    hf_jobs_free(jobs);
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-lock" };
    char folder[] = "/tmp/holdfast-transaction-XXXXXX", path[100], name[120];
    struct hf_options options;
    struct hf_error error;
    struct hf *hf;
    sqlite3 *db;

    if (argc < 2 && !mkdtemp(folder))
        return complain("cannot make a temporary folder");
    snprintf(path, sizeof(path), "%s/shop.db", folder);

    /* A producer makes the store; a scheduler elsewhere would execute the jobs. */
    hf_options_init(&options);
    options.db = argc < 2 ? path : argv[1];
    options.role = HF_PRODUCER;
    if (hf_open(&options, &error, &hf) < 0)
        return complain(error.text);
    if (sqlite3_open(options.db, &db) != SQLITE_OK || prepare(db) != SQLITE_OK)
        return complain(sqlite3_errmsg(db));

    printf("An order that fails:\n");
    int failed = order(db, false);
    show(db, hf);
    printf("An order that does not:\n");
    failed |= order(db, true);
    show(db, hf);

    sqlite3_close(db);
    hf_close(hf);
    for (size_t i = 0; argc < 2 && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
    if (argc < 2)
        rmdir(folder);
    return failed;
}
