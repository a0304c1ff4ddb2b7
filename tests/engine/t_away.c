/* test: once */
/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that does not take what is written is known to be away, by an idle engine too,
 * until it has been written again. */
#include <sqlite3.h>

#include "acts.h"
#include "crash_vfs.h"

/* What the hook was told. */
static struct {
    int codes[16];
    size_t count;
} heard;

static void hear_away(void *arg, int code)
{
    (void)arg;
    check(heard.count < array_len(heard.codes));
    heard.codes[heard.count++] = code;
}

static void listen(struct world *w)
{
    heard.count = 0;
    w->engine->hooks.away = hear_away;
}

static void tick_after(struct world *w, int64_t us)
{
    w->wall += us;
    w->mono += us;
    engine_tick(w->engine);
}

static void full_world(struct world *w, const char *name)
{
    world_init(w);
    w->url = test_path("full.db");
    w->vfs = name;
    world_open(w);
    listen(w);
}

TEST(a_full_disk_is_away_until_it_has_been_written_again)
{
    struct world w;
    struct crash_disk *disk = crash_disk_new("full", false, NULL);
    full_world(&w, "full");
    check_int(w.engine->away, 0);
    crash_disk_fail(disk, CRASH_WRITE, 1, SQLITE_FULL, true);
    check_err(try_enqueue(&w, job_of_kind("crawl"), NULL), -HF_FULL);
    check_int(w.engine->away, -HF_FULL);
    /* It can be read, and nothing runs that would have to be written of. */
    for (int i = 0; i < 100; i++) {
        tick_after(&w, US_PER_S / 5);
        check_int(w.engine->away, -HF_FULL);
    }
    crash_disk_fail(disk, CRASH_WRITE, 0, 0, false);
    tick_after(&w, US_PER_S / 5);
    check_int(w.engine->away, 0);
    check_int(heard.count, 2);
    check_int(heard.codes[0], -HF_FULL);
    check_int(heard.codes[1], 0);
    enqueue_kind(&w, "crawl");
    world_close(&w);
    crash_disk_free(disk);
}

/* What a transaction refuses, or writes nothing for, says nothing about the disk. */
TEST(a_command_that_writes_nothing_does_not_bring_the_store_back)
{
    struct world w;
    struct crash_disk *disk = crash_disk_new("still", false, NULL);
    full_world(&w, "still");
    crash_disk_fail(disk, CRASH_WRITE, 1, SQLITE_FULL, true);
    check_err(try_enqueue(&w, job_of_kind("crawl"), NULL), -HF_FULL);
    check_err(cancel(&w, 999999), -HF_NOT_FOUND);
    check_int(w.engine->away, -HF_FULL);
    crash_disk_fail(disk, CRASH_WRITE, 0, 0, false);
    check_err(cancel(&w, 999999), -HF_NOT_FOUND);
    check_int(w.engine->away, -HF_FULL); /* until the beat is through */
    tick_after(&w, US_PER_S / 2);
    check_int(w.engine->away, 0);
    world_close(&w);
    crash_disk_free(disk);
}

TEST(a_refusal_is_no_outage)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    listen(&w);
    check_err(cancel(&w, 999999), -HF_NOT_FOUND);
    run_sql(&w, "CREATE UNIQUE INDEX test_external ON jobs (external_id);");
    struct new_job twice = job_of_kind("crawl");
    twice.external_id = SLICE("same");
    enqueue(&w, twice);
    check_err(try_enqueue(&w, twice, NULL), -HF_CONFLICT);
    world_pass(&w, 60 * US_PER_S);
    check_int(heard.count, 0);
    world_close(&w);
}

TEST(an_idle_node_knows_that_the_database_is_away_and_when_it_is_back)
{
    struct world w;
    world_init(&w);
    w.url = test_postgres_url();
    world_open(&w);
    listen(&w);
    test_postgres_crash();
    tick_after(&w, w.settings.poll_interval_us); /* the beat is not due yet */
    check_int(w.engine->away, -HF_UNAVAILABLE);
    for (int i = 0; i < 20; i++)
        tick_after(&w, US_PER_S / 5);
    check_int(w.engine->away, -HF_UNAVAILABLE);
    test_postgres_start();
    for (int i = 0; i < 3 && w.engine->away; i++) /* connects, then beats */
        tick_after(&w, US_PER_S / 5);
    check_int(w.engine->away, 0);
    check_int(heard.count, 2);
    enqueue_kind(&w, "crawl");
    world_close(&w);
}

/* It waits for seconds: whoever asks meanwhile is told. */
TEST(a_pile_that_waits_for_the_database_has_said_so)
{
    struct world w;
    world_init(&w);
    w.url = test_postgres_url();
    world_open(&w);
    listen(&w);
    test_postgres_crash();
    check_err(try_enqueue(&w, job_of_kind("crawl"), NULL), -HF_UNAVAILABLE);
    check_int(heard.count, 1);
    check_int(heard.codes[0], -HF_UNAVAILABLE);
    test_postgres_start();
    world_close(&w);
}
