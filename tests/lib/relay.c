/* SPDX-License-Identifier: Apache-2.0 */
#include "relay.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK_BYTES = 65536, WORD_BYTES_MAX = 32 };

void *test_shared_memory(size_t bytes)
{
    void *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED);
    return p;
}

/* One connection.  The end of what the client sent last is kept in front of `bytes`:
 * a word may come in two pieces. */
struct line {
    struct relay *relay;
    int client, server;
    bool deaf; /* the client hears no more; the line is cut with the answer */
    size_t kept;
    char bytes[WORD_BYTES_MAX + CHUNK_BYTES];
};

static bool pass_on(int to, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(to, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool is_time(struct relay *relay)
{
    if (atomic_load(&relay->resting))
        return false;
    size_t n = atomic_fetch_add(&relay->passed, 1) + 1;
    if (relay->nth == 0 || n < relay->nth)
        return false;
    return relay->every ? (n - relay->nth) % relay->every == 0 : n == relay->nth;
}

/* The line is cut; what else is to happen, happens first. */
static bool cut(struct relay *relay)
{
    atomic_fetch_add(&relay->cuts, 1);
    if (relay->meanwhile)
        relay->meanwhile(relay->arg);
    return false;
}

/* What came from the client goes on to the server.  False: no more. */
static bool carry_there(struct line *line)
{
    struct relay *relay = line->relay;
    struct slice word = relay->word;
    char *fresh = line->bytes + line->kept;
    ssize_t got = recv(line->client, fresh, CHUNK_BYTES, 0);
    if (got <= 0)
        return false;
    char *end = fresh + got, *at = line->bytes;
    while ((at = memmem(at, (size_t)(end - at), word.p, word.n)) != NULL) {
        if (is_time(relay)) {
            line->deaf = relay->cut == RELAY_NOT_TOLD;
            size_t n = (size_t)(relay->cut != RELAY_NOT_SENT ? end - fresh
                                : at > fresh                 ? at - fresh
                                                             : 0);
            bool there = pass_on(line->server, fresh, n);
            return line->deaf ? there : cut(relay);
        }
        at += word.n;
    }
    size_t n = (size_t)(end - line->bytes);
    if (!pass_on(line->server, fresh, (size_t)got))
        return false;
    line->kept = n < word.n - 1 ? n : word.n - 1;
    memmove(line->bytes, end - line->kept, line->kept);
    return true;
}

static bool carry_back(struct line *line)
{
    static const char READY[] = { 'Z', 0, 0, 0, 5 }; /* the server is done */
    static _Thread_local char bytes[CHUNK_BYTES];
    ssize_t n = recv(line->server, bytes, sizeof(bytes), 0);
    if (n <= 0)
        return false;
    if (!line->deaf)
        return pass_on(line->client, bytes, (size_t)n);
    return memmem(bytes, (size_t)n, READY, sizeof(READY)) ? cut(line->relay) : true;
}

static void *carry(void *arg)
{
    struct line *line = arg;
    struct pollfd fds[] = { { line->client, POLLIN, 0 }, { line->server, POLLIN, 0 } };
    bool whole = true;
    while (whole && poll(fds, 2, -1) >= 0) {
        if (fds[1].revents)
            whole = carry_back(line);
        if (whole && fds[0].revents)
            whole = carry_there(line);
    }
    close(line->client);
    close(line->server);
    free(line);
    return NULL;
}

static int unix_socket(const char *dir, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int n =
        snprintf(address->sun_path, sizeof(address->sun_path), "%s/.s.PGSQL.5432", dir);
    check(n > 0 && (size_t)n < sizeof(address->sun_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0);
    return fd;
}

_Noreturn static void serve(struct relay *relay, const char *server_dir)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        struct sockaddr_un address;
        pthread_t thread;
        struct line *line = calloc(1, sizeof(*line));
        check(line);
        line->relay = relay;
        line->client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
        line->server = unix_socket(server_dir, &address);
        check(line->client >= 0);
        if (connect(line->server, (struct sockaddr *)&address, sizeof(address)) != 0) {
            close(line->client); /* the server is away: so are we */
            close(line->server);
            free(line);
            continue;
        }
        check_int(pthread_create(&thread, NULL, carry, line), 0);
        pthread_detach(thread);
    }
}

struct relay *relay_start(const char *url, struct slice word)
{
    static int number;
    char name[32], dir[200];
    struct sockaddr_un address;
    const char *host = strstr(url, "host=");
    struct relay *relay = test_shared_memory(sizeof(*relay));

    check(host && word.n > 0 && word.n < WORD_BYTES_MAX);
    *relay = (struct relay){ .word = word };
    snprintf(name, sizeof(name), "r%d", number++);
    snprintf(dir, sizeof(dir), "%s", test_path(name));
    check_int(mkdir(dir, 0700), 0);
    relay->listener = unix_socket(dir, &address);
    check_int(bind(relay->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    check_int(listen(relay->listener, 8), 0);
    snprintf(relay->url, sizeof(relay->url), "%.*shost=%s", (int)(host - url), url, dir);
    pid_t process = fork();
    check(process >= 0);
    if (process == 0)
        serve(relay, host + strlen("host="));
    relay->process = process;
    return relay;
}

void relay_aim(struct relay *relay, enum relay_cut cut, size_t nth, size_t every)
{
    relay->cut = cut;
    relay->nth = nth;
    relay->every = every;
    atomic_store(&relay->passed, 0);
    atomic_store(&relay->cuts, 0);
}

void relay_end(struct relay *relay)
{
    kill(relay->process, SIGKILL);
    waitpid(relay->process, NULL, 0);
    close(relay->listener);
    munmap(relay, sizeof(*relay));
}
