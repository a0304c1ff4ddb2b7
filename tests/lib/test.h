/* SPDX-License-Identifier: Apache-2.0
 *
 * test.h -- how a test is written.
 *
 *   #include "test.h"
 *
 *   TEST(a_full_box_gives_the_mail_back)
 *   {
 *       check_ok(mailbox_new(1, &box));
 *       check_int(mailbox_count(box), 0);
 *   }
 *
 * There is no list of tests: being written is enough.  Each runs in a process
 * of its own, with a private folder and its own databases, all of which are
 * removed afterwards, also when it crashed; a crash or a hang fails that test
 * only.  What a test prints is shown when it fails.
 *
 * A test never sleeps for luck.  It waits for a condition (test_wait) or moves
 * a virtual clock.
 *
 * The program prints TAP.  Arguments: parts of test names to run only those;
 * --list to see the names.  Environment: HF_TEST_DB, the database to test on
 * ("sqlite", which is the default, or a postgres:// url of a server where
 * databases may be made); HF_TEST_PATIENCE, a factor for the time limits, for
 * slow machines and instrumented builds; HF_TEST_MANY, see test_many();
 * HF_TEST_TOGETHER, to run all tests in one process (see test.c).
 *
 * Checks may be made in any thread and in forked children: the first that
 * fails ends its process and fails the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#define TEST(name) TEST_SLOW(name, 120)

/* For a test that may honestly take longer than two minutes. */
#define TEST_SLOW(name, seconds)                                                         \
    static void test_body_##name(void);                                                  \
    __attribute__((constructor)) static void test_register_##name(void)                  \
    {                                                                                    \
        static struct test entry = { #name, seconds, test_body_##name, NULL };           \
        test_register(&entry);                                                           \
    }                                                                                    \
    static void test_body_##name(void)

#define check(cond)                                                                      \
    do {                                                                                 \
        if (!(cond))                                                                     \
            test_fail(__FILE__, __LINE__, "check(%s) failed", #cond);                    \
    } while (0)

/* Equal numbers of any integer type (also bool and enum); shows both. */
#define check_int(got, want)                                                             \
    test_check_int(__FILE__, __LINE__, #got, #want, (intmax_t)(got), (intmax_t)(want))

/* Equal strings; NULL equals only NULL. */
#define check_str(got, want) test_check_str(__FILE__, __LINE__, #got, #want, got, want)

/* A slice with these bytes; an absent slice is equal to NULL. */
#define check_slice(got, want)                                                           \
    test_check_slice(__FILE__, __LINE__, #got, #want, got, want)

/* The expression returns 0; shows the name of the error otherwise. */
#define check_ok(expr) test_check_status(__FILE__, __LINE__, #expr, (intmax_t)(expr), 0)

/* The expression returns exactly this error: check_err(expr, -HF_BUSY). */
#define check_err(expr, code)                                                            \
    test_check_status(__FILE__, __LINE__, #expr, (intmax_t)(expr), code)

/* Fails with a sentence. */
#define fail(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* Ends the test as skipped; the reason is shown. */
_Noreturn void test_skip(const char *why);

/* A line for the reader of the report, shown also when the test passes. */
void test_note(const char *format, ...) printf_like(1, 2);

/* True as soon as `condition(arg)` is; false if it still is not after `ms`
 * (times HF_TEST_PATIENCE). */
must_check bool test_wait(bool (*condition)(void *arg), void *arg, int64_t ms);

/* `wanted`, or HF_TEST_MANY if that is less: for what can be done as often as one
 * likes, and is dear where every instruction is watched. */
int test_many(int wanted);

/* Microseconds that only go forward. */
int64_t test_monotonic_us(void);

/* The test's private folder, and a path in it.  The strings that this and the
 * functions below return are good until the test ends. */
const char *test_dir(void);
const char *test_path(const char *name);

/* A new, empty database on the engine that HF_TEST_DB names: a path to a file
 * that does not exist yet, or a postgres:// url.  Each call gives another. */
const char *test_db_url(void);

/* Whether that engine is PostgreSQL. */
bool test_on_postgres(void);

/* The same for one engine, for tests that are run `once` and see to both
 * themselves.  test_postgres_url() skips the test if there is no server. */
const char *test_sqlite_url(void);
const char *test_postgres_url(void);

/* Pulls the plug of the throwaway server (`stop -m immediate`: no checkpoint,
 * every connection gone), and starts it again.  Only in tests that are run
 * `once`: they have a server to themselves. */
void test_postgres_crash(void);
void test_postgres_start(void);

/* What the macros above are made of. */
struct test {
    const char *name;
    int seconds;
    void (*body)(void);
    struct test *next;
};
void test_register(struct test *test);
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    printf_like(3, 4);
_Noreturn void test_fail_int(const char *file, int line, const char *got_text,
                             const char *want_text, intmax_t got, intmax_t want);
_Noreturn void test_fail_status(const char *file, int line, const char *expr,
                                intmax_t got, int want);
void test_check_str(const char *file, int line, const char *got_text,
                    const char *want_text, const char *got, const char *want);
void test_check_slice(const char *file, int line, const char *got_text,
                      const char *want_text, struct slice got, const char *want);

/* In sight of the caller, so that an analyser knows what holds after a check. */
static inline void test_check_int(const char *file, int line, const char *got_text,
                                  const char *want_text, intmax_t got, intmax_t want)
{
    if (got != want)
        test_fail_int(file, line, got_text, want_text, got, want);
}

static inline void test_check_status(const char *file, int line, const char *expr,
                                     intmax_t got, int want)
{
    if (got != want)
        test_fail_status(file, line, expr, got, want);
}
