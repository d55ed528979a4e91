/* SPDX-License-Identifier: Apache-2.0 */
#include "halves.h"

#include "half.h"
#include "poet_math.h"

#define INFINITE 0x7f800000u        /* bits of an infinite float */
#define SMALLEST_NORMAL 0x38800000u /* bits of 2^-14 */
#define BIAS 0x38000000u            /* difference of the exponents' biases, 112, in place */
#define LARGEST_HALF 0x7bffu
#define INFINITE_HALF 0x7c00u
#define NAN_HALF 0x7e00u

static uint32_t half_of(float x)
{
    const uint32_t bits = poet_float_bits(x);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > INFINITE) {
        return NAN_HALF;
    }
    uint32_t half;
    if (magnitude == INFINITE) {
        half = INFINITE_HALF;
    } else if (magnitude < SMALLEST_NORMAL) {
        /* The sum's last place is 2^-24, that of a subnormal half: adding 0.5 rounds. */
        half = poet_float_bits(poet_float_from_bits(magnitude) + 0.5f) - poet_float_bits(0.5f);
    } else {
        half = (magnitude - BIAS + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
        half = half > LARGEST_HALF ? LARGEST_HALF : half;
    }
    return bits >> 31 << 15 | half;
}

/* Two halves, the first in the lower bits. */
static uint32_t pair_of(float first, float second)
{
#if POET_HAS_VFP
    float both;
    __asm__("vcvtb.f16.f32 %0, %1\n\tvcvtt.f16.f32 %0, %2" : "=&t"(both) : "t"(first), "t"(second));
    const uint32_t pair = poet_float_bits(both);
    /* The instructions make infinite what is beyond the largest half, and keep what a NaN carries. */
    if ((((pair & 0x7c007c00u) + 0x04000400u) & 0x80008000u) == 0u) {
        return pair;
    }
#endif
    return half_of(second) << 16 | half_of(first);
}

void poet_to_halves_f32(const struct poet_halves *op, const float *x, int32_t *words)
{
    int32_t left = op->elements;
    for (; left > 1; left -= 2) {
        *words++ = (int32_t)pair_of(x[0], x[1]);
        x += 2;
    }
    if (left != 0) {
        *words = (int32_t)pair_of(*x, 0.0f);
    }
}

void poet_from_halves_f32(const struct poet_halves *op, const int32_t *words, float *y)
{
    poet_values_of_halves(words, op->elements, y);
}
