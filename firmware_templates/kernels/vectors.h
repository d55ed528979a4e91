/* SPDX-License-Identifier: Apache-2.0 */
/* Four floats at a time, in GCC's and clang's own vectors, where the core has instructions for them. POET_SCALAR does
 * without, for tests of what other cores run. */
#ifndef POET_VECTORS_H
#define POET_VECTORS_H

#if (defined __x86_64__ || defined __aarch64__) && !defined POET_SOFT_FLOAT && \
    !defined POET_SCALAR
#define POET_HAS_VECTORS 1
#else
#define POET_HAS_VECTORS 0
#endif

#if POET_HAS_VECTORS

typedef float poet_floats __attribute__((vector_size(16)));

/* Vector type for unaligned floats. */
typedef float poet_loose __attribute__((vector_size(16), aligned(4), may_alias));

static inline poet_floats poet_load(const float *from)
{
    return *(const poet_loose *)(const void *)from;
}

static inline void poet_store(float *to, poet_floats floats)
{
    *(poet_loose *)(void *)to = floats;
}

#endif

#endif
