/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits, of 1x1 kernels without padding that leave positions out of planes of results of 4 positions
 * at least; forward of 4 input channels in a group at most. */
#ifndef POET_CONV2D_POINTWISE_APART_H
#define POET_CONV2D_POINTWISE_APART_H

#include "conv2d.h"

void poet_conv2d_pointwise_apart_forward_f32(const struct poet_conv2d *op, const float *x,
                                             const float *w, const float *b, float *y);
void poet_conv2d_pointwise_apart_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                    const float *dy, float *dx);

#endif
