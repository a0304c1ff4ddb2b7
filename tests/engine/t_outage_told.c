/* SPDX-License-Identifier: Apache-2.0
 *
 * The database is away for long: the log says so, and is still readable afterwards. */
/* test: once */
#include "world.h"

struct ear {
    struct log log; /* first */
    int failed;
};

static void hear(struct log *log, enum level level, const char *event,
                 const struct log_field *fields)
{
    struct ear *ear = (struct ear *)log;
    (void)level;
    (void)fields;
    ear->failed += strcmp(event, "duty_failed") == 0;
}

static void tick_for(struct world *w, int seconds)
{
    for (int i = 0; i < 5 * seconds; i++) {
        w->wall += US_PER_S / 5;
        w->mono += US_PER_S / 5;
        engine_tick(w->engine);
    }
}

TEST(an_outage_is_told_at_once_and_then_once_a_minute)
{
    struct ear ear = { .log = { .least = LEVEL_DEBUG, .event = hear } };
    struct world w;

    world_init(&w);
    w.url = test_postgres_url();
    w.log = &ear.log;
    world_open(&w);
    test_postgres_crash();
    tick_for(&w, 10);
    check_int(ear.failed, 1);
    tick_for(&w, 110);
    check_int(ear.failed, 2);
    test_postgres_start();
    world_close(&w);
}
