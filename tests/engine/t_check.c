/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier of the invariants: silent on every store the engine makes,
 * whatever it went through, and never silent on one that was tampered with. */
#include "world_check.h"

TEST(a_new_store_is_clean)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    check_clean(&w);
    int64_t id = enqueue_kind(&w, "crawl"), retry = 0;
    check_int(claim_one(&w, "s1"), id);
    check_clean(&w);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, &retry));
    check_clean(&w);
    world_close(&w);
    check_clean(&w);
}
