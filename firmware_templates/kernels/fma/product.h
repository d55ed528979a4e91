/* SPDX-License-Identifier: Apache-2.0 */
/* How products are added to sums on boards of arithmetic class "fma": in one instruction, which rounds once. */
#ifndef POET_PRODUCT_H
#define POET_PRODUCT_H

/* A sum may be -0 then: of a product that is too small for a float. */
#define POET_FUSED true

#ifdef __aarch64__

#include <arm_neon.h>

#define poet_add_products_16(sum, factor, numbers) vfmaq_n_f32(sum, numbers, factor)

#else

/* What follows is for computers that have the instruction; a program asks before it begins. */
#ifndef __FMA__
#ifdef __clang__
#error "arithmetic class fma needs -mavx2 -mfma"
#endif
#pragma GCC target("avx2,fma")
#endif

typedef float poet_4_floats __attribute__((vector_size(16)));
typedef float poet_8_floats __attribute__((vector_size(32)));

static inline poet_4_floats poet_add_products_16(poet_4_floats sum, float factor, poet_4_floats numbers)
{
    const poet_4_floats factors = {factor, factor, factor, factor};
    return __builtin_ia32_vfmaddps(factors, numbers, sum);
}

static inline poet_8_floats poet_add_products_32(poet_8_floats sum, float factor, poet_8_floats numbers)
{
    const poet_8_floats factors = {factor, factor, factor, factor, factor, factor, factor, factor};
    return __builtin_ia32_vfmaddps256(factors, numbers, sum);
}

#endif

static inline float poet_add_product(float sum, float factor, float other)
{
    return __builtin_fmaf(factor, other, sum);
}

#endif
