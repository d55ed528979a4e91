/* SPDX-License-Identifier: Apache-2.0 */
#include "adam.h"

#include "poet_math.h"

void poet_adam_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                        const float *gradient)
{
    const struct poet_adam *op = (const struct poet_adam *)(const void *)sink->update;
    const float *pace = sink->pace;
    const float decay = op->update.weight_decay;
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = index + i;
        float parameter = sink->parameter[at];
        float decayed = gradient[i];
        if (op->decoupled) {
            parameter -= pace[0] * decay * parameter;
        } else {
            decayed = poet_decayed_f32(decayed, decay, parameter);
        }
        const float first = op->beta1 * sink->first[at] + op->share1 * decayed;
        const float second = op->beta2 * sink->second[at] + op->share2 * (decayed * decayed);
        sink->first[at] = first;
        sink->second[at] = second;
        const float root = poet_sqrtf(second * pace[3]) + op->eps;
        sink->parameter[at] = parameter - pace[0] * (first * pace[2] / root);
    }
}
