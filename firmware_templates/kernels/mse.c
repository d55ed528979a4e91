/* SPDX-License-Identifier: Apache-2.0 */
#include "mse.h"

void poet_mse_forward_f32(const struct poet_mse *op, const float *prediction, const float *target,
                          float *loss)
{
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        float sum = 0.0f;
        for (int32_t f = 0; f < op->features; f++) {
            const float error = prediction[f] - target[f];
            sum += error * error;
        }
        total += sum;
        prediction += op->features;
        target += op->features;
    }
    loss[0] = total / (float)(op->batch * op->features);
}

void poet_mse_backward_f32(const struct poet_mse *op, const float *prediction, const float *target,
                           float *dprediction)
{
    const int32_t elements = op->batch * op->features;
    const float scale = 2.0f / (float)elements;
    for (int32_t i = 0; i < elements; i++) {
        dprediction[i] = (prediction[i] - target[i]) * scale;
    }
}
