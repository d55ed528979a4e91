/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of linear.h for layers with at most 32 products, bit-identical. */
#ifndef POET_LINEAR_SMALL_H
#define POET_LINEAR_SMALL_H

#include "linear.h"

void poet_linear_small_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                                   const float *b, float *y);
void poet_linear_small_backward_input_f32(const struct poet_linear *op, const float *w,
                                          const float *dy, float *dx);
void poet_linear_small_backward_weight_f32(const struct poet_linear *op, const float *x,
                                           const float *dy, float *dw);
void poet_linear_small_backward_weight_update_f32(const struct poet_linear *op, const float *x,
                                                  const float *dy, const struct poet_update *update,
                                                  const float *pace, float *w, float *first,
                                                  float *second, float *sum);

#endif
