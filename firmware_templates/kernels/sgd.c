/* SPDX-License-Identifier: Apache-2.0 */
#include "sgd.h"

void poet_sgd_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                       const float *gradient)
{
    const struct poet_sgd *op = (const struct poet_sgd *)(const void *)sink->update;
    const float rate = poet_learning_rate_f32(sink);
    const float decay = op->update.weight_decay;
    const float momentum = op->momentum;
    const int32_t nesterov = op->nesterov;
    float *parameter = sink->parameter + index;
    float *first = poet_from(sink->first, index);
    for (int32_t i = 0; i < count; i++) {
        float step = poet_decayed_f32(gradient[i], decay, parameter[i]);
        if (first != NULL) {
            const float velocity = step + momentum * first[i];
            first[i] = velocity;
            step = nesterov ? step + momentum * velocity : velocity;
        }
        parameter[i] -= rate * step;
    }
}
