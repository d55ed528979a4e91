/* SPDX-License-Identifier: Apache-2.0 */
/* The convolutions of conv2d.h on cores with vectors of floats, to the same bits. */
#ifndef POET_CONV2D_VECTORS_H
#define POET_CONV2D_VECTORS_H

#include "conv2d.h"
#include "conv2d_pass.h"
#include "vectors.h"

void poet_conv2d_vectors_sum_f32(const struct poet_conv2d_pass *pass, const float *source, const float *weight,
                                 const float *bias, float *result);

void poet_conv2d_vectors_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                             const float *dy, const struct poet_gradient_sink *dw);

#endif
