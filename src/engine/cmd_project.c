/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_project.c -- projects are made. */
#include "engine/engine.h"

int enter_project(struct tx *tx, struct command *c, struct slice name,
                  struct project *ret)
{
    int r = store_project_enter(tx->store, name, ret);
    if (r == -HF_NOT_FOUND)
        return error_set(&c->error, r, "project",
                         "There is no project \"%.*s\"; create it first.", (int)name.n,
                         name.p);
    if (r == 0 && ret->deleting != DELETING_NOT)
        return error_set(&c->error, -HF_CONFLICT, "project",
                         "The project \"%.*s\" is being deleted; it takes nothing new.",
                         (int)name.n, name.p);
    return r;
}

int apply_project(struct tx *tx, struct command *c)
{
    int r = store_project_create(tx->store, c->project.name, &c->project.out_id);
    if (r == -HF_CONFLICT)
        return error_set(&c->error, r, "name", "There is a project \"%.*s\" already.",
                         (int)c->project.name.n, c->project.name.p);
    return r;
}
