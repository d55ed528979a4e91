/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that are the mean of a function of each prediction and its target, and their gradients.
 *
 *   prediction, target, dprediction   [batch][features]
 *   loss                              [1]
 *
 * dprediction may be the buffer of prediction or of target.
 */
#ifndef POET_MEAN_LOSSES_H
#define POET_MEAN_LOSSES_H

#include <stdint.h>

struct poet_mean_loss {
    int32_t batch;
    int32_t features;
};

/* |prediction - target| */
void poet_l1_forward_f32(const struct poet_mean_loss *op, const float *prediction, const float *target,
                         float *loss);
void poet_l1_backward_f32(const struct poet_mean_loss *op, const float *prediction, const float *target,
                          float *dprediction);

/* e^2 / 2 for an error |e| up to 1, |e| - 1/2 beyond */
void poet_huber_forward_f32(const struct poet_mean_loss *op, const float *prediction,
                            const float *target, float *loss);
void poet_huber_backward_f32(const struct poet_mean_loss *op, const float *prediction,
                             const float *target, float *dprediction);

/* -t log s(p) - (1 - t) log(1 - s(p)) of logits p, with the logistic function s */
void poet_binary_cross_entropy_forward_f32(const struct poet_mean_loss *op, const float *prediction,
                                           const float *target, float *loss);
void poet_binary_cross_entropy_backward_f32(const struct poet_mean_loss *op, const float *prediction,
                                            const float *target, float *dprediction);

#endif
