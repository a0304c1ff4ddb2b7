/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that is not there yet, and several who come for it at the same moment: one
 * makes it, the others wait and find it made. */
#include <pthread.h>

#include "handle.h"

enum { COMERS = 8 };

struct comer {
    pthread_t thread;
    pthread_barrier_t *together;
    const char *url;
};

static void *come(void *arg)
{
    const struct comer *comer = arg;
    struct hf_options options = options_for(comer->url);
    struct hf_new_job job = { .kind = "greet" };
    struct hf_enqueued made;
    struct hf_error error = { 0 };

    options.role = HF_PRODUCER;
    pthread_barrier_wait(comer->together);
    struct hf *hf = open_with(&options);
    check_ok(hf_enqueue(hf, &job, &error, &made));
    check_ok(hf_close(hf));
    return NULL;
}

TEST(a_store_is_made_once_whoever_comes_first)
{
    struct comer comers[COMERS];
    pthread_barrier_t together;
    struct hf_options options = options_for(test_db_url());
    struct hf_error error = { 0 };
    struct hf_queues *queues = NULL;

    check_int(pthread_barrier_init(&together, NULL, COMERS), 0);
    for (int i = 0; i < COMERS; i++) {
        comers[i] = (struct comer){ .together = &together, .url = options.db };
        check_int(pthread_create(&comers[i].thread, NULL, come, &comers[i]), 0);
    }
    for (int i = 0; i < COMERS; i++)
        pthread_join(comers[i].thread, NULL);
    pthread_barrier_destroy(&together);

    options.role = HF_READER;
    struct hf *hf = open_with(&options);
    check_ok(hf_list_queues(hf, &error, &queues));
    check_int(queues->count, 1);
    check_int(queues->items[0]->accepted, COMERS);
    hf_queues_free(queues);
    check_ok(hf_close(hf));
}
