/* SPDX-License-Identifier: Apache-2.0 */
/* GCC would recognise these loops and replace them by calls of the very functions they make up; clang does not
 * where it is told -ffreestanding. */
#ifndef __clang__
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "poet_memory.h"

#include <stdint.h>

#define WORD sizeof(uint32_t)

/* Words that may alias any other type, as memory functions must. */
typedef uint32_t __attribute__((may_alias)) word;

static int word_aligned(const void *a, const void *b)
{
    return (((uintptr_t)a | (uintptr_t)b) & (WORD - 1u)) == 0u;
}

void *memcpy(void *restrict target, const void *restrict source, size_t bytes)
{
    uint8_t *to = target;
    const uint8_t *from = source;
    if (word_aligned(to, from)) {
        for (; bytes >= WORD; bytes -= WORD, to += WORD, from += WORD) {
            *(word *)(void *)to = *(const word *)(const void *)from;
        }
    }
    while (bytes-- > 0u) {
        *to++ = *from++;
    }
    return target;
}

void *memset(void *target, int value, size_t bytes)
{
    uint8_t *to = target;
    const uint8_t byte = (uint8_t)value;
    if (word_aligned(to, to)) {
        const word pattern = byte * 0x01010101u;
        for (; bytes >= WORD; bytes -= WORD, to += WORD) {
            *(word *)(void *)to = pattern;
        }
    }
    while (bytes-- > 0u) {
        *to++ = byte;
    }
    return target;
}

int memcmp(const void *left, const void *right, size_t bytes)
{
    const uint8_t *a = left;
    const uint8_t *b = right;
    for (; bytes > 0u; bytes--, a++, b++) {
        if (*a != *b) {
            return *a < *b ? -1 : 1;
        }
    }
    return 0;
}
