/* SPDX-License-Identifier: Apache-2.0 */
/* The dense layer of linear.h for cores with vectors of floats, bit-identical. */
#ifndef POET_LINEAR_VECTORS_H
#define POET_LINEAR_VECTORS_H

#include "linear.h"
#include "vectors.h"

void poet_linear_vectors_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                                     const float *b, float *y);

void poet_linear_vectors_backward_input_f32(const struct poet_linear *op, const float *w,
                                            const float *dy, float *dx);

void poet_linear_vectors_backward_weight_f32(const struct poet_linear *op, const float *x,
                                             const float *dy, const struct poet_gradient_sink *dw);

#endif
