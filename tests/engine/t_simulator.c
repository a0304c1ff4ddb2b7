/* test: with=sim */
/* SPDX-License-Identifier: Apache-2.0
 *
 * Worlds full of accidents, against a model of what the manual promises.  sim.h says
 * how it works, docs/TESTING.md how to play a seed again.  From the environment:
 *
 *   HF_SIM_STEPS   the length of each world
 *   HF_SIM_SEEDS   how many worlds there are
 *   HF_SIM_SEED    the first of them; alone, the only one
 *   HF_TEST_PATIENCE  more time (a factor) than the half hour there is for all worlds
 *   HF_SIM_TRACE   tells a world that fails from its beginning, and does not look for
 *                  a shorter one
 *
 * The simulated disk makes SQLite fast and lets it crash.  PostgreSQL has two nodes
 * instead, and a shorter run. */
#include "sim_run.h"
#include "test.h"

static uint64_t knob(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void print_saw(const struct shared *sum)
{
    char text[1024] = "";
    size_t n = 0;
    for (int i = 0; i < SAW_ALL; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu %s", i ? ", " : "",
                              (unsigned long long)sum->saw[i], sim_saw_names[i]);
    test_note("%s", text);
}

/* What a seed tells, in a text to free. */
static char *story_of(uint64_t seed, size_t steps)
{
    FILE *file = tmpfile();
    check(file != NULL);
    sim_story(seed, steps, file);
    long size = (fseek(file, 0, SEEK_END), ftell(file));
    char *text = calloc(1, (size_t)size + 1);
    check(size > 0 && text != NULL);
    rewind(file);
    check(fread(text, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    return text;
}

TEST(a_seed_tells_the_same_story_each_time)
{
    size_t steps = test_on_postgres() ? 60 : 600;
    char *one = story_of(1, steps), *again = story_of(1, steps),
         *other = story_of(2, steps);
    check_str(again, one);
    check(strcmp(other, one) != 0);
    free(one);
    free(again);
    free(other);
}

TEST_SLOW(nothing_is_lost_done_twice_or_forgotten_in_any_of_these_worlds, 1800)
{
    bool postgres = test_on_postgres();
    uint64_t first = knob("HF_SIM_SEED", 1);
    uint64_t count = knob("HF_SIM_SEEDS", getenv("HF_SIM_SEED") ? 1 : postgres ? 4 : 50);
    size_t steps = knob("HF_SIM_STEPS", postgres ? 400 : 10000);
    struct shared world = { 0 }, sum = { 0 };
    for (uint64_t seed = first; seed < first + count; seed++) {
        sim_run(seed, steps, &world);
        sum.done += world.done;
        for (int i = 0; i < SAW_ALL; i++)
            sum.saw[i] += world.saw[i];
    }
    print_saw(&sum);
    test_note("%zu steps in %llu worlds, 0 violations", sum.done,
              (unsigned long long)count);
}
