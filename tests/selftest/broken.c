/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that go wrong in every way the harness must notice.  tests/selftest/run
 * runs them and reads what is said about each. */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(passes)
{
    check(true);
    check_int(2, 2);
    check_str("a", "a");
    check_str(NULL, NULL);
    check_slice(SLICE("a"), "a");
    check_ok(0);
    check_err(-HF_BUSY, -HF_BUSY);
    test_note("a figure: %d", 7);
}

TEST(fails_a_check)
{
    puts("said before");
    check(1 > 2);
}

TEST(fails_a_number)
{
    check_int(2, 3);
}

TEST(fails_a_string)
{
    check_str("a", NULL);
}

TEST(fails_a_slice)
{
    check_slice(((struct slice){ NULL, 0 }), "");
}

TEST(fails_a_status)
{
    check_ok(-HF_BUSY);
}

TEST(fails_in_a_child)
{
    int status;
    if (fork() == 0)
        check(false);
    check(wait(&status) > 0);
}

TEST(crashes)
{
    raise(SIGSEGV);
}

TEST(asserts)
{
    assert(1 > 2);
}

TEST(ends_early)
{
    exit(0);
}

TEST(skips)
{
    test_skip("no reason");
}

TEST_SLOW(hangs, 1)
{
    for (;;)
        pause();
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

TEST(waits_in_vain)
{
    check(test_wait(never, NULL, 20));
}

/* What these leave behind must be gone when the program has ended. */
TEST(leaves_a_daemon_and_files)
{
    check(mkdir(test_path("locked"), 0700) == 0);
    check(chmod(test_path("locked"), 0) == 0);
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            execlp("sleep", "sleep", getenv("SELFTEST_NAP"), NULL);
        _exit(0);
    }
}

TEST(each_database_is_another)
{
    const char *first = test_db_url();
    check(strcmp(first, test_db_url()) != 0);
}
