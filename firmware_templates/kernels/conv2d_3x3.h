/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits: 3x3 kernels with stride 1 and 1 element of padding on each side, on planes of
 * 2 rows and 4 columns at least. dw: where 4 divides the columns and the output channels of a group. */
#ifndef POET_CONV2D_3X3_H
#define POET_CONV2D_3X3_H

#include "conv2d.h"

void poet_conv2d_3x3_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                 const float *b, float *y);
void poet_conv2d_3x3_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                        const float *dy, float *dx);
void poet_conv2d_3x3_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                         const float *dy, float *dw);
void poet_conv2d_3x3_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, const struct poet_update *update,
                                                const float *pace, float *w, float *first,
                                                float *second, float *sum);

#endif
