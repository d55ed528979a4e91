/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one number, forward and backward, element by element. y may be the buffer of x, and dx
 * that of x, y or dy. A backward pass reads the output y where that is enough, else x. */
#ifndef POET_POINTWISE_H
#define POET_POINTWISE_H

#include <stdint.h>

struct poet_pointwise {
    int32_t elements;
    float parameter; /* parameter of the function, if any */
};

/* y = 1 / (1 + e^-x) */
void poet_sigmoid_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_sigmoid_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                               float *dx);

/* y = tanh x */
void poet_tanh_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_tanh_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                            float *dx);

/* y = x * sigmoid(x) */
void poet_silu_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_silu_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                            float *dx);

/* y = x * (1 + erf(x / sqrt 2)) / 2 */
void poet_gelu_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_gelu_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                            float *dx);

/* y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2 */
void poet_gelu_tanh_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_gelu_tanh_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                                 float *dx);

/* y = x where x > 0, else parameter * x */
void poet_leaky_relu_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_leaky_relu_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                                  float *dx);

/* y = x where x > 0, else parameter * (e^x - 1) */
void poet_elu_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_elu_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                           float *dx);

/* y = log(1 + e^x) */
void poet_softplus_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_softplus_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                                float *dx);

/* y = min(max(x + 3, 0), 6) / 6 */
void poet_hard_sigmoid_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_hard_sigmoid_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                                    float *dx);

/* y = x * min(max(x + 3, 0), 6) / 6 */
void poet_hard_swish_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_hard_swish_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                                  float *dx);

/* y = max(x, parameter) */
void poet_at_least_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_at_least_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                                float *dx);

/* y = min(x, parameter) */
void poet_at_most_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_at_most_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                               float *dx);

/* y = erf(x) */
void poet_erf_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_erf_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                           float *dx);

/* y = e^x */
void poet_exp_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_exp_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                           float *dx);

/* y = log x */
void poet_log_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_log_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                           float *dx);

/* y = sqrt x */
void poet_sqrt_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_sqrt_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                            float *dx);
void poet_norm_root_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_norm_root_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                            float *dx);

/* y = 1 / x */
void poet_reciprocal_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_reciprocal_backward_f32(const struct poet_pointwise *op, const float *y, const float *dy,
                                  float *dx);

/* y = x^2 */
void poet_square_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_square_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                              float *dx);

/* y = |x| */
void poet_abs_forward_f32(const struct poet_pointwise *op, const float *x, float *y);
void poet_abs_backward_f32(const struct poet_pointwise *op, const float *x, const float *dy,
                           float *dx);

/* y = parameter * x */
void poet_scale_forward_f32(const struct poet_pointwise *op, const float *x, float *y);

#endif
