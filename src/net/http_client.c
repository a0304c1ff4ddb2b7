/* SPDX-License-Identifier: Apache-2.0
 *
 * http_client.c -- libcurl's transfers on libevent's loop.
 *
 * libcurl says which sockets and which timer to watch, the loop says when something
 * happened, libcurl says which transfers are done.  Time limits are ours, one timer
 * for each fetch: they hold over redirects, and do not depend on libcurl. */
#include "net/http_client.h"

#include <event2/event.h>

#include "base/clock.h"
#include "net/fetch.h"

/* Idle connections that are kept for fetches that may be repeated. */
enum { POOLED_CONNECTIONS = 256 };
/* libcurl's handles that wait for the next fetch: each has buffers that are dear to make,
 * some 20 KiB. */
enum { SPARE_HANDLES = 64 };

struct http_client {
    struct event_base *base;
    CURLM *multi;
    struct event *timer; /* libcurl's */
    struct fetch *fetches;
    size_t count;
    CURL *spare[SPARE_HANDLES];
    size_t spare_count;
    char *user_agent, *ca_file;
    const struct address_policy *policy;
};

/* A socket of libcurl's, while it is watched. */
struct watch {
    struct event event;
    struct http_client *client;
};

static struct timeval timeval_of(int64_t us)
{
    return (struct timeval){ .tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S };
}

/* ---- a fetch, from start to end ---- */

static void link_fetch(struct http_client *client, struct fetch *fetch)
{
    fetch->client = client;
    fetch->next = client->fetches;
    if (fetch->next)
        fetch->next->prev = fetch;
    client->fetches = fetch;
    client->count++;
}

static void unlink_fetch(struct http_client *client, struct fetch *fetch)
{
    if (fetch->prev)
        fetch->prev->next = fetch->next;
    else
        client->fetches = fetch->next;
    if (fetch->next)
        fetch->next->prev = fetch->prev;
    client->count--;
}

static bool add_to_multi(struct fetch *fetch)
{
    fetch->added = curl_multi_add_handle(fetch->client->multi, fetch->easy) == CURLM_OK;
    return fetch->added;
}

static void remove_from_multi(struct fetch *fetch)
{
    if (fetch->added)
        curl_multi_remove_handle(fetch->client->multi, fetch->easy);
    fetch->added = false;
}

/* Of one that was cut short, libcurl may still be busy with a name. */
static void keep_handle(struct http_client *client, struct fetch *fetch,
                        const struct fetch_answer *answer)
{
    if (answer->end != FETCH_ANSWERED || client->spare_count == SPARE_HANDLES)
        return;
    curl_easy_reset(fetch->easy);
    client->spare[client->spare_count++] = fetch->easy;
    fetch->easy = NULL;
}

/* Answered, and gone. */
static void end_fetch(struct fetch *fetch, struct fetch_answer *answer)
{
    struct http_client *client = fetch->client;

    remove_from_multi(fetch);
    event_del(&fetch->timer);
    unlink_fetch(client, fetch);
    fetch_gather(fetch, answer);
    keep_handle(client, fetch, answer);
    fetch->done(fetch->done_arg, answer);
    fetch_free(fetch);
}

static void end_early(struct fetch *fetch)
{
    struct fetch_answer answer = { .end = FETCH_TIMEOUT };
    struct error text = { 0 };

    if (fetch->aborted)
        answer.end = FETCH_CANCELLED;
    error_set(&text, -HF_TIMEOUT, NULL,
              fetch->aborted ? "The request to %s was aborted."
                             : "%s did not answer within %lld ms.",
              fetch->host, (long long)fetch->request.timeout_ms);
    answer.text = text.text;
    end_fetch(fetch, &answer);
}

/* The loop's clock is coarse, and stands while callbacks run: its timers come early by
 * as much.  What has not passed yet by our own clock is waited for. */
static void on_fetch_timer(evutil_socket_t fd, short what, void *arg)
{
    struct fetch *fetch = arg;
    int64_t left_us = fetch->started_us + fetch->request.timeout_ms * US_PER_MS -
                      clock_mono_us(&clock_system);

    (void)fd;
    (void)what;
    if (!fetch->aborted && left_us > 0) {
        struct timeval left = timeval_of(left_us);
        if (evtimer_add(&fetch->timer, &left) == 0)
            return;
    }
    end_early(fetch);
}

/* Deals with the transfers that libcurl has finished with. */
static void take_finished(struct http_client *client)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left))) {
        struct fetch *fetch = NULL;
        struct fetch_answer answer = { 0 };
        CURLcode code = message->data.result;

        assert(message->msg == CURLMSG_DONE);
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
        remove_from_multi(fetch);
        if (fetch_goes_on(fetch, code, &answer)) {
            if (add_to_multi(fetch))
                continue;
            answer = (struct fetch_answer){ .end = FETCH_NETWORK,
                                            .text = "There is no memory for a request." };
        }
        end_fetch(fetch, &answer);
    }
}

int http_client_start(struct http_client *client, const struct fetch_request *request,
                      fetch_done *done, void *arg, struct error *error,
                      struct fetch **ret)
{
    struct fetch_defaults defaults = { client->policy, client->user_agent,
                                       client->ca_file, NULL };
    struct fetch *fetch;

    assert(done && ret);
    if (client->spare_count > 0)
        defaults.easy = client->spare[--client->spare_count];
    int r = fetch_new(request, &defaults, error, &fetch);
    if (r < 0)
        return r;
    fetch->done = done;
    fetch->done_arg = arg;
    struct timeval timeout = timeval_of(fetch->request.timeout_ms * US_PER_MS);
    link_fetch(client, fetch);
    evtimer_assign(&fetch->timer, client->base, on_fetch_timer, fetch);
    if (evtimer_add(&fetch->timer, &timeout) < 0 || !add_to_multi(fetch)) {
        event_del(&fetch->timer);
        unlink_fetch(client, fetch);
        fetch_free(fetch);
        return error_set(error, -HF_NOMEM, NULL, "There is no memory for a request.");
    }
    *ret = fetch;
    return 0;
}

void http_client_abort(struct fetch *fetch)
{
    fetch->aborted = true;
    event_active(&fetch->timer, EV_TIMEOUT, 0);
}

size_t http_client_count(const struct http_client *client)
{
    return client->count;
}

/* ---- between libcurl and libevent ---- */

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    /* libcurl may drop the watch inside. */
    struct http_client *client = ((struct watch *)arg)->client;
    int flags = ((what & EV_READ) ? CURL_CSELECT_IN : 0) |
                ((what & EV_WRITE) ? CURL_CSELECT_OUT : 0);
    int running;

    curl_multi_socket_action(client->multi, fd, flags, &running);
    take_finished(client);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_client *client = arg;
    int running;

    (void)fd;
    (void)what;
    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_finished(client);
}

/* libcurl: watch this socket for that. */
static int set_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct http_client *client = arg;
    struct watch *watch = socket_arg;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch)
            event_del(&watch->event);
        free(watch);
        curl_multi_assign(client->multi, fd, NULL);
        return 0;
    }
    if (watch) {
        event_del(&watch->event);
    } else {
        watch = new(struct watch);
        if (!watch)
            return -1;
        watch->client = client;
        curl_multi_assign(client->multi, fd, watch);
    }
    short events = (short)(EV_PERSIST | ((what & CURL_POLL_IN) ? EV_READ : 0) |
                           ((what & CURL_POLL_OUT) ? EV_WRITE : 0));
    event_assign(&watch->event, client->base, fd, events, on_event, watch);
    return event_add(&watch->event, NULL);
}

/* libcurl: call me in so many milliseconds; -1: not at all. */
static int set_timer(CURLM *multi, long ms, void *arg)
{
    struct http_client *client = arg;
    struct timeval timeout = timeval_of(ms * US_PER_MS);

    (void)multi;
    return ms < 0 ? evtimer_del(client->timer) : evtimer_add(client->timer, &timeout);
}

/* ---- the client ---- */

static bool set_up(struct http_client *client, const struct http_client_options *options)
{
    const char *agent = options->user_agent;

    client->base = options->base;
    client->policy = options->policy;
    client->user_agent = strdup(agent ? agent : "holdfast/" HOLDFAST_VERSION);
    client->ca_file = options->ca_file ? strdup(options->ca_file) : NULL;
    client->timer = evtimer_new(options->base, on_timer, client);
    client->multi = curl_multi_init();
    if (!client->user_agent || (options->ca_file && !client->ca_file) || !client->timer ||
        !client->multi)
        return false;
    CURLM *m = client->multi;
    return curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, set_socket) == CURLM_OK &&
           curl_multi_setopt(m, CURLMOPT_SOCKETDATA, client) == CURLM_OK &&
           curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, set_timer) == CURLM_OK &&
           curl_multi_setopt(m, CURLMOPT_TIMERDATA, client) == CURLM_OK &&
           curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, (long)POOLED_CONNECTIONS) ==
               CURLM_OK;
}

int http_client_new(const struct http_client_options *options, struct http_client **ret)
{
    assert(options->base && ret);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -HF_NOMEM;
    struct http_client *client = new(struct http_client);
    if (!client || !set_up(client, options)) {
        if (client)
            http_client_free(client);
        else
            curl_global_cleanup();
        return -HF_NOMEM;
    }
    *ret = client;
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    while (client->fetches) {
        client->fetches->aborted = true;
        end_early(client->fetches);
    }
    while (client->spare_count > 0)
        curl_easy_cleanup(client->spare[--client->spare_count]);
    curl_multi_cleanup(client->multi);
    if (client->timer)
        event_free(client->timer);
    free(client->user_agent);
    free(client->ca_file);
    free(client);
    curl_global_cleanup();
}
