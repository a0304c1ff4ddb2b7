/* SPDX-License-Identifier: Apache-2.0
 *
 * Webhooks: who is told of what, in the event's own transaction. */
#include "base/json.h"
#include "hooks.h"

/* ---- who wants what ---- */

TEST(a_webhook_is_told_what_it_asks_for_and_nothing_else)
{
    struct world w;
    world_begin(&w);
    int64_t exact = webhook(&w, "[\"job.run.completed\"]");
    int64_t family = webhook(&w, "[\"job.run.*\", \"queue.paused\"]");
    int64_t all = webhook(&w, "[\"*\"]");
    int64_t none = webhook(&w, "[\"recovery.completed\"]");
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(complete(&w, "s1", id));
    set_pause(&w, "default", true);
    set_pause(&w, "default", false);
    check_str(types_of(&w, exact), "job.run.completed");
    check_str(types_of(&w, family), "job.run.started job.run.completed queue.paused");
    check_str(types_of(&w, all), "webhook.created job.enqueued job.run.started "
                                 "job.run.completed queue.paused queue.resumed");
    check_str(types_of(&w, none), "");
    world_end(&w);
}

TEST(with_no_webhook_the_ordinary_three_are_not_written)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(events_of(&w, id, "job.enqueued", NULL), 0);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    id = enqueue_kind(&w, "crawl");
    check_int(events_of(&w, id, "job.enqueued", NULL), 1);
    check_ok(drop_webhook(&w, hook));
    id = enqueue_kind(&w, "crawl");
    check_int(events_of(&w, id, "job.enqueued", NULL), 0);
    world_end(&w);
}

TEST(a_webhook_of_a_project_hears_of_that_project_alone)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("blue")));
    int64_t blue = webhook_of_project(&w, "[\"*\"]", "blue");
    int64_t all = webhook(&w, "[\"job.*\", \"queue.*\"]");
    struct new_job job = job_of_kind("crawl");
    enqueue(&w, job);
    job.project = SLICE("blue");
    int64_t id = enqueue(&w, job);
    set_pause(&w, "default", true); /* queues belong to no project */
    check_str(types_of(&w, blue), "job.enqueued");
    check_str(types_of(&w, all), "job.enqueued job.enqueued queue.paused");
    struct delivery *list = NULL;
    check_int(deliveries_of(&w, blue, &list), 1);
    check_int(list[0].job_id, id);
    check_has(list[0].body, "\"project\":\"blue\"");
    world_end(&w);
}

TEST(a_webhook_of_a_project_that_is_not_there_is_refused)
{
    struct world w;
    world_begin(&w);
    struct command *c = make_webhook("[\"*\"]");
    c->webhook.edit.project = SLICE("nowhere");
    check_err(act(&w, c), -HF_NOT_FOUND);
    check_sentence(&w, "There is no project \"nowhere\"");
    world_end(&w);
}

/* ---- what it is told ---- */

static struct slice data_of(struct slice body)
{
    check_ok(json_check(body, LIMIT_JSON_DEPTH, NULL));
    return json_find(body, SLICE("data"));
}

TEST(the_body_has_type_time_and_what_it_is_about_by_names)
{
    struct world w;
    struct delivery *list = NULL;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.run.completed\"]");
    struct new_job job = job_of_kind("crawl");
    job.queue = SLICE("fast");
    int64_t id = enqueue(&w, job);
    check_int(claim_one(&w, "s1"), id);
    check_ok(complete(&w, "s1", id));
    check_int(deliveries_of(&w, hook, &list), 1);
    char want[300];
    snprintf(
        want, sizeof(want),
        "{\"type\":\"job.run.completed\",\"timestamp\":\"2027-01-15T08:00:00.000Z\","
        "\"data\":{\"job\":{\"id\":\"%lld\",\"project\":\"default\",\"queue\":\"fast\","
        "\"kind\":\"crawl\",\"attempt\":1}}}",
        (long long)id);
    check_slice(list[0].body, want);
    check_int(list[0].job_id, id);
    check_int(list[0].state, DELIVERY_PENDING);
    check_int(list[0].next_at, w.wall);
    world_end(&w);
}

TEST(a_failure_is_also_told_as_what_becomes_of_the_job)
{
    struct world w;
    struct delivery *list = NULL;
    int64_t retry = 0;
    char part[80];
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.failed\", \"job.retry_scheduled\"]");
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, &retry));
    int64_t other = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), other);
    check_ok(fail_run(&w, "s1", other, ERROR_PERMANENT, NULL));
    check_str(types_of(&w, hook), "job.retry_scheduled job.failed");
    check_int(deliveries_of(&w, hook, &list), 2);
    snprintf(part, sizeof(part), "\"retry\":\"%lld\"", (long long)retry);
    check_has(data_of(list[0].body), part);
    check_has(data_of(list[0].body), "\"retryAt\":\"2027-01-15T08:01:00.000Z\"");
    check_has(data_of(list[1].body), "\"final\":\"permanent\"");
    /* The trail has one row for a failure, which says both. */
    check_int(events_of(&w, other, "job.failed", NULL), 0);
    check_int(events_of(&w, other, "job.run.failed", NULL), 1);
    world_end(&w);
}

/* Every member of `some` is one of `all` too. */
static void check_members(struct slice type, struct slice some, struct slice all)
{
    struct json_iter it = json_iter(some), other;
    struct slice key, value, name;
    while (json_object_next(&it, &key, &value)) {
        bool found = false;
        other = json_iter(all);
        while (!found && json_object_next(&other, &name, &value))
            found = slice_equal(key, name);
        if (!found)
            fail("%.*s: %.*s is in only one of %.*s and %.*s", (int)type.n, type.p,
                 (int)key.n, key.p, (int)some.n, some.p, (int)all.n, all.p);
    }
}

TEST(a_body_has_the_members_that_the_manual_shows)
{
    struct world w;
    struct delivery *list = NULL;
    size_t type_count;
    const struct event_type *types = event_types(&type_count);
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.*\", \"run.*\", \"queue.*\"]");
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(complete(&w, "s1", id));
    check(act(&w, make_complete("s1", id, "{\"pages\":3}")) < 0);
    id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, NULL));
    id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_PERMANENT, NULL));
    check_ok(act(&w, make_retry_by_hand(id)));
    id = enqueue_kind(&w, "crawl");
    check_ok(change(&w, id, 0, 9, NULL));
    check_ok(act(&w, make_cancel(id, "not needed")));
    set_pause(&w, "default", true);
    set_pause(&w, "default", false);
    check_str(types_of(&w, hook),
              "job.enqueued job.run.started job.run.completed run.late_result "
              "job.enqueued job.run.started job.run.failed job.retry_scheduled "
              "job.enqueued job.run.started job.run.failed job.failed job.retried "
              "job.enqueued job.changed job.cancelled queue.paused queue.resumed");
    size_t count = deliveries_of(&w, hook, &list);
    for (size_t i = 0; i < count; i++) {
        struct slice data = data_of(list[i].body);
        struct slice shown = slice_of(types[event_type_find(list[i].type)].example);
        check_members(list[i].type, data, shown);
        check_members(list[i].type, shown, data);
    }
    world_end(&w);
}

TEST(what_is_too_long_for_a_body_is_left_out_and_says_so)
{
    struct world w;
    struct delivery *list = NULL;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"run.late_result\"]");
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(complete(&w, "s1", id));
    enum { LONG = 300 << 10 };
    char *result = malloc(LONG + 3);
    check(result);
    memset(result, 'x', LONG + 2);
    result[0] = result[LONG + 1] = '"';
    result[LONG + 2] = '\0';
    check_err(act(&w, make_complete("s1", id, result)), -HF_LATE);
    free(result);
    check_err(act(&w, make_complete("s1", id, "\"short\"")), -HF_LATE);
    check_int(deliveries_of(&w, hook, &list), 2);
    check(list[0].body.n < 1000);
    check_has(data_of(list[0].body), "\"omittedBytes\":");
    check_has(data_of(list[1].body), "\"result\":\"short\"");
    check_has(data_of(list[1].body), "\"kind\":\"crawl\"");
    world_end(&w);
}

TEST(a_webhook_is_not_told_of_itself)
{
    struct world w;
    world_begin(&w);
    int64_t one = webhook(&w, "[\"webhook.*\"]");
    int64_t two = webhook(&w, "[\"webhook.*\"]");
    set_webhook_state(&w, two, WEBHOOK_PAUSED);
    set_webhook_state(&w, one, WEBHOOK_PAUSED);
    check_ok(drop_webhook(&w, one));
    check_str(types_of(&w, one), "webhook.created webhook.paused");
    check_str(types_of(&w, two), "webhook.paused webhook.deleted");
    world_end(&w);
}

TEST(no_event_tells_a_secret)
{
    struct world w;
    struct event *events = NULL;
    size_t count = 0;
    world_begin(&w);
    struct command *c = make_webhook("[\"*\"]");
    c->webhook.edit.set |= WEBHOOK_SET_HEADERS;
    c->webhook.edit.with.headers = SLICE("{\"Authorization\":\"Bearer hush\"}");
    int64_t id = made(&w, c);
    check_ok(act(&w, edit_webhook(id, WEBHOOK_SET_SECRET,
                                  (struct webhook){
                                      .secret = SLICE("abcdefabcdefabcdefabcdef") })));
    check_ok(
        store_events(w.engine->store, EVENTS_ALL, 0, 0, 100, &w.arena, &events, &count));
    check(count >= 2);
    for (size_t i = 0; i < count; i++)
        if (events[i].data.p)
            check(!has_text(events[i].data, "hush") &&
                  !has_text(events[i].data, "0123456789") &&
                  !has_text(events[i].data, "abcdefabcdef"));
    world_end(&w);
}

/* ---- the same transaction ---- */

TEST(a_refused_command_leaves_no_delivery_and_its_neighbour_does)
{
    struct world w;
    struct delivery *list = NULL;
    world_begin(&w);
    struct new_job keyed = job_of_kind("crawl");
    keyed.unique_key = SLICE("one");
    keyed.on_conflict = CONFLICT_REJECT;
    enqueue(&w, keyed);
    int64_t hook = webhook(&w, "[\"*\"]");
    /* The batch fails at its second job, so the pile is applied a second time. */
    struct test_pile pile = { 0 };
    struct new_job batch[] = { job_of_kind("a"), keyed };
    struct command *bad = pile_add(&pile, make_batch(batch, 2));
    struct command *good = pile_add(&pile, make_enqueue(job_of_kind("b")));
    pile_apply(&w, &pile);
    check_int(bad->result, -HF_DUPLICATE);
    check_ok(good->result);
    check_int(deliveries_of(&w, hook, &list), 1);
    check_int(list[0].job_id, good->enqueue.out[0].id);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_webhook_that_is_made_in_a_refused_pile_is_not_believed_in)
{
    struct world w;
    world_begin(&w);
    struct new_job keyed = job_of_kind("crawl");
    keyed.unique_key = SLICE("one");
    keyed.on_conflict = CONFLICT_REJECT;
    enqueue(&w, keyed);
    struct test_pile pile = { 0 };
    struct new_job batch[] = { job_of_kind("a"), keyed };
    struct command *hook = pile_add(&pile, make_webhook("[\"*\"]"));
    pile_add(&pile, make_batch(batch, 2));
    struct command *good = pile_add(&pile, make_enqueue(job_of_kind("b")));
    pile_apply(&w, &pile);
    check_ok(hook->result);
    check_ok(good->result);
    check_str(types_of(&w, hook->webhook.out_id), "job.enqueued");
    pile_free(&pile);
    world_end(&w);
}

TEST(a_webhook_that_the_store_refused_is_not_believed_in)
{
    struct world w;
    int64_t pending = 0, oldest = 0;
    world_begin(&w);
    webhook(&w, "[\"queue.paused\"]");
    run_sql(&w, "CREATE UNIQUE INDEX only_one ON events (type) "
                "WHERE type = 'webhook.created'");
    struct test_pile pile = { 0 };
    struct command *bad = pile_add(&pile, make_webhook("[\"*\"]"));
    struct command *good = pile_add(&pile, make_enqueue(job_of_kind("b")));
    pile_apply(&w, &pile);
    check_int(bad->result, -HF_CONFLICT);
    check_ok(good->result);
    enqueue_kind(&w, "after");
    check_ok(store_deliveries_pending(w.engine->store, 10, &pending, &oldest));
    check_int(pending, 0);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_crash_leaves_the_event_with_its_delivery)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.*\", \"recovery.*\"]");
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    world_crash(&w);
    world_open(&w);
    check_str(types_of(&w, hook), "job.enqueued job.run.started recovery.completed");
    check_ok(fail_run(&w, "s1", id, ERROR_PERMANENT, NULL));
    check_str(types_of(&w, hook), "job.enqueued job.run.started recovery.completed "
                                  "job.run.failed job.failed");
    world_end(&w);
}

/* ---- others ---- */

TEST(a_producer_writes_deliveries_for_webhooks_that_others_have_made)
{
    struct world w, producer;
    world_begin(&w);
    twin_open_as(&w, &producer, true);
    enqueue_kind(&producer, "before");
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    int64_t id = enqueue_kind(&producer, "crawl");
    check_str(types_of(&w, hook), "job.enqueued");
    struct delivery *list = NULL;
    check_int(deliveries_of(&w, hook, &list), 1);
    check_int(list[0].job_id, id);
    check_ok(drop_webhook(&w, hook));
    enqueue_kind(&producer, "after");
    check_str(types_of(&w, hook), "job.enqueued");
    world_close(&producer);
    world_end(&w);
}

TEST(another_node_knows_of_a_webhook_after_its_poll)
{
    struct world w, twin;
    world_begin(&w);
    twin_open(&w, &twin);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    twin.wall = w.wall += 2 * US_PER_S;
    twin.mono = w.mono += 2 * US_PER_S;
    if (!twin.engine->producer)
        world_settle(&twin);
    enqueue_kind(&twin, "crawl");
    check_str(types_of(&w, hook), "job.enqueued");
    world_close(&twin);
    world_end(&w);
}

TEST(webhooks_are_known_again_after_a_restart)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    engine_close(w.engine);
    world_open(&w);
    enqueue_kind(&w, "crawl");
    check_str(types_of(&w, hook), "job.enqueued");
    world_end(&w);
}

TEST(a_header_that_is_ours_is_refused_however_it_is_written)
{
    static const char *const headers[] = { "{\"Host\":\"x\"}", "{\"\\u0048ost\":\"x\"}",
                                           "{\"WEBHOOK\\u002did\":\"1\"}",
                                           "{\"content-\\u0054ype\":\"x\"}" };
    for (size_t i = 0; i < array_len(headers); i++) {
        struct error error = { 0 };
        struct command *c = make_webhook("[\"*\"]");
        c->webhook.edit.set |= WEBHOOK_SET_HEADERS;
        c->webhook.edit.with.headers = slice_of(headers[i]);
        check_err(webhook_edit_check(&c->webhook.edit, &error), -HF_INVALID);
        check_str(error.field, "headers");
        command_free(c);
    }
}
