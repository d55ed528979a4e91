/* SPDX-License-Identifier: Apache-2.0 */
/* Single-precision functions that give the same bits on every machine.
 *
 * Only IEEE additions, multiplications, divisions and square roots are used, each rounded on its own,
 * so a file that includes this is compiled with -ffp-contract=off and without -ffast-math. Errors are
 * below 2 units in the last place everywhere. Subnormals are supported. Every NaN returned is 0x7fc00000.
 */
#ifndef POET_MATH_H
#define POET_MATH_H

#include <stdint.h>

/* e^x; infinity from about 88.73 on, 0 below about -103.97. */
float poet_expf(float x);

/* Natural logarithm; -infinity at 0, NaN below. */
float poet_logf(float x);

/* Square root, correctly rounded; -0 at -0, NaN below. Compile with -fno-math-errno. */
float poet_sqrtf(float x);

/* Correctly rounded square root in integer arithmetic: what poet_sqrtf is where no instruction does it. */
float poet_sqrtf_soft(float x);

/* Whether none of so many numbers is infinite or not a number. */
int poet_all_finite(const float *values, uint32_t count);

/* The bits of a float, and the float of these bits. */
static inline uint32_t poet_float_bits(float x)
{
    const union {
        float value;
        uint32_t bits;
    } cast = {.value = x};
    return cast.bits;
}

static inline float poet_float_from_bits(uint32_t bits)
{
    const union {
        uint32_t bits;
        float value;
    } cast = {.bits = bits};
    return cast.value;
}

/* poet_sqrtf without a call: where one would take a good part of what is computed. */
static inline float poet_inline_sqrtf(float x)
{
#if (defined(__ARM_FP) && (__ARM_FP & 4)) || defined(__SSE2__)
    return x >= 0.0f ? __builtin_sqrtf(x) : poet_float_from_bits(0x7fc00000u);
#else
    return poet_sqrtf_soft(x);
#endif
}

/* tanh(centre + t) = c[0] + t (c[1] + ... t c[5]). */
struct poet_tanh_piece {
    float centre;
    float c[6];
};
extern const struct poet_tanh_piece poet_tanh_pieces[];

/* Hyperbolic tangent, by a polynomial for each piece of its range: with an FPU it takes the same time for every number.
 * Inline, so that a loop has its constants at hand. */
static inline float poet_tanhf(float x)
{
    const uint32_t sign = poet_float_bits(x) & 0x80000000u;
    uint32_t bits = poet_float_bits(x) ^ sign;
    if (bits > 0x7f800000u) {
        return poet_float_from_bits(0x7fc00000u);
    }
    bits = bits < 0x41140000u ? bits : 0x41140000u; /* 9.25: from about 9.01 on, the result is 1 */
    /* The exponent and the first two bits behind it: the first piece is what is below 1/8. */
    const int32_t index = (int32_t)(bits >> 21) - 495;
    const struct poet_tanh_piece *piece = &poet_tanh_pieces[index < 0 ? 0 : index];
    const float t = poet_float_from_bits(bits) - piece->centre;
    float y = piece->c[5];
    y = y * t + piece->c[4];
    y = y * t + piece->c[3];
    y = y * t + piece->c[2];
    y = y * t + piece->c[1];
    y = y * t + piece->c[0];
    return poet_float_from_bits(poet_float_bits(y) | sign);
}

#endif
