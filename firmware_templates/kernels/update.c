/* SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

void poet_apply_f32(const struct poet_gradient_sink *sink, int32_t index, float gradient)
{
    if (sink->sum != NULL) {
        const int is_last = poet_is_set(sink->pace[1]);
        const float sum = sink->sum[index] + gradient;
        sink->sum[index] = is_last ? 0.0f : sum;
        if (!is_last) {
            return;
        }
        gradient = sum * sink->update->share;
    }
    const float limit = sink->update->clip_value;
    if (poet_is_set(limit)) {
        gradient = gradient > limit ? limit : gradient < -limit ? -limit : gradient;
    }
    sink->update->step(sink, index, 1, &gradient);
}

void poet_gradient_sink_put_run_f32(const struct poet_gradient_sink *sink, int32_t index,
                                    int32_t count, const float *elements)
{
    if (sink->gradient == NULL && sink->sum == NULL && !poet_is_set(sink->update->clip_value)) {
        sink->update->step(sink, index, count, elements);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        poet_gradient_sink_put_f32(sink, index + i, elements[i]);
    }
}

void poet_update_f32(int32_t elements, const float *gradient, const float *factor,
                     const struct poet_update *update, const float *pace, float *parameter,
                     float *first, float *second, float *sum)
{
    const struct poet_gradient_sink sink =
        poet_applying_sink(update, pace, parameter, first, second, sum);
    if (factor == NULL && sum == NULL && !poet_is_set(update->clip_value)) {
        update->step(&sink, 0, elements, gradient);
        return;
    }
    const float scale = factor != NULL ? *factor : 1.0f;
    for (int32_t i = 0; i < elements; i++) {
        poet_apply_f32(&sink, i, scale * gradient[i]);
    }
}
