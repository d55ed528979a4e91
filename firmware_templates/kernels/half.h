/* SPDX-License-Identifier: Apache-2.0 */
/* IEEE 754 halves (float16). */
#ifndef POET_HALF_H
#define POET_HALF_H

#include <stdint.h>

#include "poet_math.h"
#include "vfp.h"

/* Value of a finite half, which is exact as a float. */
static inline float poet_half_value(uint32_t bits)
{
#if POET_HAS_VFP /* whose instructions convert halves */
    float value;
    __asm__("vcvtb.f32.f16 %0, %1" : "=t"(value) : "t"(poet_float_from_bits(bits)));
    return value;
#else
    const uint32_t exponent = bits >> 10 & 31u;
    const uint32_t fraction = bits & 1023u;
    if (exponent == 0u) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return bits >> 15 != 0u ? -magnitude : magnitude;
    }
    return poet_float_from_bits(bits >> 15 << 31 | (exponent + 112u) << 23 | fraction << 13);
#endif
}

#endif
