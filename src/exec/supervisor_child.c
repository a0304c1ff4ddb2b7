/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor_child.c -- becomes the command, or says which step did not work. */
#include "supervisor_child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSWD_BYTES = 16 << 10 };

enum step { STEP_LIMIT, STEP_USER, STEP_DIRECTORY, STEP_EXEC };

/* What goes through the fault pipe. */
struct fault {
    enum step step;
    int which; /* limit */
    int number;
};

struct user {
    bool set;
    uid_t uid;
    gid_t gid;
    const char *name, *home;
};

static int look_up(const char *name, struct arena *arena, struct error *error,
                   struct user *ret)
{
    *ret = (struct user){ 0 };
    if (!name)
        return 0;
    struct passwd space, *entry = NULL;
    char *text = arena_alloc(arena, PASSWD_BYTES);
    if (!text)
        return -HF_NOMEM;
    int number = getpwnam_r(name, &space, text, PASSWD_BYTES, &entry);
    if (!entry && number != 0 && number != ENOENT)
        return error_set(error, -HF_SYSTEM, "user", "cannot look up the user %s: %s",
                         name, strerrordesc_np(number));
    if (!entry)
        return error_set(error, -HF_NOT_FOUND, "user",
                         "there is no user %s on this machine", name);
    *ret = (struct user){ true, entry->pw_uid, entry->pw_gid, name, entry->pw_dir };
    return 0;
}

/* ---- in the child ---- */

static _Noreturn void give_up(int fault, enum step step, int which)
{
    struct fault what = { step, which, errno };
    ssize_t n = write(fault, &what, sizeof(what));

    _exit(n == sizeof(what) ? 127 : 126);
}

static void set_limits(const struct command_order *order, int fault)
{
    const struct command_setup *setup = order->setup;
    struct rlimit files;

    /* Lowering the soft one cannot fail; the hard one stays, for who wants more. */
    if (order->open_files > 0 && getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur > (rlim_t)order->open_files) {
        files.rlim_cur = (rlim_t)order->open_files;
        (void)!setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int i = 0; i < COMMAND_LIMITS; i++) {
        rlim_t value = (rlim_t)setup->limits[i];
        struct rlimit limit = { value, value };
        if (setup->limits[i] >= 0 &&
            setrlimit((__rlimit_resource_t)command_limits[i].resource, &limit) < 0)
            give_up(fault, STEP_LIMIT, i);
    }
}

/* Signals as a program expects to find them. */
static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

struct ends {
    int gate[2], fault[2], out[2], err[2];
};

static _Noreturn void become(const struct command_order *order, const struct user *user,
                             char **environment, struct ends *ends, pid_t supervisor)
{
    const struct command_setup *setup = order->setup;
    char go = 0;

    setpgid(0, 0);
    close(ends->gate[1]);
    while (read(ends->gate[0], &go, 1) < 0)
        if (errno != EINTR)
            _exit(126);
    if (go != 'g')
        _exit(126);
    dup2(ends->out[1], STDOUT_FILENO);
    dup2(ends->err[1], STDERR_FILENO);
    if (setup->umask >= 0)
        umask((mode_t)setup->umask);
    set_limits(order, ends->fault[1]);
    if (user->set && (initgroups(user->name, user->gid) < 0 || setgid(user->gid) < 0 ||
                      setuid(user->uid) < 0))
        give_up(ends->fault[1], STEP_USER, 0);
    if (setup->directory && chdir(setup->directory) < 0)
        give_up(ends->fault[1], STEP_DIRECTORY, 0);
    /* Behind setuid(), which takes it back.  A supervisor that died before this
     * is seen by its child having got another parent. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(126);
    reset_signals();
    environ = environment;
    execvp(setup->argv[0], (char *const *)setup->argv);
    give_up(ends->fault[1], STEP_EXEC, 0);
}

/* ---- in the supervisor ---- */

static void close_ends(struct ends *ends)
{
    int *fds = (int *)ends;

    for (size_t i = 0; i < sizeof(*ends) / sizeof(int); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool make_pipes(struct ends *ends)
{
    return pipe2(ends->gate, O_CLOEXEC) == 0 && pipe2(ends->fault, O_CLOEXEC) == 0 &&
           pipe2(ends->out, O_CLOEXEC) == 0 && pipe2(ends->err, O_CLOEXEC) == 0;
}

int child_fork(const struct command_order *order, struct arena *arena,
               struct error *error, struct child *ret)
{
    struct ends ends = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    struct user user;
    int r = look_up(order->setup->user, arena, error, &user);
    if (r < 0)
        return r;
    char **environment = command_environment(order, environ, user.name, user.home, arena);
    if (!environment)
        return -HF_NOMEM;
    pid_t self = getpid();
    pid_t pid = make_pipes(&ends) ? fork() : -1;
    if (pid == 0)
        become(order, &user, environment, &ends, self);
    if (pid < 0) {
        r = error_set(error, -HF_SYSTEM, NULL, "no process could be made: %m");
        close_ends(&ends);
        return r;
    }
    setpgid(pid, pid); /* whoever is first */
    close(ends.gate[0]);
    close(ends.fault[1]);
    close(ends.out[1]);
    close(ends.err[1]);
    fcntl(ends.out[0], F_SETFL, O_NONBLOCK);
    fcntl(ends.err[0], F_SETFL, O_NONBLOCK);
    *ret = (struct child){ pid, ends.gate[1], ends.fault[0], ends.out[0], ends.err[0] };
    return 0;
}

void child_release(struct child *child)
{
    /* If it cannot be written, the child is gone, which will be seen. */
    ssize_t n = write(child->gate, "g", 1);

    (void)n;
    close(child->gate);
    child->gate = -1;
}

bool child_fault(const struct child *child, const struct command_order *order,
                 struct error *error)
{
    const struct command_setup *setup = order->setup;
    struct fault fault;

    fcntl(child->fault, F_SETFL, O_NONBLOCK);
    if (read(child->fault, &fault, sizeof(fault)) != sizeof(fault))
        return false;
    const char *why = strerrordesc_np(fault.number);
    switch (fault.step) {
    case STEP_LIMIT:
        error_set(error, -HF_SYSTEM, "limit", "the limit %s cannot be set: %s",
                  command_limits[fault.which].name, why);
        break;
    case STEP_USER:
        error_set(error, -HF_SYSTEM, "user", "cannot become the user %s: %s%s",
                  setup->user, why, fault.number == EPERM ? "; only root can" : "");
        break;
    case STEP_DIRECTORY:
        error_set(error, -HF_SYSTEM, "directory", "cannot work in the directory %s: %s",
                  setup->directory, why);
        break;
    case STEP_EXEC:
        error_set(error, -HF_SYSTEM, "argv", "cannot run %s: %s", setup->argv[0], why);
        break;
    }
    return true;
}
