/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner: one process per test.
 *
 * Why processes: the engine is tested by killing it, and a failed assert must
 * cost one test, not the suite.  The runner adopts whatever a test leaves
 * behind (it is a subreaper), so a test can leave neither processes nor files. */
#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "runner.h"

static struct test *first;
static struct test **last = &first;

struct test_shared *test_shared;
static const char *current_name; /* in the test's process */
static char current_dir[512];
static int report_fd = -1; /* the runner's own standard output */
static int stop_signal;    /* that the runner got */
static sigset_t awaited;   /* blocked in the runner, taken by wait_for_end() */
static bool together;      /* see run_together() */
static jmp_buf after_skip; /* when together */

void test_register(struct test *test)
{
    *last = test;
    last = &test->next;
}

/* ---- what a test calls ---- */

static double patience(void)
{
    const char *text = getenv("HF_TEST_PATIENCE");
    double factor = text ? atof(text) : 1;
    return factor > 0 ? factor : 1;
}

_Noreturn void test_fail(const char *file, int line, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    atomic_store(&test_shared->failed, true);
    fflush(NULL);
    dprintf(STDERR_FILENO, "%s:%d: %s\n", file, line, text);
    /* Not exit(): other threads may still be at work on what it would free. */
    _exit(1);
}

void test_fail_int(const char *file, int line, const char *got_text,
                   const char *want_text, intmax_t got, intmax_t want)
{
    test_fail(file, line, "%s is %jd, not %s (%jd)", got_text, got, want_text, want);
}

void test_check_str(const char *file, int line, const char *got_text,
                    const char *want_text, const char *got, const char *want)
{
    if (!got || !want ? got == want : strcmp(got, want) == 0)
        return;
    test_fail(file, line, "%s is not %s\n   got: %s%s%s\n  want: %s%s%s", got_text,
              want_text, got ? "\"" : "", got ? got : "NULL", got ? "\"" : "",
              want ? "\"" : "", want ? want : "NULL", want ? "\"" : "");
}

void test_check_slice(const char *file, int line, const char *got_text,
                      const char *want_text, struct slice got, const char *want)
{
    struct slice wanted = slice_of(want);
    if (!got.p == !wanted.p && slice_equal(got, wanted))
        return;
    test_fail(file, line, "%s is not %s\n   got: %s%.*s\n  want: %s", got_text, want_text,
              got.p ? "" : "(absent)", (int)(got.n < 800 ? got.n : 800),
              got.p ? got.p : "", want ? want : "(absent)");
}

static const char *code_name(intmax_t code)
{
    if (code == 0)
        return "ok";
    return code < 0 && code > -1000 ? status_of((int)code)->name : "no code";
}

void test_fail_status(const char *file, int line, const char *expr, intmax_t got,
                      int want)
{
    test_fail(file, line, "%s returned %jd (%s), not %d (%s)", expr, got, code_name(got),
              want, code_name(want));
}

_Noreturn void test_skip(const char *why)
{
    snprintf(test_shared->why, sizeof(test_shared->why), "%s", why);
    if (together)
        longjmp(after_skip, 1);
    atomic_store(&test_shared->skipped, true);
    fflush(NULL);
    _exit(0);
}

void test_note(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    dprintf(report_fd, "# note: %s: %s\n", current_name, text);
}

int test_many(int wanted)
{
    const char *text = getenv("HF_TEST_MANY");
    int most = text ? atoi(text) : 0;
    return most > 0 && most < wanted ? most : wanted;
}

int64_t test_monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

bool test_wait(bool (*condition)(void *arg), void *arg, int64_t ms)
{
    int64_t end_us =
        test_monotonic_us() + (int64_t)((double)(ms * US_PER_MS) * patience());
    int64_t pause_us = 200;

    for (;;) {
        /* Asked once more after the time is up: this thread may have slept. */
        bool over = test_monotonic_us() >= end_us;
        if (condition(arg))
            return true;
        if (over)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = pause_us * 1000 }, NULL);
        if (pause_us < 5000)
            pause_us *= 2;
    }
}

struct kept {
    struct kept *next;
    char *text;
};

const char *test_text(const char *format, ...)
{
    char *text;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);

    /* Kept in a list, so that the leak checkers see it is still wanted. */
    static struct kept *kept;
    struct kept *entry = new(struct kept);
    if (!entry)
        abort();
    *entry = (struct kept){ kept, text };
    kept = entry;
    return text;
}

const char *test_dir(void)
{
    return current_dir;
}

const char *test_path(const char *name)
{
    return test_text("%s/%s", current_dir, name);
}

/* ---- running one test ---- */

static int make_removable(const char *path, const struct stat *info, int type,
                          struct FTW *walk)
{
    (void)info, (void)walk;
    if (type == FTW_D || type == FTW_DNR)
        chmod(path, 0700);
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int type,
                        struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    remove(path);
    return 0;
}

static void remove_dir(const char *dir)
{
    nftw(dir, make_removable, 16, FTW_PHYS);
    nftw(dir, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}

static _Noreturn void run_in_child(const struct test *test, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    sigprocmask(SIG_UNBLOCK, &awaited, NULL);
    current_name = test->name;
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    setvbuf(stdout, NULL, _IOLBF, 0);

    test->body();

    atomic_store(&test_shared->returned, true);
    exit(0); /* the leak checkers do their work here */
}

/* A test may have restarted the server of with-postgres, which made it ours.
 * It belongs to the script and stays. */
static pid_t postmaster(void)
{
    const char *data = getenv("HF_TEST_PGDATA");
    char path[600];
    int pid = 0;

    if (!data)
        return 0;
    snprintf(path, sizeof(path), "%s/postmaster.pid", data);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &pid) != 1)
        pid = 0;
    fclose(file);
    return pid;
}

/* Kills and buries what the test left running, its own group and whatever left
 * that group and was adopted by us. */
static void reap_leftovers(pid_t group)
{
    kill(-group, SIGKILL);
    for (int round = 0; round < 1000; round++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        FILE *file = fopen(path, "re");
        if (!file)
            return;
        pid_t spared = postmaster();
        bool some = false;
        int pid;
        while (fscanf(file, "%d", &pid) == 1) {
            if (pid == spared)
                continue;
            some = true;
            kill(pid, SIGKILL);
        }
        fclose(file);
        if (!some)
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* Waits until the test ends or its time is up.  Returns false for the latter. */
static bool wait_for_end(pid_t pid, int seconds, int *ret_status)
{
    int64_t end_us = test_monotonic_us() + seconds * US_PER_S;

    while (waitpid(pid, ret_status, WNOHANG) != pid) {
        int64_t left_us = end_us - test_monotonic_us();
        if (left_us <= 0 || stop_signal) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            waitpid(pid, ret_status, 0);
            return false;
        }
        struct timespec left = { left_us / US_PER_S, left_us % US_PER_S * 1000 };
        int got = sigtimedwait(&awaited, NULL, &left);
        if (got > 0 && got != SIGCHLD)
            stop_signal = got;
    }
    return true;
}

/* One sentence on how the test ended, or NULL if it passed. */
static const char *verdict(bool ended, int status, int seconds, char *text, size_t size)
{
    if (stop_signal)
        snprintf(text, size, "stopped by signal %d", stop_signal);
    else if (!ended)
        snprintf(text, size, "hung: not at its end after %d s", seconds);
    else if (WIFSIGNALED(status))
        snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (atomic_load(&test_shared->failed))
        snprintf(text, size, "failed");
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, size, "exited with %d", WEXITSTATUS(status));
    else if (!atomic_load(&test_shared->returned) && !atomic_load(&test_shared->skipped))
        snprintf(text, size, "ended before its last line");
    else
        return NULL;
    return text;
}

static void show_output(int fd)
{
    char line[4096];
    lseek(fd, 0, SEEK_SET);
    FILE *file = fdopen(fd, "r");
    while (file && fgets(line, sizeof(line), file))
        printf("#   %s%s", line, strchr(line, '\n') ? "" : "\n");
    if (file)
        fclose(file);
}

static bool run_test(const struct test *test, int number)
{
    const char *base = getenv("TMPDIR");
    snprintf(current_dir, sizeof(current_dir), "%s/hf-test.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(current_dir)) {
        printf("not ok %d - %s\n# no temporary folder: %m\n", number, test->name);
        return false;
    }
    int output = memfd_create("output", MFD_CLOEXEC);
    atomic_store(&test_shared->returned, false);
    atomic_store(&test_shared->failed, false);
    atomic_store(&test_shared->skipped, false);

    int64_t start_us = test_monotonic_us();
    fflush(NULL);
    pid_t pid = output < 0 ? -1 : fork();
    if (pid == 0)
        run_in_child(test, output);

    int status = 1 << 8;
    int seconds = (int)(test->seconds * patience());
    bool ended = true;
    if (pid > 0) {
        setpgid(pid, pid);
        ended = wait_for_end(pid, seconds, &status);
        reap_leftovers(pid);
    }
    remove_dir(current_dir);

    char text[200];
    const char *why = verdict(ended, status, seconds, text, sizeof(text));
    bool skipped = !why && atomic_load(&test_shared->skipped);
    printf("%s %d - %s%s%s\n", why ? "not ok" : "ok", number, test->name,
           skipped ? " # SKIP " : "", skipped ? test_shared->why : "");
    int64_t took_ms = (test_monotonic_us() - start_us) / 1000;
    if (took_ms >= 1000)
        printf("# took %.1f s: %s\n", (double)took_ms / 1000, test->name);
    if (why) {
        printf("# %s\n", why);
        show_output(output);
    } else if (output >= 0) {
        close(output);
    }
    fflush(stdout);
    return !why;
}

/* ---- the program ---- */

static bool selected(const struct test *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(test->name, argv[i]))
            return true;
    return argc < 2;
}

/* All tests in one process, one after the other.  Leaks are looked for when a
 * process ends, which takes LeakSanitizer seconds on some machines; this way it is
 * paid once.  A test file that changes its process for good is marked `apart`. */
static void run_together(void)
{
    char base[sizeof(current_dir)];
    memcpy(base, current_dir, sizeof(base));
    together = true;
    for (struct test *volatile test = first; test; test = test->next) {
        current_name = test->name;
        int n = snprintf(current_dir, sizeof(current_dir), "%s/%s", base, test->name);
        if (n >= (int)sizeof(current_dir) || mkdir(current_dir, 0700) != 0)
            fail("no folder for %s", test->name);
        if (setjmp(after_skip) == 0)
            test->body();
    }
    together = false;
}

static void prepare(void)
{
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGHUP);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    test_shared = mmap(NULL, sizeof(*test_shared), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    report_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    if (test_shared == MAP_FAILED || report_fd < 0) {
        perror("test");
        exit(1);
    }
    if (!freopen("/dev/null", "r", stdin))
        perror("/dev/null");
}

static _Noreturn void finish(bool failed)
{
    test_db_drop_all();
    fflush(NULL);
    /* Not exit(): leaks of the runner itself are nobody's business. */
    _exit(stop_signal ? 128 + stop_signal : failed);
}

int main(int argc, char **argv)
{
    int count = 0, failed = 0, number = 0;

    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (struct test *test = first; test; test = test->next)
            puts(test->name);
        return 0;
    }
    prepare();
    if (getenv("HF_TEST_TOGETHER")) {
        const struct test all = { "all_tests_in_one_process", 600, run_together, NULL };
        puts("1..1");
        finish(!run_test(&all, 1));
    }
    for (struct test *test = first; test; test = test->next)
        count += selected(test, argc, argv);
    printf("1..%d\n", count);
    for (struct test *test = first; test && !stop_signal; test = test->next)
        if (selected(test, argc, argv))
            failed += !run_test(test, ++number);
    finish(failed || count == 0);
}
