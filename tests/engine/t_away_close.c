/* test: once libs=libevent_core */
/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that goes away while a node is closed: its loop hears nothing any more, and
 * what is left is the next start's, as after a crash. */
#include <event2/event.h>
#include <sqlite3.h>

#include "crash_vfs.h"
#include "node/node.h"
#include "test.h"

static struct node *open_on(struct event_base *loop, const char *url, const char *vfs)
{
    struct error error = { 0 };
    struct node *node = NULL;
    struct node_options options = {
        .engine = { .url = url, .vfs = vfs, .node_name = "node" },
        .loop = loop,
        .commands_max = 1000,
    };
    if (node_open(&options, &error, &node) < 0)
        fail("%s", error.text);
    return node;
}

static int nodes_found_dead(struct event_base *loop, const char *url, const char *vfs)
{
    struct node_status status;
    struct node *next = open_on(loop, url, vfs);
    node_status(next, &status);
    node_close(next);
    return status.found_dead;
}

TEST(a_disk_that_is_full_when_a_node_signs_off_is_nobodys_news)
{
    struct event_base *loop = event_base_new();
    struct crash_disk *disk = crash_disk_new("last", false, NULL);
    const char *url = test_path("last.db");
    struct node *node = open_on(loop, url, "last");
    crash_disk_fail(disk, CRASH_WRITE, 1, SQLITE_FULL, true);
    node_close(node);
    crash_disk_fail(disk, CRASH_WRITE, 0, 0, false);
    check_int(nodes_found_dead(loop, url, "last"), 1);
    event_base_free(loop);
    crash_disk_free(disk);
}

TEST(neither_is_a_database_that_has_gone_by_then)
{
    struct event_base *loop = event_base_new();
    struct node *node = open_on(loop, test_postgres_url(), NULL);
    test_postgres_crash();
    node_close(node);
    test_postgres_start();
    event_base_free(loop);
}
