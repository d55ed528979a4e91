/* SPDX-License-Identifier: Apache-2.0 */
#include "softmax.h"

#include "poet_math.h"

/* Exponentials are relative to the largest element, so that they cannot overflow. */
void poet_softmax_forward_f32(const struct poet_softmax *op, const float *x, float *y)
{
    for (int32_t row = 0; row < op->rows; row++) {
        float largest = x[0];
        for (int32_t i = 1; i < op->length; i++) {
            if (x[i] > largest) {
                largest = x[i];
            }
        }
        float sum = 0.0f;
        for (int32_t i = 0; i < op->length; i++) {
            y[i] = poet_expf(x[i] - largest);
            sum += y[i];
        }
        for (int32_t i = 0; i < op->length; i++) {
            y[i] = y[i] / sum;
        }
        x += op->length;
        y += op->length;
    }
}

void poet_softmax_backward_f32(const struct poet_softmax *op, const float *y, const float *dy,
                               float *dx)
{
    for (int32_t row = 0; row < op->rows; row++) {
        float sum = 0.0f;
        for (int32_t i = 0; i < op->length; i++) {
            sum += dy[i] * y[i];
        }
        for (int32_t i = 0; i < op->length; i++) {
            dx[i] = y[i] * (dy[i] - sum);
        }
        y += op->length;
        dy += op->length;
        dx += op->length;
    }
}
