/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits: convolutions whose groups have one input and one output channel, of 5x5 kernels with
 * 2 elements of padding on each side, with stride 1 or 2. */
#ifndef POET_CONV2D_DEPTHWISE_5X5_H
#define POET_CONV2D_DEPTHWISE_5X5_H

#include "conv2d.h"

void poet_conv2d_depthwise_5x5_forward_f32(const struct poet_conv2d *op, const float *x,
                                           const float *w, const float *b, float *y);
void poet_conv2d_depthwise_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                  const float *dy, float *dx);
void poet_conv2d_depthwise_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                   const float *dy, float *dw);
void poet_conv2d_depthwise_5x5_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum);

void poet_conv2d_depthwise_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                                const float *w, const float *b, float *y);
void poet_conv2d_depthwise_5x5_by_2_backward_input_f32(const struct poet_conv2d *op,
                                                       const float *w, const float *dy, float *dx);
void poet_conv2d_depthwise_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op,
                                                        const float *x, const float *dy, float *dw);
void poet_conv2d_depthwise_5x5_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum);

#endif
