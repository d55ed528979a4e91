/* SPDX-License-Identifier: Apache-2.0 */
/* A run of positions along one axis of a tensor [outer, extent, inner], its gradient, and two tensors one
 * after the other along an axis. */
#ifndef POET_SLICE_H
#define POET_SLICE_H

#include <stdint.h>

struct poet_slice {
    int32_t outer;
    int32_t extent;
    int32_t inner;
    int32_t start;
    int32_t length;
};

/* y[outer, length, inner] = x[:, start : start + length, :] */
void poet_slice_f32(const struct poet_slice *op, const float *x, float *y);

/* dx[outer, extent, inner] is dy[outer, length, inner] from start on, and 0 elsewhere */
void poet_slice_backward_f32(const struct poet_slice *op, const float *dy, float *dx);

struct poet_concat {
    int32_t outer;
    int32_t a_row; /* elements of a and of b per outer position */
    int32_t b_row;
};

/* y[outer, a_row + b_row] = concatenation of a[outer, a_row] and b[outer, b_row] */
void poet_concat_f32(const struct poet_concat *op, const float *a, const float *b, float *y);

#endif
