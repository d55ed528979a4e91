/* SPDX-License-Identifier: Apache-2.0 */
#include "sgd.h"

#include "vectors.h"

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
    int32_t i = 0;
#if POET_HAS_VECTORS
    for (; i + 4 <= count; i += 4) {
        const poet_floats old = poet_load(parameter + i);
        poet_floats step = poet_load(gradient + i);
        step = poet_is_set(decay) ? step + decay * old : step;
        if (first != NULL) {
            const poet_floats velocity = step + momentum * poet_load(first + i);
            poet_store(first + i, velocity);
            step = nesterov ? step + momentum * velocity : velocity;
        }
        poet_store(parameter + i, old - rate * step);
    }
#endif
    for (; i < count; i++) {
        const float old = parameter[i];
        float step = poet_decayed_f32(gradient[i], decay, old);
        if (first != NULL) {
            const float velocity = step + momentum * first[i];
            first[i] = velocity;
            step = nesterov ? step + momentum * velocity : velocity;
        }
        parameter[i] = old - rate * step;
    }
}
