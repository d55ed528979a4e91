/* SPDX-License-Identifier: Apache-2.0 */
/* 2-D convolution whose weights are packed: see packed.h, and conv2d.h for the operands. */
#ifndef POET_PACKED_CONV2D_H
#define POET_PACKED_CONV2D_H

#include "conv2d.h"
#include "packed.h"

typedef void poet_conv2d_of_slice_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                      const float *b, float *y);
typedef void poet_conv2d_input_of_slice_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                            float *dx);

struct poet_packed_conv2d {
    struct poet_packed packed;
    struct poet_conv2d layer; /* of a slice */
    poet_conv2d_of_slice_f32 *kernel;
};

struct poet_packed_conv2d_input {
    struct poet_packed packed;
    struct poet_conv2d layer; /* of a slice */
    poet_conv2d_input_of_slice_f32 *kernel;
};

/* y as of the layer with weights in floats; b and scales may be NULL. */
void poet_packed_conv2d_forward_f32(const struct poet_packed_conv2d *op, const float *x, const int32_t *words,
                                    const float *b, const float *scales, float *y, void *workspace);

/* dx as of the layer with weights in floats; scales may be NULL. */
void poet_packed_conv2d_backward_input_f32(const struct poet_packed_conv2d_input *op, const int32_t *words,
                                           const float *dy, const float *scales, float *dx, void *workspace);

#endif
