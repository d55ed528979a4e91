/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "runs.h"

#include "poet_memory.h"

void poet_copy_runs(void *to, uint32_t to_stride, const void *from, uint32_t from_stride, uint32_t count, uint32_t bytes)
{
    for (uint32_t i = 0u; i < count; i++) {
        memcpy((uint8_t *)to + i * to_stride, (const uint8_t *)from + i * from_stride, bytes);
    }
}
