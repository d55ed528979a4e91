/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions for dw and dx, to the same bits: 3x3 kernels with stride 1 and 1 element of padding on each side, on planes
 * of up to 3 columns, or with stride 2, to up to 4 columns of results. A group has 4 output channels at least. For dx: with stride 2
 * to 2 columns. */
#ifndef POET_CONV2D_3X3_NARROW_H
#define POET_CONV2D_3X3_NARROW_H

#include "conv2d.h"

void poet_conv2d_3x3_narrow_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                               const float *dy, float *dx);
void poet_conv2d_3x3_narrow_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, float *dw);
void poet_conv2d_3x3_narrow_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                       const float *dy,
                                                       const struct poet_update *update,
                                                       const float *pace, float *w, float *first,
                                                       float *second, float *sum);

#endif
