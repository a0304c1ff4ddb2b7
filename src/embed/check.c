/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c -- the verifier, for whoever has the handle.
 *
 * It reads whole tables in one snapshot, which may take seconds: on a connection
 * of its own, so that nobody who only wants to look at a job waits for it. */
#include "engine/check.h"
#include "embed/handle.h"

struct listener {
    void (*found)(void *arg, const struct hf_finding *finding);
    void *arg;
};

static void tell_finding(void *arg, const struct check_finding *finding)
{
    const struct listener *listener = arg;
    listener->found(listener->arg,
                    &(struct hf_finding){ .invariant = finding->invariant,
                                          .job_id = finding->job_id,
                                          .queue_id = finding->queue_id,
                                          .reservation_id = finding->reservation_id,
                                          .sentence = finding->sentence });
}

int hf_check(struct hf *hf, void (*found)(void *arg, const struct hf_finding *finding),
             void *arg, struct hf_error *error, struct hf_check_report *ret)
{
    struct listener listener = { found, arg };
    struct check_report report = { 0 };
    struct error why = { 0 };
    struct store *store = NULL;

    if (!hf)
        return give(error, NULL, -HF_INVALID);
    int r = store_open(&(struct store_options){ .url = hf->url, .role = STORE_READER },
                       &why, &store);
    if (r == 0)
        r = check_store(store, clock_wall_us(&clock_system), found ? tell_finding : NULL,
                        &listener, &report);
    if (r < 0 && store)
        error_set(&why, r, NULL, "The store cannot be checked: %s.", db_error(store->db));
    store_close(store);
    if (r < 0)
        return give(error, &why, r);
    if (ret)
        *ret = (struct hf_check_report){ .jobs = report.jobs,
                                         .violations = report.violations,
                                         .awaiting = report.awaiting,
                                         .scheduler = report.scheduler };
    return 0;
}
