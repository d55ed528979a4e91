/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping of gradients by their global norm, as in PyTorch.
 *
 *   gradient              [elements]
 *   before, sum, factor   [1]
 */
#ifndef POET_CLIP_NORM_H
#define POET_CLIP_NORM_H

#include <stdint.h>

struct poet_square_sum {
    int32_t elements;
};

struct poet_clip_factor {
    float max_norm;
};

/* sum = before + sum of gradient squared; `before` is NULL for 0 */
void poet_square_sum_f32(const struct poet_square_sum *op, const float *gradient,
                         const float *before, float *sum);

/* factor = min(1, max_norm / (sqrt(sum) + 1e-6)); NaN if `sum` is NaN */
void poet_clip_factor_f32(const struct poet_clip_factor *op, const float *sum, float *factor);

#endif
