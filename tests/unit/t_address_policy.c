/* SPDX-License-Identifier: Apache-2.0
 *
 * Where requests may not go: every spelling of what is refused, the neighbours that
 * are not, and what may stand in deny_networks. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "base/limits.h"
#include "net/address_policy.h"
#include "test.h"

static bool allows(const struct address_policy *policy, const char *text,
                   struct error *why)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return address_policy_allows(policy, (struct sockaddr *)&v4, sizeof(v4), why);
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1)
        fail("%s is no address", text);
    return address_policy_allows(policy, (struct sockaddr *)&v6, sizeof(v6), why);
}

static struct address_policy *policy_of(const char *networks)
{
    struct error error = { 0 };
    struct address_policy *policy = NULL;

    if (address_policy_new(slice_of(networks), &error, &policy) < 0)
        fail("%s: %s", networks, error.text);
    return policy;
}

static void check_all(const char *networks, const char *const *texts, size_t count,
                      bool allowed)
{
    struct address_policy *policy = networks ? policy_of(networks) : NULL;

    for (size_t i = 0; i < count; i++) {
        struct error why = { 0 };
        if (allows(policy, texts[i], &why) != allowed)
            fail("%s is %s, with %s denied", texts[i], allowed ? "refused" : "allowed",
                 networks ? networks : "nothing");
        check_int(why.text[0] == '\0', allowed);
        check_int(allows(policy, texts[i], NULL), allowed);
    }
    address_policy_free(policy);
}

static const char *const never[] = {
    "169.254.169.254",
    "169.254.0.0",
    "169.254.255.255",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "febf:ffff::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b::100.100.100.200",
    "64:ff9b:1::169.254.169.254",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:ffa9:fe:a9fe::",
    "64:ff9b:1:ffff:a9:fea9:fe00:0",
    "2002:a9fe:a9fe::1",
    "2002:6464:64c8::",
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2",
    "2001:db8::5efe:169.254.169.254",
    "2001:db8::200:5efe:169.254.169.254",
};

TEST(link_local_and_metadata_addresses_are_refused_in_every_spelling)
{
    check_all(NULL, never, array_len(never), false);
    check_all("", never, array_len(never), false);
    check_all("10.0.0.0/8", never, array_len(never), false);
}

TEST(their_neighbours_are_allowed)
{
    static const char *const right[] = {
        "169.253.255.255",
        "169.255.0.0",
        "100.100.100.199",
        "100.100.100.201",
        "168.63.129.17",
        "192.0.0.191",
        "127.0.0.1",
        "10.0.0.1",
        "0.0.0.0",
        "8.8.8.8",
        "255.255.255.255",
        "::",
        "::1",
        "fe7f:ffff::1",
        "fec0::1",
        "fd00:ec1::254",
        "fd00:ec3::254",
        "fd20:ce::253",
        "fd00:42::43",
        "fd00::1",
        "2001:db8::1",
        "2001:db8::a9fe:a9fe",
        "::ffff:10.0.0.1",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "64:ff9b:2::169.254.169.254",
    };

    check_all(NULL, right, array_len(right), true);
    check_all(" , ", right, array_len(right), true);
}

TEST(a_denied_network_is_refused_in_every_spelling)
{
    static const char *const wrong[] = {
        "10.0.0.0",          "10.255.255.255",         "::ffff:10.1.2.3", "::10.1.2.3",
        "64:ff9b::10.1.2.3", "2002:a01:203::",         "127.0.0.1",       "127.255.0.1",
        "0.0.0.0",           "::ffff:0.0.0.0",         "192.168.7.8",     "fd12:3456::1",
        "2001:db8:ffff::1",  "2001:db8::5efe:a01:203",
    };
    static const char *const right[] = {
        "9.255.255.255", "11.0.0.0", "128.0.0.1",        "192.168.7.7",
        "192.168.7.9",   "::1",      "2001:db9::1",      "fe00::1",
        "fb00::1",       "::",       "64:ff9b::9.9.9.9",
    };
    const char *networks =
        "10.0.0.0/8,127.0.0.0/8, 192.168.7.8\tfc00::/7\n2001:db8:ffff::/48 "
        "2001:db8:0:0:0:5efe::/96";

    check_all(networks, wrong, array_len(wrong), false);
    check_all(networks, right, array_len(right), true);
}

TEST(the_unspecified_address_is_held_to_what_loopback_is)
{
    static const char *const v6[] = { "::", "::1" };
    static const char *const v4[] = { "0.0.0.0", "127.0.0.1", "::ffff:0.0.0.0",
                                      "::ffff:127.0.0.1" };

    check_all("::1", v6, array_len(v6), false);
    check_all("::1", v4, array_len(v4), true);
    check_all("127.0.0.1/32", v4, array_len(v4), false);
    check_all("127.0.0.1/32", v6, array_len(v6), true);
}

TEST(everything_can_be_denied)
{
    static const char *const v4[] = { "1.2.3.4", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4" };
    static const char *const v6[] = { "2001:db8::1", "1.2.3.4", "::1" };

    check_all("0.0.0.0/0", v4, array_len(v4), false);
    check_all("0.0.0.0/0", v6, 1, true);
    check_all("::/0", v6, array_len(v6), false);
}

TEST(a_network_may_be_cut_at_any_bit)
{
    static const char *const in[] = { "172.16.0.0", "172.31.255.255" };
    static const char *const out[] = { "172.15.255.255", "172.32.0.0" };

    check_all("172.16.0.0/12", in, 2, false);
    check_all("172.16.0.0/12", out, 2, true);
    check_all("::ffff:172.16.0.0/108", in, 2, false);
    check_all("::ffff:172.16.0.0/108", out, 2, true);
}

TEST(the_reason_is_a_sentence_with_the_address_and_the_network)
{
    struct address_policy *policy = policy_of("10.0.0.0/8 fd00::/8");
    struct error why = { 0 };

    check(!allows(policy, "10.1.2.3", &why));
    check_str(why.text, "The address 10.1.2.3 is in 10.0.0.0/8, which deny_networks "
                        "denies.");
    why = (struct error){ 0 };
    check(!allows(policy, "64:ff9b::a01:203", &why));
    check_str(why.text, "The address 64:ff9b::a01:203 (that is 10.1.2.3) is in "
                        "10.0.0.0/8, which deny_networks denies.");
    why = (struct error){ 0 };
    check(!allows(policy, "169.254.169.254", &why));
    check_str(why.text, "The address 169.254.169.254 is link-local; requests never go "
                        "there.");
    address_policy_free(policy);
}

TEST(what_is_no_internet_address_is_refused)
{
    struct sockaddr_un path = { .sun_family = AF_UNIX, .sun_path = "/run/x" };
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct error why = { 0 };
    char text[IP_TEXT_BYTES];

    check(!address_policy_allows(NULL, (struct sockaddr *)&path, sizeof(path), &why));
    check(why.text[0] != '\0');
    check(!address_policy_allows(NULL, (struct sockaddr *)&v4, 4, NULL)); /* cut */
    check_str(ip_text((struct sockaddr *)&path, sizeof(path), text), "");
    check_str(ip_text((struct sockaddr *)&v4, sizeof(v4), text), "0.0.0.0");
}

static void check_wrong(const char *networks, const char *part)
{
    struct error error = { 0 };
    struct address_policy *policy = NULL;

    check_err(address_policy_new(slice_of(networks), &error, &policy), -HF_INVALID);
    check(!policy);
    check_str(error.field, "deny_networks");
    if (!strstr(error.text, part))
        fail("\"%s\" is not in: %s", part, error.text);
    check_err(address_policy_new(slice_of(networks), NULL, &policy), -HF_INVALID);
}

TEST(a_network_that_is_none_is_named)
{
    static const char *const none[] = {
        "10.0.0.0.0/8",
        "10.0.0/8",
        "010.0.0.0/8",
        "0x0a.0.0.0/8",
        "167772160/8",
        "localhost",
        "fe80::1%lo",
        "[::1]",
        "10.0.0.0-10.0.0.9",
        "1.2.3.4;5",
        "*",
        "/8",
        "256.0.0.0/8",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };

    for (size_t i = 0; i < array_len(none); i++)
        check_wrong(none[i], "a network is written as 10.0.0.0/8 or fd00::/8");
    check_wrong("10.0.0.0/8, 10.0.0.300", "\"10.0.0.300\"");
}

TEST(a_length_that_is_none_is_named)
{
    static const char *const v4[] = { "10.0.0.0/33",          "10.0.0.0/",
                                      "10.0.0.0/-1",          "10.0.0.0/08",
                                      "10.0.0.0/8/8",         "10.0.0.0/+8",
                                      "10.0.0.0/999999999999" };
    static const char *const v6[] = { "fd00::/129", "fd00::/x", "fd00::/" };

    for (size_t i = 0; i < array_len(v4); i++)
        check_wrong(v4[i], "a number from 0 to 32");
    for (size_t i = 0; i < array_len(v6); i++)
        check_wrong(v6[i], "a number from 0 to 128");
}

TEST(a_network_with_bits_behind_its_length_is_told_the_right_one)
{
    check_wrong("10.1.2.3/8", "the network of that size is 10.0.0.0/8");
    check_wrong("fd00::1/8", "the network of that size is fd00::/8");
    check_wrong("::ffff:10.1.2.3/104", "10.0.0.0/8");
}

TEST(there_may_be_256_networks_and_no_more)
{
    char text[(LIMIT_DENY_NETWORKS + 1) * 4 + 1] = "";
    struct address_policy *policy = NULL;

    for (int i = 0; i < LIMIT_DENY_NETWORKS; i++)
        strcat(text, "::1,");
    check_ok(address_policy_new(slice_of(text), NULL, &policy));
    address_policy_free(policy);
    strcat(text, "::1,");
    check_wrong(text, "has 257 entries; it may have up to 256");
}

TEST(bytes_that_are_no_text_are_no_network)
{
    struct address_policy *policy = NULL;
    struct error error = { 0 };

    check_err(address_policy_new(SLICE("10.0.0.0\0/8"), &error, &policy), -HF_INVALID);
    check_ok(address_policy_new((struct slice){ 0 }, &error, &policy));
    address_policy_free(policy);
    address_policy_free(NULL);
}
