/* SPDX-License-Identifier: Apache-2.0 */
/* ReLU and ReLU6, forward and backward, element by element. */
#ifndef POET_RELU_H
#define POET_RELU_H

#include <stdint.h>

struct poet_relu {
    int32_t elements;
};

/* y = max(x, 0) */
void poet_relu_forward_f32(const struct poet_relu *op, const float *x, float *y);

/* dx = dy where y > 0, else 0. The mask is taken from the output, so x need not be kept. */
void poet_relu_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx);

/* y = min(max(x, 0), 6) */
void poet_relu6_forward_f32(const struct poet_relu *op, const float *x, float *y);

/* dx = dy where 0 < y < 6, else 0 */
void poet_relu6_backward_f32(const struct poet_relu *op, const float *y, const float *dy,
                             float *dx);

/* Bit i % 32 of words[i / 32] is 1 where the gradient passes element i of output y, for a gradient that reads these instead of y. */
void poet_relu_mask_f32(const struct poet_relu *op, const float *y, int32_t *words);
void poet_relu6_mask_f32(const struct poet_relu *op, const float *y, int32_t *words);

/* dx = dy where the bit is 1, else 0 */
void poet_relu_masked_backward_f32(const struct poet_relu *op, const int32_t *words, const float *dy, float *dx);

#endif
