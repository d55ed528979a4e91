/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of floats to IEEE 754 halves, two in a word with the first in the lower bits, and back. */
#ifndef POET_HALVES_H
#define POET_HALVES_H

#include <stdint.h>

struct poet_halves {
    int32_t elements; /* number of floats */
};

/* words = x rounded to nearest, ties to even; a finite x beyond 65504 becomes that, and NaN 0x7e00 */
void poet_to_halves_f32(const struct poet_halves *op, const float *x, int32_t *words);

/* y = values of the halves */
void poet_from_halves_f32(const struct poet_halves *op, const int32_t *words, float *y);

#endif
