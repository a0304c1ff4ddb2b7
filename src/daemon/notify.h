/* SPDX-License-Identifier: Apache-2.0
 *
 * notify.h -- a word to systemd: READY, STATUS, WATCHDOG, STOPPING.
 *
 * The protocol is one datagram to the socket that NOTIFY_SOCKET names; a library for
 * that would be larger than this.  Without the variable nothing happens. */
#pragma once

#include "base/base.h"

/* Sends "READY=1\nSTATUS=..." and the like.  What cannot be sent is not missed. */
void notify_service(const char *format, ...) printf_like(1, 2);

/* How long systemd waits for WATCHDOG=1 before it ends us; 0: it does not. */
int64_t notify_watchdog_us(void);
