/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as deny_networks, and any sixteen bytes as an address: a text is accepted
 * or refused with a sentence, link-local is refused whatever the text says, and what
 * a policy refuses is refused for a reason. */
#include <netinet/in.h>
#include <stdio.h>

#include "net/address_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool held, const char *what)
{
    if (!held) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr = { htonl(0xa9fea9fe) } };
    struct address_policy *policy = NULL;
    struct error error = { 0 }, why = { 0 };

    if (size < 16)
        return 0;
    memcpy(&v6.sin6_addr, data, 16);
    struct slice text = { (const char *)data + 16, size - 16 };
    if (address_policy_new(text, &error, &policy) < 0) {
        expect(error.text[0] != '\0', "refused without a sentence");
        expect(!policy, "a policy in spite of the refusal");
        return 0;
    }
    bool allowed =
        address_policy_allows(policy, (struct sockaddr *)&v6, sizeof(v6), &why);
    expect(allowed == (why.text[0] == '\0'), "a reason without a refusal, or none");
    expect(!allowed ||
               address_policy_allows(NULL, (struct sockaddr *)&v6, sizeof(v6), NULL),
           "a policy allows what is always refused");
    expect(!address_policy_allows(policy, (struct sockaddr *)&v4, sizeof(v4), NULL),
           "a policy allows link-local");
    address_policy_free(policy);
    return 0;
}
