/* SPDX-License-Identifier: Apache-2.0 */
/* The mean squared error over all elements, and its gradient.
 *
 *   prediction, target, dprediction   [batch][features]
 *   loss                              [1]
 */
#ifndef POET_MSE_H
#define POET_MSE_H

#include <stdint.h>

struct poet_mse {
    int32_t batch;
    int32_t features;
};

/* loss = mean of (prediction - target)^2 */
void poet_mse_forward_f32(const struct poet_mse *op, const float *prediction, const float *target,
                          float *loss);

/* dprediction = 2 * (prediction - target) / (batch * features) */
void poet_mse_backward_f32(const struct poet_mse *op, const float *prediction, const float *target,
                           float *dprediction);

#endif
