/* SPDX-License-Identifier: Apache-2.0
 *
 * openapi.c -- the description of the API: openapi.json, written by hand and held to
 * the routes by a test, to the answers by the end-to-end tests. */
#include "openapi.h"

#include "api/call.h"

struct slice api_description(void)
{
    return (struct slice){ openapi_json, sizeof(openapi_json) - 1 };
}

static void get_description(struct call *call)
{
    call_answer(call, 200, api_description());
}

const struct route openapi_routes[] = {
    { HTTP_GET, "/openapi.json", ROLE_NONE, get_description, BODY_NONE, false },
    { 0 },
};
