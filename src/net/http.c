/* SPDX-License-Identifier: Apache-2.0
 *
 * http.c -- names of methods and statuses, and the search for a header. */
#include "http.h"

#include <strings.h>

const char *http_method_name(enum http_method method)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
        [HTTP_OPTIONS] = "OPTIONS",
    };

    assert((size_t)method < array_len(names));
    return names[method];
}

const char *http_status_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 206, "Partial Content" },
        { 301, "Moved Permanently" },
        { 302, "Found" },
        { 303, "See Other" },
        { 304, "Not Modified" },
        { 307, "Temporary Redirect" },
        { 308, "Permanent Redirect" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 406, "Not Acceptable" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 410, "Gone" },
        { 411, "Length Required" },
        { 412, "Precondition Failed" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 421, "Misdirected Request" },
        { 422, "Unprocessable Content" },
        { 426, "Upgrade Required" },
        { 428, "Precondition Required" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
        { 507, "Insufficient Storage" },
    };

    for (size_t i = 0; i < array_len(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Unknown";
}

struct slice http_pair_find(const struct http_pair *pairs, size_t count, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < count; i++)
        if (pairs[i].name.n == length && strncasecmp(pairs[i].name.p, name, length) == 0)
            return pairs[i].value;
    return (struct slice){ 0 };
}
