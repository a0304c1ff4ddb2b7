/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes: we and jansson must agree whether they are JSON, and if so what
 * they say; see tests/unit/json_oracle.h for where we differ on purpose. */
/* fuzz: libs=jansson */
#include "../tests/unit/json_oracle.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = oracle_compare((struct slice){ (const char *)data, size });

    if (why) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    return 0;
}
