/* SPDX-License-Identifier: Apache-2.0 */
#include "rmsprop.h"

#include "poet_math.h"

void poet_rmsprop_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                           const float *gradient)
{
    const struct poet_rmsprop *op = (const struct poet_rmsprop *)(const void *)sink->update;
    const float rate = poet_learning_rate_f32(sink);
    float *parameter = sink->parameter + index;
    float *first = sink->first + index;
    float *second = poet_from(sink->second, index);
    for (int32_t i = 0; i < count; i++) {
        const float decayed = poet_decayed_f32(gradient[i], op->update.weight_decay, parameter[i]);
        const float mean = op->alpha * first[i] + op->share * (decayed * decayed);
        first[i] = mean;
        float step = decayed / (poet_sqrtf(mean) + op->eps);
        if (second != NULL) {
            step += op->momentum * second[i];
            second[i] = step;
        }
        parameter[i] -= rate * step;
    }
}
