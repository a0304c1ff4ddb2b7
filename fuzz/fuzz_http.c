/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a connection's: whatever is read, and why it is refused, must not
 * depend on how the bytes were cut.  The first byte says how. */
#include <stdio.h>

#include "../tests/unit/http_splits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole, pieces;

    if (size < 1)
        return 0;
    struct slice bytes = { (const char *)data + 1, size - 1 };
    buf_init(&whole, 16 << 20);
    buf_init(&pieces, 16 << 20);
    split_read(bytes, SIZE_MAX / 2, &whole);
    split_read(bytes, 1 + (size_t)data[0] % 64, &pieces);
    if (whole.n != pieces.n || (whole.n && memcmp(whole.p, pieces.p, whole.n) != 0)) {
        fprintf(stderr, "in one piece:\n%s\nin pieces of %d:\n%s\n",
                whole.p ? whole.p : "", 1 + data[0] % 64, pieces.p ? pieces.p : "");
        abort();
    }
    buf_release(&whole);
    buf_release(&pieces);
    return 0;
}
