/* SPDX-License-Identifier: Apache-2.0
 *
 * address_policy.h -- which addresses a request of ours may go to.
 *
 * Why it exists: whoever may enqueue a job of kind http, or name a webhook, makes
 * this process open connections for them.  From inside a network that is a way to
 * places that trust it, above all to a cloud's metadata service, which hands out
 * the machine's credentials to anyone who can reach it.  So an address is looked at
 * when a socket is about to be opened, after DNS and on every redirect: whatever a
 * name, a spelling or a redirect says, it comes down to one of these.
 *
 * REFUSED ALWAYS: link-local addresses, and the metadata services that live
 * elsewhere.  REFUSED BY SETTING: the networks of `deny_networks`.
 *
 * An IPv6 address that carries an IPv4 address (mapped, compatible, translated,
 * NAT64, 6to4, Teredo, ISATAP) is held to the rules of both.  The unspecified
 * addresses, which reach the machine itself, are held to those of loopback.
 * 127.0.0.0/8 and ::1 are two networks: who denies the one names the other too.
 *
 * Pure: no names are resolved here, nothing is opened.
 * Threads: a policy does not change once it is made; any thread. */
#pragma once

#include <sys/socket.h>

#include "base/base.h"
#include "base/status.h"

struct address_policy;

/* A policy with what is always refused and with `deny_networks`: networks such as
 * 10.0.0.0/8 or fd00::/8, or single addresses, separated by commas or spaces; may be
 * empty or absent.  -HF_INVALID with a sentence that names the entry, or -HF_NOMEM. */
must_check int address_policy_new(struct slice deny_networks, struct error *error,
                                  struct address_policy **ret);
void address_policy_free(struct address_policy *policy);

/* True if a connection may be opened to it.  Otherwise `why` (may be NULL) has the
 * reason in a sentence; whatever is neither IPv4 nor IPv6 is refused.  A NULL policy
 * refuses only what is always refused. */
bool address_policy_allows(const struct address_policy *policy,
                           const struct sockaddr *address, socklen_t length,
                           struct error *why);

/* "169.254.169.254", "2001:db8::1"; "" for another family.  Returns `out`. */
enum { IP_TEXT_BYTES = 64 };
char *ip_text(const struct sockaddr *address, socklen_t length, char out[IP_TEXT_BYTES]);
