/* SPDX-License-Identifier: Apache-2.0 */
#include "rmsprop.h"

#include "poet_math.h"

void poet_rmsprop_step_f32(const struct poet_gradient_sink *sink, int32_t index, float gradient)
{
    const struct poet_rmsprop *op = (const struct poet_rmsprop *)(const void *)sink->update;
    gradient = poet_decayed_f32(sink, index, gradient);
    const float mean = op->alpha * sink->first[index] + op->share * (gradient * gradient);
    sink->first[index] = mean;
    float step = gradient / (poet_sqrtf(mean) + op->eps);
    if (sink->second != NULL) {
        step += op->momentum * sink->second[index];
        sink->second[index] = step;
    }
    sink->parameter[index] -= poet_learning_rate_f32(sink) * step;
}
