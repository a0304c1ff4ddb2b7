/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of the API and the API itself name the same things: every route with
 * its role, every type of problem. */
#include <ctype.h>
#include <stdio.h>

#include "api/call.h"
#include "base/limits.h"
#include "test.h"

static struct slice member(struct slice object, const char *name)
{
    return json_find(object, slice_of(name));
}

static struct slice document(void)
{
    struct slice text = api_description();
    struct error error = { 0 };
    if (json_check(text, LIMIT_DOCUMENT_DEPTH, &error) < 0)
        fail("openapi.json: %s", error.text);
    return text;
}

static void path_of(const struct route *route, char *ret, size_t room)
{
    snprintf(ret, room, "%s%s", route->path[0] == '/' ? "" : "/api/v1/", route->path);
}

/* OpenAPI writes methods in small letters. */
static void method_of(const struct route *route, char *ret, size_t room)
{
    snprintf(ret, room, "%s", http_method_name(route->method));
    for (char *p = ret; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static struct slice operation_of(const struct route *route)
{
    char path[200], method[16];
    path_of(route, path, sizeof(path));
    method_of(route, method, sizeof(method));
    struct slice item = member(member(document(), "paths"), path);
    return item.p ? member(item, method) : item;
}

TEST(every_route_is_described)
{
    const struct route *route;
    size_t missing = 0;
    for (size_t i = 0; (route = route_at(i)) != NULL; i++)
        if (!operation_of(route).p) {
            char path[200];
            path_of(route, path, sizeof(path));
            printf("not in openapi.json: %s %s\n", http_method_name(route->method), path);
            missing++;
        }
    check_int(missing, 0);
}

static bool is_routed(struct slice path, struct slice method)
{
    const struct route *route;
    for (size_t i = 0; (route = route_at(i)) != NULL; i++) {
        char has_path[200], has_method[16];
        path_of(route, has_path, sizeof(has_path));
        method_of(route, has_method, sizeof(has_method));
        if (json_string_is(path, slice_of(has_path)) &&
            json_string_is(method, slice_of(has_method)))
            return true;
    }
    return false;
}

TEST(nothing_is_described_that_has_no_route)
{
    struct slice path, item, method, operation;
    struct json_iter paths = json_iter(member(document(), "paths"));
    size_t described = 0;
    while (json_object_next(&paths, &path, &item))
        for (struct json_iter it = json_iter(item);
             json_object_next(&it, &method, &operation); described++)
            if (!is_routed(path, method))
                fail("no route for %.*s %.*s", (int)method.n, method.p, (int)path.n,
                     path.p);
    check(described > 5);
}

/* A role stands where OpenAPI has it: "security": [{ "token": ["producer"] }]. */
TEST(the_role_that_a_route_asks_for_is_described)
{
    const struct route *route;
    for (size_t i = 0; (route = route_at(i)) != NULL; i++) {
        struct slice operation = operation_of(route), entry = { 0 }, role = { 0 };
        if (!operation.p)
            continue; /* told by another test */
        struct slice security = member(operation, "security");
        if (!security.p)
            fail("%s says nothing of security", route->path);
        struct json_iter it = json_iter(security);
        bool any = json_array_next(&it, &entry);
        if (any != (route->role != ROLE_NONE))
            fail("%s: a token is %s", route->path, any ? "not asked for" : "asked for");
        if (!any)
            continue;
        it = json_iter(member(entry, "token"));
        if (!json_array_next(&it, &role) ||
            !json_string_is(role, slice_of(role_name(route->role))))
            fail("%s needs a %s", route->path, role_name(route->role));
    }
}

TEST(bodies_are_described_where_they_are_read)
{
    const struct route *route;
    for (size_t i = 0; (route = route_at(i)) != NULL; i++) {
        struct slice operation = operation_of(route);
        bool has = operation.p && member(operation, "requestBody").p;
        if (operation.p && has != (route->body != BODY_NONE))
            fail("%s: a body is %s", route->path, has ? "not read" : "read");
    }
}

static bool lists(struct slice array, const char *text)
{
    struct slice item;
    for (struct json_iter it = json_iter(array); json_array_next(&it, &item);)
        if (json_string_is(item, slice_of(text)))
            return true;
    return false;
}

TEST(every_type_of_problem_is_described)
{
    struct slice schema = member(member(document(), "components"), "schemas");
    struct slice type = member(member(member(schema, "Problem"), "properties"), "type");
    for (int code = 1; code <= HF_INTERNAL; code++)
        if (!lists(member(type, "enum"), status_of(code)->name))
            fail("%s is no type of a problem", status_of(code)->name);
}

TEST(the_description_has_the_version_of_the_program)
{
    struct slice version = member(member(document(), "info"), "version");
    check(json_string_is(version, slice_of(HOLDFAST_VERSION)));
}
