/* SPDX-License-Identifier: Apache-2.0
 *
 * One scheduler per store, tried with real processes and real deaths. */
/* test: wrap=flock */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lockfile.h"
#include "test.h"

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

static int flock_errno;            /* makes flock fail, if not 0 */
static const char *removed_before; /* a file that vanishes just before flock */

int __wrap_flock(int fd, int operation)
{
    if (flock_errno) {
        errno = flock_errno;
        return -1;
    }
    if (removed_before)
        unlink(removed_before);
    removed_before = NULL;
    return __real_flock(fd, operation);
}

static void free_lock(struct lockfile **lock)
{
    lockfile_free(*lock);
}

static struct host identify(void)
{
    struct host host;

    check_ok(host_identify(&host, NULL));
    return host;
}

static int take(const char *database, struct error *error, struct lockfile **ret)
{
    struct host self = identify();

    return lockfile_take(database, &self, error, ret);
}

/* A child that takes the lock and keeps it until it is killed. */
static pid_t start_holder(const char *database)
{
    int up[2];
    char byte = 0;

    check_int(pipe(up), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        struct lockfile *lock;
        check_ok(take(database, NULL, &lock));
        if (write(up[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(up[1]);
    check_int(read(up[0], &byte, 1), 1);
    close(up[0]);
    return pid;
}

static void stop_holder(pid_t pid)
{
    check_int(kill(pid, SIGKILL), 0);
    check_int(waitpid(pid, NULL, 0), pid);
}

static void touch(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    check(fd >= 0);
    close(fd);
}

TEST(a_second_scheduler_is_told_who_the_first_one_is)
{
    const char *database = test_path("jobs.db");
    pid_t holder = start_holder(database);
    struct error error = { 0 };
    struct lockfile *lock = NULL;
    char expected[128];

    check_err(take(database, &error, &lock), -HF_LOCKED);
    check(lock == NULL);
    snprintf(expected, sizeof(expected), "process %d on %s", (int)holder,
             identify().name);
    check_int(error.code, -HF_LOCKED);
    check(strstr(error.text, expected) != NULL);
    check(strstr(error.text, database) != NULL);
    stop_holder(holder);
}

TEST(a_killed_holder_holds_nothing)
{
    const char *database = test_path("jobs.db");
    cleanup(free_lock) struct lockfile *lock = NULL;
    struct error error = { 0 };

    for (int round = 0; round < 5; round++)
        stop_holder(start_holder(database));
    check_ok(take(database, &error, &lock));
    check_int(error.code, 0);
}

TEST(a_stopped_holder_still_holds)
{
    const char *database = test_path("jobs.db");
    pid_t holder = start_holder(database);
    struct lockfile *lock = NULL;

    check_int(kill(holder, SIGSTOP), 0);
    check_int(waitpid(holder, NULL, WUNTRACED), holder);
    check_err(take(database, NULL, &lock), -HF_LOCKED);
    stop_holder(holder);
}

TEST(one_process_cannot_hold_it_twice)
{
    cleanup(free_lock) struct lockfile *first = NULL;
    struct lockfile *second = NULL;

    check_ok(take(test_path("jobs.db"), NULL, &first));
    check_err(take(test_path("jobs.db"), NULL, &second), -HF_LOCKED);
    /* And looking at it did not give it away, as a POSIX lock would. */
    check_err(take(test_path("jobs.db"), NULL, &second), -HF_LOCKED);
}

TEST(what_is_given_back_can_be_taken_and_the_file_stays)
{
    struct lockfile *lock = NULL;

    for (int round = 0; round < 3; round++) {
        check_ok(take(test_path("jobs.db"), NULL, &lock));
        check(lockfile_intact(lock));
        lockfile_free(lock);
        check_int(access(test_path("jobs.db-lock"), F_OK), 0);
    }
    lockfile_free(NULL);
}

static bool can_be_taken(void *arg)
{
    return take(test_path("jobs.db"), NULL, arg) == 0;
}

TEST(a_program_that_the_holder_starts_does_not_inherit_the_lock)
{
    struct lockfile *lock = NULL;
    int down[2];

    check_ok(take(test_path("jobs.db"), NULL, &lock));
    check_int(pipe(down), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        dup2(down[0], 0);
        close(down[1]);
        execl("/bin/cat", "cat", (char *)NULL);
        _exit(1);
    }
    /* The child shares the lock until its exec, and lives on after it. */
    lockfile_free(lock);
    check(test_wait(can_be_taken, &lock, 10000));
    check_int(waitpid(pid, NULL, WNOHANG), 0);
    close(down[1]);
    check_int(waitpid(pid, NULL, 0), pid);
    lockfile_free(lock);
}

TEST(two_paths_to_one_database_are_one_lock)
{
    cleanup(free_lock) struct lockfile *lock = NULL;
    struct lockfile *other = NULL;

    check_int(mkdir(test_path("real"), 0755), 0);
    touch(test_path("real/jobs.db"));
    check_int(symlink("real", test_path("link")), 0);
    check_int(symlink("real/jobs.db", test_path("alias.db")), 0);
    check_ok(take(test_path("real/jobs.db"), NULL, &lock));
    check_err(take(test_path("link/jobs.db"), NULL, &other), -HF_LOCKED);
    check_err(take(test_path("alias.db"), NULL, &other), -HF_LOCKED);
    check_err(take(test_path("real/../real/./jobs.db"), NULL, &other), -HF_LOCKED);
    check_int(chdir(test_path("real")), 0);
    check_err(take("jobs.db", NULL, &other), -HF_LOCKED);
}

TEST(a_database_that_does_not_exist_yet_has_the_lock_it_will_have)
{
    cleanup(free_lock) struct lockfile *lock = NULL;
    struct lockfile *other = NULL;

    check_int(mkdir(test_path("real"), 0755), 0);
    check_int(symlink("real", test_path("link")), 0);
    check_ok(take(test_path("link/new.db"), NULL, &lock));
    touch(test_path("real/new.db"));
    check_err(take(test_path("real/new.db"), NULL, &other), -HF_LOCKED);
    check(strstr(lockfile_path(lock), "/real/new.db-lock") != NULL);
}

TEST(a_link_to_nothing_is_refused)
{
    struct error error = { 0 };
    struct lockfile *lock = NULL;

    check_int(symlink("nowhere.db", test_path("alias.db")), 0);
    check_err(take(test_path("alias.db"), &error, &lock), -HF_INVALID);
    check(strstr(error.text, "link to nothing") != NULL);
}

TEST(a_missing_folder_is_named)
{
    struct error error = { 0 };
    struct lockfile *lock = NULL;

    check_err(take(test_path("no/such/jobs.db"), &error, &lock), -HF_SYSTEM);
    check(strstr(error.text, "no/such/jobs.db") != NULL);
    check(strstr(error.text, "No such file") != NULL);
}

TEST(a_lock_file_that_is_a_link_is_not_followed)
{
    struct lockfile *lock = NULL;

    touch(test_path("precious"));
    check_int(symlink("precious", test_path("jobs.db-lock")), 0);
    check_err(take(test_path("jobs.db"), NULL, &lock), -HF_INVALID);
    check(lock == NULL);
}

TEST(a_file_that_is_replaced_while_it_is_taken_is_taken_anew)
{
    cleanup(free_lock) struct lockfile *lock = NULL;
    struct lockfile *other = NULL;

    touch(test_path("jobs.db-lock"));
    removed_before = test_path("jobs.db-lock");
    check_ok(take(test_path("jobs.db"), NULL, &lock));
    check(removed_before == NULL);
    check(lockfile_intact(lock));
    check_err(take(test_path("jobs.db"), NULL, &other), -HF_LOCKED);
}

TEST(each_reason_why_a_lock_cannot_be_taken_has_its_code)
{
    static const struct {
        int number, code;
    } cases[] = {
        { EROFS, -HF_READONLY }, { EACCES, -HF_READONLY }, { EPERM, -HF_READONLY },
        { ENOSPC, -HF_FULL },    { EDQUOT, -HF_FULL },     { ENOMEM, -HF_NOMEM },
        { ENOLCK, -HF_SYSTEM },
    };

    for (size_t i = 0; i < array_len(cases); i++) {
        struct lockfile *lock = NULL;
        struct error error = { 0 };
        flock_errno = cases[i].number;
        check_err(take(test_path("jobs.db"), &error, &lock), cases[i].code);
        check(strstr(error.text, "jobs.db-lock") != NULL);
    }
    flock_errno = 0;
}

TEST(a_holder_can_tell_that_its_file_was_removed_or_replaced)
{
    cleanup(free_lock) struct lockfile *lock = NULL;

    check_ok(take(test_path("jobs.db"), NULL, &lock));
    check_int(unlink(test_path("jobs.db-lock")), 0);
    check(!lockfile_intact(lock));
    touch(test_path("jobs.db-lock"));
    check(!lockfile_intact(lock));
}

TEST(what_stands_in_the_file_proves_nothing)
{
    cleanup(free_lock) struct lockfile *lock = NULL;
    struct lockfile *other = NULL;
    struct error error = { 0 };
    FILE *file = fopen(test_path("jobs.db-lock"), "we");

    check(file != NULL);
    for (int i = 0; i < 10000; i++)
        fputs("process 1 on a host of old\xFF\n", file);
    fclose(file);
    check_ok(take(test_path("jobs.db"), NULL, &lock));

    /* Our own signature took the place of the old one. */
    struct stat st;
    check_int(stat(lockfile_path(lock), &st), 0);
    check(st.st_size < 128);
    check_err(take(test_path("jobs.db"), &error, &other), -HF_LOCKED);
    check(strstr(error.text, "of old") == NULL);

    /* And a holder that has signed nothing still holds. */
    check_int(truncate(lockfile_path(lock), 0), 0);
    error = (struct error){ 0 };
    check_err(take(test_path("jobs.db"), &error, &other), -HF_LOCKED);
    check(strstr(error.text, "not signed") != NULL);
}
