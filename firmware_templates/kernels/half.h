/* SPDX-License-Identifier: Apache-2.0 */
/* IEEE 754 halves (float16). */
#ifndef POET_HALF_H
#define POET_HALF_H

#include <stdint.h>

#include "poet_math.h"
#include "vfp.h"

/* Value of a half, which is exact as a float. */
static inline float poet_half_value(uint32_t bits)
{
    const uint32_t exponent = bits >> 10 & 31u;
    const uint32_t fraction = bits & 1023u;
    if (exponent == 0u) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return bits >> 15 != 0u ? -magnitude : magnitude;
    }
    const uint32_t biased = exponent == 31u ? 255u : exponent + 112u;
    return poet_float_from_bits(bits >> 15 << 31 | biased << 23 | fraction << 13);
}

/* Values of the halves of a word, the first in the lower bits. */
static inline void poet_half_values(int32_t word, float *first, float *second)
{
#if POET_HAS_VFP /* whose instructions convert halves */
    __asm__("vcvtb.f32.f16 %0, %2\n\tvcvtt.f32.f16 %1, %2"
            : "=&t"(*first), "=t"(*second)
            : "t"(poet_float_from_bits((uint32_t)word)));
#else
    *first = poet_half_value((uint32_t)word & 0xffffu);
    *second = poet_half_value((uint32_t)word >> 16);
#endif
}

/* y = values of so many halves, two in each word */
static inline void poet_values_of_halves(const int32_t *words, int32_t count, float *y)
{
    for (; count > 1; count -= 2) {
        poet_half_values(*words++, &y[0], &y[1]);
        y += 2;
    }
    if (count != 0) {
        float beyond;
        poet_half_values(*words, y, &beyond);
    }
}

#endif
