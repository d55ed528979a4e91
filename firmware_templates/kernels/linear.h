/* SPDX-License-Identifier: Apache-2.0 */
/* The fully connected layer and its gradients.
 *
 *   x   [batch][in_features]
 *   w   [out_features][in_features]
 *   b   [out_features]
 *   y   [batch][out_features]
 *
 * dx, dw, db and dy have the shapes of x, w, b and y. No buffer may overlap another that is
 * written.
 */
#ifndef POET_LINEAR_H
#define POET_LINEAR_H

#include <stdint.h>

#include "update.h"

struct poet_linear {
    int32_t batch;
    int32_t in_features;
    int32_t out_features;
};

struct poet_linear_bias {
    int32_t batch;
    int32_t out_features;
};

/* y[n][o] = b[o] + sum over f of x[n][f] * w[o][f]; b may be NULL. */
void poet_linear_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                             const float *b, float *y);

/* dx[n][f] = sum over o of dy[n][o] * w[o][f] */
void poet_linear_backward_input_f32(const struct poet_linear *op, const float *w, const float *dy,
                                    float *dx);

/* dw[o][f] = sum over n of dy[n][o] * x[n][f] */
void poet_linear_backward_weight_f32(const struct poet_linear *op, const float *x, const float *dy,
                                     float *dw);

/* Fused gradient and update: dw and poet_update_f32 of w in one, bit-identical, without storing dw. */
void poet_linear_backward_weight_update_f32(const struct poet_linear *op, const float *x,
                                            const float *dy, const struct poet_update *update,
                                            const float *pace, float *w, float *first,
                                            float *second, float *sum);

/* db[o] = sum over n of dy[n][o] */
void poet_linear_backward_bias_f32(const struct poet_linear_bias *op, const float *dy, float *db);

#endif
