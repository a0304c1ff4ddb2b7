/* SPDX-License-Identifier: Apache-2.0
 *
 * watchdog.c -- a timer that looks at the committer's pulse. */
#include "daemon/watchdog.h"

#include <event2/event.h>

#include "base/clock.h"
#include "daemon/notify.h"

/* Looks in the time that systemd waits, and those for which no move is no reason. */
enum { LOOKS = 4, PATIENT_LOOKS = 2 };

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct watchdog *w = arg;
    size_t pulse = node_pulse(w->node);
    int64_t now = clock_mono_us(&clock_system);

    (void)fd;
    (void)what;
    if (pulse != w->pulse) {
        w->pulse = pulse;
        w->moved_at = now;
        w->told = false;
        node_ask_pulse(w->node); /* else the last question is still unanswered */
    }
    if (now - w->moved_at <= w->patience_us) {
        notify_service("WATCHDOG=1");
    } else if (!w->told) {
        w->told = true;
        log_event(w->log, LEVEL_ERROR, "committer_stuck",
                  log_int("for_ms", (now - w->moved_at) / US_PER_MS));
    }
}

int watchdog_start(struct watchdog *watchdog, struct event_base *loop, struct node *node,
                   struct log *log)
{
    int64_t us = notify_watchdog_us(), look_us = us / LOOKS;
    const struct timeval often = { look_us / US_PER_S, look_us % US_PER_S };

    if (look_us == 0)
        return 0;
    *watchdog = (struct watchdog){ .node = node,
                                   .log = log,
                                   .moved_at = clock_mono_us(&clock_system),
                                   .patience_us = PATIENT_LOOKS * look_us };
    watchdog->timer = event_new(loop, -1, EV_PERSIST | EV_TIMEOUT, on_time, watchdog);
    return watchdog->timer && event_add(watchdog->timer, &often) == 0 ? 0 : -HF_NOMEM;
}

void watchdog_stop(struct watchdog *watchdog)
{
    if (watchdog->timer)
        event_free(watchdog->timer);
    watchdog->timer = NULL;
}
