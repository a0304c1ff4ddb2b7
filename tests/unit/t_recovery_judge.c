/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a command of a dead node may still run: nobody else may begin its retry
 * before. */
#include "engine/recovery/recovery_judge.h"
#include "test.h"

static const struct host here = { .name = "here" };
enum { NOW = 1000, LEASE = 1500 };

static int64_t until(enum executor executor, const char *state_dir, const char *host,
                     int64_t lease_until)
{
    struct run run = { .executor = executor };
    struct judged owner = { .known = true,
                            .gone = true,
                            .owner = { .host = slice_of(host),
                                       .state_dir = slice_of(state_dir),
                                       .lease_until = lease_until } };
    return command_until(&run, &owner, &here, "/var/lib/a", NOW);
}

TEST(a_command_of_another_state_directory_may_run_until_the_lease_is_over)
{
    check_int(until(EXECUTOR_COMMAND, "/var/lib/b", "here", LEASE), LEASE);
    check_int(until(EXECUTOR_COMMAND, "/var/lib/b", "here", NOW), 0);
}

TEST(the_same_path_on_another_machine_is_another_state_directory)
{
    check_int(until(EXECUTOR_COMMAND, "/var/lib/a", "there", LEASE), LEASE);
}

TEST(whoever_has_the_state_directory_knows_that_it_is_over)
{
    check_int(until(EXECUTOR_COMMAND, "/var/lib/a", "here", LEASE), 0);
}

TEST(what_ran_inside_the_dead_node_ended_with_it)
{
    check_int(until(EXECUTOR_HTTP, "/var/lib/b", "here", LEASE), 0);
    check_int(until(EXECUTOR_HANDLER, "/var/lib/b", "here", LEASE), 0);
    check_int(until(EXECUTOR_COMMAND, NULL, "here", LEASE), 0);
}

TEST(where_there_are_no_leases_there_is_no_other_node)
{
    check_int(until(EXECUTOR_COMMAND, "/var/lib/b", "here", 0), 0);
}
