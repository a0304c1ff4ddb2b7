/* SPDX-License-Identifier: Apache-2.0
 *
 * Alive or dead: the proof that recovery rests on, tried on real processes. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "test.h"

static struct host identify(void)
{
    struct error error = { 0 };
    struct host host;

    check_ok(host_identify(&host, &error));
    return host;
}

/* A child that runs `body`, says who it is, and ends when it is killed or told
 * to: `*ret_pipe` closed. */
static struct host start_child(int *ret_pipe)
{
    int up[2], down[2];
    struct host child;

    check_int(pipe(up), 0);
    check_int(pipe(down), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        char byte;
        close(up[0]);
        close(down[1]);
        child = identify();
        if (write(up[1], &child, sizeof(child)) != sizeof(child))
            _exit(1);
        _exit(read(down[0], &byte, 1) < 0);
    }
    close(up[1]);
    close(down[0]);
    check_int(read(up[0], &child, sizeof(child)), sizeof(child));
    check_int(child.pid, pid);
    close(up[0]);
    *ret_pipe = down[1];
    return child;
}

TEST(a_process_knows_who_it_is)
{
    struct host host = identify(), again = identify();

    check_int(host.pid, getpid());
    check(host.start_ticks > 0);
    check(host.pid_ns > 0);
    check_int(strlen(host.boot_id), 36);
    check(host.name[0] != '\0');
    check(memcmp(&host, &again, sizeof(host)) == 0);
    check(host_process_alive(host.pid, host.start_ticks));
}

TEST(parent_and_child_share_a_place_but_not_an_identity)
{
    int pipe_end;
    struct host self = identify(), child = start_child(&pipe_end);

    check(host_same_place(&self, &child));
    check(child.pid != self.pid);
    check(child.start_ticks >= self.start_ticks);
    close(pipe_end);
    check_int(waitpid((pid_t)child.pid, NULL, 0), child.pid);
}

TEST(a_live_child_is_alive_and_a_killed_one_is_dead)
{
    int pipe_end;
    struct host child = start_child(&pipe_end);

    check(host_process_alive(child.pid, child.start_ticks));
    check_int(kill((pid_t)child.pid, SIGKILL), 0);
    check_int(waitpid((pid_t)child.pid, NULL, 0), child.pid);
    check(!host_process_alive(child.pid, child.start_ticks));
    close(pipe_end);
}

TEST(a_stopped_process_is_alive)
{
    int pipe_end;
    struct host child = start_child(&pipe_end);

    check_int(kill((pid_t)child.pid, SIGSTOP), 0);
    check_int(waitpid((pid_t)child.pid, NULL, WUNTRACED), child.pid);
    check(host_process_alive(child.pid, child.start_ticks));
    check_int(kill((pid_t)child.pid, SIGKILL), 0);
    check_int(waitpid((pid_t)child.pid, NULL, 0), child.pid);
    close(pipe_end);
}

TEST(a_zombie_is_dead)
{
    int pipe_end;
    struct host child = start_child(&pipe_end);
    siginfo_t info;

    check_int(kill((pid_t)child.pid, SIGKILL), 0);
    check_int(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
    check_int(kill((pid_t)child.pid, 0), 0); /* its pid is still taken */
    check(!host_process_alive(child.pid, child.start_ticks));
    check_int(waitpid((pid_t)child.pid, NULL, 0), child.pid);
    close(pipe_end);
}

static void *wait_for_end(void *arg)
{
    char byte;

    _exit(read(*(int *)arg, &byte, 1) < 0);
}

static bool leader_has_ended(void *arg)
{
    char path[64], line[512] = "";
    struct host_stat stat;

    snprintf(path, sizeof(path), "/proc/%d/stat", *(pid_t *)arg);
    FILE *file = fopen(path, "re");
    check(file != NULL);
    size_t n = fread(line, 1, sizeof(line), file);
    fclose(file);
    check_ok(host_parse_stat((struct slice){ line, n }, &stat));
    return stat.state == 'Z';
}

TEST(a_process_whose_first_thread_ended_is_alive_while_others_run)
{
    int down[2];
    struct host child = { 0 };
    int up[2];

    check_int(pipe(down), 0);
    check_int(pipe(up), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        pthread_t thread;
        close(down[1]);
        child = identify();
        if (pthread_create(&thread, NULL, wait_for_end, &down[0]) != 0 ||
            write(up[1], &child, sizeof(child)) != sizeof(child))
            _exit(1);
        pthread_exit(NULL);
    }
    close(down[0]);
    check_int(read(up[0], &child, sizeof(child)), sizeof(child));
    check(test_wait(leader_has_ended, &pid, 10000));
    check(host_process_alive(child.pid, child.start_ticks));
    close(down[1]);
    check_int(waitpid(pid, NULL, 0), pid);
    check(!host_process_alive(child.pid, child.start_ticks));
}

TEST(a_pid_that_came_back_is_another_process)
{
    struct host self = identify();

    check(!host_process_alive(self.pid, self.start_ticks - 1));
    check(!host_process_alive(self.pid, self.start_ticks + 1));
}

TEST(a_pid_that_cannot_be_is_dead)
{
    check(!host_process_alive(0, 1));
    check(!host_process_alive(-1, 1));
    check(!host_process_alive(-getpid(), 1));
    check(!host_process_alive(INT64_MAX, 1));
    check(!host_process_alive(INT32_MAX, 1));
    check(!host_process_alive((INT64_C(1) << 32) + getpid(), identify().start_ticks));
}

TEST(another_boot_or_another_namespace_is_another_place)
{
    struct host a = identify(), b = a;

    check(host_same_place(&a, &b));
    b.pid_ns++;
    check(!host_same_place(&a, &b));
    b = a;
    b.boot_id[0] = b.boot_id[0] == '0' ? '1' : '0';
    check(!host_same_place(&a, &b));
    a.boot_id[0] = b.boot_id[0] = '\0'; /* unknown is not equal */
    check(!host_same_place(&a, &b));
}

TEST(a_proc_of_another_namespace_proves_nothing)
{
    int up[2], status = 0;
    int64_t answers[3] = { 0 };

    check_int(pipe(up), 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        /* From here on children are in a new namespace, under our old /proc. */
        if (unshare(CLONE_NEWPID) < 0)
            _exit(77);
        pid_t inner = fork();
        if (inner == 0) {
            struct error error = { 0 };
            struct host host;
            answers[0] = host_identify(&host, &error);
            answers[1] = strstr(error.text, "another pid namespace") != NULL;
            answers[2] = host_process_alive(getpid(), 1); /* it is: ourselves */
            _exit(write(up[1], answers, sizeof(answers)) != sizeof(answers));
        }
        waitpid(inner, &status, 0);
        _exit(status != 0);
    }
    check_int(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        test_skip("may not make a pid namespace");
    check_int(status, 0);
    check_int(read(up[0], answers, sizeof(answers)), sizeof(answers));
    check_int(answers[0], -HF_SYSTEM);
    check(answers[1] && answers[2]);
}

#define STAT_TAIL " 1 2 3 4 -5 6 7 8 9 10 11 12 13 14 15 16 9 0 555 20 21 22"

TEST(a_process_may_have_any_name)
{
    static const char *const lines[] = {
        "42 (name) S" STAT_TAIL,        "42 (two words) S" STAT_TAIL,
        "42 (a) R (b) S" STAT_TAIL,     "42 ()) S" STAT_TAIL,
        "42 (line\nbreak) S" STAT_TAIL, "42 () S" STAT_TAIL,
    };
    struct host_stat stat;

    for (size_t i = 0; i < array_len(lines); i++) {
        check_ok(host_parse_stat(slice_of(lines[i]), &stat));
        check_int(stat.pid, 42);
        check_int(stat.state, 'S');
        check_int(stat.group, 2);
        check_int(stat.session, 3);
        check_int(stat.threads, 9);
        check_int(stat.start_ticks, 555);
    }
}

TEST(what_is_no_stat_line_is_refused_however_it_is_cut)
{
    const char line[] = "42 (name) S 1 2 3 4 -5 6 7 8 9 10 11 12 13 14 15 16 9 0 ";
    struct host_stat stat = { .pid = 7 };

    for (size_t n = 0; n < sizeof(line); n++)
        check_err(host_parse_stat((struct slice){ line, n }, &stat), -HF_INVALID);
    check_err(host_parse_stat(SLICE("(name) S" STAT_TAIL), &stat), -HF_INVALID);
    check_err(host_parse_stat(SLICE("42 name S" STAT_TAIL), &stat), -HF_INVALID);
    check_err(host_parse_stat(SLICE("42 (name S" STAT_TAIL), &stat), -HF_INVALID);
    check_err(host_parse_stat(SLICE("42 (n) S 99999999999999999999" STAT_TAIL), &stat),
              -HF_INVALID);
    check_int(stat.pid, 7);
}

TEST(a_process_with_a_wild_name_is_found)
{
    int pipe_end;

    check_int(prctl(PR_SET_NAME, "a) Z 1 ("), 0); /* inherited by the child */
    struct host child = start_child(&pipe_end);
    check(host_process_alive(child.pid, child.start_ticks));
    close(pipe_end);
    check_int(waitpid((pid_t)child.pid, NULL, 0), child.pid);
}

TEST(the_line_of_a_process_can_be_read_while_there_is_one)
{
    int pipe_end;
    struct host_stat stat;

    struct host child = start_child(&pipe_end);
    check_ok(host_read_stat(child.pid, &stat));
    check_int(stat.pid, child.pid);
    check_int(stat.start_ticks, child.start_ticks);
    check_int(stat.group, getpgrp());
    check_int(stat.session, getsid(0));
    close(pipe_end);
    check_int(waitpid((pid_t)child.pid, NULL, 0), child.pid);
    check_err(host_read_stat(child.pid, &stat), -HF_NOT_FOUND);
    check_err(host_read_stat(0, &stat), -HF_NOT_FOUND);
}
