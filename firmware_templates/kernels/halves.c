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

static float value_of(uint32_t half)
{
    if ((half & INFINITE_HALF) == INFINITE_HALF) {
        return poet_float_from_bits(half >> 15 << 31 | INFINITE | (half & 1023u) << 13);
    }
    return poet_half_value(half);
}

void poet_to_halves_f32(const struct poet_halves *op, const float *x, int32_t *words)
{
    int32_t left = op->elements;
    for (; left > 1; left -= 2) {
        const uint32_t low = half_of(*x++);
        *words++ = (int32_t)(half_of(*x++) << 16 | low);
    }
    if (left != 0) {
        *words = (int32_t)half_of(*x);
    }
}

void poet_from_halves_f32(const struct poet_halves *op, const int32_t *words, float *y)
{
    int32_t left = op->elements;
    for (; left > 1; left -= 2) {
        const uint32_t pair = (uint32_t)*words++;
        *y++ = value_of(pair & 0xffffu);
        *y++ = value_of(pair >> 16);
    }
    if (left != 0) {
        *y = value_of((uint32_t)*words & 0xffffu);
    }
}
