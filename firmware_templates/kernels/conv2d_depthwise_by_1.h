/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits, of depthwise convolutions with stride > 1, computed per plane as if with stride
 * 1: forward, every position is summed and some are taken; for dX, zeros are put between those of dy. The workspace holds a
 * plane of y with stride 1: (out_height - 1) * stride_height + 1 rows, and columns likewise. */
#ifndef POET_CONV2D_DEPTHWISE_BY_1_H
#define POET_CONV2D_DEPTHWISE_BY_1_H

#include "conv2d.h"

void poet_conv2d_depthwise_by_1_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y,
                                            void *workspace);
void poet_conv2d_depthwise_by_1_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx, void *workspace);

#endif
