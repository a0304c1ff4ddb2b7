/* SPDX-License-Identifier: Apache-2.0
 *
 * door_store.h -- what the files of the store's door share: one ask under way. */
#pragma once

#include "base/json_write.h"
#include "cli/door.h"

struct request {
    struct hf *hf;
    const struct ask *ask;
    int64_t id;     /* what stands for {id} in the path */
    char name[101]; /* what stands for {name} */
    struct arena arena;
    struct hf_error why; /* the library's sentence, */
    struct error *error; /* or our own */
    struct json_writer w;
};

/* A route; families end with a NULL method. */
struct store_route {
    const char *method, *path;
    int (*answer)(struct request *q);
};
extern const struct store_route store_job_routes[];
extern const struct store_route store_explain_routes[];
extern const struct store_route store_queue_routes[];

/* A parameter's value, NULL if it is not there. */
const char *request_param(const struct request *q, const char *name);
/* Every parameter must be one of `names`, which ends with NULL. */
must_check int request_params_known(struct request *q, const char *const *names);
/* A whole number among them; `ret` keeps its value if it is not there. */
must_check int request_int(struct request *q, const char *name, int64_t least,
                           int64_t most, int64_t *ret);

/* Fields of the body, at most REQUEST_FIELDS; an absent body has none. */
enum { REQUEST_FIELDS = 4 };
must_check int request_fields(struct request *q, const char *const *names, size_t count,
                              struct slice *values);
/* One of them as text in the arena, NULL if it is not there. */
must_check int request_text(struct request *q, struct slice value, const char *name,
                            const char **ret);
