/* SPDX-License-Identifier: Apache-2.0 */
/* How products are added to sums on boards of arithmetic class "fma": in one instruction, which rounds once. */
#ifndef POET_PRODUCT_H
#define POET_PRODUCT_H

#ifdef __aarch64__

#include <arm_neon.h>

#define poet_add_products_16(sum, factor, numbers) vfmaq_n_f32(sum, numbers, factor)

#else

/* What follows is for computers that have the instruction; the program asks before it begins. */
#ifndef __FMA__
#pragma GCC target("avx2,fma")
#endif

#include <immintrin.h>

#define poet_add_products_16(sum, factor, numbers) _mm_fmadd_ps(_mm_set1_ps(factor), numbers, sum)
#define poet_add_products_32(sum, factor, numbers) \
    _mm256_fmadd_ps(_mm256_set1_ps(factor), numbers, sum)

#endif

static inline float poet_add_product(float sum, float factor, float other)
{
    return __builtin_fmaf(factor, other, sum);
}

#endif
