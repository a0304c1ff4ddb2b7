/* SPDX-License-Identifier: Apache-2.0
 *
 * What an endpoint asks for: merged field by field, refused whole, and missed when it is
 * gone. */
#include "endpoints.h"

TEST(a_request_is_merged_field_by_field)
{
    struct world w;
    node_begin(&w);
    struct schedule_edit edit = new_endpoint(
        "e", "{\"url\":\"http://a\",\"headers\":{\"X-A\":\"1\",\"X-S\":\"secret\"},"
             "\"body\":{\"n\": 1}}");
    edit.secret_headers = SLICE("[\"X-S\"]");
    int64_t id = schedule(&w, edit);
    check_slice(endpoint_row(&w, id).secret_headers, "[\"X-S\"]");
    edit = edit_of(id);
    edit.set = EDIT_REQUEST;
    edit.request = SLICE("{\"url\":\"http://b\",\"body\":null}");
    schedule(&w, edit);
    struct endpoint e = endpoint_row(&w, id);
    check_slice(e.request,
                "{\"url\":\"http://b\",\"headers\":{\"X-A\":\"1\",\"X-S\":\"secret\"}}");
    check_slice(e.secret_headers, "[\"X-S\"]"); /* headers were not given */
    edit.request = SLICE("{\"headers\":{\"X-S\":null,\"X-B\":\"2\"}}");
    edit.secret_headers = SLICE("[\"X-S\"]");
    schedule(&w, edit);
    check_slice(endpoint_row(&w, id).request,
                "{\"url\":\"http://b\",\"headers\":{\"X-S\":\"secret\",\"X-B\":\"2\"}}");
    edit.request = SLICE("{\"headers\":null}");
    edit.secret_headers = (struct slice){ 0 };
    schedule(&w, edit);
    e = endpoint_row(&w, id);
    check_slice(e.request, "{\"url\":\"http://b\"}");
    check(!e.secret_headers.p);
    world_end(&w);
}

TEST(what_cannot_be_sent_is_refused_and_leaves_nothing)
{
    struct world w;
    int64_t rows = -1;
    node_begin(&w);
    refused(&w, new_endpoint("e", "{}"), -HF_INVALID, "url", "url");
    refused(&w, new_endpoint("e", "{\"url\":\"ftp://a\"}"), -HF_INVALID, "url",
            "http://");
    refused(&w, new_endpoint("e", "{\"url\":\"http://a\",\"headers\":{\"X\":null}}"),
            -HF_INVALID, "headers", "without a value");
    refused(&w, new_endpoint("e", "{\"url\":\"http://a\",\"timeoutMs\":60001}"),
            -HF_INVALID, "timeoutMs", "60000");
    struct schedule_edit edit = new_endpoint("e", "{\"url\":\"http://a\"}");
    edit.set |= EDIT_MAX_EXECUTION;
    static const int64_t wrong[] = { 0, -2, 1, 1800001 * US_PER_MS };
    for (size_t i = 0; i < array_len(wrong); i++) {
        edit.with.max_execution_us = wrong[i];
        refused(&w, edit, -HF_INVALID, "maxExecutionTimeMs", "1800000");
    }
    edit = new_schedule("fake", NULL, 0);
    edit.with.kind = SLICE("http");
    edit.with.payload = SLICE("{\"endpointId\":\"5\"}");
    edit.set |= EDIT_PAYLOAD;
    refused(&w, edit, -HF_INVALID, "payload.endpointId", "itself");
    edit.with.kind = SLICE("k"); /* any kind may have any payload, and stays what it is */
    int64_t plain = schedule(&w, edit);
    edit = edit_of(plain);
    edit.set = EDIT_KIND;
    edit.with.kind = SLICE("http");
    refused(&w, edit, -HF_INVALID, "payload.endpointId", "itself");
    edit = edit_of(plain);
    edit.endpoint = true;
    edit.set = EDIT_REQUEST;
    edit.request = SLICE("{\"url\":\"http://a\"}");
    refused(&w, edit, -HF_NOT_FOUND, "", "endpoint");
    schedule(&w, new_endpoint("e", "{\"url\":\"http://a\"}"));
    refused(&w, new_endpoint("e", "{\"url\":\"http://b\"}"), -HF_CONFLICT, "name",
            "taken");
    struct schedule_filter filter = { .endpoints = true, .limit = 10 };
    struct schedule *list = NULL;
    size_t count = 0;
    check_ok(store_schedules(w.engine->store, &filter, &w.arena, &list, &count));
    check_int(count, 1);
    check_ok(store_begin(w.engine->store, w.wall));
    rows = store_endpoint_delete(w.engine->store, list[0].id);
    check_int(rows, 1);
    store_rollback(w.engine->store);
    world_end(&w);
}

/* ---- tampered with ---- */

TEST(what_was_removed_by_hand_is_named)
{
    static const struct {
        const char *script, *words;
    } cases[] = {
        { "DELETE FROM endpoints", "is an endpoint, but what it sends is gone" },
        { "DELETE FROM schedules", "is no schedule any more" },
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct world w;
        struct findings found;
        char name[8];
        node_begin(&w);
        snprintf(name, sizeof(name), "e%zu", i);
        int64_t id = schedule(&w, new_endpoint(name, "{\"url\":\"http://a\"}"));
        check_clean(&w);
        run_sql(&w, cases[i].script);
        check_world(&w, &found);
        check_int(found.count, 1);
        check_int(found.list[0].invariant, 10);
        check_has(slice_of(found.list[0].sentence), cases[i].words);
        char text[24];
        snprintf(text, sizeof(text), " %lld ", (long long)id);
        check_has(slice_of(found.list[0].sentence), text);
        run_sql(&w, "DELETE FROM endpoints; DELETE FROM schedules");
        world_close(&w);
    }
}
