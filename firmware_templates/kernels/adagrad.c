/* SPDX-License-Identifier: Apache-2.0 */
#include "adagrad.h"

#include "poet_math.h"

void poet_adagrad_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                           const float *gradient)
{
    const struct poet_adagrad *op = (const struct poet_adagrad *)(const void *)sink->update;
    const float rate = poet_learning_rate_f32(sink);
    float *parameter = sink->parameter + index;
    float *first = sink->first + index;
    for (int32_t i = 0; i < count; i++) {
        const float decayed = poet_decayed_f32(gradient[i], op->update.weight_decay, parameter[i]);
        const float sum = first[i] + decayed * decayed;
        first[i] = sum;
        parameter[i] -= rate * (decayed / (poet_sqrtf(sum) + op->eps));
    }
}
