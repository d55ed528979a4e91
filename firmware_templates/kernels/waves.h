/* SPDX-License-Identifier: Apache-2.0 */
/* Sine and cosine, element by element. y may be the buffer of x. */
#ifndef POET_WAVES_H
#define POET_WAVES_H

#include <stdint.h>

struct poet_waves {
    int32_t elements;
};

/* y = sin x; 0 beyond 2^24, where adjacent floats are a period apart; NaN for infinity. */
void poet_sin_f32(const struct poet_waves *op, const float *x, float *y);

/* y = cos x; 0 beyond 2^24; NaN for infinity. */
void poet_cos_f32(const struct poet_waves *op, const float *x, float *y);

#endif
