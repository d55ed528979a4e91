/* SPDX-License-Identifier: Apache-2.0 */
#include "sgd.h"

void poet_sgd_step_f32(const struct poet_gradient_sink *sink, int32_t index, float gradient)
{
    const struct poet_sgd *op = (const struct poet_sgd *)(const void *)sink->update;
    float step = poet_decayed_f32(sink, index, gradient);
    if (sink->first != NULL) {
        const float velocity = step + op->momentum * sink->first[index];
        sink->first[index] = velocity;
        step = op->nesterov ? step + op->momentum * velocity : velocity;
    }
    sink->parameter[index] -= poet_learning_rate_f32(sink) * step;
}
