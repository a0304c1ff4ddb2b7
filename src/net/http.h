/* SPDX-License-Identifier: Apache-2.0
 *
 * http.h -- the words of HTTP that the parser, the server and its users share. */
#pragma once

#include "base/base.h"

/* The methods this server knows.  Any other is refused with 501 before a
 * handler sees it, CONNECT and TRACE among them. */
enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
};

/* "GET". */
const char *http_method_name(enum http_method method);

/* "Not Found"; "Unknown" for a number that is no status. */
const char *http_status_phrase(int status);

/* A header, or a parameter of the query. */
struct http_pair {
    struct slice name;
    struct slice value; /* never absent */
};

/* The value of the first header `name`, in capitals or not; absent if there is none. */
struct slice http_pair_find(const struct http_pair *pairs, size_t count,
                            const char *name);

/* What a request says before its body.  All slices are in the arena it was
 * parsed into. */
struct http_head {
    enum http_method method;
    int minor;           /* of the version: HTTP/1.0 or HTTP/1.1 */
    struct slice target; /* as sent: "/api/v1/jobs/4%32?waitMs=5" */
    struct slice path;   /* its path as sent: "/api/v1/jobs/4%32" */

    /* The path's parts between slashes, decoded: "api", "v1", "jobs", "42".  A
     * slash at the end makes an empty last part; "/" alone has none.  A part
     * is valid UTF-8 without control characters, and may hold a slash that was
     * sent as %2F: so routes compare parts, never the path. */
    struct slice *parts;
    size_t part_count;

    /* The query's parameters in the order sent, decoded (UTF-8 without NUL; a
     * plus is a space).  "a&b=" are two with empty values. */
    struct http_pair *query;
    size_t query_count;

    struct http_pair *headers; /* as sent, without the space around a value */
    size_t header_count;

    struct slice host; /* with its port if one was sent; absent in HTTP/1.0 */

    /* How the body is framed and what the connection does afterwards. */
    uint64_t content_length; /* 0 when there is none */
    bool has_length;
    bool chunked;
    bool expects_continue;
    bool keep_alive;
};
