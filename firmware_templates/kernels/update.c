/* SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

void poet_update_f32(int32_t elements, const float *gradient, const float *factor,
                     const struct poet_update *update, const float *pace, float *parameter,
                     float *first, float *second, float *sum)
{
    const struct poet_gradient_sink sink = {
        .update = update, .pace = pace, .parameter = parameter, .first = first, .second = second,
        .sum = sum};
    const float scale = factor != NULL ? *factor : 1.0f;
    for (int32_t i = 0; i < elements; i++) {
        poet_apply_f32(&sink, i, scale * gradient[i]);
    }
}
