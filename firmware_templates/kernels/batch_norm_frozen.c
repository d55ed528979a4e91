/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm_frozen.h"

#include "poet_math.h"

void poet_batch_norm_frozen_backward_f32(const struct poet_batch_norm *op, const float *dy,
                                         const float *affine, const float *running, float *dx)
{
    const int32_t channels = op->channels;
    const int32_t plane = op->height * op->width;
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t c = 0; c < channels; c++) {
            const float scale = affine[c] / poet_inline_sqrtf(running[channels + c] + op->eps);
            for (int32_t i = 0; i < plane; i++) {
                *dx++ = *dy++ * scale;
            }
        }
    }
}
