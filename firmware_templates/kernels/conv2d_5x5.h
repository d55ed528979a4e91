/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits: 5x5 kernels with stride 1 and 2 elements of padding on each side, on planes of 4
 * columns, or of 6 at least, or with stride 2 to planes of 4 columns at least. dw: where a group has 2 output channels at least; planes
 * of dy may have 2 columns, for kernels with stride 2. */
#ifndef POET_CONV2D_5X5_H
#define POET_CONV2D_5X5_H

#include "conv2d.h"

void poet_conv2d_5x5_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                 const float *b, float *y);
void poet_conv2d_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                        const float *dy, float *dx);
void poet_conv2d_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                         const float *dy, float *dw);
void poet_conv2d_5x5_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, const struct poet_update *update,
                                                const float *pace, float *w, float *first,
                                                float *second, float *sum);

void poet_conv2d_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                      const float *b, float *y);
void poet_conv2d_5x5_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                             const float *dy, float *dx);
void poet_conv2d_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                              const float *dy, float *dw);
void poet_conv2d_5x5_by_2_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                     const float *dy,
                                                     const struct poet_update *update,
                                                     const float *pace, float *w, float *first,
                                                     float *second, float *sum);

#endif
