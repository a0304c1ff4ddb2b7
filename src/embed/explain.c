/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.c -- hf_explain(): the engine's reasons as an object of the caller's. */
#include "engine/explain/explain.h"

#include "embed/handle.h"

struct explanation_view {
    struct hf_explanation explanation; /* first */
    struct arena arena;
};

struct explanation_look {
    int64_t id;
    struct explain_context context;
    struct explanation_view *view;
};

static int look_why(struct store *store, void *arg)
{
    struct explanation_look *look = arg;
    struct arena *arena = &look->view->arena;

    arena_reset(arena);
    struct explanation *why = arena_new(arena, struct explanation);
    struct hf_reason *views = arena_array(arena, struct hf_reason, REASONS_MAX);
    struct hf_reason **items = arena_array(arena, struct hf_reason *, REASONS_MAX);
    if (!why || !views || !items)
        return -HF_NOMEM;
    int r = explain_job(store, look->id, &look->context, arena, why);
    if (r < 0)
        return r;
    for (size_t i = 0; i < why->count; i++) {
        views[i] = (struct hf_reason){ .code = why->reasons[i].code,
                                       .text = why->reasons[i].text.p,
                                       .until_us = why->reasons[i].until };
        items[i] = &views[i];
    }
    look->view->explanation = (struct hf_explanation){ .job_id = look->id,
                                                       .state = why->row.job.state,
                                                       .summary = why->summary.p,
                                                       .count = why->count,
                                                       .reasons = items };
    return arena_end(arena);
}

int hf_explain(struct hf *hf, int64_t job_id, struct hf_error *error,
               struct hf_explanation **ret)
{
    struct error why = { 0 };
    struct explanation_look look = { .id = job_id };

    if (!hf || !ret) {
        error_set(&why, -HF_INVALID, hf ? "ret" : "hf",
                  hf ? "There is nowhere to put the answer." : "There is no handle.");
        return give(error, &why, -HF_INVALID);
    }
    look.context = (struct explain_context){ .now = clock_wall_us(&clock_system),
                                             .settings = &hf->settings,
                                             .recovering = hf->recovering };
    look.view = new (struct explanation_view);
    if (!look.view)
        return give(error, &why, -HF_NOMEM);
    arena_init(&look.view->arena, 16 << 10, (size_t)64 << 20);
    int r = reader_look(hf, look_why, &look, &why);
    if (r == 0) {
        *ret = &look.view->explanation;
        return 0;
    }
    hf_explanation_free(&look.view->explanation);
    if (r == -HF_NOT_FOUND)
        error_set(&why, r, NULL, "There is no job %lld.", (long long)job_id);
    return give(error, &why, r);
}

void hf_explanation_free(struct hf_explanation *explanation)
{
    struct explanation_view *view = (struct explanation_view *)explanation;
    if (!view)
        return;
    arena_release(&view->arena);
    free(view);
}
