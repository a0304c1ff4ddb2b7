/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c -- opening, starting and closing a node; its letters. */
#include "node/node.h"

#include <pthread.h>

#include "engine/recovery/recovery.h"
#include "net/loop_mail.h"
#include "node/news.h"
#include "node/reader.h"

struct node {
    struct engine *engine; /* the committer's while there is one */
    struct committer *committer;
    struct reader_thread *readers[READERS];
    struct loop_mail *mail; /* NULL: being closed, the threads are gone */
    struct node_calls calls;
    size_t commands_max;
    struct settings settings;
    char *url;

    struct news *news; /* of the turn under way; the committer's thread */
    bool deaf;         /* there was no memory to pass news on; the committer's thread */

    pthread_mutex_t status_lock;
    struct node_status status; /* under status_lock */
};

/* ---- letters ---- */

static void on_mail(void *user, struct mail *mail)
{
    struct letter *letter = (struct letter *)mail;
    letter->open(user, letter);
}

static void send(struct node *node, struct letter *letter)
{
    /* The box is unbounded, since what is in it was let in before, and is open
     * until the writers are gone. */
    int r = mailbox_put(loop_mail_box(node->mail), &letter->mail);
    assert(r == 0);
    (void)r;
}

/* ---- news, in the committer's thread ---- */

static struct news *news_of(struct node *node)
{
    if (!node->news)
        node->news = news_new();
    return node->news;
}

/* Without memory a run would be started for nobody.  The node gives up, and the
 * next start recovers, as after any crash. */
static void heard(struct node *node, bool kept)
{
    if (!kept)
        node->deaf = true;
}

static void hear_started(void *arg, const struct started *runs, size_t count)
{
    struct news *news = news_of(arg);
    for (size_t i = 0; i < count; i++)
        heard(arg, news && news_add_started(news, &runs[i]));
}

static void hear_stop(void *arg, int64_t job_id, int type)
{
    struct news *news = news_of(arg);
    heard(arg, news && news_add_stop(news, job_id, type));
}

static void hear_told(void *arg, const struct event *events, size_t count)
{
    struct node *node = arg;
    /* While the engine is being opened it tells of dead owners, who have no names. */
    struct store *store = node->engine ? node->engine->store : NULL;
    struct news *news = news_of(node);

    for (size_t i = 0; i < count; i++) {
        const struct event *e = &events[i];
        const struct queue_entry *queue =
            store && e->queue_id ? store_queue_by_id(store, e->queue_id) : NULL;
        const char *project =
            store && e->project_id ? store_project_name(store, e->project_id) : NULL;
        heard(node,
              news && news_add_told(news, e, queue ? queue->queue.name : NULL, project));
    }
}

static void hear_ready(void *arg, int64_t queue_id)
{
    struct node *node = arg;
    const struct queue_entry *queue =
        node->engine ? store_queue_by_id(node->engine->store, queue_id) : NULL;
    struct news *news = queue ? news_of(node) : NULL;
    if (news) /* else the next poll finds it */
        news_add_ready(news, queue_id, queue->queue.name);
}

static void hear_due(void *arg)
{
    struct news *news = news_of(arg);
    if (news) /* else the next poll finds them */
        news->deliveries_due = true;
}

static void hear_changed(void *arg)
{
    struct news *news = news_of(arg);
    if (news) /* else the few that were taken ahead are sent as they were */
        news->webhooks_changed = true;
}

static void open_news(struct node *node, struct letter *letter);

/* In the middle of a turn, which may wait for the store for a while: nothing else that
 * it has done so far is certain yet. */
static void hear_away(void *arg, int code)
{
    struct node *node = arg;

    pthread_mutex_lock(&node->status_lock);
    node->status.away = code;
    struct node_status status = node->status;
    pthread_mutex_unlock(&node->status_lock);

    struct news *news = node->engine && node->mail ? news_new() : NULL;
    if (!news)
        return; /* being opened or closed; or whoever asks sees it, and nobody is told */
    news->turned = true;
    news->status = status;
    news->letter.open = open_news;
    send(node, &news->letter);
}

static bool ask_adopt(void *arg, const struct job_row *row)
{
    struct node *node = arg;
    return node->calls.adopt(node->calls.arg, row);
}

static int64_t recovered_so_far(const struct recovery *recovery)
{
    const struct recovery_counts *c = recovery ? &recovery->counts : NULL;
    return c ? c->running_failed + c->cancelling_failed + c->adopted + c->outcomes : 0;
}

/* PostgreSQL's time as ours: by what both clocks showed when it was last asked. */
static int64_t lease_mono(const struct engine *engine)
{
    if (engine->lease_until == 0 || engine->database.time == 0)
        return 0;
    return engine->database.mono + (engine->lease_until - engine->database.time);
}

static struct node_status status_of_engine(const struct node *node,
                                           const struct engine *engine)
{
    const struct dispatch *d = &engine->dispatch;
    bool throttled = d->started && d->throttled;
    return (struct node_status){
        .ready = engine->ready,
        .recovering = engine->recovery != NULL,
        .broken = node->deaf ? -HF_NOMEM : engine->broken,
        .away = engine->away,
        .found_dead = engine->found_dead,
        .owner_id = engine->owner_id,
        .started_at = engine->started_at,
        .recovered = recovered_so_far(engine->recovery),
        .lease_until = engine->lease_until,
        .lease_mono = lease_mono(engine),
        .throttled_until = throttled ? d->started_at + d->window_us : 0,
        .run_count = engine->run_count,
        .capacity = engine->capacity,
        .totals = engine->totals,
    };
}

static bool is_news(const struct node_status *a, const struct node_status *b)
{
    return a->ready != b->ready || a->recovering != b->recovering ||
           a->broken != b->broken || a->recovered != b->recovered ||
           a->lease_until != b->lease_until || a->capacity != b->capacity;
}

static void end_turn(void *arg, const struct engine *engine)
{
    struct node *node = arg;
    struct node_status status = status_of_engine(node, engine);

    pthread_mutex_lock(&node->status_lock);
    bool turned = is_news(&node->status, &status);
    node->status = status;
    pthread_mutex_unlock(&node->status_lock);

    struct news *news = turned ? news_of(node) : node->news;
    if (!news)
        return;
    news->turned = turned;
    news->status = status;
    news->letter.open = open_news;
    node->news = NULL;
    send(node, &news->letter);
}

/* ---- news, in the loop's thread ---- */

static void open_item(const struct node_calls *calls, const struct news_item *item)
{
    switch (item->type) {
    case NEWS_STARTED:
        if (calls->started)
            calls->started(calls->arg, &item->started);
        break;
    case NEWS_STOP:
        if (calls->stop_run)
            calls->stop_run(calls->arg, item->stop.job_id, item->stop.type);
        break;
    case NEWS_TOLD:
        if (calls->told)
            calls->told(calls->arg, &item->told.event, item->told.queue,
                        item->told.project);
        break;
    }
}

static void open_news(struct node *node, struct letter *letter)
{
    struct news *news = (struct news *)letter;
    const struct node_calls *calls = &node->calls;

    for (const struct news_item *item = news->first; item; item = item->next)
        open_item(calls, item);
    if (calls->ready && (news->ready_count > 0 || news->ready_all))
        calls->ready(calls->arg, news->ready_all ? NULL : news->ready, news->ready_count);
    if (calls->webhooks_changed && news->webhooks_changed)
        calls->webhooks_changed(calls->arg);
    if (calls->deliveries_due && news->deliveries_due)
        calls->deliveries_due(calls->arg);
    if (calls->turned && news->turned)
        calls->turned(calls->arg, &news->status);
    news_free(news);
}

/* ---- commands ---- */

struct answer {
    struct letter letter; /* first */
    struct node *node;
    struct command *command;
    void (*done)(struct command *command, void *arg);
    void *arg;
};

static void open_answer(struct node *node, struct letter *letter)
{
    struct answer *answer = (struct answer *)letter; /* in the command's arena */
    (void)node;
    answer->command->done = answer->done;
    answer->command->done_arg = answer->arg;
    answer->done(answer->command, answer->arg);
}

static void answered(struct command *command, void *arg)
{
    struct answer *answer = arg;
    (void)command;
    answer->letter.open = open_answer;
    send(answer->node, &answer->letter);
}

static int put(struct node *node, struct command *command,
               int (*hand_over)(struct committer *, struct command *))
{
    if (!node->committer)
        return -HF_CLOSED;
    struct answer *answer = arena_array(&command->arena, struct answer, 1);
    if (!answer)
        return -HF_NOMEM;
    *answer = (struct answer){
        .node = node, .command = command, .done = command->done, .arg = command->done_arg
    };
    command->done = answered;
    command->done_arg = answer;
    int r = hand_over(node->committer, command);
    if (r < 0) {
        command->done = answer->done;
        command->done_arg = answer->arg;
    }
    return r;
}

int node_submit(struct node *node, struct command *command)
{
    return put(node, command, committer_submit);
}

int node_report(struct node *node, struct command *command)
{
    return put(node, command, committer_report);
}

/* Capacity, or runs to leave: a message to the engine that nobody waits for. */
struct order {
    size_t count;
    int64_t numbers[];
};

static int order(struct node *node, void (*fn)(struct engine *engine, void *arg),
                 const int64_t *numbers, size_t count)
{
    struct order *order =
        node->committer ? malloc(sizeof(*order) + count * sizeof(*numbers)) : NULL;
    if (!order)
        return node->committer ? -HF_NOMEM : -HF_CLOSED;
    order->count = count;
    memcpy(order->numbers, numbers, count * sizeof(*numbers));
    int r = committer_send(node->committer, fn, order);
    if (r < 0)
        free(order);
    return r;
}

static void set_capacity(struct engine *engine, void *arg)
{
    const struct order *order = arg;
    engine_set_capacity(engine, (size_t)order->numbers[0]);
    free(arg);
}

int node_set_capacity(struct node *node, size_t capacity)
{
    return order(node, set_capacity, &(int64_t){ (int64_t)capacity }, 1);
}

static void leave_runs(struct engine *engine, void *arg)
{
    const struct order *order = arg;
    for (size_t i = 0; i < order->count; i++)
        engine_leave_run(engine, order->numbers[i]);
    free(arg);
}

int node_leave_runs(struct node *node, const int64_t *job_ids, size_t count)
{
    return count > 0 ? order(node, leave_runs, job_ids, count) : 0;
}

struct kinds_order {
    struct letter letter; /* first */
    struct node *node;
    const char *const *kinds;
    const struct kind_policy *policies;
    size_t count, policy_count;
    int result;
    void (*done)(void *arg, int result);
    void *arg;
};

static void open_kinds(struct node *node, struct letter *letter)
{
    struct kinds_order *order = (struct kinds_order *)letter;
    (void)node;
    order->done(order->arg, order->result);
    free(order);
}

static void set_kinds(struct engine *engine, void *arg)
{
    struct kinds_order *order = arg;
    order->result = engine_set_kinds(engine, order->kinds, order->count, order->policies,
                                     order->policy_count);
    order->letter.open = open_kinds;
    send(order->node, &order->letter);
}

int node_set_kinds(struct node *node, const char *const *kinds, size_t count,
                   const struct kind_policy *policies, size_t policy_count,
                   void (*done)(void *arg, int result), void *arg)
{
    struct kinds_order *order = new (struct kinds_order);
    if (!order)
        return -HF_NOMEM;
    *order = (struct kinds_order){ .node = node,
                                   .kinds = kinds,
                                   .policies = policies,
                                   .count = count,
                                   .policy_count = policy_count,
                                   .done = done,
                                   .arg = arg };
    int r =
        node->committer ? committer_send(node->committer, set_kinds, order) : -HF_CLOSED;
    if (r < 0)
        free(order);
    return r;
}

/* ---- looks ---- */

static void open_look(struct node *node, struct letter *letter)
{
    struct look *look = (struct look *)letter;
    (void)node;
    look->done(look);
}

static void looked(struct look *look)
{
    look->letter.open = open_look;
    send(look->node, &look->letter);
}

int node_look(struct node *node, enum reader reader, struct look *look)
{
    look->node = node;
    look->result = 0;
    look->error = (struct error){ 0 };
    return node->readers[reader] ? reader_ask(node->readers[reader], look) : -HF_CLOSED;
}

/* ---- the state of things ---- */

void node_status(struct node *node, struct node_status *ret)
{
    pthread_mutex_lock(&node->status_lock);
    *ret = node->status;
    pthread_mutex_unlock(&node->status_lock);
}

/* Of all that the engine has, these may be read beside the committer's thread. */
size_t node_kinds(struct node *node, struct kind_total ret[KIND_PLACES])
{
    return kind_totals_read(&node->engine->kind_totals, ret);
}

size_t node_pulse(const struct node *node)
{
    return node->committer ? committer_pulse(node->committer) : 0;
}

static void do_nothing(struct engine *engine, void *arg)
{
    (void)engine;
    (void)arg;
}

void node_ask_pulse(struct node *node)
{
    if (node->committer) /* without memory it is asked by its next duty */
        (void)!committer_send(node->committer, do_nothing, NULL);
}

const struct settings *node_settings(const struct node *node)
{
    return &node->settings;
}

/* ---- opening and closing ---- */

static struct engine_hooks hooks_of(struct node *node)
{
    return (struct engine_hooks){ .arg = node,
                                  .started = hear_started,
                                  .stop_run = hear_stop,
                                  .ready = hear_ready,
                                  .told = hear_told,
                                  .adopt = node->calls.adopt ? ask_adopt : NULL,
                                  .deliveries_due =
                                      node->calls.deliveries_due ? hear_due : NULL,
                                  .webhooks_changed =
                                      node->calls.webhooks_changed ? hear_changed : NULL,
                                  .away = hear_away };
}

/* Accepts what was opened half way. */
static void free_node(struct node *node, void (*end)(struct engine *))
{
    for (int i = 0; i < READERS; i++) {
        reader_free(node->readers[i]);
        node->readers[i] = NULL;
    }
    committer_free(node->committer);
    node->committer = NULL;
    loop_mail_free(node->mail); /* opens what is still in it, to who may submit more */
    node->mail = NULL;
    end(node->engine); /* what it has to say now is for nobody */
    news_free(node->news);
    pthread_mutex_destroy(&node->status_lock);
    free(node->url);
    free(node);
}

int node_open(const struct node_options *options, struct error *error, struct node **ret)
{
    struct node *node = new (struct node);
    if (!node)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    pthread_mutex_init(&node->status_lock, NULL); /* cannot fail without attributes */
    node->calls = options->calls;
    node->commands_max = options->commands_max;
    node->url = strdup(options->engine.url);
    if (options->engine.settings)
        node->settings = *options->engine.settings;
    else
        settings_default(&node->settings);
    struct engine_options engine = options->engine;
    engine.hooks = hooks_of(node);
    int r = node->url ? 0 : -HF_NOMEM;
    if (r == 0)
        r = loop_mail_new(options->loop, SIZE_MAX, on_mail, node, &node->mail);
    if (r == 0)
        r = engine_open(&engine, error, &node->engine);
    if (r < 0) {
        if (error->code == 0)
            error_set(error, r, NULL, "The node cannot be opened: %s.",
                      status_of(r)->title);
        free_node(node, engine_abandon);
        return r;
    }
    node->status = status_of_engine(node, node->engine);
    *ret = node;
    return 0;
}

int node_start(struct node *node, struct error *error)
{
    int r = 0;
    for (int i = 0; i < READERS && r == 0; i++)
        r = reader_new(node->url, looked, error, &node->readers[i]);
    if (r == 0)
        r = committer_new(node->engine, node->commands_max, end_turn, node,
                          &node->committer);
    if (r < 0 && error->code == 0)
        error_set(error, r, NULL, "The node's threads cannot be started: %s.",
                  status_of(r)->title);
    return r;
}

void node_close(struct node *node)
{
    if (node)
        free_node(node, engine_close);
}

void node_abandon(struct node *node)
{
    if (node)
        free_node(node, engine_abandon);
}
