/* SPDX-License-Identifier: Apache-2.0
 *
 * door_store_explain.c -- why a job is in its state, over holdfast.h. */
#include "cli/door_store.h"

static int explain_job(struct request *q)
{
    struct json_writer *w = &q->w;
    struct hf_explanation *why = NULL;

    int r = hf_explain(q->hf, q->id, &q->why, &why);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_put_id(w, "id", why->job_id);
    json_put_text(w, "state", hf_state_name(why->state));
    json_put_text(w, "summary", why->summary);
    json_key(w, "reasons");
    json_begin_array(w);
    for (size_t i = 0; i < why->count; i++) {
        json_begin_object(w);
        json_put_text(w, "code", why->reasons[i]->code);
        json_put_text(w, "text", why->reasons[i]->text);
        json_put_time(w, "until", why->reasons[i]->until_us);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
    hf_explanation_free(why);
    return 0;
}

const struct store_route store_explain_routes[] = {
    { "GET", "jobs/{id}/explain", explain_job },
    { 0 },
};
