/* SPDX-License-Identifier: Apache-2.0 */
/* The four functions that GCC may call by itself, which a freestanding build must provide (GCC manual, section 2.1).
 * Hosted builds take them from the C library and leave poet_memory.c out. */
#ifndef POET_MEMORY_H
#define POET_MEMORY_H

#include <stddef.h>

/* Link-time optimization removes functions without callers before it adds such calls. */
#define POET_CALLED_BY_COMPILER __attribute__((used))

POET_CALLED_BY_COMPILER void *memcpy(void *restrict target, const void *restrict source, size_t bytes);
POET_CALLED_BY_COMPILER void *memmove(void *target, const void *source, size_t bytes);
POET_CALLED_BY_COMPILER void *memset(void *target, int value, size_t bytes);
POET_CALLED_BY_COMPILER int memcmp(const void *left, const void *right, size_t bytes);

#endif
