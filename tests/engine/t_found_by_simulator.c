/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulator has found, told directly: each was a history of a few steps
 * that broke a rule. */
#include "world.h"

/* A restart with other kinds began a job of a kind that it does not execute, while
 * the waiting jobs were still to be classed anew. */
TEST(a_node_begins_no_job_of_a_kind_it_no_longer_executes)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "image";
    w.kind_count = 1;
    world_open(&w);
    int64_t image = enqueue_kind(&w, "image");
    world_crash(&w);
    w.kinds[0] = "mail";
    w.capacity = 10;
    world_open(&w);
    check_int(state_of(&w, image), JOB_QUEUED);
    check_int(w.started_count, 0);
    int64_t mail = enqueue_kind(&w, "mail");
    check_int(state_of(&w, mail), JOB_RUNNING);
    check_int(claim_one(&w, "s1"), image); /* it is the remote workers' now */
    world_close(&w);
}
