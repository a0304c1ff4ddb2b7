/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers in pieces, and how a server ends. */
#include <poll.h>

#include "http_world.h"

#define H "Host: a\r\n"
#define STREAM "GET /stream HTTP/1.1\r\n" H "\r\n"

static void write_piece(struct world *world, void *arg)
{
    check(world->held_count > 0);
    check_ok(http_stream_write(world->held[world->held_count - 1], slice_of(arg)));
}

static void end_stream(struct world *world, void *arg)
{
    http_stream_end(world_held(world), arg == NULL);
}

TEST(pieces_arrive_as_they_are_written_and_the_connection_goes_on)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    cleanup(buf_release) struct buf piece;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    char first[] = "data: 1\n\n", second[] = "data: 22\n\n", nothing[] = "";

    buf_init(&piece, 4096);
    client_send(fd, STREAM);
    client_read_answer(fd, false, &answer);
    check_str(answer_header(&answer, "Transfer-Encoding"), "chunked");
    check_str(answer_header(&answer, "Content-Length"), NULL);
    world_call(&world, write_piece, first);
    client_read_until(fd, &piece, "9\r\ndata: 1\n\n\r\n");
    world_call(&world, write_piece, nothing); /* is no end */
    world_call(&world, write_piece, second);
    client_read_until(fd, &piece, "a\r\ndata: 22\n\n\r\n");
    world_call(&world, end_stream, NULL);
    client_read_until(fd, &piece, "0\r\n\r\n");
    client_send(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(fd, 200, "hello");
    check_int(atomic_load(&world.done), 2);
}

TEST(a_stream_that_is_cut_off_has_no_last_chunk)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(buf_release) struct buf all;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    char piece[] = "half";

    buf_init(&all, 1 << 20);
    client_send(fd, STREAM);
    world_wait(&world.handled, 1);
    world_call(&world, write_piece, piece);
    world_call(&world, end_stream, piece);
    client_read_all(fd, &all);
    check_str(all.p + all.n - 9, "4\r\nhalf\r\n");
}

TEST(a_stream_in_http_1_0_ends_with_the_connection)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(buf_release) struct buf all;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    char piece[] = "plain";

    buf_init(&all, 1 << 20);
    client_send(fd, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    world_wait(&world.handled, 1);
    world_call(&world, write_piece, piece);
    world_call(&world, end_stream, NULL);
    client_read_all(fd, &all);
    check(strstr(all.p, "\r\nConnection: close\r\n"));
    check(!strstr(all.p, "chunked"));
    check_str(strstr(all.p, "\r\n\r\n") + 4, "plain");
}

TEST(a_stream_asked_for_by_head_has_no_body)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    char piece[] = "unseen";

    client_send(fd, "HEAD /stream HTTP/1.1\r\n" H "\r\n");
    client_read_answer(fd, true, &answer);
    world_call(&world, write_piece, piece);
    world_call(&world, end_stream, NULL);
    client_send(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(fd, 200, "hello");
}

static bool has_come_to_rest(void *arg)
{
    static size_t last;
    struct world *world = arg;
    size_t now = atomic_load(&world->flooded);
    bool rests = now > 0 && now == last;

    last = now;
    return rests;
}

TEST(a_stream_to_a_client_that_does_not_read_is_bounded_and_goes_on_when_it_does)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ .out_bytes_max = 256 << 10 });
    cleanup(client_close) int fd = client_connect(&world);
    size_t left = 32 << 20;

    client_send(fd, "GET /flood HTTP/1.1\r\n" H "\r\n");
    world_wait(&world.handled, 1);
    check(test_wait(has_come_to_rest, &world, 30000));
    size_t stuck = atomic_load(&world.flooded);
    test_note("%zu KiB were taken for a client that does not read", stuck >> 10);
    check(stuck < 32 << 20); /* the kernel's buffers and ours */
    while (left > 0) {
        static char dropped[1 << 20];
        ssize_t n = recv(fd, dropped, left < sizeof(dropped) ? left : sizeof(dropped), 0);
        check(n > 0);
        left -= (size_t)n;
    }
    check(atomic_load(&world.drained) > 0);
    check(atomic_load(&world.flooded) > stuck);
    client_close(&fd); /* noticed although the buffers are full */
    world_wait(&world.gone, 1);
}

static void count_drained(struct http_request *request)
{
    struct world *world = request->user;
    atomic_fetch_add(&world->drained, 1);
}

static void fill_once(struct world *world, void *arg)
{
    struct http_request *request = world->held[0];
    size_t *written = arg;
    int r;

    request->on_drained = count_drained;
    while ((r = http_stream_write(request, (struct slice){ world->big, 4096 })) == 0)
        *written += 4096;
    check_err(r, -HF_BUSY);
}

TEST(room_is_announced_once_for_each_piece_that_was_refused)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ .out_bytes_max = 64 << 10 });
    cleanup(client_close) int fd = client_connect(&world);
    size_t written = 0;
    char last[] = "the last";

    client_send(fd, STREAM);
    client_read_answer(fd, false, &answer);
    world_call(&world, fill_once, &written);
    check_int(atomic_load(&world.drained), 0);
    cleanup(buf_release) struct buf all;
    buf_init(&all, 64 << 20);
    while (written > 0) {
        client_read_until(fd, &all, "\r\n"); /* the chunk's size */
        buf_reset(&all);
        check(recv(fd, buf_space(&all, 4098), 4098, MSG_WAITALL) == 4098);
        written -= 4096;
    }
    world_wait(&world.drained, 1);
    world_call(&world, write_piece, last);
    buf_reset(&all);
    client_read_until(fd, &all, "8\r\nthe last\r\n");
    check_int(atomic_load(&world.drained), 1);
}

static void write_too_much(struct world *world, void *arg)
{
    (void)arg;
    check_err(http_stream_write(world->held[0], (struct slice){ world->big, 4097 }),
              -HF_TOO_LARGE);
    check_ok(http_stream_write(world->held[0], (struct slice){ world->big, 4096 }));
}

TEST(a_piece_larger_than_the_buffer_is_refused)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ .out_bytes_max = 4096 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, STREAM);
    client_read_answer(fd, false, &answer);
    world_call(&world, write_too_much, NULL);
}

/* Signals kill: SIGPIPE would end this test. */
static void write_many(struct world *world, void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        if (http_stream_write(world->held[0], SLICE("is anybody there?")) < 0)
            break;
}

TEST(writing_to_a_client_that_has_left_raises_no_signal)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    int fd = client_connect(&world);

    client_send(fd, STREAM);
    world_wait(&world.handled, 1);
    cleanup(answer_release) struct answer answer = { 0 };
    client_read_answer(fd, false, &answer);
    close(fd);
    world_wait(&world.gone, 1);
    for (int i = 0; i < 3; i++)
        world_call(&world, write_many, NULL);
    check_alive(&world);
}

static void write_to_nobody(struct world *world, void *arg)
{
    (void)arg;
    check_err(http_stream_write(world->held[0], SLICE("x")), -HF_CLOSED);
}

TEST(a_stream_whose_client_is_gone_says_so)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    int fd = client_connect(&world);

    client_send(fd, STREAM);
    world_wait(&world.handled, 1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
               sizeof(struct linger));
    close(fd);
    world_wait(&world.gone, 1);
    world_call(&world, write_to_nobody, NULL);
    world_call(&world, end_stream, NULL);
    check_int(atomic_load(&world.done), 1);
}

/* ---- the end ---- */

static void stop(struct world *world, void *arg)
{
    http_server_stop(world->server, *(int64_t *)arg, world_on_stopped);
}

static void check_ends(int fd)
{
    char byte;
    check_int(recv(fd, &byte, 1, 0), 0);
}

TEST(a_server_that_stops_finishes_what_is_under_way)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int idle = client_connect(&world);
    cleanup(client_close) int busy = client_connect(&world);
    int64_t grace_us = 3600 * US_PER_S;
    char address[ADDRESS_TEXT_BYTES];
    char text[] = "finished";

    snprintf(address, sizeof(address), "%s", http_server_address(world.server, 0));
    client_send(idle, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(idle, 200, "hello");
    client_send(busy, "GET /later HTTP/1.1\r\n" H "\r\n");
    world_wait(&world.handled, 2);
    world_call(&world, stop, &grace_us);
    check_ends(idle);
    struct address where;
    struct error error = { 0 };
    check_ok(address_parse(address, &error, &where));
    cleanup(client_close) int late = socket(AF_INET, SOCK_STREAM, 0);
    check_int(connect(late, (struct sockaddr *)&where.sock, where.sock_bytes), -1);
    check_int(errno, ECONNREFUSED);
    check_int(atomic_load(&world.stopped), 0);

    world_call(&world, world_answer_held, text);
    client_read_answer(busy, false, &answer);
    check_str(answer.body.p, "finished");
    check_str(answer_header(&answer, "Connection"), "close");
    check_ends(busy);
    client_close(&busy);
    world_wait(&world.stopped, 1);
}

TEST(a_server_that_stops_does_not_wait_for_ever)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int busy = client_connect(&world);
    int64_t long_us = 3600 * US_PER_S, short_us = 10 * US_PER_MS;

    client_send(busy, "GET /later HTTP/1.1\r\n" H "\r\n");
    world_wait(&world.handled, 1);
    world_call(&world, stop, &long_us);
    world_call(&world, stop, &short_us); /* only shortens it */
    world_call(&world, stop, &long_us);
    world_wait(&world.stopped, 1);
    check_int(atomic_load(&world.gone), 1);
    check_int(world_stats(&world).connections, 0);
}

TEST(a_request_outlives_its_server)
{
    struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    cleanup(client_close) int other = client_connect(&world);

    client_send(fd, "GET /later HTTP/1.1\r\n" H "\r\n");
    client_send(other, STREAM);
    world_wait(&world.handled, 2);
    world_end(&world); /* answers them after the server is gone */
    check_int(atomic_load(&world.gone), 2);
    check_int(atomic_load(&world.done), 0);
}
