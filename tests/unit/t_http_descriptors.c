/* SPDX-License-Identifier: Apache-2.0
 *
 * A server that has no descriptor left for a connection that waits.  (valgrind accepts
 * the connection, finds the descriptor too high, and closes it.) */
/* test: bare */
#include <sys/resource.h>

#include "http_world.h"

#define H "Host: a\r\n"

static bool accept_has_failed(const struct http_stats *stats)
{
    return stats->accept_failures_total > 0;
}

TEST(a_server_out_of_descriptors_goes_on_when_there_are_some_again)
{
    cleanup(world_end) struct world world = { 0 };
    struct rlimit limit;
    world_start_tcp(&world, (struct http_limits){ 0 });
    cleanup(client_close) int waiting = client_connect(&world);
    cleanup(client_close) int other = socket(AF_INET, SOCK_STREAM, 0);

    client_send(waiting, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(waiting, 200, "hello");
    check_ok(getrlimit(RLIMIT_NOFILE, &limit));
    struct rlimit none = { .rlim_cur = 3, .rlim_max = limit.rlim_max };
    check_ok(setrlimit(RLIMIT_NOFILE, &none));
    struct address address;
    struct error error = { 0 };
    check_ok(address_parse(http_server_address(world.server, 0), &error, &address));
    check_ok(connect(other, (struct sockaddr *)&address.sock, address.sock_bytes));
    world_wait_stats(&world, accept_has_failed);
    client_send(waiting, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(waiting, 200, "hello"); /* those that are there are served */
    check_ok(setrlimit(RLIMIT_NOFILE, &limit));
    client_send(other, "GET /hello HTTP/1.1\r\n" H "\r\n");
    client_expect(other, 200, "hello");
}
