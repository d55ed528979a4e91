/* SPDX-License-Identifier: Apache-2.0 */
#include "relu.h"

void poet_relu_forward_f32(const struct poet_relu *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}

void poet_relu_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx)
{
    for (int32_t i = 0; i < op->elements; i++) {
        dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
    }
}

void poet_relu6_forward_f32(const struct poet_relu *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        const float floored = x[i] > 0.0f ? x[i] : 0.0f;
        y[i] = floored < 6.0f ? floored : 6.0f;
    }
}

void poet_relu6_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx)
{
    for (int32_t i = 0; i < op->elements; i++) {
        dx[i] = y[i] > 0.0f && y[i] < 6.0f ? dy[i] : 0.0f;
    }
}
