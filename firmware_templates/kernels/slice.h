/* SPDX-License-Identifier: Apache-2.0 */
/* A run of positions along one axis of a tensor [outer, extent, inner], and its gradient. */
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

#endif
