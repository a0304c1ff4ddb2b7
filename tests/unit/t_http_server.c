/* SPDX-License-Identifier: Apache-2.0
 *
 * Good requests over real sockets: kept connections, pipelines, bodies, streams. */
#include "http_world.h"

#define H "Host: a\r\n"

TEST(a_connection_is_kept_and_answers_have_a_date_and_a_length)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    for (int i = 0; i < 3; i++) {
        client_send(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
        client_read_answer(fd, false, &answer);
        check_int(answer.status, 200);
        check_str(answer.body.p, "hello");
        check_str(answer_header(&answer, "Content-Length"), "5");
        check_str(answer_header(&answer, "Content-Type"), "text/plain");
        check_str(answer_header(&answer, "Connection"), NULL);
        const char *date = answer_header(&answer, "Date");
        check(date && strlen(date) == strlen("Sun, 06 Nov 1994 08:49:37 GMT"));
        check_str(date + strlen(date) - 4, " GMT");
    }
    struct http_stats stats = world_stats(&world);
    check_int(stats.connections, 1);
    check_int(stats.connections_total, 1);
    check_int(stats.requests_total, 3);
    check_int(stats.requests_under_way, 0);
    check_int(stats.refused_total, 0);
    check_int(atomic_load(&world.done), 3);
}

TEST(a_connection_that_is_not_to_be_kept_is_closed_after_the_answer)
{
    static const char *const requests[] = {
        "GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n",
    };
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });

    for (size_t i = 0; i < array_len(requests); i++) {
        cleanup(client_close) int fd = client_connect(&world);
        cleanup(buf_release) struct buf all;
        buf_init(&all, 1 << 20);
        client_send(fd, requests[i]);
        client_read_all(fd, &all);
        check(strstr(all.p, "\r\nConnection: close\r\n"));
        check_str(strstr(all.p, "\r\n\r\n") + 4, "hello");
    }
}

TEST(http_1_0_may_ask_for_the_connection_to_be_kept)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    for (int i = 0; i < 2; i++) {
        client_send(fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client_read_answer(fd, false, &answer);
        check_str(answer_header(&answer, "Connection"), "keep-alive");
    }
}

TEST(a_pipeline_is_answered_in_order_also_when_the_first_takes_long)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "GET /later HTTP/1.1\r\n" H "\r\n"
                    "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\ntwo"
                    "GET /echo?text=three HTTP/1.1\r\n" H "\r\n");
    world_wait(&world.handled, 1);
    check_int(world_stats(&world).requests_total, 1); /* the others wait their turn */
    char one[] = "one";
    world_call(&world, world_answer_held, one);
    client_expect(fd, 200, "one");
    client_expect(fd, 200, "two");
    client_expect(fd, 200, "three");
}

struct sender {
    int fd;
    int count;
};

static void *send_many(void *arg)
{
    struct sender *sender = arg;

    for (int i = 0; i < sender->count; i++) {
        char text[128];
        snprintf(text, sizeof(text), "GET /echo?text=%d HTTP/1.1\r\n" H "\r\n", i);
        client_send(sender->fd, text);
    }
    return NULL;
}

TEST(a_pipeline_of_ten_thousand_is_bounded_and_complete)
{
    cleanup(world_end) struct world world = { 0 };
    pthread_t thread;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    struct sender sender = { fd, 10000 };
    check_ok(pthread_create(&thread, NULL, send_many, &sender));
    for (int i = 0; i < sender.count; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", i);
        client_expect(fd, 200, text);
    }
    pthread_join(thread, NULL);
}

TEST(a_head_request_gets_the_length_and_no_body)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "HEAD /hello HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
    client_read_answer(fd, true, &answer);
    check_str(answer_header(&answer, "Content-Length"), "5");
    client_expect(fd, 200, "hello"); /* right behind it */
}

TEST(an_answer_without_content_has_no_length)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "GET /empty HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 204);
    check_str(answer_header(&answer, "Content-Length"), NULL);
    client_expect(fd, 200, "hello");
}

TEST(a_chunked_body_arrives_whole_however_it_is_cut)
{
    static const char request[] =
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
        "3;x=y\r\nhel\r\n8\r\nlo world\r\n0\r\nT: v\r\n\r\n";
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    for (size_t piece = 1; piece < sizeof(request); piece += 7) {
        for (size_t at = 0; at < sizeof(request) - 1; at += piece) {
            size_t left = sizeof(request) - 1 - at;
            client_send_slice(
                fd, (struct slice){ request + at, left < piece ? left : piece });
        }
        client_expect(fd, 200, "hello world");
    }
}

TEST(large_bodies_go_both_ways)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    char head[128];

    memset(world.big, 'x', BIG_BYTES);
    snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
             BIG_BYTES);
    client_send(fd, head);
    client_send_slice(fd, (struct slice){ world.big, BIG_BYTES });
    client_read_answer(fd, false, &answer);
    check_int(answer.body.n, BIG_BYTES);
    check(memcmp(answer.body.p, world.big, BIG_BYTES) == 0);
}

TEST(a_client_that_asks_is_told_to_continue_only_if_its_body_is_wanted)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(buf_release) struct buf told;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    buf_init(&told, 4096);
    client_send(fd, "POST /echo HTTP/1.1\r\n" H
                    "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    client_read_until(fd, &told, "\r\n\r\n");
    check_str(told.p, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send(fd, "yes");
    client_expect(fd, 200, "yes");

    client_send(fd, "POST /small HTTP/1.1\r\n" H
                    "Expect: 100-continue\r\nContent-Length: 17\r\n\r\n");
    cleanup(answer_release) struct answer answer = { 0 };
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 413);
    check_int(atomic_load(&world.last_status), 413);
}

TEST(a_route_has_its_own_limit_for_bodies)
{
    cleanup(world_end) struct world world = { 0 };
    world_start_tcp(&world, (struct http_limits){ .body_bytes_max = 8 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "POST /small HTTP/1.1\r\n" H
                    "Content-Length: 16\r\n\r\n0123456789abcdef");
    client_expect(fd, 200, "0123456789abcdef");
    client_send(fd, "POST /other HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\n123456789");
    cleanup(answer_release) struct answer answer = { 0 };
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 413);
    check_str(answer_header(&answer, "Content-Type"), "application/problem+json");
    check(strstr(answer.body.p, "\"status\":413,\"detail\":\"the body has more than 8 "));
}

TEST(a_request_answered_by_its_head_alone_ends_the_connection_if_it_has_a_body)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "GET /locked HTTP/1.1\r\n" H "\r\n");
    client_expect(fd, 401, "locked\n");
    client_send(fd, "POST /locked HTTP/1.1\r\n" H "Content-Length: 40\r\n\r\n"
                    "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 401);
    check_str(answer_header(&answer, "Connection"), "close");
    char byte;
    check_int(recv(fd, &byte, 1, 0), 0);
    check_int(atomic_load(&world.handled), 0);
}

static void answer_with_headers(struct world *world, void *arg)
{
    struct http_pair header = { SLICE("Location"), SLICE("/a\r\nEvil: yes") };

    (void)arg;
    http_answer(world_held(world), &(struct http_answer){
                                       .status = 201,
                                       .headers = &header,
                                       .header_count = 1,
                                   });
}

TEST(a_header_of_an_answer_cannot_become_two)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);

    client_send(fd, "GET /later HTTP/1.1\r\n" H "\r\n");
    world_wait(&world.handled, 1);
    world_call(&world, answer_with_headers, NULL);
    client_read_answer(fd, false, &answer);
    check_int(answer.status, 201);
    check_str(answer_header(&answer, "Location"), "/a  Evil: yes");
    check_str(answer_header(&answer, "Evil"), NULL);
}

TEST(the_peer_is_known)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int fd = client_connect(&world);
    struct address self = { .sock_bytes = sizeof(self.sock) };
    char text[ADDRESS_TEXT_BYTES];

    check_ok(getsockname(fd, (struct sockaddr *)&self.sock, &self.sock_bytes));
    client_send(fd, "GET /peer HTTP/1.1\r\n" H "\r\n");
    client_read_answer(fd, false, &answer);
    check_str(answer.body.p, address_text(&self, text));
}
