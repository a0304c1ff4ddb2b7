/* SPDX-License-Identifier: Apache-2.0
 *
 * address_policy.c -- addresses as 16 bytes, networks as the bits they share.
 *
 * An IPv4 address is kept as the IPv6 address it is mapped to, so that there is one
 * form to compare, and the mapped spelling is the same address by itself. */
#include "net/address_policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/limits.h"

enum { IP_BYTES = 16, V4_AT = 12, V4_BITS = 96 };

struct ip {
    uint8_t byte[IP_BYTES];
};

struct network {
    struct ip ip;
    unsigned bits;
};

struct address_policy {
    size_t count;
    struct network denied[];
};

#define V4(a, b, c, d)                                                                   \
    {                                                                                    \
        {                                                                                \
            [10] = 0xff, 0xff, (a), (b), (c), (d)                                        \
        }                                                                                \
    }

/* Refused always.  The metadata services beyond link-local are those that their
 * clouds document: Alibaba; Azure's platform channel; Oracle's; Amazon's local
 * services, Google's and Scaleway's on IPv6. */
static const struct {
    struct network network;
    const char *what;
} always[] = {
    { { V4(169, 254, 0, 0), V4_BITS + 16 }, "link-local" },
    { { { { 0xfe, 0x80 } }, 10 }, "link-local" },
    { { V4(100, 100, 100, 200), 128 }, "a cloud's metadata service" },
    { { V4(168, 63, 129, 16), 128 }, "a cloud's metadata service" },
    { { V4(192, 0, 0, 192), 128 }, "a cloud's metadata service" },
    { { { { 0xfd, 0x00, 0x0e, 0xc2 } }, 32 }, "a cloud's metadata service" },
    { { { { 0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54 } }, 128 },
      "a cloud's metadata service" },
    { { { { 0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe } }, 128 },
      "a cloud's metadata service" },
    { { { { 0xfd, 0x00, 0x00, 0x42, [15] = 0x42 } }, 128 },
      "a cloud's metadata service" },
};

/* IPv6 addresses that stand for an IPv4 one: those with the bytes `mark` from `from`
 * on; the IPv4 address is in the bytes `at`, inverted if `inverted`. */
static const struct carrier {
    uint8_t from, marks;
    uint8_t mark[12];
    uint8_t at[4];
    uint8_t inverted;
} carriers[] = {
    { 0, 12, { 0 }, { 12, 13, 14, 15 }, 0 },                        /* compatible */
    { 0, 12, { [8] = 0xff, 0xff }, { 12, 13, 14, 15 }, 0 },         /* translated */
    { 0, 12, { 0, 0x64, 0xff, 0x9b }, { 12, 13, 14, 15 }, 0 },      /* NAT64 */
    { 0, 6, { 0, 0x64, 0xff, 0x9b, 0, 1 }, { 12, 13, 14, 15 }, 0 }, /* local NAT64: */
    { 0, 6, { 0, 0x64, 0xff, 0x9b, 0, 1 }, { 6, 7, 9, 10 }, 0 },    /* any length of */
    { 0, 6, { 0, 0x64, 0xff, 0x9b, 0, 1 }, { 7, 9, 10, 11 }, 0 },   /* its prefix */
    { 0, 6, { 0, 0x64, 0xff, 0x9b, 0, 1 }, { 9, 10, 11, 12 }, 0 },
    { 0, 2, { 0x20, 0x02 }, { 2, 3, 4, 5 }, 0 },              /* 6to4 */
    { 0, 4, { 0x20, 0x01, 0, 0 }, { 12, 13, 14, 15 }, 0xff }, /* Teredo's client */
    { 0, 4, { 0x20, 0x01, 0, 0 }, { 4, 5, 6, 7 }, 0 },        /* Teredo's server */
    { 8, 4, { 0, 0, 0x5e, 0xfe }, { 12, 13, 14, 15 }, 0 },    /* ISATAP */
    { 8, 4, { 0x02, 0, 0x5e, 0xfe }, { 12, 13, 14, 15 }, 0 }, /* ISATAP, unique */
};

static const struct ip unspecified_v4 = V4(0, 0, 0, 0), loopback_v4 = V4(127, 0, 0, 1);
static const struct ip unspecified_v6, loopback_v6 = { { [15] = 1 } };

static bool ip_equal(const struct ip *a, const struct ip *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static bool ip_in(const struct ip *ip, const struct network *network)
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;

    if (memcmp(ip->byte, network->ip.byte, whole) != 0)
        return false;
    return rest == 0 || (ip->byte[whole] ^ network->ip.byte[whole]) >> (8 - rest) == 0;
}

static bool ip_is_v4(const struct ip *ip)
{
    return ip_in(ip, &(struct network){ V4(0, 0, 0, 0), V4_BITS });
}

static bool ip_of(const struct sockaddr *address, socklen_t length, struct ip *ret)
{
    if (length >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        *ret = unspecified_v4;
        memcpy(ret->byte + V4_AT, &v4.sin_addr, 4);
        return true;
    }
    if (length >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        memcpy(ret->byte, &v6.sin6_addr, IP_BYTES);
        return true;
    }
    return false;
}

static char *text_of(const struct ip *ip, char out[IP_TEXT_BYTES])
{
    if (ip_is_v4(ip))
        inet_ntop(AF_INET, ip->byte + V4_AT, out, IP_TEXT_BYTES);
    else
        inet_ntop(AF_INET6, ip->byte, out, IP_TEXT_BYTES);
    return out;
}

/* As it is written behind the slash. */
static unsigned bits_of(const struct network *n)
{
    return ip_is_v4(&n->ip) && n->bits >= V4_BITS ? n->bits - V4_BITS : n->bits;
}

char *ip_text(const struct sockaddr *address, socklen_t length, char out[IP_TEXT_BYTES])
{
    struct ip ip;

    out[0] = '\0';
    return ip_of(address, length, &ip) ? text_of(&ip, out) : out;
}

/* All the addresses that this one stands for, itself first; how many they are. */
enum { MEANINGS = 2 * (array_len(carriers) + 1) };
static size_t meanings(const struct ip *ip, struct ip all[MEANINGS])
{
    size_t n = 0;

    all[n++] = *ip;
    for (size_t i = 0; i < array_len(carriers); i++) {
        const struct carrier *c = &carriers[i];
        if (memcmp(ip->byte + c->from, c->mark, c->marks) != 0)
            continue;
        /* These two begin like compatible ones, and are none. */
        if (ip_equal(ip, &unspecified_v6) || ip_equal(ip, &loopback_v6))
            continue;
        all[n] = unspecified_v4;
        for (size_t k = 0; k < 4; k++)
            all[n].byte[V4_AT + k] = ip->byte[c->at[k]] ^ c->inverted;
        n++;
    }
    for (size_t i = 0, direct = n; i < direct; i++) {
        if (ip_equal(&all[i], &unspecified_v4))
            all[n++] = loopback_v4;
        if (ip_equal(&all[i], &unspecified_v6))
            all[n++] = loopback_v6;
    }
    return n;
}

static bool allows(const struct address_policy *policy, const struct ip *ip,
                   const struct ip *shown, struct error *why)
{
    char name[2 * IP_TEXT_BYTES + 16], text[IP_TEXT_BYTES], meant[IP_TEXT_BYTES];

    if (ip_equal(ip, shown))
        snprintf(name, sizeof(name), "%s", text_of(shown, text));
    else
        snprintf(name, sizeof(name), "%s (that is %s)", text_of(shown, text),
                 text_of(ip, meant));

    for (size_t i = 0; i < array_len(always); i++) {
        if (!ip_in(ip, &always[i].network))
            continue;
        error_set(why, -HF_INVALID, NULL,
                  "The address %s is %s; requests never go there.", name, always[i].what);
        return false;
    }
    for (size_t i = 0; policy && i < policy->count; i++) {
        const struct network *n = &policy->denied[i];
        if (!ip_in(ip, n))
            continue;
        error_set(why, -HF_INVALID, NULL,
                  "The address %s is in %s/%u, which deny_networks denies.", name,
                  text_of(&n->ip, text), bits_of(n));
        return false;
    }
    return true;
}

bool address_policy_allows(const struct address_policy *policy,
                           const struct sockaddr *address, socklen_t length,
                           struct error *why)
{
    struct ip ip, all[MEANINGS];

    if (!ip_of(address, length, &ip)) {
        error_set(why, -HF_INVALID, NULL,
                  "The address is neither IPv4 nor IPv6; requests go nowhere else.");
        return false;
    }
    size_t n = meanings(&ip, all);
    for (size_t i = 0; i < n; i++) {
        if (!allows(policy, &all[i], &ip, why))
            return false;
    }
    return true;
}

/* ---- deny_networks ---- */

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next entry, and what is behind it; absent at the end. */
static struct slice next_entry(struct slice *rest)
{
    size_t i = 0, n = 0;

    while (i < rest->n && is_separator(rest->p[i]))
        i++;
    while (i + n < rest->n && !is_separator(rest->p[i + n]))
        n++;
    struct slice entry = { n > 0 ? rest->p + i : NULL, n };
    if (rest->p)
        *rest = (struct slice){ rest->p + i + n, rest->n - i - n };
    return entry;
}

static int refuse_entry(struct error *error, struct slice entry, const char *right)
{
    return error_set(error, -HF_INVALID, "deny_networks",
                     "deny_networks has \"%.*s\"; %s.",
                     (int)(entry.n < 60 ? entry.n : 60), entry.p, right);
}

/* The number behind the slash, in plain digits; -1 if it is none up to `most`. */
static int parse_bits(const char *digits, int most)
{
    int bits = 0;
    size_t n = strlen(digits);

    if (n < 1 || n > 3 || (n > 1 && digits[0] == '0'))
        return -1;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9')
            return -1;
        bits = bits * 10 + (*digits - '0');
    }
    return bits <= most ? bits : -1;
}

/* Clears what is behind the network's bits; true if there was something. */
static bool clear_host(struct network *n)
{
    struct ip before = n->ip;

    for (unsigned bit = n->bits; bit < 8 * IP_BYTES; bit++)
        n->ip.byte[bit / 8] &= (uint8_t) ~(0x80u >> (bit % 8));
    return !ip_equal(&before, &n->ip);
}

static int parse_network(struct slice entry, struct error *error, struct network *ret)
{
    char text[IP_TEXT_BYTES], right[IP_TEXT_BYTES + 80];
    struct network n = { .ip = unspecified_v4, .bits = 128 };

    if (entry.n >= sizeof(text) || memchr(entry.p, '\0', entry.n))
        return refuse_entry(error, entry,
                            "a network is written as 10.0.0.0/8 or fd00::/8");
    memcpy(text, entry.p, entry.n);
    text[entry.n] = '\0';
    char *slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    bool v4 = inet_pton(AF_INET, text, n.ip.byte + V4_AT) == 1;
    if (!v4 && inet_pton(AF_INET6, text, n.ip.byte) != 1)
        return refuse_entry(error, entry,
                            "a network is written as 10.0.0.0/8 or fd00::/8");
    if (slash) {
        int bits = parse_bits(slash + 1, v4 ? 32 : 128);
        if (bits < 0)
            return refuse_entry(
                error, entry,
                v4 ? "behind the slash there must be a number from 0 to 32"
                   : "behind the slash there must be a number from 0 to "
                     "128");
        n.bits = (unsigned)bits + (v4 ? V4_BITS : 0);
    }
    if (clear_host(&n)) {
        snprintf(right, sizeof(right), "the network of that size is %s/%u",
                 text_of(&n.ip, text), bits_of(&n));
        return refuse_entry(error, entry, right);
    }
    *ret = n;
    return 0;
}

int address_policy_new(struct slice deny_networks, struct error *error,
                       struct address_policy **ret)
{
    struct slice rest = deny_networks, entry;
    size_t count = 0;

    while (next_entry(&rest).p)
        count++;
    if (count > LIMIT_DENY_NETWORKS)
        return error_set(error, -HF_INVALID, "deny_networks",
                         "deny_networks has %zu entries; it may have up to %d.", count,
                         LIMIT_DENY_NETWORKS);
    struct address_policy *policy =
        calloc(1, sizeof(*policy) + count * sizeof(policy->denied[0]));
    if (!policy)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory for a policy.");
    rest = deny_networks;
    while ((entry = next_entry(&rest)).p) {
        int r = parse_network(entry, error, &policy->denied[policy->count]);
        if (r < 0) {
            address_policy_free(policy);
            return r;
        }
        policy->count++;
    }
    *ret = policy;
    return 0;
}

void address_policy_free(struct address_policy *policy)
{
    free(policy);
}
