/* SPDX-License-Identifier: Apache-2.0 */
/* GCC would recognise these loops and replace them by calls of the functions they implement; clang does not with
 * -ffreestanding. */
#ifndef __clang__
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "poet_memory.h"

#include <stdint.h>

#define WORD sizeof(uint32_t)

/* Words that may alias any type, as memory functions require. Unaligned data goes byte by byte: only text, since
 * tensors are words. */
typedef uint32_t __attribute__((may_alias)) word;

/* True if addresses and sizes, combined by or, are all multiples of a word. */
static int are_words(uintptr_t bits)
{
    return (bits & (WORD - 1u)) == 0u;
}

void *memcpy(void *restrict target, const void *restrict source, size_t bytes)
{
    uint8_t *to = target;
    const uint8_t *from = source;
    uint8_t *const end = to + bytes;
    if (are_words((uintptr_t)target | (uintptr_t)source | bytes)) {
        for (; to != end; to += WORD, from += WORD) {
            *(word *)(void *)to = *(const word *)(const void *)from;
        }
    }
    while (to != end) {
        *to++ = *from++;
    }
    return target;
}

/* Each byte is read before it is overwritten: copying starts at the end that data moves away from. */
void *memmove(void *target, const void *source, size_t bytes)
{
    uint8_t *to = target;
    const uint8_t *from = source;
    if ((uintptr_t)to < (uintptr_t)from) {
        for (size_t i = 0u; i < bytes; i++) {
            to[i] = from[i];
        }
    } else {
        for (size_t i = bytes; i > 0u; i--) {
            to[i - 1u] = from[i - 1u];
        }
    }
    return target;
}

void *memset(void *target, int value, size_t bytes)
{
    uint8_t *to = target;
    uint8_t *const end = to + bytes;
    const uint8_t byte = (uint8_t)value;
    if (are_words((uintptr_t)target | bytes)) {
        const word pattern = byte * 0x01010101u;
        for (; to != end; to += WORD) {
            *(word *)(void *)to = pattern;
        }
    }
    while (to != end) {
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
