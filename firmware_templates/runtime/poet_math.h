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

/* Hyperbolic tangent. */
float poet_tanhf(float x);

/* Correctly rounded square root in integer arithmetic: what poet_sqrtf is where no instruction does it. */
float poet_sqrtf_soft(float x);

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

#endif
