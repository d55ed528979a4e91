/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits, of depthwise 3x3 convolutions of any stride and padding. */
#ifndef POET_CONV2D_DEPTHWISE_EACH_H
#define POET_CONV2D_DEPTHWISE_EACH_H

#include "conv2d.h"

void poet_conv2d_depthwise_each_forward_f32(const struct poet_conv2d *op, const float *x,
                                               const float *w, const float *b, float *y);
void poet_conv2d_depthwise_each_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                      const float *dy, float *dx);

#endif
