/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax of each row, and its gradient. y may be the buffer of x, and dx that of y or dy. */
#ifndef POET_SOFTMAX_H
#define POET_SOFTMAX_H

#include <stdint.h>

struct poet_softmax {
    int32_t rows;
    int32_t length;
};

/* y = e^x / sum of e^x over the row */
void poet_softmax_forward_f32(const struct poet_softmax *op, const float *x, float *y);

/* dx = y * (dy - sum of dy * y over the row) */
void poet_softmax_backward_f32(const struct poet_softmax *op, const float *y, const float *dy,
                               float *dx);

#endif
