/* SPDX-License-Identifier: Apache-2.0 */
#include "adagrad.h"

#include "poet_math.h"

void poet_adagrad_step_f32(const struct poet_gradient_sink *sink, int32_t index, float gradient)
{
    const struct poet_adagrad *op = (const struct poet_adagrad *)(const void *)sink->update;
    gradient = poet_decayed_f32(sink, index, gradient);
    const float sum = sink->first[index] + gradient * gradient;
    sink->first[index] = sum;
    const float step = gradient / (poet_sqrtf(sum) + op->eps);
    sink->parameter[index] -= poet_learning_rate_f32(sink) * step;
}
