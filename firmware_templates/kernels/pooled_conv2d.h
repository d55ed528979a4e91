/* SPDX-License-Identifier: Apache-2.0 */
/* 2-D convolution, an activation and pooling in one, in slices of output channels: see conv2d.h for the
 * operands x, w and b, packed.h for packed weights.
 *
 *   y   [batch][out_channels][rows][columns], what the pooling gives
 *
 * The feature map of a slice of one sample is in the workspace, never that of all channels.
 */
#ifndef POET_POOLED_CONV2D_H
#define POET_POOLED_CONV2D_H

#include "packed_conv2d.h"
#include "epilogues.h"

struct poet_pooled_conv2d {
    struct poet_packed packed;
    struct poet_conv2d layer; /* of a slice */
    int32_t unpacked; /* weights of a slice in the workspace; 0 for floats, which are read as they are */
};

/* y = pool(activation(convolution of x)), to the bits of the three one after the other.
 *
 * b, scales and the activation may be NULL. The workspace holds a slice's weights, then its feature map. */
void poet_pooled_conv2d_forward_f32(const struct poet_pooled_conv2d *op, const float *x, const void *weights,
                                    const float *b, const float *scales, const struct poet_epilogue *activation,
                                    const struct poet_epilogue *pool, float *y, void *workspace);

#endif
