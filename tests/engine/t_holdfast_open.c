/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: who may, what is refused, and the sentence that says why.  And what
 * the library answers to a program that uses it wrongly. */
/* test: libs=sqlite3 */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "handle.h"

static int done(struct hf_run *run, void *arg)
{
    (void)run;
    (void)arg;
    return 0;
}

/* Opening fails with this code, and a sentence that has these words in it. */
static void check_refused(const struct hf_options *options, int code, const char *words)
{
    struct hf_error error = { 0 };
    struct hf *hf = (struct hf *)&error; /* untouched on failure */

    check_err(hf_open(options, &error, &hf), code);
    check_int(error.code, code);
    check(hf == (struct hf *)&error);
    if (!strstr(error.text, words))
        fail("\"%s\" says nothing of \"%s\"", error.text, words);
}

static void sqlite_do(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    check_int(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail("%s: %s", sql, why);
    sqlite3_close(db);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(a_scheduler_and_producers_share_a_store)
{
    const char *url = test_db_url();
    struct hf *producer = open_role(url, HF_PRODUCER); /* makes the store */
    int64_t before = must_enqueue(producer, &(struct hf_new_job){ .kind = "k" });
    struct hf *scheduler = open_scheduler(url, "k", done, NULL);
    struct hf *reader = open_role(url, HF_READER);

    check_ok(hf_start(scheduler, 1));
    int64_t after = must_enqueue(producer, &(struct hf_new_job){ .kind = "k" });
    struct hf_job *job = must_wait(producer, before, false);
    check_int(job->state, HF_COMPLETED);
    hf_job_free(job);
    job = must_wait(reader, after, false);
    check_int(job->state, HF_COMPLETED);
    hf_job_free(job);
    check_ok(hf_close(producer));
    check_ok(hf_close(scheduler));
    check_ok(hf_close(reader));
}

TEST(a_second_scheduler_is_refused_on_a_file_and_welcome_on_a_server)
{
    const char *url = test_db_url();
    struct hf_options options = options_for(url);
    struct hf *first = open_with(&options), *second = NULL;

    if (test_on_postgres()) {
        second = open_with(&options);
        int64_t id = must_enqueue(first, &(struct hf_new_job){ .kind = "k" });
        check_int(state_of(second, id), HF_QUEUED);
        check_ok(hf_close(second));
    } else {
        check_refused(&options, -HF_LOCKED, "scheduler");
    }
    check_ok(hf_close(first));
    second = open_with(&options); /* and now it may */
    check_ok(hf_close(second));
}

static void note_finding(void *arg, const struct hf_finding *finding)
{
    int64_t *job_id = arg;
    check(finding->sentence && finding->sentence[0]);
    if (finding->job_id)
        *job_id = finding->job_id;
}

TEST(a_check_finds_nothing_on_a_sound_store_and_names_what_is_wrong)
{
    const char *url = test_db_url();
    struct hf *hf = open_role(url, HF_PRODUCER);
    struct hf_check_report report = { 0 };
    struct hf_error error;
    int64_t named = 0, id = must_enqueue(hf, &(struct hf_new_job){ .kind = "k" });

    check_ok(hf_check(hf, note_finding, &named, &error, &report));
    check_int(report.jobs, 1);
    check_int(report.violations, 0);
    check_int(named, 0);
    if (!test_on_postgres()) { /* a job that is over, and never ran */
        sqlite_do(url, "UPDATE jobs SET state = 5, finished_at = 1");
        check_ok(hf_check(hf, note_finding, &named, &error, &report));
        check(report.violations > 0);
        check_int(named, id);
    }
    check_err(hf_check(NULL, NULL, NULL, &error, NULL), -HF_INVALID);
    check_ok(hf_close(hf));
}

TEST(a_reader_makes_nothing)
{
    struct hf_options options = options_for(test_db_url());
    struct hf_error error;

    options.role = HF_READER;
    check_refused(&options, -HF_NOT_FOUND, options.db);
    if (!test_on_postgres())
        check(access(options.db, F_OK) != 0);
    struct hf *producer = open_role(options.db, HF_PRODUCER);
    struct hf *reader = open_with(&options);
    check_err(hf_enqueue(reader, &(struct hf_new_job){ .kind = "k" }, &error, NULL),
              -HF_READONLY);
    check(strstr(error.text, "reader") != NULL);
    check_err(hf_cancel(reader, 1, NULL, &error, NULL), -HF_READONLY);
    check_err(hf_recover(reader, &error), -HF_CONFLICT);
    check_err(hf_start(reader, 1), -HF_CONFLICT);
    check_ok(hf_wait_ready(reader, 0));
    check_ok(hf_close(reader));
    check_ok(hf_close(producer));
}

TEST(a_file_that_is_not_a_store_is_refused_with_a_sentence)
{
    const char *path = test_path("file.db");
    struct hf_options options = options_for(path);

    write_file(path, "These are my notes, and they are longer than a header is.\n"
                     "They would be sorry to be overwritten by a job queue.\n");
    check_refused(&options, -HF_FOREIGN, path);
    unlink(path);
    sqlite_do(path, "CREATE TABLE mine (x)");
    check_refused(&options, -HF_FOREIGN, path);
    options.role = HF_PRODUCER;
    check_refused(&options, -HF_FOREIGN, path);
    options.role = HF_READER;
    check_refused(&options, -HF_FOREIGN, path);
    options.db = test_dir();
    check_refused(&options, -HF_FOREIGN, "directory");
    options.db = test_path("no/such/folder.db");
    options.role = HF_SCHEDULER;
    struct hf_error error;
    struct hf *hf = NULL;
    check(hf_open(&options, &error, &hf) < 0);
    check(strstr(error.text, "folder.db") != NULL);
}

TEST(a_store_of_another_version_is_refused_with_a_sentence)
{
    struct hf_options options = options_for(test_sqlite_url());

    check_ok(hf_close(open_with(&options)));
    sqlite_do(options.db, "UPDATE meta SET value = '999' WHERE name = 'schema'");
    check_refused(&options, -HF_VERSION, "newer");
    options.role = HF_PRODUCER;
    check_refused(&options, -HF_VERSION, "newer");
    sqlite_do(options.db, "UPDATE meta SET value = '0' WHERE name = 'schema'");
    check_refused(&options, -HF_VERSION, "Start the scheduler once");
}

/* Overwrites all pages but the first. */
static bool spoil(const char *path)
{
    char junk[4096];
    bool ok = true;
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return false;
    memset(junk, 0xa5, sizeof(junk));
    for (off_t page = 1; page < 40; page++)
        ok = ok && pwrite(fd, junk, sizeof(junk), page * (off_t)sizeof(junk)) > 0;
    return close(fd) == 0 && ok;
}

TEST(a_damaged_store_is_refused_with_a_sentence)
{
    struct hf_options options = options_for(test_sqlite_url());
    struct hf_error error;
    struct hf *hf = NULL;

    check_ok(hf_close(open_with(&options)));
    sqlite_do(options.db, "PRAGMA wal_checkpoint(TRUNCATE)");
    check(spoil(options.db));
    int r = hf_open(&options, &error, &hf);
    check(r == -HF_CORRUPT || r == -HF_FOREIGN);
    check(strstr(error.text, options.db) != NULL);
}

TEST(a_store_that_cannot_be_written_is_refused_with_a_sentence)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        test_skip("cannot become somebody who may not write");
    struct hf_options options = options_for("/etc/holdfast-test.db");
    struct hf_error error;
    struct hf *hf = NULL;

    int r = hf_open(&options, &error, &hf);
    check_err(r, -HF_READONLY);
    check(strstr(error.text, "/etc/holdfast-test.db") != NULL);
}

TEST(a_server_that_is_not_there_is_unavailable)
{
    struct hf_options options =
        options_for("postgres:///nothing?host=/nonexistent&connect_timeout=2");
    check_refused(&options, -HF_UNAVAILABLE, "");
}

/* ---- misuse ---- */

TEST(options_that_make_no_sense_are_refused_by_name)
{
    struct hf_options good = options_for(test_db_url()), bad;
    struct hf_handler handlers[] = { { "k", done, NULL }, { "k", done, NULL } };
    struct hf_error error;
    struct hf *hf = NULL;

    check_err(hf_open(NULL, &error, &hf), -HF_INVALID);
    check_err(hf_open(&good, &error, NULL), -HF_INVALID);
    bad = (struct hf_options){ .db = good.db }; /* not initialised */
    check_err(hf_open(&bad, &error, &hf), -HF_INVALID);
    const struct {
        const char *field;
        size_t offset;
        int64_t value;
    } cases[] = {
        { "lease_ms", offsetof(struct hf_options, lease_ms), 1 },
        { "poll_interval_ms", offsetof(struct hf_options, poll_interval_ms), -1 },
        { "slots", offsetof(struct hf_options, slots), INT64_MAX },
        { "shutdown_grace_ms", offsetof(struct hf_options, shutdown_grace_ms),
          INT64_MAX },
        { "max_payload_bytes", offsetof(struct hf_options, max_payload_bytes), 0 },
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        bad = good;
        memcpy((char *)&bad + cases[i].offset, &cases[i].value, sizeof(cases[i].value));
        check_refused(&bad, -HF_INVALID, cases[i].field);
    }
    bad = good;
    bad.retry_delays = "whenever";
    check_refused(&bad, -HF_INVALID, "retry_delays");
    bad = good;
    bad.handlers = handlers;
    bad.handler_count = 2;
    check_refused(&bad, -HF_INVALID, "two handlers");
    bad.handler_count = 1;
    bad.role = HF_PRODUCER;
    check_refused(&bad, -HF_INVALID, "scheduler");
    bad = good;
    bad.handler_count = 1;
    check_refused(&bad, -HF_INVALID, "handlers");
    bad = good;
    bad.max_pending = 0;
    check_refused(&bad, -HF_INVALID, "max_pending");
    bad = good;
    bad.reserved[3] = 1;
    check_refused(&bad, -HF_INVALID, "reserved");
}

TEST(what_is_not_there_is_an_error_and_not_a_crash)
{
    struct hf_new_job job = { .kind = "k" };
    struct hf_enqueued made;
    struct hf_error error;
    struct hf_job *found = NULL;
    struct hf_explanation *why = NULL;

    check_ok(hf_close(NULL));
    hf_stop(NULL);
    hf_job_free(NULL);
    hf_jobs_free(NULL);
    hf_events_free(NULL);
    hf_queues_free(NULL);
    hf_recoveries_free(NULL);
    check_err(hf_wait_ready(NULL, 0), -HF_INVALID);
    check_err(hf_enqueue(NULL, &job, &error, &made), -HF_INVALID);
    check_err(hf_enqueue_async(NULL, &job, 1, NULL, NULL, NULL, &error), -HF_INVALID);
    check_err(hf_enqueue_sqlite(NULL, &job, &error, &made), -HF_INVALID);
    check_err(hf_cancel(NULL, 1, NULL, &error, NULL), -HF_INVALID);
    check_err(hf_get_job(NULL, 1, &error, &found), -HF_INVALID);
    check_err(hf_explain(NULL, 1, &error, &why), -HF_INVALID);
    check_err(hf_wait(NULL, 1, 0, false, &error, &found), -HF_INVALID);
    check_err(hf_start(NULL, 1), -HF_INVALID);
    check_err(hf_run(NULL, 1), -HF_INVALID);
    check_err(hf_recover(NULL, &error), -HF_INVALID);
    check_err(hf_succeed(NULL, NULL), -HF_INVALID);
    check_err(hf_progress(NULL, 1, NULL), -HF_INVALID);
    check_int(hf_cancelled(NULL), HF_STOP_NONE);

    struct hf *hf = open_role(test_db_url(), HF_SCHEDULER);
    check_err(hf_enqueue(hf, NULL, &error, &made), -HF_INVALID);
    check_err(hf_get_job(hf, 1, &error, NULL), -HF_INVALID);
    check_err(hf_explain(hf, 1, &error, NULL), -HF_INVALID);
    check_err(hf_explain(hf, 7, &error, &why), -HF_NOT_FOUND);
    check(!why);
    check_err(hf_start(hf, 1), -HF_CONFLICT); /* no handlers */
    check_err(hf_start(hf, 0), -HF_INVALID);
    check_err(hf_start(hf, 1001), -HF_INVALID);
    check_ok(hf_close(hf));
    hf = open_scheduler(test_db_url(), "k", done, NULL);
    check_ok(hf_start(hf, 1));
    check_err(hf_start(hf, 1), -HF_CONFLICT);
    check_err(hf_run(hf, 1), -HF_CONFLICT);
    check_ok(hf_close(hf));
}

TEST(a_job_that_makes_no_sense_is_refused_by_field)
{
    struct hf *hf = open_role(test_db_url(), HF_PRODUCER);
    struct hf_error error;
    char longest[600];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    const struct {
        struct hf_new_job job;
        const char *field;
        int code;
    } cases[] = {
        { { .kind = NULL }, "kind", -HF_INVALID },
        { { .kind = "" }, "kind", -HF_INVALID },
        { { .kind = "a/b" }, "kind", -HF_INVALID },
        { { .kind = "k", .queue = "a b" }, "queue", -HF_INVALID },
        { { .kind = "k", .payload = "{" }, "payload", -HF_INVALID },
        { { .kind = "k", .payload = "" }, "payload", -HF_INVALID },
        { { .kind = "k", .payload = "[1]x", .payload_bytes = 4 },
          "payload",
          -HF_INVALID },
        { { .kind = "k", .metadata = "{\"a\": 1}" }, "metadata", -HF_INVALID },
        { { .kind = "k", .unique_key = longest }, "uniqueKey", -HF_INVALID },
        { { .kind = "k", .unique_key = "\xc3(" }, "uniqueKey", -HF_INVALID },
        { { .kind = "k", .priority = 10 }, "priority", -HF_INVALID },
        { { .kind = "k", .max_retries = 101 }, "maxRetries", -HF_INVALID },
        { { .kind = "k", .max_retries = -2 }, "maxRetries", -HF_INVALID },
        { { .kind = "k", .delay_ms = -1 }, "delayMs", -HF_INVALID },
        { { .kind = "k", .delay_ms = INT64_MAX }, "delayMs", -HF_INVALID },
        { { .kind = "k", .delay_ms = 1, .run_at_us = 1 }, "delayMs", -HF_INVALID },
        { { .kind = "k", .max_execution_ms = -1 }, "maxExecutionTimeMs", -HF_INVALID },
        { { .kind = "k", .max_execution_ms = INT64_MAX },
          "maxExecutionTimeMs",
          -HF_INVALID },
        { { .kind = "k", .on_crash = (enum hf_on_crash)3 }, "onCrash", -HF_INVALID },
        { { .kind = "k", .on_conflict = (enum hf_on_conflict)3 },
          "onConflict",
          -HF_INVALID },
        { { .kind = "k", .retry_delays = "1,x" }, "retryDelaysSeconds", -HF_INVALID },
        { { .kind = "k", .reserved = { 1 } }, "reserved", -HF_INVALID },
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        check_err(hf_enqueue(hf, &cases[i].job, &error, NULL), cases[i].code);
        check_str(error.field, cases[i].field);
        check(error.text[0] != '\0');
    }
    /* The first bytes of a longer text are a payload of their own. */
    must_enqueue(
        hf, &(struct hf_new_job){ .kind = "k", .payload = "[1]x", .payload_bytes = 3 });
    check_ok(hf_close(hf));
}
