/* SPDX-License-Identifier: Apache-2.0 */
/* 2-D convolution whose weights are packed: see packed.h, and conv2d.h for the operands. */
#ifndef POET_PACKED_CONV2D_H
#define POET_PACKED_CONV2D_H

#include "conv2d.h"
#include "packed.h"

struct poet_packed_conv2d {
    struct poet_packed packed;
    struct poet_conv2d layer; /* of a slice */
};

/* y as of the layer with weights in floats; b and scales may be NULL. */
void poet_packed_conv2d_forward_f32(const struct poet_packed_conv2d *op, const float *x, const int32_t *words,
                                    const float *b, const float *scales, float *y, void *workspace);

/* dx as of the layer with weights in floats; scales may be NULL. */
void poet_packed_conv2d_backward_input_f32(const struct poet_packed_conv2d *op, const int32_t *words,
                                           const float *dy, const float *scales, float *dx, void *workspace);

#endif
