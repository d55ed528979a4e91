/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping gradients by their global norm, by PyTorch's rule.
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

/* sum = before + the sum of gradient squared; `before` counts as 0 where it is NULL */
void poet_square_sum_f32(const struct poet_square_sum *op, const float *gradient,
                         const float *before, float *sum);

/* factor = max_norm / (sqrt(sum) + 1e-6), but 1 where that is more; NaN where `sum` is */
void poet_clip_factor_f32(const struct poet_clip_factor *op, const float *sum, float *factor);

#endif
