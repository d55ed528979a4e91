/* SPDX-License-Identifier: Apache-2.0 */
/* Memory functions that GCC may call by itself, which a freestanding build must provide. It may call
 * memmove too, but has no reason to here: buffers never overlap. Hosted builds take them from the C
 * library and leave poet_memory.c out. */
#ifndef POET_MEMORY_H
#define POET_MEMORY_H

#include <stddef.h>

void *memcpy(void *restrict target, const void *restrict source, size_t bytes);
void *memset(void *target, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);

#endif
