/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that are slow, silent, many, gone or do not listen. */
#include <poll.h>
#include <sys/resource.h>

#include "http_world.h"

#define H "Host: a\r\n"
#define LATER "GET /later HTTP/1.1\r\n" H "\r\n"

/* ---- hanging up ---- */

TEST(a_client_that_hangs_up_while_it_waits_is_noticed)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    int fd = client_connect(&world);

    client_send(fd, LATER);
    world_wait(&world.handled, 1);
    check_int(atomic_load(&world.gone), 0);
    close(fd);
    world_wait(&world.gone, 1);

    char nobody[] = "nobody hears it";
    world_call(&world, world_answer_held, nobody);
    check_int(atomic_load(&world.done), 1);
    check_int(atomic_load(&world.last_gone), 1);
    check_int(atomic_load(&world.gone), 1); /* told once */
    check_alive(&world);
}

TEST(a_client_that_is_reset_while_it_waits_is_noticed)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    int fd = client_connect(&world);

    client_send(fd, LATER);
    world_wait(&world.handled, 1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
               sizeof(struct linger));
    close(fd);
    world_wait(&world.gone, 1);
    check_int(world_stats(&world).connections, 0);
    char nobody[] = "nobody hears it";
    world_call(&world, world_answer_held, nobody);
    check_int(atomic_load(&world.done), 1);
}

/* Fills the pipe behind a request that waits, until nothing more goes in. */
static void stuff(int fd)
{
    static const char hello[] = "GET /hello HTTP/1.1\r\n" H "\r\n";
    struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };

    while (poll(&poll_fd, 1, 200) > 0)
        send(fd, hello, sizeof(hello) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

TEST(a_hang_up_is_noticed_behind_a_pipeline_that_is_not_read)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ .head_bytes_max = 1024 });

    for (int reset = 0; reset < 2; reset++) {
        int fd = client_connect(&world);
        client_send(fd, LATER);
        world_wait(&world.handled, reset + 1);
        if (reset)
            stuff(fd);
        else /* little enough that the end fits into the pipe as well */
            for (int i = 0; i < 200; i++)
                client_send(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
        check_int(atomic_load(&world.gone), reset);
        if (reset)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
                       sizeof(struct linger));
        close(fd);
        world_wait(&world.gone, reset + 1);
    }
}

TEST(a_client_that_closes_only_its_sending_half_is_still_answered)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(buf_release) struct buf all;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    buf_init(&all, 1 << 20);
    client_send(fd, LATER "GET /echo?text=second HTTP/1.1\r\n" H "\r\n");
    shutdown(fd, SHUT_WR);
    world_wait(&world.gone, 1);
    char first[] = "first";
    world_call(&world, world_answer_held, first);
    client_read_all(fd, &all);
    check(strstr(all.p, "\r\n\r\nfirst"));
    check(strstr(all.p, "\r\n\r\nsecond"));
}

TEST(a_client_that_leaves_in_the_middle_of_a_request_is_forgotten)
{
    static const char *const halves[] = {
        "",
        "GET",
        "GET / HTTP/1.1\r\n",
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nab",
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    };
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });

    for (size_t i = 0; i < array_len(halves); i++) {
        cleanup(client_close) int fd = client_connect(&world);
        cleanup(buf_release) struct buf all;
        buf_init(&all, 1 << 20);
        client_send(fd, halves[i]);
        shutdown(fd, SHUT_WR);
        client_read_all(fd, &all);
        check_int(all.n, 0);
    }
    check_int(atomic_load(&world.handled), 0);
    check_int(world_stats(&world).connections, 0);
}

/* ---- deadlines ---- */

static const struct http_limits impatient = {
    .head_timeout_us = 100 * US_PER_MS,
    .body_timeout_us = 100 * US_PER_MS,
    .idle_timeout_us = 100 * US_PER_MS,
    .send_timeout_us = 100 * US_PER_MS,
};

/* What is said of a request that never becomes whole; `status` 0: nothing. */
static void check_times_out(struct world *world, const char *begin, int status)
{
    cleanup(client_close) int fd = client_connect(world);
    cleanup(buf_release) struct buf all;
    char line[32] = "";

    buf_init(&all, 1 << 20);
    client_send(fd, begin);
    client_read_all(fd, &all);
    if (status)
        snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
    else
        check_int(all.n, 0);
    check_int(strncmp(all.n ? all.p : "", line, strlen(line)), 0);
}

TEST(heads_and_bodies_that_do_not_come_are_answered_408_and_silence_by_the_end)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, impatient);

    check_times_out(&world, "", 0);
    check_times_out(&world, "GET / HT", 408);
    check_times_out(&world, "GET / HTTP/1.1\r\n" H, 408);
    check_times_out(&world, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nab",
                    408);
    check_times_out(
        &world, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\na",
        408);
    struct http_stats stats = world_stats(&world);
    check_int(stats.timeouts_total, 4);
    check_int(atomic_load(&world.handled), 0);
}

/* Sends a byte at a time, for as long as the server lets it. */
static void trickle(int fd, const char *begin, char byte)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    client_send(fd, begin);
    while (poll(&poll_fd, 1, 10) == 0) {
        if (send(fd, &byte, 1, MSG_NOSIGNAL) < 0)
            return;
    }
}

TEST(a_deadline_is_not_moved_by_bytes_that_trickle_in)
{
    cleanup(world_end) struct world world = { 0 };
    static const char *const begins[] = {
        "GET / HTTP/1.1\r\n" H "X: ",
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 100000\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nfffff;",
    };
    world_start_tcp(&world, impatient);

    for (size_t i = 0; i < array_len(begins); i++) {
        cleanup(client_close) int fd = client_connect(&world);
        cleanup(answer_release) struct answer answer = { 0 };
        trickle(fd, begins[i], 'a'); /* would never end */
        client_read_answer(fd, false, &answer);
        check_int(answer.status, 408);
    }
}

TEST(a_kept_connection_that_is_silent_is_closed_without_a_word)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(buf_release) struct buf all;
    world_start_tcp(&world, impatient);
    cleanup(client_close) int fd = client_connect(&world);

    buf_init(&all, 1 << 20);
    client_send(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(fd, 200, "hello");
    client_read_all(fd, &all);
    check_int(all.n, 0);
    check_int(world_stats(&world).timeouts_total, 0);
}

TEST(a_request_that_takes_long_to_answer_has_no_deadline)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, impatient);
    cleanup(client_close) int held = client_connect(&world);

    client_send(held, LATER);
    world_wait(&world.handled, 1);
    /* Every deadline passes for others meanwhile. */
    for (int i = 0; i < 3; i++)
        check_times_out(&world, "GET", 408);
    char answer[] = "at last";
    world_call(&world, world_answer_held, answer);
    client_expect(held, 200, "at last");
}

TEST(the_time_for_the_next_request_begins_when_the_answer_has_been_taken)
{
    static const char *const requests[] = {
        "GET /big HTTP/1.1\r\n" H "\r\n",
        "GET /big HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n",
    };
    struct http_limits patient = impatient;
    cleanup(world_end) struct world world = { 0 };
    patient.send_timeout_us = 0; /* the default */
    world_start_tcp(&world, patient);

    for (size_t i = 0; i < array_len(requests); i++) {
        cleanup(client_close) int fd = client_connect(&world);
        cleanup(answer_release) struct answer big = { 0 };
        cleanup(buf_release) struct buf rest;
        client_send(fd, requests[i]);
        /* The other deadlines pass for others meanwhile. */
        for (int others = 0; others < 3; others++)
            check_times_out(&world, "GET", 408);
        client_read_answer(fd, false, &big);
        check_int(big.body.n, BIG_BYTES);
        buf_init(&rest, 1 << 20);
        client_read_all(fd, &rest); /* then it is closed as idle */
        check_int(rest.n > 0, i == 1);
        check(i == 0 || strstr(rest.p, "200 OK"));
    }
}

static bool one_was_cut_off(const struct http_stats *stats)
{
    return stats->timeouts_total == 1 && stats->connections == 0;
}

TEST(a_client_that_does_not_take_its_answer_is_cut_off)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, impatient);
    cleanup(client_close) int fd = client_connect(&world);

    /* Else the kernel might take all of it for us. */
    check_ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ 16384 }, sizeof(int)));
    client_send(fd, "GET /big HTTP/1.1\r\n" H "\r\n");
    world_wait_stats(&world, one_was_cut_off);
    check_alive(&world);
}

TEST(a_client_that_does_not_read_is_not_given_more_to_read)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    check_ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){ 16384 }, sizeof(int)));
    for (int i = 0; i < 20; i++)
        client_send(fd, "GET /big HTTP/1.1\r\n" H "\r\n");
    world_wait(&world.handled, 1);
    for (int i = 0; i < 3; i++)
        check_alive(&world);
    check_int(atomic_load(&world.handled), 1 + 3);
}

/* ---- many ---- */

static void allow_descriptors(rlim_t wanted)
{
    struct rlimit limit;

    check_ok(getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    check_ok(setrlimit(RLIMIT_NOFILE, &limit));
    check(limit.rlim_cur >= wanted);
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    check(file && fscanf(file, "%ld %ld", &pages, &resident) == 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST(thousands_of_idle_connections_cost_little_and_others_are_served)
{
    enum { IDLE = 2000 };
    cleanup(world_end) struct world world = { 0 };
    static int fds[IDLE];
    int idle = test_many(IDLE);

    allow_descriptors(2 * IDLE + 100);
    world_start_tcp(&world, (struct http_limits){ 0 });
    check_alive(&world);
    long before_kib = resident_kib();
    for (int i = 0; i < idle; i++) {
        fds[i] = client_connect(&world);
        if (i % 2) /* half of them have been served once */
            client_send(fds[i], "GET /hello HTTP/1.1\r\n" H "\r\n");
    }
    for (int i = 1; i < idle; i += 2)
        client_expect(fds[i], 200, "hello");
    check_alive(&world);
    long grown_kib = resident_kib() - before_kib;
    test_note("%d idle connections hold %ld KiB", idle, grown_kib);
    check(grown_kib < 64 * 1024);
    for (int i = 0; i < idle; i++)
        close(fds[i]);
}

static bool there_is_room(const struct http_stats *stats)
{
    return stats->connections < 2;
}

TEST(one_connection_too_many_is_told_so_and_the_others_are_not_harmed)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ .connections_max = 2 });
    cleanup(client_close) int first = client_connect(&world);
    cleanup(client_close) int second = client_connect(&world);

    client_send(first, LATER);
    client_send(second, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(second, 200, "hello");
    world_wait(&world.handled, 2);
    cleanup(client_close) int third = client_connect(&world);
    client_read_answer(third, false, &answer);
    check_int(answer.status, 503);
    check_str(answer_header(&answer, "Retry-After"), "1");
    check_int(world_stats(&world).connections_over, 1);

    char text[] = "one";
    world_call(&world, world_answer_held, text);
    client_expect(first, 200, "one");
    client_close(&first);
    world_wait_stats(&world, there_is_room);
    check_alive(&world); /* there is room again */
}
