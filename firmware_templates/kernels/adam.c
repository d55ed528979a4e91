/* SPDX-License-Identifier: Apache-2.0 */
#include "adam.h"

#include "poet_math.h"

void poet_adam_step_f32(const struct poet_gradient_sink *sink, int32_t index, float gradient)
{
    const struct poet_adam *op = (const struct poet_adam *)(const void *)sink->update;
    const float rate = sink->pace[0];
    float parameter = sink->parameter[index];
    if (op->decoupled) {
        parameter -= rate * op->update.weight_decay * parameter;
    } else {
        gradient = poet_decayed_f32(sink, index, gradient);
    }
    const float first = op->beta1 * sink->first[index] + op->share1 * gradient;
    const float second = op->beta2 * sink->second[index] + op->share2 * (gradient * gradient);
    sink->first[index] = first;
    sink->second[index] = second;
    const float root = poet_sqrtf(second * sink->pace[3]) + op->eps;
    sink->parameter[index] = parameter - rate * (first * sink->pace[2] / root);
}
