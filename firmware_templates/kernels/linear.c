/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

void poet_linear_backward_bias_f32(const struct poet_linear_bias *op, const float *dy, float *db)
{
    for (int32_t o = 0; o < op->out_features; o++) {
        const float *value = dy + o;
        float sum = 0.0f;
        for (int32_t n = 0; n < op->batch; n++) {
            sum += *value;
            value += op->out_features;
        }
        db[o] = sum;
    }
}
